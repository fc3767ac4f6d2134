"""Every element type is written and read back, in every number of dimensions."""

import drystone as dry
import ml_dtypes
import numpy as np
import pytest
from same_bits import commits_by_itself, random_array, same

SCALARS = [
    "bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "S1", "S7", "U1", "U5",
]  # fmt: skip
ALL = [np.dtype(name) for name in SCALARS] + [np.dtype(ml_dtypes.bfloat16)]


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("steps", [False, True])
def test_values_of_every_dtype_come_back_bit_for_bit_in_0_to_8_dimensions(container, dtype, steps):
    rng = np.random.default_rng(7)
    written = {}
    for ndim in range(9 if not steps else 8):
        shape = tuple(int(n) for n in rng.integers(1, 4, ndim))
        name = f"v{ndim}"
        container.create_variable(name, dtype, shape=shape, steps=steps)
        written[name] = random_array(rng, dtype, shape)
    with commits_by_itself(container) as w:
        if steps:
            with w.step():
                for name, array in written.items():
                    w.put(name, array)
        else:
            for name, array in written.items():
                w.put(name, array)
    for name, array in written.items():
        V = container[name]
        assert V.dtype == dtype
        same(V[0, ...] if steps else V[...], array)
        if steps:
            same(V[0], array if array.ndim else array[()])
        same(np.asarray(V.read(step=0 if steps else None)), array)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(float, "f8"), (int, "i8"), (bool, "?"), (complex, "c16"), (np.float32, "f4"), ("float16", "f2"), (">i4", "i4"),
     ("bfloat16", ml_dtypes.bfloat16), (ml_dtypes.bfloat16, ml_dtypes.bfloat16), (">U3", "U3")],
)  # fmt: skip
def test_a_dtype_is_whatever_numpy_accepts(container, given, expected):
    assert container.create_variable("v", given, shape=(2,)).dtype == np.dtype(expected)


@pytest.mark.parametrize("given", [">f4", ">i2", ">c16", ">U4", [("a", ">f8"), ("b", ">i2", (2,))]])
def test_big_endian_arrays_are_converted(container, given):
    rng = np.random.default_rng(3)
    big = np.dtype(given)
    little = big.newbyteorder("<")
    V = container.create_variable("v", big, shape=(5, 3))
    array = random_array(rng, little, (5, 3))
    with container.writer() as w:
        w.put("v", array.astype(big))
    assert V.dtype == little
    same(V[...], array)


@pytest.mark.parametrize("dtype", ["longdouble", "V8"])
def test_what_cannot_be_stored_is_refused_with_a_way_out(container, dtype):
    with pytest.raises(dry.UnsupportedError, match=r"not stored; \w+"):
        container.create_variable("v", dtype)


def h5py_enum(names, base="u1"):
    return np.dtype(base, metadata={"enum": names})


@pytest.mark.parametrize(
    "dtype",
    [
        object,
        "O",
        [("x", object)],
        [("x", "f4"), ("t", object, (2,))],
    ],
    ids=str,
)
def test_object_is_refused_with_a_hint_to_str(container, dtype):
    # Symptom: `create_variable("b", object)` silently made strings, whatever was put later.
    with pytest.raises(dry.InvalidArgumentError, match="dtype=str"):
        container.create_variable("v", dtype, (2,))
    assert "v" not in container


@pytest.mark.parametrize(
    "dtype",
    [
        h5py_enum({"RED": 0, "BLUE": 1}),
        h5py_enum({"FALSE": 0, "TRUE": 1}, "i1"),
        [("x", "f4"), ("colour", h5py_enum({"RED": 0}), (2,))],
    ],
    ids=str,
)
def test_an_enumeration_of_h5py_keeps_its_names(container, dtype):
    # Symptom: the dtype of an HDF5 enumeration made a variable of integers, and the names were lost.
    made = container.create_variable("v", dtype, (2,)).dtype
    given = np.dtype(dtype)
    inner, expected = (made["colour"].base, given["colour"].base) if given.names else (made, given)
    assert made == given
    assert inner.metadata == expected.metadata


def test_the_string_dtypes_of_h5py_numpy_and_xarray_are_strings(container):
    h5py = pytest.importorskip("h5py")
    strings = [
        h5py.string_dtype(),
        h5py.string_dtype("ascii"),
        np.dtypes.StringDType(),
        np.dtype(object, metadata={"element_type": str}),
        str,
        "str",
    ]
    for n, dtype in enumerate(strings):
        V = container.create_variable(f"v{n}", dtype, (2,))
        V[...] = ["a", "größe"]
        assert list(V[...]) == ["a", "größe"]
    assert container.create_variable("bytes", h5py.string_dtype("utf-8", 5), (2,)).dtype == np.dtype("S5")


