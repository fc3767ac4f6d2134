"""Chunks of a file, decoded beside each other: HDF5 decodes one after another, and zarr asks Python much about each.

Of HDF5 those are taken whose filters our codecs know (shuffle, deflate, bzip2, Zstandard), and numbers of fixed size; whatever is unusual about a
chunk (not there, a filter left out, damage) is left to the library of the format, which reads it or says what is wrong.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone import _core
from drystone.commands.formats import Box, native
from drystone.errors import DrystoneError

_SHUFFLE = 2
_CODERS = {1: "zlib", 307: "bzip2", 32015: "zstd"}
_LARGEST = 16 << 20
_MODE_CODED = b"\x1f"


def pool() -> ThreadPoolExecutor:
    """Threads that decode: as many as there are processors, at most 4."""
    return ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="drystone-chunks")


Chunk = npt.NDArray[Any]
Read = Callable[[Box], npt.NDArray[Any]]


def by_chunks(
    edges: tuple[int, ...],
    dtype: np.dtype[Any],
    threads: ThreadPoolExecutor,
    decoded: Callable[[tuple[int, ...]], Chunk | None],
    itself: Read,
) -> Read:
    """What reads a box from the chunks that it meets, by their first cells; those that are not `decoded` by the library `itself`."""

    def read(box: Box) -> npt.NDArray[Any]:
        out = np.empty([part.stop - part.start for part in box], dtype)

        def fill(start: tuple[int, ...]) -> None:
            common = [
                slice(max(part.start, first), min(part.stop, first + n))
                for part, first, n in zip(box, start, edges, strict=True)
            ]
            place = tuple(
                slice(c.start - p.start, c.stop - p.start) for c, p in zip(common, box, strict=True)
            )
            chunk = decoded(start)
            if chunk is None:
                out[place] = itself(tuple(common))
            else:
                own = tuple(slice(c.start - f, c.stop - f) for c, f in zip(common, start, strict=True))
                out[place] = chunk[own]

        firsts = [range(part.start // n * n, part.stop, n) for part, n in zip(box, edges, strict=True)]
        list(threads.map(fill, itertools.product(*firsts)))
        return out

    return read


def reader(dataset: Any, threads: ThreadPoolExecutor) -> Read | None:
    """What reads a box of an h5py dataset by its chunks; None where HDF5 itself is to do it."""
    dtype = np.dtype(dataset.dtype.str)
    chain = _chain(dataset, dtype) if dataset.chunks and dtype.kind in "iufc" else None
    nbytes = math.prod(dataset.chunks or ()) * dtype.itemsize
    if chain is None or nbytes > _LARGEST:
        return None
    # Our stored form of a chain: a mode byte, then the length between each codec and the next.
    head = _MODE_CODED + nbytes.to_bytes(4, "little") * chain.count(",")

    def decoded(start: tuple[int, ...]) -> Chunk | None:
        try:
            skipped, stored = dataset.id.read_direct_chunk(start)
            if skipped:
                return None
            values = _core.decode_subchunk(chain, np.uint8, (nbytes,), head + stored)
            return np.frombuffer(values, dtype).reshape(dataset.chunks)
        except (OSError, RuntimeError, ValueError, DrystoneError):
            return None

    return by_chunks(dataset.chunks, native(dtype), threads, decoded, dataset.__getitem__)


def _chain(dataset: Any, dtype: np.dtype[Any]) -> str | None:
    """The filters as a chain of ours; None if one is unknown, or nothing is compressed."""
    plist = dataset.id.get_create_plist()
    codes = [plist.get_filter(n)[0] for n in range(plist.get_nfilters())]
    if not codes or codes[-1] not in _CODERS or any(code != _SHUFFLE for code in codes[:-1]):
        return None
    return ",".join([f"shuffle:{dtype.itemsize}"] * len(codes[:-1]) + [_CODERS[codes[-1]]])
