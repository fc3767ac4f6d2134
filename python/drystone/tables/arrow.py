"""NumPy arrays as columns of Arrow's C data interface. Needs no Arrow package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.errors import InvalidArgumentError
from drystone.values import changed

Field = tuple[str, str, list[Any]]
"""Name, format, children."""
Node = tuple[int, int, list[npt.NDArray[np.uint8] | None], list[Any]]
"""Length, number of nulls, buffers, children."""

_UNITS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}
"""NumPy's units that Arrow also has."""
_FORMATS = {
    "b1": "b",
    "i1": "c",
    "u1": "C",
    "i2": "s",
    "u2": "S",
    "i4": "i",
    "u4": "I",
    "i8": "l",
    "u8": "L",
    "f2": "e",
    "f4": "f",
    "f8": "g",
}


def field(name: str, dtype: np.dtype[Any], inner: Sequence[int] = ()) -> Field | None:
    """The column of a dtype whose elements are arrays of a shape; None if Arrow has no such type."""
    for extent in inner:
        child = field("item", dtype, inner[1:])
        return None if child is None else (name, f"+w:{extent}", [child])
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return field(name, part, (2,))
    if dtype.kind in "UO":
        return (name, "U", [])
    if dtype.kind == "S":
        return (name, "Z", [])
    if dtype.name == "bfloat16":
        return (name, "f", [])
    if dtype.kind in "mM":
        dtype = _in_arrow(dtype)
        unit = _UNITS.get(np.datetime_data(dtype)[0]) if dtype.kind in "mM" else None
        return (name, "l" if unit is None else f"ts{unit}:" if dtype.kind == "M" else f"tD{unit}", [])
    form = _FORMATS.get(f"{dtype.kind}{dtype.itemsize}")
    return None if form is None else (name, form, [])


def node(values: npt.NDArray[Any], written: npt.NDArray[np.bool_] | None) -> Node:
    """The values of a column; unwritten cells and missing times are null."""
    if values.dtype.kind in "mM" and values.ndim == 1:
        there = ~np.isnat(values)
        written = there if written is None else written & there
        values = _converted(values)
    number = len(values)
    nulls = 0 if written is None else number - int(np.count_nonzero(written))
    valid = None if written is None or not nulls else np.packbits(written, bitorder="little")
    if values.dtype.kind == "c":
        values = np.ascontiguousarray(values).view(f"f{values.dtype.itemsize // 2}").reshape(*values.shape, 2)
    if values.ndim > 1:
        return number, nulls, [valid], [node(values.reshape(-1, *values.shape[2:]), None)]
    if values.dtype.kind in "UOS":
        return number, nulls, [valid, *_texts(values)], []
    if values.dtype.kind == "b":
        return number, nulls, [valid, np.packbits(values, bitorder="little")], []
    if values.dtype.name == "bfloat16":
        values = values.astype("f4")
    native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return number, nulls, [valid, native.view(np.uint8)], []


def _in_arrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The Arrow type that holds times exactly, for units from nanoseconds to seconds; else integers."""
    unit, count = np.datetime_data(dtype)
    if count == 1 and unit in _UNITS:
        return dtype
    exact = unit in ("W", "D", "h", "m", *_UNITS) or (dtype.kind == "M" and unit in ("Y", "M"))
    return np.dtype(f"{dtype.kind}8[{unit if unit in _UNITS else 's'}]") if exact else np.dtype(np.int64)


def _converted(times: npt.NDArray[Any]) -> npt.NDArray[Any]:
    dtype = _in_arrow(times.dtype)
    if dtype.kind == "i":
        return times.view(np.int64)
    wrong = changed(times, dtype)
    if wrong.any():
        raise InvalidArgumentError(f"{times[wrong][0]} is too far away for {dtype}, in which Arrow gets it")
    return times.astype(dtype).view(np.int64)


def _texts(values: npt.NDArray[Any]) -> list[npt.NDArray[np.uint8]]:
    """The offsets of the texts, and the texts."""
    each = values.tolist()
    encoded = each if values.dtype.kind == "S" else [text.encode() for text in each]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return [offsets.view(np.uint8), np.frombuffer(b"".join(encoded), np.uint8)]
