"""Exports a selection of one variable to .npy or CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import repeat
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone import _core
from drystone.absent_steps import absent_steps, listed
from drystone.coordinates import axis_names, coordinate, selected_axes
from drystone.errors import InvalidArgumentError
from drystone.interchange.exports import cells, placed
from drystone.interchange.formats import bfloat16
from drystone.lists import ragged_element
from drystone.progress import Progress
from drystone.selection import select
from drystone.variable import Variable

Selected = tuple[int, npt.NDArray[np.int64]]

_MOST_COORDINATES = 1 << 24

_LINES = 1 << 14
"""CSV lines that exist as Python objects at a time."""


def write(kind: str, v: Variable, key: Any, path: Path, lost: list[str], progress: Progress) -> cells.Row:
    """Write a selection; in CSV each line is a cell, with its coordinates."""
    view = v.lazy[key]
    progress.expect(view.nbytes)
    if absent := absent_steps(v, key):
        shown = listed(absent)
        lost.append(f"{v.name}: that steps were never written, whose cells are the fill value: {shown}")
    if ragged_element(view.dtype) is not None:
        raise InvalidArgumentError(
            f'"{v.name}" holds lists of numbers, which .{kind} cannot: take .h5 or .nc'
        )
    if kind == "npy":
        if view.dtype.hasobject:
            raise InvalidArgumentError(
                f'"{v.name}" holds texts of any length, which .npy cannot: take .csv, .h5 or .nc'
            )
        if bfloat16.is_bfloat16(view.dtype):
            lost.append(f"{v.name}: its type bfloat16 (the cells are of two bytes, as NumPy has them)")
        with path.open("wb") as file:
            header = {
                "descr": np.lib.format.dtype_to_descr(view.dtype),
                "fortran_order": False,
                "shape": view.shape,
            }
            try:
                np.lib.format.write_array_header_1_0(file, header)
            except ValueError:  # a record of very many members
                np.lib.format.write_array_header_2_0(file, header)
            file.flush()
            begin = file.tell()
            _core.find_room(path, begin + view.nbytes)
            with placed.Rows(path, begin, view.shape) as rows:
                cells.fill(v, key, progress, rows.__setitem__, at_once=True)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            columns = [_column(v, d, leg, n) for d, (leg, n) in enumerate(_axes(v, key, view.shape))]
            axes, places = [name for name, _ in columns], [values for _, values in columns]
            members = view.dtype.names or (v.name.rsplit("/", 1)[-1],)
            writer.writerow([*axes, *members])
            for box, piece in cells.pieces(v, key, progress):
                with cells.named(v.name):
                    writer.writerows(
                        _lines([along[part] for along, part in zip(places, box, strict=True)], piece)
                    )
    return v.name, view.shape, view.nbytes


def _lines(cells: list[npt.NDArray[Any]], piece: npt.NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """Write a line per cell: its coordinates, and its value or those of its members."""
    flat = piece.reshape(-1)
    for begin in range(0, flat.size, _LINES):
        values = _written(flat[begin : begin + _LINES])
        if not cells:
            places: Iterator[tuple[Any, ...]] = repeat((), len(values))
        else:
            numbers = np.unravel_index(np.arange(begin, begin + len(values)), piece.shape)
            columns = [along[own].tolist() for along, own in zip(cells, numbers, strict=True)]
            places = zip(*columns, strict=True)
        yield from map(add, places, values if piece.dtype.names else zip(values))


def _written(values: npt.NDArray[Any]) -> list[Any]:
    r"""What CSV shows of values; of records, a tuple of their members.

    Instants are texts of ISO 8601, durations NumPy's texts ("90 seconds"). Bytes are ASCII texts, with `\xNN` for other
    bytes and `\\` for a backslash.
    """
    if values.dtype.names:
        return list(zip(*(_written(values[name]) for name in values.dtype.names), strict=True))
    if values.ndim > 1:  # a member that is an array
        return [_written(row) for row in values]
    if values.dtype.kind == "M":
        texts: list[Any] = np.datetime_as_string(values).tolist()
        return texts
    if values.dtype.kind == "m":
        return [str(value) for value in values]
    if values.dtype.kind == "S":
        return [value.replace(b"\\", rb"\\").decode("ascii", "backslashreplace") for value in values.tolist()]
    plain: list[Any] = values.tolist()
    return plain


def _axes(v: Variable, key: Any, shape: tuple[int, ...]) -> list[tuple[Selected | None, int]]:
    """For each axis of the selection: its axis in the variable, if any, and its length."""
    return list(zip(selected_axes(select(key, v.shape)), shape, strict=True))


def _column(v: Variable, d: int, selected: Selected | None, length: int) -> tuple[str, npt.NDArray[Any]]:
    """Name and content of the column of an axis.

    Its coordinate variable or, without one, the indices of the cells.
    """
    names = axis_names(v)
    if selected is None or selected[0] >= len(names):
        return f"axis_{d}", np.arange(length)
    axis, cells = selected
    found = coordinate(v.container, v.name, names[axis], _MOST_COORDINATES)
    if found is None or (cells.size and cells.max() >= found.values.size):
        return names[axis], cells
    moments = found.moments
    return names[axis], (found.values if moments is None else np.asarray(moments, object))[cells]
