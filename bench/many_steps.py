"""What do many steps cost? 2,000 steps of 10 variables of 32^2 floats, every step committed as it is left.

The bar: opening under 10 ms; a point's series and one step without reading the rest.

Raw: the 10 arrays of each step appended to one open file by one call, no sync, which the reader must know. h5py: 10
datasets that grow along the first axis, chunks of 64 steps (256 KiB), flushed every step so that it is in the file as
ours is. Everything but opening includes opening and closing.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import drystone as dry
import h5py
import numpy as np
import raw
from measure import CHECKED, Cost, Settings, alternate, discard, make_cold, measured, settle, size_of, touched
from report import Table

EDGE = 32
NAMES = [f"v{i}" for i in range(10)]
ENGINES = ("raw", "drystone", "h5py")
BLOCK = EDGE * EDGE * 4


class Data:
    """All values of all steps."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder, self.steps = folder, steps
        cells = np.arange(steps * len(NAMES) * EDGE * EDGE, dtype="i8") * 2654435761 >> 8 & 0xFFFFFF
        self.values = cells.astype("f4").reshape(steps, len(NAMES), EDGE, EDGE)

    def path(self, engine: str) -> Path:
        """Where an engine's data is."""
        return self.folder / engine

    def write(self, engine: str) -> None:
        """Write and close; the making of the variables is in it."""
        getattr(self, f"_write_{engine}")(self.path(engine))

    def _write_raw(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for step in self.values:
            os.writev(descriptor, [block.data for block in step])
        os.close(descriptor)

    def _write_drystone(self, path: Path) -> None:
        with dry.create(path) as container:
            with container.batch():
                for name in NAMES:
                    container.create_variable(name, "f4", (EDGE, EDGE), steps=True)
            with container.writer(rank=0, nranks=1) as writer:
                for step in self.values:
                    with writer.step():
                        for name, block in zip(NAMES, step, strict=True):
                            writer.put(name, block)

    def _write_h5py(self, path: Path) -> None:
        with h5py.File(path, "w", libver="latest") as file:
            datasets = [
                file.create_dataset(
                    name, (0, EDGE, EDGE), "f4", maxshape=(None, EDGE, EDGE), chunks=(64, EDGE, EDGE)
                )
                for name in NAMES
            ]
            for number, step in enumerate(self.values):
                for dataset, block in zip(datasets, step, strict=True):
                    dataset.resize(number + 1, 0)
                    dataset[number] = block
                file.flush()

    def open(self, engine: str) -> None:
        """Open, to where reading can begin, and close."""
        path = self.path(engine)
        if engine == "raw":
            os.close(os.open(path, os.O_RDONLY))
        elif engine == "h5py":
            with h5py.File(path, "r") as file:
                _ = file[NAMES[3]].shape
        else:
            with dry.open(path) as container:
                _ = container[NAMES[3]].shape

    def series(self, engine: str) -> raw.Array:
        """One point of one variable over all steps."""
        path = self.path(engine)
        if engine == "raw":
            out = np.empty(self.steps, "f4")
            descriptor = os.open(path, os.O_RDONLY)
            for step in range(self.steps):
                os.preadv(
                    descriptor,
                    [out[step : step + 1].view("u1").data],
                    (step * 10 + 3) * BLOCK + (5 * EDGE + 7) * 4,
                )
            os.close(descriptor)
            return out
        if engine == "h5py":
            with h5py.File(path, "r") as file:
                return np.asarray(file[NAMES[3]][:, 5, 7])
        with dry.open(path) as container:
            return np.asarray(container[NAMES[3]][:, 5, 7])

    def last(self, engine: str) -> raw.Array:
        """All variables of the last step."""
        out = np.empty((len(NAMES), EDGE, EDGE), "f4")
        path = self.path(engine)
        if engine == "raw":
            descriptor = os.open(path, os.O_RDONLY)
            raw.read_at(descriptor, (self.steps - 1) * 10 * BLOCK, out)
            os.close(descriptor)
        elif engine == "h5py":
            with h5py.File(path, "r") as file:
                for name, array in zip(NAMES, out, strict=True):
                    file[name].read_direct(array, (-1,))
        else:
            with dry.open(path) as container:
                for name, array in zip(NAMES, out, strict=True):
                    container[name].read(self.steps - 1, out=array)
        return out

    def whole(self, engine: str) -> raw.Array:
        """All steps of one variable."""
        path = self.path(engine)
        out = np.empty((self.steps, EDGE, EDGE), "f4")
        if engine == "raw":
            descriptor = os.open(path, os.O_RDONLY)
            piece = np.empty((25, len(NAMES), EDGE, EDGE), "f4")
            for step in range(0, self.steps, 25):  # a megabyte at a time
                part = piece[: self.steps - step]
                raw.read_at(descriptor, step * 10 * BLOCK, part)
                out[step : step + 25] = part[:, 3]
            os.close(descriptor)
        elif engine == "h5py":
            with h5py.File(path, "r") as file:
                file[NAMES[3]].read_direct(out)
        else:
            with dry.open(path) as container:
                return np.asarray(container[NAMES[3]][...])
        return out


def run(settings: Settings) -> list[Table]:
    """One table."""
    data = Data(settings.folder / "many_steps", 20 if settings.quick else 2000)
    data.folder.mkdir(parents=True)
    table = Table(f"{data.steps:,} steps of 10 variables of 32^2 floats, async", baseline="raw")
    settings.say(f"{data.steps:,} steps: write")

    def write(engine: str) -> Cost:
        path = data.path(engine)
        discard(path)
        cost = measured(lambda: data.write(engine))
        settle([path], forget=False)
        return cost

    found = alternate(
        {engine: partial(write, engine) for engine in ENGINES}, settings.rounds(5), warm_up=False
    )
    table.add("write and commit every step", found, bytes_each=data.values.nbytes, writes=True)
    for engine in ENGINES:
        table.stored("write and commit every step", engine, size_of(data.path(engine)))
        _check_all(data, engine)
    _read_cases(settings, table, data)
    discard(data.folder)
    return [table]


def _check_all(data: Data, engine: str) -> None:
    """Compare every value that was written."""
    if engine == "raw":
        found = touched(data.values.shape, "f4")
        raw.read_file(data.path(engine), [found])
        CHECKED.same(engine, found, data.values)
    elif engine == "h5py":
        with h5py.File(data.path(engine), "r") as file:
            for i, name in enumerate(NAMES):
                CHECKED.same(engine, file[name][...], data.values[:, i])
    else:
        with dry.open(data.path(engine)) as container:
            for i, name in enumerate(NAMES):
                CHECKED.same(engine, container[name][...], data.values[:, i])


def _read_cases(settings: Settings, table: Table, data: Data) -> None:
    cases = {
        "open": (data.open, None),
        "series of a point": (data.series, data.values[:, 3, 5, 7]),
        "last step": (data.last, data.values[-1]),
        "one variable, all steps": (data.whole, data.values[:, 3]),
    }
    for case, (read, expected) in cases.items():
        for cold in (False, True):
            name = f"{case}, {'cold' if cold else 'warm'}"
            settings.say(f"{data.steps:,} steps: {name}")

            def act(engine: str, read=read, expected=expected, cold: bool = cold) -> Cost:  # noqa: ANN001
                if cold:
                    make_cold(data.path(engine), settings)
                else:
                    read(engine)
                kept = []
                cost = measured(lambda: kept.append(read(engine)))
                if expected is not None:
                    CHECKED.same(engine, kept[0], expected)
                return cost

            found = alternate(
                {engine: partial(act, engine) for engine in ENGINES}, settings.rounds(7), warm_up=not cold
            )
            table.add(name, found, bytes_each=0 if expected is None else expected.nbytes, writes=False)
