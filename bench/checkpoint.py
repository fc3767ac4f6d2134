"""What does a checkpoint cost? 8 variables of doubles by 1, 2, 4 and 8 processes, 256 KiB and 16 MiB each per process.

The bars: within 15 % of raw files, where every process appends to a file of its own and syncs it (durable) or not
(async); and blocks cut by the model within 10 % of blocks left whole (`layout="log"`), which are what a plain log
costs.

Everything is open, as in a simulation that runs: each engine writes one more checkpoint per round into what it has
open. Timed is from the first process that begins to the last that is done, for Drystone to the end of the commit by the
parent. Every checkpoint is read back and compared, then brought to the device and forgotten, before the next engine
acts.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import drystone as dry
import h5py
import raw
from grid import CUTS, Box, boxes, values
from measure import CHECKED, Cost, Figure, Settings, alternate, discard, settle, size_of, touched
from report import Table
from team import Team

VARIABLES = [f"v{i}" for i in range(8)]
WHOLE = "drystone, whole blocks"
LAYOUTS = {"drystone": "model", WHOLE: "log"}
ENGINES = ("raw", *LAYOUTS, "h5py")


class Member:
    """One process of the simulation, with its part of every variable."""

    def __init__(self, rank: int, count: int, folder: Path, edge: int, durable: bool) -> None:
        self.rank, self.count, self.durable = rank, count, durable
        cuts = CUTS[count]
        grid = (edge * cuts[0], edge * cuts[1], edge * cuts[2])
        self.box: Box = boxes(grid, cuts)[rank]
        base = values(self.box, grid)
        self.arrays = [base + (i << 40) for i in range(len(VARIABLES))]
        self.found = touched(base.shape, base.dtype)
        self.folder = folder
        self.paths = {"raw": folder / f"raw.{rank}", "h5py": folder / f"h5.{rank}"}
        self.raw = os.open(self.paths["raw"], os.O_WRONLY | os.O_CREAT, 0o644)
        # Metadata of a checkpoint: 8 contiguous datasets. The latest format has the smallest.
        self.h5 = h5py.File(self.paths["h5py"], "w", libver="latest")
        self.containers = {name: dry.open(folder / f"{layout}.dry", "r+") for name, layout in LAYOUTS.items()}
        self.writers = {
            name: container.writer(rank=rank, nranks=count, layout=LAYOUTS[name])
            for name, container in self.containers.items()
        }

    def stamp(self, step: int) -> None:
        """Make the values of this checkpoint unlike those of any other."""
        for array in self.arrays:
            array[0, 0, 0] = -1 - step

    def write(self, engine: str, step: int) -> None:
        """Write one checkpoint."""
        if engine in LAYOUTS:
            self._drystone(self.writers[engine], step)
        else:
            getattr(self, f"_{engine}")(step)

    def _drystone(self, writer: dry.Writer, step: int) -> None:
        with writer.step(step):
            for name, array in zip(VARIABLES, self.arrays, strict=True):
                writer.put(name, array, offset=self.box.offset)

    def _raw(self, step: int) -> None:
        for array in self.arrays:
            raw.write_all(self.raw, array)
        if self.durable:
            os.fsync(self.raw)

    def _h5py(self, step: int) -> None:
        group = self.h5.create_group(f"{step:06}")
        for name, array in zip(VARIABLES, self.arrays, strict=True):
            group.create_dataset(name, data=array)
        self.h5.flush()
        if self.durable:
            os.fsync(self.h5.id.get_vfd_handle())

    def check(self, engine: str, step: int) -> int:
        """Compare what is stored with what was written; how many values that were."""
        before = CHECKED.values
        if engine == "raw":
            with self.paths["raw"].open("rb") as file:
                file.seek(step * sum(array.nbytes for array in self.arrays))
                for array in self.arrays:
                    file.readinto(self.found.data)
                    CHECKED.same(engine, self.found, array)
        elif engine == "h5py":
            for name, array in zip(VARIABLES, self.arrays, strict=True):
                self.h5[f"{step:06}/{name}"].read_direct(self.found)
                CHECKED.same(engine, self.found, array)
        else:
            with dry.open(self.folder / f"{LAYOUTS[engine]}.dry") as container:
                for name, array in zip(VARIABLES, self.arrays, strict=True):
                    container[name].read(step, self.box.offset, self.box.shape, out=self.found)
                    CHECKED.same(engine, self.found, array)
        return CHECKED.values - before

    def close(self) -> None:
        """End the run."""
        os.close(self.raw)
        self.h5.close()
        for writer in self.writers.values():
            writer.close()
        for container in self.containers.values():
            container.close()


def run(settings: Settings) -> list[Table]:
    """One table per size."""
    counts = (1, 2) if settings.quick else (1, 2, 4, 8)
    edges = (16,) if settings.quick else (32, 128)
    tables = []
    for edge in edges:
        size = edge**3 * 8
        table = Table(
            f"Checkpoint: 8 variables, {size >> 10 if size < 1 << 20 else size >> 20} "
            f"{'KiB' if size < 1 << 20 else 'MiB'} per process and variable",
            baseline="raw",
        )
        for durable in (True, False):
            for count in counts:
                _case(settings, table, count, edge, durable)
        tables.append(table)
    return tables


def _case(settings: Settings, table: Table, count: int, edge: int, durable: bool) -> None:
    durability = "durable" if durable else "async"
    case = f"{count} process{'es' if count > 1 else ''}, {durability}"
    settings.say(f"checkpoint of {edge}^3 doubles: {case}")
    folder = settings.folder / "checkpoint"
    folder.mkdir(parents=True)
    with ExitStack() as held:
        containers = {}
        for name, layout in LAYOUTS.items():
            container = held.enter_context(dry.create(folder / f"{layout}.dry", durability))
            with container.batch():
                for variable in VARIABLES:
                    shape = tuple(edge * n for n in CUTS[count])
                    container.create_variable(variable, "f8", shape, steps=True, dims=("z", "y", "x"))
            containers[name] = container
        with Team(count, Member, folder, edge, durable) as team:
            found, written = _rounds(settings, team, containers, folder, edge)
    table.add(case, found, bytes_each=count * len(VARIABLES) * edge**3 * 8, writes=True)
    files = {"raw": "raw.*", "h5py": "h5.*", **{name: f"{layout}.dry" for name, layout in LAYOUTS.items()}}
    for engine, files_of_it in files.items():
        table.stored(case, engine, sum(size_of(p) for p in folder.glob(files_of_it)) / written)
    discard(folder)


def _rounds(
    settings: Settings, team: Team, containers: dict[str, dry.Container], folder: Path, edge: int
) -> tuple[dict[str, Figure], int]:
    """What the engines took, and how many checkpoints each wrote."""
    steps = dict.fromkeys(ENGINES, -1)

    def act(engine: str) -> Cost:
        steps[engine] += 1
        step = steps[engine]
        team.call("stamp", step)
        after = containers[engine].commit if engine in containers else None
        cost = team.timed("write", engine, step, after=after)
        for checked in team.call("check", engine, step):
            CHECKED.count(engine, checked)
        settle([folder], forget=True)
        return cost

    rounds = settings.rounds(5 if edge > 64 else 11)
    found = alternate({engine: partial(act, engine) for engine in ENGINES}, rounds, warm_up=edge <= 64)
    team.call("close")
    return found, steps["raw"] + 1
