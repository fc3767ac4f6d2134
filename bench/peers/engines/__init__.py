"""The peers: each a module that says how it is driven, and why so. All store the same arrays, in their own way.

Invariants
- an engine gets what suits it: files per process where it has no parallel writers, chunks that are the writers' blocks,
  no codec where none is measured; the number of steps ahead, if it wants that;
- an act ends equally durable for all: with `durable` the data and what finds it are synced when `Writer.end` (and
  `commit`) returned, else they are with the system, and another process that opens the store sees them;
- what reading needs to know of the writers' boxes is in `Layout`: raw files and files per process would be lost without
  it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from grid import Box

Array = npt.NDArray[Any]

MODULES = {
    "drystone": "drystone",
    "raw": "raw_files",
    "h5py": "hdf5",
    "netCDF4": "netcdf",
    "ADIOS2": "adios",
    "zarr": "zarr_python",
    "tensorstore": "tensorstore_driver",
    "TileDB": "tiledb_arrays",
    "blosc2": "blosc2_arrays",
}
"""The module of each engine, by the name that tables show."""


@dataclass(frozen=True)
class Spec:
    """One array of a store."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...] | None
    """Where a store has chunks: the blocks that are written, or others; all of it is none. None: as the engine does by
    itself."""

    @property
    def block_bytes(self) -> int:
        """Bytes of a chunk."""
        return int(np.prod(self.chunks or self.shape)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Layout:
    """What is stored, and who writes which part of it."""

    specs: tuple[Spec, ...]
    puts: tuple[tuple[Box, ...], ...]
    """The blocks of each rank, in the order in which they are put; the same for every array and step."""
    steps: int = 0
    """How many steps will be written; 0 for arrays without steps."""
    durable: bool = False
    codec: str | None = None
    """None, or `zstd`: each engine's zstd at level 1 behind a byte shuffle."""

    @property
    def ranks(self) -> int:
        """How many write."""
        return len(self.puts)

    def spec(self, name: str) -> Spec:
        """An array by its name."""
        return next(s for s in self.specs if s.name == name)

    @cached_property
    def hulls(self) -> tuple[Box, ...]:
        """The box of each rank's blocks."""
        found = []
        for boxes in self.puts:
            start = np.min([b.offset for b in boxes], axis=0)
            stop = np.max([np.add(b.offset, b.shape) for b in boxes], axis=0)
            found.append(Box(tuple(map(int, start)), tuple(map(int, stop - start))))  # type: ignore[arg-type]
        return tuple(found)

    @property
    def single(self) -> bool:
        """Whether each rank lays down one block per array and step."""
        return all(len(boxes) == 1 for boxes in self.puts)

    @property
    def in_rows(self) -> bool:
        """Whether each rank lays down many blocks, each a chunk of every array."""
        chunks = self.specs[0].chunks
        if self.single or chunks is None:
            return False
        blocks = [box for boxes in self.puts for box in boxes]
        return all(
            a % c == 0 and n <= c for b in blocks for a, n, c in zip(b.offset, b.shape, chunks, strict=True)
        )


def sharded(layout: Layout) -> bool:
    """Whether blocks are gathered into shards: many small ones."""
    return layout.in_rows and layout.specs[0].block_bytes < 1 << 16


class Writer(Protocol):
    """One process's share of a store, open for writing."""

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        """Lay down a block; of arrays without steps the step is 0."""

    def end(self, step: int) -> None:
        """The step is complete: what was put can be found by others, durable if the layout says so."""

    def close(self) -> None:
        """Nothing more comes."""


class Reader(Protocol):
    """A store open for reading."""

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        """A box of an array; with steps `out` has an axis for them in front, which begins at step `first`.

        Gives `out`, filled, or another array where the engine has no way to fill one.
        """

    def close(self) -> None:
        """Nothing more is read."""


@dataclass
class Engine:
    """A way to store arrays."""

    name: str
    create: Any
    """`create(path, layout)`: what one process does before any writes."""
    writer: Any
    """`writer(path, layout, rank)` gives a Writer."""
    reader: Any
    """`reader(path, layout)` gives a Reader."""
    versions: str
    commit: Any = None
    """`commit(path, layout)`: what one process does when all ended a step; None where nothing."""
    shares: bool = True
    """Whether processes write one store (else a file per process)."""
    codecs: bool = True
    """Whether it can compress."""
    extras: dict[str, Any] = field(default_factory=dict)
    """What only some questions ask for: `write_records`, `read_member`."""


def load(name: str) -> Engine | None:
    """An engine; None if its package is not installed."""
    try:
        module = importlib.import_module(f"engines.{MODULES[name]}")
    except ImportError:
        return None
    engine: Engine = module.ENGINE
    return engine


def available() -> dict[str, Engine]:
    """The engines that are installed here."""
    found = {name: load(name) for name in MODULES}
    return {name: engine for name, engine in found.items() if engine is not None}


def sync_files(paths: Sequence[Path]) -> None:
    """Wait until files (and folders, for their names) are on the device: for engines that have no call for it."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
