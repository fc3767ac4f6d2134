"""MPI-Tile-IO: every rank writes and reads its tile of one two-dimensional array of 8-byte values.

Question: what does it cost beside collective MPI-IO, which reorders the tiles' rows among ranks before it writes? The
bar: less than collective and than independent MPI-IO, from 512 x 512 to 4096 x 4096 per rank.

As in hpio.py, a write ends when the values are where durability demands them and any process can read them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import drystone as dry
import h5py
import numpy as np
from mpi4py import MPI
from ranks import (
    RANK,
    RANKS,
    URL,
    WORLD,
    all_agree,
    container_at,
    on_first,
    remove,
    same_bits,
    sync,
    together,
)

Array = np.ndarray[Any, Any]


class Case:
    """A grid of ranks with tiles of `edge` squared."""

    def __init__(self, folder: Path, edge: int, durable: bool) -> None:
        self.folder, self.edge, self.durable = folder, edge, durable
        rows, cols = MPI.Compute_dims(RANKS, 2)
        self.shape = (rows * edge, cols * edge)
        self.offset = (RANK // cols * edge, RANK % cols * edge)
        self.part = tuple(slice(o, o + edge) for o in self.offset)
        self.buffer = np.zeros((edge, edge))
        self.turn = 0

    def expected(self) -> Array:
        """This rank's tile after the turn's write."""
        i, j = (np.arange(o, o + self.edge, dtype="f8") for o in self.offset)
        values = np.add.outer(i * self.shape[1], j)
        values *= 3.0
        values += self.turn
        return values


class Mpi:
    """ROMIO through a view of the tile."""

    def __init__(self, case: Case, *, collective: bool) -> None:
        self.case, self.collective = case, collective
        self.path = case.folder / f"tiles-{collective}.bin"
        self.handle = MPI.File.Open(WORLD, str(self.path), MPI.MODE_RDWR | MPI.MODE_CREATE)
        tile = MPI.DOUBLE.Create_subarray(case.shape, (case.edge, case.edge), case.offset).Commit()
        self.handle.Set_view(0, MPI.DOUBLE, tile)

    def write(self) -> None:
        """Write what this rank holds."""
        (self.handle.Write_at_all if self.collective else self.handle.Write_at)(0, self.case.buffer)
        if self.case.durable:
            self.handle.Sync()
        WORLD.Barrier()

    def read(self) -> None:
        """Read what this rank is to hold."""
        (self.handle.Read_at_all if self.collective else self.handle.Read_at)(0, self.case.buffer)

    def close(self) -> None:
        """Let go and remove the file."""
        self.handle.Close()
        on_first(self.path.unlink)


class Mapped:
    """numpy.memmap."""

    def __init__(self, case: Case) -> None:
        self.case, self.path = case, case.folder / "tiles-mapped.bin"
        on_first(lambda: np.memmap(self.path, "f8", "w+", shape=case.shape).flush())
        self.map = np.memmap(self.path, "f8", "r+", shape=case.shape)

    def write(self) -> None:
        """Write what this rank holds."""
        self.map[self.case.part] = self.case.buffer
        if self.case.durable:
            sync(self.path)
        WORLD.Barrier()

    def read(self) -> None:
        """Read what this rank is to hold."""
        self.case.buffer[...] = self.map[self.case.part]

    def close(self) -> None:
        """Let go and remove the file."""
        del self.map
        on_first(self.path.unlink)


class Hdf:
    """h5py, one rank: this HDF5 is built without MPI."""

    def __init__(self, case: Case) -> None:
        self.case, self.path = case, case.folder / "tiles.h5"
        self.handle = h5py.File(self.path, "w")
        self.place = self.handle.create_dataset("u", case.shape, "f8")

    def write(self) -> None:
        """Write what this rank holds."""
        self.place.write_direct(self.case.buffer, dest_sel=self.case.part)
        self.handle.flush()
        if self.case.durable:
            sync(self.path)

    def read(self) -> None:
        """Read what this rank is to hold."""
        self.place.read_direct(self.case.buffer, source_sel=self.case.part)

    def close(self) -> None:
        """Let go and remove the file."""
        self.handle.close()
        self.path.unlink()


class Drystone:
    """Each rank its own log, rank 0 commits."""

    def __init__(self, case: Case) -> None:
        self.case, self.path = case, container_at(case.folder, "tiles.dry")
        if RANK == 0:
            with dry.create(
                self.path, durability="durable" if case.durable else "async", overwrite=True
            ) as c:
                c.create_variable("u", "f8", shape=case.shape, steps=True)
        WORLD.Barrier()
        self.container = dry.open(self.path, mode="r+")
        self.writer = self.container.writer(rank=RANK, nranks=RANKS)
        self.reader = dry.open(self.path)

    def write(self) -> None:
        """Write what this rank holds."""
        with self.writer.step(0):
            self.writer.put("u", self.case.buffer, offset=self.case.offset)
        if RANKS > 1:
            WORLD.Barrier()
            if RANK == 0:
                self.container.commit()
            WORLD.Barrier()

    def read(self) -> None:
        """Read what this rank is to hold."""
        self.reader["u"].read(
            step=0, offset=self.case.offset, count=self.case.buffer.shape, out=self.case.buffer
        )

    def close(self) -> None:
        """Let go and remove the file."""
        self.writer.close()
        self.container.close()
        self.reader.close()
        remove(self.path)


def run(case: Case, rounds: int) -> None:
    """All engines in turn: writes, then reads of what the last write left."""
    here: dict[str, Any] = {
        "MPI-IO independent": Mpi(case, collective=False),
        "MPI-IO collective": Mpi(case, collective=True),
    }
    if URL is None:
        here["NumPy memmap"] = Mapped(case)
    if URL is None and RANKS == 1:
        here["h5py"] = Hdf(case)
    here["drystone"] = Drystone(case)
    names = list(here)
    costs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for act in ("write", "read"):
        for turn in range(rounds + 1):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                case.turn = turn if act == "write" else rounds
                case.buffer[...] = case.expected() if act == "write" else -1
                if act == "read" and turn == 0 and name == "drystone":
                    here[name].reader.refresh()
                cost = together(getattr(here[name], act))
                if turn > 0:  # the first round warms up
                    costs.setdefault((act, name), []).append(cost)
                if act == "read":
                    all_agree(same_bits(case.buffer, case.expected()), f"{name}, {act}")
    for engine in here.values():
        engine.close()
    if RANK == 0:
        for (act, name), found in costs.items():
            where = {"bench": "tiles", "ranks": RANKS, "act": act, "edge": case.edge}
            size = {"bytes": case.shape[0] * case.shape[1] * 8, "durable": case.durable}
            print(json.dumps(where | size | {"engine": name, "costs": found}), flush=True)


def main() -> None:
    """Arguments: a folder, rounds, durable (0 or 1), edges of tiles."""
    folder, rounds, durable, *edges = sys.argv[1:]
    for edge in edges:
        run(Case(Path(folder), int(edge), durable == "1"), int(rounds))


if __name__ == "__main__":
    main()
