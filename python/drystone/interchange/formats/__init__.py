"""Readers of other formats, each using its own Python package.

The content of a file is a set of arrays, which can be read box by box.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from drystone.errors import InvalidArgumentError, NotFoundError

Box = tuple[slice, ...]
SMALL = 256 << 10
"""The largest array in bytes that is read as a whole by the package of its format, which is fastest."""


@dataclass
class Array:
    """An array of a file."""

    path: str
    dtype: np.dtype[Any]
    """The dtype of what `read` returns; object for texts."""
    shape: tuple[int, ...]
    read: Callable[[Box], npt.NDArray[Any]]
    dims: tuple[str, ...] | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    fill: Any = None
    chunks: tuple[int, ...] | None = None
    grows: tuple[bool, ...] = ()
    present: frozenset[int] | None = None
    """The steps that have it, if not all."""
    ask: Callable[[Box], None] | None = None
    """Starts a read of a box in another process, if it is the next box of the file."""
    lies: bool = False
    """Whether a box of whole rows is a view of the mapped file, which takes no memory of the process."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory; an estimate for texts."""
        return math.prod(self.shape) * (self.dtype.itemsize or 1)


@dataclass
class Contents:
    """The content of a file, and the parts that cannot be imported."""

    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Attributes by path; the root is the empty path."""
    arrays: list[Array] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    step_dim: str | None = None
    """The dimension of the file's own steps."""


class Reader(Protocol):
    """A reader module of this package."""

    def opened(self, path: Path) -> AbstractContextManager[Contents]:
        """The contents, while the file is open."""


READERS = {
    "hdf5": (".h5", ".hdf5", ".hdf", ".he5"),
    "netcdf": (".nc", ".nc4", ".cdf", ".netcdf"),
    "zarr": (".zarr",),
    "npy": (".npy",),
    "adios": (".bp", ".bp3", ".bp4", ".bp5"),
}


def format_of(path: Path) -> str:
    """The format of a file, by its first bytes, else by its suffix."""
    if not path.exists():
        raise NotFoundError(f"there is nothing at {path}")
    if path.is_dir():
        if any((path / name).exists() for name in ("zarr.json", ".zgroup", ".zarray", ".zmetadata")):
            return "zarr"
        if (path / "md.0").exists():
            return "adios"
        if (path / "drystone.json").exists():
            raise InvalidArgumentError(f"{path} is a container already: import takes files of other formats")
    else:
        with path.open("rb") as file:
            head = file.read(8)
        if head.startswith(b"\x93NUMPY"):
            return "npy"
        if head.startswith(b"CDF"):
            return "netcdf"
        if head == b"\x89HDF\r\n\x1a\n":
            return "netcdf" if path.suffix.lower() in READERS["netcdf"] else "hdf5"
    for name, suffixes in READERS.items():
        if path.suffix.lower() in suffixes:
            return name
    raise InvalidArgumentError(f"{path} is of an unknown format; --format is one of {', '.join(READERS)}")


def reader(name: str) -> Reader:
    """The module that reads a format."""
    module: Reader = importlib.import_module(f"drystone.interchange.formats.{name}")
    return module


