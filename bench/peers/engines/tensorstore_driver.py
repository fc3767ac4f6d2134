"""TensorStore's zarr3 driver on local files: all processes write one store; puts run concurrently until the end.

Chunks as for zarr-python; many small blocks become inner chunks of shards, and a transaction per row of shards writes
each once. `file_io_sync`, its own setting (on unless told otherwise), syncs every file and folder; async is the same
without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts

from engines import Array, Engine, Layout, Spec, sharded


def _context(durable: bool) -> Any:
    return ts.Context({"file_io_sync": durable})


def _open(path: Path, spec: Spec, context: Any, **more: Any) -> Any:
    where = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path / spec.name)}}
    return ts.open(where, context=context, **more)


def create(path: Path, layout: Layout) -> None:
    """An array per variable."""
    front = (layout.steps,) if layout.steps else ()
    ones = tuple(1 for _ in front)
    codec = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if layout.codec:
        codec.append(
            {
                "name": "blosc",
                "configuration": {
                    "cname": "zstd",
                    "clevel": 1,
                    "shuffle": "shuffle",
                    "typesize": np.dtype(layout.specs[0].dtype).itemsize,
                    "blocksize": 0,
                },
            }
        )
    waiting = []
    for spec in layout.specs:
        own = spec.chunks or spec.shape
        chunks = [*ones, *own]
        whole = [*ones, own[0], *spec.shape[1:]] if sharded(layout) else chunks
        metadata: dict[str, Any] = {
            "shape": [*front, *spec.shape],
            "data_type": np.dtype(spec.dtype).name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": whole}},
            "codecs": codec,
        }
        if spec.chunks is None:
            del metadata["chunk_grid"]
        if sharded(layout):
            metadata["codecs"] = [
                {"name": "sharding_indexed", "configuration": {"chunk_shape": chunks, "codecs": codec}}
            ]
        where = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": str(path / spec.name)},
            "metadata": metadata,
        }
        waiting.append(ts.open(where, create=True, context=_context(layout.durable)))
    for made in waiting:
        made.result()


class Writer:
    """The store."""

    def __init__(self, path: Path, layout: Layout, rank: int) -> None:
        self.layout = layout
        context = _context(layout.durable)
        opened = {spec.name: _open(path, spec, context, open=True) for spec in layout.specs}
        self.arrays = {name: future.result() for name, future in opened.items()}
        self.waiting: list[Any] = []
        self.transaction: Any = None
        self.row = -1

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        target = self.arrays[name]
        if sharded(self.layout):
            if offset[0] != self.row:
                self._commit()
                self.transaction, self.row = ts.Transaction(), offset[0]
            target = target.with_transaction(self.transaction)
        if self.layout.steps:
            target = target[step]
        box = tuple(slice(a, a + n) for a, n in zip(offset, array.shape, strict=True))
        written = target[box].write(array)
        self.waiting.append(written.copy if self.transaction else written)

    def _commit(self) -> None:
        for written in self.waiting:
            written.result()
        self.waiting.clear()
        if self.transaction is not None:
            self.transaction.commit_async().result()
            self.transaction = None

    def end(self, step: int) -> None:
        self._commit()

    def close(self) -> None:
        pass


class Reader:
    """The store."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout, self.steps = path, layout, layout.steps > 0
        self.context = _context(False)
        self.arrays: dict[str, Any] = {}

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        if name not in self.arrays:
            found = _open(self.path, self.layout.spec(name), self.context, open=True)
            self.arrays[name] = found.result()
        own = out.shape[1:] if self.steps else out.shape
        box = tuple(slice(a, a + n) for a, n in zip(offset, own, strict=True))
        front = (slice(first, first + len(out)),) if self.steps else ()
        values: Array = self.arrays[name][(*front, *box)].read().result()
        return values

    def read_boxes(self, name: str, boxes: Sequence[tuple[slice, ...]]) -> list[Array]:
        """Boxes of an array without steps, side by side."""
        array = _open(self.path, self.layout.spec(name), self.context, open=True).result()
        return [future.result() for future in [array[box].read() for box in boxes]]

    def close(self) -> None:
        pass


def _record_layout(records: dict[str, np.dtype[Any]], count: int, durable: bool) -> Layout:
    from grid import Box

    chunk = min(count, 1 << 17)
    specs = tuple(Spec(name, (count,), dtype.str, (chunk,)) for name, dtype in records.items())
    return Layout(specs, ((Box((0,), (count,)),),), 0, durable)  # type: ignore[arg-type]


def write_records(path: Path, records: Array, durable: bool) -> None:
    """An array per member: zarr3 has no members."""
    names = {name: records.dtype[name] for name in records.dtype.names or ()}
    layout = _record_layout(names, len(records), durable)
    create(path, layout)
    writer = Writer(path, layout, 0)
    for name in names:
        writer.put(0, name, (0,), records[name])
    writer.end(0)


def read_member(path: Path, member: str, out: Array) -> Array:
    """One array."""
    reader = Reader(path, _record_layout({member: out.dtype}, len(out), False))
    return reader.read(member, 0, (0,), out)


ENGINE = Engine(
    "tensorstore",
    create,
    Writer,
    Reader,
    f"TensorStore {version('tensorstore')}",
    extras={"write_records": write_records, "read_member": read_member},
)
