"""Lists, arrays, masks and points select the same cells as in NumPy, in one plan; pieces and views return the same
cells."""

import gc
import os
import threading
import time
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from drystone import views
from drystone.selection import select
from hypothesis import given, settings
from hypothesis import strategies as st
from same_bits import commits_by_itself, random_array, same

RECORD = np.dtype([("a", "i2"), ("b", "f4", (2, 3)), ("c", [("d", "u1"), ("e", "f8")])], align=True)
CASES = 20 if os.environ.get("DRYSTONE_LONG") else 1


class Pairs(list):
    """Variables with their arrays; not printed with failures."""

    def __repr__(self):
        return f"<{len(self)} variables>"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Variables, each with the array that it must equal: missing steps, fill, records, strings, no dimensions, several
    commits."""
    rng = np.random.default_rng(17)
    out = Pairs()
    with dry.create(tmp_path_factory.mktemp("selections") / "s.dry", durability="memory") as c:

        def add(dtype, shape, commits, fill=None, **options):
            V = c.create_variable(f"v{len(out)}", dtype, shape=shape, fill_value=fill, **options)
            whole = np.full(shape, "" if dtype is str else (fill or np.zeros((), V.dtype)[()]), V.dtype)
            for boxes in commits:
                with c.writer() as w:
                    for offset, count in boxes:
                        array = random_array(rng, V.dtype, count)
                        w.put(V.name, array, offset=offset)
                        whole[tuple(slice(o, o + n) for o, n in zip(offset, count, strict=True))] = array
            out.append((V, whole))

        add("f4", (), [[((), ())]])
        add("i8", (17,), [[((1,), (9,))], [((6,), (8,))]], fill=-7)
        add("f8", (5, 6), [[((0, 0), (5, 6)), ((2, 1), (2, 4))]], chunks=(2, 4))
        add("u2", (6, 7, 8), [[((0, 0, 0), (6, 7, 8))], [((1, 0, 2), (2, 4, 6))]], transform="zstd:1")
        add("u1", (6, 7, 8), [[((0, 0, 0), (3, 7, 8)), ((3, 2, 1), (3, 4, 5))]], fill=9, chunks=(2, 3, 8))
        add("f4", (0, 3), [])
        # Raw subchunks of several check units, which are read in part.
        add("f8", (90, 700), [[((0, 0), (60, 700))], [((40, 300), (50, 400))]], fill=1.5)
        add("i4", (9, 64, 64), [[((0, 0, 0), (9, 64, 64))]], chunks=(3, 64, 64))
        add(RECORD, (4, 5), [[((0, 0), (4, 3))], [((1, 2), (2, 3))]])
        add(str, (4, 6), [[((1, 0), (3, 3))], [((0, 1), (2, 4))]])
        T = c.create_variable("T", "f4", shape=(5, 4), steps=True, fill_value=-1)
        whole = np.full((8, 5, 4), -1, "f4")
        R = c.create_variable("R", RECORD, shape=(3,), steps=True)
        records = np.zeros((8, 3), R.dtype)
        S = c.create_variable("S", str, steps=True)
        texts = np.full(8, "", object)
        with commits_by_itself(c) as w:
            for t in (0, 1, 3, 4, 7):
                with w.step(t):
                    whole[t, :3] = random_array(rng, T.dtype, (3, 4))
                    w.put("T", whole[t, :3])
                    records[t, 1:] = random_array(rng, R.dtype, (2,))
                    w.put("R", records[t, 1:], offset=1)
                    texts[t] = f"step {t}"
                    w.put("S", texts[t])
        out += [(T, whole), (R, records), (S, texts)]
        for V, array in list(out):
            if V.dtype == RECORD:
                out.append((V["b"], array["b"]))
                out.append((V["c.e"], array["c"]["e"]))
        yield out


def list_of(rng, length, dims=1):
    """An index list along an axis, with negative and repeated numbers."""
    shape = tuple(rng.integers(1, 4, rng.integers(1, dims + 1)))
    if len(shape) == 1:
        shape = (rng.integers(0, 6),)
    if not length:
        return []
    cells = rng.integers(-length, length, shape)
    return cells.tolist() if rng.random() < 0.5 else cells


def slice_of(rng, length):
    def bound():
        return None if rng.random() < 0.4 else int(rng.integers(-length - 2, length + 3))

    return slice(bound(), bound(), [None, -5, -3, -2, -1, 1, 2, 3, 7][rng.integers(9)])


def mask_of(rng, shape):
    return rng.random(shape) < rng.choice([0.02, 0.3, 0.9])


def any_key(rng, shape, arrays):
    """An expression for an array of this shape. `arrays(rng, lengths)` returns an item and the number of axes it
    selects from."""
    items, axis, ellipsis = [], 0, False
    while axis < len(shape) and len(items) < 7:
        kind = rng.integers(6)
        if kind == 0 and shape[axis]:
            items.append(int(rng.integers(-shape[axis], shape[axis])))
            axis += 1
        elif kind == 1:
            items.append(slice_of(rng, shape[axis]))
            axis += 1
        elif kind == 2:
            items.append(None)
        elif kind == 3 and not ellipsis:
            items.append(...)
            ellipsis = True
            axis = int(rng.integers(axis, len(shape) + 1))
        else:
            item, taken = arrays(rng, shape[axis:])
            items.append(item)
            axis += taken
    if ellipsis:  # items after it count from the last axis
        items += [slice(None)] * (len(shape) - axis)
    return tuple(items)


def numpy_item(rng, lengths):
    if rng.random() < 0.3:
        taken = int(rng.integers(1, min(3, len(lengths)) + 1))
        return mask_of(rng, lengths[:taken]), taken
    return list_of(rng, lengths[0], dims=3), 1


def outer_item(rng, lengths):
    return (mask_of(rng, lengths[:1]) if rng.random() < 0.4 else list_of(rng, lengths[0])), 1


def expected_outer(array, key):
    """Select with each list along its own axis, one after another."""
    key = list(key)
    if not any(item is Ellipsis for item in key):
        key.append(...)
    taken = sum(item is not None and item is not Ellipsis for item in key)
    at = next(n for n, item in enumerate(key) if item is Ellipsis)
    key[at : at + 1] = [slice(None)] * (array.ndim - taken)
    axis = 0
    for item in key:
        if item is None:
            array = np.expand_dims(array, axis)
            axis += 1
        elif isinstance(item, int):
            array = np.take(array, item, axis)
        else:
            item = np.asarray(item, np.intp) if isinstance(item, list) else item
            array = array[(slice(None),) * axis + (item,)]
            axis += 1
    return np.asarray(array)


def reads_into_out(read, expected):
    """Read into an array with any memory layout."""
    backing = np.empty(tuple(2 * n + 1 for n in expected.shape), expected.dtype)
    out = backing[(*(slice(2 * n - 1, None, -2) if n else slice(0, 0) for n in expected.shape), ...)]
    assert read(out) is out
    same(np.array(out, copy=True), np.array(expected, copy=True))


seeds = st.integers(0, 2**32 - 1)


def any_pair(rng, pairs):
    return pairs[rng.integers(len(pairs))]


@settings(max_examples=400 * CASES)
@given(seed=seeds)
def test_every_index_gives_what_numpy_gives(pairs, seed):
    rng = np.random.default_rng(seed)
    variable, array = any_pair(rng, pairs)
    key = any_key(rng, array.shape, numpy_item)
    try:
        expected = array[key]
    except IndexError:
        with pytest.raises(IndexError):
            variable[key]
        return
    same(variable[key], np.array(expected, copy=True) if isinstance(expected, np.ndarray) else expected)
    view = variable.lazy[key]
    assert view.shape == np.shape(expected)
    same(np.asarray(view.read(), variable.dtype), np.array(expected, variable.dtype))
    if isinstance(expected, np.ndarray):
        reads_into_out(view.read, expected)


@settings(max_examples=300 * CASES)
@given(seed=seeds)
def test_outer_indexing_takes_each_list_along_its_own_axis(pairs, seed):
    rng = np.random.default_rng(seed)
    variable, array = any_pair(rng, pairs)
    key = any_key(rng, array.shape, outer_item)
    try:
        expected = expected_outer(array, key)
    except IndexError:
        with pytest.raises(IndexError):
            variable.oindex[key]
        return
    got = variable.oindex[key]
    same(np.asarray(got, variable.dtype), np.array(expected, variable.dtype))
    if isinstance(got, np.ndarray):
        reads_into_out(lambda out: variable.oindex.read(key, out=out), np.asarray(expected, variable.dtype))


@settings(max_examples=150 * CASES)
@given(seed=seeds)
def test_vectorised_indexing_puts_the_axes_of_the_arrays_first(pairs, seed):
    rng = np.random.default_rng(seed)
    variable, array = any_pair(rng, pairs)
    if not array.ndim:
        return
    axes = sorted(rng.choice(array.ndim, rng.integers(1, array.ndim + 1), replace=False))
    where = tuple(rng.integers(0, 4, rng.integers(0, 3)))
    if where == () or any(array.shape[axis] == 0 for axis in axes):
        return
    lists = {axis: rng.integers(-array.shape[axis], array.shape[axis], where) for axis in axes}
    others = {axis: slice_of(rng, n) for axis, n in enumerate(array.shape) if axis not in lists}
    key = tuple(lists[axis] if axis in lists else others[axis] for axis in range(array.ndim))
    first = np.moveaxis(array, axes, range(len(axes)))
    expected = first[(*(lists[axis] for axis in axes), *others.values())]
    same(variable.vindex[key], np.array(expected, copy=True))
    reads_into_out(lambda out: variable.vindex.read(key, out=out), expected)


@settings(max_examples=150 * CASES)
@given(seed=seeds)
def test_points_are_single_cells(pairs, seed):
    rng = np.random.default_rng(seed)
    variable, array = any_pair(rng, pairs)
    if 0 in array.shape:
        return
    where = tuple(rng.integers(0, 10, rng.integers(0, 3)))
    columns = [rng.integers(-n, n, where) for n in array.shape]
    coords = np.stack(columns, axis=-1) if columns else np.empty((*where, 0), int)
    expected = array[tuple(columns)] if columns else np.broadcast_to(array, where)
    expected = np.array(expected, variable.dtype)
    same(np.asarray(variable.read_points(coords), variable.dtype), expected)
    reads_into_out(lambda out: variable.read_points(coords, out=out), expected)


def pieces_make_the_selection(pairs, seed, item, pieces):
    """The pieces written by `pieces(variable, key, most bytes, write)` are the selection, and no cell comes twice."""
    rng = np.random.default_rng(seed)
    variable, array = any_pair(rng, pairs)
    key = any_key(rng, array.shape, item)
    try:
        expected = np.asarray(array[key])
    except IndexError:
        return
    most = int(rng.choice([1, 100, 3000, 1 << 20]))
    if expected.nbytes // most > 300:
        most = 1 << 14
    together = np.empty(expected.shape, variable.dtype)
    seen = np.zeros(expected.shape, int)

    def write(place, piece):
        together[place] = piece
        seen[place] += 1

    pieces(variable, key, most, write)
    assert (seen == 1).all()
    same(together, np.array(expected, variable.dtype))


def no_list(rng, lengths):
    return slice(None), 1


@settings(max_examples=100 * CASES)
@given(seed=seeds)
def test_chunks_put_together_are_the_selection(pairs, seed):
    def pieces(variable, key, most, write):
        for place, piece in variable.pieces(key, max_bytes=most):
            write(place, piece)

    pieces_make_the_selection(pairs, seed, no_list, pieces)


@settings(max_examples=100 * CASES)
@given(seed=seeds)
def test_pieces_for_a_file_put_together_are_the_selection(pairs, seed):
    def pieces(variable, key, most, write):
        least, at_once = (1 + seed % most, bool(seed % 2)) if seed else (views.LEAST, False)
        views.in_rows(variable._reading(), key, most, write, least=least, at_once=at_once)

    pieces_make_the_selection(pairs, seed, no_list, pieces)


@settings(max_examples=150 * CASES)
@given(seed=seeds)
def test_parts_of_a_selection_with_arrays_put_together_are_the_selection(pairs, seed):
    def pieces(variable, key, most, write):
        reading = variable._reading()
        for place, wanted in select(key, reading.shape).parts(max(1, most // variable.dtype.itemsize)):
            write(place, np.asarray(views.read(reading, wanted)).reshape(wanted.shape))

    pieces_make_the_selection(pairs, seed, numpy_item, pieces)


def test_parts_are_as_small_as_asked_for():
    wanted = select(([5, 1, 2], slice(None), slice(10, 0, -2), 3), (6, 100, 20, 4))
    parts = [(place, part.shape) for place, part in wanted.parts(40)]
    assert {shape for _, shape in parts} == {(1, 8, 5), (1, 4, 5)}
    assert parts[0] == ((slice(0, 1), slice(0, 8), slice(0, 5)), (1, 8, 5))
    assert len(parts) == 3 * 13


def test_pieces_of_raw_blocks_for_a_file_each_lie_in_one_place(container):
    """Symptom: runs of some 50 KiB, as blocks are cut, took twice as long to write as the same contiguous bytes."""
    whole = cells("f4", (64, 96, 128))
    V = container.create_variable("v", "f4", shape=whole.shape, chunks=(64, 16, 32))
    with container.writer() as w:
        w.put("v", whole)
    out, places = np.zeros_like(whole), []

    def write(place, piece):
        assert place[1:] == (slice(0, 96), slice(0, 128))
        assert piece.nbytes <= 10 * whole[0].nbytes
        out[place] = piece
        places.append(place[0])

    views.in_rows(V._reading(), ..., 10 * whole[0].nbytes, write)
    same(out, whole)
    assert sorted((p.start, p.stop) for p in places) == [(n, min(n + 10, 64)) for n in range(0, 64, 10)]
    places.clear()
    views.in_rows(V._reading(), ..., 10 * whole[0].nbytes, write, least=3 * whole[0].nbytes, at_once=True)
    # 16 planes of a chunk are the 32 KiB below which a run is read no faster, so the requested limit applies
    assert len(places) == 7
    places.clear()
    views.in_rows(
        V._reading(),
        ...,
        64 * whole[0].nbytes,
        lambda place, piece: places.append(place[0]),
        least=3 * whole[0].nbytes,
    )
    assert {place.stop - place.start for place in places} == {16}


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_what_fails_in_either_thread_ends_both(container, kind, at_once):
    V = container.create_variable("v", "f4", shape=(1000,))
    with container.writer() as w:
        w.put("v", np.ones(1000, "f4"))
    for other in (False, True):
        failed = []

        def write(place, piece, other=other, failed=failed):
            if (threading.current_thread() is not threading.main_thread()) == other:
                failed.append(place)
                raise kind("here")
            time.sleep(0.001)

        with pytest.raises(kind, match="here"):
            views.in_rows(V._reading(), ..., 4, write, at_once=at_once)
        assert len(failed) == 1
        assert not [t for t in threading.enumerate() if "drystone-rows" in t.name]


def test_what_cannot_be_read_ends_the_writing(container):
    V = container.create_variable("v", "f4", shape=(1 << 16,), chunks=(1 << 14,))
    with container.writer() as w:
        w.put("v", np.ones(1 << 16, "f4"))
    at = V.blocks()[0].place
    with (Path(container.path) / at[0]).open("r+b") as file:
        file.seek(at[1] + (3 << 16))
        file.write(b"?")
    found = []
    with pytest.raises(dry.CorruptError):
        views.in_rows(V._reading(), ..., 1 << 14, lambda place, piece: found.append(place))
    assert len(found) < 16


def cells(dtype, shape):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


@pytest.fixture
def grid(container):
    """512 subchunks of 16³ in 8 blocks, encoded."""
    whole = cells("u4", (128, 128, 128))
    V = container.create_variable("g", "u4", shape=whole.shape, chunks=(16, 16, 16), transform="zstd:1")
    with container.writer() as w:
        for z in range(0, 128, 16):
            w.put("g", whole[z : z + 16], offset=(z, 0, 0))
    return V, whole


def test_many_points_cost_no_more_than_the_subchunks_they_lie_in(grid):
    V, whole = grid
    coords = np.random.default_rng(1).integers(0, 128, (50_000, 3))
    plan = V.vindex.explain[tuple(coords.T)]
    everything = V.explain[...]
    assert plan.subchunks == 512
    assert plan.requests <= everything.requests
    assert plan.read_bytes <= everything.read_bytes
    assert plan.wanted_bytes == 4 * 50_000
    same(V.read_points(coords), whole[tuple(coords.T)])


def test_points_in_one_corner_read_only_that(grid):
    V, whole = grid
    coords = np.random.default_rng(2).integers(0, 16, (500, 3))
    plan = V.vindex.explain[tuple(coords.T)]
    assert (plan.blocks, plan.subchunks) == (1, 1)
    assert plan.read_bytes < V.explain[...].read_bytes / 100
    same(V.read_points(coords), whole[tuple(coords.T)])


def test_scattered_points_of_a_raw_block_read_units_and_not_the_block(container):
    whole = cells("f8", (40, 400, 500))
    V = container.create_variable("r", "f8", shape=whole.shape, chunks=(2, 400, 500))
    with container.writer() as w:
        w.put("r", whole)
    coords = np.random.default_rng(3).integers(0, whole.shape, (40, 3))
    plan = V.vindex.explain[tuple(coords.T)]
    assert plan.read_bytes < 40 * 4 * (16 << 10)
    same(V.read_points(coords), whole[tuple(coords.T)])
    key = ([39, 0], slice(None), [499, 3])
    same(V.oindex[key], whole[np.ix_([39, 0], range(400), [499, 3])])


def test_steps_named_in_a_list_are_read_in_one_go_and_missing_ones_are_fill(container):
    V = container.create_variable("t", "f4", shape=(50,), steps=True, fill_value=np.nan)
    with commits_by_itself(container) as w:
        for t in range(0, 60, 2):
            with w.step(t):
                w.put("t", np.full(50, t, "f4"))
    got = V.oindex[[58, 3, 0, 58], [1, 0]]
    np.testing.assert_array_equal(got, np.array([[58, 58], [np.nan, np.nan], [0, 0], [58, 58]], "f4"))
    assert V.oindex.explain[[58, 3, 0], [1, 0]].blocks == 2


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ([0, 3], "out of bounds for axis 0 with size 3"),
        (([0], [2]), "axis 1"),
        (([0, 1], [0, 1, 0]), "broadcast"),
        (np.array([1.0]), "integers or booleans"),
        (np.array([True, False]), "the mask has 2 cells along axis 0"),
        (([0], [0], [0]), "too many indices"),
        (([0], ..., ...), "ellipsis"),
        ([2**70], "larger"),
        (["a"], "integers or booleans"),
        ([[0], [0, 1]], "rectangular"),
    ],
)
def test_what_numpy_refuses_is_an_index_error(container, key, message):
    V = container.create_variable("v", "f4", shape=(3, 2))
    with pytest.raises(IndexError, match=message) as refused:
        V[key]
    assert isinstance(refused.value, dry.DrystoneError)


def test_points_outside_and_of_the_wrong_shape_are_refused(container):
    V = container.create_variable("v", "f4", shape=(3, 2))
    with pytest.raises(dry.OutOfRangeError, match="axis 1"):
        V.read_points([[0, 0], [0, -3]])
    with pytest.raises(dry.InvalidArgumentError, match="last axis"):
        V.read_points([[0, 0, 0]])
    with pytest.raises(dry.InvalidArgumentError, match="out has shape"):
        V.read_points([[0, 0]], out=np.empty(2, "f4"))
    with pytest.raises(dry.InvalidArgumentError, match="dtype"):
        V.oindex.read([0], out=np.empty((1, 2), "f8"))
    assert V.read_points([]).shape == (0,)
    with pytest.raises(dry.InvalidArgumentError, match="pieces takes"):
        V.pieces([0, 1])
    with pytest.raises(dry.InvalidArgumentError, match="max_bytes"):
        V.pieces(max_bytes=0)


def test_a_view_stays_with_its_snapshot_and_is_read_from_many_threads(path):
    with dry.create(path, durability="memory") as c:
        V = c.create_variable("v", "i8", shape=(1000,))
        with c.writer() as w:
            w.put("v", np.arange(1000))
        view = V.lazy[::-7]
        points = V.lazy[[5, 3]]
        with c.writer() as w:
            w.put("v", np.zeros(1000, "i8"))
        assert V[5] == 0
        found = []
        threads = [
            threading.Thread(target=lambda: found.append((view.read(), points.read()))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for whole, some in found:
            same(whole, np.arange(1000)[::-7])
            same(some, np.array([5, 3]))
        assert len(found) == 8
        assert "v" in str(view.explain)
        assert view.explain == V.lazy[::-7].explain or view.explain.blocks == 1


def test_pieces_lie_between_subchunks_and_stay_small(container):
    whole = cells("f4", (64, 64, 64))
    V = container.create_variable("v", "f4", shape=whole.shape, chunks=(16, 32, 64), transform="zstd:1")
    with container.writer() as w:
        w.put("v", whole)
    read = 0
    for (z, y, x), piece in V.pieces((slice(8, 56), ...), max_bytes=16 * 32 * 64 * 4):
        assert piece.nbytes <= 16 * 32 * 64 * 4
        same(piece, whole[8:56][z, y, x])
        read += V.explain[z.start + 8 : z.stop + 8, y, x].read_bytes
    assert read <= V.explain[...].read_bytes


def test_a_loop_over_chunks_may_be_left(container):
    V = container.create_variable("v", "f4", shape=(100,))
    pieces = V.pieces(max_bytes=40)
    place, piece = next(pieces)
    assert (place, piece.shape) == ((slice(0, 10),), (10,))
    pieces.close()
    with pytest.raises(StopIteration):
        next(pieces)
    del pieces
    gc.collect()
    assert not [t for t in threading.enumerate() if "drystone-pieces" in t.name]


def test_follow_gives_each_step_once_as_it_is_committed(path):
    with dry.create(path, durability="memory") as c:
        c.create_variable("v", "i8", shape=(3,), steps=True)
        with commits_by_itself(c) as w:
            for t in (0, 2):
                with w.step(t):
                    w.put("v", np.full(3, t))
    first_three = threading.Event()

    def simulate():
        with dry.open(path, mode="r+") as c, commits_by_itself(c) as w:
            with w.step(5):
                w.put("v", np.full(3, 5))
            first_three.wait(20)
            for t in (1, 6):
                with w.step(t):
                    w.put("v", np.full(3, t))

    thread = threading.Thread(target=simulate)
    with dry.open(path) as reader:
        thread.start()
        seen = []
        for step in reader.follow(timeout=120, poll=0.05):
            assert reader["v"][step].tolist() == [step] * 3
            seen.append(step)
            if step == 5:
                first_three.set()
            if len(seen) == 5:
                break
        thread.join()
        assert seen[:3] == [0, 2, 5]
        assert sorted(seen[3:]) == [1, 6]
        assert list(reader.follow(after=5, timeout=0)) == [6]
        assert list(reader.follow(after=6, timeout=0.05)) == []


class Tensor:
    """An array of another library: NumPy accesses its memory only through DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_arrays_of_other_libraries_are_filled_by_dlpack(container):
    V = container.create_variable("v", "f4", shape=(4, 5))
    with container.writer() as w:
        w.put("v", cells("f4", (4, 5)))
    for read, expected in [
        (lambda out: V.read(offset=(1, 0), count=(2, 5), out=out), V[1:3]),
        (lambda out: V.lazy[[3, 0]].read(out=out), V[[3, 0]]),
        (lambda out: V.read_points([[0, 1], [2, 3]], out=out), V[[0, 2], [1, 3]]),
    ]:
        memory = np.zeros(expected.shape, "f4")
        tensor = Tensor(memory)
        assert read(tensor) is tensor
        same(memory, expected)
    with pytest.raises(dry.InvalidArgumentError, match="out is"):
        V.read(out=[1, 2])


