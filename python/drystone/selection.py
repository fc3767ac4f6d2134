"""Indexing expressions as products of legs, by NumPy's rules.

A leg is a progression along one axis, or a list of cells along several axes together. Leg `l` gives axis `l` of what
the engine reads. The result of an expression is that array in another shape: axes that integers drop and `None` adds
have one cell, and those of index arrays with several dimensions are joined.

Three rules differ only in the meaning of arrays: see `Rule`.
"""

from __future__ import annotations

import enum
import itertools
import math
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from drystone.errors import InvalidArgumentError, OutOfRangeError
from drystone.values import as_array, is_array


class Rule(enum.Enum):
    """The meaning of arrays in an indexing expression."""

    PLAIN = "NumPy's `a[...]`"
    VECTOR = "the same, but the axes of the arrays always come first"
    OUTER = "each array selects along its own axis"


@dataclass(frozen=True)
class Run:
    """A progression along one axis."""

    axis: int
    start: int
    step: int
    count: int

    @property
    def axes(self) -> tuple[int, ...]:
        """The one axis."""
        return (self.axis,)

    def along(self, axis: int) -> npt.NDArray[np.int64]:
        """The coordinates along its axis."""
        return self.start + self.step * np.arange(self.count, dtype=np.int64)

    def part(self, begin: int, end: int) -> Run:
        """The cells from `begin` to `end`."""
        return Run(self.axis, self.start + self.step * begin, self.step, min(end, self.count) - begin)


