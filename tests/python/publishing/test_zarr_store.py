"""A container as a store of zarr-python: the log is read as Zarr, and writes as Zarr make a container."""

import asyncio
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import drystone as dry
import numpy as np
import pytest
import xarray as xr
import zarr
from drystone.zarr_store import DrystoneStore
from same_bits import commits_by_itself, random_array, same
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

SCALARS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def fetch(store, key, part=None):
    buffer = asyncio.run(store.get(key, default_buffer_prototype(), part))
    return None if buffer is None else buffer.to_bytes()


def keys(store, prefix=""):
    async def collect():
        return [key async for key in store.list_prefix(prefix)]

    return asyncio.run(collect())


@pytest.mark.parametrize("dtype", SCALARS)
def test_every_dtype_of_the_log_is_read_value_for_value(container, dtype):
    rng = np.random.default_rng(5)
    array = random_array(rng, np.dtype(dtype), (3, 17, 40))
    fill = random_array(rng, np.dtype(dtype), ())[()]
    container.create_variable("g/v", dtype, shape=(17, 40), steps=True, transform="zstd:1", fill_value=fill)
    with commits_by_itself(container) as w:
        for t in (0, 2):
            with w.step(t):
                w.put("g/v", array[t, 3:9, :21], offset=(3, 0))
    expected = np.full((3, 17, 40), fill, dtype)
    expected[[0, 2], 3:9, :21] = array[[0, 2], 3:9, :21]
    seen = zarr.open_group(container.zarr_store(), mode="r")["g/v"]
    same(seen[...], expected)
    same(seen[2, ::3, 5:], expected[2, ::3, 5:])


def test_the_hierarchy_has_names_attributes_dimensions_records_and_strings(container):
    dtype = np.dtype([("x", "f4"), ("t", "i2", (2,)), ("s", "S3")])
    records = random_array(np.random.default_rng(2), dtype, (6, 4))
    container.attrs["title"] = "run 42"
    container.create_group("empty", attrs={"of": "nothing"})
    container.create_variable(
        "größe/T", "f4", shape=(4, 5), dims=("y", "x"), steps=True, attrs={"units": "K"}
    )
    container.create_variable("P", dtype, shape=(6, 4), attrs={"long_name": "particles"})
    container.create_variable("names", "str", shape=(2, 3))
    container.create_variable("one", "i8", shape=())
    container.create_variable("mine", "f4", local=True)
    texts = np.array([["a", "", "größe"], ["d", "e" * 300, "日本"]], object)
    with commits_by_itself(container) as w:
        w.put("P", records)
        w.put("one", np.int64(-7))
        w.put("names", texts)
        with w.step():
            w.put("größe/T", np.full((4, 5), 2.5, "f4"))
    store = container.zarr_store()
    root = zarr.open_group(store, mode="r")
    assert root.attrs["title"] == "run 42"
    assert root["empty"].attrs["of"] == "nothing"
    assert root["größe/T"].attrs["units"] == "K"
    assert root["größe/T"].metadata.dimension_names == ("step", "y", "x")
    same(root["größe/T"][...], np.full((1, 4, 5), 2.5, "f4"))
    assert root["one"][...] == -7
    assert root["names"][...].astype(object).tolist() == texts.tolist()
    assert root["P"].attrs["long_name"] == "particles"
    same(root["P/x"][...], records["x"])
    same(root["P/t"][...], records["t"])
    same(root["P/s"][...], np.ascontiguousarray(records["s"]))
    assert "mine" not in root
    plain = zarr.open_group(store, mode="r", use_consolidated=False)
    assert {n for n, _ in plain.members(max_depth=None)} == {n for n, _ in root.members(max_depth=None)}


def test_xarray_opens_unpublished_data(container):
    container.create_variable(
        "T", "f4", shape=(4, 5), dims=("y", "x"), steps=True, attrs={"_FillValue": -1.0}
    )
    container.create_variable("y", "f8", shape=(4,), dims=("y",), attrs={"units": "m"})
    with commits_by_itself(container) as w:
        w.put("y", np.arange(4.0))
        for t in range(3):
            with w.step():
                w.put("T", np.array([[t, -1, 2, 3, 4]] * 4, "f4"))
    with xr.open_zarr(container.zarr_store()) as ds:
        assert ds["T"].dims == ("step", "y", "x")
        assert np.isnan(ds["T"].values[:, :, 1]).all()
        assert (ds["T"].values[:, 0, 0] == np.arange(3)).all()
        assert (ds["y"].values == np.arange(4.0)).all()
        assert ds["y"].attrs["units"] == "m"


