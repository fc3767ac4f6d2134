"""Assignment to variables: `T[...] = array`.

Blocks go to writers that the container keeps, one for each thread that assigns at the moment; none waits for another, and
no block has to be aligned with anything. The next read of the container closes them, which makes all of it visible.
"""

from __future__ import annotations

import atexit
import operator
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drystone import selection, values
from drystone.errors import ConflictError, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from drystone.container import Container
    from drystone.writer import Writer


class Assigned:
    """What was assigned to a container and is not yet visible.

    A container that is dropped, or still open when the program ends, settles it then, as `close` would; not so in a child
    that was forked, to which it does not belong.
    """

    def __init__(self, container: Container) -> None:
        # Not a cycle, in which files would stay open until the collector comes by: writers that wait hold the container.
        self._container = weakref.ref(container)
        self._changed = threading.Condition()
        self._idle: list[Writer] = []
        self._busy = 0
        self._steps = False
        self._process = os.getpid()
        _all.add(self)
        self.elsewhere: tuple[str, tuple[tuple[str, str], ...]] | None = None
        """Where assignments go, if the container is a reopened one that is for reading."""

    def __del__(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Settle what waits, when nobody can ask for it any more."""
        if self.pending and os.getpid() == self._process:
            container = self._owner()
            if container is not None and not container.closed:
                self.settle()

    def _owner(self) -> Container | None:
        return self._idle[0]._container if self._idle else self._container()

    @property
    def pending(self) -> bool:
        """Whether there is something to settle."""
        return bool(self._idle or self._busy)

    @contextmanager
    def writer(self, steps: bool) -> Iterator[Writer]:
        """A writer for this thread alone."""
        if self.elsewhere is not None:
            from drystone.container import open_again

            path, options = self.elsewhere
            with open_again(path, "r+", options) as container:
                with container.writer() as writer:
                    yield writer
                if steps:
                    container.commit()
            return
        with self._changed:
            mine = self._idle.pop() if self._idle else None
            self._busy += 1
            self._steps |= steps
        try:
            if mine is None:
                owner = self._container()
                assert owner is not None, "who assigns to it holds it"
                mine = owner.writer()
            yield mine
        finally:
            with self._changed:
                self._busy -= 1
                if mine is not None:
                    self._idle.append(mine)
                self._changed.notify_all()

    def settle(self, commit: bool = True) -> None:
        """Close the writers and commit their steps."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy)
            container = self._owner()
            idle, self._idle = self._idle, []
            steps, self._steps = self._steps, False
        for writer in idle:
            writer.close()
        if steps and commit and container is not None:
            container.commit()


_all: weakref.WeakSet[Assigned] = weakref.WeakSet()


@atexit.register
def _abandon_all() -> None:
    for assigned in list(_all):
        assigned.abandon()


def assign(container: Container, path: str, member: str | None, key: Any, value: Any) -> None:
    """Write `value` to what the key selects."""
    reading = container._handle.reading(path, member)
    name = f'"{path}"' + (f' member "{member}"' if member else "")
    if reading.local:
        raise InvalidArgumentError(f"{name} is a local variable: put a value with a writer")
    growing = [*reading.growable, *(False for _ in reading.inner)]
    if reading.has_steps:
        growing.insert(0, True)
    wanted = selection.select(key, _room(key, reading.shape, growing))
    start, count, flip = [], [], []
    for leg in wanted.legs:
        if not isinstance(leg, selection.Run) or (leg.count > 1 and abs(leg.step) != 1):
            raise UnsupportedError(f"{name}: only slices of step 1 or -1 and integers can be assigned to")
        back = leg.count > 1 and leg.step < 0
        start.append(leg.start - (leg.count - 1 if back else 0))
        count.append(leg.count)
        flip.append(back)
    array = values.as_stored(value, reading.element, name)
    try:
        array = np.broadcast_to(array, wanted.shape).reshape(count)
    except ValueError:
        raise InvalidArgumentError(
            f"{name}: an array of shape {array.shape} does not fit into {wanted.shape}"
        ) from None
    # With an ellipsis an array of no axes stays one: without, a text would come out.
    array = array[(..., *(slice(None, None, -1 if back else None) for back in flip))]
    assign_box(container, path, member, start, array)


def assign_box(
    container: Container, path: str, member: str | None, start: Sequence[int], array: npt.NDArray[Any]
) -> None:
    """Write an array with its first cell at `start`, the step first if there are steps."""
    reading = container._handle.reading(path, member)
    if 0 in array.shape:
        return
    if container.mode == "r" and container._assigned.elsewhere is None:
        raise ConflictError(
            f'"{path}" cannot be assigned to: the container is open for reading (mode="r+" writes)'
        )
    inner = len(reading.inner)
    outer = len(start) - inner
    if member is not None and tuple(array.shape[outer:]) != tuple(reading.inner):
        part = zip(start[outer:], array.shape[outer:], strict=True)
        member += f"[{', '.join(f'{first}:{first + n}' for first, n in part)}]"
    with container._assigned.writer(reading.has_steps) as writer:
        if not reading.has_steps:
            writer.put(path, array, offset=start[:outer], field=member)
            return
        for step, block in enumerate(array, start[0]):
            with writer.step(step):
                writer.put(path, block, offset=start[1:outer], field=member)


def _room(key: Any, shape: Sequence[int], growing: Sequence[bool]) -> tuple[int, ...]:
    """The shape that a key is about: axes that grow reach as far as it says."""
    items = [item for item in (key if isinstance(key, tuple) else (key,)) if item is not None]
    at = next((n for n, item in enumerate(items) if item is Ellipsis), len(items))
    behind = items[at + 1 :]
    placed = [*enumerate(items[:at]), *enumerate(behind, len(shape) - len(behind))]
    room = list(shape)
    for axis, item in placed:
        if 0 <= axis < len(room) and growing[axis]:
            end = item.stop if isinstance(item, slice) else item
            end = 0 if end is None or not hasattr(end, "__index__") else operator.index(end)
            room[axis] = max(room[axis], end + (0 if isinstance(item, slice) else 1))
    return tuple(room)
