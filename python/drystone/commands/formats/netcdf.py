"""NetCDF-3 and netCDF-4, through netCDF4: groups, dimensions, attributes, chunks, fill values; packed values stay packed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drystone.commands import formats
from drystone.commands.formats import Array, Box, Contents, attributes, chunks, hdf5, native


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The contents of a file."""
    import netCDF4

    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
        contents = Contents()
        with ExitStack() as stack:
            _group(file, "", contents, _decoders(path, file, stack))
            yield contents


_DIMENSION = b"This is a netCDF dimension but not a netCDF variable"
"""What netCDF-4 calls a dataset inside that only stands for a dimension."""

_Decoder = Callable[[str], hdf5.Way | None]


def _decoders(path: Path, file: Any, stack: ExitStack) -> _Decoder:
    """What reads a variable without netCDF, by path: where the file is HDF5 inside and h5py is there."""
    if not file.data_model.startswith("NETCDF4"):
        return lambda _: None
    try:
        import h5py

        inside = stack.enter_context(h5py.File(path, "r"))
    except (ImportError, OSError):
        return lambda _: None
    ways = hdf5.Ways(path, stack.enter_context(chunks.pool()))

    def reader(name: str) -> hdf5.Way | None:
        # A variable named like a dimension that is not its own goes by another name inside, where that name is the dimension's.
        is_dimension = name in inside and bytes(inside[name].attrs.get("NAME", b"")).startswith(_DIMENSION)
        return ways.of(inside[name]) if name in inside and not is_dimension else None

    return reader


def _pairs(item: Any) -> Iterator[tuple[str, Any]]:
    for name in item.ncattrs():
        yield name, item.getncattr(name)


def _group(group: Any, path: str, contents: Contents, decoder: _Decoder) -> None:
    contents.groups[path] = attributes(_pairs(group), path, contents)
    for name, variable in group.variables.items():
        _variable(f"{path}/{name}" if path else name, variable, contents, decoder)
    for name, below in group.groups.items():
        _group(below, f"{path}/{name}" if path else name, contents, decoder)


def _variable(path: str, variable: Any, contents: Contents, decoder: _Decoder) -> None:
    import netCDF4

    texts = variable.dtype is str
    if isinstance(variable.datatype, netCDF4.VLType) and not texts:
        contents.lost.append(f"{path} (a list of any length in each cell)")
        return
    if isinstance(variable.datatype, netCDF4.EnumType):
        contents.lost.append(f"{path}: the names of its enumeration (the numbers are kept)")
    dtype = np.dtype(object) if texts else native(np.dtype(variable.dtype))
    attrs = attributes(_pairs(variable), path, contents)
    cut = variable.chunking()

    def read(box: Box) -> Any:
        values = variable[box] if box else variable[...]
        if not texts and np.shape(values):
            return np.asarray(values).astype(dtype, copy=False)
        out = np.empty(np.shape(values), dtype)
        out[...] = values
        return out

    is_small = math.prod(variable.shape) * dtype.itemsize <= formats.SMALL
    way = None if texts or is_small else decoder(path)
    contents.arrays.append(
        Array(
            path,
            dtype,
            variable.shape,
            way.read if way else read,
            dims=tuple(variable.dimensions),
            attrs=attrs,
            fill=attrs.get("_FillValue") if dtype.kind in "iufc" else None,
            chunks=tuple(cut) if isinstance(cut, list) else None,
            grows=tuple(dim.isunlimited() for dim in variable.get_dims()),
            lies=way is not None and way.lies,
        )
    )
