"""An array stored in row-major order at an offset of a file. Several threads may write it at once."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

LEAST = 2 << 20
"""Efficient size of one write without a library: the data that was read is still in the CPU caches."""


class Rows:
    """A target for boxes of the array. `with` closes it."""

    def __init__(self, path: Path, begin: int, shape: tuple[int, ...]) -> None:
        self._begin = begin
        self._shape = shape
        self._file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def __setitem__(self, box: tuple[slice, ...], piece: npt.NDArray[Any]) -> None:
        """Write a box, in calls as long as its contiguous runs."""
        if piece.size == 0:
            return
        shape = self._shape
        inner = len(shape)  # axes from here on are complete
        while inner and piece.shape[inner - 1] == shape[inner - 1]:
            inner -= 1
        outer = max(inner - 1, 0)
        rows = piece.reshape(-1, *piece.shape[outer:])
        strides = [int(np.prod(shape[d + 1 :], dtype=np.int64)) * piece.itemsize for d in range(len(shape))]
        for number, at in enumerate(np.ndindex(*piece.shape[:outer])):
            first = [part.start for part in box]
            first[: len(at)] = [a + b for a, b in zip(first, at, strict=False)]
            begin = self._begin + sum(a * s for a, s in zip(first, strides, strict=True))
            row = np.ascontiguousarray(rows[number : number + 1]).reshape(
                -1
            )  # NumPy drops trailing zeros of a single text
            self._write(begin, row.view(np.uint8).data)

    def _write(self, begin: int, left: memoryview) -> None:
        while left:
            done = os.pwrite(self._file, left, begin)
            begin, left = begin + done, left[done:]
