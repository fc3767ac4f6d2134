"""Decodes chunks of a file in parallel: HDF5 decodes them one by one, and zarr executes much Python for each.

This covers HDF5 chunks of fixed-size numbers without filters, or with filters that our codecs know (shuffle, deflate,
bzip2, Zstandard). Unusual chunks (absent, a skipped filter, damage) are left to the library of the format, which reads
them or reports the error.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone import _core
from drystone.errors import DrystoneError
from drystone.interchange.formats import Box, native

_SHUFFLE = 2
_CODERS = {1: "zlib", 307: "bzip2", 32015: "zstd"}
_LARGEST = 16 << 20
_SMALLEST = 128 << 10
_MODE_CODED = b"\x1f"


def pool() -> ThreadPoolExecutor:
    """Decoding threads: as many as there are processors, at most 4."""
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
    """Reads a box from the chunks that it overlaps, by their first cells.

    Chunks that are not `decoded` are read by the library `itself`.
    """

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


class Buffers(local):
    """A buffer per thread: allocating memory for each chunk takes longer than reading it."""

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, nbytes: int) -> memoryview:
        """This many bytes, valid until the next call."""
        if len(self._held) < nbytes:
            self._held = bytearray(nbytes)
        return memoryview(self._held)[:nbytes]


_Stored = Callable[[tuple[int, ...]], bytes | memoryview | None]


def reader(dataset: Any, threads: ThreadPoolExecutor, buffers: Buffers) -> Read | None:
    """Reads a box of an h5py dataset by its chunks; None if HDF5 itself must read it."""
    dtype, edges = np.dtype(dataset.dtype.str), dataset.chunks
    nbytes = math.prod(edges or ()) * dtype.itemsize
    if not edges or dtype.kind not in "iufc" or nbytes > _LARGEST or not _is_as(dataset, dtype):
        return None
    filters = _filters(dataset)
    stored = _raw(dataset, nbytes, buffers) if not filters else _coded(dataset, filters, dtype, nbytes)
    if stored is None:
        return None

    def decoded(start: tuple[int, ...]) -> Chunk | None:
        try:
            values = stored(start)
            return None if values is None else np.frombuffer(values, dtype).reshape(edges)
        except (OSError, RuntimeError, ValueError, MemoryError, DrystoneError):
            # For a dataset without chunks, h5py reports a missing chunk as a lack of memory.
            return None

    return by_chunks(edges, native(dtype), threads, decoded, dataset.__getitem__)


def _is_as(dataset: Any, dtype: np.dtype[Any]) -> bool:
    """Whether numbers are stored in NumPy's types: HDF5 also has types with padding bits."""
    import h5py

    kind = dataset.id.get_type()
    kind = kind.get_super() if isinstance(kind, h5py.h5t.TypeEnumID) else kind
    return bool(kind == h5py.h5t.py_create(dtype))


def _filters(dataset: Any) -> list[int]:
    plist = dataset.id.get_create_plist()
    return [plist.get_filter(n)[0] for n in range(plist.get_nfilters())]


def _raw(dataset: Any, nbytes: int, buffers: Buffers) -> _Stored | None:
    """Reads unfiltered chunks directly from the file. HDF5 is faster at finding small ones."""
    file = dataset.file
    if nbytes < _SMALLEST or file.driver != "sec2" or file.userblock_size:
        return None
    handle = file.id.get_vfd_handle()

    def stored(start: tuple[int, ...]) -> memoryview | None:
        lies = dataset.id.get_chunk_info_by_coord(start)
        if lies.byte_offset is None or lies.size != nbytes:
            return None
        values = buffers.take(nbytes)
        return values if os.preadv(handle, [values], lies.byte_offset) == nbytes else None

    return stored


def _coded(dataset: Any, filters: list[int], dtype: np.dtype[Any], nbytes: int) -> _Stored | None:
    """The decoder of chunks whose filters are all known."""
    if filters[-1] not in _CODERS or any(code != _SHUFFLE for code in filters[:-1]):
        return None
    chain = ",".join([f"shuffle:{dtype.itemsize}"] * len(filters[:-1]) + [_CODERS[filters[-1]]])
    # Our stored form of a chain: a mode byte, then the intermediate length between two codecs.
    head = _MODE_CODED + nbytes.to_bytes(4, "little") * chain.count(",")

    def stored(start: tuple[int, ...]) -> bytes | None:
        skipped, coded = dataset.id.read_direct_chunk(start)
        return None if skipped else _core.decode_subchunk(chain, np.uint8, (nbytes,), head + coded)

    return stored
