"""The strided kernel by puts: `mpiexec -n N python bench/posix/native.py CONTAINER BLOCKS SIZE`; prints seconds."""

from __future__ import annotations

import sys
import time

import drystone as dry
import numpy as np
from mpi4py import MPI


def main() -> None:
    """Every rank puts its blocks into one step; the last one commits."""
    path, blocks, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    world = MPI.COMM_WORLD
    block = np.random.default_rng(world.rank).integers(0, 256, size, "u1")
    container = dry.open(path, mode="r+")
    world.Barrier()
    begun = time.perf_counter()
    with container.writer(rank=world.rank, nranks=world.size) as writer, writer.step():
        for number in range(world.rank, blocks, world.size):
            writer.put("v", block[None], offset=(number, 0))
    world.Barrier()
    if world.rank == 0:
        container.commit()
    seconds = world.allreduce(time.perf_counter() - begun, MPI.MAX)
    if world.rank == 0:
        print(f"{seconds:.6f}")
    container.close()


main()
