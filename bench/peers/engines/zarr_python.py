"""Zarr v3 through zarr-python, on local files: one store, into which all processes write whole chunks.

Chunks are the writers' blocks. Many small blocks become the inner chunks of shards, a row of blocks along the first
axis each; shards are written whole, so the writer gathers a row first. Chunks of fill values are written too, which
spares the comparison. Steps are known ahead, so that no step rewrites metadata. Zarr syncs nothing: `durable` is fsync
of every file that was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec

from engines import Array, Engine, Layout, sharded, sync_files
from engines.rows import Rows


def create(path: Path, layout: Layout) -> None:
    """A group with its arrays."""
    group = zarr.create_group(path)
    front = (layout.steps,) if layout.steps else ()
    for spec in layout.specs:
        own = spec.chunks or spec.shape
        chunks: Any = (*(1 for _ in front), *own) if spec.chunks else "auto"
        shards = (*(1 for _ in front), own[0], *spec.shape[1:]) if sharded(layout) else None
        codec = BloscCodec(cname="zstd", clevel=1, shuffle="shuffle") if layout.codec else None
        group.create_array(
            spec.name,
            shape=(*front, *spec.shape),
            chunks=chunks,
            shards=shards,
            dtype=spec.dtype,
            compressors=codec,
            filters=None,
            config={"write_empty_chunks": True},
        )


class Writer:
    """The store, whose chunks are files."""

    def __init__(self, path: Path, layout: Layout, rank: int) -> None:
        self.path, self.layout = path, layout
        group = zarr.open_group(path, mode="r+")
        self.arrays: dict[str, Any] = {spec.name: group[spec.name] for spec in layout.specs}
        self.arrays = {k: a.with_config({"write_empty_chunks": True}) for k, a in self.arrays.items()}
        self.rows = {spec.name: Rows(spec) for spec in layout.specs} if sharded(layout) else {}
        self.made: list[Path] = []

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        if name in self.rows:
            rows = self.rows[name]
            if not rows.put(offset, array):
                return
            offset, array = (rows.first, *(0 for _ in offset[1:])), rows.array
        slices = tuple(slice(a, a + n) for a, n in zip(offset, array.shape, strict=True))
        front = (step,) if self.layout.steps else ()
        self.arrays[name][(*front, *slices)] = array
        if self.layout.durable:
            target = self.arrays[name].shards or self.arrays[name].chunks
            own = target[1:] if self.layout.steps else target
            place = (*front, *(a // c for a, c in zip(offset, own, strict=True)))
            self.made.append(self.path / name / "c" / "/".join(map(str, place)))

    def end(self, step: int) -> None:
        if self.layout.durable:
            folders = {folder for file in self.made for folder in file.parents[: len(file.parts) - 1]}
            inside = [folder for folder in folders if folder.is_relative_to(self.path)]
            sync_files([*self.made, *inside])
            self.made.clear()

    def close(self) -> None:
        pass


class Reader:
    """The store."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.group = zarr.open_group(path, mode="r")
        self.arrays: dict[str, Any] = {}
        self.steps = layout.steps > 0

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        own = out.shape[1:] if self.steps else out.shape
        box = tuple(slice(a, a + n) for a, n in zip(offset, own, strict=True))
        front = (slice(first, first + len(out)),) if self.steps else ()
        if name not in self.arrays:
            self.arrays[name] = self.group[name]
        found: Array = np.asarray(self.arrays[name][(*front, *box)])
        return found

    def close(self) -> None:
        pass


def write_records(path: Path, records: Array, durable: bool) -> None:
    """An array per member: Zarr has no members, and reads records whole."""
    group = zarr.create_group(path)
    for member in records.dtype.names or ():
        values = np.ascontiguousarray(records[member])
        array = group.create_array(member, shape=values.shape, chunks=(1 << 17,), dtype=values.dtype,
                                   compressors=None, filters=None, config={"write_empty_chunks": True})  # fmt: skip
        array[:] = values
    if durable:
        sync_files([*path.rglob("*"), path])


def read_member(path: Path, member: str, out: Array) -> Array:
    """One array."""
    found: Array = np.asarray(zarr.open_group(path, mode="r")[member][:])
    return found


ENGINE = Engine(
    "zarr",
    create,
    Writer,
    Reader,
    f"zarr-python {zarr.__version__}",
    extras={"write_records": write_records, "read_member": read_member},
)
