"""What one process pays for writing an array of many blocks, for opening it, for reading planes and boxes of it.

Two tables. *Planes and boxes*: blocks of 1 MiB, of which readers want planes across each axis and boxes that no block
has. *Many blocks*: blocks of 16 KiB, which come one at a time. Everything includes opening and closing, and `open` goes
to the first value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from engines import Array, Engine, Layout, Spec
from grid import Box
from measure import CHECKED, Cost, discard, make_cold, measured, settle, size_of, touched
from rounds import Bench, Mistake, Question


class Data:
    """An array in blocks."""

    def __init__(self, folder: Path, cuts: tuple[int, int, int], edge: int) -> None:
        self.folder, self.edge = folder, edge
        self.shape = tuple(n * edge for n in cuts)
        self.places = [tuple(int(i) * edge for i in place) for place in np.ndindex(*cuts)]
        cells = np.arange(int(np.prod(self.shape)), dtype="i8") * 2654435761 >> 8 & 0xFFFFFF
        self.whole = cells.astype("f4").reshape(self.shape)
        cut = self.whole.reshape(cuts[0], edge, cuts[1], edge, cuts[2], edge).transpose(0, 2, 4, 1, 3, 5)
        self.blocks = np.ascontiguousarray(cut).reshape(-1, edge, edge, edge)
        self.boxes = tuple(Box(place, (edge,) * 3) for place in self.places)  # type: ignore[arg-type]

    def layout(self, durable: bool) -> Layout:
        """For engines."""
        return Layout((Spec("t", self.shape, "f4", (self.edge,) * 3),), (self.boxes,), 0, durable)

    def write(self, engine: Engine, path: Path, layout: Layout) -> None:
        """Every block, one at a time."""
        engine.create(path, layout)
        writer = engine.writer(path, layout, 0)
        for place, block in zip(self.places, self.blocks, strict=True):
            writer.put(0, "t", place, block)
        writer.end(0)
        writer.close()
        if engine.commit:
            engine.commit(path, layout)


def run(bench: Bench) -> list[Question]:
    """Two tables."""
    quick = bench.settings.quick
    tables = []
    with bench.folder("boxes") as folder:
        data = Data(folder, (2, 2, 2) if quick else (4, 4, 4), 16 if quick else 64)
        question = Question(
            "boxes", f"Planes and boxes of an array of {data.shape[0]}^3 floats in blocks of {data.edge}^3"
        )
        n = data.shape[0]
        whole = slice(None)
        cases = {
            "plane across the first axis": (slice(n // 2 + 5, n // 2 + 6), whole, whole),
            "plane across the middle axis": (whole, slice(n // 2 + 5, n // 2 + 6), whole),
            "plane across the last axis": (whole, whole, slice(n // 2 + 5, n // 2 + 6)),
            "box of a quarter of the edge": (slice(n // 3, n // 3 + n // 4),) * 3,
            "rods along the first axis": (whole, slice(7, 9), slice(11, 15)),
        }
        _prepare(bench, data)
        for case, selection in cases.items():
            _reads(bench, question, data, case, selection)
        tables.append(question)
    with bench.folder("many") as folder:
        data = Data(folder, (2, 4, 4) if quick else (16, 16, 16), 16)
        question = Question("many_blocks", f"Many blocks: {len(data.blocks):,} blocks of 16^3 floats")
        for durable in (True, False):
            _writes(bench, question, data, durable)
        _reads(bench, question, data, "open", None)
        _reads(bench, question, data, "read all", (slice(None),) * 3)
        n = data.shape[0] // 2 + 5
        _reads(
            bench, question, data, "plane across the first axis", (slice(n, n + 1), slice(None), slice(None))
        )
        n = data.shape[2] // 2 + 5
        _reads(
            bench, question, data, "plane across the last axis", (slice(None), slice(None), slice(n, n + 1))
        )
        question.remarks.append(
            "zarr, tensorstore and TileDB gather rows of blocks first (shards, fragments): a file or fragment per "
            "block is many times slower."
        )
        tables.append(question)
    return tables


def _prepare(bench: Bench, data: Data) -> None:
    for key, engine in bench.engines.items():
        data.write(engine, data.folder / key, data.layout(False))
    settle([data.folder], forget=False)


def _writes(bench: Bench, question: Question, data: Data, durable: bool) -> None:
    layout = data.layout(durable)
    out = touched(data.shape, "f4")

    def act(key: str, engine: Engine) -> Cost:
        path = data.folder / key
        discard(path)
        cost = measured(lambda: data.write(engine, path, layout))
        out.fill(-1)
        reader = engine.reader(path, layout)
        found = reader.read("t", 0, (0, 0, 0), out)
        reader.close()
        _compare(key, found, data.whole)
        settle([path], forget=False)
        return cost

    acts = {key: partial(act, key, engine) for key, engine in bench.engines.items()}
    name = f"write, {'durable' if durable else 'async'}"
    case = bench.alternate(name, acts, 3, bytes_each=data.whole.nbytes, writes=True)
    for key in case.figures:
        case.stored[key] = size_of(data.folder / key)
    question.cases.append(case)


def _compare(key: str, found: Array, expected: Array) -> None:
    if not np.array_equal(np.asarray(found).reshape(expected.shape), expected):
        raise Mistake(f"{key} read back something else than was written: the benchmark is void")
    CHECKED.count(key, expected.size)


def _reads(
    bench: Bench, question: Question, data: Data, case: str, selection: tuple[slice, ...] | None
) -> None:
    layout = data.layout(False)
    one = (slice(0, 1),) * 3
    expected = np.ascontiguousarray(data.whole[selection or one])
    offset = [s.start or 0 for s in selection or one]
    out = touched(expected.shape, "f4")
    for cold in (False, True):

        def act(key: str, engine: Engine, cold: bool = cold) -> Cost:
            path = data.folder / key
            kept: list[Array] = []

            def read() -> None:
                reader = engine.reader(path, layout)
                kept[:] = [reader.read("t", 0, offset, out)]
                reader.close()

            if cold:
                make_cold(path, bench.settings)
            else:
                read()
            out.fill(-1)
            cost = measured(read)
            _compare(key, kept[0], expected)
            return cost

        acts: dict[str, Callable[[], Cost]] = {k: partial(act, k, e) for k, e in bench.engines.items()}
        name = f"{case}, {'cold' if cold else 'warm'}"
        each = expected.nbytes if selection else 4
        question.cases.append(bench.alternate(name, acts, 5, bytes_each=each, writes=False, warm_up=False))
