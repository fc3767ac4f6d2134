"""Decompositions: which box of a global grid each process owns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Triple = tuple[int, int, int]

CUTS: dict[int, Triple] = {
    1: (1, 1, 1),
    2: (1, 1, 2),
    4: (1, 2, 2),
    5: (5, 1, 1),
    8: (2, 2, 2),
    10: (5, 2, 1),
}
"""Processes per axis. Those for 5 and 10 cross the others: boxes that no writer had."""


@dataclass(frozen=True)
class Box:
    """A part of the grid."""

    offset: Triple
    shape: Triple

    @property
    def slices(self) -> tuple[slice, ...]:
        """As an index of the whole grid."""
        return tuple(slice(a, a + n) for a, n in zip(self.offset, self.shape, strict=True))

    def common(self, other: Box) -> Box | None:
        """The cells that are in both."""
        pairs = list(zip(self.slices, other.slices, strict=True))
        start = tuple(max(a.start, b.start) for a, b in pairs)
        stop = tuple(min(a.stop, b.stop) for a, b in pairs)
        shape = tuple(b - a for a, b in zip(start, stop, strict=True))
        return Box(start, shape) if min(shape) > 0 else None  # type: ignore[arg-type]

    def within(self, other: Box) -> tuple[slice, ...]:
        """As an index of an array that holds the other box."""
        return tuple(slice(s.start - a, s.stop - a) for s, a in zip(self.slices, other.offset, strict=True))


def boxes(grid: Triple, cuts: Triple) -> list[Box]:
    """The boxes of all processes: process i of p begins at cell i n / p, rounded down."""
    found = []
    for place in itertools.product(*(range(p) for p in cuts)):
        start = [i * n // p for i, n, p in zip(place, grid, cuts, strict=True)]
        stop = [(i + 1) * n // p for i, n, p in zip(place, grid, cuts, strict=True)]
        shape = tuple(b - a for a, b in zip(start, stop, strict=True))
        found.append(Box(tuple(start), shape))  # type: ignore[arg-type]
    return found


def values(box: Box, grid: Triple, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.generic]:
    """Cells that say where they are: the number of the cell in the grid."""
    z, y, x = (np.arange(a, a + n, dtype=dtype) for a, n in zip(box.offset, box.shape, strict=True))
    row = z[:, None, None] * grid[1] + y[None, :, None]
    return np.ascontiguousarray(row * grid[2] + x[None, None, :], dtype)
