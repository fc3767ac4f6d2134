"""Restores types that an export marked because its format lacks them.

Lists are two arrays, references are texts, and truth values are small integers in netCDF.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drystone.contiguous import LISTS_OF, SAMPLE_DIMENSION, unflattened
from drystone.errors import InvalidArgumentError
from drystone.interchange.formats import Array, Box, Contents
from drystone.lists import REFERENCES_TO, ragged, reference


def typed(contents: Contents) -> None:
    """Restores the type that each marked array had in the container."""
    _joined(contents)
    for array in contents.arrays:
        kind = array.attrs.get(REFERENCES_TO)
        if kind in ("object", "region") and array.dtype.kind == "O" and not array.dtype.metadata:
            array.dtype = reference(kind)
            del array.attrs[REFERENCES_TO]
        is_byte = array.dtype == np.int8 and array.fill in (None, 0, 1)
        if is_byte and isinstance(array.attrs.get("dtype"), str) and array.attrs["dtype"] == "bool":
            _as_bool(array)


def _as_bool(array: Array) -> None:
    """Makes an array of truth values of one that says with `dtype`, as xarray does, that it holds them."""
    stored = array.read

    def read(box: Box) -> Any:
        values = np.asarray(stored(box))
        if ((values != 0) & (values != 1)).any():
            raise InvalidArgumentError(
                f'"{array.path}" says dtype="bool" and holds other values than 0 and 1: remove the attribute'
            )
        return values.astype(bool)

    array.dtype, array.read, array.lies = np.dtype(bool), read, False
    array.fill = None if array.fill is None else np.bool_(array.fill)
    del array.attrs["dtype"]


def _joined(contents: Contents) -> None:
    """Joins each pair of marked arrays into an array of lists; other ragged arrays of CF stay two arrays."""
    by_path = {array.path: array for array in contents.arrays}
    for counts in list(contents.arrays):
        name = counts.attrs.get(LISTS_OF)
        if not isinstance(name, str):
            continue
        group = counts.path.rpartition("/")[0]
        row = by_path.get(f"{group}/{name}" if group else name)
        if row is None or row.dims != (counts.attrs.get(SAMPLE_DIMENSION),) or row.dtype.kind not in "biufc":
            contents.lost.append(f"{counts.path}: that it has the lengths of lists in {name}")
            continue
        contents.arrays.remove(counts)
        contents.arrays[contents.arrays.index(row)] = _array(row, counts)


def _array(row: Array, counts: Array) -> Array:
    held: list[Any] = []

    def read(box: Box) -> Any:
        if not held:
            whole = tuple(slice(0, n) for n in counts.shape)
            held.append(unflattened(row.read((slice(0, row.shape[0]),)), np.asarray(counts.read(whole))))
        if box:
            return held[0][box]
        one = np.empty((), object)
        one[()] = held[0][()]
        return one

    return Array(
        row.path, ragged(row.dtype), counts.shape, read, dims=counts.dims, attrs=row.attrs, grows=counts.grows
    )
