"""Expressions: operators on variables and parsed texts make the same trees."""

import copy
import pickle

import drystone as dry
import numpy as np
import pytest
from drystone import expr


@pytest.fixture
def c(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        for name, dtype in {
            "p": "f4",
            "u": "f4",
            "mask": "i4",
            "n": "i8",
            "fields/t": "f8",
            "flag": "bool",
        }.items():
            c.create_variable(name, dtype, (4,))
        c.create_variable("P", np.dtype([("x", "f4"), ("in", [("y", "f8")])]), (4,))
        c.create_variable("h", "f2", (4,))
        with c.writer() as w:
            w.put("p", np.array([1, 2, 3, 4], "f4"))
        c.commit()
        yield c


def test_operators_make_the_tree_of_the_text(c):
    p, u, mask = c["p"], c["u"], c["mask"]
    for made, text in [
        ((p > 3e-5) & ((expr.abs(u) < 1) | (mask == 2)), "p > 3e-5 & (abs(u) < 1 | mask == 2)"),
        (expr.sqrt(u * u + p * p), "sqrt(u * u + p * p)"),
        (1 - p / 2 + p // 3 % 4 - (-p) ** 2, "1 - p / 2 + p // 3 % 4 - (-p) ** 2"),
        (2**p, "2 ** p"),
        (~(p >= 1) ^ (u <= np.float32(2)), "~(p >= 1) ^ u <= 2.0"),
        ((mask & 4) != 0, "(mask & 4) != 0"),
        (1 << mask | mask >> 2, "1 << mask | mask >> 2"),
        (expr.of(p) > 3, "p > 3"),
        (expr.eq(p, u) | expr.ne(p, u), "p == u | p != u"),
        (expr.where(p > 1, expr.f8(p), c["fields/t"]), "where(p > 1, f8(p), `fields/t`)"),
        (expr.min(p, u, 3) + expr.clip(p, 0, 1), "min(min(p, u), 3) + min(max(p, 0), 1)"),
        (c["P"]["x"] + c["P"]["in"]["y"], "P.x + P.`in`.y"),
        (expr.of(u, x=1) - expr.of(u, x=-1), "u[x+1] - u[x-1]"),
        (abs(p) + +p, "abs(p) + p"),
        ((p > 1) == (u > 1), "(p > 1) == (u > 1)"),
        (np.float64(2) + (p + 1), "2.0 + (p + 1)"),
    ]:
        assert made.text == text
        assert made.same(expr.parse(text)), text
        assert made.container is c


def test_every_function_is_there_by_its_name(c):
    for name in expr.__all__:
        if name in ("Expression", "parse", "of", "eq", "ne"):
            continue
        function = getattr(expr, name)
        count = {
            "where": 3,
            "clip": 3,
            "min": 2,
            "max": 2,
            "atan2": 2,
            "hypot": 2,
            "norm": 2,
            "magnitude": 2,
        }.get(name, 1)
        made = function(*[c["p"]] * count)
        assert isinstance(made, expr.Expression)
        if name not in ("norm", "magnitude", "clip"):
            assert made.text.startswith(name.rstrip("_") + "("), made.text
        assert function.__doc__


def test_types_are_checked_against_the_container(c):
    assert (c["p"] > 3).dtype == bool
    assert (c["p"] * 0.1).dtype == np.float32
    assert (c["mask"] + c["p"]).dtype == np.float64
    assert (c["P"]["in"]["y"] + 1).dtype == np.float64
    assert expr.parse("fields/t > 3 & flag", c).dtype == bool
    assert expr.parse("x + y").check({"x": "i2", "y": np.float32}) == np.float32
    for made, says in [
        (c["n"] > 0.5, "64-bit integer"),
        (c["n"] + c["p"], "cast it by f8"),
        (c["flag"] + 1, "truth value"),
        (c["h"] + 1, "float16"),
        (c["P"] + 1, "it is a record: name a member, as `.x`"),
        (expr.parse("maks > 1", c), "did you mean `mask`?"),
        (expr.parse("P.z > 1", c), "there is no such variable or member"),
    ]:
        with pytest.raises(dry.InvalidArgumentError, match=says):
            _ = made.dtype
    with pytest.raises(dry.InvalidArgumentError, match="no container"):
        _ = expr.parse("p > 1").dtype


def test_a_text_that_does_not_parse_shows_its_place(c):
    with pytest.raises(dry.InvalidArgumentError, match=r"(?s)write `==`\n  p = 3\n    \^"):
        expr.parse("p = 3")
    with pytest.raises(ValueError, match="reductions"):
        _ = expr.parse("mean(p) > 3", c).dtype


def test_a_condition_has_no_truth_value(c):
    condition = c["p"] > 3
    for wrong in (
        lambda: bool(condition),
        lambda: condition and condition,
        lambda: not condition,
        lambda: 1 < c["p"] < 3,
        lambda: condition in [1],
    ):
        with pytest.raises(TypeError, match="has no truth value"):
            wrong()
    with pytest.raises(TypeError):
        hash(condition)


def test_a_comparison_that_python_made_is_not_taken_for_a_condition(c):
    for wrong in (
        lambda: (c["p"] > 1) & (c["p"] == c["u"]),
        lambda: (c["p"] != c["u"]) | (c["p"] > 1),
        lambda: (c["p"] > 1) & np.bool_(True),
    ):
        with pytest.raises(dry.InvalidArgumentError, match=r"expr\.eq"):
            wrong()


def test_variables_are_compared_and_hashed_as_before(c):
    p, again = c["p"], c["p"]
    assert p in [p]
    assert p not in [c["u"], None, "p"]
    assert p == p
    assert p != again
    assert (p == again) is False
    assert p != "p"
    assert (p == None) is False  # noqa: E711
    assert {p: 1}[p] == 1
    assert len({p, again}) == 2


def test_arrays_read_as_before(c):
    p, values = c["p"], np.array([1, 2, 3, 4], "f4")
    np.testing.assert_array_equal(p == values, [True] * 4)
    np.testing.assert_array_equal(p + values, 2 * values)
    np.testing.assert_array_equal(values + p, 2 * values)
    np.testing.assert_array_equal(np.float32(2) * p, 2 * values)
    np.testing.assert_array_equal(p == np.float64(2), values == 2)
    np.testing.assert_array_equal(np.sqrt(p), np.sqrt(values))
    with pytest.raises(TypeError):
        _ = (p > 1) & (values > 1)
    with pytest.raises(TypeError):
        _ = p + "text"


def test_expressions_survive_bytes_and_pickles(c):
    made = (c["p"] > 3) & expr.isnan(c["u"])
    assert expr.Expression.decode(made.encode()).same(made)
    assert copy.copy(made).same(made)
    again = pickle.loads(pickle.dumps(expr.parse("p > 3")))
    assert again.text == "p > 3"
    assert repr(again) == "<drystone expression p > 3>"
    assert made.names == ["p", "u"]
    with pytest.raises(dry.InvalidArgumentError, match="no encoded expression"):
        expr.Expression.decode(b"something else")


def test_an_expression_is_about_one_container_as_it_is_stored(c, tmp_path):
    with dry.create(tmp_path / "other.dry") as other:
        other.create_variable("q", "f4", (4,))
        with pytest.raises(dry.InvalidArgumentError, match="one container"):
            _ = c["p"] + other["q"]
    with pytest.raises(dry.InvalidArgumentError, match="within an error"):
        _ = c["p"].within(0.1) > 3


def test_invalid_or_too_large_operands_are_refused(c):
    with pytest.raises(dry.InvalidArgumentError, match="takes expressions, variables and numbers, not str"):
        expr.sqrt("p")
    with pytest.raises(dry.InvalidArgumentError, match="more than 64 bits"):
        _ = c["p"] > 2**64
    with pytest.raises(dry.InvalidArgumentError, match="more than 64 bits"):
        _ = c["p"] > 2**200
    doubled = c["p"]
    for _ in range(11):
        doubled = doubled + doubled
    with pytest.raises(dry.InvalidArgumentError, match="more than 4096"):
        _ = doubled + doubled
