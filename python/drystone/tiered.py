"""The tiers of a container: levels of safety, drain, and the cache folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, SupportsIndex

from drystone import views
from drystone.group import Group
from drystone.progress import reported
from drystone.reports import StagedPart, Tier, Warmed


class Tiered(Group):
    """The part of a container that deals with tiers and the cache."""

    def levels(self) -> dict[int, str]:
        """The level of safety of each committed step (docs/guide/levels.md).

        `"node"`: it is in a tier of a node. `"partner"`: other nodes can rebuild it. `"home"`: it is in the
        container's store. `"stable"`: it survives a power cut. They are ordered: `"received"` < `"node"` <
        `"partner"` < `"home"` < `"stable"`. `"lost"`: the tiers of this node do not have it any more, and no other
        node keeps it; `recover()` gives it up.
        """
        return self._container._handle.levels()

    def wait(self, step: SupportsIndex, level: str = "home", timeout: float | None = None) -> None:
        """Wait until a step is committed and has this level; `DeadlineError` after `timeout` seconds.

        `NotYetHome` at once if the step cannot get there, because the tiers of this node have lost a part of it; the
        message says what to do. For `"stable"` a handle that may write flushes; any other waits until some process has flushed.
        """
        self._container._handle.wait(step, level, timeout)

    @property
    def redundancy(self) -> str:
        """The scheme by which steps in tiers survive the loss of nodes.

        It is as given to `create`: `"none"`, `"partner"`, `"xor:8"`, `"rs:8+2"`, ...
        """
        return self._container._handle.redundancy

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The tiers of this handle, nearest first, with their contents and the progress of their drain.

        Its cache folder is last.
        """
        return tuple(Tier(*row) for row in self._container._handle.tiers())

    def warm(
        self,
        selection: str | Sequence[str] | Mapping[str, Any] | None = None,
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> Warmed:
        """Load the blocks of a selection from a far home into the cache folder of this handle.

        `selection` is a variable's path, several, a dictionary of paths to indices of slices and integers
        (`{"T": np.s_[-1, :, 0:64]}`), or None: every variable that is stored. `progress(done, total)` is called in
        bytes for each variable; returning False stops (`CancelledError`); True prints to standard error. Raises
        `InvalidArgumentError` if the handle has no cache folder.
        """
        return self._keep(selection, 0, progress)

    def pin(
        self,
        selection: str | Sequence[str] | Mapping[str, Any] | None = None,
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> Warmed:
        """As `warm`, and protect the blocks from eviction until `unpin`."""
        return self._keep(selection, 1, progress)

    def unpin(self, selection: str | Sequence[str] | Mapping[str, Any] | None = None) -> None:
        """Allow eviction of the blocks of a selection. Other pinned blocks stay pinned."""
        self._keep(selection, 2, None)

    def _keep(
        self,
        selection: str | Sequence[str] | Mapping[str, Any] | None,
        what: int,
        progress: Callable[[int, int], object] | bool | None,
    ) -> Warmed:
        if selection is None:
            stored = (name for name in self.variables if not self[name].derived and not self[name].local)
            selection = list(stored)
        if isinstance(selection, str):
            selection = [selection]
        wanted = selection if isinstance(selection, Mapping) else dict.fromkeys(selection, ...)
        shown = reported(progress)
        sums = [0, 0, 0]
        for name, key in wanted.items():
            reading = self._container._handle.reading(name, None)
            axes = views.boxed(reading, key, ("warm", "pin", "unpin")[what])
            sums = [a + b for a, b in zip(sums, reading.keep(axes, what, shown), strict=True)]
        return Warmed(*sums)

    @property
    def staged(self) -> list[StagedPart]:
        """The parts of logs that are not home yet, of all nodes."""
        return [StagedPart(*part) for part in self._container._handle.staged()]

    def drain(
        self, timeout: float | None = None, progress: Callable[[int, int], object] | bool | None = None
    ) -> None:
        """Copy home the parts that writers of this handle closed.

        Parts that dead processes of this node left in its tiers are copied too.

        Raises `DeadlineError` after `timeout` seconds. `progress(done, total)` is called in bytes; returning False
        stops (`CancelledError`); True prints to standard error.
        """
        self._container._settle()
        self._container._handle.drain(timeout, reported(progress))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A hint that the program computes inside `with c.computing():`.

        The drain of its tiers may then use the full bandwidth.
        """
        self._container._handle.computing(True)
        try:
            yield
        finally:
            self._container._handle.computing(False)
