"""Rules beside NumPy's own copies and memcpy, over element sizes, run lengths and strides.

    .venv/bin/python bench/kernels/run.py [--quick] [--rounds 45] [--document]

Bar: at least NumPy everywhere; 80 % of memcpy for runs of 512 bytes, 50 % for 8-byte transposes of 4096 squared. Every
case lets NumPy, a compiled rule and a copy of as many contiguous bytes act in turn, on one thread, and compares what
both left. In the cache they act between the same buffers; from memory to memory on one pair of many after the other, so
that none is in a cache when its turn comes, nor anything that is still to be written. Ratios are medians over rounds of
what acted one after the other, so that what else the machine does meets both sides; NumPy acts twice a round, and its
ratio to itself says how much of a ratio is noise. Calling a rule or NumPy from Python is in the times. What comes out
below NumPy is measured again on other buffers, and is called slower only if the median of these ratios is below each
that NumPy has to itself on them. Runs are also compared with what loops written by hand reach (limit.c, if there is a C
compiler).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from drystone.rules import Layout, compile

Array = np.ndarray[Any, Any]
DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "benchmarks" / "kernels.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
SIZES = [1, 2, 4, 8, 16, 24, 32, 64, 128, 256, 512, 1024, 4096]
CACHED = 256 << 10
"""Bytes moved per case in the cache."""
PIECE = 8 << 20
"""Bytes moved at once from memory; a destination so large is not kept in caches."""
AGAIN = 5
"""Sets of other buffers on which a case is measured that came out below NumPy."""
PASSED = 384 << 20
"""Bytes of buffers that are walked before one is used again."""
CLEAN = np.ones(48 << 20, "u1").view("u8")
"""Read before each act from memory: what the act before left in caches is written to memory outside of any time."""


@dataclass
class Case:
    """Two views of two buffers: NumPy copies one to the other, the rule does the same."""

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


Cases = dict[tuple[str, str], Callable[[], Case]]
"""What is done, and to what: how a case is made, with buffers of its own."""


def gather(size: int, times: int, total: int) -> Case:
    """Every `times`-th element, to where they follow each other."""
    count, far = total // size, size * times
    wide, dense = np.ones(count * far, "u1"), np.ones(count * size, "u1")
    a, b = elements(wide, size, far, count), elements(dense, size, size, count)
    layouts = Layout.of((count, size), "u1", (far, 1)), Layout.of((count, size), "u1")
    return Case(wide, dense, lambda: np.copyto(b, a), layouts, total)


def scatter(size: int, times: int, total: int) -> Case:
    """The other way."""
    case = gather(size, times, total)
    a, b = (
        elements(buffer, size, stride, total // size)
        for buffer, stride in ((case.target, size), (case.source, size * times))
    )
    return Case(case.target, case.source, lambda: np.copyto(b, a), case.layouts[::-1], total)


def strided(total: int, sizes: list[int]) -> Cases:
    """Gather from and scatter to every `times`-th element."""
    return {
        (what, f"{size} B {word} {size * times}"): partial(act, size, times, total)
        for size in sizes
        for times in (2, 3, 8)
        for what, word, act in (("gather", "of", gather), ("scatter", "to", scatter))
    }


def turned(kind: str, shape: tuple[int, ...]) -> Case:
    """An array with its axes reversed."""
    size = np.dtype(kind).itemsize * int(np.prod(shape))
    source, target = np.ones(size, "u1"), np.ones(size, "u1")
    a, b = source.view(kind).reshape(shape), target.view(kind).reshape(shape)
    layouts = Layout.of(shape, kind, order="F"), Layout.of(shape, kind)
    return Case(source, target, lambda: np.copyto(b, a.T), layouts, size)


def transposed(total: int) -> Cases:
    """Two and three dimensions turned round: sides that fit the cache, or do not."""
    shapes = {"64 squared": (64, 64), "512 squared": (512, 512), "64 cubed, reversed axes": (64, 64, 64)}
    if total > CACHED:
        shapes = {"4096 squared": (4096, 4096), "256 cubed, reversed axes": (256, 256, 256)}
    return {
        ("transpose", f"{np.dtype(kind).itemsize} B, {name}"): partial(turned, kind, shape)
        for kind in ("u1", "u2", "u4", "u8", "c16")
        for name, shape in shapes.items()
    }


def structs(what: str, fields: int, kind: str, total: int) -> Case:
    """One field of structs, or all of them to columns or back."""
    dtype = np.dtype([(f"m{k}", kind) for k in range(fields)])
    count, size = total // dtype.itemsize, np.dtype(kind).itemsize
    whole, columns = np.ones(count * dtype.itemsize, "u1"), np.ones(count * dtype.itemsize, "u1")
    rec, parts = whole.view(dtype), columns.view(kind).reshape(fields, count)
    layout = Layout.of((count,), dtype)
    if what == "one field":
        column = Layout.of((count,), kind, field="m1")
        return Case(
            whole,
            columns[: parts[0].nbytes],
            lambda: np.copyto(parts[0], rec["m1"]),
            (layout, column),
            parts[0].nbytes,
        )
    apart = Layout.of((count,), kind, field="m0")
    for k in range(1, fields):
        apart = apart + Layout.of((count,), kind, field=f"m{k}", offset=k * count * size)

    def split() -> None:
        for k in range(fields):
            np.copyto(parts[k], rec[f"m{k}"])

    def join() -> None:
        for k in range(fields):
            np.copyto(rec[f"m{k}"], parts[k])

    if what == "structs to columns":
        return Case(whole, columns, split, (layout, apart), whole.size)
    return Case(columns, whole, join, (apart, layout), whole.size)


def records(total: int) -> Cases:
    """Structs of several shapes."""
    return {
        (what, f"{fields} fields of {np.dtype(kind).itemsize} B"): partial(structs, what, fields, kind, total)
        for fields, kind in ((3, "f8"), (4, "f4"), (2, "f4"), (8, "f8"), (3, "u2"))
        for what in ("one field", "structs to columns", "columns to structs")
    }


def sets(make: Callable[[], Case], total: int) -> list[Case]:
    """As many sets of buffers as a walk takes that leaves none in the caches; in the cache, one."""
    first = make()
    again = 1 if total <= CACHED else -(-PASSED // (first.source.size + first.target.size))
    return [first, *(make() for _ in range(max(again, 3 if total > CACHED else 1) - 1))]


def fifth(times: list[float]) -> float:
    """The time of the fastest fifth of the rounds: other work on the machine makes times longer, never shorter."""
    return sorted(times)[len(times) // 5]


def in_turn(acts: list[list[Callable[[], object]]], rounds: int, repeat: int) -> list[list[float]]:
    """Seconds of each kind of copy by round, in turn; a kind has a copy per set of buffers, used one by one."""
    times: list[list[float]] = [[] for _ in acts]
    used = 0
    for turn in range(rounds):
        for k in ((turn + n) % len(acts) for n in range(len(acts))):
            act = acts[k][used % len(acts[k])]
            used += 1
            if len(acts[k]) > 1:
                CLEAN.sum()
            begin = time.perf_counter()
            for _ in range(repeat):
                act()
            times[k].append((time.perf_counter() - begin) / repeat)
    return times


def times_as_fast(ours: list[float], theirs: list[float]) -> float:
    """The median over rounds of how many times as fast the first is."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


