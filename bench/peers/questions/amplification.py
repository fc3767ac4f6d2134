"""How many bytes and calls does an operation take per value? Exact counts of the kernel (`/proc/self/io`).

A store of 64 MiB (8 MiB in a quick run) in blocks of 64^3 floats; the acts touch little of it. Bytes are what passed
between the process and the system, in multiples of the values; opening is included.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from engines import Engine, Layout, Spec
from grid import Box
from measure import CHECKED, measured, settle
from report import Listing, size
from rounds import Bench, Mistake

from questions.blocks import Data

CODECS = (None, "zstd")


def run(bench: Bench) -> list[Listing]:
    """Two tables: reads and writes."""
    edge = 16 if bench.settings.quick else 64
    data = Data(bench.settings.folder, (2, 2, 2) if bench.settings.quick else (4, 4, 4), edge)
    n = data.shape[0]
    selections = {
        "one value": (slice(n // 2, n // 2 + 1),) * 3,
        "a row of the last axis": (slice(5, 6), slice(7, 8), slice(None)),
        "a column of the first axis": (slice(None), slice(7, 8), slice(9, 10)),
        "a plane across the last axis": (slice(None), slice(None), slice(5, 6)),
        "a box of 9^3": (slice(edge - 4, edge + 5),) * 3,
        "everything": (slice(None),) * 3,
    }
    tables = []
    with bench.folder("amplification") as folder:
        for codec in CODECS:
            names = [k for k, e in bench.engines.items() if k != "raw" and (e.codecs or codec is None)]
            title = "raw values" if codec is None else "byte shuffle and zstd 1"
            reads = Listing(
                f"Read amplification, {title}: bytes read for each wanted, and calls", ["", *names]
            )
            writes = Listing(
                f"Write amplification, {title}: bytes written for each put, and calls", ["", *names]
            )
            whole, part = {}, {}
            for key in names:
                bench.settings.say(f"amplification, {title}: {key}")
                engine = bench.engines[key]
                layout = _layout(data, codec)
                path = folder / f"{key}.{codec}"
                whole[key] = measured(lambda e=engine, p=path, lay=layout: data.write(e, p, lay))
                settle([path], forget=False)
                part[key] = _small_steps(engine, folder / f"{key}.{codec}.steps", codec)
            for name, selection in selections.items():
                cells = []
                for key in names:
                    engine = bench.engines[key]
                    cells.append(
                        _read(engine, folder / f"{key}.{codec}", _layout(data, codec), data, selection)
                    )
                wanted = data.whole[selection].nbytes
                reads.rows.append([f"{name} ({size(wanted)})", *cells])
            writes.rows.append(
                [
                    f"all blocks ({size(data.whole.nbytes)})",
                    *(_cell(c.written_bytes, data.whole.nbytes, c.write_calls) for c in whole.values()),
                ]
            )
            writes.rows.append(["20 steps of 1 KiB", *part.values()])
            tables += [reads, writes]
    return tables


def _layout(data: Data, codec: str | None) -> Layout:
    return Layout((Spec("t", data.shape, "f4", (data.edge,) * 3),), (data.boxes,), 0, False, codec)


def _cell(moved: float, values: int, calls: float) -> str:
    ratio = moved / values
    return f"{ratio:,.{0 if ratio >= 100 else 1 if ratio >= 10 else 2}f}; {calls:,.0f}"


def _read(engine: Engine, path: Path, layout: Layout, data: Data, selection: tuple[slice, ...]) -> str:
    expected = np.ascontiguousarray(data.whole[selection])
    offset = [s.start or 0 for s in selection]

    def act() -> None:
        out = np.full(expected.shape, -1, "f4")
        reader = engine.reader(path, layout)
        found = reader.read("t", 0, offset, out)
        reader.close()
        if not np.array_equal(np.asarray(found).reshape(expected.shape), expected):
            raise Mistake(f"{engine.name} read back something else than was written: the benchmark is void")

    act()  # modules that are loaded on first use are not its reads
    cost = measured(act)
    CHECKED.count(engine.name, 2 * expected.size)
    return _cell(cost.read_bytes, expected.nbytes, cost.read_calls)


def _small_steps(engine: Engine, path: Path, codec: str | None) -> str:
    box = Box((0, 0), (16, 16))  # type: ignore[arg-type]
    layout = Layout((Spec("t", (16, 16), "f4", (16, 16)),), ((box,),), 20, False, codec)
    engine.create(path, layout)
    writer = engine.writer(path, layout, 0)
    array = np.arange(256, dtype="f4").reshape(16, 16)

    def act() -> None:
        for step in range(20):
            writer.put(step, "t", (0, 0), array)
            writer.end(step)

    cost = measured(act)
    writer.close()
    return _cell(cost.written_bytes, 20 * array.nbytes, cost.write_calls)
