"""Zarr, versions 2 and 3, through zarr: groups, arrays, attributes, dimension names, chunks, fill values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drystone.commands.formats import Array, Box, Contents, attributes, native


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
    if dtype.kind in "mM":
        contents.lost.append(
            f"{name}: its type {dtype} (the numbers are kept, the unit is in the attribute units)"
        )
    elif dtype.kind == "V" and dtype.names is None:
        contents.lost.append(f"{name} (of type {dtype})")
        return
    stored = np.dtype(object) if texts else np.dtype("i8") if dtype.kind in "mM" else native(dtype)
    attrs = dict(array.attrs)
    dims = getattr(array.metadata, "dimension_names", None) or attrs.pop("_ARRAY_DIMENSIONS", None)
    attrs = attributes(attrs.items(), name, contents)
    if dtype.kind in "mM":
        attrs["units"] = np.datetime_data(dtype)[0] + (" since 1970-01-01" if dtype.kind == "M" else "")

    def read(box: Box) -> Any:
        values = np.asarray(array[box] if box else array[...])
        if dtype.kind in "mM":
            return values.view("i8")
        return values.astype(object if texts else stored, copy=False)

    fill = array.fill_value
    usable = (
        fill is not None
        and stored.kind in "biufc"
        and dtype.kind not in "mM"
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
            fill=fill if usable else None,
            chunks=tuple(array.chunks),
            grows=(False,) * len(array.shape),
        )
    )
