"""Records: the very same dtype comes back, and members are read and written alone."""

import drystone as dry
import numpy as np
import pytest
from same_bits import random_array, same

INNER = np.dtype([("lo", "u1"), ("hi", "f8")], align=True)
DTYPES = {
    "packed": np.dtype([("x", "f4"), ("y", "f8"), ("n", "i2")]),
    "aligned": np.dtype([("x", "i1"), ("y", "f8"), ("n", "i2")], align=True),
    "reordered": np.dtype({"names": ["a", "b"], "formats": ["f8", "i4"], "offsets": [8, 0], "itemsize": 24}),
    "nested": np.dtype([("p", INNER), ("q", [("r", [("s", "c8")])])]),
    "sub-arrays": np.dtype([("v", "f4", (3,)), ("m", "i2", (2, 2)), ("z", "U3", 2)]),
    "array of records": np.dtype([("k", "i4"), ("cells", INNER, (2, 2))]),
    "texts": np.dtype([("name", "U8"), ("code", "S3"), ("ok", "?")]),
    "odd names": np.dtype([("größe in m²", "f4"), ("a b", "f4")]),
}


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES.keys())
@pytest.mark.parametrize("transform", [None, "shuffle,zstd:1"])
def test_a_record_type_comes_back_with_its_padding_and_values(container, dtype, transform):
    whole = random_array(np.random.default_rng(5), dtype, (4, 5))
    V = container.create_variable("p", dtype, shape=(4, 5), transform=transform)
    assert V.dtype == dtype
    with container.writer() as w:
        w.put("p", whole[:, ::-1][:, ::-1])
    assert V[...].dtype == dtype
    same(V[...], whole)
    same(V[2, 3], whole[2, 3])
    for name in dtype.names:
        same(V[name][1:, ::2], whole[name][1:, ::2])
        assert V[name].shape == whole[name].shape
        assert V[name].dtype == whole[name].dtype


def test_nested_members_are_named_with_dots_or_one_after_the_other(container):
    dtype = DTYPES["nested"]
    whole = random_array(np.random.default_rng(6), dtype, (6,))
    V = container.create_variable("p", dtype, shape=(6,))
    with container.writer() as w:
        w.put("p", whole)
    same(V["p.hi"][...], whole["p"]["hi"])
    same(V["p"]["hi"][...], whole["p"]["hi"])
    same(V["q.r.s"][::-2], whole["q"]["r"]["s"][::-2])
    same(V["q"]["r"].read(offset=2, count=3), whole["q"]["r"][2:5])


def test_members_are_written_alone_and_newest_wins_per_member(container):
    V = container.create_variable(
        "p", DTYPES["sub-arrays"], shape=(4,), fill_value=((1, 2, 3), ((4, 5), (6, 7)), ("a", "b"))
    )
    same(V["m"].fill_value, np.array([[4, 5], [6, 7]], "i2"))
    expected = V[...]
    with container.writer() as w:
        w.put("p", np.zeros(2, V.dtype), offset=1)
        w.put("p", np.arange(6, dtype="f4").reshape(2, 3), offset=2, field="v")
        w.put("p", np.asfortranarray(np.arange(8, dtype="i2").reshape(2, 2, 2)), offset=0, field="m")
        w.put("p", np.array([["x", "y"]], "U3"), offset=3, field="z")
    expected[1:3] = np.zeros(2, V.dtype)
    expected["v"][2:] = np.arange(6).reshape(2, 3)
    expected["m"][:2] = np.arange(8).reshape(2, 2, 2)
    expected["z"][3] = ["x", "y"]
    same(V[...], expected)


def test_reading_one_member_reads_its_bytes_alone(container):
    V = container.create_variable("p", [("big", "f8", (64,)), ("small", "f4")], shape=(1000,))
    with container.writer() as w:
        w.put("p", np.zeros(1000, V.dtype))
    assert V.explain[...].read_bytes > 512_000
    assert V["small"].explain[...].read_bytes < 5_000


def test_scalars_and_tuples_are_records_too(container):
    V = container.create_variable("p", DTYPES["packed"])
    with container.writer() as w:
        w.put("p", (1.5, 2.5, 3))
    assert V[()] == np.array((1.5, 2.5, 3), DTYPES["packed"])
    assert isinstance(V[()], np.void)


def test_padding_reads_as_zeros_not_as_old_memory(container):
    dtype = np.dtype({"names": ["a"], "formats": ["u1"], "offsets": [3], "itemsize": 64})
    V = container.create_variable("p", dtype, shape=(1000,), fill_value=(0,))
    for _ in range(20):
        junk = np.full(64_000, 255, "u1")
        del junk
        assert not any(V[...].tobytes())


def test_unknown_members_are_key_errors_that_name_the_known(container):
    V = container.create_variable("p", DTYPES["packed"], shape=(2,))
    with pytest.raises(KeyError, match=r"x, y, n"):
        V["w"]
    with pytest.raises(dry.NotFoundError, match="float32"):
        V["x"]["w"]
    with container.writer() as w:
        with pytest.raises(dry.NotFoundError, match="x, y, n"):
            w.put("p", np.zeros(2, "f4"), field="w")
        with pytest.raises(dry.InvalidArgumentError, match=r"float32.*float64"):
            w.put("p", np.zeros(2), field="x")


def test_a_member_of_another_shape_is_refused(container):
    container.create_variable("p", DTYPES["sub-arrays"], shape=(2,))
    with container.writer() as w, pytest.raises(dry.InvalidArgumentError, match=r"\[3\]"):
        w.put("p", np.zeros((2, 2), "f4"), field="v")
