"""What float64 read as float32 costs on a link: bytes that move, and time, beside the float64 values themselves.

    sudo .venv/bin/python bench/derived/transfer.py [--edge N] [--rounds N]

The bar: half of the bytes, and at most 0.6 of the time, at 1 Gbit/s. A server on this machine keeps four blocks, each a
cube, raw and with `shuffle,zstd:1` on values of three digits. Reader and server share a network namespace whose
loopback is a token bucket, and counts bytes. One handle reads all of them, and a plane across the stored order, in turn
as float64 and as float32; every value is compared. It prints the table of docs/benchmarks/derived.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import drystone as dry
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "bench" / "ceph")]
from link import enter, limit, received  # noqa: E402
from server_rig import ALL, Server  # noqa: E402

LINKS = {"1 Gbit/s": "1gbit", "100 Mbit/s": "100mbit"}
BLOCKS = 4
STORED = {"raw": None, "shuffle,zstd:1": "shuffle,zstd:1"}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edge", type=int, default=128, help="cells along each axis of the cube")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    said = parser.parse_args()
    enter(__file__, said.inside)
    shape = (BLOCKS * said.edge, said.edge, said.edge)
    values = np.round(np.random.default_rng(34).normal(size=shape), 3)
    boxes = {
        "all": ((0, 0, 0), shape),
        "a plane": ((0, 0, said.edge // 2), (shape[0], said.edge, 1)),
    }
    print("| stored | link | read | as float64 | as float32 | bytes | time |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="drystone-transfer-") as made:
        folder = Path(made)
        with dry.create(folder / "run42.dry") as c:
            for number, transform in enumerate(STORED.values()):
                c.create_variable(f"v{number}", "f8", shape=shape, transform=transform)
                with c.writer(rank=0, nranks=1) as w:
                    for first in range(0, shape[0], said.edge):
                        w.put(f"v{number}", values[first : first + said.edge], offset=(first, 0, 0))
        server = Server(folder)
        token = server.token(*ALL)
        for number, stored in enumerate(STORED):
            for name, rate in LINKS.items():
                limit(rate)
                for what, box in boxes.items():
                    with dry.open(f"{server.url}/run42", token=token) as c:
                        print(
                            row(c[f"v{number}"], values, box, said.rounds, [stored, name, what]), flush=True
                        )
                limit("")
        server.stop()
    print(f"\n{BLOCKS} blocks of {said.edge}^3, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}.")


Box = tuple[tuple[int, ...], tuple[int, ...]]


def row(v: dry.Variable, values: np.ndarray, box: Box, rounds: int, head: list[str]) -> str:
    """One line: the median of rounds in which both are read in turn, after one that finds tables and rates."""
    offset, count = box
    part = tuple(slice(o, o + n) for o, n in zip(offset, count, strict=True))
    times: dict[str, list[float]] = {"f8": [], "f4": []}
    moved: dict[str, list[int]] = {"f8": [], "f4": []}
    for turn in range(rounds + 1):
        for dtype in times:
            before, began = received(), time.perf_counter()
            found = v.read(offset=offset, count=count, dtype="f4" if dtype == "f4" else None)
            seconds = time.perf_counter() - began
            if turn > 0:
                times[dtype].append(seconds)
                moved[dtype].append(received() - before)
            if not np.array_equal(found, values[part].astype(dtype)):
                raise SystemExit(f"{head}: a value is not what was written, as {dtype}")
    wide, narrow = median(times["f8"]), median(times["f4"])
    many, few = median(moved["f8"]), median(moved["f4"])
    cells = [f"{wide * 1e3:.0f} ms, {many / 1e6:.2f} MB", f"{narrow * 1e3:.0f} ms, {few / 1e6:.2f} MB"]
    return f"| {' | '.join([*head, *cells, f'{few / many:.3f}', f'{narrow / wide:.2f}'])} |"


if __name__ == "__main__":
    main()