def test_a_read_only_store_shows_its_snapshot_for_ever_and_refuses_to_write(container):
    container.create_variable("v", "i4", shape=(10,))
    with container.writer() as w:
        w.put("v", np.arange(10, dtype="i4"))
    container.commit()
    store = container.zarr_store()
    copy = pickle.loads(pickle.dumps(store))
    with container.writer() as w:
        w.put("v", np.zeros(10, "i4"))
    container.commit()
    container.create_variable("w", "i4", shape=(3,))
    for one in (store, copy, store.with_read_only(True)):
        root = zarr.open_group(one, mode="r")
        assert list(root) == ["v"]
        assert (root["v"][...] == np.arange(10)).all()
    assert (zarr.open_group(container.zarr_store(), mode="r")["v"][...] == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_group(store, mode="r+")["v"][0] = 1
    assert copy == store
    assert container.zarr_store() != store


def test_parts_of_chunks_listings_and_missing_chunks(container):
    container.create_variable("a/v", "u1", shape=(100,), chunks=(10,))
    with container.writer() as w:
        w.put("a/v", np.arange(10, 30, dtype="u1"), offset=(10,))
    container.commit()
    store = container.zarr_store()
    assert fetch(store, "a/v/c/1") == bytes(range(10, 20))
    assert fetch(store, "a/v/c/1", RangeByteRequest(2, 5)) == bytes([12, 13, 14])
    assert fetch(store, "a/v/c/1", OffsetByteRequest(8)) == bytes([18, 19])
    assert fetch(store, "a/v/c/1", SuffixByteRequest(3)) == bytes([17, 18, 19])
    for missing in ("a/v/c/0", "a/v/c/10", "a/v/c/01", "a/v/c", "a/v/c/1/0", "a/v/x", "b", "a/v/c/-1", "c/1"):
        assert fetch(store, missing) is None
        assert not asyncio.run(store.exists(missing))
    assert sorted(keys(store)) == ["a/v/c/1", "a/v/c/2", "a/v/zarr.json", "a/zarr.json", "zarr.json"]
    assert keys(store, "a/v/c/2") == ["a/v/c/2"]

    async def names(prefix):
        return [name async for name in store.list_dir(prefix)]

    assert asyncio.run(names("")) == ["a", "zarr.json"]
    assert asyncio.run(names("a/v")) == ["c", "zarr.json"]
    assert asyncio.run(names("a/v/c/")) == ["1", "2"]
    assert zarr.open_group(store, mode="r")["a/v"].nchunks_initialized == 2


def test_what_is_written_as_zarr_is_a_container(path):
    store = DrystoneStore(path)
    root = zarr.open_group(store, mode="w", attributes={"title": "from zarr"})
    rng = np.random.default_rng(1)
    values = rng.random((50, 60)).astype("f4")
    array = root.create_array(
        "fields/T",
        shape=(50, 60),
        dtype="f4",
        chunks=(20, 25),
        dimension_names=("y", "x"),
        attributes={"units": "K"},
        fill_value=np.nan,
    )
    array[:, :41] = values[:, :41]
    sharded = root.create_array("s", shape=(64,), dtype="i8", chunks=(8,), shards=(32,), compressors=None)
    sharded[5:40] = np.arange(35)
    texts = root.create_array("names", shape=(3,), dtype="str")
    texts[...] = np.array(["a", "", "größe"], object)
    with dry.open(path) as c:
        assert c.attrs["title"] == "from zarr"
        T = c["fields/T"]
        assert (T.shape, T.dims, T.dtype, T.attrs["units"]) == ((50, 60), ("y", "x"), np.dtype("f4"), "K")
        same(T[:, :41], values[:, :41])
        assert np.isnan(T[:, 41:]).all()
        assert T.transform is not None
        assert (c["s"][5:40] == np.arange(35)).all()
        assert list(c["names"][...]) == ["a", "", "größe"]
        assert c.verify().damage == []
    array[7, 3] = 9
    array.resize((55, 60))
    array.attrs["units"] = "C"
    with dry.open(path) as c:
        assert c["fields/T"].shape == (55, 60)
        assert c["fields/T"][7, 3] == 9
        assert c["fields/T"].attrs["units"] == "C"
    again = zarr.open_group(pickle.loads(pickle.dumps(store)), mode="r")
    assert again["fields/T"].chunks == (20, 25)
    assert again["s"].shards == (32,)
    assert (again["s"][5:40] == np.arange(35)).all()
    del root["s"]
    assert "s" not in root
    with dry.open(path) as c:
        assert list(c.variables) == ["fields/T", "names"]


def test_variables_of_the_container_can_be_written_through_zarr(container):
    container.create_variable("v", "f8", shape=(30,), transform="zstd:1", fill_value=-1, chunks=(10,))
    container.create_variable("T", "i4", shape=(6,), steps=True)
    with commits_by_itself(container) as w, w.step():
        w.put("T", np.zeros(6, "i4"))
    root = zarr.open_group(container.zarr_store(read_only=False), mode="r+")
    root["v"][5:25] = np.arange(20.0)
    root["T"][0, 2:4] = 7
    container.refresh()
    assert container["v"][...].tolist() == [-1.0] * 5 + list(range(20)) + [-1.0] * 5
    assert container["T"][...].tolist() == [[0, 0, 7, 7, 0, 0]]
    with pytest.raises(dry.UnsupportedError, match="writer"):
        root["T"].resize((3, 6))


def test_chunks_written_at_once_by_threads_and_other_stores_are_all_there(path):
    store = DrystoneStore(path)
    zarr.open_group(store, mode="w").create_array("v", shape=(64, 16), dtype="i8", chunks=(4, 16))
    others = [pickle.loads(pickle.dumps(store)) for _ in range(2)]

    def write(row):
        zarr.open_group([store, *others][row % 3], mode="r+")["v"][4 * row : 4 * row + 4] = row

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(16)))
    expected = np.repeat(np.arange(16), 4)[:, None] * np.ones(16, "i8")
    assert (zarr.open_group(store, mode="r")["v"][...] == expected).all()
    with dry.open(path) as c:
        assert (c["v"][...] == expected).all()


