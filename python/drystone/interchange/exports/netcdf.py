"""Exports variables to netCDF-4, with netCDF4."""

from __future__ import annotations

import importlib.util
import itertools
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone import _core
from drystone.container import Container
from drystone.enumerations import enum_names
from drystone.errors import InvalidArgumentError
from drystone.interchange import formats
from drystone.interchange.dimensions import Axis, Dimensions
from drystone.interchange.exports import cells, hdf5, placed
from drystone.interchange.exports.stored import Stored
from drystone.interchange.formats import scales, times
from drystone.lists import REFERENCES_TO, ragged_element, reference_kind
from drystone.progress import Progress
from drystone.values import as_elements
from drystone.variable import Variable

_IN_NETCDF = re.compile(r"[A-Za-z0-9_\x80-\U0010ffff]([ -~\x80-\U0010ffff]*[!-~\x80-\U0010ffff])?")


def write(
    c: Container,
    variables: list[Variable],
    path: Path,
    lost: list[str],
    stored: Stored,
    progress: Progress,
) -> list[cells.Row]:
    """Write variables, their groups and attributes; losses are recorded."""
    progress.expect(cells.total(c, variables))
    rows, later = _by_netcdf(c, variables, path, lost, progress, stored)
    _past_netcdf(c, later, path, progress)
    return rows


def _past_netcdf(c: Container, variables: dict[str, Variable], path: Path, progress: Progress) -> None:
    """Fill variables, by name in the file, that are contiguous there."""
    if not variables:
        return
    import h5py
    import netCDF4

    with h5py.File(path, "r") as file:
        begins = {name: hdf5.begin_of(file[name], v.dtype) for name, v in variables.items() if name in file}
    for name, v in variables.items():
        begin = begins.get(name)
        if begin is not None:
            with placed.Rows(path, begin, v.shape) as rows:
                cells.copy(c, v, rows, progress, at_once=True)
        else:  # netCDF stores it under another name or in another form
            with netCDF4.Dataset(path, "a") as file:
                cells.copy(c, v, _untouched(file[name]), progress)


def _untouched(target: Any) -> Any:
    """A netCDF variable that takes values unchanged."""
    target.set_auto_maskandscale(False)
    target.set_auto_chartostring(False)
    return target


def _is_one_run(target: Any, v: Variable) -> bool:
    """Whether HDF5 stores a netCDF variable as it is in memory, and h5py is available to find its offset."""
    if (
        v.has_steps
        or v.nbytes <= formats.SMALL
        or target.dtype != v.dtype
        or target.chunking() != "contiguous"
        or v.dtype.metadata
    ):
        return False
    return importlib.util.find_spec("h5py") is not None


def _by_netcdf(
    c: Container,
    variables: list[Variable],
    path: Path,
    lost: list[str],
    progress: Progress,
    stored: Stored,
) -> tuple[list[cells.Row], dict[str, Variable]]:
    """Write everything but values that are faster written without the library; space for these is allocated."""
    import netCDF4

    rows: list[cells.Row] = []
    later: dict[str, Variable] = {}
    flat: list[tuple[str, Variable]] = []
    for v in variables:
        flat.extend(_members(v.name if v.member is None else f"{v.name}.{v.member}", v))
    total = cells.total(c, variables)
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        _core.find_room(path, total)
        room = cells.Room(path, total)
        cells.set_attrs(_Attributes(file, "", lost), dict(c.attrs), "", lost, scales.RESERVED)
        for name, group in c.groups.items():
            if _is_netcdf_name(name):
                below = _Attributes(file.createGroup(name), name, lost)
                cells.set_attrs(below, dict(group.attrs), name, lost, scales.RESERVED)
            else:
                lost.append(f"{name} (no name in netCDF)")
        kinds = [(name, v, _of_netcdf(v, name, lost)) for name, v in flat]
        dimensions = Dimensions()
        planned = [
            (name, v, kind, dimensions.of(name.rpartition("/")[0], _axes(c, v, name, lost)))
            for name, v, kind in kinds
            if kind is not None
        ]
        dimensions.create(file)
        for name, v, kind, dims in planned:
            inside: Any = file.createGroup(name.rpartition("/")[0]) if "/" in name else file
            shape = cells.shape_of(c, v)
            attrs = cells.attrs_of(v)
            if (references := reference_kind(v.dtype)) is not None:
                attrs[REFERENCES_TO] = references
            fill = _netcdf_fill(v, kind, attrs.pop("_FillValue", None), name, lost)
            # As for HDF5: every cell is written, so contiguous datasets are not filled first.
            lists = ragged_element(v.dtype)
            fills = v.has_steps or kind is str or lists is not None
            if not fills:
                file.set_fill_off()
            kept = (
                {}
                if kind is str or lists is not None or not shape or 0 in shape
                else _kept(v, shape, len(dims), stored)
            )
            named = (
                _enumeration(file, v, name, lost, attrs) if lists is None else _list_type(file, name, lists)
            )
            if named is not None and (lists is not None or fill not in named.enum_dict.values()):
                fill = None  # netCDF requires a name
            target = inside.createVariable(
                name.rpartition("/")[2], kind if named is None else named, dims, fill_value=fill, **kept
            )
            file.set_fill_on()
            _untouched(target)
            if v.dtype.kind == "b":
                attrs["dtype"] = "bool"
            if times.is_time(v.dtype):
                attrs = times.attributes(v.dtype) | attrs
            cells.set_attrs(_Attributes(target, name, lost), attrs, name, lost, scales.RESERVED)
            if _is_one_run(target, v):
                target[(0,) * v.ndim] = 0  # which allocates all of it
                later[name] = v
            else:
                into = (
                    cells.Converted(target, partial(_as_netcdf, kind=kind, room=room))
                    if lists is None
                    else _Lists(target)
                )
                with cells.named(name):
                    cells.copy(c, v, into, progress)
            rows.append((name, shape, math.prod(shape) * v.dtype.itemsize))
        if c.steps:
            _number_steps(file, np.array(c.steps))
    return rows, later


