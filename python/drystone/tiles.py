"""Tiles of a variable with a halo of neighbouring cells, read whichever process wrote them, in bounded memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from drystone.errors import InvalidArgumentError, OutOfRangeError

if TYPE_CHECKING:
    from drystone.variable import Variable

    _Edge = Literal["one_sided", "fill", "periodic", "nan"]

Place = tuple[int | slice, ...]
_Box = tuple[tuple[int, int], ...]

_BYTES = 8 << 20
"""Default size of a tile in bytes."""


def extents(given: Any, ndim: int, what: str, least: int) -> tuple[int, ...]:
    """An extent per dimension; one number applies to all."""
    sequence = [given] * ndim if isinstance(given, SupportsIndex) else list(given)
    try:
        found = tuple(n.__index__() for n in sequence)
    except AttributeError:
        raise InvalidArgumentError(f"{what} is an integer or one per dimension, not {given!r}") from None
    if len(found) != ndim or any(n < least for n in found):
        raise InvalidArgumentError(
            f"{what}={given!r}: {ndim} integers from {least} are needed, one per dimension"
        )
    return found


def shape_of_tiles(shape: Sequence[int], item: int, cut: Sequence[int] | None) -> tuple[int, ...]:
    """Whole rows as far as they fit, along the boundaries of what is decoded as a whole."""
    tile = [max(n, 1) for n in shape]
    for d, n in enumerate(tile):
        own = min(cut[d], n) if cut else 1
        others = item * math.prod(tile) // n
        if others * n <= _BYTES:
            break
        tile[d] = min(n, max(_BYTES // max(others, 1) // own, 1) * own)
    return tuple(tile)


def tiles(
    variable: Variable,
    shape: SupportsIndex | Sequence[SupportsIndex] | None,
    halo: SupportsIndex | Sequence[SupportsIndex],
    steps: SupportsIndex | Sequence[SupportsIndex] | None,
    edge: _Edge,
) -> Iterator[tuple[Place, npt.NDArray[Any]]]:
    """The tiles in order, each with its halo; the next one is read meanwhile."""
    whole, size, around = frame(variable, shape, halo, edge)
    return _each(variable, whole, size, around, chosen(variable, steps), edge)


def frame(
    variable: Variable,
    shape: SupportsIndex | Sequence[SupportsIndex] | None,
    halo: SupportsIndex | Sequence[SupportsIndex],
    edge: _Edge,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The extents of a variable without steps, of its tiles, and of the halo."""
    if variable.local:
        raise InvalidArgumentError(f'"{variable.name}" is a local variable: it has blocks, not one array')
    if edge not in ("one_sided", "fill", "periodic", "nan"):
        raise InvalidArgumentError(
            f'there is no edge rule {edge!r}; give "one_sided", "fill", "periodic" or "nan"'
        )
    whole = variable.shape[int(variable.has_steps) :]
    around = extents(halo, len(whole), "halo", 0)
    if edge == "nan" and variable.dtype.kind not in "fc" and any(around):
        raise InvalidArgumentError(f'edge="nan" needs floats; "{variable.name}" holds {variable.dtype}')
    if shape is None:
        size = shape_of_tiles(whole, variable.dtype.itemsize, variable._cut_of_decoding())
    else:
        size = extents(shape, len(whole), "shape", 1)
    return whole, size, around


def chosen(variable: Variable, steps: SupportsIndex | Sequence[SupportsIndex] | None) -> list[int | None]:
    """The steps to visit; `None` for a variable without."""
    if not variable.has_steps:
        if steps is not None:
            raise InvalidArgumentError(f'"{variable.name}" has no steps: leave steps= out')
        return [None]
    count = variable.shape[0]
    if steps is None:
        return list(range(count))
    some = [step.__index__() for step in ([steps] if isinstance(steps, SupportsIndex) else steps)]
    if beyond := [step for step in some if not -count <= step < count]:
        raise OutOfRangeError(f'"{variable.name}" has the steps 0 to {count - 1}, not {beyond[0]}')
    return [step % count for step in some]


