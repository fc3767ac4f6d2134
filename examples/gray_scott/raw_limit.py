"""The limit for every figure: the same bytes through plain files and through memcpy, in the same process.

A store cannot be faster than the device it writes to. So its cost is given in comparison with a file written and read
by plain system calls, at the same time, on the same file system, with the same syncs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

PIECE = (
    1 << 20
)  # bytes per system call; larger calls are slower on some kernels, smaller ones cost more calls


def write_plain(path: Path, parts: list[npt.NDArray[np.generic]], sync: bool) -> float:
    """Write contiguous `parts` to a new file, one after another, and sync it if asked; return the seconds."""
    start = time.perf_counter()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        for part in parts:
            view = part.data.cast("B")
            while view:
                view = view[os.write(descriptor, view[:PIECE]) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return time.perf_counter() - start


def read_plain(path: Path, buffer: npt.NDArray[np.uint8], offset: int = 0) -> float:
    """Fill `buffer` from the file at `offset`; return the seconds."""
    start = time.perf_counter()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        view = buffer.data
        while view:
            got = os.preadv(descriptor, [view[:PIECE]], offset)
            if got == 0:
                raise EOFError(
                    f"{path} ends at byte {offset}, {len(view)} bytes before the end of what was asked for"
                )
            offset += got
            view = view[got:]
    finally:
        os.close(descriptor)
    return time.perf_counter() - start


def copy(destination: npt.NDArray[np.uint8], source: npt.NDArray[np.uint8]) -> float:
    """Copy memory; return the seconds."""
    start = time.perf_counter()
    np.copyto(destination, source)
    return time.perf_counter() - start


def evict(*paths: Path) -> None:
    """Drop files, and everything in folders, from the page cache, so that the next read goes to the device."""
    for path in paths:
        for file in [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]:
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
