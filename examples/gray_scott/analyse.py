"""Read a restarted run as an analyst would; compare every value with an uninterrupted run and with `.npy` files.

    python analyse.py restarted.dry --reference reference.dry --truth truth/ --figure out.png --report out.json

Reads planes across each axis, one point through time, a subvolume and a strided one, and every step whole. Each result
must equal, bit for bit, the uninterrupted run's container and the ground truth. For comparison, this process also
measures reading the same values from the `.npy` file, and copying as many bytes in memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import drystone as dry
import figure
import ground_truth
import numpy as np
import numpy.typing as npt
import raw_limit
from units import duration, rate, size

REPEATS = 5  # of the warm accesses; the best counts


@dataclass(frozen=True)
class Figure:
    """The cost of one access, and of the same bytes without a container."""

    access: str
    bytes: int
    container_s: float
    plain_s: float
    memcpy_s: float


class Mismatch(Exception):
    """Two values that must be equal differ."""


def main() -> int:
    """Compare, measure, draw; 0 if all bits agree, 1 if not, 2 if the input cannot be read."""
    arguments = parser().parse_args()
    try:
        with dry.open(arguments.restarted) as restarted, dry.open(arguments.reference) as reference:
            check_inventory(restarted, reference, arguments.truth)
            point = brightest(restarted)
            # Whole steps come first: reading cold drops both from the page cache.
            figures = [whole_steps(restarted, reference, arguments.truth)]
            figures += [cold_read(arguments.restarted, arguments.truth)]
            for name, index in accesses(restarted["V"].shape, point):
                figures.append(compare(name, index, restarted, reference, arguments.truth))
            print_table(figures)
            figure.draw(arguments.figure, restarted, point, arguments.restarted_at)
            print(f"figure: {arguments.figure}")
    except Mismatch as mismatch:
        print(f"analyse: MISMATCH: {mismatch}", file=sys.stderr)
        return 1
    except (dry.DrystoneError, OSError, ValueError) as error:
        print(f"analyse: {error}", file=sys.stderr)
        return 2
    if arguments.report is not None:
        arguments.report.write_text(json.dumps([asdict(row) for row in figures], indent=1) + "\n")
    return 0


def accesses(shape: tuple[int, ...], point: tuple[int, int, int]) -> list[tuple[str, tuple[Any, ...]]]:
    """Name and index of an analyst's accesses; the first axis is the step."""
    _, nz, ny, nx = shape
    z, y, x = point
    box = tuple(slice(n // 3, n // 3 + max(n // 4, 1)) for n in (nz, ny, nx))
    every = slice(None)
    return [
        ("plane across z", (-1, z, every, every)),
        ("plane across y", (-1, every, y, every)),
        ("plane across x", (-1, every, every, x)),
        ("point through time", (every, z, y, x)),
        ("subvolume", (-1, *box)),
        ("every 4th cell", (-1, slice(None, None, 4), slice(None, None, 4), slice(None, None, 4))),
        ("plane through time", (every, z, every, every)),
    ]


def check_inventory(restarted: dry.Container, reference: dry.Container, truth: Path) -> None:
    """Check that all three have the same steps of the same variables, shapes and types."""
    if list(restarted.steps) != list(reference.steps):
        raise Mismatch(f"steps {list(restarted.steps)} after the restart, {list(reference.steps)} without")
    for name in ("U", "V"):
        expected = ground_truth.load(truth, name)
        for which, container in (("restarted", restarted), ("reference", reference)):
            variable = container[name]
            if (tuple(variable.shape), np.dtype(variable.dtype)) != (expected.shape, expected.dtype):
                raise Mismatch(
                    f"{name} is {variable.shape} of {variable.dtype} in the {which} run, "
                    f"{expected.shape} of {expected.dtype} in the ground truth"
                )


def compare(
    name: str, index: tuple[Any, ...], restarted: dry.Container, reference: dry.Container, truth: Path
) -> Figure:
    """One access to V: compares its values with both others, and measures it."""
    variable = restarted["V"]
    got = np.asarray(variable[index])
    expect_equal(
        got,
        np.asarray(reference["V"][index]),
        f"{name}: V of the restarted run, and of the uninterrupted one",
    )
    expect_equal(
        got,
        np.asarray(ground_truth.load(truth, "V")[index]),
        f"{name}: V of the restarted run, and the ground truth",
    )
    seconds = best(lambda: timed(lambda: variable[index]))
    plain = best(lambda: timed(lambda: np.array(ground_truth.load(truth, "V")[index])))
    return Figure(name, got.nbytes, seconds, plain, copied(got.nbytes))


def whole_steps(restarted: dry.Container, reference: dry.Container, truth: Path) -> Figure:
    """Read every step of both variables, whole, into the caller's buffer, and measure all of them together.

    Both are warm: the container is still in the page cache from writing, the ground truth from the comparison.
    """
    total, seconds, plain, memcpy = 0, 0.0, 0.0, 0.0
    for name in ("U", "V"):
        expected = ground_truth.load(truth, name)
        out, other = (np.empty(expected.shape[1:], expected.dtype) for _ in range(2))
        for step in range(len(expected)):
            start = time.perf_counter()
            restarted[name].read(step=step, offset=(0, 0, 0), count=out.shape, out=out)
            seconds += time.perf_counter() - start
            reference[name].read(step=step, offset=(0, 0, 0), count=out.shape, out=other)
            expect_equal(out, other, f"step {step} of {name}: the restarted run, and the uninterrupted one")
            expect_equal(
                out,
                np.asarray(expected[step]),
                f"step {step} of {name}: the restarted run, and the ground truth",
            )
            total += out.nbytes
            plain += timed(lambda: np.copyto(other, ground_truth.load(truth, name)[step]))  # noqa: B023
            memcpy += copied(out.nbytes, repeats=1)
    return Figure("all steps, warm", total, seconds, plain, memcpy)


def cold_read(container: Path, truth: Path) -> Figure:
    """Read both variables' last step from the device, with the files dropped from the page cache; opening included."""
    files = [ground_truth.path_of(truth, name) for name in ("U", "V")]
    expected = [ground_truth.load(truth, name) for name in ("U", "V")]
    one = expected[0][-1].nbytes
    buffers = [np.empty(array.shape[1:], array.dtype) for array in expected]
    raw = np.empty(one, np.uint8)
    raw.fill(1)
    for buffer in buffers:
        buffer.fill(0)
    header = files[0].stat().st_size - expected[0].nbytes
    last = (len(expected[0]) - 1) * one + header
    del expected
    raw_limit.evict(container, *files)
    start = time.perf_counter()
    with dry.open(container) as cold:
        for name, buffer in zip(("U", "V"), buffers, strict=True):
            cold[name].read(step=cold.steps[-1], offset=(0, 0, 0), count=buffer.shape, out=buffer)
    seconds = time.perf_counter() - start
    plain = sum(raw_limit.read_plain(file, raw, last) for file in files)
    memcpy = 2 * raw_limit.copy(raw, buffers[0].reshape(-1).view(np.uint8))
    for name, buffer in zip(("U", "V"), buffers, strict=True):
        expect_equal(
            buffer,
            np.asarray(ground_truth.load(truth, name)[-1]),
            f"last step of {name}, read cold, and the ground truth",
        )
    return Figure("last step, cold", 2 * one, seconds, plain, memcpy)


def copied(count: int, repeats: int = REPEATS) -> float:
    """Seconds to copy as many bytes in memory."""
    source, destination = np.ones(count, np.uint8), np.ones(count, np.uint8)
    return best(lambda: raw_limit.copy(destination, source), repeats)


def brightest(container: dry.Container) -> tuple[int, int, int]:
    """The cell of the middle plane where V is largest in the last step."""
    _, nz, _, _ = container["V"].shape
    plane = np.asarray(container["V"][-1, nz // 2])
    y, x = np.unravel_index(int(plane.argmax()), plane.shape)
    return nz // 2, int(y), int(x)


def expect_equal(got: npt.NDArray[Any], expected: npt.NDArray[Any], what: str) -> None:
    """Check that shape, type and bits are equal."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise Mismatch(f"{what}: {got.shape} of {got.dtype} and {expected.shape} of {expected.dtype}")
    bits = f"u{got.dtype.itemsize}"
    different = np.ascontiguousarray(got).view(bits) != np.ascontiguousarray(expected).view(bits)
    if different.any():
        first = tuple(int(i) for i in np.argwhere(different)[0])
        raise Mismatch(
            f"{what}: {different.sum()} of {got.size} values differ, first at {first}: {got[first]!r} and {expected[first]!r}"
        )


def timed(action: Callable[[], object]) -> float:
    """Seconds that `action` took."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def best(measure: Callable[[], float], repeats: int = REPEATS) -> float:
    """The shortest of several measurements."""
    return min(measure() for _ in range(repeats))


def print_table(figures: list[Figure]) -> None:
    """Measures every access, and compares all of its values."""
    head = ("access", "bytes", "Drystone", "", ".npy file", "", "memcpy", "")
    rows = [
        (
            row.access,
            size(row.bytes),
            *(
                text
                for seconds in (row.container_s, row.plain_s, row.memcpy_s)
                for text in (duration(seconds), rate(row.bytes, seconds))
            ),
        )
        for row in figures
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        print(
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        )


def parser() -> argparse.ArgumentParser:
    """Parse the command line."""
    options = argparse.ArgumentParser(prog="analyse", description=(__doc__ or "").split("\n")[0])
    options.add_argument(
        "restarted", type=Path, help="the container of the run that was killed and restarted"
    )
    options.add_argument(
        "--reference", type=Path, required=True, help="the container of the uninterrupted run"
    )
    options.add_argument("--truth", type=Path, required=True, help="the folder of U.npy and V.npy")
    options.add_argument("--figure", type=Path, required=True, help="where to draw the PNG")
    options.add_argument(
        "--restarted-at", type=int, default=None, help="the step the restart went on from, for the figure"
    )
    options.add_argument("--report", type=Path, default=None, help="also write the figures as JSON")
    return options


if __name__ == "__main__":
    sys.exit(main())
