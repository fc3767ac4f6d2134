"""Basic indexing is NumPy's: same values, shapes, dtypes, scalars and refusals."""

import drystone as dry
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from same_bits import commits_by_itself, random_array, same

RECORD = np.dtype([("a", "i2"), ("b", "f4", (2, 3)), ("c", [("d", "u1"), ("e", "f8")])], align=True)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Variables, each with the array that it must equal."""
    rng = np.random.default_rng(11)
    out = []
    with dry.create(tmp_path_factory.mktemp("indexing") / "i.dry", durability="memory") as c:

        def add(dtype, shape, boxes, **options):
            V = c.create_variable(f"v{len(out)}", dtype, shape=shape, **options)
            whole = np.full(shape, "", object) if dtype is str else np.zeros(shape, V.dtype)
            with c.writer() as w:
                for offset, count in boxes:
                    array = random_array(rng, V.dtype, count)
                    w.put(V.name, array, offset=offset)
                    whole[tuple(slice(o, o + n) for o, n in zip(offset, count, strict=True))] = array
            out.append((V, whole))

        add("f4", (), [((), ())])
        add("i8", (7,), [((1,), (3,)), ((3,), (2,))])
        add("f8", (5, 6), [((0, 0), (5, 6)), ((2, 1), (2, 4))], chunks=(2, 4))
        add("u2", (3, 4, 5), [((0, 0, 0), (3, 4, 5)), ((1, 0, 2), (2, 4, 3))], transform="zstd:1")
        add("c8", (2, 3, 2, 3, 2), [((0, 0, 0, 0, 0), (2, 3, 2, 3, 2))])
        add("f4", (0, 3), [])
        add(RECORD, (4, 3), [((0, 0), (4, 3))])
        add(str, (4, 3), [((1, 0), (3, 3)), ((0, 1), (2, 2))])
        T = c.create_variable("T", "f4", shape=(3, 4), steps=True)
        whole = np.zeros((6, 3, 4), "f4")
        with commits_by_itself(c) as w:
            for t in (0, 1, 3, 5):
                with w.step(t):
                    whole[t] = random_array(rng, T.dtype, (3, 4))
                    w.put("T", whole[t])
        out.append((T, whole))
        record, array = out[6]
        out.append((record["b"], array["b"]))
        out.append((record["c"], array["c"]))
        out.append((record["c.e"], array["c"]["e"]))
        yield out


@settings(max_examples=1500)
@given(data=st.data())
def test_every_basic_index_gives_what_numpy_gives(pairs, data):
    variable, array = pairs[data.draw(st.integers(0, len(pairs) - 1))]
    key = data.draw(hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True, max_dims=9))
    got, expected = variable[key], array[key]
    if isinstance(expected, np.ndarray):
        same(got, expected if expected.dtype != object else np.array(expected, copy=True))
    else:
        same(got, expected)


any_integer = st.one_of(st.integers(-9, 9), st.sampled_from([-(2**63), 2**63 - 1, 2**70, -(2**70)]))
any_bound = st.one_of(st.none(), any_integer)
any_item = st.one_of(
    any_integer,
    st.builds(slice, any_bound, any_bound, any_bound),
    st.just(...),
    st.none(),
    st.integers(-9, 9).map(np.int16),
)


@settings(max_examples=1500)
@given(data=st.data(), key=st.lists(any_item, max_size=5).map(tuple))
def test_what_numpy_refuses_is_refused_with_the_same_exception(pairs, data, key):
    variable, array = pairs[data.draw(st.integers(0, len(pairs) - 1))]
    refusal = None
    try:
        expected = array[key]
    except (IndexError, ValueError) as error:
        refusal = type(error)
    if refusal is None:
        same(variable[key], expected)
        return
    with pytest.raises(dry.InvalidArgumentError) as refused:
        variable[key]
    two_faults = any(isinstance(item, slice) and item.step == 0 for item in key)
    assert isinstance(refused.value, refusal) or two_faults


@settings(max_examples=300)
@given(data=st.data())
def test_boxes_equal_slices(pairs, data):
    variable, array = pairs[data.draw(st.integers(0, len(pairs) - 1))]
    step = None
    if variable.has_steps:
        step = data.draw(st.integers(0, 5))
        array = array[step]
    ndim = array.ndim - (2 if variable.member == "b" else 0)
    offset = tuple(data.draw(st.integers(0, n)) for n in array.shape[:ndim])
    count = tuple(data.draw(st.integers(0, n - o)) for n, o in zip(array.shape, offset, strict=False))
    expected = array[tuple(slice(o, o + n) for o, n in zip(offset, count, strict=True))]
    same(variable.read(step, offset, count), np.asarray(expected))
    backing = np.zeros(tuple(2 * n + 1 for n in expected.shape), expected.dtype)
    out = backing[(*(slice(2 * n - 1, None, -2) if n else slice(0, 0) for n in expected.shape), ...)]
    assert variable.read(step, offset, count, out=out) is out
    same(np.asarray(out), np.asarray(expected))


def test_scalars_are_numpy_scalars_and_an_ellipsis_keeps_the_array(container):
    V = container.create_variable("v", "f4", shape=(3,))
    assert type(V[0]) is np.float32
    assert type(V[np.int64(-1)]) is np.float32
    assert isinstance(V[0, ...], np.ndarray)
    S = container.create_variable("s", str, shape=(3,))
    assert V[1:2].dtype == np.float32
    assert S[0] == ""
    assert type(S[0]) is str


@pytest.mark.parametrize("key", [1.5, "x", ("x", 0), object(), slice(1.5), slice("a", None)])
def test_an_invalid_index_is_an_index_error(container, key):
    V = container.create_variable("v", "f4", shape=(3, 2))
    with pytest.raises((IndexError, KeyError)) as refused:
        V[key]
    assert isinstance(refused.value, dry.DrystoneError)


def test_variables_are_sequences_and_arrays(container):
    V = container.create_variable("v", "i4", shape=(3, 2))
    expected = np.arange(6, dtype="i4").reshape(3, 2)
    with container.writer() as w:
        w.put("v", expected)
    assert len(V) == 3
    assert (V.ndim, V.size, V.nbytes) == (2, 6, 24)
    same(np.asarray(V), expected)
    same(np.asarray(V, dtype="f8"), expected.astype("f8"))
    assert [row.tolist() for row in V] == expected.tolist()
    assert np.sum(V) == 15
    with pytest.raises(ValueError, match="copy"):
        np.asarray(V, copy=False)
    with pytest.raises(TypeError, match="no dimensions"):
        len(container.create_variable("z", "f4"))
