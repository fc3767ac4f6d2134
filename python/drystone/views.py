"""Selections of a variable beyond slices: by lists, planned once, or piece by piece."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drystone import assigning, selection
from drystone.errors import InvalidArgumentError
from drystone.reports import ErrorBound
from drystone.selection import Leg, Listed, Rule, Run, Wanted

if TYPE_CHECKING:
    from drystone._core import Plan, PlannedHandle, ReadingHandle
    from drystone.variable import Variable


def read(reading: ReadingHandle, wanted: Wanted, out: Any = None) -> Any:
    """Read the selection, into `out` if it is given."""
    return read_bounded(reading, wanted, out)[0]


def read_bounded(reading: ReadingHandle, wanted: Wanted, out: Any = None) -> tuple[Any, ErrorBound]:
    """The same, with the error bound of the values."""
    outer, inner = _split(reading, wanted.legs)
    bound = ErrorBound(0.0, 0.0)

    def act(target: npt.NDArray[Any] | None) -> Any:
        nonlocal bound
        values, *errors = reading.read_listed([_handed(leg) for leg in outer], target)
        bound = ErrorBound(*errors)
        return values

    return _finish(reading, wanted, outer, inner, act, out), bound


def in_memory(out: Any) -> npt.NDArray[Any] | None:
    """The memory of another library's array, through DLPack; None if it has none that the CPU can access."""
    if hasattr(out, "_reading"):  # A variable would return a copy of its values.
        return None
    try:
        return np.from_dlpack(out)
    except (AttributeError, TypeError, RuntimeError, BufferError):
        return None


def check_apart(out: npt.NDArray[Any]) -> None:
    """Raise InvalidArgumentError if two elements share memory: one would overwrite the other."""
    if out.flags.c_contiguous or out.flags.f_contiguous or out.size < 2:
        return
    reach, nested = out.itemsize, True
    for stride, count in sorted((abs(stride), n) for stride, n in zip(out.strides, out.shape, strict=True)):
        if count > 1:
            nested = nested and stride >= reach
            reach += stride * (count - 1)
    if nested:  # each axis steps over all inner axes
        return
    apart = out.nbytes <= reach  # otherwise there are more elements than memory
    if apart:
        places = np.zeros((), np.int64)
        for stride, count in zip(out.strides, out.shape, strict=True):
            places = np.add.outer(places, np.arange(count) * stride)
        apart = bool((np.diff(np.sort(places, axis=None)) >= out.itemsize).all())
    if not apart:
        raise InvalidArgumentError("out has elements that share memory: give it an array that is its own")


def explain(reading: ReadingHandle, wanted: Wanted) -> Plan:
    """The plan of a read."""
    outer, _ = _split(reading, wanted.legs)
    return reading.plan([_handed(leg) for leg in outer]).explain()


def _handed(leg: Leg) -> tuple[Any, ...]:
    if isinstance(leg, Run):
        return leg.axis, leg.start, leg.step, leg.count
    return leg.axes, leg.cells.reshape(-1), leg.count


def _split(reading: ReadingHandle, legs: Sequence[Leg]) -> tuple[list[Leg], list[Leg]]:
    """The legs along axes of the variable, and those that include axes of a member.

    A member of a record adds axes; a leg may select from these only, or also from others.
    """
    ndim = len(reading.shape) - len(reading.inner)
    outer: list[Leg] = []
    inner: list[Leg] = []
    for leg in legs:
        own = [axis for axis in leg.axes if axis < ndim]
        if len(own) < len(leg.axes):
            inner.append(leg)
        if own == list(leg.axes):
            outer.append(leg)
        elif own and isinstance(leg, Listed):
            outer.append(Listed(tuple(own), np.ascontiguousarray(leg.cells[:, : len(own)])))
    return outer, inner


