"""What people expect who know h5py and zarr: the same calls on all three give the same."""

from collections.abc import Mapping

import dask.array as da
import drystone as dry
import h5py
import numpy as np
import pytest
import zarr

FIELD = np.arange(3 * 8 * 10, dtype="f4").reshape(3, 8, 10)


@pytest.fixture(params=["drystone", "h5py", "zarr"])
def library(request):
    return request.param


@pytest.fixture
def place(library, tmp_path):
    """An empty group of each library, to be written and read."""
    if library == "h5py":
        with h5py.File(tmp_path / "a.h5", "w") as f:
            yield f
    elif library == "zarr":
        yield zarr.open_group(tmp_path / "a.zarr", mode="w")
    else:
        with dry.create(tmp_path / "a.dry", durability="memory") as c:
            yield c


@pytest.fixture
def field(library, place):
    """An array of the same values and chunks in each of them."""
    if library == "h5py":
        return place.create_dataset("T", data=FIELD, chunks=(1, 4, 10))
    if library == "zarr":
        array = place.create_array("T", shape=FIELD.shape, dtype="f4", chunks=(1, 4, 10))
    else:
        array = place.create_variable("T", "f4", (8, 10), steps=True, chunks=(4, 10))
    array[0:3] = FIELD
    return array


# Arrays.


def test_arrays_tell_their_form(field):
    assert (field.shape, field.chunks, field.ndim, field.size) == ((3, 8, 10), (1, 4, 10), 3, 240)
    assert field.nbytes == FIELD.nbytes
    assert field.dtype == np.dtype("f4")


def test_dask_takes_an_array_as_it_is(field):
    """Symptom: `da.from_array(c["T"])` was "TypeError: 'method' object is not iterable", and so was `chunks="auto"`.

    Cause: Dask looks at `.chunks`, which was a method and not a shape. Each call here looks at it.
    """
    for lazy in (da.from_array(field), da.from_array(field, chunks="auto")):
        assert (lazy[1:].compute() == FIELD[1:]).all()
    assert da.from_array(field, chunks=field.chunks).chunks == ((1, 1, 1), (4, 4), (10,))


def test_arrays_become_numpy_arrays_and_are_iterated(field):
    assert (np.asarray(field) == FIELD).all()
    assert np.asarray(field, "f8").dtype == np.dtype("f8")
    assert [row.shape for row in field] == [(8, 10)] * 3
    assert sum(float(row.sum()) for row in field) == FIELD.sum()


def test_a_variable_has_a_length_as_in_h5py(container):
    assert len(container.create_variable("T", "f4", (7, 2))) == 7
    with pytest.raises(TypeError, match="no length"):
        len(container.create_variable("one", "f4"))


def test_values_go_by_dlpack(container):
    T = container.create_variable("T", "f4", (2, 2))
    T[...] = [[1, 2], [3, 4]]
    assert np.from_dlpack(T).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(BufferError, match="without a copy"):
        T.__dlpack__(copy=False)
    with pytest.raises(dry.InvalidArgumentError, match="not a Variable"):
        T.oindex.read(..., out=T)  # would fill a copy, and lose it


def test_chunks_are_the_cut_in_use_where_none_was_given(container):
    c = container
    big = c.create_variable("big", "f4", (512, 512), steps=True, transform="zstd")
    assert big.chunks is None
    with c.writer(rank=0, nranks=1) as w, w.step():
        w.put("big", np.zeros((256, 512), "f4"))
        w.put("big", np.zeros((1, 1), "f4"), offset=(300, 0))
    assert big.chunks == (1, *big.blocks(0)[0].chunks)
    assert c.create_variable("one", "f4").chunks is None
    assert c.create_variable("own", "f4", local=True).chunks is None
    record = c.create_variable("r", [("v", "f4", (3,)), ("x", "i2")], (8,), chunks=(4,))
    assert (record.chunks, record["v"].chunks, record["x"].chunks) == ((4,), (4, 3), (4,))


def test_chunks_follow_the_snapshot(container):
    v = container.create_variable("v", "i4", (8,))
    assert v.chunks is None
    v[2:5] = 1
    assert v.chunks == (3,)
    assert [place for place, _ in v.pieces()] == [(slice(0, 8),)]


