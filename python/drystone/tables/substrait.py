"""Filters of pyarrow, parsed from their Substrait form: comparisons, and, or, not, is_in, tests for null and NaN.

A pyarrow expression exposes its parts in no other way. Parts that are not understood become `Unknown`, which excludes
nothing; malformed bytes are no error either.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from drystone.tables.filters import (
    TURNED,
    Always,
    At,
    Compare,
    Condition,
    IsIn,
    Joined,
    Not,
    Pair,
    Test,
    Truths,
    Unknown,
)

_COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "equal": "==", "not_equal": "!="}
_TESTS = {"is_nan", "is_null", "is_not_null"}
_DEPTH = 200
# Fields of a literal: the bits of a varint, or the format of fixed bytes.
_INTEGERS = {2: 32, 3: 32, 5: 32, 7: 64}
_FLOATS = {10: "<f", 11: "<d"}
_TIME = 14


class _Column:
    def __init__(self, number: int) -> None:
        self.number = number


class _Time:
    def __init__(self, microseconds: int) -> None:
        self.microseconds = microseconds


def condition(encoded: bytes, names: Sequence[str]) -> Condition:
    """The condition in an extended expression whose fields have these names."""
    try:
        message = _fields(encoded)
        functions = {}
        for declared in message.get(2, []):
            for function in _fields(declared).get(3, []):
                parts = _fields(function)
                functions[_number(parts, 2)] = bytes(parts[3][0]).decode().partition(":")[0]
        (referred,) = message[3]
        (expression,) = _fields(referred)[1]
        found = _part(expression, functions, names, 0)
    except (KeyError, IndexError, ValueError, TypeError, struct.error):
        return Unknown()
    if isinstance(found, _Column):
        return Test("is_true", names[found.number])
    return found if isinstance(found, Condition) else Unknown()


def _fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a protocol buffer: integers, and bytes of everything else."""
    out: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        value: int | bytes
        if kind == 0:
            value, at = _varint(data, at)
        else:
            length = {1: 8, 5: 4}.get(kind)
            if length is None:
                if kind != 2:
                    raise ValueError
                length, at = _varint(data, at)
            value = data[at : at + length]
            at += length
            if at > len(data):
                raise ValueError
        out.setdefault(key >> 3, []).append(value)
    return out


def _varint(data: bytes, at: int) -> tuple[int, int]:
    n = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n & (2**64 - 1), at
    raise ValueError


def _number(fields: dict[int, list[Any]], field: int) -> int:
    value = fields.get(field, [0])[0]
    if not isinstance(value, int):
        raise TypeError
    return value


def _part(data: bytes, functions: dict[int, str], names: Sequence[str], depth: int) -> Any:
    """A condition, a column, a constant."""
    if depth > _DEPTH:
        raise ValueError
    fields = _fields(data)
    if 1 in fields:
        return _literal(fields[1][0])
    if 2 in fields:
        return _Column(_column(fields[2][0]))
    if 8 in fields:
        return _is_in(_fields(fields[8][0]), functions, names, depth)
    if 6 in fields:
        return _if_then(_fields(fields[6][0]), functions, names, depth)
    if 3 not in fields:
        return Unknown()
    call = _fields(fields[3][0])
    name = functions[_number(call, 1)]
    arguments = [_part(_fields(a)[3][0], functions, names, depth + 1) for a in call.get(4, [])]
    return _called(name, arguments, names)


def _called(name: str, arguments: list[Any], names: Sequence[str]) -> Condition:
    if name in ("and", "or", "not"):
        parts = tuple(_as_condition(a, names) for a in arguments)
        if name == "not":
            return Not(parts[0])
        return Joined(name, parts) if parts else Unknown()
    if name in _TESTS and isinstance(arguments[0], _Column):
        return Test(name, names[arguments[0].number])
    if name in _COMPARISONS and len(arguments) == 2:
        op = _COMPARISONS[name]
        left, right = arguments
        if Always(None) in (left, right):
            return Always(None)
        if isinstance(left, _Column) and isinstance(right, _Column):
            return Pair(op, names[left.number], names[right.number])
        if any(isinstance(part, Condition) for part in arguments):
            return Truths(op, _as_condition(left, names), _as_condition(right, names))
        if isinstance(right, _Column):
            left, right, op = right, left, TURNED[op]
        if isinstance(left, _Column) and isinstance(right, _Time):
            return At(op, names[left.number], right.microseconds)
        if isinstance(left, _Column) and isinstance(right, bool | int | float):
            return Compare(op, names[left.number], right)
    return Unknown()


def _as_condition(part: Any, names: Sequence[str]) -> Condition:
    if isinstance(part, _Column):
        return Test("is_true", names[part.number])
    if isinstance(part, bool):
        return Always(part)
    return part if isinstance(part, Condition) else Unknown()


def _column(reference: bytes) -> int:
    segment = _fields(_fields(reference)[1][0])
    field = _fields(segment[2][0])
    if 2 in field:  # a member of a member
        raise ValueError
    return _number(field, 1)


def _if_then(
    fields: dict[int, list[Any]], functions: dict[int, str], names: Sequence[str], depth: int
) -> Condition:
    """`is_in` of an engine: a condition where a column is not null, else null. The condition alone expresses that."""
    (clause,) = map(_fields, fields[1])
    tested = _part(clause[1][0], functions, names, depth + 1)
    otherwise = _fields(_fields(fields[2][0])[1][0])
    found = _as_condition(_part(clause[2][0], functions, names, depth + 1), names)
    alike = isinstance(tested, Test) and tested.what == "is_not_null" and 29 in otherwise
    return found if alike and isinstance(found, IsIn) and found.column == tested.column else Unknown()


def _is_in(
    fields: dict[int, list[Any]], functions: dict[int, str], names: Sequence[str], depth: int
) -> Condition:
    column = _part(fields[1][0], functions, names, depth + 1)
    values = [_part(option, functions, names, depth + 1) for option in fields.get(2, [])]
    if not isinstance(column, _Column) or not values:
        return Unknown()
    if not all(isinstance(value, bool | int | float) for value in values):
        return Unknown()
    return IsIn(names[column.number], tuple(values))


def _literal(data: bytes) -> Any:
    for field, values in _fields(data).items():
        if field == 1:
            return bool(values[0])
        if field in _INTEGERS or field == _TIME:
            value = values[0] - 2**64 if values[0] >= 2**63 else values[0]
            return _Time(value) if field == _TIME else value
        if field in _FLOATS:
            return struct.unpack(_FLOATS[field], values[0])[0]
        if field == 29:
            return Always(None)
        if field == 33:
            return _unsigned(values[0])
    return Unknown()


def _unsigned(data: bytes) -> Any:
    """An unsigned integer, for which Substrait has no type: a wrapper of protobuf with its address."""
    wrapper = _fields(_fields(data)[2][0])
    if wrapper[1][0].rpartition(b".")[2] not in (b"UInt32Value", b"UInt64Value"):
        return Unknown()
    return _number(_fields(wrapper[2][0]), 1) if 2 in wrapper else 0
