"""What does a read cost in any direction, cold, without tuning? 512^3 floats written as 2x2x2 blocks of 256^3.

The bars: the worst axis within 2x of the best; at least 5x faster than the worst plane of contiguous HDF5; the sum over
three planes ahead of every engine at its defaults and level with the best hand-tuned one; bytes read within 1.2x of the
model's prediction; subchunking costs a write at most 10 %; the median error of 200 predicted reads below 30 %.

`python bench/layout/run.py FOLDER` runs all of it (about five minutes and 10 GB below FOLDER), writes
docs/benchmarks/layout.md and docs/pictures/layout-*.svg. `--quick` shows in seconds that everything works, and writes
nothing. `--drop-caches` (root) drops the caches of the whole system too before each cold read.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))

import drystone as dry
import numpy as np
from measure import CHECKED, Cost, Figure, Settings, alternate, discard, make_cold, measured, settle
from overhead import overhead
from settings import Array, Drystone, Setting, Slices, every

DOCS = Path(__file__).resolve().parents[2] / "docs"
AXES = "zyx"


def cells(box: Slices) -> Array:
    """What the cells of a box hold."""
    z, y, x = (np.arange(s.start, s.stop, dtype="u4") for s in box)
    number = (
        z[:, None, None] * np.uint32(73856093)
        ^ y[None, :, None] * np.uint32(19349663)
        ^ x * np.uint32(83492791)
    )
    return (number >> np.uint32(9)).astype("f4")


def blocks(edge: int) -> list[Slices]:
    """The boxes that eight processes write."""
    half = edge // 2
    starts = [[(n >> shift & 1) * half for shift in (2, 1, 0)] for n in range(8)]
    return [(slice(z, z + half), slice(y, y + half), slice(x, x + half)) for z, y, x in starts]


def cases(edge: int) -> dict[str, list[Slices]]:
    """The reads: the same for all engines."""
    dice = random.Random(7)
    whole = [slice(0, edge)] * 3
    out: dict[str, list[Slices]] = {}

    def at(n: int) -> slice:
        start = dice.randrange(edge - n + 1)
        return slice(start, start + n)

    def place(axes: tuple[int, ...]) -> Slices:
        z, y, x = (at(1) if a in axes else whole[a] for a in range(3))
        return (z, y, x)

    for axis, name in enumerate(AXES):
        out[f"plane {name}"] = [place((axis,)) for _ in range(2)]
    side = min(64, edge // 2)
    out["boxes 64^3"] = [(at(side), at(side), at(side)) for _ in range(8)]
    for axis, name in enumerate(AXES):
        others = tuple(a for a in range(3) if a != axis)
        out[f"pencils {name}"] = [place(others) for _ in range(8)]
    out["points"] = [place((0, 1, 2)) for _ in range(32)]
    return out


def act(engine: Setting, boxes: list[Slices], settings: Settings) -> Cost:
    """One cold read of all boxes, checked."""
    make_cold(engine.path, settings)
    found: list[Array] = []
    cost = measured(lambda: found.extend(engine.read(boxes)))
    for box, array in zip(boxes, found, strict=True):
        CHECKED.same(engine.name, np.asarray(array).reshape([s.stop - s.start for s in box]), cells(box))
    return cost


def compare(settings: Settings, edge: int) -> tuple[str, dict[str, dict[str, Figure]], list[str]]:
    """All engines, all reads."""
    able, left_out = every(settings.folder, edge)
    kept = []
    for engine in able:
        settings.say(f"write {engine.name}")
        try:
            engine.write((edge,) * 3, blocks(edge), cells)
        except Exception as error:
            left_out.append(f"{engine.name}: {error!s:.120}")
            continue
        settle([engine.path], forget=True)
        kept.append(engine)
    found: dict[str, dict[str, Figure]] = {}
    for case, boxes in cases(edge).items():
        settings.say(case)
        acts = {engine.name: partial(act, engine, boxes, settings) for engine in kept}
        found[case] = alternate(acts, settings.rounds(3), warm_up=False)
    header = ["engine", *found, "three planes", "worst / best plane"]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for engine in kept:
        times = [found[case][engine.name].seconds for case in found]
        planes = [found[f"plane {axis}"][engine.name].seconds for axis in AXES]
        row = [f"{seconds * 1e3:.1f}" for seconds in [*times, sum(planes)]] + [
            f"{max(planes) / min(planes):.1f}"
        ]
        lines.append(f"| {engine.name} | " + " | ".join(row) + " |")
    read = ["| " + " | ".join(["engine", *found]) + " |", "|---" * (len(found) + 1) + "|"]
    for engine in kept:
        typical = [found[case][engine.name].typical for case in found]
        row = [f"{cost.read_calls} / {cost.read_bytes / 2**20:.1f}" for cost in typical]
        read.append(f"| {engine.name} | " + " | ".join(row) + " |")
    tables = (
        "\n".join(lines)
        + "\n\nCalls that read, and MiB read by them (mapped memory does not show):\n\n"
        + "\n".join(read)
    )
    return tables, found, left_out


def bars(found: dict[str, dict[str, Figure]]) -> list[str]:
    """The bars that the comparison decides."""
    planes = {e: [found[f"plane {a}"][e].seconds for a in AXES] for e in found["plane z"]}
    ours = planes["drystone"]
    lines = [f"- worst plane / best plane: {max(ours) / min(ours):.2f} (bar: 2)"]
    if "h5py contiguous" in planes:
        lines.append(
            f"- worst plane of contiguous HDF5 / our worst: {max(planes['h5py contiguous']) / max(ours):.1f} (bar: 5)"
        )
    others = {e: sum(t) for e, t in planes.items() if not e.startswith("drystone")}
    for kind, tuned in (("at its defaults", False), ("hand-tuned", True)):
        some = {e: t for e, t in others.items() if ("^3" in e) == tuned}
        if some:
            best = min(some, key=lambda e: some[e])
            lines.append(
                f"- three planes of the best engine {kind} ({best}) / ours: {some[best] / sum(ours):.2f} (bar: 1)"
            )
    return lines


def predicted_bytes(settings: Settings, edge: int) -> list[str]:
    """Bytes of the planned planes against what the model predicted when it cut the blocks."""
    out = []
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    with dry.open(settings.folder / "drystone") as c:
        why = c["t"].why((edge // 2,) * 3)
        out.append("```\n" + why.strip() + "\n```\n")
        for axis in range(3):
            line = re.search(rf"plane across axis {axis}: .*?, ([\d.]+) (\w+),", why)
            if line is None:
                continue
            model = 4 * float(line[1]) * units[line[2]]
            # The model predicts the mean over all places; where units of checksums end, a plane may need two for one.
            places = range(edge // 32, edge, edge // 16)
            keys = [tuple(at if a == axis else slice(None) for a in range(3)) for at in places]
            planned = sum(c["t"].explain[key].read_bytes for key in keys) / len(keys)
            out.append(
                f"- plane {AXES[axis]}: {planned / 2**20:.1f} MiB planned at {len(keys)} positions on average, "
                f"{model / 2**20:.1f} MiB predicted by the model: {planned / model:.2f} (bar: within 1.2x)"
            )
    return out


def curve(settings: Settings, edge: int) -> str:
    """Read time over the size of cubic subchunks, with the model's choice marked."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    sides = [8, 16] if settings.quick else [16, 24, 32, 48, 64, 96, 128, 256]
    boxes = [case for name, case in cases(edge).items() if name.startswith("plane")]
    made: list[Setting] = [Drystone(f"cube {side}", settings.folder, chunks=(side,) * 3) for side in sides]
    made.append(Drystone("drystone", settings.folder))
    for engine in made[:-1]:
        settings.say(f"write {engine.name}")
        engine.write((edge,) * 3, blocks(edge), cells)
        settle([engine.path], forget=True)

    def both(engine: Setting) -> Cost:
        costs = [act(engine, case, settings) for case in boxes]
        return sum(costs[1:], costs[0])

    figures = alternate({e.name: partial(both, e) for e in made}, settings.rounds(3), warm_up=False)
    sizes = [side**3 * 4 / 1024 for side in sides]
    times = [figures[e.name].seconds * 1e3 for e in made[:-1]]
    with dry.open(settings.folder / "drystone") as c:
        chosen = np.prod(c["t"].blocks()[0].chunks) * 4 / 1024
    ours = figures["drystone"].seconds * 1e3
    if not settings.quick:
        figure, plot = plt.subplots(figsize=(6, 3.5))
        plot.plot(sizes, times, marker="o", ms=4, label="cubic subchunks")
        plot.plot([chosen], [ours], marker="*", ms=14, ls="", label="the model's choice")
        plot.set(xscale="log", yscale="log", xlabel="KiB of a subchunk", ylabel="six planes cold, ms")
        plot.legend()
        figure.tight_layout()
        (DOCS / "pictures").mkdir(exist_ok=True)
        figure.savefig(DOCS / "pictures" / "layout-curve.svg", metadata={"Date": None})
    lines = ["| subchunk | KiB | two planes across each axis, ms | MiB read |", "|---|---|---|---|"]
    for engine, size, t in zip(made, [*sizes, chosen], [*times, ours], strict=True):
        name = "the model's choice" if engine.name == "drystone" else engine.name.removeprefix("cube ") + "^3"
        read = figures[engine.name].typical.read_bytes / 2**20
        lines.append(f"| {name} | {size:.0f} | {t:.1f} | {read:.0f} |")
    for engine in made[:-1]:
        discard(engine.path)
    lines.append(f"\nThe model's choice / the best cube: {ours / min(times):.2f}.")
    return "\n".join(lines)