@pytest.mark.parametrize("dtype", ["S", "U", bytes, "nonsense", ("f4", (3,)), 3.5, None])
def test_an_unknown_element_type_is_an_invalid_argument(container, dtype):
    with pytest.raises(dry.InvalidArgumentError):
        container.create_variable("v", dtype)
    assert "v" not in container


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("f4", np.float64(1.5)), ("f8", 3), ("f8", float("nan")), ("i2", np.int64(-7)), ("u1", 255), ("i4", 2.0), ("?", True),
        ("c8", 1 + 2j), ("S3", b"ab"), ("U3", "äb"), ("bfloat16", 0.5), ("bfloat16", ml_dtypes.bfloat16(2)),
        ("f4", ml_dtypes.bfloat16(2)), ("f2", np.array(1.0)), ([("a", "f4"), ("b", "i2", (2,))], (1.5, (1, 2))),
    ],
)  # fmt: skip
def test_unwritten_cells_read_as_the_fill_value(container, dtype, fill):
    V = container.create_variable("v", dtype, shape=(3,), fill_value=fill)
    expected = np.full(3, np.asarray(fill, V.dtype), V.dtype)
    same(V[...], expected)
    same(V.fill_value, expected[0])
    with container.writer() as w:
        w.put("v", np.zeros(1, V.dtype), offset=1)
    expected[1] = np.zeros((), V.dtype)
    same(V[...], expected)


def test_without_a_fill_value_cells_read_as_zero(container):
    V = container.create_variable("v", "f4", shape=(2,))
    same(V.fill_value, np.float32(0))
    same(V[...], np.zeros(2, "f4"))


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("u1", 256),
        ("u1", -1),
        ("i4", 1.5),
        ("f4", "x"),
        ("S2", b"abc"),
        ("f4", [1.0, 2.0]),
        ("?", 2),
        ("f4", 1j),
        (str, "x"),
    ],
)
def test_a_fill_value_that_does_not_fit_is_an_invalid_argument(container, dtype, fill):
    with pytest.raises(dry.InvalidArgumentError, match="fill"):
        container.create_variable("v", dtype, fill_value=fill)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("f4", 1), ("f4", [1, 2.5]), ("i4", [1, 2]), ("u1", [0, 255]), ("i2", [1.0, 2.0]), ("?", [True, False]), ("c8", [1, 2j]),
     ("f4", np.float64(0.1)), ("S4", "ab"), ("U4", ["ab", "c"]), ("f4", [np.float32(1), np.float32(2)]), ("i8", ((1, 2)))],
)  # fmt: skip
def test_scalars_and_lists_convert_where_nothing_is_lost(container, dtype, value):
    expected = np.asarray(value).astype(dtype)
    V = container.create_variable("v", dtype, shape=expected.shape)
    with container.writer() as w:
        w.put("v", value)
    same(V[...], expected)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("i4", [1.5, 2.0]), ("u1", [256, 0]), ("u1", [-1, 0]), ("f4", [1j, 0]), ("?", [0, 2]), ("f4", ["a", "b"]), ("S1", ["ab", "c"]),
     ("f4", [1e300, 0.0]), ("i8", [2**70, 0])],
)  # fmt: skip
def test_scalars_and_lists_that_would_change_are_refused(container, dtype, value):
    container.create_variable("v", dtype, shape=(2,))
    with container.writer() as w, pytest.raises(dry.InvalidArgumentError, match="does not fit"):
        w.put("v", value)


def test_an_array_of_another_kind_is_refused_with_advice(container):
    container.create_variable("v", "f4", shape=(2,))
    with container.writer() as w:
        with pytest.raises(dry.InvalidArgumentError, match=r"float32.*complex128.*astype"):
            w.put("v", np.zeros(2, "c16"))
        with pytest.raises(dry.InvalidArgumentError, match="astype"):
            w.put("v", np.zeros(2, "S4"))


def test_bfloat16_without_its_package_names_the_package(container, monkeypatch):
    import sys

    V = container.create_variable("v", "f4", shape=(1,))
    W = container.create_variable("w", "bfloat16", shape=(1,))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(dry.UnsupportedError, match="ml_dtypes"):
        W[...]
    same(V[...], np.zeros(1, "f4"))