@dataclass
class Measured:
    """Seconds of the rule, how many times as fast it is as NumPy and as memcpy, and NumPy as itself."""

    seconds: float
    numpy: float
    memcpy: float
    itself: float


@dataclass
class Verdict:
    """The verdict over all cases: slower than NumPy, as fast within noise, and NumPy's ratios to itself."""

    slower: list[str]
    level: list[str]
    noise: list[float]

    def judged(self, case: str, make: Callable[[], Case], total: int, rounds: int) -> tuple[Case, Measured]:
        """The measurement of a case; if it is below NumPy, its medians over other buffers instead."""
        pairs = sets(make, total)
        first = measure(pairs, rounds)
        self.noise.append(first.itself)
        if first.numpy >= 1:
            return pairs[0], first
        # The buffers of before are kept until the end, so that none of these lies where they do.
        others = [sets(make, total) for _ in range(AGAIN)]
        again = [measure(other, rounds) for other in others]
        found = Measured(
            *(
                statistics.median(getattr(one, what) for one in again)
                for what in ("seconds", "numpy", "memcpy", "itself")
            )
        )
        least = min(min(one.itself, 1 / one.itself) for one in again)
        if found.numpy < 1:
            case = f"{case} ({pairs[0].moved:,} bytes) {found.numpy:.3f} (NumPy itself {least:.3f})"
            (self.slower if found.numpy < least else self.level).append(case)
        return pairs[0], found


