"""Disk use: bytes of each variable, and of the rest of a container."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drystone.asked import Asked, names, opened
from drystone.location import is_url, local_path


@dataclass(frozen=True)
class VariableUse:
    """Bytes of a variable, from the index."""

    name: str
    blocks: int
    stored: int
    """Bytes in the log."""
    decoded: int
    """Bytes in memory."""
    ratio: float | None
    """The ratio of its sizes in memory and stored; None if nothing is stored."""


@dataclass(frozen=True)
class DiskUse:
    """Bytes of a container."""

    variables: list[VariableUse]
    """The variables, the largest first."""
    files: dict[str, int]
    """Bytes by folder of the container. Empty in a far store, where it would take a full listing."""


def du(
    container: Asked,
    variables: str | Sequence[str] | None = None,
    *,
    at: int | None = None,
    damaged: bool = False,
) -> DiskUse:
    """The disk use of variables. Reads the index once, and no data.

    Args:
        container: A path or URL, or a container that is open.
        variables: Names of variables; by default all.
        at: The number of an earlier snapshot.
        damaged: Use what is left of a container that has lost files. Otherwise it raises `CorruptError`.

    """
    rows = []
    with opened(container, at, damaged) as c:
        # A link names a variable that is listed already, unless the caller asked for the link.
        wanted = [(name, c.variables[name]) for name in names(variables)]
        found = c.usage()
        for name in [name for name, _ in wanted] or sorted(found):
            one = found[c._handle.followed(name) or name]
            ratio = one.decoded / one.stored if one.stored else None
            rows.append(VariableUse(name, one.blocks, one.stored, one.decoded, ratio))
        where = c.path
    rows.sort(key=lambda row: -row.stored)
    in_files = () if is_url(where) else ("log", "index", "manifest")
    files = {
        folder: sum(
            file.stat().st_size for file in (Path(local_path(where)) / folder).rglob("*") if file.is_file()
        )
        for folder in in_files
    }
    return DiskUse(rows, files)