@dataclass(frozen=True)
class Listed:
    """Cells one by one: `cells` has a row per cell and a column per axis."""

    axes: tuple[int, ...]
    cells: npt.NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of cells."""
        return len(self.cells)

    def along(self, axis: int) -> npt.NDArray[np.int64]:
        """The coordinates along one of its axes."""
        return self.cells[:, self.axes.index(axis)]

    def part(self, begin: int, end: int) -> Listed:
        """The cells from `begin` to `end`."""
        return Listed(self.axes, self.cells[begin:end])


Leg: TypeAlias = Run | Listed


@dataclass(frozen=True)
class Wanted:
    """The cells that an expression selects, and the shape of the result."""

    legs: tuple[Leg, ...]
    shape: tuple[int, ...]
    scalar: bool = False
    """NumPy returns a scalar for it, not an array without dimensions."""
    kept: tuple[int | None, ...] = ()
    """In a product of progressions, the leg of each axis of the result; None for new axes."""

    def parts(self, most: int) -> Iterator[tuple[tuple[slice, ...], Wanted]]:
        """Parts of at most `most` cells, in row-major order, with their positions in the result.

        It is a single part if the result joins arrays with several dimensions.
        """
        cut = [n for n, leg in enumerate(self.legs) if leg.count > 1]
        axes = [d for d, count in enumerate(self.shape) if count > 1]
        counts = [self.legs[n].count for n in cut]
        if counts != [self.shape[d] for d in axes] or 0 in self.shape:
            yield tuple(slice(0, count) for count in self.shape), self
            return
        room = max(1, most)
        edges: list[int] = []
        for count in reversed(counts):
            edges.insert(0, min(count, room))
            room = max(1, room // count)
        for corner in itertools.product(*(range(0, n, edge) for n, edge in zip(counts, edges, strict=True))):
            legs, place = list(self.legs), [slice(0, count) for count in self.shape]
            for n, d, begin, edge in zip(cut, axes, corner, edges, strict=True):
                legs[n] = legs[n].part(begin, begin + edge)
                place[d] = slice(begin, begin + legs[n].count)
            shape = tuple(part.stop - part.start for part in place)
            yield tuple(place), Wanted(tuple(legs), shape, self.scalar, self.kept)


def is_basic(key: Any) -> bool:
    """Whether an expression has only integers, slices, `...` and `None`, and gives a strided box."""
    items = key if isinstance(key, tuple) else (key,)
    return all(
        item is None
        or item is Ellipsis
        or isinstance(item, slice)
        or (isinstance(item, int | np.integer) and not isinstance(item, bool))
        for item in items
    )


def points(coords: Any, shape: Sequence[int]) -> Wanted:
    """Single cells: `coords` has one coordinate per axis along its last axis."""
    array = as_array(coords)
    if array.size == 0 and array.ndim == 1 and len(shape) != 0:
        array = np.empty((0, len(shape)), np.int64)
    if array.ndim < 1 or array.shape[-1] != len(shape):
        raise InvalidArgumentError(
            f"coords has shape {array.shape}: its last axis has a coordinate for each of the {len(shape)} axes"
        )
    array = _integers(array)
    columns = [_checked(array[..., axis], axis, length) for axis, length in enumerate(shape)]
    where = array.shape[:-1]
    cells = np.empty((math.prod(where), len(shape)), np.int64)
    for axis, column in enumerate(columns):
        cells[:, axis] = column.ravel()
    return Wanted((Listed(tuple(range(len(shape))), cells),), where)


def select(key: Any, shape: Sequence[int], rule: Rule = Rule.PLAIN) -> Wanted:
    """The selection that an indexing expression makes from an array of `shape`."""
    return _Parser(shape, rule).parse(key)


@dataclass
class _Item:
    """One item of an index expression: the axes that it selects from, and those of its result."""

    axes: tuple[int, ...]
    run: Run | None = None
    arrays: tuple[npt.NDArray[np.int64], ...] = ()
    """Coordinates along each of the axes; all have one shape."""
    where: tuple[int, ...] = ()
    """Shape of the arrays, if it is an index array."""
    fancy: bool = False
    dropped: bool = False
    new: bool = False


class _Parser:
    def __init__(self, shape: Sequence[int], rule: Rule) -> None:
        self._shape = tuple(shape)
        self._rule = rule

    def parse(self, key: Any) -> Wanted:
        items = list(self._items(key if isinstance(key, tuple) else (key,)))
        fancy = [item for item in items if item.fancy]
        if self._rule is Rule.OUTER or not fancy:
            return self._product(items, scalar=not fancy and Ellipsis not in _kinds(key))
        return self._joined(items, fancy)

    def _items(self, key: tuple[Any, ...]) -> Iterator[_Item]:
        key = tuple(_as_index(item) for item in key)
        taken = sum(_width(item) for item in key)
        if taken > len(self._shape):
            raise OutOfRangeError(
                f"too many indices: the array has {len(self._shape)} dimensions, but {taken} were indexed"
            )
        ellipses = sum(item is Ellipsis for item in key)
        if ellipses > 1:
            raise OutOfRangeError("an index can have only one ellipsis ('...')")
        if not ellipses:
            key = (*key, Ellipsis)
        axis = 0
        for item in key:
            if item is None:
                yield _Item((), new=True)
            elif item is Ellipsis:
                rest = len(self._shape) - taken
                if not rest and ellipses:
                    yield _Item((), run=None)  # parts index arrays nevertheless
                for _ in range(rest):
                    yield _Item((axis,), Run(axis, 0, 1, self._shape[axis]))
                    axis += 1
            else:
                yield self._item(item, axis)
                axis += _width(item)

    def _item(self, item: Any, axis: int) -> _Item:
        if isinstance(item, slice):
            return _Item((axis,), _sliced(item, axis, self._shape[axis]))
        if isinstance(item, np.ndarray) and item.dtype == bool:
            axes = tuple(range(axis, axis + item.ndim))
            for own, length in zip(axes, item.shape, strict=True):
                if length != self._shape[own]:
                    raise OutOfRangeError(
                        f"the mask has {length} cells along axis {own}, which has {self._shape[own]}"
                    )
            if not axes:
                return _Item((), where=(int(item),), fancy=True)
            found = tuple(part.astype(np.int64, copy=False) for part in item.nonzero())
            return _Item(axes, arrays=found, where=found[0].shape, fancy=True)
        if isinstance(item, np.ndarray):
            cells = _checked(item, axis, self._shape[axis])
            return _Item((axis,), arrays=(cells,), where=cells.shape, fancy=True)
        cell = int(_checked(np.asarray(item), axis, self._shape[axis]))
        return _Item((axis,), Run(axis, cell, 1, 1), dropped=True)

    def _product(self, items: list[_Item], scalar: bool) -> Wanted:
        legs: list[Leg] = []
        shape: list[int] = []
        kept: list[int | None] = []
        for item in items:
            if item.new:
                shape.append(1)
                kept.append(None)
            elif item.fancy:
                if item.axes:
                    legs.append(_listed(item.axes, item.arrays))
                shape.extend(item.where)
            elif item.run is not None:
                if not item.dropped:
                    shape.append(item.run.count)
                    kept.append(len(legs))
                legs.append(item.run)
        return _wanted(legs, shape, scalar and not shape, kept)

    def _joined(self, items: list[_Item], fancy: list[_Item]) -> Wanted:
        try:
            where = np.broadcast_shapes(*(item.where for item in fancy))
        except ValueError:
            shapes = ", ".join(str(item.where) for item in fancy)
            raise OutOfRangeError(
                f"index arrays of the shapes {shapes} do not fit each other (they could not be broadcast)"
            ) from None
        axes = tuple(axis for item in fancy for axis in item.axes)
        arrays = [array for item in fancy for array in item.arrays]
        leg = _listed(axes, [np.broadcast_to(array, where) for array in arrays])
        # Integers count as index arrays in the decision whether index arrays are adjacent.
        advanced = [n for n, item in enumerate(items) if item.fancy or item.dropped]
        together = advanced[-1] - advanced[0] + 1 == len(advanced)
        first = advanced[0] if self._rule is Rule.PLAIN and together else -1
        legs: list[Leg] = [leg] if axes and first < 0 else []
        shape: list[int] = list(where) if first < 0 else []
        for n, item in enumerate(items):
            if n == first:
                shape.extend(where)
                if axes:
                    legs.append(leg)
            if item.new:
                shape.append(1)
            elif item.run is not None:
                legs.append(item.run)
                if not item.dropped:
                    shape.append(item.run.count)
        return _wanted(legs, shape)


def _wanted(
    legs: list[Leg], shape: list[int], scalar: bool = False, kept: Sequence[int | None] = ()
) -> Wanted:
    if 0 in shape and all(leg.count for leg in legs):
        # A false mask without dimensions selects no cell.
        legs = [_nothing(leg) for leg in legs]
    return Wanted(tuple(legs), tuple(shape), scalar, tuple(kept))


def _nothing(leg: Leg) -> Leg:
    return Run(leg.axis, 0, 1, 0) if isinstance(leg, Run) else Listed(leg.axes, leg.cells[:0])


def _listed(axes: tuple[int, ...], arrays: Sequence[npt.NDArray[np.int64]]) -> Listed:
    count = arrays[0].size if arrays else 0
    cells = np.empty((count, len(axes)), np.int64)
    for column, array in enumerate(arrays):
        cells[:, column] = array.ravel()
    return Listed(axes, cells)


def _kinds(key: Any) -> list[Any]:
    return [item for item in (key if isinstance(key, tuple) else (key,)) if item is Ellipsis]


def _width(item: Any) -> int:
    """The number of axes that an item selects from."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1