def _finish(
    reading: ReadingHandle,
    wanted: Wanted,
    outer: list[Leg],
    inner: list[Leg],
    act: Callable[[npt.NDArray[Any] | None], Any],
    out: Any,
) -> Any:
    counts = (*(leg.count for leg in outer), *reading.inner)
    if out is not None and not isinstance(out, np.ndarray):
        array = in_memory(out)
        if array is not None:
            _finish(reading, wanted, outer, inner, act, array)
            return out
    if out is not None:
        _check_out(reading, wanted, out)
    if not inner and out is not None:
        target = out.reshape(counts)
        if target.size == 0 or np.may_share_memory(target, out):
            act(target)
            return out
    values = act(None)
    if inner:
        values = _take_inner(values, wanted.legs, len(reading.shape) - len(reading.inner))
    values = values.reshape(wanted.shape)
    if out is not None:
        np.copyto(out, values)
        return out
    return values[()] if wanted.scalar and values.ndim == 0 else values


def _check_out(reading: ReadingHandle, wanted: Wanted, out: Any) -> None:
    if not isinstance(out, np.ndarray):
        raise InvalidArgumentError(f"out is an array of NumPy or of DLPack, not a {type(out).__name__}")
    if out.dtype != reading.element:
        raise InvalidArgumentError(f"out has dtype {out.dtype}, the variable {reading.element}")
    if out.shape != wanted.shape:
        raise InvalidArgumentError(f"out has shape {out.shape}, what is read {wanted.shape}")
    if not out.flags.writeable:
        raise InvalidArgumentError("out is read-only")
    check_apart(out)


def _take_inner(values: npt.NDArray[Any], legs: Sequence[Leg], ndim: int) -> npt.NDArray[Any]:
    """From an array of the outer legs' axes with whole members, make the array of all legs."""

    def shaped(cells: npt.NDArray[np.int64], place: int) -> npt.NDArray[np.int64]:
        return cells.reshape([-1 if place == p else 1 for p in range(len(legs))])

    index = [shaped(np.arange(leg.count), place) for place, leg in enumerate(legs) if min(leg.axes) < ndim]
    owners = {axis: (place, leg) for place, leg in enumerate(legs) for axis in leg.axes if axis >= ndim}
    for axis in sorted(owners):
        place, leg = owners[axis]
        index.append(shaped(leg.along(axis), place))
    return values[tuple(index)]


