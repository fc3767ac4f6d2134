"""HDF5, through h5py: groups, datasets, attributes, dimension labels and scales, chunks, fill values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.enumerations import enum
from drystone.errors import DrystoneError, UnsupportedError
from drystone.interchange import formats
from drystone.interchange.formats import (
    Array,
    Box,
    Contents,
    attributes,
    bfloat16,
    chunks,
    compound,
    native,
    references,
    scales,
    times,
)
from drystone.lists import ragged, reference

_SAYS_DIMS = {"DIMENSION_LABELS", "DIMENSION_LIST", "CLASS"}


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The contents of a file."""
    import h5py

    with h5py.File(path, "r") as file, chunks.pool() as threads:
        contents = Contents()
        ways = Ways(path, threads)

        seen: set[str | bytes] = set()

        def visit(name: str | bytes, item: Any) -> None:
            seen.add(name)
            if isinstance(name, bytes):
                contents.lost.append(f"{name!r} (its name is not UTF-8)")
            elif isinstance(item, h5py.Dataset):
                try:
                    _dataset(name, item, contents, ways)
                except (
                    UnsupportedError,
                    TypeError,
                    ValueError,
                ) as error:  # the last two: a type without NumPy's
                    contents.lost.append(f"{name} ({error})")
            elif isinstance(item, h5py.Group):
                contents.groups[name] = attributes(_shown(item.attrs, item.attrs), name, contents)
            else:
                contents.lost.append(f"{name} (a named type)")

        contents.groups[""] = attributes(_shown(file.attrs, file.attrs), "", contents)
        file.visititems(visit)

        links: list[bytes] = []
        file.id.links.visit(links.append)
        for stored in links:
            try:
                name = stored.decode()
            except UnicodeError:
                if stored not in seen:
                    contents.lost.append(f"{stored!r} (its name is not UTF-8)")
                continue
            link = file.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                contents.lost.append(f"{name} (a link to {link.path} in {link.filename})")
            elif isinstance(link, h5py.SoftLink):
                contents.lost.append(f"{name} (a link to {link.path})")
            elif name not in seen:
                contents.lost.append(f"{name} (another name of what is taken over)")
        yield contents


def _shown(attrs: Any, names: Iterable[str | bytes]) -> Iterator[tuple[str | bytes, Any]]:
    for name in names:
        if isinstance(name, bytes):  # it is not UTF-8
            yield name, None
        elif name not in scales.RESERVED:
            try:
                yield name, references.named(attrs[name], attrs, name)
            except (OSError, TypeError, UnicodeError) as error:  # a type that h5py does not read
                yield name, error


Read = Callable[[Box], npt.NDArray[Any]]


@dataclass
class Way:
    """How boxes are read, and whether the result is a view of the file (`Array.lies`)."""

    read: Read
    lies: bool


@dataclass
class Ways:
    """Reads values of a file's datasets without HDF5, which makes an extra copy and decodes chunks one by one."""

    path: Path
    threads: ThreadPoolExecutor
    buffers: chunks.Buffers = field(default_factory=chunks.Buffers)

    def of(self, dataset: Any) -> Way | None:
        """The reader of a dataset; None if HDF5 itself must read it."""
        decoded = chunks.reader(dataset, self.threads, self.buffers)
        return Way(decoded, lies=False) if decoded else self._mapped(dataset)

    def _mapped(self, dataset: Any) -> Way | None:
        """A memory map of numbers stored in row-major order."""
        import h5py

        dtype, plist = np.dtype(dataset.dtype.str), dataset.id.get_create_plist()
        if dtype.kind not in "iuf" or plist.get_layout() != h5py.h5d.CONTIGUOUS or plist.get_external_count():
            return None
        begin, nbytes = dataset.id.get_offset(), dataset.size * dtype.itemsize
        there = begin is not None and nbytes > 0 and dataset.id.get_storage_size() == nbytes
        if not there or dataset.id.get_type() != h5py.h5t.py_create(dtype):
            return None
        shape = dataset.shape

        def read(box: Box) -> npt.NDArray[Any]:
            # Mapped anew each time: a file may contain more datasets than a process may have mappings.
            array = np.memmap(self.path, dtype, "r", begin, shape)
            return np.asarray(array[box]).astype(native(dtype), copy=False)

        return Way(read, lies=dtype.isnative)


