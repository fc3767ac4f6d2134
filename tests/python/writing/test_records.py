"""Records: the same dtype is read back, and members can be read and written alone."""

import re
from pathlib import Path

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


PARTS = [
    "v",
    "v[1]",
    "v[0:2]",
    "v[2]",
    "m",
    "m[1]",
    "m[:, 0]",
    "m[0, 1]",
    "m[:, 1:2]",
    "p[1]",
    "p[0].w",
    "p[1].w[1]",
    "p[0:1]",
]


def of_part(array, path):
    """NumPy's value for a path."""
    for name, index in re.findall(r"([a-z]+)(\[[^\]]*\])?", path):
        array = array[name]
        array = (
            eval(f"array[..., {index[1:-1]}]" if array.ndim == 2 else f"array[:, {index[1:-1]}]")
            if index
            else array
        )
    return array


@pytest.mark.parametrize("transform", [None, "shuffle,zstd:1"])
def test_parts_of_member_arrays_are_written_alone_and_newest_wins_for_each_element(container, transform):
    """Puts of whole records and of members in any order, by several writers, steps and blocks, against NumPy."""
    cell = np.dtype([("w", "f4", (2,)), ("k", "i2")])
    dtype = np.dtype([("v", "f8", (3,)), ("m", "i2", (2, 2)), ("p", cell, (2,))])
    fill = random_array(np.random.default_rng(12), dtype, (1,))[0]
    V = container.create_variable(
        "p", dtype, shape=(9,), steps=True, transform=transform, fill_value=fill, chunks=(4,)
    )
    rng = np.random.default_rng(11)
    expected = np.full((6, 9), fill)
    for step in range(6):
        for _ in range(2):
            with container.writer() as w, w.step(step):
                for path in rng.permutation(PARTS)[: rng.integers(1, 6)]:
                    first = int(rng.integers(0, 9))
                    room = of_part(expected[step, first : int(rng.integers(first + 1, 10))], path)
                    room[...] = random_array(rng, room.dtype, room.shape)
                    w.put("p", np.asfortranarray(room), offset=first, field=path)
            container.commit()
    same(V[...], expected)
    same(V[::-2, 1::3], expected[::-2, 1::3])
    same(V.oindex[[4, 0], [8, 1, 1]], expected[np.ix_([4, 0], [8, 1, 1])])
    same(V.read_points(np.array([[0, 8], [5, 3]])), expected[[0, 5], [8, 3]])
    for path in PARTS:
        part = V[path]
        for step in range(6):
            same(part[step], of_part(expected[step], path))
        same(part.fill_value, of_part(fill[None], path)[0])
    assert container.verify().ok
    container.publish(progress=None)
    import zarr

    published = zarr.open_group(Path(container.path) / "zarr", mode="r")["p"]
    same(published["v"][...], expected["v"])
    same(published["m"][...], expected["m"])


def test_a_block_of_a_part_is_read_as_it_was_written(container):
    V = container.create_variable("p", [("v", "f8", (3,)), ("n", "i4")], shape=(8,))
    with container.writer() as w:
        w.put("p", np.arange(8.0).reshape(4, 2), offset=2, field="v[0:2]")
        w.put("p", np.arange(4.0), offset=4, field="v[2]")
    first, second = V.blocks()
    assert (first.offset, first.members, second.members) == ((2,), ("v",), ("v",))
    block = V.read_block(None, 0)
    same(block["v"], np.hstack([np.arange(8.0).reshape(4, 2), np.zeros((4, 1))]))
    same(V["v[2]"].read_block(None, 1), np.arange(4.0))
    assert V["v[1]"].explain[...].read_bytes < V["v"].explain[...].read_bytes
    hits = V["v[2]"].value_range(1, 2)
    same(np.sort(hits.values), np.array([1.0, 2.0]))


def test_parts_are_assigned_to(container):
    V = container.create_variable("p", [("v", "f8", (3,)), ("m", "i4", (2, 3))], shape=(5,))
    V[...] = np.zeros(5, V.dtype)
    V["v"][1:4, 1] = [5, 6, 7]
    V["m"][2, :, 1:] = [[1, 2], [3, 4]]
    V["m[0]"][4] = [7, 8, 9]
    expected = np.zeros(5, V.dtype)
    expected["v"][1:4, 1] = [5, 6, 7]
    expected["m"][2, :, 1:] = [[1, 2], [3, 4]]
    expected["m"][4, 0] = [7, 8, 9]
    same(V[...], expected)
    for path in ["v[3]", "v[-1]", "v[0, 0]", "v[2:1]", "m[0].x"]:
        with pytest.raises(dry.NotFoundError):
            V[path][...]
        with container.writer() as w, pytest.raises(dry.NotFoundError):
            w.put("p", np.zeros(5), field=path)


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
        with pytest.raises(dry.InvalidArgumentError, match=r"float32.*complex128"):
            w.put("p", np.zeros(2, "c16"), field="x")


def test_a_member_of_another_shape_is_refused(container):
    container.create_variable("p", DTYPES["sub-arrays"], shape=(2,))
    with container.writer() as w, pytest.raises(dry.InvalidArgumentError, match=r"\[3\]"):
        w.put("p", np.zeros((2, 2), "f4"), field="v")


def test_a_variable_or_a_member_of_it_may_be_given_in_place_of_its_name(tmp_path):
    with dry.create(tmp_path / "a.dry") as c, dry.create(tmp_path / "b.dry") as other:
        record = c.create_variable("P", [("x", "f4"), ("id", "i4")], (3,))
        plain = c.create_variable("T", "f4", (2,))
        foreign = other.create_variable("T", "f4", (2,))
        with c.writer() as w:
            w.put(plain, [1, 2])
            w.put(record["x"], np.array([1, 2, 3], "f4"))
            w.put(record, np.array([4, 5, 6], "i4"), field="id")
            with pytest.raises(
                dry.InvalidArgumentError,
                match=r'"T" is a variable of .*b\.dry, the writer writes to .*a\.dry',
            ):
                w.put(foreign, [1, 2])
            with pytest.raises(dry.InvalidArgumentError, match='as its member "x": leave field out'):
                w.put(record["x"], np.array([4, 5, 6], "i4"), field="id")
            with pytest.raises(TypeError):
                w.put(3, [1, 2])
        c.commit()
        assert plain[:].tolist() == [1, 2]
        assert record["x"][:].tolist() == [1, 2, 3]
        assert record["id"][:].tolist() == [4, 5, 6]
