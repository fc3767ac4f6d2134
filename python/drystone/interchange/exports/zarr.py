"""Exports variables to a Zarr hierarchy (version 3), with zarr."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from drystone.container import Container
from drystone.contiguous import LISTS_OF, SAMPLE_DIMENSION, Named, flattened
from drystone.enumerations import enum_names
from drystone.interchange.exports import cells
from drystone.interchange.exports.stored import Stored
from drystone.interchange.formats import bfloat16
from drystone.interchange.formats.zarr import encoded_fill
from drystone.lists import REFERENCES_TO, ragged_element, reference_kind
from drystone.progress import Progress
from drystone.records import holds_objects
from drystone.variable import Variable

_BACKSLASH = "\\"
_NO_NAME = "zarr takes the backslash in the name for a slash"


def write(
    c: Container,
    variables: list[Variable],
    path: Path,
    lost: list[str],
    stored: Stored,
    progress: Progress,
) -> list[cells.Row]:
    """Write variables, their groups and attributes; losses are recorded."""
    import zarr

    rows: list[cells.Row] = []
    progress.expect(cells.total(c, variables))
    # zarr warns about types without a final specification (fixed-length texts, records): other readers may not know
    # them.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="zarr")
        warnings.filterwarnings("ignore", message=".*Zarr (format 3|V3) specification.*")
        root = zarr.create_group(str(path), zarr_format=3)
        cells.set_attrs(_Attributes(root), dict(c.attrs), "", lost)
        for name, group in c.groups.items():
            if _BACKSLASH in name:
                lost.append(f"{name} ({_NO_NAME})")
                continue
            cells.set_attrs(_Attributes(root.require_group(name)), dict(group.attrs), name, lost)
        for v in variables:
            if v.local:
                lost.append(f"{v.name} (a local variable has no one array)")
                continue
            if _BACKSLASH in v.name:
                lost.append(f"{v.name} ({_NO_NAME})")
                continue
            if ragged_element(v.dtype) is not None:
                rows.append(_lists(c, v, root, variables, lost, stored, progress))
                continue
            for own in _parts(v, lost):
                if own.member is not None and _BACKSLASH in own.member:
                    lost.append(f"{own.name}.{own.member} ({_NO_NAME})")
                    continue
                rows.append(_array(c, own, root, lost, stored, progress))
        gaps = c.steps != list(range(len(c.steps)))
        if gaps and any(v.has_steps for v in variables) and "step" not in root:
            steps = root.create_array("step", data=np.array(c.steps, np.int64), dimension_names=["step"])
            steps.attrs["long_name"] = "numbers of the steps"
        zarr.consolidate_metadata(root.store)
    return rows


def _parts(v: Variable, lost: list[str]) -> Iterator[Variable]:
    """The variable; of records with members of any length or arrays, which Zarr has no type for, each member."""
    if not (holds_objects(v.dtype) or _has_arrays(v.dtype)):
        yield v
        return
    for _, own in cells.parts_of(v):
        if ragged_element(own.dtype) is not None:
            path = f"{v.name}.{own.member}"
            lost.append(f"{path} (a member that is a list; the variable is exported whole to HDF5)")
        else:
            yield from _parts(own, lost)


def _has_arrays(dtype: np.dtype[Any]) -> bool:
    """Whether a member of a record is an array."""
    members = [dtype[name] for name in dtype.names or ()]
    return any(member.shape or _has_arrays(member) for member in members)


def _array(
    c: Container, v: Variable, root: Any, lost: list[str], stored: Stored, progress: Progress
) -> cells.Row:
    name, shape = v.name if v.member is None else f"{v.name}.{v.member}", cells.shape_of(c, v)
    dtype, said = _of_zarr(v, name, lost)
    texts = dtype is str
    cut = stored.cut(v)
    chunks: Any = "auto"
    if cut and len(cut) == len(shape) and 0 not in cut and 0 not in shape:
        chunks = tuple(min(edge, n) for edge, n in zip(cut, shape, strict=True))
    fill = cells.scalar_fill(v.fill_value)
    target = root.create_array(
        name,
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        compressors=_compressors(stored.level, texts),
        fill_value="" if texts else None if v.dtype.names or v.dtype.kind in "SU" else fill,
        dimension_names=list(cells.dims_of(v)),  # xarray opens only arrays with dimension names
    )
    attrs = said | cells.attrs_of(v)
    if np.dtype(v.dtype).kind in "fcS" and np.ndim(attrs.get("_FillValue", ())) == 0:
        attrs["_FillValue"] = encoded_fill(attrs["_FillValue"], np.dtype(v.dtype))
    cells.set_attrs(_Attributes(target), attrs, name, lost)
    into: Any = target
    if texts:
        into = cells.Converted(target, _texts)
    elif dtype != v.dtype:
        into = cells.Converted(target, lambda piece: piece.astype(dtype))
    with cells.named(name):
        cells.copy(c, v, into, progress, along_chunks=True)
    item = v.dtype.itemsize if texts else np.dtype(dtype).itemsize
    return name, shape, math.prod(shape) * item


def _lists(
    c: Container,
    v: Variable,
    root: Any,
    others: list[Variable],
    lost: list[str],
    stored: Stored,
    progress: Progress,
) -> cells.Row:
    """Lists as CF's contiguous ragged array: all numbers, and the length of each list."""
    named = Named.of(v.name)
    if any(other.name == named.counts for other in others):
        lost.append(f"{v.name} (its lengths would be {named.counts}, which is another variable)")
        return v.name, (0,), 0
    found = v[list(c.steps)] if v.has_steps else v[...]
    values, counts = flattened(found, v.dtype)
    said = named.attrs_of_counts(v.name.rpartition("/")[2]) | {LISTS_OF: v.name.rpartition("/")[2]}
    dims = [str(dim) for dim in cells.dims_of(v)]
    row = named.sample.rpartition("/")[2]
    said |= {SAMPLE_DIMENSION: row}
    for name, array, names, attrs in (
        (v.name, values, [row], cells.attrs_of(v)),
        (named.counts, counts, dims, said),
    ):
        plain = _compressors(stored.level, False)
        target = root.create_array(
            name, shape=array.shape, dtype=array.dtype, compressors=plain, dimension_names=names
        )
        target[...] = array
        cells.set_attrs(_Attributes(target), attrs, name, lost)
    progress.add(values.nbytes)
    return v.name, counts.shape, values.nbytes


