"""The tipping point of opaque codecs: from which part of an array on reading it compressed pays.

Boxes of a growing part of each edge are read from the same values stored without a transform, by opaque codecs, and by
codecs of which parts are read. Bytes are what the plan says and the engine reads; each value is compared. With `--plot`
the bytes are drawn.

    .venv/bin/python bench/transforms/tipping.py --edge 128 --rounds 5 --plot docs/benchmarks/tipping.svg
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from statistics import median

import drystone as dry
from field import field
from patterns import timed

CASES = ("none", "zlib:6", "shuffle,zstd:1", "blosc:lz4:5:shuffle,blocksize=32768", "isobar", "aplod")
PARTS = (16, 11, 8, 6, 4, 3, 2, 1)
COLOURS = ("#222222", "#c0392b", "#e67e22", "#8e44ad", "#2980b9", "#27ae60")

Points = dict[str, list[tuple[float, float]]]


def drawn(points: Points, path: Path) -> None:
    """Bytes read, as a part of the whole array, by the part of the edge."""
    left, top, wide, high = 70, 20, 520, 320
    most = max(y for line in points.values() for _, y in line)

    def across(x: float) -> float:
        return left + wide * x

    def up(y: float) -> float:
        return top + high * (1 - y / most)

    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 400" font-family="sans-serif" font-size="12">',
        '<rect width="820" height="400" fill="#fff"/>',
        f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="#999"/>',
        f'<text x="{left + wide / 2}" y="385" text-anchor="middle">part of each edge that is read</text>',
        f'<text x="18" y="{top + high / 2}" transform="rotate(-90 18 {top + high / 2})" text-anchor="middle">'
        "bytes read, of the whole array</text>",
    ]
    for x in (0.25, 0.5, 0.75, 1.0):
        lines.append(f'<text x="{across(x)}" y="358" text-anchor="middle">{x:g}</text>')
    for k in range(5):
        y = most * k / 4
        lines.append(f'<text x="{left - 8}" y="{up(y) + 4}" text-anchor="end">{y:.2f}</text>')
    for i, ((name, line), colour) in enumerate(zip(points.items(), COLOURS, strict=True)):
        places = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
        lines.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at = top + 14 + 18 * i
        lines.append(
            f'<text x="{left + wide + 14}" y="{at}" fill="{colour}">{name.split(",blocksize")[0]}</text>'
        )
    path.write_text("\n".join([*lines, "</svg>"]) + "\n")


def main() -> None:
    """One line per part and transform."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edge", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    edge, values = arguments.edge, field(arguments.edge)
    folder = Path(tempfile.mkdtemp(prefix="drystone-bench-"))
    points: Points = {name: [] for name in CASES}
    print(f"{edge}^3 doubles in chunks of {edge // 2}^3; median of {arguments.rounds} rounds\n")
    print(
        "| part of each edge | transform | requests | bytes read | of wanted | warm ms | cold ms | cold, of none |"
    )
    print("|---|---|---|---|---|---|---|---|")
    try:
        for name in CASES:
            with dry.create(folder / name.replace(":", "-")) as c:
                transform = None if name == "none" else name
                c.create_variable("t", "f8", values.shape, transform=transform, chunks=(edge // 2,) * 3)
                with c.writer() as w:
                    w.put("t", values)
        for part in PARTS:
            n = max(1, edge // part)
            first = (edge - n) // 2
            key = (slice(first, first + n),) * 3
            times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in CASES}
            for turn in range(arguments.rounds + 1):
                for name in CASES if turn % 2 else reversed(CASES):
                    path = folder / name.replace(":", "-")
                    cold = timed(path, key, None, values[key], cold=True)
                    warm = timed(path, key, None, values[key], cold=False)
                    if turn:
                        times[name][0].append(warm)
                        times[name][1].append(cold)
            for name in CASES:
                with dry.open(folder / name.replace(":", "-")) as c:
                    plan = c["t"].explain[key]
                points[name].append((n / edge, plan.read_bytes / values.nbytes))
                warm, cold = (median(taken) for taken in times[name])
                against = cold / median(times["none"][1])
                print(
                    f"| 1/{part} | {name} | {plan.requests:,} | {plan.read_bytes:,} | "
                    f"{plan.read_bytes / plan.wanted_bytes:.2f} | {warm * 1e3:.2f} | {cold * 1e3:.2f} | "
                    f"{against:.2f} |",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder)
    if arguments.plot:
        drawn({name: sorted(line) for name, line in points.items()}, arguments.plot)


if __name__ == "__main__":
    main()
