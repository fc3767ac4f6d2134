"""A Polars lazy frame over a table: columns, conditions and limits are pushed down; Polars filters the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from drystone.errors import UnsupportedError
from drystone.tables import filters
from drystone.tables.table import ROWS, Table

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError:  # pragma: no cover
    raise UnsupportedError(
        "a lazy frame needs the package polars, 1.20 or newer: pip install polars"
    ) from None

_COMPARISONS = {
    "Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<=", "Eq": "==", "NotEq": "!=", "EqValidity": None, "NotEqValidity": None,
}  # fmt: skip


def scan(table: Table) -> Any:
    """A lazy frame of the table's rows."""
    schema = pl.DataFrame(table.narrowed("false", table.names)).schema

    def source(
        with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        wanted = list(schema) if with_columns is None else list(with_columns)
        where, used = None, set(wanted)
        if predicate is not None:
            names = table.conditions()
            said = filters.text(filters.greatest_nan(_condition(predicate), names), names)
            where, is_all = said or (None, False)
            if is_all:
                predicate = None
            else:
                used |= set(predicate.meta.root_names())
        read = table.narrowed(where, [name for name in schema if name in used])
        left = n_rows
        rows = min(batch_size or ROWS, ROWS if n_rows is None or predicate is not None else max(n_rows, 1))
        for frame in _frames(read, rows):
            if left == 0:
                return
            found = frame if predicate is None else frame.filter(predicate)
            found = found.select(wanted)
            if left is not None:
                found = found.head(left)
                left -= len(found)
            yield found

    return register_io_source(source, schema=schema)


def _frames(table: Table, rows: int) -> Iterator[Any]:
    """The rows, one frame per batch."""
    for batch in table.streams(rows):
        yield pl.DataFrame(batch)


def _condition(predicate: Any) -> filters.Condition:
    """The part of a predicate that is understood."""
    try:
        return _part(json.loads(predicate.meta.serialize(format="json")))
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        RecursionError,
        pl.exceptions.PolarsError,
    ):
        return filters.Unknown()


def _part(node: Any) -> filters.Condition:
    if isinstance(node, dict) and "BinaryExpr" in node:
        return _binary(node["BinaryExpr"])
    if isinstance(node, dict) and "Function" in node:
        return _function(node["Function"])
    if isinstance(node, dict) and "Column" in node:
        return filters.Test("is_true", node["Column"])
    return filters.Unknown()


def _binary(node: Any) -> filters.Condition:
    op = node["op"]
    if op in ("And", "LogicalAnd", "Or", "LogicalOr"):
        parts = _part(node["left"]), _part(node["right"])
        return filters.Joined("and" if "And" in op else "or", parts)
    sign = _COMPARISONS.get(op)
    left, right = node["left"], node["right"]
    if sign is None:
        return filters.Unknown()
    if "Column" in right:
        left, right, sign = right, left, filters.TURNED[sign]
    return _compare(sign, left, right)


def _compare(sign: str, left: Any, right: Any) -> filters.Condition:
    value = _constant(right)
    if "Column" not in left or value is None:
        return filters.Unknown()
    return filters.Compare(sign, left["Column"], value, loose="Dyn" in right.get("Literal", {}))


def _function(node: Any) -> filters.Condition:
    what = node["function"]
    inputs = node["input"]
    boolean = what.get("Boolean") if isinstance(what, dict) else None
    if boolean == "Not":
        return filters.Not(_part(inputs[0]))
    if boolean in ("IsNan", "IsNull", "IsNotNull") and "Column" in inputs[0]:
        name = {"IsNan": "is_nan", "IsNull": "is_null", "IsNotNull": "is_not_null"}[boolean]
        return filters.Test(name, inputs[0]["Column"])
    if boolean == "IsIn" or "IsIn" in (boolean or {}):
        values = _listed(inputs[1])
        if "Column" in inputs[0] and values:
            return filters.IsIn(inputs[0]["Column"], values)
    if isinstance(boolean, dict) and "IsBetween" in boolean and "Column" in inputs[0]:
        closed = boolean["IsBetween"]["closed"]
        low = _compare(">=" if closed in ("Both", "Left") else ">", inputs[0], inputs[1])
        high = _compare("<=" if closed in ("Both", "Right") else "<", inputs[0], inputs[2])
        return filters.Joined("and", (low, high))
    return filters.Unknown()


def _listed(node: Any) -> tuple[bool | int | float, ...]:
    """The numbers of a list, which is serialised as a stream."""
    frame = pl.read_ipc_stream(bytes(node["Literal"]["Scalar"]["List"]))
    values = frame.to_series().explode().to_list()
    return tuple(values) if all(isinstance(value, bool | int | float) for value in values) else ()


def _constant(node: Any) -> bool | int | float | None:
    """A number or a truth value, however deeply its literal is nested."""
    is_short = False
    while isinstance(node, dict) and len(node) == 1:
        ((kind, node),) = node.items()
        if kind not in ("Literal", "Dyn", "Scalar", "Int", "Float", "Boolean", "value", *_TYPES):
            return None
        is_short |= kind == "Float32"
    if not isinstance(node, bool | int | float):
        return None
    # A 32-bit float is printed with the fewest digits that distinguish it from other 32-bit floats.
    return float(np.float32(node)) if is_short else node


_TYPES = (
    "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64",
)  # fmt: skip
