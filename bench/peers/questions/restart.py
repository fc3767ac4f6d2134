"""What does a restart cost? A checkpoint of 8 variables by 4 processes, read by 4, 2 and 5 with other partitions.

Timed is from the first process that opens to the last that has its 8 variables in buffers touched before, and has
closed. Cold: all files were brought to the device and forgotten just before.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from engines import Layout, load
from grid import CUTS, boxes, values
from measure import CHECKED, Cost, make_cold, settle, touched
from rounds import Bench, Mistake, Question

from questions.checkpoint import NAMES, layout_of

WRITERS = 4


class Reader:
    """One process of the restarted simulation."""

    def __init__(self, rank: int, count: int, folder: Path, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        grid = layout.specs[0].shape
        self.box = boxes(grid, CUTS[count])[rank]  # type: ignore[arg-type]
        self.expected = values(self.box, grid)  # type: ignore[arg-type]
        self.arrays = [touched((1, *self.box.shape), "f8") for _ in NAMES]
        self.found: list[object] = []

    def clear(self) -> None:
        """So that only what is read now can be found."""
        self.found = []
        for array in self.arrays:
            array.fill(-1)

    def read(self, name: str) -> None:
        """Fill the arrays."""
        engine = load(name)
        assert engine is not None
        reader = engine.reader(self.folder / name, self.layout)
        self.found = [
            reader.read(n, 0, self.box.offset, array) for n, array in zip(NAMES, self.arrays, strict=True)
        ]
        reader.close()

    def check(self, name: str) -> int:
        """How many values were compared; -1 if one is wrong."""
        for i, array in enumerate(self.found):
            if not np.array_equal(array[0], self.expected + (i << 40)):  # type: ignore[index]
                return -1
        return self.expected.size * len(NAMES)

    def close(self) -> None:
        """Let the memory go."""
        self.arrays, self.found = [], []


def run(bench: Bench) -> list[Question]:
    """One table."""
    question = Question("restart", f"Restart: 8 variables of doubles that {WRITERS} processes wrote")
    for edge in (12,) if bench.settings.quick else (32, 80):
        layout = layout_of(WRITERS, edge, 1, False)
        size = edge**3 * 8
        shown = f"{size >> 10} KiB" if size < 1 << 20 else f"{size / (1 << 20):.0f} MiB"
        with bench.folder("restart") as folder:
            bench.settings.say("restart: write")
            write(bench, folder, layout)
            for readers in (2,) if bench.settings.quick else (WRITERS, 2, 5):
                team = bench.team(readers)
                team.call("start", Reader, folder, layout)
                for cold in (False, True):
                    name = f"{shown} each, {readers} read, {'cold' if cold else 'warm'}"
                    acts = {key: partial(_act, bench, team, folder, key, cold) for key in bench.engines}
                    case = bench.alternate(
                        name,
                        acts,
                        9 if edge < 64 else 5,
                        bytes_each=WRITERS * len(NAMES) * size,
                        writes=False,
                        warm_up=not cold,
                    )
                    question.cases.append(case)
                team.call("do", "close")
    return [question]


def write(bench: Bench, folder: Path, layout: Layout) -> None:
    """The same checkpoint by every engine."""
    grid = layout.specs[0].shape
    for key, engine in bench.engines.items():
        engine.create(folder / key, layout)
        for rank, (box,) in enumerate(layout.puts):
            writer = engine.writer(folder / key, layout, rank)
            base = values(box, grid)  # type: ignore[arg-type]
            for i, name in enumerate(NAMES):
                writer.put(0, name, box.offset, base + (i << 40))
            writer.end(0)
            writer.close()
        if engine.commit:
            engine.commit(folder / key, layout)
    settle([folder], forget=False)


def _act(bench: Bench, team, folder: Path, key: str, cold: bool) -> Cost:  # noqa: ANN001
    if cold:
        make_cold(folder / key, bench.settings)
    team.call("do", "clear")
    cost = team.timed("do", "read", key)
    for compared in team.call("do", "check", key):
        if compared < 0:
            raise Mistake(f"{key} read back something else than was written: the benchmark is void")
        CHECKED.count(key, compared)
    return cost