def test_what_has_no_form_in_drystone_is_refused_and_leaves_nothing(path):
    store = DrystoneStore(path)
    root = zarr.open_group(store, mode="w")
    with pytest.raises(dry.UnsupportedError, match="name"):
        zarr.create_array(store, shape=(4,), dtype="i4", overwrite=True)
    root.create_array("v", shape=(4,), dtype="i4")
    document = json.loads(fetch(store, "v/zarr.json"))
    document["chunk_grid"]["configuration"]["chunk_shape"] = [2]
    buffer = default_buffer_prototype().buffer.from_bytes(json.dumps(document).encode())
    with pytest.raises(dry.ConflictError, match="delete it"):
        asyncio.run(store.set("v/zarr.json", buffer))
    assert list(root) == ["v"]


def test_what_is_written_through_the_store_can_be_published(path):
    store = DrystoneStore(path)
    values = np.random.default_rng(3).random((40, 30))
    zarr.open_group(store, mode="w").create_array("v", data=values, chunks=(16, 16))
    asyncio.run(store.set("notes.txt", default_buffer_prototype().buffer.from_bytes(b"kept as it is")))
    assert fetch(store, "notes.txt") == b"kept as it is"
    with dry.open(path, "r+") as c:
        report = c.publish(progress=None)
        assert [a.path for a in report.arrays] == ["v"]
    published = zarr.open_group(report.path, mode="r")
    same(published["v"][...], values)
    assert set(published["v"].attrs) == {"drystone"}


def erase(store, key):
    asyncio.run(store.delete(key))


def erase_below(store, prefix):
    asyncio.run(store.delete_dir(prefix))


@pytest.fixture(params=["declared by Zarr", "of the container", "of another fill value"])
def chunked(request, container):
    """A store with `v`, 4 x 3 chunks of 5 x 10, all written."""
    if request.param == "declared by Zarr":
        root = zarr.open_group(container.zarr_store(read_only=False), mode="a")
        root.create_array("v", shape=(20, 30), chunks=(5, 10), dtype="f4", fill_value=7)
    else:
        attrs = {"_FillValue": np.float32(9)} if request.param == "of another fill value" else {}
        container.create_variable("v", "f4", shape=(20, 30), chunks=(5, 10), fill_value=7, attrs=attrs)
    store = container.zarr_store(read_only=False)
    zarr.open_group(store, mode="r+")["v"][...] = 1
    return store


