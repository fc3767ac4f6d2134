"""NumPy arrays as the columns of Arrow's C data interface. Needs no package of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Field = tuple[str, str, list[Any]]
"""Name, format, children."""
Node = tuple[int, int, list[npt.NDArray[np.uint8] | None], list[Any]]
"""Length, number of nulls, buffers, children."""

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
    """The column of a dtype whose elements are arrays of a shape; None where Arrow has no such type."""
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
    form = _FORMATS.get(f"{dtype.kind}{dtype.itemsize}")
    return None if form is None else (name, form, [])


def node(values: npt.NDArray[Any], written: npt.NDArray[np.bool_] | None) -> Node:
    """The values of a column; those that are not written are null."""
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


def _texts(values: npt.NDArray[Any]) -> list[npt.NDArray[np.uint8]]:
    """Where each text begins, and the texts."""
    each = values.tolist()
    encoded = each if values.dtype.kind == "S" else [text.encode() for text in each]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return [offsets.view(np.uint8), np.frombuffer(b"".join(encoded), np.uint8)]
