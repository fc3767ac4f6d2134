"""What does a checkpoint cost? 8 variables of doubles, the same box per process, committed so that others can read.

Stores are open before, as in a running simulation. Timed is from the first process that begins to the last that is
done, and to the end of Drystone's commit. Every value of every step is compared afterwards.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from engines import Array, Engine, Layout, Spec, load
from grid import CUTS, Box, boxes, values
from measure import CHECKED, Cost, settle, size_of
from rounds import Bench, Mistake, Question

NAMES = tuple(f"v{i}" for i in range(8))


def layout_of(count: int, edge: int, steps: int, durable: bool) -> Layout:
    """8 variables on a grid that `count` processes share."""
    shape = tuple(edge * n for n in CUTS[count])
    specs = tuple(Spec(name, shape, "f8", (edge,) * 3) for name in NAMES)
    return Layout(specs, tuple((box,) for box in boxes(shape, CUTS[count])), steps, durable)


def stamped(array: Array, step: int) -> Array:
    """The values of one step: unlike those of any other."""
    array[(0,) * array.ndim] = -1 - step
    return array


class Member:
    """One process of the simulation."""

    def __init__(self, rank: int, count: int, folder: Path, layout: Layout, names: list[str]) -> None:
        self.rank, self.layout = rank, layout
        self.box = layout.puts[rank][0]
        base = values(self.box, layout.specs[0].shape)
        self.arrays = [base + (i << 40) for i in range(len(NAMES))]
        self.writers = {}
        for name in names:
            engine = load(name)
            assert engine is not None
            self.writers[name] = engine.writer(folder / name, layout, rank)

    def write(self, engine: str, step: int) -> None:
        """One checkpoint."""
        writer = self.writers[engine]
        for name, array in zip(NAMES, self.arrays, strict=True):
            writer.put(step, name, self.box.offset, array)
        writer.end(step)

    def stamp(self, step: int) -> None:
        """Before the clock starts."""
        for array in self.arrays:
            stamped(array, step)

    def close(self) -> None:
        """End the run."""
        for writer in self.writers.values():
            writer.close()
        self.writers, self.arrays = {}, []


def run(bench: Bench) -> list[Question]:
    """One table."""
    question = Question("checkpoint", "Checkpoint: 8 variables of doubles")
    quick = bench.settings.quick
    cases = [(1, 16), (2, 16)] if quick else [(1, 32), (4, 32), (2, 80)]
    for count, edge in cases:
        for durable in (True, False):
            _case(bench, question, count, edge, durable)
    question.remarks.append(
        "TileDB always syncs: its async figures are durable ones. Drystone's time includes rank 0's commit; the "
        "others have nothing that makes a step visible as a whole."
    )
    return [question]


def _case(bench: Bench, question: Question, count: int, edge: int, durable: bool) -> None:
    size = edge**3 * 8
    shown = f"{size >> 10} KiB" if size < 1 << 20 else f"{size / (1 << 20):.0f} MiB"
    name = f"{count} process{'es' * (count > 1)}, {shown} each, {'durable' if durable else 'async'}"
    rounds = 9 if edge < 64 else 5
    layout = layout_of(count, edge, bench.settings.rounds(rounds) + 1, durable)
    team = bench.team(count)
    with bench.folder("checkpoint") as folder:
        for key, engine in bench.engines.items():
            engine.create(folder / key, layout)
        team.call("start", Member, folder, layout, list(bench.engines))
        steps = dict.fromkeys(bench.engines, -1)

        def act(key: str, engine: Engine) -> Cost:
            steps[key] += 1
            team.call("do", "stamp", steps[key])
            after = partial(engine.commit, folder / key, layout) if engine.commit else None
            cost = team.timed("do", "write", key, steps[key], after=after)
            settle([folder / key], forget=True)
            return cost

        acts = {key: partial(act, key, engine) for key, engine in bench.engines.items()}
        each = count * len(NAMES) * size
        case = bench.alternate(name, acts, rounds, bytes_each=each, writes=True)
        team.call("do", "close")
        for key, engine in bench.engines.items():
            if key not in case.failures:
                check(engine, folder / key, layout, steps[key] + 1)
                case.stored[key] = size_of(folder / key) / (steps[key] + 1)
    question.cases.append(case)


def check(engine: Engine, path: Path, layout: Layout, steps: int) -> None:
    """Compare everything with what was written."""
    shape = layout.specs[0].shape
    whole = Box((0, 0, 0), shape)  # type: ignore[arg-type]
    base = values(whole, shape)  # type: ignore[arg-type]
    out = np.empty((1, *shape))
    reader = engine.reader(path, layout)
    for step in range(steps):
        for i, name in enumerate(NAMES):
            expected = base + (i << 40)
            for boxes_ in layout.puts:
                expected[boxes_[0].offset] = -1 - step
            out.fill(np.nan)
            found = reader.read(name, step, (0, 0, 0), out)
            if not np.array_equal(found[0], expected):
                raise Mistake(f"{engine.name} holds something else than was written: the benchmark is void")
            CHECKED.count(engine.name, expected.size)
    reader.close()
