"""Where the bytes of a container lie on their way home: tiers, levels of safety, drain, and the cache folder."""

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
        """How safe each committed step is: `"node"` while it lies in a tier, `"partner"` once other nodes keep enough of it, `"home"`, or `"stable"` where it survives a power cut.

        The levels are ordered: `"received"` < `"node"` < `"partner"` < `"home"` < `"stable"`.
        """
        return self._container._handle.levels()

    def wait(self, step: SupportsIndex, level: str = "home", timeout: float | None = None) -> None:
        """Wait until a step is committed and has this level; `DeadlineError` after `timeout` seconds.

        For `"stable"` a handle that may write flushes; any other waits until some process has flushed.
        """
        self._container._handle.wait(step, level, timeout)

    @property
    def redundancy(self) -> str:
        """How steps in tiers survive the loss of nodes, as `create` was told: `"none"`, `"partner"`, `"xor:8"`, `"rs:8+2"`, ..."""
        return self._container._handle.redundancy

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The tiers of this handle, nearest first, with what lies in them and how far their drain is; its cache folder last."""
        return tuple(Tier(*row) for row in self._container._handle.tiers())

    def warm(
        self,
        selection: str | Sequence[str] | Mapping[str, Any] | None = None,
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> Warmed:
        """Bring the blocks of a selection from a far home into the cache folder of this handle.

        `selection` is a variable's path, several, a dictionary of paths to indices of slices and integers
        (`{"T": np.s_[-1, :, 0:64]}`), or None: every variable that is stored. `progress(done, total)` is called in bytes for each
        variable, and stops by returning False (`CancelledError`); True prints to standard error. It is an `InvalidArgumentError`
        if the handle has no cache folder.
        """
        return self._keep(selection, 0, progress)

    def pin(
        self,
        selection: str | Sequence[str] | Mapping[str, Any] | None = None,
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> Warmed:
        """As `warm`, and keep the blocks in the folder until `unpin`, even if other blocks need room."""
        return self._keep(selection, 1, progress)

    def unpin(self, selection: str | Sequence[str] | Mapping[str, Any] | None = None) -> None:
        """Let the folder give up the blocks of a selection. Other pinned blocks stay pinned."""
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
        """Bring home the parts that writers of this handle closed, and those that dead processes of this node left in its tiers.

        `DeadlineError` after `timeout` seconds. `progress(done, total)` is called in bytes, and stops by giving False
        (`CancelledError`); True prints to standard error.
        """
        self._container._settle()
        self._container._handle.drain(timeout, reported(progress))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A hint that the program computes inside `with c.computing():`, so that the drain of its tiers need not give way."""
        self._container._handle.computing(True)
        try:
            yield
        finally:
            self._container._handle.computing(False)
