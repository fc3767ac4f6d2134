"""Zarr, versions 2 and 3, through zarr: groups, arrays, attributes, dimension names, chunks, fill values."""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drystone.interchange.formats import Array, Box, Contents, attributes, chunks, marked, native, times

_CODERS = {"zstd", "gzip", "blosc", "zlib", "bz2", "lz4"}
"""Compressors that version 3 takes from numcodecs, under their own names or after "numcodecs."; version 2 takes all
from there."""


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The contents of a hierarchy."""
    import zarr

    contents = Contents()
    with chunks.pool() as threads:
        ways = _Ways(threads)
        for name, item in _items(path, contents):
            if isinstance(item, zarr.Array):
                _array(name or path.stem, item, contents, ways)
            else:
                contents.groups[name] = attributes(item.attrs.items(), name, contents)
        marked.typed(contents)
        yield contents


_NO_TYPE = "No Zarr data type found"
"""How zarr's error begins if it has no type for an array."""


def _items(path: Path, contents: Contents) -> list[tuple[str, Any]]:
    """The groups and arrays of a hierarchy by path; the root is the empty path."""
    import zarr

    try:
        root = zarr.open(str(path), mode="r")
        below = [] if isinstance(root, zarr.Array) else root.members(max_depth=None)
        return [("", root), *below]
    except ValueError as error:
        if not str(error).startswith(_NO_TYPE):
            raise
    # zarr lists no hierarchy that has such an array.
    return list(_items_one_by_one(path, contents))


def _items_one_by_one(path: Path, contents: Contents) -> Iterator[tuple[str, Any]]:
    """The same, each opened by itself; arrays of types that zarr does not have are recorded as lost."""
    import zarr

    for folder, below, files in os.walk(path):
        below.sort()
        name = Path(folder).relative_to(path).as_posix()
        is_group = ".zgroup" in files
        if "zarr.json" in files:
            is_group = json.loads(Path(folder, "zarr.json").read_bytes()).get("node_type") == "group"
        if is_group:
            yield "" if name == "." else name, zarr.open_group(folder, mode="r", use_consolidated=False)
        elif not {".zarray", "zarr.json"}.isdisjoint(files):
            below.clear()
            try:
                yield "" if name == "." else name, zarr.open_array(folder, mode="r")
            except ValueError as error:
                if name == "." or not str(error).startswith(_NO_TYPE):
                    raise
                contents.lost.append(f"{name} ({error})")


def _array(name: str, array: Any, contents: Contents, ways: _Ways) -> None:
    dtype = np.dtype(array.dtype)
    texts = dtype.kind in "OT"
    if dtype.kind == "V" and dtype.names is None:
        contents.lost.append(f"{name} (of type {dtype})")
        return
    if type(_zarr_type(array)).__name__ == "VariableLengthBytes":
        contents.lost.append(f"{name} (bytes of any length)")
        return
    unitless = times.has_no_unit(dtype)
    stored = np.dtype(object) if texts else np.dtype("i8") if unitless else native(dtype)
    attrs = dict(array.attrs)
    dims = getattr(array.metadata, "dimension_names", None) or attrs.pop("_ARRAY_DIMENSIONS", None)
    attrs = attributes(attrs.items(), name, contents)
    if array.metadata.zarr_format == 3 and "_FillValue" in attrs:
        attrs["_FillValue"] = decoded_fill(attrs["_FillValue"], stored)
    if unitless:
        contents.lost.append(f"{name}: its type {native(dtype)} (the numbers are kept, without a unit)")

    def read(box: Box) -> Any:
        values = np.asarray(array[box] if box else array[...])
        if unitless:
            return times.numbers(values)
        return values.astype(object if texts else stored, copy=False)

    fill = array.fill_value
    usable = (
        fill is not None
        and stored.kind in "biufcmM"
        and not unitless
        and np.asarray(fill).tobytes().strip(b"\0")
    )
    contents.arrays.append(
        Array(
            name,
            stored,
            array.shape,
            ways.of(array) or read,
            dims=tuple(dims) if dims and all(dims) else None,
            attrs=attrs,
            fill=fill if usable else None,
            chunks=tuple(array.chunks),
            grows=(False,) * len(array.shape),
        )
    )


