"""What the framework costs a checkpoint that does not use it: `identity` against no transform, by number of ranks.

The bar: CPU time within 3 %. Each rank is a process that writes one block of a shared step; what counts is the CPU time
of put and close, summed over ranks, the median of alternating rounds. Values are read back and compared once per case.

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


def writes(rank: int, nranks: int, edge: int, paths: Any, start: Any, times: Any) -> None:
    """One rank: for each container it is told of, waits for the others, writes its block, tells its CPU time."""
    block = field(edge, seed=rank)
    while (path := paths.get()) is not None:
        with dry.open(path, mode="r+") as container:
            writer = container.writer(rank=rank, nranks=nranks)
            start.wait()
            begin = time.process_time()
            with writer.step():
                writer.put("t", block, offset=(rank * edge, 0, 0))
            writer.close()
            taken = time.process_time() - begin
        times.put(taken)


class Team:
    """Processes that write one block each of every checkpoint."""

    def __init__(self, folder: Path, nranks: int, edge: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.folder, self.nranks, self.edge = folder, nranks, edge
        self.paths = [context.Queue() for _ in range(nranks)]
        self.times = context.Queue()
        # Kept until all processes have taken it up.
        self.start = context.Barrier(nranks)
        self.ranks = [
            context.Process(
                target=writes, args=(rank, nranks, edge, self.paths[rank], self.start, self.times)
            )
            for rank in range(nranks)
        ]
        for process in self.ranks:
            process.start()

    def end(self) -> None:
        """Lets all ranks go home."""
        for paths in self.paths:
            paths.put(None)
        for process in self.ranks:
            process.join()

    def checkpoint(self, transform: str | None, check: bool) -> float:
        """CPU seconds of all ranks for one step."""
        path, edge = self.folder / "c.dry", self.edge
        with dry.create(path) as container:
            shape = (self.nranks * edge, edge, edge)
            container.create_variable("t", "f8", shape, steps=True, transform=transform)
        for paths in self.paths:
            paths.put(str(path))
        total = sum(self.times.get(timeout=60) for _ in self.ranks)
        if check:
            with dry.open(path, mode="r+") as container:
                container.commit()
                for rank in range(self.nranks):
                    where = {"offset": (rank * edge, 0, 0), "count": (edge, edge, edge)}
                    if not np.array_equal(container["t"].read(step=0, **where), field(edge, seed=rank)):
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
            team = Team(folder, nranks, arguments.edge)
            pairs: list[tuple[float, float]] = []
            for turn in range(arguments.rounds + 1):
                cases: list[str | None] = [None, "identity"]
                found = {}
                for case in cases if turn % 2 else reversed(cases):
                    found[case] = team.checkpoint(case, check=turn == 0)
                if turn:
                    pairs.append((found[None], found["identity"]))
            team.end()
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