def test_arrays_of_other_libraries_are_written_by_dlpack(container):
    """Symptom: objects with nothing but DLPack were refused as not an array."""
    V = container.create_variable("v", "f4", shape=(4, 5))
    values = cells("f4", (4, 5))
    with container.writer() as w:
        w.put("v", Tensor(values))
    same(V[...], values)
    V[1:3, ::-1] = Tensor(values[:2].astype("f2"))
    same(V[1:3], values[:2, ::-1])
    same(V[Tensor(np.array([3, 0]))], V[[3, 0]])
    same(V.read_points(Tensor(np.array([[0, 1], [2, 3]]))), V[[0, 2], [1, 3]])
    with pytest.raises(dry.InvalidArgumentError, match="complex128"), container.writer() as w:
        w.put("v", Tensor(values.astype("c16")))

    class Elsewhere(Tensor):
        def __dlpack_device__(self):
            return (2, 0)  # a GPU

        def __dlpack__(self, **options):
            raise BufferError("no copy to there")

    with pytest.raises(
        dry.InvalidArgumentError, match="Elsewhere cannot be reached by DLPack: no copy to there"
    ):
        V[...] = Elsewhere(values)


def test_notebooks_show_tables_without_reading(container):
    container.create_variable(
        "a<b", "f4", shape=(3, 4), dims=("y", "x"), steps=True, transform="zstd:1", attrs={"units": "<K>"}
    )
    container.create_variable("g/s", str, shape=(2,))
    container.attrs["title"] = "a & b"
    shown = container._repr_html_()
    assert "a&lt;b" in shown
    assert "a &amp; b" in shown
    assert "zstd:1" in shown
    variable = container["a<b"]._repr_html_()
    assert "0 x 3 x 4" in variable
    assert "&lt;K&gt;" in variable
    assert "g/s" not in container["g"]._repr_html_()
    container.close()
    assert "closed" in container._repr_html_()