def _of_zarr(v: Variable, name: str, lost: list[str]) -> tuple[Any, dict[str, Any]]:
    """The Zarr type of a variable, and attributes for what the type cannot express."""
    names = enum_names(v.dtype)
    if names:
        words = [word.replace(" ", "_") for word in names]
        return np.dtype(v.dtype.str), {
            "flag_values": [int(value) for value in names.values()],
            "flag_meanings": " ".join(words),
        }
    if v.dtype.kind == "O":
        kind = reference_kind(v.dtype)
        return str, {} if kind is None else {REFERENCES_TO: kind}
    if bfloat16.is_bfloat16(v.dtype):
        lost.append(f"{name}: its type bfloat16 (the values are kept as float32)")
        return np.dtype("f4"), {}
    return v.dtype, {}


def _compressors(level: int | None, texts: bool) -> Any:
    """Zstandard after a byte shuffle, in the only standard codec with both."""
    if not level:
        return None
    from zarr.codecs import BloscCodec, ZstdCodec

    return ZstdCodec(level=level) if texts else BloscCodec(cname="zstd", clevel=level, shuffle="shuffle")


def _texts(piece: Any) -> Any:
    """Texts for zarr, which requires one in every cell."""
    flat = ["" if one is None else one for one in np.ravel(piece).tolist()]
    out = np.empty(len(flat), object)
    out[:] = flat
    return out.reshape(np.shape(piece))


class _Attributes:
    """Accepts attributes in JSON's types."""

    def __init__(self, target: Any) -> None:
        self._attrs = target.attrs

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, np.generic | np.ndarray):
            if value.dtype.kind not in "biufSUO":
                raise TypeError(f"JSON has no {value.dtype}")
            value = value.tolist()
        if isinstance(value, bytes):
            value = value.decode()
        self._attrs[name] = value
