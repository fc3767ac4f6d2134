"""The written cells of an array: disjoint boxes, found from the blocks and checked against the plan of a read.

Blocks overlap, lie apart, and may extend beyond a boundary to which the variable was once shrunk. A plan counts the
bytes that blocks contain of a box, each cell once, so it is authoritative; the blocks tell where to look.

Invariants
- the boxes of all parts together are exactly the cells that read as written;
- no two boxes share a cell; no part has more cells than requested.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""A half-open box: the first cell, and the one behind the last."""


@dataclass(frozen=True)
class Part:
    """A box that is read at once, and the written boxes in it."""

    box: Box
    written: tuple[Box, ...]


def parts(
    blocks: Sequence[Box], most: int, unit: Sequence[int], count: Callable[[Box], int]
) -> Iterator[Part]:
    """The written cells of an array, in parts of at most `most` cells.

    Parts consist of pieces with the shape `unit`; `count` returns the number of written cells of a box.
    """
    if not blocks:
        return
    starts = np.array([start for start, _ in blocks], np.int64).reshape(len(blocks), -1)
    ends = np.array([end for _, end in blocks], np.int64).reshape(len(blocks), -1)
    waiting = [(starts.min(axis=0), ends.max(axis=0), np.arange(len(blocks)))]
    while waiting:
        low, high, which = waiting.pop()
        which = which[((starts[which] < high) & (ends[which] > low)).all(axis=1)]
        if not len(which):
            continue
        low = np.maximum(low, starts[which].min(axis=0))
        high = np.minimum(high, ends[which].max(axis=0))
        box = tuple(low.tolist()), tuple(high.tolist())
        if _cells(box) <= most:
            yield from _part(box, starts[which], ends[which], count)
            continue
        axis, at = _cut(box, starts[which], unit)
        below, above = high.copy(), low.copy()
        below[axis] = above[axis] = at
        waiting += [(above, high, which), (low, below, which)]


def halves(box: Box) -> tuple[Box, Box]:
    """The two halves of a box of more than one cell."""
    low, high = box
    axis = max(range(len(low)), key=lambda d: high[d] - low[d])
    at = (low[axis] + high[axis]) // 2
    return (low, _with(high, axis, at)), (_with(low, axis, at), high)


def _cut(box: Box, starts: npt.NDArray[np.int64], unit: Sequence[int]) -> tuple[int, int]:
    """The axis and the position at which a box is split: at a block boundary near the middle, or between units."""
    low, high = box
    extents = [b - a for a, b in zip(low, high, strict=True)]
    long = [d for d, n in enumerate(extents) if n > max(1, unit[d])]
    axis = long[0] if long else next(d for d, n in enumerate(extents) if n > 1)
    a, b, step = low[axis], high[axis], unit[axis] if long else 1
    middle = (a + b) // 2
    own = starts[:, axis]
    own = own[(own > a + (b - a) // 4) & (own < b - (b - a) // 4)]
    if len(own):
        return axis, int(own[np.argmin(np.abs(own - middle))])
    between = -(-middle // step) * step
    return axis, between if a < between < b else middle


def _part(
    box: Box, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], count: Callable[[Box], int]
) -> Iterator[Part]:
    low, high = box
    cells = _cells(box)
    mask = None
    expected = cells
    if not ((starts <= low) & (ends >= high)).all(axis=1).any():
        mask = np.zeros([b - a for a, b in zip(low, high, strict=True)], bool)
        for start, end in zip(np.maximum(starts, low) - low, np.minimum(ends, high) - low, strict=True):
            mask[tuple(map(slice, start.tolist(), end.tolist()))] = True
        expected = int(mask.sum())
    found = count(box)
    if found != expected:  # The array was shrunk and grown again.
        mask = np.zeros([b - a for a, b in zip(low, high, strict=True)], bool)
        _fill(mask, box, low, found, count)
        expected = found
    if expected == cells:
        yield Part(box, (box,))
    elif mask is not None and expected:
        yield Part(box, tuple((_moved(a, low), _moved(b, low)) for a, b in rectangles(mask)))


def _fill(
    mask: npt.NDArray[np.bool_], box: Box, origin: tuple[int, ...], found: int, count: Callable[[Box], int]
) -> None:
    """Store the written boxes of a box with `found` written cells."""
    if not found:
        return
    if found >= _cells(box):
        mask[tuple(slice(a - o, b - o) for a, b, o in zip(*box, origin, strict=True))] = True
        return
    one, two = halves(box)
    first = count(one)
    _fill(mask, one, origin, first, count)
    _fill(mask, two, origin, found - first, count)


def rectangles(mask: npt.NDArray[np.bool_]) -> Iterator[Box]:
    """Disjoint boxes that together are the true cells of a mask; few if consecutive rows are equal."""
    if mask.ndim == 0:
        if mask:
            yield (), ()
        return
    rows = mask.reshape(len(mask), -1)
    changes = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
    edges = [0, *changes.tolist(), len(mask)]
    for start, end in itertools.pairwise(edges):
        for low, high in rectangles(mask[start]):
            yield (start, *low), (end, *high)


def _cells(box: Box) -> int:
    return math.prod(b - a for a, b in zip(*box, strict=True))


def _moved(place: tuple[int, ...], by: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(p + b for p, b in zip(place, by, strict=True))


def _with(place: tuple[int, ...], axis: int, at: int) -> tuple[int, ...]:
    return (*place[:axis], at, *place[axis + 1 :])
