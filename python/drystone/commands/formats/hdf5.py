"""HDF5, through h5py: groups, datasets, attributes, dimension labels and scales, chunks, fill values."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drystone.commands.formats import Array, Box, Contents, attributes, chunks, native

# How HDF5 says what dimension scales are, and netCDF-4 what it is.
_HIDDEN = {
    "CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "DIMENSION_LABELS",
    "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_nc3_strict",
}  # fmt: skip


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The contents of a file."""
    import h5py

    with h5py.File(path, "r") as file, chunks.pool() as threads:
        contents = Contents()

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                _dataset(name, item, contents, threads)
            elif isinstance(item, h5py.Group):
                contents.groups[name] = attributes(_shown(item.attrs), name, contents)
            else:
                contents.lost.append(f"{name} (a named type)")

        contents.groups[""] = attributes(_shown(file.attrs), "", contents)
        file.visititems(visit)
        yield contents


def _shown(attrs: Any) -> Iterator[tuple[str, Any]]:
    for name in attrs:
        if name not in _HIDDEN:
            try:
                yield name, attrs[name]
            except (OSError, TypeError) as error:  # of a type that h5py does not read
                yield name, error


def _dataset(name: str, dataset: Any, contents: Contents, threads: ThreadPoolExecutor) -> None:
    import h5py

    if dataset.shape is None:
        contents.lost.append(f"{name} (an empty dataspace)")
        return
    dtype = dataset.dtype
    text = h5py.check_string_dtype(dtype)
    texts = text is not None and text.length is None
    enum = h5py.check_enum_dtype(dtype)
    if not texts and (
        (dtype.kind in "OVM" and dtype.names is None) or h5py.check_ref_dtype(dtype) or _holds_objects(dtype)
    ):
        contents.lost.append(f"{name} (of type {dtype})")
        return
    if enum and dtype.kind != "b":
        contents.lost.append(f"{name}: the names of its enumeration (the numbers are kept)")
        dtype = np.dtype(dtype.str)

    by_chunks = None if texts else chunks.reader(dataset, threads)

    def read(box: Box) -> Any:
        values = dataset.asstr(errors="replace")[box] if texts else dataset[box]
        if texts:
            out = np.empty(np.shape(values), object)
            out[...] = values
            return out
        return np.asarray(values).astype(native(dtype), copy=False)

    fill = dataset.fillvalue if dtype.kind in "biufc" else None
    contents.arrays.append(
        Array(
            name,
            np.dtype(object) if texts else native(dtype),
            dataset.shape,
            by_chunks or read,
            dims=_dims(dataset),
            attrs=attributes(_shown(dataset.attrs), name, contents),
            fill=fill if fill is not None and not _is_zero(fill) else None,
            chunks=dataset.chunks,
            grows=tuple(n is None for n in dataset.maxshape),
        )
    )


def _holds_objects(dtype: np.dtype[Any]) -> bool:
    return bool(dtype.hasobject) or any(_holds_objects(dtype[name].base) for name in dtype.names or ())


def _is_zero(fill: Any) -> bool:
    return bytes(np.asarray(fill).tobytes()).strip(b"\0") == b""


def _dims(dataset: Any) -> tuple[str, ...] | None:
    names = []
    for n, dim in enumerate(dataset.dims):
        label = dim.label
        if not label and len(dim):
            label = dim[0].name.rsplit("/", 1)[-1]
        elif not label and dataset.is_scale and n == 0:
            label = dataset.name.rsplit("/", 1)[-1]
        names.append(label)
    return tuple(names) if names and all(names) else None
