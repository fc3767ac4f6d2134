"""Plain files, as fast as system calls allow: the limit every engine is held against."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

PIECE = 1 << 20  # larger writes measured 4 to 5 times slower on some systems

Array = npt.NDArray[np.generic]


def write_all(descriptor: int, array: Array) -> None:
    """Write a contiguous array where the file stands."""
    view = array.reshape(-1).view(np.uint8).data
    while view:
        view = view[os.write(descriptor, view[:PIECE]) :]


def write_file(path: Path, arrays: Iterable[Array], *, sync: bool) -> None:
    """Write contiguous arrays after each other into a new file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        for array in arrays:
            write_all(descriptor, array)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_at(descriptor: int, offset: int, array: Array) -> None:
    """Fill a contiguous array from a place in the file."""
    view = array.reshape(-1).view(np.uint8).data
    while view:
        got = os.preadv(descriptor, [view[: 8 * PIECE]], offset)
        if got == 0:
            raise EOFError(f"the file ends at byte {offset}, {len(view)} bytes too early")
        offset += got
        view = view[got:]


def read_file(path: Path, arrays: Iterable[Array]) -> None:
    """Fill contiguous arrays from the beginning of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        offset = 0
        for array in arrays:
            read_at(descriptor, offset, array)
            offset += array.nbytes
    finally:
        os.close(descriptor)


def read_part(
    descriptor: int, offset: int, shape: tuple[int, ...], part: tuple[slice, ...], out: Array, scratch: Array
) -> None:
    """Fill `out` with a part of a row-major array of `shape` that begins at `offset` in a file.

    Reads the shortest contiguous range that holds the part, straight into `out` where it is the same bytes, else
    through `scratch`.
    """
    stride = out.itemsize
    strides = []
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride *= extent
    first = sum(s.start * step for s, step in zip(part, strides, strict=True))
    length = out.itemsize + sum((s.stop - s.start - 1) * step for s, step in zip(part, strides, strict=True))
    if length == out.nbytes and out.flags.c_contiguous:
        read_at(descriptor, offset + first, out)
        return
    hull = scratch.reshape(-1).view(np.uint8)[:length]
    read_at(descriptor, offset + first, hull)
    counts = [s.stop - s.start for s in part]
    out[...] = np.lib.stride_tricks.as_strided(
        hull[: length // out.itemsize * out.itemsize].view(out.dtype), counts, strides, writeable=False
    )
