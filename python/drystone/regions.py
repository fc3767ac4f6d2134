"""Regions of variables: mapped into memory, locked, released; the data moves while the program goes on."""

from __future__ import annotations

import operator
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from drystone._core import RegionHandle, RegionsHandle
from drystone.errors import (
    DeadlineError,
    InvalidArgumentError,
    OutOfRangeError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from drystone.container import Container
    from drystone.variable import Variable

    _Level = Literal["received", "node", "partner", "home", "stable"]
    _Mode = Literal["r", "w", "rw"]


_LEVELS = ("received", "node", "partner", "home", "stable")


def regions_of(container: Container) -> RegionsHandle:
    """The locks and releases of a container: its server's, or this process's."""
    if container.mode == "r":
        raise InvalidArgumentError('regions are written in a container that was opened with mode="r+"')
    return RegionsHandle.of(container._handle, list(container._all_options()))


def operation_text(operation: str, parameters: Mapping[str, float | str]) -> str:
    """An operation in transit as a text for the engine."""
    pairs = ",".join(f"{key}={value}" for key, value in parameters.items())
    return f"{operation}:{pairs}" if pairs else operation


class Transfer:
    """Values of a released region that are being transferred to the container."""

    def __init__(self, handle: RegionsHandle | None, number: int, level: _Level) -> None:
        self._handle = handle
        self._number = number
        self._wanted = level
        self._reached: str = "received"
        # Whether its error was raised, so that a commit does not raise it again.
        self._told = False

    def __repr__(self) -> str:
        return f"<drystone.Transfer at level {self._reached!r}>"

    @property
    def level(self) -> _Level:
        """The level reached so far."""
        self._look("stable" if self._wanted == "stable" else "node", 0)
        return cast("_Level", self._reached)

    @property
    def done(self) -> bool:
        """Whether the values are in the container's log, where they survive the process.

        Raises the error if they could not be written.
        """
        return _LEVELS.index(self.level) >= _LEVELS.index("node")

    def wait(self, timeout: float | None = None, level: _Level | None = None) -> None:
        """Wait until the values have this level, at least `"node"`; raises `DeadlineError` after `timeout` seconds."""
        wanted = _checked(level or ("stable" if self._wanted == "stable" else "node"))
        if wanted == "stable" and self._wanted != "stable":
            raise InvalidArgumentError('ask for "stable" in release(level="stable"): the release decides it')
        until = None if timeout is None else time.monotonic() + timeout
        while not self._look(wanted, 1.0 if until is None else max(0.0, min(1.0, until - time.monotonic()))):
            if until is not None and time.monotonic() >= until:
                raise DeadlineError(
                    f"the transfer has level {self._reached!r}, not {wanted!r}, after {timeout} s"
                )

    def _look(self, wanted: _Level, timeout: float) -> bool:
        needed = _LEVELS.index(wanted)
        # Without tiers, the log is in the home store.
        needed = min(needed, 1) if wanted == "home" else needed
        if _LEVELS.index(self._reached) < needed and self._handle is not None:
            told, self._told = self._told, True
            self._reached = self._handle.wait(self._number, wanted == "stable", timeout)
            self._told = told
        return _LEVELS.index(self._reached) >= needed


def _checked(level: str) -> _Level:
    if level not in _LEVELS:
        raise InvalidArgumentError(f"there is no level {level!r}; levels are {', '.join(_LEVELS)}")
    if level == "partner":
        raise UnsupportedError(
            'level "partner" needs a tier with a partner; this container has no tiers: ask for "home"'
        )
    return cast("_Level", level)


class Region:
    """A box of a variable at one step, with memory for its values. `Variable.map` makes one.

    `array` is NumPy memory. `lock("r")` fills it with the newest committed values and never waits. `lock("w")`
    waits until no other lock holds a cell of the box; `release` starts to write the values and returns a
    `Transfer`. Locking is optional: a release without a lock is an ordinary put, and the newest value wins.
    """

    def __init__(
        self,
        variable: Variable,
        step: int | None,
        offset: tuple[int, ...],
        count: tuple[int, ...],
        mode: _Mode,
    ) -> None:
        self._variable = variable
        self._container = variable._container
        self.step = step
        self.offset = offset
        self.count = count
        self.mode = mode
        self._region: RegionHandle | None = None
        self._own: npt.NDArray[Any] | None = None
        self._reading = False
        self._closed = False
        self._container._mapped.add(self)
        if self._container.mode != "r":
            self._region = self._container._regions.map(
                self._container._handle, variable.name, step, offset, count, mode != "w", mode != "r"
            )
        if mode != "w":
            self._load(self._container)

    def __repr__(self) -> str:
        held = (
            "locked to write"
            if self.fence is not None
            else "locked to read"
            if self._reading
            else "not locked"
        )
        at = "" if self.step is None else f", step {self.step}"
        return f"<drystone.Region of {self._variable.name}{at}: {self.count} at {self.offset}, {held}>"

    @property
    def array(self) -> npt.NDArray[Any]:
        """Its memory, of the shape `count`.

        After a release of a large region this waits until the values have left it. Arrays obtained before that
        release are read-only.
        """
        self._require_open()
        if self._own is None:
            if self._region is None:
                self._own = np.zeros(self.count, self._variable.dtype)
            else:
                self._own = np.asarray(self._region.memory()).view(self._variable.dtype).reshape(self.count)
        return self._own

    @property
    def shared(self) -> bool:
        """Whether its memory is shared with the server, so that a release copies nothing in this process."""
        self._require_open()
        return self._region is not None and self._region.memory().shared

    @property
    def fence(self) -> int | None:
        """The fencing number of the write lock that it has: locks that are granted later have greater ones."""
        return None if self._region is None else self._region.fence

    def lock(
        self, kind: Literal["r", "w"], timeout: float = 10.0, *, lease: float = 0.0, renew: bool = True
    ) -> Self:
        """Locks the region; `with region.lock("w"): ...` releases it.

        Args:
            kind: `"r"` pins the newest snapshot and reads it into `array`; it does not wait. `"w"` is a lease on
                the box.
            timeout: Seconds after which waiting for a write lock raises `DeadlineError`.
            lease: Seconds after which the lease ends if it is not renewed; at most 10, or the configured value of
                the server.
            renew: Renew it in the background while this process lives.

        """
        self._require_open()
        if self.fence is not None or self._reading:
            raise InvalidArgumentError("the region is locked: release it first")
        if kind == "r":
            if self.mode == "w":
                raise InvalidArgumentError(
                    'the region was mapped with mode="w": map it with "r" or "rw" to read it'
                )
            self._load(None)
            self._reading = True
            return self
        if kind != "w":
            raise InvalidArgumentError(f'a lock is "r" or "w", not {kind!r}')
        if self.mode == "r":
            raise InvalidArgumentError(
                'the region was mapped with mode="r": map it with "w" or "rw" to write it'
            )
        self._writable().lock(timeout, lease, renew)
        if self.mode == "rw":
            self._load(None)
        return self

    def release(self, level: _Level = "received") -> Transfer:
        """Ends the lock, and writes the values to the container.

        Returns when the values have this level: `"received"` (in the memory of the engine or the server), `"node"`
        and `"home"` (in the log of the container), `"stable"` (committed and synced). They are visible after a
        commit. Raises `LeaseExpired` if the lease has ended; then nothing was written.
        """
        self._require_open()
        _checked(level)
        if self._reading:
            self._reading = False
            return self._nothing_to_do()
        if self.mode == "r":
            return self._nothing_to_do()
        number, is_read = self._writable().release(level == "stable")
        if is_read and self._own is not None:
            self._own.flags.writeable = False
            self._own = None
        transfer = Transfer(self._container._regions, number, level)
        self._container._released(transfer)
        if level != "received":
            transfer.wait(level=level)
        return transfer

    def unlock(self) -> None:
        """Ends the lock; changes in the array are not written."""
        self._reading = False
        if self._region is not None:
            self._region.unlock()

    def close(self) -> None:
        """Ends the lock and frees the memory. Closing again does nothing."""
        if not self._closed:
            self._reading = False
            self._closed = True
            self._own = None
            region, self._region = self._region, None
            if region is not None:
                region.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.unlock()
        elif self.fence is not None or self._reading:
            self.release()

    def _writable(self) -> RegionHandle:
        if self._region is None:
            raise InvalidArgumentError('regions are written in a container that was opened with mode="r+"')
        return self._region

    def _nothing_to_do(self) -> Transfer:
        transfer = Transfer(None, 0, "received")
        transfer._reached = "stable"
        return transfer

    def _require_open(self) -> None:
        if self._closed:
            raise InvalidArgumentError("the region is closed")

    def _load(self, container: Container | None) -> None:
        """Read the box, from the newest snapshot or from that of a container."""
        fresh = self._container._newest() if container is None else container
        try:
            if self._region is not None:
                self._region.load(fresh._handle)
                return
            variable = fresh[self._variable.name]
            if self.step is not None and self.step >= variable.shape[0]:
                fill = variable.fill_value  # none of it is written yet
                self.array[...] = 0 if fill is None else fill
                return
            variable.read(step=self.step, offset=self.offset, count=self.count, out=self.array)
        finally:
            if container is None:
                fresh.close()


def _whole(value: SupportsIndex, what: str) -> int:
    if isinstance(value, bool | np.bool_):
        raise InvalidArgumentError(f"{what} is a whole number, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{what} is a whole number, not {value!r:.80}") from None


def region(
    variable: Variable,
    step: SupportsIndex | None,
    offset: Sequence[SupportsIndex] | None,
    count: Sequence[SupportsIndex] | None,
    mode: _Mode,
) -> Region:
    """Check the arguments of a region, and make it."""
    if mode not in ("r", "w", "rw"):
        raise InvalidArgumentError(f'the mode of a region is "r", "w" or "rw", not {mode!r}')
    if mode != "r" and variable.derived is not None:
        raise InvalidArgumentError(
            f'"{variable.name}" is derived ({variable.derived.text}), and its values are not written: map its inputs, '
            'or map it with mode="r"'
        )
    if variable.member is not None:
        raise UnsupportedError(f"map the whole of {variable.name}: one member of a record cannot be mapped")
    shape = variable.shape[1:] if variable.has_steps else variable.shape
    if variable.has_steps != (step is not None):
        raise InvalidArgumentError(
            f"{variable.name} has steps: say which" if variable.has_steps else f"{variable.name} has no steps"
        )
    number = None if step is None else _whole(step, "the step")
    if number is not None and number < 0:
        number += variable.shape[0]
    at = (0,) * len(shape) if offset is None else tuple(_whole(n, "the offset") for n in offset)
    size = (
        tuple(n - a for n, a in zip(shape, at, strict=False))
        if count is None
        else tuple(_whole(n, "the count") for n in count)
    )
    if len(at) != len(shape) or len(size) != len(shape):
        raise InvalidArgumentError(
            f"{variable.name} has {len(shape)} dimensions; offset has {len(at)}, count {len(size)}"
        )
    if (number is not None and number < 0) or any(
        a < 0 or n <= 0 or a + n > m for a, n, m in zip(at, size, shape, strict=True)
    ):
        raise OutOfRangeError(
            f"the box at {at} of {size} cells, step {step}, does not lie in {variable.name} {shape}"
        )
    return Region(variable, number, at, size, mode)
