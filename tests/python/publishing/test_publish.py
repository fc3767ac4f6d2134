"""A publication is plain Zarr: readers without Drystone read every value as written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from published import by_tensorstore, by_zarr, files, publish, shards
from same_bits import commits_by_itself, random_array, same

SCALARS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def check(c, path, expected):
    """Check that both readers return the array, bit for bit."""
    same(np.asarray(by_zarr(c, path)), np.asarray(expected))
    same(by_tensorstore(c, path), np.asarray(expected))


@pytest.mark.parametrize("transform", [None, "shuffle,zstd:1"])
@pytest.mark.parametrize("dtype", SCALARS)
def test_both_readers_give_every_dtype_value_for_value(container, dtype, transform):
    rng = np.random.default_rng(7)
    array = random_array(rng, np.dtype(dtype), (3, 17, 40))
    fill = random_array(rng, np.dtype(dtype), ())[()]
    container.create_variable("v", dtype, shape=(17, 40), steps=True, transform=transform, fill_value=fill)
    with commits_by_itself(container) as w:
        for t in (0, 2):
            with w.step(t):
                w.put("v", array[t, 3:9], offset=(3, 0))
    publish(container)
    expected = np.full((3, 17, 40), fill, dtype)
    expected[[0, 2], 3:9] = array[[0, 2], 3:9]
    same(np.asarray(container["v"][...]), expected)
    check(container, "v", expected)


def test_the_whole_hierarchy_is_there_with_names_attributes_and_dimensions(container):
    container.attrs["title"] = "run 42"
    container.create_group("fields", attrs={"of": "atmosphere"})
    container.create_variable(
        "fields/T", "f4", shape=(4, 5), dims=("y", "x"), steps=True, attrs={"units": "K"}
    )
    container.create_variable("fields/z", "f8", shape=(), steps=True)
    container.create_variable("größe", "i4", shape=(3,))
    container.create_variable("one", "i8", shape=())
    with commits_by_itself(container) as w:
        w.put("größe", np.arange(3, dtype="i4"))
        w.put("one", np.int64(-7))
        with w.step():
            w.put("fields/T", np.full((4, 5), 2.5, "f4"))
            w.put("fields/z", np.float64(0.5))
    report = publish(container)
    root = zarr.open_group(report.path, mode="r", use_consolidated=True)
    assert root.attrs["title"] == "run 42"
    assert root.attrs["drystone"]["snapshot"] == report.snapshot == int(container.snapshot) - 1
    assert root["fields"].attrs["of"] == "atmosphere"
    field = root["fields/T"]
    assert field.attrs["units"] == "K"
    assert field.metadata.dimension_names == ("step", "y", "x")
    assert field.shape == (1, 4, 5)
    (odd,) = [a for a in report.arrays if a.variable == "größe"]
    assert odd.path.isascii()
    check(container, odd.path, np.arange(3, dtype="i4"))
    check(container, "fields/T", np.full((1, 4, 5), 2.5, "f4"))
    check(container, "fields/z", np.array([0.5]))
    check(container, "one", np.int64(-7))
    unconsolidated = zarr.open_group(report.path, mode="r", use_consolidated=False)
    assert {name for name, _ in unconsolidated.members(max_depth=None)} == {
        name for name, _ in root.members(max_depth=None)
    }


def test_records_become_a_group_with_one_array_per_member(container):
    inner = np.dtype([("x", "f4"), ("t", "i2", (2,))])
    dtype = np.dtype(
        [("id", "u8"), ("p", inner), ("q", inner, (2,)), ("m", "f8", (2, 3)), ("s", "S5"), ("u", "U3")]
    )
    rng = np.random.default_rng(3)
    array = random_array(rng, dtype, (6, 4))
    container.create_variable("P", dtype, shape=(6, 4), attrs={"long_name": "particles"})
    with container.writer() as w:
        w.put("P", array)
    container.commit()
    report = publish(container)
    paths = {a.member: a.path for a in report.arrays}
    assert zarr.open_group(report.path, mode="r")["P"].attrs["long_name"] == "particles"
    check(container, paths["id"], array["id"])
    check(container, paths["p.x"], array["p"]["x"])
    check(container, paths["p.t"], array["p"]["t"])
    check(container, paths["m"], array["m"])
    for i in range(2):
        check(container, paths[f"q[{i}].t"], array["q"]["t"][:, :, i])
    for member in ("s", "u"):  # TensorStore does not read it
        same(np.asarray(by_zarr(container, paths[member])), np.ascontiguousarray(array[member]))


def test_bfloat16_is_published_as_its_bits(container):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.arange(12).astype(ml_dtypes.bfloat16)
    container.create_variable("b", values.dtype, shape=(12,), fill_value=values[3])
    with container.writer() as w:
        w.put("b", values[:6])
    container.commit()
    publish(container)
    values[6:] = values[3]
    check(container, "b", values.view("u2"))
    assert (
        zarr.open_group(Path(container.path) / "zarr", mode="r")["b"].attrs["drystone"]["dtype"] == "bfloat16"
    )


def test_what_has_no_portable_form_is_named_and_refused_by_name(container):
    container.create_variable("text", "str", shape=(2,))
    container.create_variable("mine", "f4", steps=True, local=True)
    container.create_variable("v", "f4", shape=(2,))
    report = publish(container)
    assert set(report.skipped) == {"mine"}
    assert [a.path for a in report.arrays] == ["text", "v"]
    assert not publish(container, variables=["v"]).skipped  # the others were not requested
    with pytest.raises(dry.UnsupportedError, match="local"):
        publish(container, variables=["mine"])
    with pytest.raises(dry.NotFoundError, match="v"):
        publish(container, variables="w")


def test_a_rerun_writes_only_what_changed(container):
    container.create_variable("T", "f4", shape=(600, 600), steps=True, dims=("y", "x"))
    container.create_variable("still", "f8", shape=(100,))
    expected = np.zeros((3, 600, 600), "f4")
    with commits_by_itself(container) as w:
        w.put("still", np.arange(100.0))
        for t in range(2):
            expected[t] = t + 1
            with w.step():
                w.put("T", expected[t])
    first = publish(container, chunks={"T": (1, 300, 300)})
    before = files(container)
    again = publish(container)
    assert files(container) == before, "nothing is written again, metadata included"
    assert all(a.written == 0 for a in again.arrays)
    assert [a.chunks for a in again.arrays] == [a.chunks for a in first.arrays], "the layout stays"
    with commits_by_itself(container) as w, w.step():
        expected[2] = 9
        w.put("T", expected[2])
    publish(container)
    assert shards(container)["still/c/0"] == before["still/c/0"]
    check(container, "T", expected)
    with container.writer() as w, w.step(1):
        expected[1, 5, 5] = -1
        w.put("T", expected[1, 5:6, 5:6], offset=(5, 5))
    container.commit()
    publish(container)
    check(container, "T", expected)


def test_steps_that_are_replaced_shrunk_and_deleted_are_followed(container):
    container.create_variable("T", "i4", shape=(50, 40), steps=True, fill_value=-1)
    container.create_variable("gone", "i4", shape=(5,))
    with commits_by_itself(container) as w:
        w.put("gone", np.ones(5, "i4"))
        for t in range(2):
            with w.step():
                w.put("T", np.full((50, 40), t, "i4"))
    publish(container)
    with commits_by_itself(container) as w, w.step(0, replace=True):
        w.put("T", np.full((3, 3), 7, "i4"), offset=(1, 1))
    publish(container)
    check(container, "T", container["T"][...])
    container["T"].resize((20, 40))
    publish(container)
    check(container, "T", container["T"][...])
    container["T"].resize((60, 40))
    container.delete("gone")
    report = publish(container)
    assert not (Path(report.path) / "gone").exists()
    check(container, "T", container["T"][...])
    assert (container["T"][1, 20:] == -1).all()
    container.delete("T")
    container.create_variable("T", "f8", shape=(7,))
    publish(container)
    check(container, "T", np.zeros(7))
    assert all(name.startswith(("zarr.json", "T/")) for name in files(container))


def test_other_chunks_or_another_compressor_publish_an_array_again(container):
    container.create_variable("v", "f8", shape=(64, 64), transform="zstd:1")
    with container.writer() as w:
        w.put("v", np.arange(64 * 64, dtype="f8").reshape(64, 64))
    container.commit()
    expected = container["v"][...]
    sizes = set()
    for options in ({}, {"chunks": {"v": (16, 64)}}, {"compressor": None}, {"compressor": "zstd:9"}):
        publish(container, **options)
        check(container, "v", expected)
        sizes.add((Path(container.path) / "zarr/v/c/0/0").stat().st_size)
    assert len(sizes) == 4
    assert zarr.open_group(Path(container.path) / "zarr", mode="r")["v"].chunks == (16, 64), "stays"
    for wrong in (
        {"chunks": {"v": (0, 1)}},
        {"chunks": {"v": (4,)}},
        {"compressor": "lzma"},
        {"memory": 1000},
    ):
        with pytest.raises(dry.InvalidArgumentError):
            publish(container, **wrong)


def test_what_others_put_there_is_left_alone_and_never_replaced(container):
    container.create_variable("v", "f8", shape=(4,))
    publish(container)
    root = Path(container.path) / "zarr"
    zarr.create_array(os.fspath(root / "theirs"), data=np.arange(5))
    container.create_variable("theirs", "f8", shape=(4,))
    with pytest.raises(dry.ConflictError, match="theirs"):
        publish(container)
    publish(container, variables=["v"])
    container.delete("theirs")
    publish(container)
    assert (zarr.open_array(root / "theirs", mode="r")[...] == np.arange(5)).all()


def test_one_process_publishes_at_a_time_and_progress_can_stop_it(container):
    container.create_variable("v", "f8", shape=(64,), steps=True)
    with commits_by_itself(container) as w:
        for t in range(3):
            with w.step():
                w.put("v", np.full(64, t, "f8"))
    seen = []

    def nested(done, total):
        seen.append((done, total))
        with pytest.raises(dry.ConflictError, match=f"process {os.getpid()} "):
            publish(container)

    container.publish(progress=nested, chunks={"v": (1, 64)})
    assert seen[-1][0] == seen[-1][1] == 3 * 64 * 8
    with commits_by_itself(container) as w, w.step():
        w.put("v", np.ones(64))
    with pytest.raises(dry.CancelledError):
        container.publish(progress=lambda done, total: False)
    publish(container)
    check(container, "v", container["v"][...])
    with dry.open(container.path) as reader, pytest.raises(dry.InvalidArgumentError, match="reading only"):
        reader.publish()


def test_steps_are_published_while_they_arrive(path):
    with dry.create(path) as c:
        c.create_variable("T", "i4", shape=(40, 30), steps=True)
        writer = c.writer(rank=0, nranks=1)
        with dry.open(path, "r+") as publisher:
            for t in range(5):
                with writer.step():
                    writer.put("T", np.full((40, 30), t, "i4"))
                publish(publisher)
                seen = by_zarr(c, "T")
                assert seen.shape[0] == t + 1
                assert (seen == np.arange(t + 1)[:, None, None]).all()
        writer.close()


@st.composite
def histories(draw):
    shape = tuple(draw(st.lists(st.integers(1, 24), min_size=0, max_size=3)))
    steps = draw(st.booleans())
    dtype = draw(st.sampled_from(["u1", "i4", "f8", "c8"]))
    puts = []
    for _ in range(draw(st.integers(0, 6))):
        lo = [draw(st.integers(0, n - 1)) for n in shape]
        count = [draw(st.integers(1, n - o)) for n, o in zip(shape, lo, strict=True)]
        puts.append((draw(st.integers(0, 4)), tuple(lo), tuple(count)))
    rank = len(shape) + steps
    chunks = tuple(draw(st.integers(1, 9)) for _ in range(rank)) if rank and draw(st.booleans()) else None
    cuts = draw(st.sets(st.integers(0, 6), max_size=2))
    return shape, steps, dtype, puts, chunks, cuts


@settings(max_examples=400 if os.environ.get("DRYSTONE_LONG") == "1" else 40)
@given(history=histories(), seed=st.integers(0, 1 << 30))
def test_any_history_of_puts_is_published_as_it_reads(tmp_path_factory, history, seed):
    shape, steps, dtype, puts, chunks, cuts = history
    rng = np.random.default_rng(seed)
    with dry.create(tmp_path_factory.mktemp("h") / "c.dry", durability="memory") as c:
        c.create_variable(
            "g/v", dtype, shape=shape, steps=steps, transform="zstd:1" if seed % 2 else None, fill_value=3
        )
        options = {"chunks": {"g/v": chunks}} if chunks else {}
        for number, (step, offset, count) in enumerate(puts):
            if number in cuts:
                publish(c, **options)
            block = random_array(rng, np.dtype(dtype), count)
            with c.writer() as w:
                if steps:
                    with w.step(step):
                        w.put("g/v", block, offset=offset)
                else:
                    w.put("g/v", block, offset=offset)
            c.commit()
        publish(c, **options)
        check(c, "g/v", c["g/v"][...])
        document = json.loads((Path(c.path) / "zarr/g/v/zarr.json").read_text())
        assert document["shape"] == list(c["g/v"].shape)


def test_arrays_are_cut_for_the_reads_that_are_declared(container):
    """Lines along z through 64 x 128 x 128: whichever interface declares them, the chunks are long in z."""
    container.declare('dataset { var u[64, 128, 128] float32 steps dims(z, y, x) access "line:z 90%" }')
    container.create_variable(
        "v", "f4", (64, 128, 128), dims=("z", "y", "x"), steps=True, access="line:x, plane:x"
    )
    container.create_variable("w", "f4", (64, 128, 128), steps=True)
    accesses = [container[name].access for name in "uvw"]
    assert accesses == ["line:z 90%, standard 10%", "line:x 50%, plane:x 50%", None]
    array = np.random.default_rng(1).random((64, 128, 128), dtype="f4")
    with commits_by_itself(container) as w, w.step():
        for name in "uvw":
            w.put(name, array)
    u, v, w = publish(container).arrays
    assert u.chunks[1] == 64
    assert u.chunks[2] * u.chunks[3] < w.chunks[2] * w.chunks[3]
    for told in ["line:z, 90 %:", "box of 64 cells a side, 2 %:"]:
        assert told in u.why
    assert "line:x:" in v.why
    assert "line:x" not in w.why
    for name in "uvw":
        check(container, name, array[None])
    container.create_variable(
        "v", "f4", (64, 128, 128), dims=("z", "y", "x"), steps=True, access="line:x 50%, plane:x"
    )
    with pytest.raises(dry.ConflictError, match="access"):
        container.create_variable("v", "f4", (64, 128, 128), dims=("z", "y", "x"), steps=True)
    with pytest.raises(dry.InvalidArgumentError, match="there is no axis `w`"):
        container.create_variable("t", "f4", (8, 8), dims=("y", "x"), access="plane:w")


def test_the_command_publishes_and_says_what_it_did(container):
    container.create_variable("T", "f4", shape=(64, 64), steps=True)
    with commits_by_itself(container) as w, w.step():
        w.put("T", np.ones((64, 64), "f4"))
    command = [sys.executable, "-m", "drystone", "publish", container.path]
    shown = subprocess.run([*command, "--why"], check=True, capture_output=True, text=True).stdout
    assert "(1, 64, 64)" in shown
    assert "per request" in shown
    told = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
    assert (told["arrays"][0]["written"], told["arrays"][0]["kept"]) == (0, 1)
    check(container, "T", container["T"][...])


def test_publishing_stays_within_its_memory(path):
    script = """