def test_a_deleted_chunk_is_no_key_and_its_cells_are_the_fill_value(chunked):
    """Symptom: a deleted chunk's key existed and was listed, with fill values. Cause: deleting put fill values, and a
    written chunk is a key. This checks the key with every call about keys, and the values with two readers."""
    fill = zarr.open_group(chunked, mode="r")["v"].fill_value
    erase(chunked, "v/c/1/2")
    expected = np.ones((20, 30), "f4")
    expected[5:10, 20:30] = fill
    for store in (chunked, chunked.with_read_only(True), pickle.loads(pickle.dumps(chunked))):
        assert fetch(store, "v/c/1/2") is None
        assert not asyncio.run(store.exists("v/c/1/2"))
        assert "v/c/1/2" not in keys(store)
        assert len(keys(store, "v/c/")) == 11
        array = zarr.open_group(store, mode="r")["v"]
        assert array.nchunks_initialized == 11
        same(array[...], expected)
    with dry.open(chunked.container.path) as c:
        same(c["v"][...], expected)
    erase(chunked, "v/c/1/2")


def test_a_chunk_is_there_again_when_something_writes_to_it(chunked):
    for index in ("0/0", "0/1", "3/2"):
        erase(chunked, f"v/c/{index}")
    zarr.open_group(chunked, mode="r+")["v"][:5, :10] = 4
    with dry.open(chunked.container.path, "r+") as c:
        c["v"][0, 12] = 5
    assert "v/c/0/0" in keys(chunked)
    assert "v/c/0/1" in keys(chunked)
    assert "v/c/3/2" not in keys(chunked)
    assert (zarr.open_group(chunked, mode="r")["v"][0, [0, 12]] == [4, 5]).all()


def test_all_chunks_below_a_prefix_are_deleted(chunked):
    fill = zarr.open_group(chunked, mode="r")["v"].fill_value
    before = dry.open(chunked.container.path)
    erase_below(chunked, "v/c/2")
    assert sorted(keys(chunked, "v/c/2")) == []
    assert len(keys(chunked, "v/c/")) == 9
    erase_below(chunked, "v/c")
    assert keys(chunked, "v/") == ["v/zarr.json"]
    assert (zarr.open_group(chunked, mode="r")["v"][...] == fill).all()
    assert (before["v"][...] == 1).all(), "a snapshot does not change"
    with dry.open(chunked.container.path) as c:
        assert (c["v"][...] == fill).all()
    erase_below(chunked, "v")
    assert keys(chunked, "v") == []
    erase_below(chunked, "")
    assert keys(chunked) == []


def test_an_array_of_the_same_name_knows_nothing_of_chunks_that_were_deleted(chunked):
    erase(chunked, "v/c/0/0")
    root = zarr.open_group(chunked, mode="r+")
    del root["v"]
    root.create_array("v", shape=(20, 30), chunks=(5, 10), dtype="f4")[...] = 3
    assert len(keys(chunked, "v/c/")) == 12


def test_two_stores_that_delete_chunks_at_once_lose_neither(chunked):
    others = [chunked, *(pickle.loads(pickle.dumps(chunked)) for _ in range(2))]
    gone = [f"v/c/{i}/{j}" for i in range(4) for j in range(3) if (i, j) != (2, 1)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: erase(others[n % 3], gone[n]), range(len(gone))))
    assert keys(chunked, "v/c/") == ["v/c/2/1"]
    assert zarr.open_group(chunked, mode="r")["v"][10, 10] == 1


def test_chunks_of_steps_and_of_no_axes_are_deleted_too(container):
    container.create_variable("one", "i8")
    container.create_variable("T", "i4", shape=(6,), chunks=(3,), steps=True)
    with commits_by_itself(container) as w:
        w.put("one", 5)
        for _ in range(2):
            with w.step():
                w.put("T", np.full(6, 2, "i4"))
    store = container.zarr_store(read_only=False)
    erase(store, "one/c")
    erase(store, "T/c/1/0")
    assert sorted(keys(store, "T/c")) == ["T/c/0/0", "T/c/0/1", "T/c/1/1"]
    assert keys(store, "one/") == ["one/zarr.json"]
    root = zarr.open_group(store, mode="r")
    assert root["one"][...] == 0
    assert root["T"][...].tolist() == [[2] * 6, [0, 0, 0, 2, 2, 2]]