def measure(cases: list[Case], rounds: int) -> Measured:
    """The rule, NumPy, memcpy and NumPy again in turn, with several sets of buffers."""
    case = cases[0]
    rule = compile(*case.layouts)
    case.source[...] = np.random.default_rng(1).integers(0, 255, case.source.size, "u1")
    case.target[...] = 7
    case.numpy()
    expected = case.target.copy()
    case.target[...] = 7
    rule.apply(case.source, case.target)
    if not np.array_equal(case.target, expected):
        raise SystemExit(f"{case.layouts}: the rule left something else than NumPy")
    length = min(case.moved, case.source.size, case.target.size)
    acts: list[list[Callable[[], object]]] = [
        [lambda c=c: rule.apply(c.source, c.target) for c in cases],
        [c.numpy for c in cases],
        [lambda c=c: np.copyto(c.target[:length], c.source[:length]) for c in cases],
        [c.numpy for c in cases],
    ]
    turns = max(rounds, min(20 * rounds, rounds * (1 << 20) // case.moved)) if len(cases) == 1 else rounds
    ours, numpy, memcpy, again = in_turn(acts, turns, max(1, (1 << 20) // case.moved))
    ratios = (times_as_fast(*pair) for pair in ((ours, numpy), (ours, memcpy), (numpy, again)))
    return Measured(fifth(ours), *ratios)


def limits(total: int, rounds: int) -> str:
    """Runs that lie apart: the rule, and the best of the loops written by hand, beside memcpy."""
    compiler = shutil.which("cc")
    if compiler is None:
        return "No C compiler here: the loops written by hand were left out.\n"
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "limit.so"
        source = Path(__file__).parent / "limit.c"
        subprocess.run(
            [compiler, "-O2", "-march=native", "-shared", "-fPIC", source, "-o", built], check=True
        )
        loops = ctypes.CDLL(str(built))
        ways = {
            "gather": (
                *("gather_past", "gather_plain", "gather_string", "gather_memcpy"),
                *("gather_lines", "gather_abreast", "gather_registers"),
            ),
            "scatter": ("scatter_owned", "scatter_past", "scatter_memcpy", "scatter_registers"),
        }
        rows: dict[str, dict[str, str]] = {}
        for (kind, name), make in strided(total, [128, 256, 512, 1024, 4096]).items():
            run, _, _, far = name.split()
            cases = sets(make, total)
            case, rule = cases[0], compile(*cases[0].layouts)
            count, size, apart = total // int(run), int(run), int(far)
            case.source[...] = np.random.default_rng(2).integers(0, 255, case.source.size, "u1")
            case.target[...] = 7
            case.numpy()
            expected = case.target.copy()
            acts: list[list[Callable[[], object]]] = [
                [lambda c=c, rule=rule: rule.apply(c.source, c.target) for c in cases],
                [lambda c=c: np.copyto(c.target[:total], c.source[:total]) for c in cases],
            ]
            for way in ways[kind]:
                for ahead in (2, 8):
                    arguments = [
                        (
                            c.source.ctypes.data,
                            c.target.ctypes.data,
                            *map(ctypes.c_size_t, (count, size, apart, ahead)),
                        )
                        for c in cases
                    ]
                    loop = getattr(loops, way)
                    acts.append(
                        [
                            lambda loop=loop, a=a: loop(ctypes.c_void_p(a[0]), ctypes.c_void_p(a[1]), *a[2:])
                            for a in arguments
                        ]
                    )
            for act in (acts[0], *acts[2:]):
                case.target[...] = 7
                act[0]()
                if not np.array_equal(case.target, expected):
                    raise SystemExit(f"{kind} {name}: a loop left something else than NumPy")
            turns = in_turn(acts, rounds, max(1, (1 << 20) // total))
            ours, memcpy, *best = (fifth(times) for times in turns)
            column = f"{kind}, 1 of {apart // size}"
            rows.setdefault(f"{size} bytes", {})[column] = f"{memcpy / ours:.0%} ({memcpy / min(best):.0%})"
            print(f"{kind} {name}, beside the limit: {rows[f'{size} bytes'][column]}", file=sys.stderr)
    return table("runs", rows)


def table(title: str, rows: dict[str, dict[str, str]]) -> str:
    """Lines by what is moved, columns by how it lies."""
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    lines = [f"| {title} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, cells in rows.items():
        lines.append(f"| {name} | " + " | ".join(cells.get(column, "") for column in columns) + " |")
    return "\n".join([*lines, ""])


def figures(total: int, rounds: int, only: str, verdict: Verdict) -> str:
    """The tables of one size; adds to the verdict."""
    tables: dict[str, dict[str, dict[str, str]]] = {}
    made = {"strided": strided(total, SIZES), "transpose": transposed(total), "records": records(total)}
    for title, cases in made.items():
        for (kind, name), make in cases.items():
            if only not in f"{kind} {name}":
                continue
            case, found = verdict.judged(f"{kind} {name}", make, total, rounds)
            row, column = name, kind
            if title == "strided":
                size, _, _, far = name.split()
                row, column = f"{size} bytes", f"{kind}, 1 of {int(far) // int(size)}"
            elif title == "transpose":
                row, column = name.split(", ", 1)
            text = f"{found.numpy:.2f} ({found.memcpy:.0%})"
            tables.setdefault(title, {}).setdefault(row, {})[column] = text
            pace = case.moved / found.seconds / 1e9
            print(f"{kind} {name} ({case.moved:,} B): {pace:.2f} GB/s, {text}", file=sys.stderr)
    return "\n".join(table(title, rows) for title, rows in tables.items())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Rules beside NumPy's copies and memcpy.")
    parser.add_argument("--quick", action="store_true", help="small and once: shows that everything works")
    parser.add_argument("--rounds", type=int, default=45, help="how often each acts")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument(
        "--document", action="store_true", help=f"put the figures into docs/benchmarks/{DOCUMENT.name}"
    )
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else arguments.rounds
    verdict = Verdict([], [], [])
    parts = [
        f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; one thread.\n"
    ]
    parts.append(f"### {CACHED >> 10:,} KiB moved, in the cache\n")
    parts.append(figures(CACHED, rounds, arguments.only, verdict))
    if not arguments.quick:
        parts.append(f"### {PIECE >> 20:,} MiB moved at once, from memory to memory\n")
        parts.append(figures(PIECE, rounds, arguments.only, verdict))
    parts.append("### Separate runs, beside the best loop written by hand\n")
    parts.append(
        "Speed as a fraction of `memcpy`'s: the rule, and in brackets the fastest of the loops in "
        "`bench/kernels/limit.c`.\n"
    )
    parts += ["In the cache:\n", limits(CACHED, rounds)]
    if not arguments.quick:
        parts += ["From memory to memory:\n", limits(PIECE, rounds)]
    tenth = statistics.quantiles(verdict.noise * 2, n=20)
    parts.append(f"NumPy beside itself: from {tenth[0]:.2f} to {tenth[-1]:.2f} in nine of ten cases.\n")
    for what, named in (("below NumPy", verdict.slower), ("below it by no more than itself", verdict.level)):
        parts.append(f"{len(named)} cases {what}{': ' if named else ''}" + "; ".join(named) + ".\n")
    text = "\n".join(parts).rstrip()
    print(text)
    if arguments.document:
        head, rest = DOCUMENT.read_text().split(BEGIN)
        DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