# Containers and groups.


@pytest.fixture
def full(library, place):
    """The same names in each of them."""
    for group in ("fields", "fields/old"):
        place.create_group(group)
    for name in ("T", "fields/p", "fields/old/p", "z"):
        if library == "drystone":
            place.create_variable(name, "i4", (3,))
        elif library == "h5py":
            place.create_dataset(name, (3,), "i4")
        else:
            place.create_array(name, shape=(3,), dtype="i4")
    return place


def test_groups_are_mappings(full, library):
    assert len(full) == 3
    assert sorted(full) == sorted(full.keys()) == ["T", "fields", "z"]
    if library != "zarr":  # which has `members` in place of `items` and `values`
        assert isinstance(full, Mapping)
        assert len(full.values()) == len(full.items()) == len(list(full.values())) == 3
        assert {n: v.name.strip("/") for n, v in full.items()} == {n: n for n in ("T", "fields", "z")}
    assert "T" in full
    assert "fields/old/p" in full
    assert "no" not in full
    assert "fields/no" not in full
    assert full.get("no") is None
    assert full.get("no", 7) == 7
    assert (
        full.get("fields/p").shape == full["fields"]["p"].shape == full["fields"].get("old/p").shape == (3,)
    )
    assert sorted(full["fields"]) == ["old", "p"]
    with pytest.raises(KeyError):
        full["no"]


@pytest.mark.parametrize("library", ["drystone", "h5py"], indirect=True)
def test_items_are_visited(full):
    seen = []
    assert full.visititems(lambda name, value: seen.append((name, isinstance(value, Mapping)))) is None
    assert seen == [
        ("T", False), ("fields", True), ("fields/old", True), ("fields/old/p", False), ("fields/p", False), ("z", False)
    ]  # fmt: skip
    assert full["fields"].visit(lambda name: name if name.endswith("p") else None) == "old/p"
    assert "fields" in full._ipython_key_completions_()


def test_names_that_nothing_can_have_are_not_there(container):
    assert container.get("a" * 2000, "no") == container.get("\ud800", "no") == container.get(3, "no") == "no"
    assert container.get("") is container


def test_groups_are_equal_only_to_themselves_and_true_while_open(container):
    """A mapping in Python is true if it is not empty, and equal to what has equal items; as of h5py, ours are not."""
    c = container
    group = c.create_group("a")
    assert c
    assert group
    assert not len(group)
    assert group != c.create_group("b")
    assert {c: 1, group: 2}[c] == 1
    c.close()
    assert not c
    assert not group


def test_completions_are_paths_and_members(container):
    container.create_variable("g/r", [("x", "f4"), ("v", "i2", (2,))], (3,))
    assert container._ipython_key_completions_() == ["g", "g/r"]
    assert container["g/r"]._ipython_key_completions_() == ["x", "v"]


def test_containers_are_printed_as_trees(container):
    c = container
    c.create_variable("T", "f4", (30, 40), dims=("y", "x"), steps=True)
    c.create_variable("g/h/names", str, (3,))
    c.create_variable("g/own", "i2", local=True)
    c.create_variable("g-1", "i2", steps=True)
    lines = """
├── T  float32 (0, 30, 40) (step, y, x)
├── g/
│   ├── h/
│   │   └── names  str (3,)
│   └── own  local int16
└── g-1  int16 (0,), with steps"""
    assert str(c) == repr(c) + lines
    assert repr(c.tree()) == str(c.tree()) == "/" + lines
    assert "\n" not in repr(c)
    assert str(c["g"].tree(depth=1)) == "g\n├── h/\n└── own  local int16"
    with pytest.raises(dry.InvalidArgumentError, match="depth is 0"):
        c.tree(0)
    c.close()
    assert str(c) == repr(c)


def test_large_containers_are_printed_in_part(container):
    with container.batch():
        for n in range(70):
            container.create_variable(f"v{n:02}", "i4")
    assert str(container).splitlines()[-2:] == ["├── v59  int32 ()", "… and 10 more names"]
    assert len(container.tree().splitlines()) == 71
