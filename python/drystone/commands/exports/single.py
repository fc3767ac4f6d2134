"""A selection of one variable into .npy or CSV."""

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
from drystone.commands.exports import cells, placed
from drystone.commands.formats import bfloat16
from drystone.commands.progress import Progress
from drystone.errors import InvalidArgumentError
from drystone.selection import select
from drystone.variable import Variable

_LINES = 1 << 14
"""Lines of CSV that are objects of Python at a time."""


def write(kind: str, v: Variable, key: Any, path: Path, lost: list[str]) -> cells.Row:
    """Write what a selection gives; of CSV a line is a cell."""
    view = v.lazy[key]
    absent = _absent(v, key)
    if absent:
        shown = ", ".join(map(str, absent[:8])) + (", ..." if len(absent) > 8 else "")
        lost.append(f"{v.name}: that steps were never written, whose cells are the fill value: {shown}")
    if kind == "npy":
        if view.dtype.hasobject:
            raise InvalidArgumentError(
                f'"{v.name}" holds texts of any length, which .npy cannot: take .csv, .h5 or .nc'
            )
        if bfloat16.is_bfloat16(view.dtype):
            lost.append(f"{v.name}: its type bfloat16 (the cells are of two bytes, as NumPy has them)")
        with path.open("wb") as file, Progress(view.nbytes) as progress:
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
        with Progress(view.nbytes) as progress, path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            names = v.dims or tuple(f"dim_{d}" for d in range(v.ndim - v.has_steps))
            names = ("step", *names) if v.has_steps else names
            numbers = _cells(v, key) if v.ndim == len(names) else None
            axes = names if numbers is not None else tuple(f"axis_{d}" for d in range(len(view.shape)))
            numbers = numbers or [np.arange(n) for n in view.shape]
            members = view.dtype.names or (v.name.rsplit("/", 1)[-1],)
            writer.writerow([*axes, *members])
            for box, piece in cells.pieces(v, key, progress):
                with cells.named(v.name):
                    writer.writerows(
                        _lines([along[part] for along, part in zip(numbers, box, strict=True)], piece)
                    )
    return v.name, view.shape, view.nbytes


def _absent(v: Variable, key: Any) -> list[int]:
    """The steps that are selected and not there."""
    if not v.has_steps:
        return []
    there = set(v.steps)
    of_steps = [leg.along(0) for leg in select(key, v.shape).legs if 0 in leg.axes]
    return sorted({int(step) for numbers in of_steps for step in np.ravel(numbers)} - there)


def _lines(cells: list[npt.NDArray[np.int64]], piece: npt.NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """A line of each cell: where it is along each axis, and its value or those of its members."""
    flat = piece.reshape(-1)
    for begin in range(0, flat.size, _LINES):
        values = flat[begin : begin + _LINES].tolist()
        if not cells:
            places: Iterator[tuple[Any, ...]] = repeat((), len(values))
        else:
            numbers = np.unravel_index(np.arange(begin, begin + len(values)), piece.shape)
            columns = [along[own].tolist() for along, own in zip(cells, numbers, strict=True)]
            places = zip(*columns, strict=True)
        yield from map(add, places, values if piece.dtype.names else zip(values))


def _cells(v: Variable, key: Any) -> list[npt.NDArray[np.int64]] | None:
    """The variable's cells along each axis of a selection, if that has the axes of the variable."""
    if any(item is None or isinstance(item, int) for item in (key if isinstance(key, tuple) else (key,))):
        return None
    wanted = select(key, v.shape)
    if [leg.axes for leg in wanted.legs] != [(axis,) for axis in range(v.ndim)]:
        return None
    return [leg.along(axis) for axis, leg in enumerate(wanted.legs)]
