"""HDF5 references as the names of their targets, and the reverse."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

_REGION = re.compile(r"(?P<path>.*)\[(?P<box>[0-9:, ]*)\]")


def kind_of(dtype: np.dtype[Any]) -> Literal["object", "region"] | None:
    """The kind of target of an h5py reference dtype; None for other dtypes."""
    import h5py

    kind = h5py.check_ref_dtype(dtype)
    if kind is None:
        return None
    return "region" if kind is h5py.RegionReference else "object"


def named(value: Any, attrs: Any, name: str) -> Any:
    """The value of an attribute, with references replaced by the names of their targets."""
    import h5py

    is_one = isinstance(value, h5py.Reference | h5py.RegionReference)
    if not is_one and not (isinstance(value, np.ndarray) and kind_of(value.dtype) is not None):
        return value
    file = h5py.h5i.get_file_id(attrs.get_id(name))
    return _name(value, file, set()) if is_one else [_name(one, file, set()) for one in value.ravel()]


def names(values: Any, file: Any, rounded: set[str]) -> npt.NDArray[Any]:
    """The names of the targets of an array of references.

    `rounded` gets the names of regions that are not boxes.
    """
    array = np.asarray(values, object)
    out = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        out[place] = _name(array[place], file.id, rounded)
    return out


def _name(value: Any, file: Any, rounded: set[str]) -> str:
    import h5py

    if not value:
        return ""  # a null reference
    found = h5py.h5r.get_name(value, file)
    path = (found or b"").decode("utf-8", "replace").strip("/") or "/"
    if not isinstance(value, h5py.RegionReference):
        return path
    space = h5py.h5r.get_region(value, file)
    if space.get_select_npoints() == 0:
        return f"{path}[{', '.join('0:0' for _ in space.shape)}]"
    low, high = space.get_select_bounds()
    text = f"{path}[{', '.join(f'{a}:{b + 1}' for a, b in zip(low, high, strict=True))}]"
    if space.get_select_npoints() != int(np.prod([b - a + 1 for a, b in zip(low, high, strict=True)])):
        rounded.add(text)
    return text


def led(name: str, kind: str, file: Any) -> Any:
    """The h5py reference to a named target; None if the file has no such object or box."""
    import h5py

    if kind == "object":
        if not name:
            return h5py.Reference()
        return file[name].ref if name == "/" or name in file else None
    if not name:
        return h5py.RegionReference()
    said = _REGION.fullmatch(name)
    target = file.get(said["path"]) if said else None
    if said is None or not isinstance(target, h5py.Dataset):
        return None
    try:
        box = tuple(slice(*map(int, part.split(":"))) for part in said["box"].split(",") if part.strip())
        fits = len(box) == len(target.shape) and all(
            0 <= part.start <= part.stop <= n for part, n in zip(box, target.shape, strict=True)
        )
        return target.regionref[box] if fits else None
    except (TypeError, ValueError):
        return None
