"""NetCDF-3 and netCDF-4, through netCDF4: groups, dimensions, attributes, chunks, fill values; packed values stay packed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drystone.commands.formats import Array, Box, Contents, attributes, native


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The contents of a file."""
    import netCDF4

    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
        contents = Contents()
        _group(file, "", contents)
        yield contents


def _pairs(item: Any) -> Iterator[tuple[str, Any]]:
    for name in item.ncattrs():
        yield name, item.getncattr(name)


def _group(group: Any, path: str, contents: Contents) -> None:
    contents.groups[path] = attributes(_pairs(group), path, contents)
    for name, variable in group.variables.items():
        _variable(f"{path}/{name}" if path else name, variable, contents)
    for name, below in group.groups.items():
        _group(below, f"{path}/{name}" if path else name, contents)


def _variable(path: str, variable: Any, contents: Contents) -> None:
    import netCDF4

    texts = variable.dtype is str
    if isinstance(variable.datatype, netCDF4.VLType) and not texts:
        contents.lost.append(f"{path} (a list of any length in each cell)")
        return
    if isinstance(variable.datatype, netCDF4.EnumType):
        contents.lost.append(f"{path}: the names of its enumeration (the numbers are kept)")
    dtype = np.dtype(object) if texts else native(np.dtype(variable.dtype))
    attrs = attributes(_pairs(variable), path, contents)
    chunks = variable.chunking()

    def read(box: Box) -> Any:
        values = variable[box] if box else variable[...]
        out = np.empty(np.shape(values), dtype)
        out[...] = values
        return out

    contents.arrays.append(
        Array(
            path,
            dtype,
            variable.shape,
            read,
            dims=tuple(variable.dimensions),
            attrs=attrs,
            fill=attrs.get("_FillValue") if dtype.kind in "iufc" else None,
            chunks=tuple(chunks) if isinstance(chunks, list) else None,
            grows=tuple(dim.isunlimited() for dim in variable.get_dims()),
        )
    )
