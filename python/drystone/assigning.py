"""Assignment to variables: `T[...] = array`.

Threads that assign at once have writers of their own, do not wait for each other, and blocks need no alignment. Writers
are committed in the order of their last assignments. So a writer with values takes more only if no other writer has
taken any since; else an older value could be committed after a newer one.
The next read of the container commits all assigned values, which makes them visible. The writers stay open: a program
that changes values a thousand times has one log, not a thousand.
"""

from __future__ import annotations

import atexit
import itertools
import math
import operator
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from drystone import selection, values
from drystone.errors import ConflictError, DrystoneError, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from drystone._core import ReadingHandle, WriterHandle
    from drystone.container import Container
    from drystone.writer import Writer


class Assigned:
    """Assigned values of a container that are not yet visible.

    A container that is dropped, or still open when the program ends, commits them then, as `close` would. A forked
    child does not: the values belong to its parent.
    """

    def __init__(self, container: Container) -> None:
        # Not a reference cycle, which would keep files open until the next collection: waiting writers reference the
        # container.
        self._container = weakref.ref(container)
        self._changed = threading.Condition()
        self._idle: list[Writer] = []
        # Writers with nothing to commit: only their handles, which do not reference the container.
        self._settled: list[WriterHandle] = []
        self._busy = 0
        # The number of assignments that have begun, and that of each waiting writer's last one.
        self._begun = 0
        self._last: weakref.WeakKeyDictionary[Writer, int] = weakref.WeakKeyDictionary()
        # The process and the thread that commit the values now. A forked child has no such thread.
        self._settler: tuple[int, int] | None = None
        self._steps = False
        self._ends: dict[str, list[int]] = {}
        # The variables with steps among these: all have the same step axis.
        self._stepped: set[str] = set()
        self._process = self._settled_by = os.getpid()
        _all.add(self)
        self.elsewhere: tuple[str, tuple[tuple[str, str], ...]] | None = None
        """The container that takes assignments, if this one was reopened for reading."""

    def __del__(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Write pending blocks when the container is no longer referenced."""
        if self.pending and os.getpid() == self._process:
            container = self._owner()
            if container is not None and not container.closed:
                self.settle()
        self._close_settled()

    def end(self) -> None:
        """Commit the pending values, and close all writers."""
        try:
            if self.pending:
                self.settle(go_on=False)
        finally:
            self._close_settled()

    def _close_settled(self) -> None:
        with self._changed:
            settled, self._settled = self._settled, []
        for handle in settled:
            with suppress(DrystoneError):  # Nothing is lost: everything they wrote is committed.
                handle.close()

    def _in_child(self) -> None:
        """After a fork: the child has none of the threads that assigned or committed."""
        self._changed = threading.Condition()
        self._busy, self._settler = 0, None

    def _owner(self) -> Container | None:
        return self._idle[0]._container if self._idle else self._container()

    @property
    def pending(self) -> bool:
        """Whether there is something to commit, or another thread is committing it."""
        if self._settler == (os.getpid(), threading.get_ident()):
            return False
        return bool(self._idle or self._busy or self._is_settling)

    @property
    def _is_settling(self) -> bool:
        return self._settler is not None and self._settler[0] == os.getpid()

    @contextmanager
    def writer(self, steps: bool) -> Iterator[Writer]:
        """A writer for the calling thread only."""
        if self.elsewhere is not None:
            from drystone.opening import open_again

            path, options = self.elsewhere
            with open_again(path, "r+", options) as container:
                with container.writer() as writer:
                    yield writer
                if steps:
                    container.commit()
            return
        with self._changed:
            newest = max(self._idle, key=self._begun_last, default=None)
            mine = newest if newest is not None and self._begun_last(newest) == self._begun else None
            if mine is not None:
                self._idle.remove(mine)
            self._begun += 1
            number = self._begun
            self._busy += 1
            self._steps |= steps
        try:
            if mine is None:
                owner = self._container()
                assert owner is not None, "who assigns to it holds it"
                mine = self._again(owner) or owner.writer()
                mine._is_assigned = True
            self._last[mine] = number
            yield mine
        finally:
            with self._changed:
                self._busy -= 1
                if mine is not None:
                    self._idle.append(mine)
                self._changed.notify_all()

    def _begun_last(self, writer: Writer) -> int:
        return self._last.get(writer, 0)

    def bound(self) -> None:
        """Commit what is pending if many writers wait, since each has a log of its own."""
        if len(self._idle) > MOST_WRITERS:
            self.settle()

    def _again(self, owner: Container) -> Writer | None:
        """A writer of this process that has nothing to commit, if there is one."""
        from drystone.writer import Writer

        with self._changed:
            if os.getpid() != self._settled_by:
                self._settled, self._settled_by = [], os.getpid()
            return Writer(owner, self._settled.pop()) if self._settled else None

    @contextmanager
    def settling(self, go_on: bool = True) -> Iterator[Container | None]:
        """Commit the writers' blocks; then the block of the `with` commits what they closed.

        Yields the container if they closed steps, else None. The writers stay open if `go_on`, else they are closed.
        If something fails, its values and those of the writers after it stay pending.
        """
        with self._changed:
            # While another thread commits, the values of this one may be among those that it commits.
            self._changed.wait_for(lambda: not self._busy and not self._is_settling)
            self._settler = os.getpid(), threading.get_ident()
            container = self._owner()
            idle, self._idle = sorted(self._idle, key=self._begun_last), []
            steps, self._steps = self._steps, False
            ends = {path: list(end) for path, end in self._ends.items()}
        try:
            while idle:
                writer = idle[0]
                if go_on and os.getpid() == self._settled_by and writer._handle.commit():
                    writer._container._warn()
                    with self._changed:
                        self._settled.append(writer._handle)
                else:
                    writer.close()
                del idle[0]
            yield container if steps else None
            self.committed(ends)
            steps = False
        finally:
            with self._changed:
                self._settler = None
                self._idle.extend(idle)
                self._steps |= steps
                self._changed.notify_all()

    def settle(self, go_on: bool = True) -> None:
        """Commit the writers' blocks and steps."""
        with self.settling(go_on) as container:
            if container is not None:
                container.commit()

    def reached(self, container: Container, path: str, end: Sequence[int], has_steps: bool) -> None:
        """Record the end of an invisible box, so that appended cells go behind it."""
        path = container._handle.followed(path) or path
        with self._changed:
            if has_steps:
                self._stepped.add(path)
            known = self._ends.setdefault(path, [0] * len(end))
            known[:] = map(max, known, end)

    def shape(self, container: Container, path: str, reading: ReadingHandle) -> tuple[int, ...]:
        """The shape of a variable, including assigned values that are not yet visible."""
        path = container._handle.followed(path) or path
        with self._changed:
            ends = list(self._ends.get(path, ()))
            if reading.has_steps:
                others = (self._ends[other][0] for other in self._stepped)
                ends[:1] = [max(others, default=0)]
            return tuple(
                map(max, itertools.zip_longest(reading.shape, ends[: len(reading.shape)], fillvalue=0))
            )

    def committed(self, ends: dict[str, list[int]]) -> None:
        """Forget these ends, which the container now shows, unless more was assigned since."""
        with self._changed:
            for path, end in ends.items():
                if self._ends.get(path) == end:
                    del self._ends[path]
                    self._stepped.discard(path)

    @contextmanager
    def behind(self, container: Container, path: str, axis: int, count: Sequence[int]) -> Iterator[list[int]]:
        """Reserve space for this many cells behind all written ones along an axis, for this thread."""
        known = container._handle.followed(path) or path
        with self._changed:
            reading = container._handle.reading(path)
            there = (reading.steps()[-1:] or [-1])[0] + 1 if reading.has_steps else reading.shape[axis]
            ends = self._ends.setdefault(known, [0] * len(count))
            if reading.has_steps:
                self._stepped.add(known)
            start = max(there, ends[axis])
            ends[axis] = start + count[axis]
            self._busy += (
                1  # A commit in between would forget the end before the cells in front of it are written.
            )
        place = [0] * len(count)
        place[axis] = start
        try:
            yield place
        except BaseException:
            with self._changed:
                if ends[axis] == start + count[axis]:
                    ends[axis] = start
            raise
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()


_all: weakref.WeakSet[Assigned] = weakref.WeakSet()


@atexit.register
def _abandon_all() -> None:
    for assigned in list(_all):
        assigned.abandon()


def _all_in_child() -> None:
    for assigned in list(_all):
        assigned._in_child()


os.register_at_fork(after_in_child=_all_in_child)

MOST_WRITERS = 16
"""The most writers that wait with values. More are there only if several threads assign at once."""

MOST_BOXES = 4096
"""The most boxes of one assignment. Each is a block, which every later read of the region must examine."""


def assign(
    container: Container,
    path: str,
    member: str | None,
    key: Any,
    value: Any,
    rule: selection.Rule = selection.Rule.PLAIN,
) -> None:
    """Write `value` to the selected cells only, as boxes. Nothing is read and written back."""
    container._assigned.bound()
    reading = container._handle.reading(path, member)
    name = f'"{path}"' + (f' member "{member}"' if member else "")
    if reading.local:
        raise InvalidArgumentError(f"{name} is a local variable: put a value with a writer")
    growing = [*reading.growable, *(False for _ in reading.inner)]
    if reading.has_steps:
        growing.insert(0, True)
    shape = container._assigned.shape(container, path, reading) if any(growing) else reading.shape
    wanted = selection.select(key, _room(key, shape, growing), rule)
    array = values.as_stored(value, reading.element, name)
    while array.ndim > len(wanted.shape) and array.shape[0] == 1:  # as NumPy's assignment
        array = array[0]
    counts = [leg.count for leg in wanted.legs]
    try:
        array = np.broadcast_to(array, wanted.shape).reshape(counts)
    except ValueError:
        raise InvalidArgumentError(
            f"{name}: an array of shape {array.shape} does not fit into {wanted.shape}"
        ) from None
    if array.size == 0:
        return
    cut = [_ends(leg) for leg in wanted.legs]
    number = math.prod(len(ends) for ends in cut)
    if number > MOST_BOXES:
        raise UnsupportedError(
            f"{name}: what is selected falls into {number} boxes, and one assignment writes {MOST_BOXES} "
            "at most: assign parts of it, or, if nothing else writes there, read the box around it, change that and assign it"
        )
    _write(container, path, member, _boxes(wanted.legs, cut, array))
    _show(container)


def assign_box(
    container: Container, path: str, member: str | None, start: Sequence[int], array: npt.NDArray[Any]
) -> None:
    """Write an array with its first cell at `start`, the step first if there are steps."""
    if 0 not in array.shape:
        container._assigned.bound()
        _write(container, path, member, [(start, array)])
        _show(container)


_Box: TypeAlias = tuple[Sequence[int], npt.NDArray[Any]]


def _ends(leg: selection.Leg) -> Sequence[int]:
    """The ends of the parts of a leg that are contiguous along one axis."""
    if isinstance(leg, selection.Run):
        return [leg.count] if abs(leg.step) == 1 or leg.count == 1 else range(1, leg.count + 1)
    moved = np.diff(leg.cells, axis=0)
    apart = (moved[:, :-1] != 0).any(1) | (moved[:, -1] != 1)
    return [*(np.flatnonzero(apart) + 1).tolist(), leg.count]


def _boxes(
    legs: Sequence[selection.Leg], cut: Sequence[Sequence[int]], array: npt.NDArray[Any]
) -> Iterator[_Box]:
    """The parts of an array with an axis per leg, and their positions.

    They follow the order of the key: if a cell is selected twice, its last value counts.
    """
    # The positions along the axis that varies within a part: the last axis of a leg.
    order = sorted(range(len(legs)), key=lambda n: legs[n].axes[-1])
    ndim = sum(len(leg.axes) for leg in legs)
    for ends in itertools.product(*(zip([0, *end], end, strict=False) for end in cut)):
        start, count = [0] * ndim, [1] * ndim
        index: list[Any] = [...]  # without it an array without axes would become a text
        for leg, (begin, end) in zip(legs, ends, strict=True):
            back = isinstance(leg, selection.Run) and leg.count > 1 and leg.step == -1
            if isinstance(leg, selection.Run):
                start[leg.axis] = leg.start + leg.step * (end - 1 if back else begin)
            else:
                for axis, cell in zip(leg.axes, leg.cells[begin].tolist(), strict=True):
                    start[axis] = cell
            count[leg.axes[-1]] = end - begin
            index.append(slice(end - 1, begin - 1 if begin else None, -1) if back else slice(begin, end))
        yield start, array[tuple(index)].transpose(order).reshape(count)


def _write(container: Container, path: str, member: str | None, boxes: Iterable[_Box]) -> None:
    """Write boxes; those of one step go together."""
    reading = container._handle.reading(path, member)
    assigned = container._assigned
    if container.mode == "r" and assigned.elsewhere is None:
        raise ConflictError(
            f'"{path}" cannot be assigned to: the container is open for reading (mode="r+" writes)'
        )
    inner = len(reading.inner)
    grows = reading.has_steps or any(reading.growable)

    def put(writer: Writer, start: Sequence[int], array: npt.NDArray[Any]) -> None:
        outer = len(start) - inner
        field = member
        if field is not None and tuple(array.shape[outer:]) != tuple(reading.inner):
            part = zip(start[outer:], array.shape[outer:], strict=True)
            field += f"[{', '.join(f'{first}:{first + n}' for first, n in part)}]"
        writer.put(path, array, offset=start[:outer], field=field)

    container._commit_earlier(assigned=False)
    steps: dict[int, list[_Box]] = {}
    with assigned.writer(reading.has_steps) as writer:
        for start, array in boxes:
            if grows:
                end = [at + n for at, n in zip(start, array.shape, strict=True)]
                assigned.reached(container, path, end, reading.has_steps)
            if not reading.has_steps:
                put(writer, start, array)
                continue
            for n in range(len(array)):
                # Not array[n], which of one text or list is no array.
                steps.setdefault(start[0] + n, []).append((start[1:], array[n, ...]))
        for step, blocks in steps.items():
            with writer.step(step):
                for start, block in blocks:
                    put(writer, start, block)


def _show(container: Container) -> None:
    """Commit what was assigned, with strong consistency."""
    if container._consistency == "strong" and container._assigned.elsewhere is None:
        container.commit()


def append(container: Container, path: str, value: Any, axis: SupportsIndex | None) -> None:
    """Write `value` after the existing cells: as the next step or steps, or along a growable axis."""
    container._assigned.bound()
    reading = container._handle.reading(path)
    name = f'"{path}"'
    if reading.local:
        raise InvalidArgumentError(f"{name} is a local variable: put a value with a writer")
    if container._assigned.elsewhere is not None:
        raise ConflictError(f'{name} is of a pickled container: open that with mode="r+" to append')
    array = values.as_stored(value, reading.element, name)
    growable = [True, *reading.growable] if reading.has_steps else list(reading.growable)
    if reading.has_steps and array.ndim == len(growable) - 1:
        array = array[np.newaxis]
    at = _appended_axis(name, growable, reading.has_steps, axis)
    extents = reading.shape
    fits = array.ndim == len(extents) and all(
        grows or n == extent for n, extent, grows in zip(array.shape, extents, growable, strict=True)
    )
    if not fits:
        room = ", ".join("any" if grows else str(n) for n, grows in zip(extents, growable, strict=True))
        raise InvalidArgumentError(f"{name}: an array of shape {array.shape} is not appended to ({room})")
    if array.shape[at] == 0:
        return
    with container._assigned.behind(container, path, at, array.shape) as start:
        _write(container, path, None, [(start, array)])
    _show(container)


def _appended_axis(name: str, growable: Sequence[bool], steps: bool, axis: SupportsIndex | None) -> int:
    if axis is None:
        grow = [0] if steps else [n for n, grows in enumerate(growable) if grows]
        if len(grow) != 1:
            what = "several axes that grow: give axis=" if grow else "no steps and no axis that grows"
            raise InvalidArgumentError(f"{name} has {what}")
        return grow[0]
    at = operator.index(axis)
    at += len(growable) if at < 0 else 0
    if not 0 <= at < len(growable) or not growable[at] or (steps and at):
        raise InvalidArgumentError(f"{name} is not appended to along axis {axis}")
    return at


def _room(key: Any, shape: Sequence[int], growing: Sequence[bool]) -> tuple[int, ...]:
    """The shape that a key applies to: growable axes extend as far as the key."""
    items = [_reach(item) for item in (key if isinstance(key, tuple) else (key,)) if item is not None]
    at = next((n for n, item in enumerate(items) if item is None), len(items))
    room = list(shape)
    axis = 0
    for n, item in enumerate(items):
        if n == at:
            axis = len(shape) - sum(one[0] for one in items[at + 1 :] if one is not None)
        if item is None:
            continue
        width, end = item
        if width and 0 <= axis < len(room) and growing[axis]:
            room[axis] = max(room[axis], end)
        axis += width
    return tuple(room)


def _reach(item: Any) -> tuple[int, int] | None:
    """The number of axes that an index selects from, and its end along the first one; None for `...`."""
    if item is Ellipsis:
        return None
    if isinstance(item, slice):
        return 1, operator.index(item.stop) if hasattr(item.stop, "__index__") else 0
    if isinstance(item, bool | np.bool):
        return 0, 0
    if isinstance(item, list | tuple) or (values.is_array(item) and not isinstance(item, int)):
        try:
            array = values.as_array(item)
        except ValueError:  # The list is not rectangular; `selection` refuses it.
            return 1, 0
        if array.dtype.kind == "b":
            return array.ndim, 0
        # A negative number counts from the present end, so it never lies beyond it.
        beyond = array.dtype.kind in "iu" and array.size and array.min() >= 0
        return 1, int(array.max()) + 1 if beyond else 0
    return 1, operator.index(item) + 1 if hasattr(item, "__index__") else 0
