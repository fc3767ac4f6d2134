"""What do many steps cost? 10 variables of 32^2 floats; every step can be seen by other processes when it ends.

Then: opening, the series of one point over all steps, all variables of the last step, one variable over all steps.
Everything includes opening and closing.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from engines import Array, Engine, Layout, Spec
from grid import Box
from measure import CHECKED, Cost, discard, make_cold, measured, settle, size_of
from rounds import Bench, Mistake, Question

EDGE = 32
NAMES = tuple(f"v{i}" for i in range(10))
BOX = Box((0, 0), (EDGE, EDGE))  # type: ignore[arg-type]


def layout_of(steps: int, durable: bool) -> Layout:
    """10 small variables by one writer."""
    specs = tuple(Spec(name, (EDGE, EDGE), "f4", (EDGE, EDGE)) for name in NAMES)
    return Layout(specs, ((BOX,),), steps, durable)


def values_of(steps: int) -> Array:
    """All values of all steps."""
    cells = np.arange(steps * len(NAMES) * EDGE * EDGE, dtype="i8") * 2654435761 >> 8 & 0xFFFFFF
    return cells.astype("f4").reshape(steps, len(NAMES), EDGE, EDGE)


def write(engine: Engine, path: Path, layout: Layout, values: Array) -> None:
    """All steps, one after another; the making of the store is in it."""
    engine.create(path, layout)
    writer = engine.writer(path, layout, 0)
    for step, arrays in enumerate(values):
        for name, array in zip(NAMES, arrays, strict=True):
            writer.put(step, name, (0, 0), array)
        writer.end(step)
    writer.close()


def read(engine: Engine, path: Path, layout: Layout, case: str) -> Array:
    """What a case reads."""
    reader = engine.reader(path, layout)
    if case == "open":
        found = reader.read(NAMES[3], 0, (0, 0), np.empty((1, 1, 1), "f4"))
    elif case == "series of a point":
        found = reader.read(NAMES[3], 0, (5, 7), np.empty((layout.steps, 1, 1), "f4"))
    elif case == "last step":
        found = np.empty((len(NAMES), 1, EDGE, EDGE), "f4")
        for name, out in zip(NAMES, found, strict=True):
            got = reader.read(name, layout.steps - 1, (0, 0), out)
            if got is not out:
                out[...] = got
    else:
        found = reader.read(NAMES[3], 0, (0, 0), np.empty((layout.steps, EDGE, EDGE), "f4"))
    reader.close()
    return found


def run(bench: Bench) -> list[Question]:
    """One table."""
    steps, few = (20, 20) if bench.settings.quick else (200, 40)
    values = values_of(steps)
    question = Question("many_steps", f"Many steps: {steps} steps of 10 variables of 32^2 floats")
    with bench.folder("steps") as folder:
        for durable in (True, False):
            count = few if durable else steps  # each step of some is dozens of synced files
            layout, written = layout_of(count, durable), values[:count]

            def act(key: str, engine: Engine, layout: Layout = layout, written: Array = written) -> Cost:
                path = folder / key
                discard(path)
                cost = measured(lambda: write(engine, path, layout, written))
                _check(engine, path, layout, written)
                settle([path], forget=False)
                return cost

            acts = {key: partial(act, key, engine) for key, engine in bench.engines.items()}
            name = f"write {count} steps, a commit each, {'durable' if durable else 'async'}"
            case = bench.alternate(name, acts, 3, bytes_each=written.nbytes, writes=True, warm_up=False)
            for key in case.figures:
                case.stored[key] = size_of(folder / key)
            question.cases.append(case)
        expected = {
            "open": values[:1, 3, :1, :1],
            "series of a point": values[:, 3, 5:6, 7:8],
            "last step": values[-1][:, None],
            "one variable, all steps": values[:, 3],
        }
        for case_name, wanted in expected.items():
            for cold in (False, True):

                def act_read(
                    key: str, engine: Engine, c: str = case_name, w: Array = wanted, cold: bool = cold
                ) -> Cost:
                    layout = layout_of(steps, False)
                    if cold:
                        make_cold(folder / key, bench.settings)
                    else:
                        read(engine, folder / key, layout, c)
                    kept: list[Array] = []
                    cost = measured(lambda: kept.append(read(engine, folder / key, layout, c)))
                    _compare(engine, kept[0], w)
                    return cost

                acts = {key: partial(act_read, key, engine) for key, engine in bench.engines.items()}
                name = f"{case_name}, {'cold' if cold else 'warm'}"
                each = wanted.nbytes
                question.cases.append(
                    bench.alternate(name, acts, 5, bytes_each=each, writes=False, warm_up=False)
                )
    question.remarks.append(
        "h5py gathers 8 steps in a chunk, netCDF has one array laid out ahead; with both no step is visible as a "
        "whole. zarr, tensorstore and netCDF were told the number of steps ahead. TileDB's async is durable."
    )
    return [question]


def _compare(engine: Engine, found: Array, expected: Array) -> None:
    if not np.array_equal(np.asarray(found).reshape(expected.shape), expected):
        raise Mistake(f"{engine.name} read back something else than was written: the benchmark is void")
    CHECKED.count(engine.name, expected.size)


def _check(engine: Engine, path: Path, layout: Layout, values: Array) -> None:
    reader = engine.reader(path, layout)
    for i, name in enumerate(NAMES):
        _compare(engine, reader.read(name, 0, (0, 0), np.empty_like(values[:, i], order="C")), values[:, i])
    reader.close()
