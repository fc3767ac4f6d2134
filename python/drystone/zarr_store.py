"""A container as a store of zarr-python: `zarr.open_group(store=c.zarr_store(), mode="r")`, `xr.open_zarr(...)`.

Nothing is published or copied. Metadata documents come from the schema, and a chunk is read from the log when it is
requested. A writable store makes containers of data that others write to Zarr: groups become groups, arrays variables,
chunks blocks (docs/guide/zarr-store.md).

Invariants
- a read-only store always shows one snapshot; a writable one shows the newest;
- when `set` and `delete` return, their changes are committed;
- a key that denotes neither a node nor a chunk is stored as an object, unchanged;
- a chunk that was deleted holds the fill value for every reader (`zarr_snapshot` has the marks).
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, TypeVar

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
from drystone.zarr_snapshot import (
    DOCUMENT,
    OBJECTS,
    Shown,
    ShownArray,
    as_rows,
    mark_names,
    marks_of,
    object_path,
    split,
)

if TYPE_CHECKING:
    pass

T = TypeVar("T")

DECLARED = "drystone.zarr"

# Our own threads: zarr's codecs block the threads of its loop, and must not wait there for us.
_threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="drystone-zarr")


class DrystoneStore(Store):
    """The store of one container.

    Args:
        container: An open container, whose snapshot it shows if it is read-only; or a path, which is created if it
            does not exist and the store is writable.
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
        self._seen: Shown | None = None

    # Properties.

    @property
    def container(self) -> Container:
        """The container, as the store shows it."""
        return self._container

    def with_read_only(self, read_only: bool = False) -> DrystoneStore:
        """The same container in another store: read-only at the current snapshot, or writable."""
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

    def _view(self) -> Shown:
        """The snapshot that the store currently shows."""
        with self._lock:
            if not self.read_only:
                self._container.refresh()
            if self._seen is None or int(self._container.snapshot) != self._seen.handle.version:
                self._seen = Shown(self._container, self.read_only)
            return self._seen

    def _get(self, key: str, byte_range: ByteRequest | None) -> bytes | None:
        data = self._view().get(key)
        return None if data is None else _part(data, byte_range)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value of a key, or a part of it; None if it does not exist."""
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
        """Whether a key exists."""
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
        """Store a value unless the key exists."""
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove a key. The cells of a chunk then read as the fill value."""
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
        node, name = split(key)
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

    def _set_array(self, seen: Shown, node: str, document: dict[str, Any]) -> None:
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

    def _set_group(self, seen: Shown, node: str, document: dict[str, Any]) -> None:
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

    def _set_object(self, seen: Shown, key: str, data: bytes) -> None:
        path = object_path(key)
        container = self._container
        if seen.objects.get(key) not in (None, len(data)):
            container.delete(path)
        container.create_variable(path, "u1", shape=(len(data),))
        if data:
            assign_box(container, path, None, [0], np.frombuffer(data, np.uint8))
        container._settle()

    def _drop_object(self, seen: Shown, key: str) -> None:
        if key in seen.objects:
            self._container.delete(object_path(key))

    def _delete(self, key: str) -> None:
        node, name = split(key)
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

    def _delete_chunks(self, places: Sequence[tuple[ShownArray, tuple[int, ...]]]) -> None:
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
                        container.delete(object_path(key))
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

    def _put(self, array: ShownArray, index: tuple[int, ...], values: Any) -> None:
        """Write a chunk, and return when it is committed. Concurrent writes are committed together."""
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
                        # A refresh in between would show a commit after that of the batch.
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
        """Mark chunks as deleted, which hold fill values since the container's current commit."""
        container, commit = self._container, int(self._container.snapshot)
        container.create_group(OBJECTS)
        noted = False
        while not noted:
            known = marks_of(container)
            marks = {one.array.path: known.get(one.array.path, {}) for one in deletions}
            for one in deletions:
                marks[one.array.path][one.index] = commit
            # Each mark set has its own name and includes the earlier ones: two concurrent stores do not lose each
            # other's marks.
            changes = {f"{commit} {path}": as_rows(found) for path, found in marks.items()}
            before = [name for name in mark_names(container) if name.partition(" ")[2] in marks]
            try:
                container._handle.change_attrs(
                    OBJECTS, changes, [name for name in before if name not in changes]
                )
                noted = True
            except NotFoundError:  # Another store has joined the same marks.
                container.refresh()


class _Write:
    """A chunk that waits to be put."""

    def __init__(
        self, array: ShownArray, index: tuple[int, ...], values: Any, *, deletes: bool = False
    ) -> None:
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


def _document(data: bytes) -> dict[str, Any] | None:
    """The document of a node of Zarr v3, or None for anything else."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    ours = isinstance(document, dict) and document.get("zarr_format") == 3
    return document if ours and document.get("node_type") in ("array", "group") else None


def _theirs(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes without those that the view adds to a node."""
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