def _zarr_type(array: Any) -> Any:
    """The type of an array in zarr, which has several for NumPy's objects."""
    return array.metadata.dtype if array.metadata.zarr_format == 2 else array.metadata.data_type


def encoded_fill(fill: Any, dtype: np.dtype[Any]) -> Any:
    """The attribute `_FillValue` as xarray writes it in format 3: floats and bytes as base64 of their bytes."""
    if dtype.kind == "c":
        value = complex(fill)
        return [_base64(struct.pack("<d", part)) for part in (value.real, value.imag)]
    if dtype.kind == "f":
        return _base64(struct.pack("<d", float(fill)))
    if dtype.kind == "S":
        return _base64(fill if isinstance(fill, bytes) else str(fill).encode())
    return fill


def decoded_fill(said: Any, dtype: np.dtype[Any]) -> Any:
    """The value of an attribute `_FillValue` of format 3. What xarray did not write stays as it is."""
    parts = list(said) if dtype.kind == "c" and isinstance(said, list | tuple) else [said]
    if dtype.kind not in "fcS" or not all(isinstance(part, str) for part in parts):
        return said
    try:
        stored = [base64.b64decode(part, validate=True) for part in parts]
        if dtype.kind == "S":
            return stored[0]
        numbers = [struct.unpack("<d", part)[0] for part in stored]
    except (ValueError, struct.error):
        return said
    return dtype.type(complex(*numbers) if dtype.kind == "c" else numbers[0])


def _base64(stored: bytes) -> str:
    return base64.standard_b64encode(stored).decode()


@dataclass
class _Ways:
    """Reads arrays of a hierarchy without zarr, which executes much Python for each chunk."""

    threads: ThreadPoolExecutor
    buffers: chunks.Buffers = field(default_factory=chunks.Buffers)

    def of(self, array: Any) -> chunks.Read | None:
        """Reads a box by its chunks, decoded as zarr does; None if zarr itself must read it."""
        from zarr.storage import LocalStore

        store = array.store_path.store
        stored = _stored(array) if isinstance(store, LocalStore) and array.dtype.kind in "biufc" else None
        if stored is None or not array.metadata.chunks or 0 in array.metadata.chunks:
            return None
        (coders, dtype, order), edges = stored, array.metadata.chunks
        folder, fill = Path(store.root, array.store_path.path), array.fill_value

        def decoded(start: tuple[int, ...]) -> chunks.Chunk | None:
            place = tuple(first // n for first, n in zip(start, edges, strict=True))
            try:
                values: Any = self._read(folder / array.metadata.encode_chunk_key(place))
                for decode in coders:
                    values = decode(values)
                return np.frombuffer(values, dtype).reshape(edges, order=order)
            except FileNotFoundError:
                return None if fill is None else np.broadcast_to(np.asarray(fill, dtype), edges)
            except Exception:  # any error of the decoding package; zarr will report it
                return None

        return chunks.by_chunks(edges, native(dtype), self.threads, decoded, array.__getitem__)

    def _read(self, path: Path) -> memoryview:
        """A file, kept until the next is read."""
        with path.open("rb", buffering=0) as file:
            values = self.buffers.take(os.fstat(file.fileno()).st_size)
            return values[: file.readinto(values)]


_Decode = Callable[[Any], Any]


def _stored(array: Any) -> tuple[list[_Decode], np.dtype[Any], Literal["C", "F"]] | None:
    """The storage of chunks: decoder, dtype and order; None if it is unusual."""
    import numcodecs

    told, dtype = array.metadata.to_dict(), np.dtype(array.dtype)
    if told["zarr_format"] == 2:
        if told["filters"] or told["order"] not in ("C", "F"):
            return None
        compressor = array.metadata.compressor
        return [compressor.decode] if compressor else [], dtype, told["order"]
    first, *rest = told["codecs"]
    names = [codec["name"].removeprefix("numcodecs.") for codec in rest]
    usual = told["chunk_grid"]["name"] == "regular" and not told["storage_transformers"]
    if first["name"] != "bytes" or not usual or not _CODERS.issuperset(names):
        return None
    endian = first.get("configuration", {}).get("endian") or "little"
    coders = [numcodecs.get_codec({"id": name}).decode for name in reversed(names)]
    return coders, dtype.newbyteorder("<" if endian == "little" else ">"), "C"
