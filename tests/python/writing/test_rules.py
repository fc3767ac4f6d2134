"""Rules between ad-hoc layouts, against NumPy."""

import pickle

import drystone as dry
import numpy as np
import pytest
from drystone.rules import Layout, Rule, compile

PARTICLE = np.dtype(
    {"names": ["x", "y", "id"], "formats": ["f8", "f8", "i8"], "offsets": [0, 8, 24], "itemsize": 32}
)


def test_a_box_moves_between_orders():
    a = np.arange(200.0).reshape(10, 20)
    rule = compile(Layout.of(a.shape, a.dtype), Layout.of((4, 5), "f8", order="F", start=(3, 7)))
    out = rule.apply(a, np.zeros((4, 5), order="F"))
    np.testing.assert_array_equal(out, a[3:7, 7:12])
    assert rule.moved == 160
    assert len(bytes(rule)) < 64


def test_what_the_source_lacks_is_left_alone():
    a = np.arange(6.0)
    out = compile(Layout.of(6, "f8", start=2), Layout.of(10, "f8")).apply(a, np.full(10, -1.0))
    np.testing.assert_array_equal(out, [-1, -1, 0, 1, 2, 3, 4, 5, -1, -1])


def test_records_become_columns():
    p = np.zeros(50, PARTICLE)
    for n, name in enumerate(PARTICLE.names):
        p[name] = np.arange(50) + 100 * n
    columns = Layout.of(50, "f8", field="y") + Layout.of(50, "i8", field="id", offset=400)
    rule = compile(Layout.of(50, PARTICLE), columns)
    out = rule.apply(p, np.zeros(100, "i8"))
    np.testing.assert_array_equal(out[:50].view("f8"), p["y"])
    np.testing.assert_array_equal(out[50:], p["id"])
    back = compile(columns, Layout.of(50, PARTICLE)).apply(out, np.zeros(50, PARTICLE))
    np.testing.assert_array_equal(back["id"], p["id"])
    assert (back["x"] == 0).all()


def test_numbers_are_converted_as_requested():
    a = np.array([1.5, -300.0, np.nan, 1e9])
    with pytest.raises(dry.InvalidArgumentError):
        compile(Layout.of(4, "f8"), Layout.of(4, "i1"))
    rule = compile(Layout.of(4, "f8"), Layout.of(4, "i1"), narrowing="saturate")
    np.testing.assert_array_equal(rule.apply(a, np.zeros(4, "i1")), [1, -128, 0, 127])
    wide = compile(Layout.of(4, ">i2"), Layout.of(4, "i8"))
    np.testing.assert_array_equal(
        wide.apply(np.array([1, -2, 3, 400], ">i2"), np.zeros(4, "i8")), [1, -2, 3, 400]
    )


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:Casting complex")
@pytest.mark.parametrize("to", ["f2", ">f2", "f4", "f8", "c8", ">c16"])
@pytest.mark.parametrize("kind", ["f2", ">f4", "f8", "i2", "u4", "i8", "c8", "c16"])
def test_short_floats_and_complex_numbers_become_what_numpy_makes_of_them(kind, to):
    rng = np.random.default_rng(8)
    values = np.concatenate(
        [rng.normal(size=500), rng.normal(size=500) * 10.0 ** rng.integers(-9, 9, 500), [0, 1, 65504, 65520]]
    )
    a = (values + (1j * values[::-1] if "c" in kind else 0)).astype(kind)
    rule = compile(Layout.of(a.size, kind), Layout.of(a.size, to), narrowing="saturate")
    np.testing.assert_array_equal(rule.apply(a, np.zeros(a.size, to)), a.astype(to))


@pytest.mark.parametrize(("wrong", "what"), [({"shape": (-1,)}, "below zero"), ({"order": "Q"}, "order is")])
def test_layouts_that_are_none_are_refused(wrong, what):
    # Symptom: the first was an OverflowError, the second was taken for "C".
    with pytest.raises(dry.InvalidArgumentError, match=what):
        Layout.of(**{"shape": (3,), "dtype": "f4", **wrong})


def test_rules_are_values():
    def make():
        return compile(Layout.of((8, 8), "f4"), Layout.of((4, 4), "f4", start=(2, 2)))

    rule, other = make(), compile(Layout.of((8, 8), "f4"), Layout.of((4, 4), "f4"))
    assert rule == make()
    assert hash(rule) == hash(make())
    assert rule != other
    assert rule.digest == make().digest != other.digest
    assert len({rule, make(), other}) == 2
    assert Rule.from_bytes(bytes(rule), 256, 64) == rule
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert str(rule).splitlines()[0] == "64 bytes of 256 -> 64"


def test_a_rule_from_a_stranger_is_refused_or_harmless():
    rule = compile(Layout.of((8, 8), "f4"), Layout.of((4, 4), "f4", start=(2, 2)))
    data = bytes(rule)
    with pytest.raises(dry.InvalidArgumentError):
        Rule.from_bytes(data, 255, 64)
    rng = np.random.default_rng(3)
    src = np.zeros(256, "u1")
    for _ in range(2000):
        mutated = bytearray(data)
        mutated[rng.integers(len(data))] = rng.integers(256)
        try:
            found = Rule.from_bytes(bytes(mutated), 256, 64)
        except dry.InvalidArgumentError:
            continue
        found.apply(src, np.zeros(64, "u1"))


def test_buffers_are_checked_before_a_byte_moves():
    rule = compile(Layout.of(8, "f8"), Layout.of(8, "f8"))
    a = np.arange(8.0)
    for src, out, says in [
        (a[:7], np.zeros(8), "64"),
        (a, np.zeros(7), "64"),
        (a, a, "share memory"),
        (np.arange(16.0)[::2], np.zeros(8), "dense"),
    ]:
        with pytest.raises(dry.InvalidArgumentError, match=says):
            rule.apply(src, out)
    frozen = np.zeros(8)
    frozen.flags.writeable = False
    with pytest.raises(dry.InvalidArgumentError, match="read-only"):
        rule.apply(a, frozen)
