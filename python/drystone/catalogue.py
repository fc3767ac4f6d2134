"""Catalogues: find containers by tags, names and ranges of values without opening them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import overload

from drystone import html
from drystone._core import CatalogHandle
from drystone.container import Container
from drystone.counted import counted
from drystone.errors import InvalidArgumentError, warn
from drystone.location import is_url, place, store_options
from drystone.opening import open as open_container
from drystone.reports import moment

Path = str | os.PathLike[str]


def catalog(url: Path, *, storage_options: Mapping[str, object] | None = None, make: bool = True) -> Catalog:
    """Open the catalogue at a path or URL, or make one there.

    Args:
        url: A folder of its own, or a URL of an object store.
        storage_options: As in `open`. They are also used for containers at URLs.
        make: Create it if it does not exist. Otherwise a missing catalogue raises `NotFoundError`.

    """
    location = place(url)
    options = store_options(location, storage_options, leads_to_urls=True)
    return Catalog(CatalogHandle.open(location, options, make))


@dataclass(frozen=True)
class Match:
    """A container that satisfies a question."""

    path: str
    """Its absolute path or URL."""
    snapshot: int
    """The snapshot that the answer describes."""
    time: datetime | None
    """When that was committed."""
    uuid: str
    """The container's identity."""
    stale: bool
    """Whether the container was at another snapshot when it was found: then the answer may be outdated."""

    def open(self, *, storage_options: Mapping[str, object] | None = None) -> Container:
        """Open the container for reading."""
        return open_container(self.path, storage_options=storage_options)

    def __fspath__(self) -> str:
        return self.path


class Matches(Sequence[Match]):
    """The containers that were found, by path. A match that cannot be opened is only counted."""

    def __init__(self, found: list[Match], gone: int, closed: int) -> None:
        self._found = found
        self.gone = gone
        """Matching containers that no longer exist."""
        self.closed = closed
        """Matching containers that cannot be opened from here: permission denied, or unreachable."""

    @property
    def paths(self) -> list[str]:
        """Their paths or URLs."""
        return [match.path for match in self._found]

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> list[Match]: ...
    def __getitem__(self, index: int | slice) -> Match | list[Match]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Match]:
        return iter(self._found)

    def __eq__(self, other: object) -> bool:
        return self._found == (other._found if isinstance(other, Matches) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'container')}: {self.paths!r:.200}>"

    def _repr_html_(self) -> str:
        rows = [
            (
                m.path,
                str(m.snapshot),
                f"{m.time:%Y-%m-%d %H:%M}" if m.time else "",
                "stale" if m.stale else "",
            )
            for m in self
        ]
        return html.box(
            counted(len(self), "container"), html.table(("path", "snapshot", "committed", ""), rows)
        )


@dataclass(frozen=True)
class Added:
    """The result of adding to a catalogue."""

    added: int
    """Containers that were new, or had changed."""
    unchanged: int
    """Containers whose entries were up to date."""
    failed: dict[str, str]
    """Containers that could not be read: path and reason."""


@dataclass(frozen=True)
class Checked:
    """The result of checking a catalogue."""

    containers: int
    pages: int
    nbytes: int
    damage: list[str]
    """Damage of the catalogue itself, which `rebuild` repairs."""
    stale: list[str]
    """Containers that have changed since they were added."""
    gone: list[str]
    """Containers that no longer exist."""
    closed: int
    """Containers that cannot be opened from here."""

    def __bool__(self) -> bool:
        return not (self.damage or self.stale or self.gone)


class Catalog:
    """The attributes and ranges of values of containers. Several threads and processes may use it at once.

    It is derived data: it can be rebuilt from the containers at any time. It describes them as they were when they
    were added; every answer is checked against its container.
    """

    def __init__(self, handle: CatalogHandle) -> None:
        self._handle = handle

    @property
    def path(self) -> str:
        """Its path or URL."""
        return self._handle.location

    @property
    def names(self) -> list[str]:
        """Names that a question may use.

        These are attributes, `min` and `max` of variables, and properties of every container.
        """
        return self._handle.names()

    def add(self, *paths: Path | Iterable[Path]) -> Added:
        """Add containers, and those in folders; known containers are read again if they have changed.

        A container that cannot be read causes a warning, and an error if nothing could be added.
        """
        return self._added(self._handle.add(_places(paths)))

    def forget(self, *paths: Path | Iterable[Path]) -> int:
        """Remove containers from the catalogue; returns their number. The containers do not change."""
        return self._handle.forget(_places(paths))

    def rebuild(self) -> Added:
        """Build the catalogue again from its containers."""
        return self._added(self._handle.rebuild())

    def _added(self, done: tuple[int, int, list[tuple[str, str]]]) -> Added:
        added, unchanged, failed = done
        for path, error in failed:
            warn(f"not added: {error}" if path in error else f"{path} was not added: {error}")
        return Added(added, unchanged, dict(failed))

    def find(self, question: str, *, fresh: bool = False) -> Matches:
        """The containers that satisfy a question, such as `campaign == 'a*' & max(p) > 3`.

        See docs/guide/catalogue.md for questions. A container that matches and cannot be opened from
        here is omitted, and a warning gives their number.

        Args:
            question: Its text.
            fresh: First read every container that has changed since it was added.

        """
        if not isinstance(question, str):
            raise InvalidArgumentError(f"a question is a text, not {type(question).__name__}")
        found, gone, closed = self._handle.find(question, bool(fresh))
        if gone:
            warn(
                f"{counted(gone, 'container')} that would match no longer exist; check(update=True) removes them"
            )
        if closed:
            warn(
                f"{counted(closed, 'container')} that would match cannot be opened from here, and are not shown"
            )
        matches = [
            Match(path, snapshot, moment(time), uuid, stale) for path, uuid, snapshot, time, stale in found
        ]
        return Matches(matches, gone, closed)

    def check(self, *, update: bool = False) -> Checked:
        """Read all of it, and check every container.

        With `update`, changed containers are read again and missing ones removed.
        """
        return Checked(*self._handle.check(bool(update)))

    def __len__(self) -> int:
        return self._handle.count()

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<drystone catalog {self.path}: {counted(len(self), 'container')}>"


def _places(paths: tuple[Path | Iterable[Path], ...]) -> list[str]:
    flat: list[Path] = []
    for path in paths:
        if isinstance(path, str | os.PathLike):
            flat.append(path)
        elif isinstance(path, Container):
            raise InvalidArgumentError("a catalogue takes paths: add(c.path)")
        elif isinstance(path, Iterable):
            flat.extend(path)
        else:
            raise InvalidArgumentError(f"a path is a text, not {path!r:.80}")
    for path in flat:
        if not isinstance(path, str | os.PathLike):
            raise InvalidArgumentError(f"a path is a text, not {path!r:.80}")
    return [place(path) if not is_url(path) else os.fspath(path).rstrip("/") for path in flat]
