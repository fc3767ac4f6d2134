"""The outcome of a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Outcome:
    """Text for people, the same as data for programs, what could not be done, and the exit code."""

    text: str
    data: Any
    notes: list[str] = field(default_factory=list)
    code: int = 0


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table with aligned columns, the first one to the left; the first row is the header."""
    rows = [[shown(cell) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        return "  ".join(cells).rstrip()

    return "\n".join(line(row) for row in rows)


def shown(text: str) -> str:
    """Text on one line: names may contain newlines and control sequences of terminals."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