def _number_steps(group: Any, steps: npt.NDArray[np.int64]) -> None:
    """Writes the numbers of the steps as the coordinate of each dimension of steps."""
    dimension = group.dimensions.get("step")
    if dimension is not None and len(dimension) == len(steps) and "step" not in group.variables:
        group.createVariable("step", "i8", ("step",))[:] = steps
    for below in group.groups.values():
        _number_steps(below, steps)


def _enumeration(file: Any, v: Variable, name: str, lost: list[str], attrs: dict[str, Any]) -> Any:
    """The type of an enumeration; None for other dtypes.

    netCDF accepts no value without a name. If there is one, the numbers are written, with the names as CF flags.
    """
    names = enum_names(v.dtype)
    if names is None:
        return None
    values = np.array(list(names.values()), v.dtype.str)
    complete = all(np.isin(piece, values).all() for _, piece in v.pieces())
    if complete and all(_is_netcdf_name(one) and "/" not in one for one in names):
        called = next(n for n in itertools.count() if _is_free(file, _type_name(name, n), names))
        there = file.enumtypes.get(_type_name(name, called))
        return there or file.createEnumType(v.dtype.str[1:], _type_name(name, called), names)
    attrs.setdefault("flag_values", values)
    attrs.setdefault("flag_meanings", " ".join("_".join(one.split()) for one in names))
    lost.append(f"{name}: its type of an enumeration (the names are in the attribute flag_meanings)")
    return None


def _list_type(file: Any, name: str, element: np.dtype[Any]) -> Any:
    """The type of lists of numbers; one per file and type of number."""
    called = f"{element.name}_list"
    there = file.vltypes.get(called)
    return there or file.createVLType(element, called)


class _Lists:
    """A variable of lists. netCDF4 takes them one at a time: it would turn lists of equal length into an array."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __setitem__(self, box: Any, piece: npt.NDArray[Any]) -> None:
        starts = [0] * np.ndim(piece) if box in ((), ...) else [part.start for part in box]
        for place in np.ndindex(np.shape(piece)):
            self._target[tuple(a + b for a, b in zip(starts, place, strict=True)) or ...] = piece[place]


def _type_name(name: str, number: int) -> str:
    return f"{name.rpartition('/')[2]}_enum{number or ''}"


def _is_free(file: Any, name: str, names: dict[str, int]) -> bool:
    """Whether no other enumeration has the name."""
    there = file.enumtypes.get(name)
    return there is None or dict(there.enum_dict) == names


def _kept(v: Variable, shape: tuple[int, ...], axes: int, stored: Stored) -> dict[str, Any]:
    """How netCDF stores a variable. Fixed-length texts, and arrays in members, add axes."""
    kept: dict[str, Any] = {}
    if stored.level is not None:
        kept |= {"compression": "zlib", "complevel": stored.level, "shuffle": True}
    asked = stored.chunks is not ...
    if (asked or stored.level is not None) and (cut := stored.cut(v)) and len(cut) == axes:
        kept["chunksizes"] = tuple(min(edge, max(1, n)) for edge, n in zip(cut, shape, strict=True))
    return kept


def _is_netcdf_name(path: str) -> bool:
    """Whether netCDF accepts each name of a path: no leading sign, no trailing space, printable, at most 256 bytes."""
    return all(_IN_NETCDF.fullmatch(name) and len(name.encode()) <= 256 for name in path.split("/"))


def _netcdf_fill(v: Variable, kind: Any, given: Any, name: str, lost: list[str]) -> Any:
    """The value of `_FillValue`: the attribute, if it has the variable's type, else the fill value."""
    if given is not None and kind is not str and np.size(given) == 1:
        with suppress(InvalidArgumentError):
            return as_elements(np.ravel(given)[0], np.dtype(kind), "_FillValue")[()]
    if given is not None:
        lost.append(f"attribute _FillValue of {name} ({given!r:.80} is not a value of its type)")
    has_own = v._reading().fill is not None and kind is not str and kind != "S1"
    fill = cells.scalar_fill(v.fill_value) if has_own else None
    if fill is None:
        return None
    if times.is_time(v.dtype):
        return times.numbers(fill)[()]
    return np.asarray(fill).astype(kind)[()]


