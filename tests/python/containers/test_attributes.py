"""Attributes of every kind, on containers, groups and variables."""

import drystone as dry
import ml_dtypes
import numpy as np
import pytest
from same_bits import same

VALUES = {
    "integer": 42,
    "large": 2**64 - 1,
    "negative": -(2**63),
    "float": 1.5,
    "nan": float("nan"),
    "text": "größe",
    "empty": "",
    "bytes": b"\0\xff",
    "true": True,
    "none": None,
    "list": [1, 2.5, "three", None, [4, []]],
    "dict": {"a": 1, "b": {"c": [1, 2]}},
    "empty list": [],
}
ARRAYS = {
    "f4 scalar": np.float32(0.1),
    "i2 scalar": np.int16(-3),
    "u8 scalar": np.uint64(2**64 - 1),
    "bool scalar": np.bool_(True),
    "complex scalar": np.complex64(1 + 2j),
    "bfloat16 scalar": ml_dtypes.bfloat16(1.5),
    "1-d": np.arange(3, dtype="i4"),
    "3-d": np.arange(24, dtype="f8").reshape(2, 3, 4)[:, ::-1],
    "empty": np.zeros((0, 3), "f4"),
    "bools": np.array([True, False]),
    "texts": np.array(["a", "bcd"]),
    "bytes": np.array([b"a", b"bcd"]),
    "record": np.array([(1, 2.5)], [("a", "i2"), ("b", "f8")]),
    "one record": np.array((1, 2.5), [("a", "i2"), ("b", "f8")])[()],
}


@pytest.fixture(params=["container", "group", "variable"])
def owner(request, container):
    return {
        "container": lambda: container,
        "group": lambda: container.create_group("g/h"),
        "variable": lambda: container.create_variable("g/v", "f4"),
    }[request.param]()


@pytest.mark.parametrize("key", VALUES)
def test_plain_values_come_back_as_they_are(owner, key):
    owner.attrs["it"] = VALUES[key]
    got = owner.attrs["it"]
    assert type(got) is type(VALUES[key])
    assert got == VALUES[key] or key == "nan"


@pytest.mark.parametrize("key", ARRAYS)
def test_numpy_values_keep_dtype_and_shape(owner, path, key):
    owner.attrs["it"] = ARRAYS[key]
    same(owner.attrs["it"], ARRAYS[key])
    with dry.open(path) as other:
        name = getattr(owner, "name", "")
        same((other[name] if name else other).attrs["it"], ARRAYS[key])


def test_tuples_come_back_as_lists_and_big_endian_as_little(container):
    container.attrs.update(t=(1, (2, 3)), b=np.arange(3, dtype=">i4"), c=1 + 2j)
    assert container.attrs["t"] == [1, [2, 3]]
    same(container.attrs["b"], np.arange(3, dtype="i4"))
    assert container.attrs["c"] == 1 + 2j
    nested = {"list": [np.float32(1), {"deep": np.arange(2)}]}
    container.attrs["n"] = nested
    same(container.attrs["n"]["list"][1]["deep"], np.arange(2))


def test_attributes_are_a_dictionary(owner):
    attrs = owner.attrs
    attrs["b"] = 1
    attrs.update({"a": 2}, c=3)
    assert list(attrs) == ["a", "b", "c"]
    assert len(attrs) == 3
    assert "a" in attrs
    assert 5 not in attrs
    assert attrs == {"a": 2, "b": 1, "c": 3}
    assert repr(attrs) == "{'a': 2, 'b': 1, 'c': 3}"
    assert attrs.pop("b") == 1
    assert attrs.setdefault("a", 9) == 2
    assert attrs.get("nothing", "x") == "x"
    del attrs["a"]
    with pytest.raises(KeyError, match="has no attribute 'a'"):
        attrs["a"]
    with pytest.raises(dry.NotFoundError):
        del attrs["a"]
    attrs.clear()
    assert not attrs


def test_setting_is_a_commit_and_update_is_one(container):
    before = int(container.snapshot)
    container.attrs["a"] = 1
    assert container.snapshot == before + 1
    container.attrs.update(b=2, c=3, d=4)
    assert container.snapshot == before + 2
    container.attrs["a"] = 1
    assert container.snapshot == before + 2
    assert dict(container.at(before + 1).attrs) == {"a": 1}


def test_what_is_read_is_a_copy(container):
    container.attrs["a"] = np.zeros(3)
    container.attrs["a"][0] = 5
    assert container.attrs["a"][0] == 0


@pytest.mark.parametrize("value", [object(), {1: 2}, {1, 2}, 2**64, np.array(5, "m8"), [object()], lambda: 0])
def test_what_cannot_be_stored_is_refused(container, value):
    with pytest.raises((dry.InvalidArgumentError, dry.UnsupportedError)):
        container.attrs["a"] = value
    assert "a" not in container.attrs


def test_a_value_that_contains_itself_is_refused(container):
    endless = []
    endless.append(endless)
    with pytest.raises(dry.InvalidArgumentError, match="nested"):
        container.attrs["a"] = endless


def test_names_are_texts(container):
    with pytest.raises(dry.InvalidArgumentError, match="name of an attribute"):
        container.attrs[3] = 1


def test_a_name_has_no_nul(owner):
    with pytest.raises(dry.InvalidArgumentError, match="NUL"):
        owner.attrs["two\0names"] = 1
    assert dict(owner.attrs) == {}


def test_a_name_is_not_empty(owner):
    for act in (lambda: owner.attrs.__setitem__("", 1), lambda: owner.attrs.update({"a": 1, "": 2})):
        with pytest.raises(dry.InvalidArgumentError, match="the empty name"):
            act()
    assert dict(owner.attrs) == {}


def test_masked_arrays_are_refused(container):
    """Their hidden values would become visible."""
    masked = np.ma.masked_array([1, 2], [False, True])
    for value in (masked, [masked], {"a": masked}, np.ma.masked):
        with pytest.raises(dry.InvalidArgumentError, match="filled"):
            container.attrs["m"] = value
    container.attrs["m"] = np.ma.masked_array([1, 2])
    assert container.attrs["m"].tolist() == [1, 2]
