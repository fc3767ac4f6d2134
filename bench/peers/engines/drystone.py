"""Drystone with defaults: one container; rank 0's commit makes a step visible, a single writer commits itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import drystone as dry
import numpy as np

from engines import Array, Engine, Layout

CODECS = {None: None, "zstd": "shuffle,zstd:1"}

_OPEN: dict[Path, dry.Container] = {}


def create(path: Path, layout: Layout) -> None:
    """A container with its variables."""
    _OPEN.pop(path, None)  # of an earlier one at this place
    with dry.create(path, "durable" if layout.durable else "async") as container, container.batch():
        for spec in layout.specs:
            container.create_variable(
                spec.name, spec.dtype, spec.shape, steps=layout.steps > 0, transform=CODECS[layout.codec]
            )


class Writer:
    """A log of its own."""

    def __init__(self, path: Path, layout: Layout, rank: int) -> None:
        self.container = dry.open(path, "r+")
        self.steps = layout.steps > 0
        ranks = {"rank": rank, "nranks": layout.ranks} if self.steps or layout.ranks > 1 else {}
        self.writer = self.container.writer(**ranks)
        self.step = None

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        if self.steps and self.step is None:
            self.step = self.writer.step(step)
            self.step.__enter__()
        self.writer.put(name, array, offset=offset)

    def end(self, step: int) -> None:
        if self.step is not None:
            self.step.__exit__(None, None, None)
            self.step = None
        else:
            self.writer.close()

    def close(self) -> None:
        with suppress(dry.DrystoneError):
            self.writer.close()
        self.container.close()


def commit(path: Path, layout: Layout) -> None:
    """By the process that made it: it keeps the container open, as rank 0 does."""
    if layout.ranks > 1:
        if path not in _OPEN:
            _OPEN.clear()
            _OPEN[path] = dry.open(path, "r+")
        _OPEN[path].commit()


class Reader:
    """A container."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.container = dry.open(path)
        self.steps = layout.steps > 0

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        variable = self.container[name]
        if not self.steps:
            return variable.read(None, offset, out.shape, out=out)
        if len(out) == 1:
            variable.read(first, offset, out.shape[1:], out=out[0])
            return out
        box = tuple(slice(a, a + n) for a, n in zip(offset, out.shape[1:], strict=True))
        return np.asarray(variable[(slice(first, first + len(out)), *box)])

    def close(self) -> None:
        self.container.close()


def write_records(path: Path, records: Array, durable: bool) -> None:
    """A variable of records: members are stored apart."""
    with dry.create(path, "durable" if durable else "async") as container:
        container.create_variable("p", records.dtype, records.shape)
        with container.writer() as writer:
            writer.put("p", records)


def read_member(path: Path, member: str, out: Array) -> Array:
    """One member of all records."""
    with dry.open(path) as container:
        return container["p"][member].read(out=out)


ENGINE = Engine(
    "drystone",
    create,
    Writer,
    Reader,
    f"Drystone {dry.__version__}",
    commit,
    extras={"write_records": write_records, "read_member": read_member},
)