def _axes(c: Container, v: Variable, variable: str, lost: list[str]) -> list[Axis]:
    """The axes of a variable in netCDF. A fixed-length text is a row of characters."""
    axes = []
    for d, (name, n, grows) in enumerate(
        zip(cells.dims_of(v), cells.shape_of(c, v), cells.grows(v, steps=True), strict=True)
    ):
        usable = "/" not in name and _is_netcdf_name(name)
        if not usable:
            lost.append(f"{variable}: that a dimension is called {name} (no name in netCDF)")
        axes.append(Axis(name if usable else f"n{n}", n, grows, shares=v.has_steps and d == 0))
    if v.dtype.kind == "S" and v.dtype.itemsize > 1:
        axes.append(Axis(f"string{v.dtype.itemsize}", v.dtype.itemsize))
    return axes


def _as_netcdf(values: npt.NDArray[Any], kind: Any, room: cells.Room) -> Any:
    """Values in netCDF's types. A fixed-length text is a row of characters."""
    if kind is str:
        texts = np.ravel(room.taken(values)).tolist()
        cut = next((text for text in texts if "\0" in text), None)
        if cut is not None:
            raise ValueError(f"{cut[:80]!r}, of which netCDF takes what is before the NUL")
        return values if np.ndim(values) else np.asarray(values).item()
    if times.is_time(values.dtype):
        return times.numbers(values)
    if kind == "S1" and values.dtype.itemsize > 1:
        return np.ascontiguousarray(values)[..., None].view("S1")
    return values.astype(kind, copy=False)


class _Attributes:
    """Attributes of netCDF4, set by item access."""

    def __init__(self, target: Any, where: str, lost: list[str]) -> None:
        self._target = target
        self._where = where or "/"
        self._lost = lost

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, dict):
            raise TypeError("a dictionary")
        if _are_truths(value):
            self._lost.append(f"attribute {name} of {self._where}: its type bool (it is an i1 there)")
            value = np.int8(value)
        texts = [isinstance(item, str) for item in value] if isinstance(value, list) else []
        if any(texts) and not all(texts):
            raise TypeError("texts and others in one list")
        if any("\0" in text for text in (value if any(texts) else [value]) if isinstance(text, str)):
            raise ValueError("a text with a NUL")
        self._target.setncattr(name, value)


def _are_truths(value: Any) -> bool:
    """Whether an attribute is a truth value, or several."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, bool | np.bool_) for one in value)
    return isinstance(value, bool | np.generic | np.ndarray) and np.asarray(value).dtype.kind == "b"


def _members(name: str, v: Variable) -> Iterator[tuple[str, Variable]]:
    if v.dtype.names is None:
        yield name, v
        return
    for member, own in cells.parts_of(v):
        yield from _members(f"{name}.{member}", own)


def _of_netcdf(v: Variable, name: str, lost: list[str]) -> Any:
    """The netCDF type; None if there is none."""
    if v.local:
        lost.append(f"{name} (a local variable has no one array)")
        return None
    if not _is_netcdf_name(name):
        lost.append(f"{name} (no name in netCDF)")
        return None
    kind, itemsize = v.dtype.kind, v.dtype.itemsize
    if (element := ragged_element(v.dtype)) is not None:
        if element.kind in "iuf" and element.itemsize <= 8 and element.name != "float16":
            return v.dtype
        lost.append(f"{name} (netCDF-4 has no lists of {element})")
        return None
    if kind in "OU":
        return str
    if kind == "b":
        return "i1"
    if kind == "S":
        return "S1"
    if times.is_time(v.dtype):
        return np.dtype(np.int64)
    if (kind in "iu" and itemsize <= 8) or (kind == "f" and itemsize in (4, 8)):
        return v.dtype
    if v.dtype.name in ("float16", "bfloat16"):
        lost.append(f"{name}: its type {v.dtype} (the values are kept as float32)")
        return "f4"
    lost.append(f"{name} (netCDF-4 has no {v.dtype})")
    return None
