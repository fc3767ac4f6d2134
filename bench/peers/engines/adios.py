"""ADIOS2 with its newest engine, BP5, by the low-level calls: a folder per process, since its wheels have no MPI.

Every process's file has the global shapes and holds its own blocks. Puts are deferred (its default, and without a copy
for large blocks). Its wheels are built without lossless codecs. A step ends as BP5 ends it: data and metadata written,
`durable` is fsync by path.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import adios2
import numpy as np
from grid import Box

from engines import Array, Engine, Layout, sync_files

Mode = adios2.bindings.Mode


def create(path: Path, layout: Layout) -> None:
    """A folder of folders."""
    path.mkdir(parents=True)


class Writer:
    """A BP5 file."""

    def __init__(self, path: Path, layout: Layout, rank: int) -> None:
        self.layout = layout
        self.path = path / f"{rank}.bp"
        self.adios = adios2.Adios()
        self.io = self.adios.declare_io("out")
        self.io.set_engine("BP5")
        box = layout.puts[rank][0]
        self.variables: dict[str, Any] = {}
        for spec in layout.specs:
            example = np.empty(0, spec.dtype)
            variable = self.io.define_variable(
                spec.name, example, list(spec.shape), list(box.offset), list(box.shape), False
            )
            self.variables[spec.name] = variable
        self.engine = self.io.open(str(self.path), Mode.Write)
        self.begun = False
        self.held: list[Array] = []

    def put(self, step: int, name: str, offset: Sequence[int], array: Array) -> None:
        if not self.begun:
            self.engine.begin_step()
            self.begun = True
        variable = self.variables[name]
        variable.set_selection([list(offset), list(array.shape)])
        array = np.ascontiguousarray(array)
        self.held.append(array)  # deferred: it is read at the end of the step
        self.engine.put(variable, array)

    def end(self, step: int) -> None:
        self.engine.end_step()
        self.begun = False
        self.held.clear()
        if self.layout.durable:
            sync_files([f for f in self.path.iterdir() if f.name != "profiling.json"])

    def close(self) -> None:
        self.engine.close()


class Reader:
    """The files that hold a part, open for random access."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self.adios = adios2.Adios()
        self.files: dict[int, tuple[Any, Any]] = {}

    def _file(self, rank: int) -> tuple[Any, Any]:
        if rank not in self.files:
            io = self.adios.declare_io(f"in{rank}")
            io.set_engine("BP5")
            self.files[rank] = io, io.open(str(self.path / f"{rank}.bp"), Mode.ReadRandomAccess)
        return self.files[rank]

    def read(self, name: str, first: int, offset: Sequence[int], out: Array) -> Array:
        layout = self.layout
        steps = layout.steps > 0
        wanted = Box(tuple(offset), out.shape[1:] if steps else out.shape)  # type: ignore[arg-type]
        for rank, hull in enumerate(layout.hulls):
            common = hull.common(wanted) if layout.ranks > 1 else wanted
            if common is None:
                continue
            io, engine = self._file(rank)
            variable = io.inquire_variable(name)
            if variable is None:
                raise KeyError(name)
            if steps:
                variable.set_step_selection([first, len(out)])
            variable.set_selection([list(common.offset), list(common.shape)])
            if common == wanted:
                engine.get(variable, out, Mode.Sync)
            else:
                found = np.empty(((len(out),) if steps else ()) + common.shape, out.dtype)
                engine.get(variable, found, Mode.Sync)
                out[(slice(None),) * steps + common.within(wanted)] = found
        return out

    def close(self) -> None:
        for _, engine in self.files.values():
            engine.close()


def _members(path: Path, names: dict[str, np.dtype[Any]], count: int, durable: bool) -> Layout:
    from engines import Spec

    specs = tuple(Spec(name, (count,), dtype.str, (count,)) for name, dtype in names.items())
    return Layout(specs, ((Box((0,), (count,)),),), 0, durable)  # type: ignore[arg-type]


def write_records(path: Path, records: Array, durable: bool) -> None:
    """A variable per member."""
    names = {name: records.dtype[name] for name in records.dtype.names or ()}
    layout = _members(path, names, len(records), durable)
    create(path, layout)
    writer = Writer(path, layout, 0)
    for name in names:
        writer.put(0, name, (0,), records[name])
    writer.end(0)
    writer.close()


def read_member(path: Path, member: str, out: Array) -> Array:
    """One variable."""
    reader = Reader(path, _members(path, {member: out.dtype}, len(out), False))
    found = reader.read(member, 0, (0,), out)
    reader.close()
    return found


ENGINE = Engine(
    "ADIOS2",
    create,
    Writer,
    Reader,
    f"ADIOS2 {adios2.__version__} (BP5)",
    shares=False,
    codecs=False,
    extras={"write_records": write_records, "read_member": read_member},
)
