"""Shared by the ranks of an MPI program: calls that begin together, their costs, and comparisons on every rank."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import Cost, Meter

WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
URL = os.environ.get("ASGARD_URL")
"""Where Drystone's containers lie, if not in the folder of the others' files: then only MPI-IO stands beside them."""


def wire() -> int:
    """Bytes that this network namespace's loopback has received."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    return int(next(line for line in lines if line.strip().startswith("lo:")).split(":")[1].split()[0])


def together(act: Callable[[], object]) -> dict[str, float]:
    """Let all ranks act at once; the cost from the first begin to the last end, the same on every rank."""
    before = wire()
    WORLD.Barrier()
    with Meter() as meter:
        act()
    meters: list[Meter] = WORLD.allgather(meter)
    total = sum((m.cost for m in meters), Cost())
    total = total.within(max(m.end for m in meters) - min(m.begin for m in meters))
    return asdict(total) | {"wire": WORLD.bcast(wire() - before)}


def container_at(folder: Path, name: str) -> Path | str:
    """Where a container of Drystone's lies."""
    return f"{URL}/{name}" if URL else folder / name


def remove(container: Path | str) -> None:
    """Remove a container; one at a URL is overwritten by the next case."""
    WORLD.Barrier()
    if isinstance(container, Path):
        on_first(lambda: shutil.rmtree(container))


def all_agree(good: bool, what: str) -> None:
    """End the run on every rank if one of them found a wrong value."""
    if not WORLD.allreduce(bool(good), MPI.LAND):
        raise SystemExit(f"{what}: a value is not what was written; the benchmark is void")


def sync(path: Path) -> None:
    """Bring what anyone wrote to a file to the device."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def on_first(act: Callable[[], object]) -> None:
    """Let rank 0 act while the others wait."""
    if RANK == 0:
        act()
    WORLD.Barrier()


def same_bits(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    """Equal in shape, type and every value."""
    return found.shape == expected.shape and found.dtype == expected.dtype and np.array_equal(found, expected)
