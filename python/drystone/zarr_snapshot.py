"""A snapshot of a container as keys and values of Zarr, and the marks of deleted chunks.

A deleted chunk has the fill value for every reader. An attribute of the group of objects stores the commit that
deleted it: the chunk is a key again once a later commit writes to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np

from drystone.errors import UnsupportedError
from drystone.zarr_declared import Chunks

if TYPE_CHECKING:
    from drystone._core import ZarrHandle
    from drystone.container import Container

DOCUMENT = "zarr.json"
OBJECTS = ".zarr-objects"


class ShownArray:
    """An array of the hierarchy."""

    def __init__(self, seen: Shown, node: str, path: str, declared: bool) -> None:
        self._seen, self._node = seen, node
        self.path, self.declared = path, declared
        self.document = seen.documents[node]
        self.chunks = Chunks(self.document)
        reading = seen.container._handle.reading(path, None)
        self.element = None if reading.strings else reading.element
        # An array that equals its variable, cell by cell.
        whole = len(reading.shape) == len(self.document["shape"])
        self._plain = whole and (reading.strings or reading.element.kind in "biufcmMSU")

    def box(self, index: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """First cell and extents of a chunk, cut to the shape."""
        if not self.declared and not self._plain:
            raise UnsupportedError(
                f"{self._node} is a part of what its variable holds: put it with a writer of Drystone"
            )
        start = [i * n for i, n in zip(index, self.chunks.shape, strict=True)]
        shape = self.document["shape"]
        count = [max(0, min(n, m - o)) for o, n, m in zip(start, self.chunks.shape, shape, strict=True)]
        return start, count

    def has(self, index: tuple[int, ...]) -> bool:
        """Whether a chunk was written, and not deleted since."""
        handle, deleted = self._seen.handle, self._seen.deleted.get(self.path, {}).get(index)
        if deleted is not None:
            return handle.has_chunk_since(self._node, list(index), deleted)
        return handle.has_chunk(self._node, list(index))

    def encoded(self, index: tuple[int, ...]) -> bytes | None:
        """The bytes of a chunk; None if it does not exist."""
        handle = self._seen.handle
        if index in self._seen.deleted.get(self.path, {}) and not self.has(index):
            return None
        if not self.declared:
            return handle.chunk(self._node, list(index))
        if not handle.has_chunk(self._node, list(index)):
            return None
        start, count = self.box(index)
        reading = self._seen.container._handle.reading(self.path, None)
        values, _, _ = reading.read_box(None, start, count, None)
        return self.chunks.encode(np.asarray(values))


class Shown:
    """A snapshot as keys and values."""

    def __init__(self, container: Container, consolidated: bool) -> None:
        self.container = container
        self.handle: ZarrHandle = container._handle.zarr_view(consolidated)
        self._texts = self.handle.documents
        self.documents: dict[str, dict[str, Any]] = {
            node: json.loads(text) for node, text in self._texts.items()
        }
        self.objects: dict[str, int] = {}
        if container._handle.kind(OBJECTS) == "group":
            for name in container._handle.names(OBJECTS)[0]:
                length = container._handle.reading(f"{OBJECTS}/{name}", None).shape[0]
                self.objects[unquote(name[1:])] = length
        self.deleted = marks_of(container)
        self._arrays: dict[str, ShownArray | None] = {}

    def array(self, node: str) -> ShownArray | None:
        """The array at a node."""
        if node not in self._arrays:
            found = self.handle.array(node)
            self._arrays[node] = None if found is None else ShownArray(self, node, *found)
        return self._arrays[node]

    def chunk(self, key: str) -> tuple[ShownArray, tuple[int, ...]] | None:
        """The array and index of the chunk with a key."""
        parts = key.split("/")
        for n in range(len(parts) - 1, 0, -1):
            array = self.array("/".join(parts[:n]))
            if array is not None:
                index = array.chunks.index("/".join(parts[n:]))
                return None if index is None else (array, index)
        return None

    def get(self, key: str) -> bytes | None:
        """The value of a key; None if it does not exist."""
        if key in self.objects:
            values = self.container._handle.reading(object_path(key), None).select(...)
            return bytes(np.asarray(values).tobytes())
        node, name = split(key)
        if name == DOCUMENT and node in self._texts:
            return self._texts[node].encode()
        place = self.chunk(key)
        return None if place is None else place[0].encoded(place[1])

    def has(self, key: str) -> bool:
        """Whether a key exists."""
        node, name = split(key)
        if key in self.objects or (name == DOCUMENT and node in self._texts):
            return True
        place = self.chunk(key)
        return place is not None and place[0].has(place[1])

    def chunks_below(self, below: str) -> Iterator[tuple[ShownArray, tuple[int, ...]]]:
        """The chunks whose keys start with a prefix that is longer than the path of their array."""
        for node in self.documents:
            if node and below.startswith(f"{node}/") and below != f"{node}/":
                for key, index in self._chunk_keys(node):
                    if key.startswith(below):
                        array = self.array(node)
                        assert array is not None
                        yield array, index

    def _chunk_keys(self, node: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        array = self.array(node)
        if array is not None:
            deleted = self.deleted.get(array.path, {})
            for found in self.handle.chunks(node):
                index = tuple(found)
                if index not in deleted or array.has(index):
                    yield f"{node}/{array.chunks.key(index)}", index

    def keys(self, prefix: str) -> Iterator[str]:
        """The keys that begin with a prefix."""
        yield from (key for key in self.objects if key.startswith(prefix))
        for node in self.documents:
            base = f"{node}/" if node else ""
            if f"{base}{DOCUMENT}".startswith(prefix):
                yield f"{base}{DOCUMENT}"
            if base.startswith(prefix) or prefix.startswith(base):
                yield from (key for key, _ in self._chunk_keys(node) if key.startswith(prefix))

    def names(self, prefix: str) -> list[str]:
        """The first components of the keys below a prefix."""
        below = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        keys = [*self.objects, *(f"{node}/{DOCUMENT}" if node else DOCUMENT for node in self.documents)]
        for node in self.documents:
            if node and below.startswith(f"{node}/"):
                keys.extend(key for key, _ in self._chunk_keys(node))
        return sorted({key[len(below) :].split("/")[0] for key in keys if key.startswith(below)})


def split(key: str) -> tuple[str, str]:
    """A key split into the path of its node and the last component."""
    node, _, name = key.rpartition("/")
    return node, name


def object_path(key: str) -> str:
    """The path of the variable that holds an object."""
    return f"{OBJECTS}/={quote(key, safe='')}"


def marks_of(container: Container) -> dict[str, dict[tuple[int, ...], int]]:
    """The commit that deleted each chunk, by path of the variable and index of the chunk."""
    marks: dict[str, dict[tuple[int, ...], int]] = {}
    for name, rows in mark_names(container).items():
        found = marks.setdefault(name.partition(" ")[2], {})
        for commit, *index in np.asarray(rows).tolist():
            found[tuple(index)] = max(commit, found.get(tuple(index), 0))
    return marks


def mark_names(container: Container) -> dict[str, Any]:
    """The attributes that list the deleted chunks of a variable.

    Each name has a commit and the variable's path; each value is rows of marks.
    """
    if container._handle.kind(OBJECTS) != "group":
        return {}
    stored = container._handle.attrs(OBJECTS)
    return {name: rows for name, rows in stored.items() if np.ndim(rows) == 2 and " " in name}


def as_rows(marks: dict[tuple[int, ...], int]) -> Any:
    """Marks as an array of rows (commit, index ...), in the smallest sufficient integer type."""
    rows = np.array([(commit, *index) for index, commit in marks.items()], np.uint64)
    return rows.astype(np.min_scalar_type(rows.max()))
