"""The attributes with which HDF5 marks dimension scales, and netCDF-4 its dimensions.

HDF5's calls for dimension scales read these attributes into memory of the size that the specification says, and crash
if one has another type or size. So no such call may be made for a dataset before `unusual` has returned nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESERVED = frozenset(
    {
        "CLASS",
        "NAME",
        "REFERENCE_LIST",
        "DIMENSION_LIST",
        "DIMENSION_LABELS",
        "_Netcdf4Dimid",
        "_Netcdf4Coordinates",
        "_NCProperties",
        "_nc3_strict",
    }
)
"""Names of attributes that belong to HDF5 and netCDF-4, and not to the user."""

_OF_SCALES = ("CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "DIMENSION_LABELS")

WHY_UNUSUAL = "HDF5's dimension scales use this name with another type"


def unusual(dataset: Any) -> list[str]:
    """The attributes of an h5py dataset that are named as those of dimension scales and have another type."""
    import h5py

    if h5py.h5a.get_num_attrs(dataset.id) == 0:
        return []
    return [
        name
        for name in _OF_SCALES
        if h5py.h5a.exists(dataset.id, name.encode()) and not _is_usual(dataset.id, name)
    ]


def any_unusual(path: Path) -> bool:
    """Whether a dataset of an HDF5 file has such attributes, so that netCDF would crash on the file.

    False if h5py is not installed or does not open the file.
    """
    try:
        import h5py

        file = h5py.File(path, "r")
    except (ImportError, OSError):
        return False
    with file:
        return any(unusual(dataset) for dataset in _datasets(file))


def _datasets(file: Any) -> Iterator[Any]:
    import h5py

    found: list[bytes] = []
    h5py.h5o.visit(file.id, found.append)
    for name in found:
        if isinstance(item := file[name], h5py.Dataset):
            yield item


def _is_usual(dataset: Any, name: str) -> bool:
    """Whether an attribute has the type and the number of elements that HDF5 expects."""
    from h5py import h5a, h5s, h5t

    attribute = h5a.open(dataset, name.encode())
    kind, space = attribute.get_type(), attribute.get_space()
    if space.get_simple_extent_type() not in (h5s.SCALAR, h5s.SIMPLE):
        return False
    count = space.get_simple_extent_npoints()
    ndim = dataset.get_space().get_simple_extent_ndims()
    if name in ("CLASS", "NAME"):
        return bool(kind.get_class() == h5t.STRING and count == 1)
    if name == "DIMENSION_LABELS":
        return bool(kind.get_class() == h5t.STRING and kind.is_variable_str() and count == ndim)
    if name == "DIMENSION_LIST":
        is_lists = kind.get_class() == h5t.VLEN and not isinstance(kind, h5t.TypeStringID)
        return bool(is_lists and kind.get_super().get_class() == h5t.REFERENCE and count == ndim)
    if kind.get_class() != h5t.COMPOUND or kind.get_nmembers() != 2:
        return False
    return bool(kind.get_member_class(0) == h5t.REFERENCE and kind.get_member_class(1) == h5t.INTEGER)
