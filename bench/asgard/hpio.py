"""HPIO: one value of every struct of a one-dimensional array, contiguous or not in memory and in the file.

Question: what does it cost to write or read one of the three 8-byte values of N structs, where memory holds only that
value (C) or whole structs (N), and where the file holds only that value (C) or whole structs (N)? The bar (ASGARD,
2017): for files of whole structs 10 times faster than collective MPI-IO in reading, 5 times in writing. Ranks share the
array in equal parts.

Every engine's write ends when the values are where durability demands them and any process can read them; opening is
outside. Run by run.py under mpiexec; rank 0 prints one line of JSON per figure.
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
STRUCT = np.dtype([("x", "f8"), ("y", "f8"), ("z", "f8")])
WANTED = "y"
WHOLE = "type S struct { x, y, z float64 }\ndataset { var s[%d] S steps }\n"
KEPT = "fragment kept default { var s[i:%d] = s[i] }\n"


class Case:
    """One size, one layout of memory and file."""

    def __init__(self, folder: Path, structs: int, memory: str, file: str, durable: bool) -> None:
        self.folder, self.structs, self.durable = folder, structs, durable
        self.memory, self.file = memory, file
        self.low, self.high = structs * RANK // RANKS, structs * (RANK + 1) // RANKS
        self.count = self.high - self.low
        self.buffer = np.zeros(self.count, STRUCT if memory == "n" else "f8")
        self.turn = 0

    def whole(self) -> Array:
        """What the file holds before."""
        array = np.zeros(self.structs, STRUCT)
        for k, name in enumerate("xyz"):
            array[name] = np.arange(self.structs) * 3.0 + k
        return array

    @property
    def values(self) -> Array:
        """This rank's values in memory, as a view."""
        return self.buffer[WANTED] if self.memory == "n" else self.buffer

    def expected(self) -> Array:
        """What this rank's values are after the turn's write."""
        return np.arange(self.low, self.high) * 3.0 + 1 + 7.0 * self.turn


class Mpi:
    """ROMIO, each rank by itself or all together."""

    def __init__(self, case: Case, *, collective: bool) -> None:
        self.case, self.collective = case, collective
        self.path = case.folder / f"mpi-{collective}.bin"
        whole = case.whole()
        on_first(lambda: (whole if case.file == "n" else whole[WANTED]).tofile(self.path))
        self.handle = MPI.File.Open(WORLD, str(self.path), MPI.MODE_RDWR)
        field = STRUCT.fields[WANTED][1]
        spread = MPI.DOUBLE.Create_resized(0, STRUCT.itemsize).Commit()
        if case.file == "n":
            self.handle.Set_view(case.low * STRUCT.itemsize + field, MPI.DOUBLE, spread)
        else:
            self.handle.Set_view(case.low * 8, MPI.DOUBLE, MPI.DOUBLE)
        if case.memory == "n":
            self.message = [case.buffer.view("u1")[field:], case.count, spread]
        else:
            self.message = [case.buffer, case.count, MPI.DOUBLE]

    def write(self) -> None:
        """Write what this rank holds."""
        (self.handle.Write_at_all if self.collective else self.handle.Write_at)(0, self.message)
        if self.case.durable:
            self.handle.Sync()
        WORLD.Barrier()

    def read(self) -> None:
        """Read what this rank is to hold."""
        (self.handle.Read_at_all if self.collective else self.handle.Read_at)(0, self.message)

    def stored(self) -> Array:
        """The values in the file, of all ranks."""
        array = np.fromfile(self.path, STRUCT if self.case.file == "n" else "f8")
        return array[WANTED] if self.case.file == "n" else array

    def close(self) -> None:
        """Let go and remove the file."""
        self.handle.Close()
        on_first(self.path.unlink)


class Mapped:
    """numpy.memmap."""

    def __init__(self, case: Case) -> None:
        self.case, self.path = case, case.folder / "mapped.bin"
        whole = case.whole()
        on_first(lambda: (whole if case.file == "n" else whole[WANTED]).tofile(self.path))
        self.map = np.memmap(self.path, STRUCT if case.file == "n" else "f8", "r+")

    def _place(self) -> Array:
        part = self.map[self.case.low : self.case.high]
        return part[WANTED] if self.case.file == "n" else part

    def write(self) -> None:
        """Write what this rank holds."""
        self._place()[...] = self.case.values
        if self.case.durable:
            sync(self.path)
        WORLD.Barrier()

    def read(self) -> None:
        """Read what this rank is to hold."""
        self.case.values[...] = self._place()

    def stored(self) -> Array:
        """The values in the file, of all ranks."""
        return np.array(self.map[WANTED] if self.case.file == "n" else self.map)

    def close(self) -> None:
        """Let go and remove the file."""
        del self.map
        on_first(self.path.unlink)