def _each(
    variable: Variable,
    whole: Sequence[int],
    size: Sequence[int],
    halo: Sequence[int],
    steps: Sequence[int | None],
    edge: _Edge,
) -> Iterator[tuple[Place, npt.NDArray[Any]]]:
    with ThreadPoolExecutor(1, "drystone-tiles") as pool:
        ahead = None
        for step, box in boxes(whole, size, steps):
            begun = (step, box, pool.submit(read, variable, step, box, whole, halo, edge))
            if ahead is not None:
                yield place(ahead[0], ahead[1]), ahead[2].result()
            ahead = begun
        if ahead is not None:
            yield place(ahead[0], ahead[1]), ahead[2].result()


def boxes(
    whole: Sequence[int], size: Sequence[int], steps: Sequence[int | None]
) -> Iterator[tuple[int | None, _Box]]:
    """Step and box of each tile, in order."""
    lines = [range(0, n, own) for n, own in zip(whole, size, strict=True)]
    for step, los in itertools.product(steps, itertools.product(*lines)):
        yield step, tuple((lo, min(lo + own, n)) for lo, own, n in zip(los, size, whole, strict=True))


def place(step: int | None, box: _Box) -> Place:
    """The index of a tile's cells in the whole variable."""
    cells = tuple(slice(lo, hi) for lo, hi in box)
    return cells if step is None else (step, *cells)


def read(
    variable: Variable,
    step: int | None,
    box: _Box,
    whole: Sequence[int],
    halo: Sequence[int],
    edge: _Edge,
    into: npt.NDArray[np.uint8] | None = None,
) -> npt.NDArray[Any]:
    """A box with its halo; cells beyond the domain follow the edge rule.

    `into` is memory for the result, at least as many bytes as it has.
    """
    lo = [a - h for (a, _), h in zip(box, halo, strict=True)]
    hi = [b + h for (_, b), h in zip(box, halo, strict=True)]
    shape = [b - a for a, b in zip(lo, hi, strict=True)]
    if into is None:
        tile = np.empty(shape, variable.dtype)
    else:
        tile = into[: math.prod(shape) * variable.dtype.itemsize].view(variable.dtype).reshape(shape)
    if edge == "periodic":
        _around(variable, step, lo, hi, whole, tile)
        return tile
    first = [max(a, 0) for a in lo]
    count = [min(b, n) - f for b, n, f in zip(hi, whole, first, strict=True)]
    inside = [slice(f - a, f - a + c) for f, a, c in zip(first, lo, count, strict=True)]
    within: Any = (*inside, ...)  # a view, also of an array without dimensions
    variable.read(step, first, count, out=tile[within])
    value = None if edge == "one_sided" else np.nan if edge == "nan" else variable.fill_value
    _beyond(tile, inside, value)
    return tile


def _beyond(tile: npt.NDArray[Any], inside: Sequence[slice], value: Any) -> None:
    """Fills the cells outside the domain with a value, or (`None`) with that of the nearest cell."""
    for d, own in enumerate(inside):
        # Axes before this one are filled to their ends, those after it only inside.
        before = (slice(None),) * d
        for beyond, nearest in (
            (slice(0, own.start), slice(own.start, own.start + 1)),
            (slice(own.stop, None), slice(own.stop - 1, own.stop)),
        ):
            if beyond.start == tile.shape[d] or beyond.stop == 0:
                continue
            cells = (*before, beyond, *inside[d + 1 :])
            tile[cells] = tile[(*before, nearest, *inside[d + 1 :])] if value is None else value


def _around(
    variable: Variable,
    step: int | None,
    lo: Sequence[int],
    hi: Sequence[int],
    whole: Sequence[int],
    out: npt.NDArray[Any],
) -> None:
    """Read a box of a periodic domain: its parts, each once."""
    runs = []
    for a, b, n in zip(lo, hi, whole, strict=True):
        own, at = [], a
        while at < b:
            count = min(n - at % n, b - at)
            own.append((at - a, at % n, count))
            at += count
        runs.append(own)
    for part in itertools.product(*runs):
        to = tuple(slice(at, at + count) for at, _, count in part)
        variable.read(step, [first for _, first, _ in part], [count for *_, count in part], out=out[to])