def boxes(shape: tuple[int, ...], chunks: tuple[int, ...] | None, itemsize: int, most: int) -> Iterator[Box]:
    """Boxes that cover a shape, in row-major order, of at most about `most` bytes, along chunk boundaries."""
    if 0 in shape:
        return
    edge = [min(n, c) for n, c in zip(shape, chunks or (1,) * len(shape), strict=True)]
    cells = max(1, most // max(1, itemsize))
    for axis in reversed(range(len(shape))):
        now = math.prod(edge)
        edge[axis] = min(shape[axis], edge[axis] * max(1, cells // max(1, now)))
    for axis in range(len(shape)):  # chunks that are too large
        now = math.prod(edge)
        if now > cells:
            edge[axis] = max(1, edge[axis] // -(-now // cells))
    starts = [range(0, n, e) for n, e in zip(shape, edge, strict=True)]
    for place in np.ndindex(*(len(s) for s in starts)):
        yield tuple(
            slice(s[i], min(s[i] + e, n)) for s, i, e, n in zip(starts, place, edge, shape, strict=True)
        )


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same in native byte order."""
    return dtype.newbyteorder("=")


class NotTakenError(ValueError):
    """Containers do not support such an attribute."""


NOT_UTF8 = "bytes that are not UTF-8 (each is replaced by U+FFFD)"


def text(stored: bytes | str, losses: list[str]) -> str:
    """A text of a file. Bytes that are not UTF-8 are replaced, and recorded as lost.

    Python's texts have surrogates for such bytes, if the package of the format decodes with `surrogateescape`.
    """
    try:
        if isinstance(stored, str):
            stored.encode()
            return stored
        return stored.decode()
    except UnicodeError:
        losses.append(NOT_UTF8)
    if isinstance(stored, str):
        stored = stored.encode("utf-8", "surrogateescape" if _has_bytes(stored) else "replace")
    return stored.decode("utf-8", "replace")


def _has_bytes(stored: str) -> bool:
    """Whether all surrogates of a text stand for bytes."""
    return all("\udc80" <= one <= "\udcff" for one in stored if "\ud800" <= one <= "\udfff")


def attribute(value: Any, losses: list[str]) -> Any:
    """An attribute in the types of containers; what it loses is recorded."""
    if isinstance(value, bytes | str):
        return text(value, losses)
    if isinstance(value, np.ndarray):
        return _array_attribute(value, losses)
    if isinstance(value, np.generic) and value.dtype.kind != "V":
        return attribute(np.asarray(value), losses)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise NotTakenError
    if value is None or isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, list | tuple):
        return [attribute(item, losses) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: attribute(item, losses) for key, item in value.items()}
    raise NotTakenError


def _array_attribute(value: npt.NDArray[Any], losses: list[str]) -> Any:
    items = value.ravel().tolist() if value.dtype.kind in "OSUT" else []
    if items and all(isinstance(one, np.ndarray) and _is_number(one.dtype) for one in items):
        arrays = [one.astype(native(one.dtype)) for one in items]
        return arrays[0] if value.ndim == 0 else arrays
    if value.dtype.kind in "OSUT":
        if any(not isinstance(one, str | bytes) for one in items):
            raise NotTakenError
        if value.ndim > 1 and items:
            losses.append(f"its shape {value.shape} (it is one list)")
        if not items:
            losses.append("that its elements are texts (it has none)")
        texts = [text(one, losses) for one in items]
        return texts[0] if value.ndim == 0 else texts
    if not _is_number(value.dtype) and value.dtype.kind not in "mM":
        raise NotTakenError
    value = value.astype(native(value.dtype))
    return value[()] if value.ndim == 0 else value


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether containers have the type of number: they have no long double."""
    return dtype.kind in "biufc" and dtype.char not in "gG"


def attributes(pairs: Any, where: str, contents: Contents) -> dict[str, Any]:
    """Attributes in the types of containers; the others are recorded as lost."""
    out = {}
    for name, value in pairs:
        if name == "":
            contents.lost.append(f"an attribute of {where or '/'} without a name")
            continue
        if isinstance(name, bytes):
            contents.lost.append(f"attribute {name!r} of {where or '/'} (its name is not UTF-8)")
            continue
        if "\0" in str(name):
            contents.lost.append(f"attribute {name!r} of {where or '/'} (NUL in its name)")
            continue
        losses: list[str] = []
        try:
            out[str(name)] = attribute(value, losses)
        except NotTakenError:
            contents.lost.append(f"attribute {name} of {where or '/'} ({type(value).__name__})")
            continue
        contents.lost.extend(f"attribute {name} of {where or '/'}: {loss}" for loss in dict.fromkeys(losses))
    return out