def _dataset(name: str, dataset: Any, contents: Contents, ways: Ways) -> None:
    import h5py

    if dataset.shape is None:
        contents.lost.append(f"{name} (an empty dataspace)")
        return
    try:
        dtype = dataset.dtype
    except (TypeError, ValueError) as error:  # NumPy has no such type, or a member's name is not UTF-8
        contents.lost.append(f"{name} ({error})")
        return
    text = h5py.check_string_dtype(dtype)
    texts = text is not None and text.length is None
    enum = h5py.check_enum_dtype(dtype)
    values = None if texts else _of_any_length(name, dataset, contents)
    if values is not None:
        _append_values(name, dataset, contents, *values)
        return
    if not texts and ((dtype.kind in "OV" and dtype.names is None) or _holds_objects(dtype)):
        contents.lost.append(f"{name} (of type {dtype})")
        return
    if enum and dtype.kind != "b":
        dtype = enum_type(f"{name}", enum, dtype, contents)

    shown = dtype
    own = bfloat16.stored(dataset) if dtype.kind == "f" else None
    if own is not None:
        dtype = own
    shape = dataset.shape
    is_small = dataset.size * dtype.itemsize <= formats.SMALL
    way = None if texts or is_small or own is not None else ways.of(dataset)
    is_plain = dtype.kind in "iuf" and not enum and dataset.size > 0 and len(shape) > 0

    def note_texts(values: npt.NDArray[Any], box: Box) -> None:
        """Record bytes that are not UTF-8. U+FFFD itself may be in the file."""
        loss = f"{name}: {formats.NOT_UTF8}"
        if loss not in contents.lost and any("\ufffd" in one for one in values.ravel()):
            losses: list[str] = []
            for one in np.ravel(dataset[box]):
                formats.text(one, losses)
            contents.lost.extend([loss] if losses else [])

    def read(box: Box) -> Any:
        if own is not None:
            return bfloat16.read(dataset, box)
        if is_plain and all(part == slice(0, n) for part, n in zip(box, shape, strict=True)):
            # The whole array: h5py takes longer to handle a selection than HDF5 to read little data.
            out = np.empty(shape, native(dtype))
            dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, out)
            return out
        values = dataset.asstr(errors="replace")[box] if texts else dataset[box]
        if texts:
            out = np.empty(np.shape(values), object)
            out[...] = values
            note_texts(out, box)
            return out
        if times.has_no_unit(dtype):
            return times.numbers(np.asarray(values))
        return np.asarray(values).astype(native(dtype), copy=False)

    said = dataset.attrs
    names = list(said) if h5py.h5a.get_num_attrs(dataset.id) > 0 else []
    attrs = attributes(_shown(said, names), name, contents)
    stored = np.dtype(object) if texts else native(dtype)
    if times.has_no_unit(dtype):
        contents.lost.append(f"{name}: its type {dtype} (the numbers are kept, without a unit)")
        stored = np.dtype("i8")
    fill = dataset.fillvalue if shown.kind in "biufc" else None
    contents.arrays.append(
        Array(
            name,
            stored,
            shape,
            way.read if way else read,
            dims=_dims(name, dataset, names, contents),
            attrs=attrs,
            fill=fill if fill is not None and not _is_zero(fill) else None,
            chunks=dataset.chunks,
            grows=tuple(n is None for n in dataset.maxshape),
            lies=way is not None and way.lies,
        )
    )