def calibrate(settings: Settings) -> str:
    """Measure the store once for this run: cut, plans and predictions all use the same figures."""
    os.environ["DRYSTONE_CACHE"] = str(settings.folder / "cache")
    with dry.create(settings.folder / "probed") as c:
        return str(c.calibrate(seconds=0.5 if settings.quick else 6.0))


def predictions(settings: Settings, edge: int) -> str:
    """200 random reads: what was predicted, and what they took, cold."""
    dice = random.Random(11)
    errors = []
    rounds = 20 if settings.quick else 200
    with dry.open(settings.folder / "drystone") as c:
        t = c["t"]
        for _ in range(rounds):
            count = [min(edge, round(2 ** dice.uniform(0, np.log2(edge)))) for _ in range(3)]
            offset = [dice.randrange(edge - n + 1) for n in count]
            key = tuple(slice(o, o + n) for o, n in zip(offset, count, strict=True))
            predicted = t.explain[key].predicted or 0.0
            out = np.zeros(count, "f4")
            make_cold(settings.folder / "drystone", settings)
            took = measured(partial(t.read, None, offset, count, out=out)).seconds
            CHECKED.same("drystone", out, cells(key))  # type: ignore[arg-type]
            errors.append(abs(predicted - took) / took)
    under = sum(e < 0.3 for e in errors)
    return (
        f"- {rounds} random boxes, predicted against measured: median error {median(errors):.0%} (bar: 30 %), "
        f"{under} of them below 30 %"
    )


