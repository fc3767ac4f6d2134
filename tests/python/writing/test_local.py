"""Local variables: a value or array of any shape per writer and step."""

import drystone as dry
import numpy as np
import pytest
from same_bits import same


def test_each_rank_has_its_value(container):
    L = container.create_variable("load", "f8", local=True, steps=True)
    A = container.create_variable("particles", "i4", local=True, steps=True)
    assert L.local
    writers = [container.writer(rank=r, nranks=3) for r in range(3)]
    for t in range(2):
        for r, w in enumerate(writers):
            with w.step():
                w.put("load", r + t / 2)
                w.put("particles", np.full((r, 2), t, "i4"))
    container.commit()
    assert L.read_blocks(1) == [0.5, 1.5, 2.5]
    assert L.read_block(0, 2) == 2.0
    assert [b.rank for b in L.blocks(1)] == [0, 1, 2]
    same(A.read_block(1, 2), np.full((2, 2), 1, "i4"))
    assert [a.shape for a in A.read_blocks(-1)] == [(0, 2), (1, 2), (2, 2)]
    assert L.steps == [0, 1]
    for w in writers:
        w.close()


def test_local_variables_without_steps_and_of_texts_and_records(container):
    S = container.create_variable("s", str, local=True)
    P = container.create_variable("p", [("x", "f4"), ("y", "i2")], local=True)
    ids = []
    for name in ("a", "b"):
        with container.writer() as w:
            w.put("s", [name, name * 2])
            w.put("p", (1.5, 2))
            ids.append(w._handle.id)
    assert sorted(v.tolist() for v in S.read_blocks()) == [["a", "aa"], ["b", "bb"]]
    assert P.read_block(None, 0)["x"] == 1.5
    assert P["y"].read_blocks() == [2, 2]
    assert all(b.rank is None for b in S.blocks())


def test_a_local_variable_is_no_array(container):
    L = container.create_variable("load", "f8", local=True)
    with container.writer() as w:
        w.put("load", 1.0)
        with pytest.raises(dry.InvalidArgumentError, match="offset"):
            w.put("load", np.zeros(2), offset=(1,))
    for act in (lambda: L[...], lambda: L.read(), lambda: L.explain[...], lambda: L.resize(())):
        with pytest.raises(dry.InvalidArgumentError, match="local variable"):
            act()
    with pytest.raises(dry.NotFoundError, match="no block 1"):
        L.read_block(None, 1)


def test_blocks_are_read_as_they_were_written_whatever_overlaps_them(container):
    V = container.create_variable("v", "f4", shape=(4, 4), transform="zstd:1", chunks=(2, 3))
    blocks = [
        (np.full((3, 3), 1, "f4"), (0, 0)),
        (np.full((3, 3), np.nan, "f4"), (1, 1)),
        (np.zeros((0, 2), "f4"), (2, 2)),
    ]
    with container.writer() as w:
        for array, offset in blocks:
            w.put("v", array, offset=offset)
    assert [(b.offset, b.shape, b.put, b.step) for b in V.blocks()] == [
        ((0, 0), (3, 3), 0, None),
        ((1, 1), (3, 3), 1, None),
        ((2, 2), (0, 2), 2, None),
    ]
    for got, (array, _) in zip(V.read_blocks(), blocks, strict=True):
        same(got, array)
    first, second, third = V.blocks()
    assert (first.min, first.max, first.nans) == (1, 1, 0)
    assert type(first.min) is np.float32
    assert (second.min, second.max, second.nans) == (None, None, 9)
    assert third.nbytes == 0
    assert first.commit == int(container.snapshot)
    assert first.chunks == (2, 3)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("i1", [-5, 7]),
        ("u8", [0, 2**64 - 1]),
        ("i8", [-(2**63), 1]),
        ("f2", [-1.5, 2]),
        ("bfloat16", [-2, 0.5]),
        ("?", [False, True]),
        ("f8", [-1e300, 1e300]),
    ],
)
def test_extremes_have_the_dtype_of_the_variable(container, dtype, values):
    V = container.create_variable("v", dtype, shape=(2,))
    with container.writer() as w:
        w.put("v", values)
    (block,) = V.blocks()
    assert (block.min, block.max) == tuple(values)
    assert type(block.min) is V.dtype.type