import resource, sys
import drystone as dry
with dry.open(sys.argv[1], "r+") as c:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    c.publish(progress=None, memory=128 << 20)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    rng = np.random.default_rng(0)
    with dry.create(path, durability="memory") as c:
        c.create_variable("T", "f4", shape=(128, 128, 128), steps=True, transform="zstd:1")
        with commits_by_itself(c) as w:
            for _ in range(32):
                with w.step():
                    w.put("T", rng.integers(0, 99, (128, 128, 128)).astype("f4"))
        told = subprocess.run(
            [sys.executable, "-c", script, path], check=True, capture_output=True, text=True
        )
        assert int(told.stdout) << 10 < 128 << 20
        same(by_zarr(c, "T")[31, 5], c["T"][31, 5])


@pytest.mark.parametrize(
    ("dtype", "fill", "masked"),
    [
        ("i2", 1.5, False),
        ("i2", 1, True),
        ("u1", -255, False),
        ("i4", [1, 2], False),
        ("i4", [1], True),
        ("bool", 7, False),
        ("f4", "none", False),
        ("f4", 1e300, False),
        ("f8", [1.0], True),
    ],
)
def test_a_fill_value_that_the_dtype_does_not_hold_masks_nothing(path, dtype, fill, masked):
    """Symptom: readers used the nearest value, and values equal to that one were missing; with others the hierarchy
    did not open."""
    xarray = pytest.importorskip("xarray")
    with dry.create(path) as c:
        c.create_variable("v", dtype, (3,), attrs={"_FillValue": fill, "units": "K"})
        c["v"][...] = np.array([1, 0, 1]).astype(dtype)
        c.publish()
        with xarray.open_zarr(Path(path) / "zarr") as found:
            assert found["v"].attrs["units"] == "K"
            values = found["v"].values
        stored = by_zarr(c, "v")
    same(np.asarray(stored[...]), np.array([1, 0, 1]).astype(dtype))
    assert np.isnan(values[[0, 2]].astype("f8")).all() == masked
    if not masked:
        same(values, np.array([1, 0, 1]).astype(dtype))


@pytest.mark.parametrize(("dtype", "text"), [("S3", b"ab"), ("U3", "\xe4b")])
def test_a_text_of_fixed_length_alone_is_published(path, dtype, text):
    """Symptom: for a variable without axes and more than one byte: "'zarr/s/.drystone/statistics/' is not a valid
    key"."""
    with dry.create(path) as c:
        c.create_variable("s", dtype, ())
        c["s"][...] = text
        c.publish()
        stored = np.asarray(by_zarr(c, "s"), dtype)
    same(stored, np.array(text, dtype))


def test_an_array_of_fewer_dimensions_replaces_a_published_one(tmp_path):
    """Symptom: "'zarr/b/c/0' is not a valid key: it is the folder of other objects", at the first attempt."""
    with dry.create(tmp_path / "run.dry") as c:
        for values in (np.ones((4, 4)), np.arange(5.0), np.ones((2, 3, 4)), np.arange(3.0), np.float64(7)):
            if "b" in c:
                c.delete("b")
            c["b"] = values
            c.publish()
            assert np.array_equal(zarr.open_array(c.path + "/zarr/b", mode="r")[...], values)