PAGE = """# Benchmarks: layout

`python bench/layout/run.py FOLDER`{how} writes this page. The data are {edge}^3 float32 in 2 x 2 x 2 blocks of
{half}^3. Every value read is checked. Engines run in turn, and times are medians of 3 rounds. Cold: the files were
dropped from this machine's page cache; the disk of a virtual machine may still hold them. Peers write without
compression, like Drystone. There were {cpus} processors, with a load of {load:.1f} at the start. On a busy machine,
ratios and counts are more reliable than times.

```
{calibration}
```

## Reads, ms

Two planes across each axis, 8 boxes, 8 pencils along each axis, 32 points; each measurement opens and closes the
container.

{tables}

Left out: {left_out}.

## Bars

{bars}

## Predictions of the model

{predicted}

## Time over size

![read time over the size of subchunks](../pictures/layout-curve.svg)

{curve}

## Writes

Subchunks beside whole blocks (`layout="log"`), medians of 9 alternations; the bar is 1.10. One process writes the same
block eight times; one of its threads gathers, and another passes the bytes to the system. Eight processes have a block
each and share the processors.

{overhead}

## Predictions of random reads

{predictions}
"""


def main() -> None:
    """Run everything."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--drop-caches", action="store_true")
    given = arguments.parse_args()
    folder = given.folder / "layout"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = Settings(
        folder, given.quick, given.drop_caches, lambda text: print(text, file=sys.stderr, flush=True)
    )
    edge = 64 if given.quick else 512
    load = os.getloadavg()[0]
    try:
        calibration = calibrate(settings)
        written = overhead(settings, edge)
        print(written)
        tables, found, left_out = compare(settings, edge)
        page = PAGE.format(
            calibration=calibration,
            how=" --drop-caches" if given.drop_caches else "",
            edge=edge,
            half=edge // 2,
            cpus=os.cpu_count(),
            load=load,
            tables=tables,
            left_out="; ".join(left_out) or "nothing",
            bars="\n".join(bars(found)),
            predicted="\n".join(predicted_bytes(settings, edge)),
            curve=curve(settings, edge),
            overhead=written,
            predictions=predictions(settings, edge),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not given.quick:
        (DOCS / "benchmarks" / "layout.md").write_text(page)
    print(page)
    print(f"{CHECKED.values:,} values checked", file=sys.stderr)


if __name__ == "__main__":
    main()
