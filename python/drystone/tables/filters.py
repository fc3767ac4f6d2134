"""Pushed-down conditions: as values, as query texts, as pyarrow expressions.

A condition is exact, or a part of it is unknown. An unknown part excludes nothing. NaN is "greatest" if the engine
orders it above all numbers, as DuckDB, Polars and DataFusion do; otherwise it compares as in IEEE and Arrow.

A null is unknown in all three: SQL, Arrow, and queries of containers.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST = 512
"""Most constants of a condition that becomes a query as it is."""

Names = Mapping[str, tuple[str, "np.dtype[Any]"]]
"""The names of columns in conditions, with their dtypes."""


@dataclass(frozen=True)
class Compare:
    """A comparison of a column with a constant: a number or a truth value."""

    op: str
    column: str
    value: bool | int | float
    loose: bool = False
    """Whether the engine may round the constant to the type of the column."""


@dataclass(frozen=True)
class At:
    """A comparison of a column of times with a time."""

    op: str
    column: str
    microseconds: int
    """Since 1970."""


@dataclass(frozen=True)
class IsIn:
    """A test of a column for membership in several constants."""

    column: str
    values: tuple[bool | int | float, ...]


@dataclass(frozen=True)
class Pair:
    """Two columns."""

    op: str
    left: str
    right: str


@dataclass(frozen=True)
class Truths:
    """The truth values of two conditions."""

    op: str
    left: Condition
    right: Condition


@dataclass(frozen=True)
class Always:
    """A constant; `None` is a null."""

    value: bool | None


@dataclass(frozen=True)
class Test:
    """A test of a column: `is_nan`, `is_null`, `is_not_null` or, for a truth value, `is_true`."""

    what: str
    column: str


@dataclass(frozen=True)
class Not:
    """The complement."""

    of: Condition


@dataclass(frozen=True)
class Joined:
    """`and`, `or` of several conditions."""

    how: str
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Unknown:
    """A condition that this module cannot express."""


Condition = Compare | At | IsIn | Pair | Truths | Always | Test | Not | Joined | Unknown

TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def greatest_nan(condition: Condition, names: Names) -> Condition:
    """The equivalent condition in IEEE comparisons, if NaN is greater than every number and equal to itself."""
    if isinstance(condition, Not):
        return Not(greatest_nan(condition.of, names))
    if isinstance(condition, Joined):
        return Joined(condition.how, tuple(greatest_nan(part, names) for part in condition.parts))
    if isinstance(condition, Truths):
        left, right = (greatest_nan(part, names) for part in (condition.left, condition.right))
        return Truths(condition.op, left, right)
    if isinstance(condition, Pair):
        return _greatest_of_pair(condition, names)
    if not isinstance(condition, Compare):
        return condition
    column = condition.column
    if column in names and names[column][1].kind != "f":
        return condition
    is_nan = Test("is_nan", column)
    if not _is_nan(condition.value):
        return Joined("or", (condition, is_nan)) if condition.op in (">", ">=") else condition
    never = Joined("and", (is_nan, Not(is_nan)))
    turned: dict[str, Condition] = {
        "==": is_nan,
        ">=": is_nan,
        "!=": Not(is_nan),
        "<": Not(is_nan),
        "<=": Not(never),
        ">": never,
    }
    return turned[condition.op]


def _greatest_of_pair(pair: Pair, names: Names) -> Condition:
    if pair.op in ("<", "<="):
        return _greatest_of_pair(Pair(TURNED[pair.op], pair.right, pair.left), names)
    if pair.op == "!=":
        return Not(_greatest_of_pair(Pair("==", pair.left, pair.right), names))
    left, right = (
        Test("is_nan", column) if column in names and names[column][1].kind == "f" else None
        for column in (pair.left, pair.right)
    )
    if left is None or (pair.op == "==" and right is None):
        return pair
    if pair.op == "==" and right is not None:
        return Joined("or", (pair, Joined("and", (left, right))))
    above: Condition = left if pair.op == ">=" or right is None else Joined("and", (left, Not(right)))
    return Joined("or", (pair, above))


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def text(condition: Condition, names: Names, hashed: bool = False) -> tuple[str, bool] | None:
    """A query condition that is true wherever this one is, and whether it is equivalent; None: it excludes nothing.

    `hashed`: a set of constants with 0.0 does not have -0.0, and no set has null, as in Arrow. A condition of more than
    512 constants is replaced by a wider one, with ranges instead of sets: queries are limited in length.
    """
    if _constants(condition) <= MOST:
        return _text(condition, names, hashed)
    condition = _wider(condition)
    found = _text(condition, names, hashed) if _constants(condition) <= MOST else None
    return None if found is None else (found[0], False)


def _constants(condition: Condition) -> int:
    """The number of comparisons with constants."""
    if isinstance(condition, Joined):
        return sum(_constants(part) for part in condition.parts)
    if isinstance(condition, Truths):
        return _constants(condition.left) + _constants(condition.right)
    if isinstance(condition, Not):
        return _constants(condition.of)
    return len(condition.values) if isinstance(condition, IsIn) else 1


def _wider(condition: Condition) -> Condition:
    """A condition that is true wherever this one is, with a range for each set of constants."""
    if isinstance(condition, IsIn):
        return _range(condition.column, condition.values)
    if not isinstance(condition, Joined):
        return Unknown() if isinstance(condition, Not | Truths) else condition
    if condition.how == "and":
        return Joined("and", tuple(_wider(part) for part in condition.parts))
    sets: dict[str, list[bool | int | float]] = {}
    others: list[Condition] = []
    for part in condition.parts:
        if isinstance(part, Joined) and part.how == "or":
            part = _wider(part)
        if isinstance(part, Compare) and part.op == "==" and not part.loose:
            sets.setdefault(part.column, []).append(part.value)
        elif isinstance(part, IsIn):
            sets.setdefault(part.column, []).extend(part.values)
        else:
            others.append(_wider(part))
    others.extend(_range(column, values) for column, values in sets.items())
    return others[0] if len(others) == 1 else Joined("or", tuple(others))


def _range(column: str, values: Sequence[bool | int | float]) -> Condition:
    """The least range that has all these values."""
    numbers = [value for value in values if not _is_nan(value)]
    parts: list[Condition] = [Test("is_nan", column)] if len(numbers) < len(values) else []
    if numbers:
        limits = Compare(">=", column, min(numbers), True), Compare("<=", column, max(numbers), True)
        parts.append(Joined("and", limits))
    return parts[0] if len(parts) == 1 else Joined("or", tuple(parts))


def _text(condition: Condition, names: Names, hashed: bool) -> tuple[str, bool] | None:
    if isinstance(condition, Joined):
        parts = [_text(part, names, hashed) for part in condition.parts]
        known = [part for part in parts if part is not None]
        if not known or (condition.how == "or" and len(known) < len(parts)):
            return None
        exact = len(known) == len(parts) and all(exact for _, exact in known)
        return _joined(" & " if condition.how == "and" else " | ", [part for part, _ in known]), exact
    if isinstance(condition, Not):
        if hashed and _has_set(condition.of):
            return None
        inner = _text(condition.of, names, hashed)
        return (f"~({inner[0]})", True) if inner is not None and inner[1] else None
    if isinstance(condition, Unknown | At | Pair | Truths | Always) or condition.column not in names:
        return None
    name, dtype = names[condition.column]
    if isinstance(condition, Test):
        if condition.what == "is_nan":
            return (f"isnan({name})", True) if dtype.kind == "f" else None
        return (name, True) if condition.what == "is_true" and dtype.kind == "b" else None
    values = condition.values if isinstance(condition, IsIn) else (condition.value,)
    op = "==" if isinstance(condition, IsIn) else condition.op
    if isinstance(condition, IsIn) and dtype == np.float32:
        # A set is cast to the type of the column.
        values = tuple(value if isinstance(value, bool) else _short(float(value)) for value in values)
    is_set = isinstance(condition, IsIn) and dtype.kind == "f"
    each = [
        f"isnan({name})" if is_set and _is_nan(value) else _compared(name, dtype, op, value)
        for value in values
    ]
    if not each or any(part is None for part in each):
        return None
    loose = isinstance(condition, Compare) and condition.loose and dtype == np.float32
    loose = loose and not _is_short(float(values[0]))
    if loose:
        each.append(f"{name} {op} {_float(float(values[0]))}")
    loose |= hashed and isinstance(condition, IsIn) and dtype.kind == "f" and 0 in condition.values
    return _joined(" | ", each), not loose


def _joined(sign: str, parts: Sequence[str | None]) -> str:
    """The parts in brackets, halved again and again, so that a thousand parts are nested ten deep."""
    if len(parts) == 1:
        return f"({parts[0]})"
    half = len(parts) // 2
    front, back = _joined(sign, parts[:half]), _joined(sign, parts[half:])
    return f"({front}{sign}{back})" if len(parts) > 2 else f"{front}{sign}{back}"


def _has_set(condition: Condition) -> bool:
    if isinstance(condition, Not):
        return _has_set(condition.of)
    if isinstance(condition, Joined):
        return any(_has_set(part) for part in condition.parts)
    return isinstance(condition, IsIn)


def _compared(name: str, dtype: np.dtype[Any], op: str, value: bool | int | float) -> str | None:
    if isinstance(value, bool) or dtype.kind == "b":
        shown = isinstance(value, bool) and dtype.kind == "b" and op in ("==", "!=")
        return f"{name} {op} {str(value).lower()}" if shown else None
    if dtype.kind in "iu":
        if isinstance(value, int):
            return f"{name} {op} {value}" if -(2**63) <= value < 2**64 else None
        # 64-bit integers are only compared with integers; shorter ones are exact as floats.
        return f"f8({name}) {op} {_float(value)}" if dtype.itemsize < 8 else None
    number = float(value)
    if isinstance(value, int) and int(number) != value:
        return None
    column = name if dtype.itemsize == 8 or _is_short(number) else f"f8({name})"
    return f"{column} {op} {_float(number)}"


def _short(number: float) -> float:
    """The nearest float of 32 bits."""
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _is_short(number: float) -> bool:
    """Whether a 32-bit float equals this exactly."""
    return math.isnan(number) or _short(number) == number


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value) if math.isfinite(value) else ("-" if value < 0 else "") + "inf"


def expression(condition: Condition, schema: Any) -> Any:
    """The condition on columns of a schema as a pyarrow expression; None if a part is unknown."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(condition, Unknown):
        return None
    if isinstance(condition, Not):
        inner = expression(condition.of, schema)
        return None if inner is None else ~inner
    if isinstance(condition, Joined):
        parts = [expression(part, schema) for part in condition.parts]
        if any(part is None for part in parts):
            return None
        whole = parts[0]
        for part in parts[1:]:
            whole = (whole & part) if condition.how == "and" else (whole | part)
        return whole
    if isinstance(condition, Always):
        return pc.scalar(pa.scalar(condition.value, pa.bool_()))
    if isinstance(condition, Truths):
        left, right = expression(condition.left, schema), expression(condition.right, schema)
        return None if left is None or right is None else _said(condition.op, left, right)
    if isinstance(condition, Pair):
        return _said(condition.op, pc.field(condition.left), pc.field(condition.right))
    field = pc.field(condition.column)
    if isinstance(condition, At):
        time = pa.scalar(condition.microseconds, pa.timestamp("us"))
        return _said(condition.op, field, pc.scalar(time))
    if isinstance(condition, IsIn | Compare) and pa.types.is_unsigned_integer(
        schema.field(condition.column).type
    ):
        # Beside a bare integer pyarrow would convert the column to int64.
        values = condition.values if isinstance(condition, IsIn) else (condition.value,)
        if not all(type(value) is int and 0 <= value < 2**64 for value in values):
            return None
        constants = [pc.scalar(pa.scalar(value, pa.uint64())) for value in values]
        if isinstance(condition, Compare):
            return _said(condition.op, field, constants[0])
        return functools.reduce(operator.or_, [field == constant for constant in constants])
    if isinstance(condition, IsIn):
        # Not `isin`, in which zeros differ by their sign.
        each = [pc.is_nan(field) if _is_nan(value) else field == value for value in condition.values]
        return functools.reduce(operator.or_, each)
    if isinstance(condition, Test):
        if condition.what == "is_true":
            return field
        return {
            "is_nan": pc.is_nan(field),
            "is_null": field.is_null(),
            "is_not_null": field.is_valid(),
        }[condition.what]
    return _said(condition.op, field, condition.value)


def _said(op: str, left: Any, right: Any) -> Any:
    """A comparison of pyarrow."""
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[op]
