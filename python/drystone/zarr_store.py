"""A container as a store of zarr-python: `zarr.open_group(store=c.zarr_store())`, `xr.open_zarr(c.zarr_store())`.

Nothing is published or copied. Metadata documents come from the schema, and a chunk is read from the log when it is asked for. A
writable store makes containers of what others write to Zarr: groups become groups, arrays variables, chunks blocks (docs/guide/zarr-store.md).

Invariants
- a store that is read-only shows one snapshot for ever; one that is writable shows the newest;
- when `set` and `delete` return, what they did is committed;
- a key that stands for no node and no chunk is kept as an object, as it is;
- a chunk that was deleted holds the fill value for every reader. Which commit deleted it stands in an attribute of the group of
  objects: the chunk is a key again when a later commit writes to it, through whatever.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, unquote

import numpy as np
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from drystone.assigning import assign_box
from drystone.container import Container
from drystone.errors import ConflictError, NotFoundError, UnsupportedError
from drystone.opening import open as open_container
from drystone.opening import open_again, reopen
from drystone.zarr_declared import Chunks, create_arguments, layout_of

if TYPE_CHECKING:
    from drystone._core import ZarrHandle

T = TypeVar("T")

DOCUMENT = "zarr.json"
DECLARED = "drystone.zarr"
OBJECTS = ".zarr-objects"

# Of our own: zarr's codecs wait in the threads of its loop, and must not wait there for us.
_threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="drystone-zarr")


class DrystoneStore(Store):
    """The store of one container.

    Args:
        container: An open container, whose snapshot it shows if it is read-only; or a path, which is created if it is not there
            and the store is writable.
        read_only: Whether writing is refused.

    """

    supports_writes: bool = True
    supports_deletes: bool = True
    supports_listing: bool = True
    supports_partial_writes: Literal[False] = False

    def __init__(self, container: Container | str | os.PathLike[str], *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)
        if not isinstance(container, Container):
            container = open_container(container, "r" if read_only else "a")
        elif read_only:
            container = container.at(int(container.snapshot))
        else:
            container = open_again(container.path, "r+", container._options)
        self._container = container
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self._waiting: list[_Write] = []
        self._seen: _Seen | None = None

    # What it is.

    @property
    def container(self) -> Container:
        """The container, as the store shows it."""
        return self._container

    def with_read_only(self, read_only: bool = False) -> DrystoneStore:
        """The same container in another store: read-only at the present snapshot, or writable."""
        if read_only:
            self._view()
        return DrystoneStore(self._container, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DrystoneStore) or self.read_only != other.read_only:
            return False
        mine, theirs = self._container, other._container
        return mine.uuid == theirs.uuid and (not self.read_only or int(mine.snapshot) == int(theirs.snapshot))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        container = self._container
        if not self.read_only:
            return _writable, (container.path, container.uuid, self._is_open, container._options)
        version = int(container.snapshot)
        return _pinned, (container.path, container.uuid, version, self._is_open, container._options)

    def __str__(self) -> str:
        return f"drystone://{self._container.path}"

    def __repr__(self) -> str:
        return f"DrystoneStore({str(self)!r})"

    def close(self) -> None:
        """Close the store, and its handle of the container."""
        super().close()
        self._container.close()

    # Reading.

    def _view(self) -> _Seen:
        """The snapshot that the store shows now."""
        with self._lock:
            if not self.read_only:
                self._container.refresh()
            if self._seen is None or int(self._container.snapshot) != self._seen.handle.version:
                self._seen = _Seen(self._container, self.read_only)
            return self._seen

    def _get(self, key: str, byte_range: ByteRequest | None) -> bytes | None:
        data = self._view().get(key)
        return None if data is None else _part(data, byte_range)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value of a key, or a part of it; None if it is not there."""
        _check_range(byte_range)
        await self._ready()
        data = await _in_thread(lambda: self._get(key, byte_range))
        return None if data is None else (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Values or parts of several keys."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Whether a key is there."""
        await self._ready()
        return await _in_thread(lambda: self._view().has(key))

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys that begin with `prefix`."""
        await self._ready()
        for key in await _in_thread(lambda: list(self._view().keys(prefix))):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names directly below `prefix`."""
        await self._ready()
        for name in await _in_thread(lambda: self._view().names(prefix)):
            yield name

    async def _ready(self) -> None:
        if not self._is_open:
            await self._open()

    # Writing.

    async def set(self, key: str, value: Buffer) -> None:
        """Store a value: a node's document, a chunk, or an object."""
        self._check_writable()
        await self._ready()
        if not isinstance(value, Buffer):
            raise TypeError(f"the value of {key} is a Buffer, not {type(value).__name__}")
        data = value.to_bytes()
        await _in_thread(lambda: self._set(key, data))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store a value unless the key is there."""
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove a key. The cells of a chunk read as the fill value then."""
        self._check_writable()
        await self._ready()
        await _in_thread(lambda: self._delete(key))

    async def delete_dir(self, prefix: str) -> None:
        """Remove a node and all below it, or the chunks below a prefix."""
        self._check_writable()
        await self._ready()
        await _in_thread(lambda: self._delete_below(prefix.strip("/")))

    async def clear(self) -> None:
        """Remove everything."""
        await self.delete_dir("")

    def _set(self, key: str, data: bytes) -> None:
        node, name = _split(key)
        document = _document(data) if name == DOCUMENT else None
        with self._lock:
            seen = self._view()
            if document is not None:
                self._drop_object(seen, key)
                if document["node_type"] == "array":
                    self._set_array(seen, node, document)
                else:
                    self._set_group(seen, node, document)
                return
            place = None if key in seen.objects else seen.chunk(key)
            if place is None:
                self._set_object(seen, key, data)
                return
        array, index = place
        self._put(array, index, array.chunks.decode(data))

    def _set_array(self, seen: _Seen, node: str, document: dict[str, Any]) -> None:
        if not node:
            raise UnsupportedError("the root of a container is a group: give the array a name (name=, path=)")
        container = self._container
        attributes = _theirs(document.get("attributes") or {})
        layout = layout_of(document)
        known = seen.array(node)
        if known is None:
            arguments = create_arguments(document)
            with container.batch():
                container.create_variable(
                    node, **arguments, attrs={**attributes, DECLARED: json.dumps(layout)}
                )
            return
        if known.chunks.canonical() != Chunks(document).canonical():
            raise ConflictError(f"the array {node} is there, and is another one: delete it first")
        with container.batch():
            self._set_attributes(known.path, attributes, _theirs(known.document["attributes"]))
            shape, now = document["shape"], known.document["shape"]
            if shape != now:
                if not known.declared:
                    raise UnsupportedError(
                        f"{node} was not made through Zarr: resize it with Drystone, and put steps with a writer"
                    )
                container[known.path].resize(tuple(shape))

    def _set_group(self, seen: _Seen, node: str, document: dict[str, Any]) -> None:
        container = self._container
        attributes = _theirs(document.get("attributes") or {})
        mark = {DECLARED: json.dumps({"consolidated": document.get("consolidated_metadata") is not None})}
        known = seen.documents.get(node)
        if known is not None and known["node_type"] == "array":
            raise ConflictError(f"{node or '/'} is an array: delete it before a group takes its place")
        with container.batch():
            if container._handle.kind(node) is None:
                container.create_group(node, attrs={**attributes, **mark})
            else:
                before = {} if known is None else _theirs(known["attributes"])
                self._set_attributes(node, {**attributes, **mark}, before)

    def _set_attributes(self, path: str, new: dict[str, Any], old: dict[str, Any]) -> None:
        changes = {name: value for name, value in new.items() if name not in old or old[name] != value}
        gone = [name for name in old if name not in new]
        if changes or gone:
            self._container._handle.change_attrs(path, changes, gone)

    def _set_object(self, seen: _Seen, key: str, data: bytes) -> None:
        path = _object_path(key)
        container = self._container
        if seen.objects.get(key) not in (None, len(data)):
            container.delete(path)
        container.create_variable(path, "u1", shape=(len(data),))
        if data:
            assign_box(container, path, None, [0], np.frombuffer(data, np.uint8))
        container._settle()

    def _drop_object(self, seen: _Seen, key: str) -> None:
        if key in seen.objects:
            self._container.delete(_object_path(key))

    def _delete(self, key: str) -> None:
        node, name = _split(key)
        with self._lock:
            seen = self._view()
            if key in seen.objects:
                self._drop_object(seen, key)
                return
            if name == DOCUMENT and node in seen.documents:
                below = any(
                    other.startswith(f"{node}/" if node else "") and other != node for other in seen.documents
                )
                if below:
                    shown = seen.documents[node]
                    self._set_attributes(node, {}, {**_theirs(shown["attributes"])})
                elif node:
                    self._container.delete(node)
                else:
                    self._container.attrs.clear()
                return
            place = seen.chunk(key)
            if place is None or not seen.has(key):
                return
        self._delete_chunks([place])

    def _delete_chunks(self, places: Sequence[tuple[_Array, tuple[int, ...]]]) -> None:
        self._write([_Write(array, index, array.chunks.empty(), deletes=True) for array, index in places])

    def _delete_below(self, prefix: str) -> None:
        below = f"{prefix}/" if prefix else ""
        with self._lock:
            seen = self._view()
            gone = list(seen.chunks_below(below))
        if gone:
            self._delete_chunks(gone)
        with self._lock:
            seen = self._view()
            container = self._container
            with container.batch():
                for key in seen.objects:
                    if prefix and key.startswith(below):
                        container.delete(_object_path(key))
                if prefix and prefix in seen.documents:
                    container.delete(prefix)
                elif prefix:
                    tops = {
                        f"{below}{node[len(below) :].split('/')[0]}"
                        for node in seen.documents
                        if node.startswith(below)
                    }
                    for top in tops:
                        container.delete(top)
                else:
                    for top in {node.split("/")[0] for node in seen.documents if node}:
                        container.delete(top)
                    if container._handle.kind(OBJECTS) == "group":
                        container.delete(OBJECTS)
                    if container.attrs:
                        container.attrs.clear()

    def _put(self, array: _Array, index: tuple[int, ...], values: Any) -> None:
        """Write a chunk, and return when it is committed. Those that wait at once are committed together."""
        self._write([_Write(array, index, values)])

    def _write(self, writes: Sequence[_Write]) -> None:
        with self._lock:
            self._waiting.extend(writes)
        with self._writing:
            if not all(write.done for write in writes):
                with self._lock:
                    batch, self._waiting = self._waiting, []
                for one in batch:
                    one.put(self._container)
                deletions = [one for one in batch if one.deletes and one.error is None]
                try:
                    if deletions:
                        # A refresh meanwhile would show a later commit than that of the batch.
                        with self._lock:
                            self._container._settle()
                            self._mark(deletions)
                    else:
                        self._container._settle()
                except BaseException as error:
                    for one in batch:
                        one.error = one.error or error
        for write in writes:
            if write.error is not None:
                raise write.error

    def _mark(self, deletions: Sequence[_Write]) -> None:
        """Note of chunks, which hold fill values since the commit that the container shows, that they are deleted."""
        container, commit = self._container, int(self._container.snapshot)
        container.create_group(OBJECTS)
        noted = False
        while not noted:
            known = _marks(container)
            marks = {one.array.path: known.get(one.array.path, {}) for one in deletions}
            for one in deletions:
                marks[one.array.path][one.index] = commit
            # Each under a name of its own, which holds those before: of two stores at once neither loses what the other notes.
            changes = {f"{commit} {path}": _as_rows(found) for path, found in marks.items()}
            before = [name for name in _mark_names(container) if name.partition(" ")[2] in marks]
            try:
                container._handle.change_attrs(
                    OBJECTS, changes, [name for name in before if name not in changes]
                )
                noted = True
            except NotFoundError:  # Another store has joined the same ones.
                container.refresh()


class _Write:
    """A chunk that is to be put."""

    def __init__(self, array: _Array, index: tuple[int, ...], values: Any, *, deletes: bool = False) -> None:
        self.array, self.index, self._values = array, index, values
        self.deletes = deletes
        self.done = False
        self.error: BaseException | None = None

    def put(self, container: Container) -> None:
        try:
            start, count = self.array.box(self.index)
            if 0 not in count:
                part = self._values[tuple(slice(n) for n in count)]
                if self.array.element is not None and part.dtype != self.array.element:
                    part = part.view(self.array.element)
                assign_box(container, self.array.path, None, start, part)
        except BaseException as error:
            self.error = error
        self.done = True


class _Array:
    """An array of the hierarchy."""

    def __init__(self, seen: _Seen, node: str, path: str, declared: bool) -> None:
        self._seen, self._node = seen, node
        self.path, self.declared = path, declared
        self.document = seen.documents[node]
        self.chunks = Chunks(self.document)
        reading = seen.container._handle.reading(path, None)
        self.element = None if reading.strings else reading.element
        # An array that is all of its variable, cell by cell.
        whole = len(reading.shape) == len(self.document["shape"])
        self._plain = whole and (reading.strings or reading.element.kind in "biufcmMSU")

    def box(self, index: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """First cell and extents of a chunk within the shape."""
        if not self.declared and not self._plain:
            raise UnsupportedError(
                f"{self._node} is a part of what its variable holds: put it with a writer of Drystone"
            )
        start = [i * n for i, n in zip(index, self.chunks.shape, strict=True)]
        shape = self.document["shape"]
        count = [max(0, min(n, m - o)) for o, n, m in zip(start, self.chunks.shape, shape, strict=True)]
        return start, count

    def has(self, index: tuple[int, ...]) -> bool:
        """Whether something was written to a chunk, and it was not deleted since."""
        handle, deleted = self._seen.handle, self._seen.deleted.get(self.path, {}).get(index)
        if deleted is not None:
            return handle.has_chunk_since(self._node, list(index), deleted)
        return handle.has_chunk(self._node, list(index))

    def encoded(self, index: tuple[int, ...]) -> bytes | None:
        """The bytes of a chunk; None if it is not there."""
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


class _Seen:
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
        self.deleted = _marks(container)
        self._arrays: dict[str, _Array | None] = {}

    def array(self, node: str) -> _Array | None:
        """The array at a node."""
        if node not in self._arrays:
            found = self.handle.array(node)
            self._arrays[node] = None if found is None else _Array(self, node, *found)
        return self._arrays[node]

    def chunk(self, key: str) -> tuple[_Array, tuple[int, ...]] | None:
        """The array and index of the chunk that a key stands for."""
        parts = key.split("/")
        for n in range(len(parts) - 1, 0, -1):
            array = self.array("/".join(parts[:n]))
            if array is not None:
                index = array.chunks.index("/".join(parts[n:]))
                return None if index is None else (array, index)
        return None

    def get(self, key: str) -> bytes | None:
        if key in self.objects:
            values = self.container._handle.reading(_object_path(key), None).select(...)
            return bytes(np.asarray(values).tobytes())
        node, name = _split(key)
        if name == DOCUMENT and node in self._texts:
            return self._texts[node].encode()
        place = self.chunk(key)
        return None if place is None else place[0].encoded(place[1])

    def has(self, key: str) -> bool:
        node, name = _split(key)
        if key in self.objects or (name == DOCUMENT and node in self._texts):
            return True
        place = self.chunk(key)
        return place is not None and place[0].has(place[1])

    def chunks_below(self, below: str) -> Iterator[tuple[_Array, tuple[int, ...]]]:
        """The chunks whose keys begin with a prefix that goes on behind the path of their array."""
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
        yield from (key for key in self.objects if key.startswith(prefix))
        for node in self.documents:
            base = f"{node}/" if node else ""
            if f"{base}{DOCUMENT}".startswith(prefix):
                yield f"{base}{DOCUMENT}"
            if base.startswith(prefix) or prefix.startswith(base):
                yield from (key for key, _ in self._chunk_keys(node) if key.startswith(prefix))

    def names(self, prefix: str) -> list[str]:
        below = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        keys = [*self.objects, *(f"{node}/{DOCUMENT}" if node else DOCUMENT for node in self.documents)]
        for node in self.documents:
            if node and below.startswith(f"{node}/"):
                keys.extend(key for key, _ in self._chunk_keys(node))
        return sorted({key[len(below) :].split("/")[0] for key in keys if key.startswith(below)})


def _writable(path: str, uuid: str, is_open: bool, options: Iterable[tuple[str, str]] = ()) -> DrystoneStore:
    store = DrystoneStore(open_again(path, "r+", options))
    if store._container.uuid != uuid:
        raise ConflictError(f"the container at {path} is not the one that was pickled: it has been replaced")
    store._is_open = is_open
    return store


def _pinned(
    path: str, uuid: str, version: int, is_open: bool, options: Iterable[tuple[str, str]] = ()
) -> DrystoneStore:
    store = DrystoneStore(reopen(path, uuid, version, options=options), read_only=True)
    store._is_open = is_open
    return store


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


def _split(key: str) -> tuple[str, str]:
    node, _, name = key.rpartition("/")
    return node, name


def _object_path(key: str) -> str:
    return f"{OBJECTS}/={quote(key, safe='')}"


def _marks(container: Container) -> dict[str, dict[tuple[int, ...], int]]:
    """By path of a variable and index of a chunk, the commit that deleted it."""
    marks: dict[str, dict[tuple[int, ...], int]] = {}
    for name, rows in _mark_names(container).items():
        found = marks.setdefault(name.partition(" ")[2], {})
        for commit, *index in np.asarray(rows).tolist():
            found[tuple(index)] = max(commit, found.get(tuple(index), 0))
    return marks


def _mark_names(container: Container) -> dict[str, Any]:
    """The attributes that say which chunks of a variable were deleted: a commit and the variable's path, and rows of marks."""
    if container._handle.kind(OBJECTS) != "group":
        return {}
    stored = container._handle.attrs(OBJECTS)
    return {name: rows for name, rows in stored.items() if np.ndim(rows) == 2 and " " in name}


def _as_rows(marks: dict[tuple[int, ...], int]) -> Any:
    """Marks as an array of rows (commit, index ...), of the shortest integers that hold them."""
    rows = np.array([(commit, *index) for index, commit in marks.items()], np.uint64)
    return rows.astype(np.min_scalar_type(rows.max()))


def _document(data: bytes) -> dict[str, Any] | None:
    """The document of a node of Zarr v3, or None for anything else."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    ours = isinstance(document, dict) and document.get("zarr_format") == 3
    return document if ours and document.get("node_type") in ("array", "group") else None


def _theirs(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes without what the view says of a node."""
    about = attributes.get("drystone")
    if isinstance(about, dict) and "container" in about:
        return {name: value for name, value in attributes.items() if name != "drystone"}
    return dict(attributes)


def _check_range(byte_range: ByteRequest | None) -> None:
    known = RangeByteRequest | OffsetByteRequest | SuffixByteRequest | None
    if not isinstance(byte_range, known):
        raise TypeError(
            f"Unexpected byte_range, got {byte_range!r}: a ByteRequest of zarr.abc.store is expected"
        )


def _part(data: bytes, byte_range: ByteRequest | None) -> bytes:
    match byte_range:
        case RangeByteRequest(start, end):
            return data[start:end]
        case OffsetByteRequest(offset):
            return data[offset:]
        case SuffixByteRequest(suffix):
            return data[max(0, len(data) - suffix) :]
    return data
