"""Conditions that an engine pushes down: as values, as texts of the engine's own language, as pyarrow expressions.

A condition is exact or a part of it is unknown. What is not known excludes nothing. NaN is "greatest" where the engine orders it
above all numbers, as DuckDB, Polars and DataFusion do, or compares as in IEEE and Arrow.

A null is unknown in all three: SQL, Arrow, and queries of containers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Names = Mapping[str, tuple[str, "np.dtype[Any]"]]
"""How conditions name columns, with their dtypes."""


@dataclass(frozen=True)
class Compare:
    """A column with a constant, a number or a truth value."""

    op: str
    column: str
    value: bool | int | float
    loose: bool = False
    """Whether the engine may round the constant to the type of the column."""


@dataclass(frozen=True)
class IsIn:
    """A column with several constants."""

    column: str
    values: tuple[bool | int | float, ...]


@dataclass(frozen=True)
class Test:
    """`is_nan`, `is_null`, `is_not_null` or, of a truth value, `is_true` of a column."""

    what: str
    column: str


@dataclass(frozen=True)
class Not:
    """The complement."""

    of: Condition


@dataclass(frozen=True)
class Joined:
    """`and`, `or` of several."""

    how: str
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Unknown:
    """Something that this module has no words for."""


Condition = Compare | IsIn | Test | Not | Joined | Unknown

TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def greatest_nan(condition: Condition, names: Names) -> Condition:
    """The same where NaN is greater than every number and equal to itself, said in comparisons of IEEE."""
    if isinstance(condition, Not):
        return Not(greatest_nan(condition.of, names))
    if isinstance(condition, Joined):
        return Joined(condition.how, tuple(greatest_nan(part, names) for part in condition.parts))
    if isinstance(condition, IsIn) and any(_is_nan(value) for value in condition.values):
        rest = tuple(value for value in condition.values if not _is_nan(value))
        return Joined("or", (IsIn(condition.column, rest), Test("is_nan", condition.column)))
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


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def text(condition: Condition, names: Names) -> tuple[str, bool] | None:
    """A condition of a query that holds wherever this one does, and whether it holds only there; None: it excludes nothing."""
    if isinstance(condition, Joined):
        parts = [text(part, names) for part in condition.parts]
        known = [part for part in parts if part is not None]
        if not known or (condition.how == "or" and len(known) < len(parts)):
            return None
        sign = " & " if condition.how == "and" else " | "
        exact = len(known) == len(parts) and all(exact for _, exact in known)
        return sign.join(f"({part})" for part, _ in known), exact
    if isinstance(condition, Not):
        inner = text(condition.of, names)
        return (f"~({inner[0]})", True) if inner is not None and inner[1] else None
    if isinstance(condition, Unknown) or condition.column not in names:
        return None
    name, dtype = names[condition.column]
    if isinstance(condition, Test):
        if condition.what == "is_nan":
            return (f"isnan({name})", True) if dtype.kind == "f" else None
        return (name, True) if condition.what == "is_true" and dtype.kind == "b" else None
    values = condition.values if isinstance(condition, IsIn) else (condition.value,)
    op = "==" if isinstance(condition, IsIn) else condition.op
    each = [_compared(name, dtype, op, value) for value in values]
    if not each or any(part is None for part in each):
        return None
    loose = isinstance(condition, Compare) and condition.loose and dtype == np.float32
    loose = loose and not _is_short(float(values[0]))
    if loose:
        each.append(f"{name} {op} {_float(float(values[0]))}")
    return " | ".join(f"({part})" for part in each), not loose


def _compared(name: str, dtype: np.dtype[Any], op: str, value: bool | int | float) -> str | None:
    if isinstance(value, bool) or dtype.kind == "b":
        shown = isinstance(value, bool) and dtype.kind == "b" and op in ("==", "!=")
        return f"{name} {op} {str(value).lower()}" if shown else None
    if dtype.kind in "iu":
        if isinstance(value, int):
            return f"{name} {op} {value}" if -(2**63) <= value < 2**64 else None
        # Integers of 64 bits meet integers only; shorter ones are exact floats.
        return f"f8({name}) {op} {_float(value)}" if dtype.itemsize < 8 else None
    number = float(value)
    if isinstance(value, int) and int(number) != value:
        return None
    column = name if dtype.itemsize == 8 or _is_short(number) else f"f8({name})"
    return f"{column} {op} {_float(number)}"


def _is_short(number: float) -> bool:
    """Whether a float of 32 bits is exactly this."""
    with np.errstate(over="ignore"):
        return math.isnan(number) or float(np.float32(number)) == number


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value) if math.isfinite(value) else ("-" if value < 0 else "") + "inf"


def expression(condition: Condition) -> Any:
    """The condition as a pyarrow expression; None where a part is unknown."""
    import pyarrow.compute as pc

    if isinstance(condition, Unknown):
        return None
    if isinstance(condition, Not):
        inner = expression(condition.of)
        return None if inner is None else ~inner
    if isinstance(condition, Joined):
        parts = [expression(part) for part in condition.parts]
        if any(part is None for part in parts):
            return None
        whole = parts[0]
        for part in parts[1:]:
            whole = (whole & part) if condition.how == "and" else (whole | part)
        return whole
    field = pc.field(condition.column)
    if isinstance(condition, IsIn):
        return field.isin(list(condition.values))
    if isinstance(condition, Test):
        if condition.what == "is_true":
            return field
        return {
            "is_nan": pc.is_nan(field),
            "is_null": field.is_null(),
            "is_not_null": field.is_valid(),
        }[condition.what]
    value = condition.value
    return {
        "==": field == value,
        "!=": field != value,
        "<": field < value,
        "<=": field <= value,
        ">": field > value,
        ">=": field >= value,
    }[condition.op]
