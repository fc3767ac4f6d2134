"""Expectations of h5py and zarr users: the same calls on all three libraries give the same results."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

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
    """An empty group of each library, for writing and reading."""
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
        T.oindex.read(..., out=T)  # would fill a copy that is then lost


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
    """Create the same names in each library."""
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
    if library != "zarr":  # zarr has `members` instead of `items` and `values`
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
    """A Python mapping is true if it is not empty, and equal to one with equal items. As in h5py, ours are not."""
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


# Assignment.


KEYS = {
    "strides": np.s_[:, ::3, 1::2],
    "backwards": np.s_[0, ::-2, ::-1],
    "a list": np.s_[:, [1, 5, 6], 2],
    "one cell": np.s_[2, [4], 3:9],
    "a list of steps": np.s_[[0, 2], 1:3],
    "a mask of an axis": (slice(None), np.arange(8) % 3 == 0),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_assignment_is_as_of_h5py_and_zarr(field, library, key):
    """Symptom: `T[::2] = a` and `T[[1, 5]] = a` were refused: only slices of step 1 and -1 could be assigned to."""
    if library != "drystone" and any(isinstance(k, slice) and (k.step or 1) < 0 for k in key):
        pytest.skip("h5py and zarr refuse negative steps")
    expected = FIELD.copy()
    values = -np.arange(1, 1 + expected[key].size, dtype="f4").reshape(expected[key].shape)
    expected[key] = values
    if library == "zarr":
        field.oindex[key] = values
    else:
        field[key] = values
    assert (field[...] == expected).all()


FANCY = {
    "a mask": FIELD % 7 == 0,
    "a mask of two axes": (1, FIELD[0] % 3 > 0),
    "lists together": np.s_[[0, 2, 2], :, [1, 3, 2]],
    "lists together, first": np.s_[:, [[7, 1], [2, 3]], [[0, 9], [4, 5]]],
    "a descending list": np.s_[:, [6, 5, 1]],
    "negative numbers": np.s_[-1, [-3, 2]],
    "new axes": np.s_[None, 1, :, None, [3, 4]],
    "nothing": np.s_[:, []],
    "true": np.s_[True, 1],
    "false": False,
}


@pytest.mark.parametrize("key", FANCY.values(), ids=FANCY.keys())
@pytest.mark.parametrize("steps", [True, False])
def test_assignment_is_as_of_numpy(container, key, steps):
    shape = FIELD.shape[steps:]
    T = container.create_variable("T", "f4", shape, steps=steps)
    T[0:3] = FIELD
    expected = FIELD.copy()
    values = -np.arange(1, 1 + expected[key].size, dtype="f4").reshape(expected[key].shape)
    T[key] = values
    expected[key] = values
    assert (T[...] == expected).all()
    T[key] = 5
    expected[key] = 5
    assert (T[...] == expected).all()


def test_of_cells_named_twice_the_last_counts(container):
    v = container.create_variable("v", "i4", (6,), steps=True)
    v[[0, 0]] = [[1] * 6, [2] * 6]
    v[0, [3, 3, 4, 3]] = [7, 8, 9, 10]
    assert v[...].tolist() == [[2, 2, 2, 10, 9, 2]]


def test_outer_and_vector_assignment(container):
    v = container.create_variable("v", "i4", (4, 5))
    expected = np.zeros((4, 5), "i4")
    v.oindex[[3, 0], [1, 2, 4]] = [[1, 2, 3], [4, 5, 6]]
    expected[np.ix_([3, 0], [1, 2, 4])] = [[1, 2, 3], [4, 5, 6]]
    v.vindex[[1, 2], [0, 3]] = [8, 9]
    expected[[1, 2], [0, 3]] = [8, 9]
    assert (v[...] == expected).all()


def test_lists_reach_beyond_the_end_where_it_grows(container):
    v = container.create_variable("v", "i4", (None, 2))
    v[[0, 3]] = [[1, 2], [3, 4]]
    assert v[...].tolist() == [[1, 2], [0, 0], [0, 0], [3, 4]]
    with pytest.raises(dry.OutOfRangeError):
        v[[-1, 6]] = 1
    with pytest.raises(dry.OutOfRangeError):
        v[:, [2]] = 1


def test_members_of_records_are_assigned_in_strides(container):
    v = container.create_variable("v", [("x", "f4"), ("n", "i2", (4,))], (6,))
    v["x"][::2] = [1, 2, 3]
    v["n"][[1, 4], ::3] = [[5, 6], [7, 8]]
    assert v["x"][...].tolist() == [1, 0, 2, 0, 3, 0]
    assert v["n"][...].tolist() == [[0] * 4, [5, 0, 0, 6], [0] * 4, [0] * 4, [7, 0, 0, 8], [0] * 4]


def test_texts_are_assigned_by_lists_and_masks(container):
    v = container.create_variable("v", str, (4,))
    v[[2, 0]] = ["two", "nought"]
    v[np.array([False, True, False, True])] = "odd"
    assert v[...].tolist() == ["nought", "odd", "two", "odd"]


def test_only_selected_cells_are_written(path):
    """Values that another writer puts between the selected cells stay: those cells are not read and written back."""
    with dry.create(path, durability="memory") as c, dry.open(path, "r+") as other:
        c.create_variable("v", "i4", (6,))
        other.refresh()
        c["v"][::2] = 1
        other["v"][1::2] = 2
        other.commit()
        c.commit()
        assert c["v"][...].tolist() == [1, 2] * 3
        assert [block.shape for block in c["v"].blocks()] == [(1,)] * 6


def test_an_assignment_of_too_many_boxes_is_refused(container):
    v = container.create_variable("v", "i4", (8194,))
    v[: 2 * 4096 : 2] = 1
    assert v[...].sum() == 4096
    with pytest.raises(dry.UnsupportedError, match="4097 boxes, and one assignment writes 4096 at most"):
        v[::2] = 2
    assert v[...].sum() == 4096


def test_what_was_just_assigned_counts_for_the_next_assignment(container):
    """Symptom: `T[0:3] = a; T[:, 0] = 5`, without a read in between, silently did not write the 5.

    Cause: the extent of growable axes was that of the last commit, so `:` selected no step.
    """
    T = container.create_variable("T", "i4", (2,), steps=True)
    T[0:3] = 1
    T[:, 0] = 5
    T[-1] = 6
    rows = container.create_variable("rows", "i4", (None, 2))
    rows[0:3] = 1
    rows[::2, 0] = 5
    assert T[...].tolist() == [[5, 1], [5, 1], [6, 6]]
    assert rows[...].tolist() == [[5, 1], [1, 1], [5, 1]]


# Appending.


def test_steps_are_appended(container):
    T = container.create_variable("T", "f4", (2, 2), steps=True)
    u = container.create_variable("u", "i4", steps=True)
    for n in range(3):
        T.append(np.full((2, 2), n))
        u.append(n)
    T.append(np.full((2, 2, 2), 7))
    assert container.steps == [0, 1, 2, 3, 4]
    assert T[:, 0, 0].tolist() == [0, 1, 2, 7, 7]
    assert u.steps == [0, 1, 2]
    T[8] = 9
    T.append(np.full((2, 2), 10))
    assert T.steps == [0, 1, 2, 3, 4, 8, 9]
    u.append(3)  # its own next step
    assert u.steps == [0, 1, 2, 3]
    container.commit()
    u.append(4)
    assert u[:5].tolist() == [0, 1, 2, 3, 4]


def test_appending_is_as_of_zarr(container):
    z = zarr.create_array({}, shape=(0, 3), dtype="i4", chunks=(2, 3))
    v = container.create_variable("v", "i4", (None, 3))
    for n in (2, 1, 4):
        for array in (z, v):
            array.append(np.full((n, 3), n, "i4"))
        assert (v[...] == z[...]).all()
    before = int(container.snapshot)
    for _ in range(5):
        v.append(np.zeros((1, 3), "i4"))
    assert v.shape == (12, 3)
    assert int(container.snapshot) == before + 1, "what was appended is one commit"
    texts = container.create_variable("texts", str, (None,))
    texts.append(["a", "bc"])
    texts.append(["d"])
    assert texts[...].tolist() == ["a", "bc", "d"]


def test_appending_says_what_does_not_fit(container):
    c = container
    with pytest.raises(dry.InvalidArgumentError, match="no axis that grows"):
        c.create_variable("still", "i4", (3,)).append([1])
    both = c.create_variable("both", "i4", (None, None))
    with pytest.raises(dry.InvalidArgumentError, match="several axes that grow"):
        both.append([[1]])
    both.append([[1, 2]], axis=0)
    both.append([[3]], axis=-1)
    assert both[...].tolist() == [[1, 2, 3]]
    rows = c.create_variable("rows", "i4", (None, 3))
    for wrong in ([[1, 2]], [1, 2, 3], 4):
        with pytest.raises(dry.InvalidArgumentError, match=r"not appended to \(any, 3\)"):
            rows.append(wrong)
    with pytest.raises(dry.InvalidArgumentError, match="along axis 1"):
        rows.append([[1, 2, 3]], axis=1)
    rows.append(np.empty((0, 3), "i4"))
    assert rows.shape == (0, 3)
    record = c.create_variable("record", [("x", "i4")], (None,))
    with pytest.raises(dry.InvalidArgumentError, match="whole records"):
        record["x"].append([1])
    with pytest.raises(dry.InvalidArgumentError, match="local"):
        c.create_variable("own", "i4", local=True).append(1)


def test_threads_append_side_by_side_while_another_reads(container):
    v = container.create_variable("v", "i4", (None,))
    with ThreadPoolExecutor(5) as pool:
        reading = pool.submit(lambda: [len(v[...]) for _ in range(40)])
        list(pool.map(lambda n: v.append([n, n]), range(200)))
        reading.result()
    pairs = v[...].reshape(-1, 2)
    assert (pairs[:, 0] == pairs[:, 1]).all()
    assert sorted(pairs[:, 0]) == list(range(200))


# Variables of arrays.


def test_an_array_is_stored_by_its_name(place, library):
    if library == "zarr":
        place["n"] = np.arange(6).reshape(2, 3)
    else:
        place["n"] = np.arange(6).reshape(2, 3)
        place["deep/down/x"] = 2.5
        place.create_group("g")["l"] = [1, 2]
        assert place["deep/down/x"][()] == 2.5
        assert place["g/l"][...].tolist() == [1, 2]
    assert (place["n"].shape, place["n"].dtype) == ((2, 3), np.dtype("i8"))
    assert place["n"][...].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "array",
    [
        np.float32(2.5),
        np.arange(4, dtype=">i2"),
        np.array(["a", "bcd"]),
        np.array([b"a", b"bcd"]),
        np.array([(1, [2, 3])], [("a", "i4"), ("b", "f8", (2,))]),
        np.zeros((0, 3), "f4"),
        np.array([True, False]),
        np.asfortranarray(np.arange(12.0).reshape(3, 4))[::2, ::-1],
        np.arange(3) * 1j,
    ],
    ids=lambda array: f"{array.dtype.kind}{array.shape}",
)
def test_what_is_stored_is_what_was_given(path, array):
    with dry.create(path) as c:
        c["a"] = array
        c.create_variable("g/b", data=array)
    with dry.open(path) as c:
        for name in ("a", "g/b"):
            got = c[name][...]
            assert (got.shape, got.dtype) == (array.shape, array.dtype.newbyteorder("="))
            assert np.array_equal(got, array)


def test_lists_of_texts_are_texts_of_any_length(container):
    container["a"] = ["x", "yz"]
    container["b"] = np.array(["x", "yz"], object)
    container["c"] = "one"
    container["a"][0] = "longer"
    assert container["a"].dtype == container["b"].dtype == np.dtype(object)
    assert container["a"][...].tolist() == ["longer", "yz"]
    assert container["c"][()] == "one"


def test_arrays_of_other_libraries_are_stored(place, field, container):
    container["T"] = field
    container["lazy"] = da.from_array(field) + 1
    assert (container["T"][...] == FIELD).all()
    assert (container["lazy"][...] == FIELD + 1).all()


@pytest.mark.parametrize("library", ["drystone", "h5py"], indirect=True)
def test_a_name_that_is_there_is_not_replaced(place, library):
    """As in h5py. zarr replaces the array, with its chunks, codecs and attributes."""
    place["a"] = np.arange(3)
    wrong = dry.ConflictError if library == "drystone" else (ValueError, OSError, RuntimeError)
    for other in (np.zeros(3, "i8"), np.zeros(4)):
        with pytest.raises(wrong):
            place["a"] = other
    create = place.create_variable if library == "drystone" else place.create_dataset
    with pytest.raises(wrong):
        create("a", data=np.zeros(3, "i8"))
    assert place["a"][...].tolist() == [0, 1, 2]
    del place["a"]
    place["a"] = [5.5]
    assert place["a"][...].tolist() == [5.5]


def test_a_refused_array_leaves_no_variable(container):
    c = container
    for wrong in (
        None,
        {},
        c.create_group("g"),
        object(),
        [[1], [1, 2]],
        np.array([None, 1]),
        np.ma.array([1], mask=True),
    ):
        with pytest.raises(dry.InvalidArgumentError):
            c["a"] = wrong
    with pytest.raises(dry.InvalidArgumentError, match="would change"):
        c.create_variable("a", "i1", data=np.array([300]))
    with pytest.raises(dry.InvalidArgumentError, match=r"shape \(3,\), data has \(2,\)"):
        c.create_variable("a", shape=3, data=[1, 2])
    with pytest.raises(dry.InvalidArgumentError, match="first axis of data is the step"):
        c.create_variable("a", steps=True, data=1)
    with pytest.raises(dry.InvalidArgumentError, match="each writer puts its own"):
        c.create_variable("a", local=True, data=[1])
    with pytest.raises(dry.InvalidArgumentError, match="needs a dtype, or data"):
        c.create_variable("a")
    with pytest.raises(dry.ConflictError, match="made in a batch"), c.batch():
        c["a"] = [1]
    assert list(c) == ["g"]
    c["a"] = [1]


def test_data_fills_steps_and_axes_that_grow(container):
    c = container
    T = c.create_variable(
        "T", data=FIELD, steps=True, dims=("y", "x"), chunks=(4, 10), transform="zstd", attrs={"units": "K"}
    )
    assert (T.shape, T.steps, T.dims, T.chunks, T.attrs["units"]) == (
        FIELD.shape,
        [0, 1, 2],
        ("y", "x"),
        (1, 4, 10),
        "K",
    )
    T.append(FIELD[0])
    assert (T[...] == FIELD[[0, 1, 2, 0]]).all()
    v = c.create_variable("v", "f8", (None, 2), data=[[1, 2], [3, 4]])
    v.append([[5, 6]])
    assert v[...].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert v.dtype == np.dtype("f8")


def test_what_was_appended_counts_for_the_variable_it_went_to(container):
    """A variable that takes the name of one with pending values starts empty; a resize comes after pending values."""
    c = container
    for n in range(3):
        v = c.create_variable("v", "i4", (None,))
        v.append([n, n])
        if n == 0:
            c.delete("v")
        elif n == 1:
            with c.batch():
                c.rename("v", "old")
    assert c["v"][...].tolist() == [2, 2]
    assert c["old"][...].tolist() == [1, 1]
    v.append([3, 4])
    v.resize(3)
    v.append([5])
    assert v[...].tolist() == [2, 2, 3, 5]
