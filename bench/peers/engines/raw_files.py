"""Plain files by system calls from Python: a limit, not a rival. A file per process, blocks one after another.

It has no metadata, checksums, commits or names; its reader knows what lies where, and reads the shortest range that
holds the part it wants (whole neighbouring blocks in calls of up to a megabyte).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import raw
from grid import Box

from engines import Array, Engine, Layout

MIB = 1 << 20


def create(path: Path, layout: Layout) -> None:
    """A folder."""
    path.mkdir(parents=True)


class Writer:
    """One file, appended to."""

    def __init__(self, path: Path, layout: Layout, rank: int) -> None:
        self.descriptor = os.open(path / str(rank), os.O_WRONLY | os.O_CREAT, 0o644)
        self.durable = layout.durable

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        raw.write_all(self.descriptor, np.ascontiguousarray(array))

    def end(self, step: int) -> None:
        if self.durable:
            os.fsync(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)


class Reader:
    """All files that hold a part."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self.files: dict[int, int] = {}
        self.scratch = np.empty(0, "u1")

    def _file(self, rank: int) -> int:
        if rank not in self.files:
            self.files[rank] = os.open(self.path / str(rank), os.O_RDONLY)
        return self.files[rank]

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        layout = self.layout
        number = [spec.name for spec in layout.specs].index(name)
        item = out.itemsize
        steps = layout.steps > 0
        own = out.shape[1:] if steps else out.shape
        wanted = Box(tuple(offset), own)  # type: ignore[arg-type]
        for rank, boxes in enumerate(layout.puts):
            starts = np.array([b.offset for b in boxes])
            shapes = np.array([b.shape for b in boxes])
            cells = shapes.prod(axis=1)
            begin = np.concatenate([[0], np.cumsum(cells)]) * item
            meets = np.all((starts < np.add(offset, own)) & (starts + shapes > np.array(offset)), axis=1)
            hits = np.flatnonzero(meets)
            for step in range(len(out)) if steps else (0,):
                base = ((first + step) * len(layout.specs) + number) * int(begin[-1])
                self._blocks(rank, boxes, hits, base, begin, wanted, out[step] if steps else out)
        return out

    def _blocks(
        self, rank: int, boxes: Sequence[Box], hits: Array, base: int, begin: Array, wanted: Box, out: Array
    ) -> None:
        at, file = 0, self._file(rank) if len(hits) else -1
        while at < len(hits):
            first = int(hits[at])
            run = 1  # whole blocks that follow each other are one call
            whole = boxes[first].common(wanted) == boxes[first]
            while (
                whole
                and at + run < len(hits)
                and hits[at + run] == first + run
                and begin[first + run + 1] - begin[first] <= MIB
                and boxes[first + run].common(wanted) == boxes[first + run]
            ):
                run += 1
            length = int(begin[first + run] - begin[first])
            if len(self.scratch) < length:
                self.scratch = np.empty(length, "u1")
            if run == 1:
                box = boxes[first]
                common = box.common(wanted)
                assert common is not None
                target = out[common.within(wanted)]
                raw.read_part(
                    file, base + int(begin[first]), box.shape, common.within(box), target, self.scratch
                )
            else:
                piece = self.scratch[:length]
                raw.read_at(file, base + int(begin[first]), piece)
                for i in range(first, first + run):
                    part = piece[begin[i] - begin[first] : begin[i + 1] - begin[first]]
                    out[boxes[i].within(wanted)] = part.view(out.dtype).reshape(boxes[i].shape)
            at += run

    def close(self) -> None:
        for file in self.files.values():
            os.close(file)


def write_records(path: Path, records: Array, durable: bool) -> None:
    """The records as they lie in memory."""
    raw.write_file(path, [records.view("u1")], sync=durable)


def read_member(path: Path, member: str, out: Array) -> Array:
    """Everything is read, a piece at a time."""
    dtype = np.dtype(out.dtype.metadata["records"])  # type: ignore[index]
    piece = np.empty(MIB // dtype.itemsize, dtype)
    descriptor = os.open(path, os.O_RDONLY)
    for at in range(0, len(out), len(piece)):
        part = piece[: len(out) - at]
        raw.read_at(descriptor, at * dtype.itemsize, part.view("u1"))
        out[at : at + len(part)] = part[member]
    os.close(descriptor)
    return out


ENGINE = Engine(
    "raw",
    create,
    Writer,
    Reader,
    "plain files",
    shares=False,
    extras={"write_records": write_records, "read_member": read_member},
)
