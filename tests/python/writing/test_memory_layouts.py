"""put() and out= accept any memory layout, and refuse any that would change behind the caller's back."""

import tracemalloc

import drystone as dry
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same_bits import random_array, same

LAYOUTS = {
    "dense": lambda a: a,
    "fortran": np.asfortranarray,
    "transposed view": lambda a: np.ascontiguousarray(a.transpose(2, 0, 1)).transpose(1, 2, 0),
    "strided": lambda a: np.repeat(np.repeat(a, 2, axis=0), 3, axis=2)[::2, :, ::3],
    "negative strides": lambda a: np.ascontiguousarray(a[::-1, :, ::-1])[::-1, :, ::-1],
    "field of a record": lambda a: _in_record(a)["value"],
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
    "read-only": lambda a: _read_only(a),
    "memoryview": lambda a: memoryview(np.ascontiguousarray(a)),
    "array protocol": lambda a: _Wrapped(a),
}


def _in_record(a):
    out = np.zeros(a.shape, [("before", "u1"), ("value", a.dtype), ("after", "u1")])
    out["value"] = a
    return out


def _read_only(a):
    out = a.copy()
    out.flags.writeable = False
    return out


class _Wrapped:
    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("options", [{}, {"chunks": (2, 3, 2)}, {"transform": "shuffle,zstd:1"}], ids=str)
def test_a_block_in_any_layout_reads_back(container, layout, options):
    whole = random_array(np.random.default_rng(1), np.dtype("f4"), (5, 7, 6))
    V = container.create_variable("v", "f4", shape=whole.shape, **options)
    with container.writer() as w:
        w.put("v", LAYOUTS[layout](whole))
    same(V[...], whole)


def test_a_broadcast_block_takes_no_memory_of_its_own(container):
    shape = (64, 256, 256)
    V = container.create_variable("v", "f4", shape=shape, transform="zstd:1", chunks=(1, 256, 256))
    value = np.broadcast_to(np.float32(2.5), shape)
    tracemalloc.start()
    with container.writer() as w:
        w.put("v", value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    same(V[3], np.full(shape[1:], 2.5, "f4"))


def test_the_buffer_may_be_reused_when_put_returns(container):
    V = container.create_variable("v", "i8", shape=(50, 1000))
    buffer = np.empty(1000, "i8")
    with container.writer() as w:
        for i in range(50):
            buffer[:] = i
            w.put("v", buffer[np.newaxis], offset=(i, 0))
    same(V[:, 7], np.arange(50))


@settings(max_examples=150)
@given(data=st.data())
def test_out_may_have_any_layout(tmp_path_factory, data):
    c, whole = _shared(tmp_path_factory)
    order = data.draw(st.permutations(range(3)))
    steps = [data.draw(st.sampled_from([1, 2, 3, -1, -2])) for _ in range(3)]
    shape = [whole.shape[d] for d in order]
    backing = np.zeros([n * abs(s) for n, s in zip(shape, steps, strict=True)], whole.dtype)
    view = backing[tuple(slice(None, None, s) for s in steps)]
    out = view.transpose(np.argsort(order))
    same(c["v"].read(out=out), whole if out.size else out)
    touched = np.zeros(backing.shape, bool)
    touched[tuple(slice(None, None, s) for s in steps)] = True
    assert not backing[~touched].any()


_kept = {}


def _shared(factory):
    if not _kept:
        whole = random_array(np.random.default_rng(2), np.dtype("i4"), (4, 5, 6))
        whole[whole == 0] = 1
        c = dry.create(factory.mktemp("out") / "o.dry", durability="memory")
        c.create_variable("v", "i4", shape=whole.shape, transform="zstd:1", chunks=(3, 2, 4))
        with c.writer() as w:
            w.put("v", whole)
        _kept["it"] = c, whole
    return _kept["it"]


@pytest.mark.parametrize(
    ("out", "why"),
    [
        (np.zeros((3, 3), "f8"), "dtype"),
        (np.zeros((3, 3), ">f4"), "dtype"),
        (np.zeros((3, 2), "f4"), "shape"),
        (_read_only(np.zeros((3, 3), "f4")), "read-only"),
        ([[0.0] * 3] * 3, "NumPy array"),
    ],
)
def test_an_out_that_does_not_fit_is_refused(container, out, why):
    V = container.create_variable("v", "f4", shape=(3, 3))
    with pytest.raises(dry.InvalidArgumentError, match=why):
        V.read(out=out)


def test_out_whose_elements_share_memory_is_refused(container):
    """Symptom: it was filled without a check, so elements showed the values of others."""
    container.create_variable("v", "i4", (3,))
    container["v"][...] = [1, 2, 3]
    V = container["v"]
    memory = np.zeros(8, "i4")
    one = np.lib.stride_tricks.as_strided(memory, (3,), (0,))
    windows = np.lib.stride_tricks.as_strided(memory.view("u1"), (3, 4), (2, 1)).view("i4")[:, 0]
    for read in (V.read, lambda out: V.lazy[...].read(out=out), lambda out: V.oindex.read(..., out=out)):
        for out in (one, windows):
            with pytest.raises(dry.InvalidArgumentError, match="share memory"):
                read(out=out)
    with pytest.raises(dry.InvalidArgumentError, match="share memory"):
        V.read_points([[0], [1], [2]], out=one)
    assert not memory.any()
    assert V.read(out=memory[6::-3]).tolist() == [1, 2, 3]


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=4),
    st.sampled_from(["u1", "i2", "i4"]),
)
def test_elements_share_memory_or_they_do_not(axes, dtype):
    """Compared with the bytes of each element, also for interleaved axes."""
    from drystone import views

    memory = np.zeros(256, "u1")[128:]
    out = np.ndarray((), dtype, memory)
    out = np.lib.stride_tricks.as_strided(out, [n for n, _ in axes], [s for _, s in axes])
    places = [sum(i * s for i, (_, s) in zip(cell, axes, strict=True)) for cell in np.ndindex(out.shape)]
    touched = [place + byte for place in places for byte in range(out.itemsize)]
    if len(set(touched)) == len(touched):
        views.check_apart(out)
    else:
        with pytest.raises(dry.InvalidArgumentError, match="share memory"):
            views.check_apart(out)