class Hdf:
    """h5py, one rank: this HDF5 is built without MPI."""

    def __init__(self, case: Case) -> None:
        self.case, self.path = case, case.folder / "h5.h5"
        whole = case.whole()
        with h5py.File(self.path, "w") as f:
            f["s"] = whole if case.file == "n" else whole[WANTED]
        self.handle = h5py.File(self.path, "r+")

    def write(self) -> None:
        """Write what this rank holds."""
        place = self.handle["s"]
        if self.case.file == "n":
            place[..., WANTED] = self.case.values
        else:
            place[...] = self.case.values
        self.handle.flush()
        if self.case.durable:
            sync(self.path)

    def read(self) -> None:
        """Read what this rank is to hold."""
        place = self.handle["s"]
        self.case.values[...] = place[WANTED] if self.case.file == "n" else place[...]

    def stored(self) -> Array:
        """The values in the file, of all ranks."""
        return self.handle["s"][WANTED] if self.case.file == "n" else self.handle["s"][...]

    def close(self) -> None:
        """Let go and remove the file."""
        self.handle.close()
        self.path.unlink()


class Drystone:
    """Each rank its own log, rank 0 commits. Members are columns, or the struct is stored whole."""

    def __init__(self, case: Case, *, whole: bool) -> None:
        self.case, self.path = case, container_at(case.folder, f"dry-{whole}.dry")
        self.field = WANTED if case.file == "n" else None
        if RANK == 0:
            with dry.create(
                self.path, durability="durable" if case.durable else "async", overwrite=True
            ) as c:
                if case.file == "n":
                    c.declare(WHOLE % case.structs + (KEPT % case.structs if whole else ""))
                else:
                    c.create_variable("s", "f8", shape=(case.structs,), steps=True)
        WORLD.Barrier()
        self.container = dry.open(self.path, mode="r+")
        self.writer = self.container.writer(rank=RANK, nranks=RANKS)
        values = case.whole()[case.low : case.high]
        self._put(values if case.file == "n" else values[WANTED], None)
        self.reader = dry.open(self.path)

    def _put(self, values: Array, field: str | None) -> None:
        with self.writer.step(0):
            self.writer.put("s", values, offset=(self.case.low,), field=field)
        if RANKS > 1:
            WORLD.Barrier()
            if RANK == 0:
                self.container.commit()
            WORLD.Barrier()

    def write(self) -> None:
        """Write what this rank holds."""
        self._put(self.case.values, self.field)

    def _variable(self) -> Any:
        return self.reader["s"][self.field] if self.field else self.reader["s"]

    def read(self) -> None:
        """Read what this rank is to hold."""
        self._variable().read(step=0, offset=(self.case.low,), count=(self.case.count,), out=self.case.values)

    def stored(self) -> Array:
        """The values in the file, of all ranks."""
        self.reader.refresh()
        return self._variable().read(step=0)

    def close(self) -> None:
        """Let go and remove the file."""
        self.writer.close()
        self.container.close()
        self.reader.close()
        remove(self.path)


def engines(case: Case) -> dict[str, Any]:
    """Every engine that can do the case."""
    made: dict[str, Any] = {
        "MPI-IO independent": Mpi(case, collective=False),
        "MPI-IO collective": Mpi(case, collective=True),
    }
    if URL is None:
        made["NumPy memmap"] = Mapped(case)
    if URL is None and RANKS == 1:
        made["h5py"] = Hdf(case)
    made["drystone, columns"] = Drystone(case, whole=False)
    if case.file == "n":
        made["drystone, struct whole"] = Drystone(case, whole=True)
    return made


def run(case: Case, rounds: int) -> None:
    """All engines in turn, reads first: what is read is what was there before any write, so structs lie whole."""
    here = engines(case)
    names = list(here)
    costs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for act in ("read", "write"):
        for turn in range(rounds + 1):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                case.turn = 0 if act == "read" else turn + 1
                case.buffer[...] = np.zeros((), case.buffer.dtype)
                if act == "write":
                    case.values[...] = case.expected()
                cost = together(getattr(here[name], act))
                if turn > 0:  # the first round warms up
                    costs.setdefault((act, name), []).append(cost)
                if act == "read":
                    all_agree(same_bits(np.array(case.values), case.expected()), f"{name}, {act}")
                elif turn == rounds:
                    found = here[name].stored()[case.low : case.high]
                    all_agree(same_bits(np.array(found), case.expected()), f"{name}, {act}")
    for engine in here.values():
        engine.close()
    if RANK == 0:
        for (act, name), found in costs.items():
            where = {"bench": "hpio", "ranks": RANKS, "act": act, "memory": case.memory, "file": case.file}
            size = {"bytes": case.structs * 8, "durable": case.durable}
            print(json.dumps(where | size | {"engine": name, "costs": found}), flush=True)


def main() -> None:
    """Arguments: a folder, rounds, durable (0 or 1), sizes in bytes of the wanted values."""
    folder, rounds, durable, *sizes = sys.argv[1:]
    for size in sizes:
        for memory in "cn":
            for file in "cn":
                run(Case(Path(folder), int(size) // 8, memory, file, durable == "1"), int(rounds))


if __name__ == "__main__":
    main()