def _of_any_length(name: str, dataset: Any, contents: Contents) -> tuple[np.dtype[Any], Read] | None:
    """The dtype of lists, of references or of records with these or with strings, and a reader of boxes.

    None for other datasets.
    """
    import h5py

    if dataset.dtype.names is not None and dataset.dtype.hasobject:
        return _records_of_any_length(name, dataset, contents)
    if (kind := references.kind_of(dataset.dtype)) is not None:
        rounded: set[str] = set()

        def read_names(box: Box) -> npt.NDArray[Any]:
            found = references.names(dataset[box], dataset.file, rounded)
            if (
                rounded
                and (said := f"{name}: regions that are not boxes (kept as the box around them)")
                not in contents.lost
            ):
                contents.lost.append(said)
            return found

        return reference(kind), read_names
    element = h5py.check_vlen_dtype(dataset.dtype)
    if not isinstance(element, np.dtype) or element.kind not in "biufc" or h5py.check_enum_dtype(element):
        return None
    own = native(element)

    def read_lists(box: Box) -> npt.NDArray[Any]:
        values = dataset[box]
        if isinstance(values, np.ndarray) and values.dtype.kind == "O":
            return values
        out = np.empty((), object)
        out[()] = values
        return out

    return ragged(own), read_lists


def _records_of_any_length(name: str, dataset: Any, contents: Contents) -> tuple[np.dtype[Any], Read] | None:
    rounded: set[str] = set()
    losses: list[str] = []
    found = compound.taken(dataset.dtype, dataset.file, rounded, losses)
    if found is None:
        return None
    own, act = found

    def read_records(box: Box) -> npt.NDArray[Any]:
        values = act(np.asarray(dataset[box], dataset.dtype))
        said = f"{name}: regions that are no boxes (kept as the box around them)"
        if rounded and said not in contents.lost:
            contents.lost.append(said)
        if losses and (said := f"{name}: {losses.pop()}") not in contents.lost:
            contents.lost.append(said)
        losses.clear()
        return values

    return own, read_records


def _append_values(name: str, dataset: Any, contents: Contents, dtype: np.dtype[Any], read: Read) -> None:
    """Import a dataset whose values have any length."""
    said = list(dataset.attrs)
    contents.arrays.append(
        Array(
            name,
            dtype,
            dataset.shape,
            read,
            dims=_dims(name, dataset, said, contents),
            attrs=attributes(_shown(dataset.attrs, said), name, contents),
            fill=None,
            chunks=dataset.chunks,
            grows=tuple(n is None for n in dataset.maxshape),
        )
    )


def enum_type(name: str, names: Mapping[str, int], dtype: np.dtype[Any], contents: Contents) -> np.dtype[Any]:
    """The dtype of an enumeration for containers. If they do not support it, the integers, and the loss is recorded."""
    try:
        return enum({name: int(value) for name, value in names.items()}, dtype.str[1:])
    except DrystoneError as error:
        contents.lost.append(f"{name}: the names of its enumeration ({error}; the numbers are kept)")
        return np.dtype(dtype.str)


def _holds_objects(dtype: np.dtype[Any]) -> bool:
    return bool(dtype.hasobject) or any(_holds_objects(dtype[name].base) for name in dtype.names or ())


def _is_zero(fill: Any) -> bool:
    return bytes(np.asarray(fill).tobytes()).strip(b"\0") == b""


def _dims(path: str, dataset: Any, attrs: Iterable[str], contents: Contents) -> tuple[str, ...] | None:
    """The names of its dimensions; if only some have one, the others are named by their index."""
    if scales.RESERVED.isdisjoint(attrs):
        return None
    unusual = scales.unusual(dataset)
    contents.lost.extend(f"attribute {name} of {path} ({scales.WHY_UNUSUAL})" for name in unusual)
    if _SAYS_DIMS.isdisjoint(attrs) or not _SAYS_DIMS.isdisjoint(unusual):
        return None
    names = []
    for n, dim in enumerate(dataset.dims):
        label = dim.label
        if not label and len(dim):
            label = _decoded(dim[0].name).rsplit("/", 1)[-1]
        elif not label and dataset.is_scale and n == 0:
            label = dataset.name.rsplit("/", 1)[-1]
        names.append(_decoded(label))
    if not any(names):
        return None
    return tuple(name or f"dim_{n}" for n, name in enumerate(names))


def _decoded(name: str | bytes) -> str:
    """A name as h5py returns it: as bytes if it is not UTF-8."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name
