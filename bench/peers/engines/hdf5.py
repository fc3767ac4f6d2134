"""HDF5 through h5py: the latest format, with the smallest metadata; a file per process (no parallel HDF5 in wheels).

Large blocks are contiguous datasets, one per step: the fastest that HDF5 writes and reads. Small steps grow one dataset
in chunks of 8 steps: with 1 it reads series ten times as slowly, with 64 it writes each step half as slowly again. Many
blocks are the chunks of one dataset, written by `write_direct_chunk`, which passes the chunk cache by. The file is
flushed at the end of a step, so that others can open it; `durable` is fsync on its own descriptor.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from grid import Box

from engines import Array, Engine, Layout, Spec

try:
    import hdf5plugin
except ImportError:  # only codecs need it
    hdf5plugin = None

SMALL = 1 << 14
"""Steps of fewer bytes grow one dataset."""
GATHERED = 8
"""Steps in a chunk of it."""


def _codec(layout: Layout) -> dict[str, Any]:
    if layout.codec is None:
        return {}
    return dict(hdf5plugin.Zstd(clevel=1)) | {"shuffle": True}


def create(path: Path, layout: Layout) -> None:
    """A folder of files."""
    path.mkdir(parents=True)


def local_box(layout: Layout, spec: Spec, rank: int) -> Box:
    """The part of an array that a rank's file holds: all of it where one process writes."""
    zero = (0,) * len(spec.shape)
    return layout.hulls[rank] if layout.ranks > 1 else Box(zero, spec.shape)  # type: ignore[arg-type]


def _grows(layout: Layout, spec: Spec) -> bool:
    return layout.steps > 0 and spec.block_bytes < SMALL


class Writer:
    """A file."""

    def __init__(self, path: Path, layout: Layout, rank: int) -> None:
        self.layout = layout
        self.file = h5py.File(path / f"{rank}.h5", "w", libver="latest")
        self.boxes = {spec.name: local_box(layout, spec, rank) for spec in layout.specs}
        self.datasets = {}
        for spec in layout.specs:
            box = self.boxes[spec.name]
            if _grows(layout, spec):
                self.datasets[spec.name] = self.file.create_dataset(
                    spec.name,
                    (0, *box.shape),
                    spec.dtype,
                    maxshape=(None, *box.shape),
                    chunks=(GATHERED, *spec.chunks),
                    **_codec(layout),
                )
            elif not layout.steps:
                cut: dict[str, Any] = {"chunks": spec.chunks or True}
                if layout.codec is None and (layout.single or spec.chunks == box.shape):
                    cut = {}
                self.datasets[spec.name] = self.file.create_dataset(
                    spec.name, box.shape, spec.dtype, **cut, **_codec(layout)
                )
        self.group: Any = None

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        if self.layout.steps and name not in self.datasets:
            if self.group is None:
                self.group = self.file.create_group(f"{step:06}")
            self.group.create_dataset(name, data=array)
            return
        dataset = self.datasets[name]
        place = [a - b for a, b in zip(offset, self.boxes[name].offset, strict=True)]
        slices = tuple(slice(a, a + n) for a, n in zip(place, array.shape, strict=True))
        if self.layout.steps:
            if len(dataset) <= step:
                dataset.resize(step + 1, 0)
            dataset[(step, *slices)] = array
        elif dataset.chunks == array.shape and self.layout.codec is None:
            dataset.id.write_direct_chunk(tuple(place), np.ascontiguousarray(array))
        else:
            dataset[slices] = array

    def end(self, step: int) -> None:
        self.group = None
        self.file.flush()
        if self.layout.durable:
            os.fsync(self.file.id.get_vfd_handle())

    def close(self) -> None:
        self.file.close()


class Reader:
    """The files that hold a part."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self.files: dict[int, h5py.File] = {}

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        layout, spec = self.layout, self.layout.spec(name)
        steps = layout.steps > 0
        wanted = Box(tuple(offset), out.shape[1:] if steps else out.shape)  # type: ignore[arg-type]
        for rank in range(layout.ranks):
            box = local_box(layout, spec, rank)
            common = box.common(wanted)
            if common is None:
                continue
            if rank not in self.files:
                self.files[rank] = h5py.File(self.path / f"{rank}.h5", "r")
            file, source, target = self.files[rank], common.within(box), common.within(wanted)
            if not steps:
                file[name].read_direct(out, source, target)
            elif _grows(layout, spec):
                part = slice(first, first + len(out))
                file[name].read_direct(out, (part, *source), (slice(None), *target))
            else:
                for i in range(len(out)):
                    file[f"{first + i:06}/{name}"].read_direct(out[i], source, target)
        return out

    def close(self) -> None:
        for file in self.files.values():
            file.close()


def write_records(path: Path, records: Array, durable: bool) -> None:
    """A compound dataset, as records lie in memory."""
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("p", data=records)
        file.flush()
        if durable:
            os.fsync(file.id.get_vfd_handle())


def read_member(path: Path, member: str, out: Array) -> Array:
    """HDF5 reads records and converts them to the one member."""
    with h5py.File(path, "r") as file:
        found: Array = file["p"].fields(member)[...]
    return found


ENGINE = Engine(
    "h5py",
    create,
    Writer,
    Reader,
    f"h5py {h5py.__version__} with HDF5 {h5py.version.hdf5_version}",
    shares=False,
    codecs=hdf5plugin is not None,
    extras={"write_records": write_records, "read_member": read_member},
)
