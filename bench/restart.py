"""What does a restart cost? 8 variables, written by 4 and by 8 processes, read by the same, half and 5/4 the processes.

The bar: a full read within 15 % of raw. Raw files lie one per writer; a reader takes from each the shortest range that
holds its part, straight into its buffers where the bytes are the same. h5py reads hyperslabs of a file per writer.

5 readers cut the first axis in 5, 10 readers also the second in 2: boxes that no writer had. Timed is from the first
process that opens to the last that has its 8 variables in buffers touched before, and has closed. *Cold*: all files
were brought to the device and forgotten just before.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import drystone as dry
import h5py
import raw
from checkpoint import VARIABLES
from grid import CUTS, Triple, boxes, values
from measure import CHECKED, Cost, Settings, alternate, discard, make_cold, settle, touched
from report import Table
from team import Team

ENGINES = ("raw", "drystone", "h5py")


class Reader:
    """One process of the restarted simulation."""

    def __init__(self, rank: int, count: int, folder: Path, grid: Triple, writers: int) -> None:
        self.folder = folder
        self.box = boxes(grid, CUTS[count])[rank]
        self.parts = [
            (i, box, common)
            for i, box in enumerate(boxes(grid, CUTS[writers]))
            if (common := self.box.common(box)) is not None
        ]
        self.expected = values(self.box, grid)
        self.arrays = [touched(self.box.shape, "f8") for _ in VARIABLES]
        largest = max(box.shape for _, box, _ in self.parts)
        self.scratch = touched(largest, "f8")

    def clear(self) -> None:
        """So that only what is read now can be found."""
        for array in self.arrays:
            array.fill(-1)

    def read(self, engine: str) -> None:
        """Fill the arrays."""
        getattr(self, f"_{engine}")()

    def _drystone(self) -> None:
        with dry.open(self.folder / "drystone") as container:
            for name, array in zip(VARIABLES, self.arrays, strict=True):
                container[name].read(0, self.box.offset, self.box.shape, out=array)

    def _raw(self) -> None:
        for i, box, common in self.parts:
            descriptor = os.open(self.folder / "raw" / str(i), os.O_RDONLY)
            offset, (z, y, x) = 0, box.shape
            for array in self.arrays:
                out = array[common.within(self.box)]
                raw.read_part(descriptor, offset, box.shape, common.within(box), out, self.scratch)
                offset += z * y * x * 8
            os.close(descriptor)

    def _h5py(self) -> None:
        for i, box, common in self.parts:
            with h5py.File(self.folder / "h5py" / str(i), "r") as file:
                for name, array in zip(VARIABLES, self.arrays, strict=True):
                    file[name].read_direct(array, common.within(box), common.within(self.box))

    def check(self, engine: str) -> int:
        """Compare what was read; how many values that were."""
        before = CHECKED.values
        for i, array in enumerate(self.arrays):
            CHECKED.same(engine, array, self.expected + (i << 40))
        return CHECKED.values - before


def run(settings: Settings) -> list[Table]:
    """One table per size."""
    tables = []
    for edge in (16,) if settings.quick else (32, 128):
        size = edge**3 * 8
        shown = f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"
        table = Table(f"Restart: 8 variables, {shown} per writer and variable", baseline="raw")
        for writers in (4,) if settings.quick else (4, 8):
            _written_by(settings, table, writers, edge)
        tables.append(table)
    return tables


def _written_by(settings: Settings, table: Table, writers: int, edge: int) -> None:
    folder = settings.folder / "restart"
    z, y, x = CUTS[writers]
    grid = (edge * z, edge * y, edge * x)
    settings.say(f"restart from {writers} writers of {edge}^3 doubles: write")
    _write(folder, grid, writers)
    for readers in (writers, writers // 2, writers * 5 // 4):
        with Team(readers, Reader, folder, grid, writers) as team:
            for cold in (False, True):
                case = f"{writers} wrote, {readers} read, {'cold' if cold else 'warm'}"
                settings.say(f"restart of {edge}^3 doubles: {case}")
                rounds = settings.rounds(5 if edge > 64 else 11)
                acts = {engine: partial(_act, settings, team, folder, engine, cold) for engine in ENGINES}
                found = alternate(acts, rounds, warm_up=not cold)
                table.add(case, found, bytes_each=writers * len(VARIABLES) * edge**3 * 8, writes=False)
    discard(folder)


def _act(settings: Settings, team: Team, folder: Path, engine: str, cold: bool) -> Cost:
    if cold:
        make_cold(folder / engine, settings)
    team.call("clear")
    cost = team.timed("read", engine)
    for checked in team.call("check", engine):
        CHECKED.count(engine, checked)
    return cost


def _write(folder: Path, grid: Triple, writers: int) -> None:
    """The same checkpoint, thrice."""
    for engine in ("raw", "h5py"):
        (folder / engine).mkdir(parents=True)
    with dry.create(folder / "drystone") as container:
        with container.batch():
            for name in VARIABLES:
                container.create_variable(name, "f8", grid, steps=True, dims=("z", "y", "x"))
        for rank, box in enumerate(boxes(grid, CUTS[writers])):
            base = values(box, grid)
            arrays = [base + (i << 40) for i in range(len(VARIABLES))]
            raw.write_file(folder / "raw" / str(rank), arrays, sync=True)
            with h5py.File(folder / "h5py" / str(rank), "w", libver="latest") as file:
                for name, array in zip(VARIABLES, arrays, strict=True):
                    file.create_dataset(name, data=array)
            with container.writer(rank=rank, nranks=writers) as writer, writer.step(0):
                for name, array in zip(VARIABLES, arrays, strict=True):
                    writer.put(name, array, offset=box.offset)
        container.commit()
    settle([folder], forget=False)
