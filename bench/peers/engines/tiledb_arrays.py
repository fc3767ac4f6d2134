"""TileDB: one dense array whose attributes are the variables, tiles of the writers' blocks, no filters.

Each write is a fragment of its own, so a process gathers its attributes and writes a step at once, and many small
blocks a row of blocks along the first axis at a time: fragments are what its reads and opening pay for. TileDB always
syncs what it writes; it has no setting to leave that, so its async figures are durable ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tiledb

from engines import Array, Engine, Layout
from engines.rows import Rows


def create(path: Path, layout: Layout) -> None:
    """A dense array."""
    spec = layout.specs[0]
    dims = [tiledb.Dim("step", domain=(0, layout.steps - 1), tile=1, dtype="u8")] if layout.steps else []
    for d, (n, chunk) in enumerate(zip(spec.shape, spec.chunks or [None] * len(spec.shape), strict=True)):
        dims.append(tiledb.Dim(f"d{d}", domain=(0, n - 1), tile=chunk, dtype="u8"))
    filters: list[Any] = []
    if layout.codec:
        filters = [tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(level=1)]
    attrs = [tiledb.Attr(s.name, dtype=s.dtype, filters=tiledb.FilterList(filters)) for s in layout.specs]
    tiledb.Array.create(str(path), tiledb.ArraySchema(domain=tiledb.Domain(*dims), attrs=attrs))


class Writer:
    """The array, open for writing."""

    def __init__(self, path: Path, layout: Layout, rank: int) -> None:
        self.layout = layout
        self.array = tiledb.open(str(path), "w")
        self.rows = {spec.name: Rows(spec) for spec in layout.specs} if layout.in_rows else {}
        self.held: dict[str, Array] = {}
        self.offset: Sequence[int] = ()

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        if name in self.rows:
            rows = self.rows[name]
            if not rows.put(offset, array):
                return
            offset, array = (rows.first, *(0 for _ in offset[1:])), rows.array
        self.held[name], self.offset = np.ascontiguousarray(array), offset
        if not self.layout.single and len(self.held) == len(self.layout.specs):
            self._write(step)

    def _write(self, step: int) -> None:
        if not self.held:
            return
        shape = next(iter(self.held.values())).shape
        box: tuple[slice, ...] = tuple(slice(a, a + n) for a, n in zip(self.offset, shape, strict=True))
        if self.layout.steps:
            box = (slice(step, step + 1), *box)
            self.held = {name: array[None] for name, array in self.held.items()}
        self.array[box] = self.held if len(self.layout.specs) > 1 else next(iter(self.held.values()))
        self.held = {}

    def end(self, step: int) -> None:
        self._write(step)

    def close(self) -> None:
        self.array.close()


class Reader:
    """The array, open for reading."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.array = tiledb.open(str(path), "r")
        self.steps = layout.steps > 0

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        own = out.shape[1:] if self.steps else out.shape
        box: tuple[slice, ...] = tuple(slice(a, a + n) for a, n in zip(offset, own, strict=True))
        if self.steps:
            box = (slice(first, first + len(out)), *box)
        found: Array = self.array.query(attrs=[name])[box][name]
        return found

    def close(self) -> None:
        self.array.close()


def write_records(path: Path, records: Array, durable: bool) -> None:
    """An attribute per member."""
    dim = tiledb.Dim("n", domain=(0, len(records) - 1), tile=min(len(records), 1 << 17), dtype="u8")
    attrs = [
        tiledb.Attr(n, dtype=records.dtype[n], filters=tiledb.FilterList([])) for n in records.dtype.names
    ]
    tiledb.Array.create(str(path), tiledb.ArraySchema(domain=tiledb.Domain(dim), attrs=attrs))
    with tiledb.open(str(path), "w") as array:
        array[:] = {name: np.ascontiguousarray(records[name]) for name in records.dtype.names or ()}


def read_member(path: Path, member: str, out: Array) -> Array:
    """One attribute."""
    with tiledb.open(str(path), "r") as array:
        found: Array = array.query(attrs=[member])[:][member]
    return found


ENGINE = Engine(
    "TileDB",
    create,
    Writer,
    Reader,
    f"TileDB {'.'.join(map(str, tiledb.libtiledb.version()))}",
    extras={"write_records": write_records, "read_member": read_member},
)
