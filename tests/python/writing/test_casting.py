"""One casting rule for every way to write.

Symptom: `w.put("a", f8)` was refused where `c["a"][...] = f8` silently rounded, and declared fragments had a third
rule. Cause: each way to write had its own conversion. Every case below uses all of them, so that no two can differ.
"""

import drystone as dry
import drystone.xarray  # registers ds.drystone
import ml_dtypes
import numpy as np
import pytest
from same_bits import same

BF16 = np.dtype(ml_dtypes.bfloat16)


def put(c, value):
    with c.writer() as w:
        w.put("v", value)


def assign(c, value):
    c["v"][...] = value
    c.commit()


def append(c, value):
    """What xarray passes to the container, for a region of an existing variable."""
    drystone.xarray.arrays.Target(c, "v", [0], (2,))[...] = value
    c.commit()


WAYS = [put, assign, append]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    ("stored", "array"),
    [
        ("f4", np.array([0.1, -np.inf])),
        ("f4", np.array([np.nan, 1e-60])),
        ("f2", np.array([0.1, 2.0], "f4")),
        ("f8", np.array([0.1, 2.0], "f4")),
        (BF16, np.array([0.1, 2.0])),
        ("f4", np.array([0.1, 2.0], BF16)),
        ("c8", np.array([0.1, 2.0])),
        ("c8", np.array([0.1j, 2.0])),
        ("f8", np.array([0.1, 2.0], "longdouble")),
        ("i4", np.array([-(2**31), 2**31 - 1])),
        ("u1", np.array([0, 255], "u8")),
        ("i8", np.array([True, False])),
        ("f4", np.array([2**24, -(2**24)])),
        ("f8", np.array([2**53, 2**63 - 2**10], "u8")),
        ("i4", np.array([1, 2], ">i4")),
        ("S2", np.array([b"ab\0\0", b"a"], "S4")),
        ("U2", np.array(["ab", ""], "U7")),
        ("U2", np.array([b"ab", b""])),
        ([("x", "f8"), ("n", "i4")], np.array([(0.5, 1), (1.5, 2)], [("x", "f4"), ("n", "i2")])),
    ],
    ids=str,
)
def test_an_array_of_the_same_kind_is_converted_where_its_values_fit(container, way, stored, array):
    V = container.create_variable("v", stored, (2,))
    way(container, array)
    same(V[...], array.astype(V.dtype))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    ("stored", "array", "why"),
    [
        ("i4", np.array([1.0, 2.0]), "another kind"),
        ("i8", np.array([1, 2], "u8").view("M8[s]"), "another kind"),
        ("u8", np.array([1, 2]), "another kind"),
        ("f4", np.array([1 + 0j, 2]), "another kind"),
        ("?", np.array([1, 0]), "another kind"),
        ("U9", np.array([1, 0]), "another kind"),
        ("S32", np.array([1.5, 0]), "another kind"),
        ("f4", np.array([b"1", b"2"]), "another kind"),
        ("S2", np.array(["a", "b"]), "another kind"),
        ([("x", "f4")], np.array([(0.5,), (1.5,)], [("x", "f8")]), "another kind"),
        ("f4", np.array([1.0, 1e300]), "would change"),
        ("f2", np.array([1.0, 70000.0], "f4"), "would change"),
        ("c8", np.array([1.0, 1e300j]), "would change"),
        ("i4", np.array([1, 2**40]), "would change"),
        ("i8", np.array([1, 2**63], "u8"), "would change"),
        ("f4", np.array([1, 2**24 + 1]), "would change"),
        ("f8", np.array([1, 2**53 + 1]), "would change"),
        ("f8", np.array([1, 2**64 - 1], "u8"), "would change"),
        ("f8", np.array([1, -(2**53) - 1]), "would change"),
        ("c8", np.array([1, 2**24 + 1], "i4"), "would change"),
        ("f2", np.array([1, 2049], "i2"), "would change"),
        ("f2", np.array([1, 2**20], "i4"), "would change"),
        (BF16, np.array([1, 257], "i2"), "would change"),
        ("S2", np.array([b"ab", b"abc"]), "would change"),
        ("U2", np.array(["ab", "abc"]), "would change"),
    ],
    ids=str,
)
def test_an_array_of_another_kind_or_whose_values_would_change_is_refused(container, way, stored, array, why):
    V = container.create_variable("v", stored, (2,))
    before = V[...]
    with pytest.raises(dry.InvalidArgumentError) as refused:
        way(container, array)
    text = str(refused.value)
    assert text.startswith('"v" holds')
    assert why in text
    assert "astype" in text
    assert str(V.dtype) in text
    assert str(array.dtype) in text
    same(V[...], before)


@pytest.mark.parametrize("way", [put, assign])
@pytest.mark.parametrize(
    ("stored", "value", "fits"),
    [
        ("f4", [0.1, 2], True),
        ("i4", [1.0, 2.0], True),
        ("i4", [1.5, 2.0], False),
        ("f4", [2**24 + 1, 0], False),
        ("f8", [2**53 + 1, 0], False),
        ("f4", [1e300, 0.0], False),
        ("u1", [256, 0], False),
        ("i8", [2**63 - 1, 0], True),
    ],
    ids=str,
)
def test_a_list_is_converted_by_its_values(container, way, stored, value, fits):
    V = container.create_variable("v", stored, (2,))
    if fits:
        way(container, value)
        same(V[...], np.array(value).astype(stored))
    else:
        with pytest.raises(dry.InvalidArgumentError, match="does not fit"):
            way(container, value)


def test_members_of_records_and_declared_fragments_follow_the_rule(container):
    container.create_variable("p", [("x", "f4"), ("n", "i2")], (2,))
    with container.writer() as w:
        w.put("p", np.array([0.1, 0.2]), field="x")
        with pytest.raises(
            dry.InvalidArgumentError, match=r'"p" member "n" holds int16.*int64.*would change'
        ):
            w.put("p", np.array([1, 2**40]), field="n")
    container["p"]["x"][...] = np.array([0.1, 0.2])
    same(container["p"]["x"][...], np.array([0.1, 0.2], "f4"))
    container.declare("dataset { var w[2] float32 }; fragment F { var w[i:2] = w[i] }")
    F = container.fragment("F")
    F.write(np.array([0.1, 0.2]))
    same(container["w"][...], np.array([0.1, 0.2], "f4"))
    with pytest.raises(
        dry.InvalidArgumentError, match=r'"w" of the fragment "F" holds float32.*would change'
    ):
        F.write(np.array([0.1, 1e300]))
