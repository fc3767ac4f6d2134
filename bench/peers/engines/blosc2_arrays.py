"""Blosc2's arrays: a file per process and array (it has no parallel writers), and per step where a step is large.

Contiguous frames, which it recommends for a single file; level 0 where no codec is measured; its own threads and block
shapes. Small steps grow one array by chunks of one step. It syncs nothing: `durable` is fsync by path.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import blosc2
import numpy as np
from grid import Box

from engines import Array, Engine, Layout, sync_files
from engines.hdf5 import SMALL, local_box


def create(path: Path, layout: Layout) -> None:
    """A folder per process."""
    for rank in range(layout.ranks):
        (path / str(rank)).mkdir(parents=True)


def _parameters(layout: Layout) -> dict[str, Any]:
    if layout.codec is None:
        return {"clevel": 0}
    return {"codec": blosc2.Codec.ZSTD, "clevel": 1, "filters": [blosc2.Filter.SHUFFLE]}


class Writer:
    """A folder of frames."""

    def __init__(self, path: Path, layout: Layout, rank: int) -> None:
        self.folder, self.layout = path / str(rank), layout
        self.boxes = {spec.name: local_box(layout, spec, rank) for spec in layout.specs}
        self.arrays: dict[str, Any] = {}
        for spec in layout.specs:
            grows = layout.steps > 0 and spec.block_bytes < SMALL
            if grows or (not layout.steps and not layout.single):
                shape, chunks = self.boxes[spec.name].shape, spec.chunks
                self.arrays[spec.name] = blosc2.empty(
                    (0, *shape) if grows else shape,
                    spec.dtype,
                    urlpath=str(self.folder / f"{spec.name}.b2nd"),
                    mode="w",
                    contiguous=True,
                    chunks=(1, *chunks) if grows else chunks,
                    blocks=(1, *chunks) if grows else chunks if layout.in_rows else None,
                    cparams=_parameters(layout),
                )
        self.made: list[Path] = []

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        if name not in self.arrays:
            number = f".{step}" if self.layout.steps else ""
            path = self.folder / f"{name}{number}.b2nd"
            blosc2.asarray(
                np.ascontiguousarray(array),
                urlpath=str(path),
                mode="w",
                contiguous=True,
                cparams=_parameters(self.layout),
                chunks=tuple(
                    min(c, n) for c, n in zip(self.layout.spec(name).chunks, array.shape, strict=True)
                ),
            )
            self.made.append(path)
            return
        target = self.arrays[name]
        place = [a - b for a, b in zip(offset, self.boxes[name].offset, strict=True)]
        slices = tuple(slice(a, a + n) for a, n in zip(place, array.shape, strict=True))
        if self.layout.steps:
            if target.shape[0] <= step:
                target.resize((step + 1, *target.shape[1:]))
            target[(slice(step, step + 1), *slices)] = array[None]
        else:
            target[slices] = array

    def end(self, step: int) -> None:
        if self.layout.durable:
            grown = [self.folder / f"{name}.b2nd" for name in self.arrays]
            sync_files([*self.made, *grown, *([self.folder] if self.made else [])])
        self.made.clear()

    def close(self) -> None:
        self.arrays.clear()


class Reader:
    """The frames that hold a part."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self.arrays: dict[Path, Any] = {}

    def _open(self, path: Path) -> Any:
        if path not in self.arrays:
            self.arrays[path] = blosc2.open(str(path), mode="r")
        return self.arrays[path]

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        layout, spec = self.layout, self.layout.spec(name)
        steps = layout.steps > 0
        wanted = Box(tuple(offset), out.shape[1:] if steps else out.shape)  # type: ignore[arg-type]
        for rank in range(layout.ranks):
            box = local_box(layout, spec, rank)
            common = box.common(wanted)
            if common is None:
                continue
            source, target = common.within(box), common.within(wanted)
            folder = self.path / str(rank)
            if steps and spec.block_bytes >= SMALL:
                for i in range(len(out)):
                    array = self._open(folder / f"{name}.{first + i}.b2nd")
                    out[i][target] = array[source]
                continue
            array = self._open(folder / f"{name}.b2nd")
            found: Array = array[(slice(first, first + len(out)), *source) if steps else source]
            if common == wanted:
                return found
            out[(slice(None),) * steps + target] = found
        return out

    def close(self) -> None:
        pass


def write_records(path: Path, records: Array, durable: bool) -> None:
    """An array per member: of an array of records one member is read with the others."""
    path.mkdir()
    for name in records.dtype.names or ():
        blosc2.asarray(np.ascontiguousarray(records[name]), urlpath=str(path / f"{name}.b2nd"), mode="w",
                       contiguous=True, cparams={"clevel": 0})  # fmt: skip
    if durable:
        sync_files([*path.iterdir(), path])


def read_member(path: Path, member: str, out: Array) -> Array:
    """One array."""
    found: Array = blosc2.open(str(path / f"{member}.b2nd"), mode="r")[:]
    return found


ENGINE = Engine(
    "blosc2",
    create,
    Writer,
    Reader,
    f"Blosc2 {blosc2.__version__}",
    shares=False,
    extras={"write_records": write_records, "read_member": read_member},
)
