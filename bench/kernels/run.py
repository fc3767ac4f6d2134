"""Rules beside NumPy's own copies and memcpy, over element sizes, run lengths and strides.

    .venv/bin/python bench/kernels/run.py [--quick] [--megabytes 32] [--rounds 15] [--document]

Bar: at least NumPy everywhere; 80 % of memcpy for runs of 512 bytes, 50 % for 8-byte transposes of 4096 squared. Every case lets
NumPy, a compiled rule and a copy of as many contiguous bytes act in turn between the same buffers, on one thread, and compares
what both left. Times are the shortest of many rounds: whatever else the machine does makes them longer, never shorter. Calling a
rule or NumPy from Python is in them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from drystone.rules import Layout, compile

Array = np.ndarray[Any, Any]
DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "benchmarks-kernels.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
SIZES = [1, 2, 4, 8, 16, 24, 32, 64, 128, 256, 512, 1024, 4096]


@dataclass
class Case:
    """Two views of two buffers: NumPy copies one to the other, the rule does the same."""

    name: str
    source: Array
    target: Array
    """The buffers, dense bytes."""
    numpy: Callable[[], None]
    layouts: tuple[Layout, Layout]
    moved: int


def elements(buffer: Array, size: int, stride: int, count: int) -> Array:
    """`count` elements of `size` bytes, `stride` bytes apart, in the type NumPy copies fastest."""
    if size in (1, 2, 4, 8):
        return np.lib.stride_tricks.as_strided(buffer.view(f"u{size}")[:1], (count,), (stride,))
    if size == 16:
        return np.lib.stride_tricks.as_strided(buffer.view("c16")[:1], (count,), (stride,))
    wide = "u8" if size % 8 == 0 and stride % 8 == 0 else "u1"
    width = np.dtype(wide).itemsize
    return np.lib.stride_tricks.as_strided(buffer.view(wide)[:1], (count, size // width), (stride, width))


def strided(total: int) -> list[Case]:
    """Gather from and scatter to every `times`-th element."""
    out = []
    for size in SIZES:
        for times in (2, 3, 8):
            count, far = total // size, size * times
            wide, dense = np.ones(count * far, "u1"), np.ones(count * size, "u1")
            a, b = elements(wide, size, far, count), elements(dense, size, size, count)
            layout = Layout.of((count, size), "u1", (far, 1)), Layout.of((count, size), "u1")
            out.append(
                Case(
                    f"gather|{size} B of {far}", wide, dense, lambda a=a, b=b: np.copyto(b, a), layout, total
                )
            )
            other = np.ones(count * far, "u1")
            c = elements(other, size, far, count)
            out.append(
                Case(
                    f"scatter|{size} B to {far}",
                    dense,
                    other,
                    lambda b=b, c=c: np.copyto(c, b),
                    layout[::-1],
                    total,
                )
            )
    return out


def transposed(total: int) -> list[Case]:
    """Two and three dimensions turned round."""
    out = []
    for kind in ("u1", "u2", "u4", "u8", "c16"):
        size = np.dtype(kind).itemsize
        sides = [64, 512, 4096] if total >= 4096 * 4096 else [64, 512]
        for side in sides:
            source, target = np.ones(side * side * size, "u1"), np.ones(side * side * size, "u1")
            a, b = source.view(kind).reshape(side, side), target.view(kind).reshape(side, side)
            layout = Layout.of((side, side), kind, order="F"), Layout.of((side, side), kind)
            name = f"transpose|{size} B, {side} squared"
            out.append(Case(name, source, target, lambda a=a, b=b: np.copyto(b, a.T), layout, source.size))
        edge = 64
        shape = (edge, edge, edge)
        source, target = np.ones(edge**3 * size, "u1"), np.ones(edge**3 * size, "u1")
        a, b = source.view(kind).reshape(shape), target.view(kind).reshape(shape)
        layout = Layout.of(shape, kind, order="F"), Layout.of(shape, kind)
        name = f"transpose|{size} B, {edge} cubed, reversed axes"
        out.append(Case(name, source, target, lambda a=a, b=b: np.copyto(b, a.T), layout, source.size))
    return out


def records(total: int) -> list[Case]:
    """One field of structs, and all of them to columns and back."""
    out = []
    for fields, kind in ((3, "f8"), (4, "f4"), (2, "f4"), (8, "f8"), (3, "u2")):
        dtype = np.dtype([(f"m{k}", kind) for k in range(fields)])
        count = total // dtype.itemsize
        size = np.dtype(kind).itemsize
        structs, column = np.ones(count * dtype.itemsize, "u1"), np.ones(count * size, "u1")
        rec, col = structs.view(dtype), column.view(kind)
        layout = Layout.of((count,), dtype), Layout.of((count,), kind, field="m1")
        name = f"{fields} fields of {size} B"
        out.append(
            Case(
                f"one field|{name}",
                structs,
                column,
                lambda r=rec, c=col: np.copyto(c, r["m1"]),
                layout,
                col.nbytes,
            )
        )
        columns = np.ones(count * dtype.itemsize, "u1")
        parts = columns.view(kind).reshape(fields, count)
        apart = Layout.of((count,), kind, field="m0")
        for k in range(1, fields):
            apart = apart + Layout.of((count,), kind, field=f"m{k}", offset=k * count * size)

        def split(rec: Array = rec, parts: Array = parts, fields: int = fields) -> None:
            for k in range(fields):
                np.copyto(parts[k], rec[f"m{k}"])

        def join(rec: Array = rec, parts: Array = parts, fields: int = fields) -> None:
            for k in range(fields):
                np.copyto(rec[f"m{k}"], parts[k])

        whole = Layout.of((count,), dtype)
        out.append(Case(f"structs to columns|{name}", structs, columns, split, (whole, apart), structs.size))
        out.append(Case(f"columns to structs|{name}", columns, structs, join, (apart, whole), structs.size))
    return out


def measure(case: Case, rounds: int) -> tuple[float, float, float]:
    """Seconds of the rule, of NumPy, of memcpy: the shortest of all rounds."""
    rule = compile(*case.layouts)
    case.source[...] = np.random.default_rng(1).integers(0, 255, case.source.size, "u1")
    case.target[...] = 7
    case.numpy()
    expected = case.target.copy()
    case.target[...] = 7
    rule.apply(case.source, case.target)
    if not np.array_equal(case.target, expected):
        raise SystemExit(f"{case.name}: the rule left something else than NumPy")
    length = min(case.moved, case.source.size, case.target.size)
    a, b = case.source[:length], case.target[:length]
    acts = [lambda: rule.apply(case.source, case.target), case.numpy, lambda: np.copyto(b, a)]
    repeat = max(1, (1 << 20) // case.moved)
    best = [float("inf")] * 3
    for turn in range(rounds * max(1, min(20, (8 << 20) // case.moved))):
        for k in ((turn + n) % 3 for n in range(3)):
            begin = time.perf_counter()
            for _ in range(repeat):
                acts[k]()
            best[k] = min(best[k], (time.perf_counter() - begin) / repeat)
    return best[0], best[1], best[2]


def table(title: str, rows: dict[str, dict[str, str]]) -> str:
    """Lines by what is moved, columns by how it lies."""
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    lines = [f"| {title} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, cells in rows.items():
        lines.append(f"| {name} | " + " | ".join(cells.get(column, "") for column in columns) + " |")
    return "\n".join([*lines, ""])


def figures(total: int, rounds: int, only: str, slower: list[str]) -> str:
    """The tables of one size."""
    tables: dict[str, dict[str, dict[str, str]]] = {}
    for title, made in (("strided", strided), ("transpose", transposed), ("records", records)):
        for case in made(total):
            if only not in case.name:
                continue
            ours, numpy, memcpy = measure(case, rounds)
            kind, name = case.name.split("|")
            row, column = kind, name
            if title == "strided":
                size, _, _, far = name.split()
                row, column = f"{size} bytes", f"{kind}, 1 of {int(far) // int(size)}"
            elif title == "transpose":
                row, column = name.split(", ", 1)
            else:
                row, column = name, kind
            text = f"{numpy / ours:.2f} ({memcpy / ours:.0%})"
            tables.setdefault(title, {}).setdefault(row, {})[column] = text
            print(
                f"{case.name} ({case.moved:,} B): {case.moved / ours / 1e9:.2f} GB/s, {text}", file=sys.stderr
            )
            if numpy < ours:
                slower.append(f"{kind} {name} ({case.moved:,} bytes) {numpy / ours:.2f}")
    return "\n".join(table(title, rows) for title, rows in tables.items())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Rules beside NumPy's copies and memcpy.")
    parser.add_argument("--quick", action="store_true", help="small and once: shows that everything works")
    parser.add_argument("--megabytes", type=int, default=32, help="bytes moved per case out of the cache")
    parser.add_argument("--rounds", type=int, default=15, help="how often each acts")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--document", action="store_true", help=f"put the figures into docs/{DOCUMENT.name}")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else arguments.rounds
    totals = [64 << 10] if arguments.quick else [256 << 10, arguments.megabytes << 20]
    slower: list[str] = []
    parts = [
        f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; one thread.\n"
    ]
    for total in totals:
        kept = "in the cache" if total < 4 << 20 else "from memory to memory"
        parts.append(f"### {total >> 10:,} KiB moved, {kept}\n")
        parts.append(figures(total, rounds, arguments.only, slower))
    parts.append(f"{len(slower)} cases below NumPy{': ' if slower else ''}" + "; ".join(slower) + ".")
    text = "\n".join(parts)
    print(text)
    if arguments.document:
        head, rest = DOCUMENT.read_text().split(BEGIN)
        DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
