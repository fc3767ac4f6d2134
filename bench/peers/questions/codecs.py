"""What does lossless compression gain and cost? Simulated fields, each engine's zstd at level 1 after a byte shuffle.

Drystone is there a second time with what it chooses by itself (`auto`). Written to the page cache and read warm;
compression in more depth, method against method, is bench/transforms.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
from engines import Array, Engine, Layout, Spec
from engines import drystone as ours
from grid import Box
from measure import CHECKED, Cost, discard, measured, settle, size_of
from rounds import Bench, Mistake, Question

sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "transforms"))
CHOSEN = "drystone auto"


def run(bench: Bench) -> list[Question]:
    """One table."""
    from fields import spectrum  # type: ignore[import-not-found]

    n = 16 if bench.settings.quick else 128
    rng = np.random.default_rng(3)
    turbulent = spectrum(n, -5 / 3 - 2, rng)
    found = {
        "turbulence, f4": turbulent.astype("f4"),
        "smooth, f8": spectrum(n, -6, rng),
        "rounded to 0.01, f4": np.round(18 + 4 * turbulent, 2).astype("f4"),
    }
    ours.CODECS["auto"] = "auto"
    question = Question("codecs", f"Lossless codecs: fields of {n}^3 cells, shuffle and zstd 1")
    acts = {k: e for k, e in bench.engines.items() if k != "raw" and e.codecs}
    acts[CHOSEN] = bench.engines["drystone"]
    ratios = []
    with bench.folder("codecs") as folder:
        for name, field in found.items():
            block = (max(8, n // 2),) * 3
            spec = Spec("t", field.shape, field.dtype.str, block)
            boxes = (Box((0, 0, 0), field.shape),)  # type: ignore[arg-type]
            write = {
                k: partial(_write, folder, k, e, _layout(spec, boxes, k), field) for k, e in acts.items()
            }
            case = bench.alternate(f"{name}, write", write, 3, bytes_each=field.nbytes, writes=True)
            for key in case.figures:
                case.stored[key] = size_of(folder / key)
            ratios.append(
                f"{name}: " + ", ".join(f"{key} {field.nbytes / case.stored[key]:.3f}" for key in case.stored)
            )
            question.cases.append(case)
            read = {
                k: partial(_read, folder, k, acts[k], _layout(spec, boxes, k), field) for k in case.figures
            }
            question.cases.append(
                bench.alternate(f"{name}, read", read, 3, bytes_each=field.nbytes, writes=False)
            )
    question.remarks.append("Ratios (values to stored). " + "; ".join(ratios) + ".")
    return [question]


def _layout(spec: Spec, boxes: tuple[Box, ...], key: str) -> Layout:
    return Layout((spec,), (boxes,), 0, False, "auto" if key == CHOSEN else "zstd")


def _write(folder: Path, key: str, engine: Engine, layout: Layout, field: Array) -> Cost:
    path = folder / key
    discard(path)

    def act() -> None:
        engine.create(path, layout)
        writer = engine.writer(path, layout, 0)
        writer.put(0, "t", (0, 0, 0), field)
        writer.end(0)
        writer.close()

    cost = measured(act)
    settle([path], forget=False)
    return cost


def _read(folder: Path, key: str, engine: Engine, layout: Layout, field: Array) -> Cost:
    out = np.zeros_like(field)
    kept: list[Array] = []

    def act() -> None:
        reader = engine.reader(folder / key, layout)
        kept.append(reader.read("t", 0, (0, 0, 0), out))
        reader.close()

    cost = measured(act)
    if not np.array_equal(kept[0].reshape(field.shape), field):
        raise Mistake(f"{key} read back something else than was written: the benchmark is void")
    CHECKED.count(key, field.size)
    return cost