def _as_index(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, bool | np.bool):
        return np.asarray(item)
    if isinstance(item, str | bytes):
        raise OutOfRangeError(f'{item!r} is not an index: a member of a record is named alone, T["x"][...]')
    if isinstance(item, list | tuple) or is_array(item):
        try:
            array = as_array(item)
        except ValueError:
            raise OutOfRangeError("an index list is not rectangular") from None
        if array.dtype == bool:
            return array
        if array.size == 0 and not isinstance(item, np.ndarray | np.generic):
            array = array.astype(np.int64)
        array = _integers(array)
        return array if array.ndim else int(array)
    try:
        return operator.index(item)
    except TypeError:
        raise OutOfRangeError(
            f"{item!r} is not an index: integers, slices (:), ellipsis (...), None (newaxis), and lists and arrays of "
            "integers or booleans are"
        ) from None


def _integers(array: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    if array.dtype.kind not in "iu" and array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind == "O" and all(isinstance(number, int) for number in array.flat):
        raise OutOfRangeError("an index is larger than any axis")
    if array.dtype.kind not in "iu":
        raise OutOfRangeError(f"arrays that index are of integers or booleans, not {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise OutOfRangeError("an index is larger than any axis")
    return array.astype(np.int64, copy=False)


def _checked(cells: npt.NDArray[Any], axis: int, length: int) -> npt.NDArray[np.int64]:
    """Coordinates along an axis, counted from its start."""
    if cells.size == 0:
        return cells.astype(np.int64)
    if cells.dtype.kind == "O":
        raise OutOfRangeError(f"index {cells.flat[0]} is out of bounds for axis {axis} with size {length}")
    least, greatest = int(cells.min()), int(cells.max())
    if least < -length or greatest >= length:
        wrong = greatest if greatest >= length else least
        raise OutOfRangeError(f"index {wrong} is out of bounds for axis {axis} with size {length}")
    cells = cells.astype(np.int64, copy=False)
    return np.where(cells < 0, cells + length, cells) if least < 0 else cells


def _sliced(item: slice, axis: int, length: int) -> Run:
    try:
        start, stop, step = item.indices(length)
    except TypeError as error:
        raise OutOfRangeError(f"a slice is made of integers and None: {error}") from None
    except ValueError:
        raise InvalidArgumentError(f"the slice step of axis {axis} is zero") from None
    count = len(range(start, stop, step))
    if count == 0:
        return Run(axis, 0, 1, 0)
    return Run(axis, start, step if count > 1 else 1, count)


def member_of(value: Any, path: str) -> Any:
    """The member of a record at a path such as `a.v[0:2, 1]`."""
    for name, index in re.findall(r"([^.\[\]]+)(?:\[([^\]]*)\])?", path):
        value = value[name]
        if index:
            bounds = [[int(n) if n.strip() else None for n in part.split(":")] for part in index.split(",")]
            value = value[tuple(slice(*one) if len(one) == 2 else one[0] for one in bounds)]
    return value
