"""NetCDF-3 and netCDF-4, with netCDF4: groups, dimensions, attributes, chunks, fill values. Values stay packed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.interchange import formats
from drystone.interchange.formats import (
    Array,
    Box,
    Contents,
    attributes,
    chunks,
    classic_netcdf,
    hdf5,
    marked,
    native,
    scales,
)
from drystone.lists import ragged, ragged_element


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The contents of a file."""
    import netCDF4

    if path.is_file():
        classic_netcdf.require_whole(path)
        if scales.any_unusual(path):
            with hdf5.opened(path) as contents:
                yield contents
            return
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
        contents = Contents()
        with ExitStack() as stack:
            _group(file, "", contents, _inside(path, file, stack))
            contents.lost.extend(_unused(file, ""))
            marked.typed(contents)
            yield contents


_DIMENSION = b"This is a netCDF dimension but not a netCDF variable"
"""netCDF-4's mark of an HDF5 dataset that only stands for a dimension."""


class _Inside:
    """The HDF5 file of a netCDF-4 file, if h5py is installed."""

    def __init__(self, file: Any, ways: hdf5.Ways) -> None:
        self._file = file
        self._ways = ways

    def way(self, path: str, shape: tuple[int, ...]) -> hdf5.Way | None:
        """Reads a variable without netCDF."""
        return self._ways.of(self._file[path]) if self.extents(path) == shape else None

    def texts(self, path: str, box: Box, shape: tuple[int, ...]) -> Any:
        """Texts of a variable, in which bytes that are not UTF-8 are replaced; None if they are stored otherwise."""
        return self._file[path].asstr(errors="replace")[box] if self.extents(path) == shape else None

    def extents(self, path: str) -> tuple[int, ...] | None:
        """The stored cells of a variable: fewer than its dimensions say if a dimension grew since the last write."""
        if path not in self._file:
            return None
        # A variable with the name of a dimension that is not its own has another name inside, since the dimension uses
        # the name.
        found = self._file[path]
        said = found.attrs.get("NAME", b"")
        is_dimension = isinstance(said, bytes) and said.startswith(_DIMENSION)
        return None if is_dimension else tuple(found.shape)


def _inside(path: Path, file: Any, stack: ExitStack) -> _Inside | None:
    if not file.data_model.startswith("NETCDF4"):
        return None
    try:
        import h5py

        found = stack.enter_context(h5py.File(path, "r"))
    except (ImportError, OSError):
        return None
    return _Inside(found, hdf5.Ways(path, stack.enter_context(chunks.pool())))


def _pairs(item: Any) -> Iterator[tuple[str, Any]]:
    for name in item.ncattrs():
        value = item.getncattr(name)
        if isinstance(value, str | list) and any("\ufffd" in one for one in _texts_of(value)):
            # netCDF4 replaces bytes that are not UTF-8 by U+FFFD. In Latin-1, each byte is a character.
            stored = item.getncattr(name, encoding="latin-1")
            value = (
                [one.encode("latin-1") for one in stored]
                if isinstance(stored, list)
                else stored.encode("latin-1")
            )
        yield name, value


def _texts_of(value: str | list[Any]) -> list[str]:
    return [value] if isinstance(value, str) else [one for one in value if isinstance(one, str)]


def _group(group: Any, path: str, contents: Contents, inside: _Inside | None) -> None:
    contents.groups[path] = attributes(_pairs(group), path, contents)
    for name, variable in group.variables.items():
        _variable(f"{path}/{name}" if path else name, variable, contents, inside)
    for name, below in group.groups.items():
        _group(below, f"{path}/{name}" if path else name, contents, inside)


def _unused(group: Any, below: str) -> Iterator[str]:
    """The dimensions that no variable of their group or below uses."""
    used = _used(group)
    for name, dimension in group.dimensions.items():
        if name not in used:
            yield f"{below}{name} (a dimension of {dimension.size}, which no variable has)"
    for name, inner in group.groups.items():
        yield from _unused(inner, f"{below}{name}/")


