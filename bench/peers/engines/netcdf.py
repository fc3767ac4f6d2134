"""netCDF-4 through netCDF4: a file per process; contiguous storage; no filling, no masks, no scaling.

Dimensions have fixed lengths: an unlimited one, which is chunked, took four times as long. So the number of steps is
known ahead. Many blocks and codecs are chunks. `sync` at the end of a step; `durable` is fsync by path.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import netCDF4
from grid import Box

from engines import Array, Engine, Layout, sync_files
from engines.hdf5 import GATHERED, SMALL, local_box


def create(path: Path, layout: Layout) -> None:
    """A folder of files."""
    path.mkdir(parents=True)


class Writer:
    """A file."""

    def __init__(self, path: Path, layout: Layout, rank: int) -> None:
        self.layout = layout
        self.path = path / f"{rank}.nc"
        self.file = netCDF4.Dataset(self.path, "w")
        self.file.set_fill_off()
        if layout.steps:
            self.file.createDimension("step", layout.steps)
        self.boxes = {spec.name: local_box(layout, spec, rank) for spec in layout.specs}
        self.variables: dict[str, Any] = {}
        for spec in layout.specs:
            dims = ["step"] if layout.steps else []
            for n in self.boxes[spec.name].shape:
                name = f"n{n}.{len(dims)}"
                if name not in self.file.dimensions:
                    self.file.createDimension(name, n)
                dims.append(name)
            chunked = layout.codec is not None or not layout.single
            how: dict[str, Any] = {"contiguous": not chunked}
            if chunked:
                # Small steps are gathered in chunks, as for HDF5.
                front = (GATHERED if spec.block_bytes < SMALL else 1,) if layout.steps else ()
                how = {"chunksizes": (*front, *spec.chunks)}
            if layout.codec:
                how |= {"compression": "zstd", "complevel": 1, "shuffle": True}
            variable = self.file.createVariable(spec.name, spec.dtype, dims, fill_value=False, **how)
            variable.set_auto_maskandscale(False)
            self.variables[spec.name] = variable
        self.file.sync()

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        place = [a - b for a, b in zip(offset, self.boxes[name].offset, strict=True)]
        slices = tuple(slice(a, a + n) for a, n in zip(place, array.shape, strict=True))
        self.variables[name][(step, *slices) if self.layout.steps else slices] = array

    def end(self, step: int) -> None:
        self.file.sync()
        if self.layout.durable:
            sync_files([self.path])

    def close(self) -> None:
        self.file.close()


class Reader:
    """The files that hold a part."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self.files: dict[int, netCDF4.Dataset] = {}

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        layout, spec = self.layout, self.layout.spec(name)
        steps = layout.steps > 0
        wanted = Box(tuple(offset), out.shape[1:] if steps else out.shape)  # type: ignore[arg-type]
        front = (slice(first, first + len(out)),) if steps else ()
        for rank in range(layout.ranks):
            box = local_box(layout, spec, rank)
            common = box.common(wanted)
            if common is None:
                continue
            if rank not in self.files:
                self.files[rank] = netCDF4.Dataset(self.path / f"{rank}.nc")
                self.files[rank].set_auto_maskandscale(False)
            found: Array = self.files[rank].variables[name][(*front, *common.within(box))]
            if common == wanted:
                return found
            out[(slice(None),) * steps + common.within(wanted)] = found
        return out

    def close(self) -> None:
        for file in self.files.values():
            file.close()


def write_records(path: Path, records: Array, durable: bool) -> None:
    """A variable per member, as netCDF's users have it: compound types are read as a whole."""
    with netCDF4.Dataset(path, "w") as file:
        file.set_fill_off()
        file.createDimension("n", len(records))
        for member in records.dtype.names:
            variable = file.createVariable(
                member, records.dtype[member], ("n",), contiguous=True, fill_value=False
            )
            variable[:] = records[member]
        file.sync()
    if durable:
        sync_files([path])


def read_member(path: Path, member: str, out: Array) -> Array:
    """One variable."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        found: Array = file.variables[member][:]
    return found


ENGINE = Engine(
    "netCDF4",
    create,
    Writer,
    Reader,
    f"netCDF4 {netCDF4.__version__} with netCDF {netCDF4.__netcdf4libversion__}",
    shares=False,
    extras={"write_records": write_records, "read_member": read_member},
)