class Indexer:
    """Indexing with arrays: `T.oindex[...]`, `T.vindex[...]`.

    Lists, integer arrays and boolean masks may stand beside integers, slices, `...` and `None`. A read is one plan:
    cells are grouped by the subchunk they lie in, so each subchunk is read and decoded once.
    """

    def __init__(self, variable: Variable, rule: Rule) -> None:
        self._variable = variable
        self._rule = rule

    def __getitem__(self, key: Any) -> Any:
        return self.read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write to the selected cells, as `T[key] = value` does."""
        v = self._variable
        assigning.assign(v._container, v._path, v._member, key, value, self._rule)

    def read(self, key: Any, out: Any = None) -> Any:
        """The same as indexing; `out`, with the shape and dtype of the result, is filled and returned."""
        reading = self._variable._reading()
        return read(reading, selection.select(key, reading.shape, self._rule), out)

    @property
    def explain(self) -> IndexPlans:
        """`T.oindex.explain[key]` is the plan of `T.oindex[key]`."""
        return IndexPlans(self._variable, self._rule)


class IndexPlans:
    """Plans of reads: `T.explain[10, :, 256, :]`, `T.oindex.explain[[3, 1], :]`."""

    def __init__(self, variable: Variable, rule: Rule = Rule.PLAIN, *, measure: bool = False) -> None:
        self._variable = variable
        self._rule = rule
        self._measure = measure

    @property
    def measured(self) -> IndexPlans:
        """`T.explain.measured[key]` also reads, once, and adds the measured time to the prediction."""
        return IndexPlans(self._variable, self._rule, measure=True)

    def __getitem__(self, key: Any) -> Plan:
        reading = self._variable._reading()
        if self._rule is Rule.PLAIN and selection.is_basic(key):
            plan = reading.explain(key)
        else:
            plan = explain(reading, selection.select(key, reading.shape, self._rule))
        if not self._measure:
            return plan
        begun = perf_counter()
        Indexer(self._variable, self._rule).read(key)
        return plan.with_measured(perf_counter() - begun)


class Lazy:
    """`T.lazy[key]` is a `View`: planned, not read."""

    def __init__(self, variable: Variable) -> None:
        self._variable = variable

    def __getitem__(self, key: Any) -> View:
        reading = self._variable._reading()
        return View(self._variable, reading, selection.select(key, reading.shape))


class View:
    """A selection that was planned once, and can be read repeatedly, from several threads.

    It stays at the snapshot at which it was made, whatever is committed later. A selection whose plan is too large to
    be kept (more than some 20,000 blocks, or 4,096 steps or listed cells) is planned again at each read.
    """

    def __init__(self, variable: Variable, reading: ReadingHandle, wanted: Wanted) -> None:
        self._variable = variable
        self._reading = reading
        self._wanted = wanted
        self._outer, self._inner = _split(reading, wanted.legs)
        self._planned: PlannedHandle = reading.plan([_handed(leg) for leg in self._outer])

    @property
    def variable(self) -> Variable:
        """The variable that it reads."""
        return self._variable

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what it reads."""
        return self._wanted.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype in which it reads."""
        return self._reading.element

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.size * self.dtype.itemsize

    def read(self, out: Any = None) -> Any:
        """Read it; `out`, with its shape and dtype, is filled and returned."""
        return _finish(self._reading, self._wanted, self._outer, self._inner, self._planned.read, out)

    @property
    def explain(self) -> Plan:
        """The plan."""
        return self._planned.explain()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a view of no dimensions has no length")
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a view cannot become an array without a copy")
        values = np.asarray(self.read())
        return values if dtype is None else values.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<drystone view of {self._variable.name}: {self.dtype} {self.shape}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _planned_again, (self._variable, self._reading.snapshot, self._wanted)


def _planned_again(variable: Variable, snapshot: int, wanted: Wanted) -> View:
    """The view of a pickle, at the snapshot at which it was made."""
    then = variable._at(snapshot)
    return View(then, then._reading(), wanted)


Place = tuple[slice, ...]

LEAST = 8 << 20
"""Efficient size in bytes of one call of a library that writes to a file."""


def pieces(reading: ReadingHandle, key: Any, max_bytes: int) -> Iterator[tuple[Place, npt.NDArray[Any]]]:
    """The pieces of a selection of slices and integers; each is read while the one before is used."""
    found = _Pieces(reading, key, max_bytes)
    found.announce()
    return _ahead(found.read, len(found))


def boxed(reading: ReadingHandle, key: Any, what: str) -> list[tuple[int, int, int]]:
    """The box of a key of slices and integers, (start, step, count) per axis of the variable.

    `what` names the caller in errors about other keys.
    """
    wanted = selection.select(key, reading.shape)
    runs = [leg for leg in wanted.legs if isinstance(leg, Run)]
    if len(runs) != len(wanted.legs):
        raise InvalidArgumentError(f"{what} takes integers, slices and '...', no lists")
    ndim = len(reading.shape) - len(reading.inner)
    return [(run.start, run.step, run.count) for run in runs[:ndim]]


def in_rows(
    reading: ReadingHandle,
    key: Any,
    max_bytes: int,
    write: Callable[[Place, npt.NDArray[Any]], None],
    *,
    least: int = LEAST,
    at_once: bool = False,
) -> None:
    """Pass the pieces of a selection to `write`, in any order, from two threads, for a file in row-major order.

    With `at_once` the threads may call `write` concurrently, else one after another.

    A piece has `least` bytes if blocks can be read in parts, or more if that is faster. Each thread reads into its own
    buffer and writes from it, while the other does the same: data read by one thread and written by the other would
    move between the caches of two processors. A piece is finished when `write` returns.
    """
    pieces = _Pieces(reading, key, max_bytes, in_rows=least)
    numbers: Iterator[int] = itertools.count()
    writing = nullcontext() if at_once else Lock()
    stopped = False

    def work() -> None:
        nonlocal stopped
        read = pieces.reader()
        try:
            while not stopped and (found := read(next(numbers))) is not None:
                with writing:
                    if not stopped:
                        write(*found)
        except BaseException:
            stopped = True
            raise

    if len(pieces) < 2:
        work()
        return
    with ThreadPoolExecutor(1, thread_name_prefix="drystone-rows") as second:
        other = second.submit(work)
        try:
            work()
            other.result()
        except BaseException:
            stopped = True
            raise


class _Pieces:
    """The pieces of a selection, by number."""

    def __init__(
        self, reading: ReadingHandle, key: Any, max_bytes: int, *, in_rows: int | None = None
    ) -> None:
        self._reading = reading
        self._wanted = wanted = selection.select(key, reading.shape)
        runs = [leg for leg in wanted.legs if isinstance(leg, Run)]
        is_basic = len(runs) == len(wanted.legs) and len(wanted.kept) == len(wanted.shape)
        if not is_basic:  # True and False add an axis without a leg
            raise InvalidArgumentError(
                "pieces takes integers, slices, '...' and None: index the pieces with lists, or read them with oindex"
            )
        if max_bytes < 1:
            raise InvalidArgumentError(f"max_bytes is {max_bytes}; it must be at least 1")
        ndim = len(reading.shape) - len(reading.inner)
        self._outer, self._inner = runs[:ndim], runs[ndim:]
        item = reading.item if not reading.strings else 64
        along = [(run.start, run.step, run.count) for run in self._outer]
        self._tiles = reading.tiles(along, min(max(1, max_bytes // item), sys.maxsize), in_rows)

    def __len__(self) -> int:
        return len(self._tiles)

    def announce(self) -> None:
        """Announce that all pieces will be read in order, so that a far store can prefetch them."""
        self._reading.announce(self._tiles)

    def _of(self, number: int) -> tuple[Place, Wanted] | None:
        made = self._tiles.get(number)
        if made is None:
            return None
        own = [
            Run(run.axis, start, step, count)
            for run, (_, start, step, count) in zip(self._outer, made, strict=True)
        ]
        legs = (*own, *self._inner)
        begins = [*(begin for begin, _, _, _ in made), *(0 for _ in self._inner)]
        kept = self._wanted.kept
        shape = tuple(1 if n is None else legs[n].count for n in kept)
        place = tuple(slice(0, 1) if n is None else slice(begins[n], begins[n] + legs[n].count) for n in kept)
        return place, Wanted(legs, shape)

    def read(self, number: int) -> tuple[Place, npt.NDArray[Any]] | None:
        """A piece with its place; None behind the last."""
        found = self._of(number)
        return None if found is None else (found[0], read(self._reading, found[1]))

    def reader(self) -> Callable[[int], tuple[Place, npt.NDArray[Any]] | None]:
        """`read` into a reused buffer.

        It starts as zeros, since bytes between the members of records are not read.
        """
        dtype = self._reading.element
        if dtype.hasobject or not dtype.itemsize:
            return self.read
        buffer = np.zeros(0, np.uint8)

        def read_to_buffer(number: int) -> tuple[Place, npt.NDArray[Any]] | None:
            nonlocal buffer
            found = self._of(number)
            if found is None:
                return None
            place, wanted = found
            nbytes = math.prod(wanted.shape) * dtype.itemsize
            if len(buffer) < nbytes:
                buffer = np.zeros(nbytes, np.uint8)
            out = buffer[:nbytes].view(dtype).reshape(wanted.shape)
            read(self._reading, wanted, out)
            return place, out

        return read_to_buffer


def _ahead(
    read: Callable[[int], tuple[Place, npt.NDArray[Any]] | None],
    count: int,
) -> Iterator[tuple[Place, npt.NDArray[Any]]]:
    """Reads by index, each while the one before is used; a single read needs no thread."""
    if count < 2:
        if (found := read(0)) is not None:
            yield found
        return
    with ThreadPoolExecutor(1, thread_name_prefix="drystone-pieces") as ahead:
        number = 0
        coming: Future[tuple[Place, npt.NDArray[Any]] | None] = ahead.submit(read, number)
        try:
            while (found := coming.result()) is not None:
                number += 1
                coming = ahead.submit(read, number)
                yield found
                del found
        finally:
            coming.cancel()
            with suppress(Exception):
                coming.exception()