def _used(group: Any) -> set[str]:
    own = (variable.dimensions for variable in group.variables.values())
    return set().union(*own, *map(_used, group.groups.values()))


def _variable(path: str, variable: Any, contents: Contents, inside: _Inside | None) -> None:
    import netCDF4

    texts = variable.dtype is str
    lists = isinstance(variable.datatype, netCDF4.VLType) and not texts
    element = np.dtype(variable.datatype.dtype) if lists else np.dtype(object)
    if lists and element.kind not in "biufc":
        contents.lost.append(f"{path} (lists of {element})")
        return
    dtype = (
        ragged(native(element)) if lists else np.dtype(object) if texts else native(np.dtype(variable.dtype))
    )
    if isinstance(variable.datatype, netCDF4.EnumType):
        dtype = hdf5.enum_type(path, variable.datatype.enum_dict, dtype, contents)
    attrs = attributes(_pairs(variable), path, contents)
    cut = variable.chunking()

    def read(box: Box) -> Any:
        try:
            values = variable[box] if box else variable[...]
        except UnicodeDecodeError:
            values = inside.texts(path, box, variable.shape) if inside else None
            if values is None:
                raise
        if lists:
            return _as_lists(values, variable.shape)
        if not texts and np.shape(values):
            return np.asarray(values).astype(dtype, copy=False)
        out = np.empty(np.shape(values), dtype)
        out[...] = values
        loss = f"{path}: {formats.NOT_UTF8}"
        if texts and loss not in contents.lost and any("\ufffd" in one for one in out.ravel()):
            contents.lost.append(loss)
        return out

    is_small = math.prod(variable.shape) * dtype.itemsize <= formats.SMALL
    way = inside.way(path, variable.shape) if inside and not (texts or lists or is_small) else None
    grows = tuple(dim.isunlimited() for dim in variable.get_dims())
    extents = inside.extents(path) if inside and any(grows) else None
    reading = way.read if way else read
    if extents is not None and extents != variable.shape:
        reading = _there(variable, extents, read, dtype)
    contents.arrays.append(
        Array(
            path,
            dtype,
            variable.shape,
            reading,
            dims=tuple(variable.dimensions),
            attrs=attrs,
            fill=attrs.get("_FillValue") if dtype.kind in "iufc" else None,
            chunks=tuple(cut) if isinstance(cut, list) else None,
            grows=grows,
            lies=way is not None and way.lies,
        )
    )


def _as_lists(values: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Lists as an array of arrays; netCDF returns a single list for a variable without dimensions."""
    if shape:
        return np.asarray(values, object)
    # A list of one number comes as that number.
    out = np.empty((), object)
    out[()] = np.atleast_1d(
        values if not isinstance(values, np.ndarray) or values.dtype.kind != "O" else values[()]
    )
    return out


def _there(variable: Any, reached: tuple[int, ...], read: hdf5.Read, dtype: np.dtype[Any]) -> hdf5.Read:
    """A reader of a variable of which only the first part is stored; it uses the reader of that part.

    For other cells, netCDF (4.10) returns uninitialised memory with texts or several unlimited dimensions.
    """
    import netCDF4

    element = ragged_element(dtype)
    fill: Any = (
        ""
        if dtype.kind == "O"
        else netCDF4.default_fillvals.get(dtype.str[1:], b"" if dtype.kind == "S" else 0)
    )
    if "_FillValue" in variable.ncattrs():
        fill = variable.getncattr("_FillValue")

    def read_there(box: Box) -> Any:
        extents = [part.stop - part.start for part in box]
        if element is not None:
            out = np.empty(extents, object)
            for place in np.ndindex(*extents):
                out[place] = np.empty(0, element)
        else:
            out = np.full(extents, fill, dtype)
        there = tuple(slice(part.start, min(part.stop, n)) for part, n in zip(box, reached, strict=True))
        if all(part.start < part.stop for part in there):
            out[tuple(slice(0, part.stop - part.start) for part in there)] = read(there)
        return out

    return read_there
