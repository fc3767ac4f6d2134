"""What does the framework cost a checkpoint that does not use it? `identity` against no transform, by number of ranks.

The bar: CPU time within 3 %. Each rank is a process that writes one block of a shared step; what counts is the CPU time of
put and close, summed over ranks, the median of alternating rounds. Values are read back and compared once per case.

    .venv/bin/python bench/transforms/overhead.py --edge 128 --rounds 20 --ranks 1 2 4
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import drystone as dry
import numpy as np
from field import field


def write(path: str, rank: int, nranks: int, edge: int, start: Any, times: Any) -> None:
    """One rank: waits for the others, writes its block, tells its CPU time."""
    block = field(edge, seed=rank)
    with dry.open(path, mode="r+") as container:
        writer = container.writer(rank=rank, nranks=nranks)
        start.wait()
        begin = time.process_time()
        with writer.step():
            writer.put("t", block, offset=(rank * edge, 0, 0))
        writer.close()
        times.put(time.process_time() - begin)


def checkpoint(folder: Path, transform: str | None, nranks: int, edge: int, check: bool) -> float:
    """CPU seconds of all ranks for one step."""
    path = folder / "c.dry"
    with dry.create(path) as container:
        container.create_variable("t", "f8", (nranks * edge, edge, edge), steps=True, transform=transform)
    context = multiprocessing.get_context("spawn")
    start, times = context.Barrier(nranks), context.Queue()
    ranks = [
        context.Process(target=write, args=(str(path), rank, nranks, edge, start, times))
        for rank in range(nranks)
    ]
    for process in ranks:
        process.start()
    total = sum(times.get() for _ in ranks)
    for process in ranks:
        process.join()
    if check:
        with dry.open(path, mode="r+") as container:
            container.commit()
            for rank in range(nranks):
                found = container["t"].read(step=0, offset=(rank * edge, 0, 0), count=(edge, edge, edge))
                if not np.array_equal(found, field(edge, seed=rank)):
                    raise SystemExit(f"{transform}: rank {rank} reads other values than it wrote")
    shutil.rmtree(path)
    return total


def main() -> None:
    """One line per number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edge", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    arguments = parser.parse_args()
    print(f"{arguments.edge}^3 doubles per rank, median of {arguments.rounds} rounds in turn\n")
    print("| ranks | none, CPU ms | identity, CPU ms | ratio | spread of the ratio |")
    print("|---|---|---|---|---|")
    folder = Path(tempfile.mkdtemp(prefix="drystone-bench-"))
    try:
        for nranks in arguments.ranks:
            pairs: list[tuple[float, float]] = []
            for turn in range(arguments.rounds + 1):
                cases: list[str | None] = [None, "identity"]
                found = {}
                for case in cases if turn % 2 else reversed(cases):
                    found[case] = checkpoint(folder, case, nranks, arguments.edge, check=turn == 0)
                if turn:
                    pairs.append((found[None], found["identity"]))
            none, identity = (median(pair[i] for pair in pairs) for i in (0, 1))
            ratios = sorted(b / a for a, b in pairs)
            middle = f"{ratios[len(ratios) // 4]:.3f} to {ratios[3 * len(ratios) // 4]:.3f}"
            print(
                f"| {nranks} | {none * 1e3:.1f} | {identity * 1e3:.1f} | {identity / none:.3f} | {middle} |",
                flush=True,
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
