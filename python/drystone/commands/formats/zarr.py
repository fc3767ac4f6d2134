"""Zarr, versions 2 and 3, through zarr: groups, arrays, attributes, dimension names, chunks, fill values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drystone.commands.formats import Array, Box, Contents, attributes, native, times


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The contents of a hierarchy."""
    import zarr

    root = zarr.open(str(path), mode="r")
    contents = Contents()
    if isinstance(root, zarr.Array):
        _array(path.stem, root, contents)
    else:
        contents.groups[""] = attributes(root.attrs.items(), "", contents)
        for name, item in root.members(max_depth=None):
            if isinstance(item, zarr.Array):
                _array(name, item, contents)
            else:
                contents.groups[name] = attributes(item.attrs.items(), name, contents)
    yield contents


def _array(name: str, array: Any, contents: Contents) -> None:
    dtype = np.dtype(array.dtype)
    texts = dtype.kind in "OT"
    if dtype.kind == "V" and dtype.names is None:
        contents.lost.append(f"{name} (of type {dtype})")
        return
    stored = np.dtype(object) if texts else np.dtype("i8") if times.is_time(dtype) else native(dtype)
    attrs = dict(array.attrs)
    dims = getattr(array.metadata, "dimension_names", None) or attrs.pop("_ARRAY_DIMENSIONS", None)
    attrs = attributes(attrs.items(), name, contents)
    if times.is_time(dtype):
        attrs |= times.attributes(name, dtype, contents)

    def read(box: Box) -> Any:
        values = np.asarray(array[box] if box else array[...])
        if times.is_time(dtype):
            return times.numbers(values)
        return values.astype(object if texts else stored, copy=False)

    fill = array.fill_value
    usable = (
        fill is not None
        and stored.kind in "biufc"
        and not times.is_time(dtype)
        and np.asarray(fill).tobytes().strip(b"\0")
    )
    contents.arrays.append(
        Array(
            name,
            stored,
            array.shape,
            read,
            dims=tuple(dims) if dims and all(dims) else None,
            attrs=attrs,
            fill=times.NOT_A_TIME if times.is_time(dtype) else fill if usable else None,
            chunks=tuple(array.chunks),
            grows=(False,) * len(array.shape),
        )
    )
