"""Containers and variables in numbers: files, writers, uncommitted steps, bytes, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drystone.counted import counted
from drystone.reports import IncompleteStep

if TYPE_CHECKING:
    from drystone.container import Container


class Files(NamedTuple):
    """Files of one folder of a container."""

    number: int
    nbytes: int


@dataclass(frozen=True)
class Derived:
    """The definition of a derived variable."""

    text: str
    """The expression, as given."""
    kind: str
    """What is stored besides the definition: `"virtual"`: nothing, `"bounds"`: statistics, `"stored"`: the values."""
    edge: str
    """How cells beyond the edge of the domain are treated."""
    inputs: dict[str, str | None]
    """The variables named in the text, and their current paths; None for a deleted one."""


def lost_input(c: Container, path: str) -> str | None:
    """The deleted input of a derived variable, at any depth; None if the variable can be computed."""
    derived = c._handle.reading(path).derived
    for name, own in () if derived is None else derived[3]:
        if own is None:
            return name
        if deeper := lost_input(c, own):
            return deeper
    return None


def unfit(c: Container, path: str) -> str | None:
    """The reason why a derived variable cannot be computed in any process; None if it can."""
    if gone := lost_input(c, path):
        return f'"{gone}", which it is derived from, was deleted'
    return c._handle.reading(path).unfit


def obstacle(c: Container, path: str) -> str | None:
    """The reason why a derived variable cannot be read in this process; None if it can."""
    if reason := unfit(c, path):
        return reason
    if lacking := c._handle.reading(path).lacking:
        return f'it calls function "{lacking}", which is not registered in this process'
    return None


@dataclass(frozen=True)
class WriterLog:
    """The log of one writer."""

    id: int
    state: str
    """`"open"`, `"closed"`, `"fenced"` (excluded by a recovery), or `"unseen"`: no commit has included any of it."""
    parts: int
    """Number of files of its log."""
    nbytes: int


@dataclass(frozen=True)
class Description:
    """The contents of a container.

    Files and uncommitted steps are those at the time of the call; the rest is of the snapshot.
    """

    files: dict[str, Files]
    """By folder: `log`, `index`, `manifest`, `zarr`; other files under the empty name."""
    writers: tuple[WriterLog, ...]
    run: int
    """Number of the run that new writers with ranks join."""
    entries: int
    """Entries of the index: one per block and member."""
    waiting: tuple[int, ...]
    """Steps that the next commit would make visible."""
    values_wait: bool
    """Whether values without a step wait, too."""
    incomplete: tuple[IncompleteStep, ...]
    """Steps that some ranks have not closed."""
    notes: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(files.nbytes for files in self.files.values())

    @property
    def backlog(self) -> str:
        """A sentence about the uncommitted data in the log."""
        parts = []
        if self.waiting:
            few = ", ".join(map(str, self.waiting[:8])) + (", …" if len(self.waiting) > 8 else "")
            parts.append(f"{counted(len(self.waiting), 'complete step')} not committed ({few})")
        if self.values_wait:
            parts.append("values without a step, not committed")
        parts.extend(map(str, self.incomplete))
        return "; ".join(parts) or "nothing waits"


@dataclass(frozen=True)
class Usage:
    """The size of a variable.

    Overwritten blocks count, and blocks of replaced steps do not. Strings count by their references.
    """

    blocks: int
    subchunks: int
    stored: int
    """Bytes as stored, those of replicas included."""
    decoded: int
    """Bytes that the same cells take in memory."""
    transforms: tuple[str, ...]
    """The chains that were applied; `"identity"` is none."""

    @property
    def ratio(self) -> float | None:
        """The ratio of its sizes in memory and stored; None if nothing is stored."""
        return self.decoded / self.stored if self.stored else None


@dataclass(frozen=True)
class Statistics:
    """Statistics of a step, over its blocks as written. Where blocks overlap, all of them count."""

    blocks: int
    cells: int
    nans: int
    min: Any
    """Minimum; None if values have no order or nothing is stored."""
    max: Any
    """Maximum; None likewise."""
    edges: npt.NDArray[np.float64] | None
    """Edges of the bins of the histogram, one more than there are bins; None if it is not stored for every subchunk."""
    counts: npt.NDArray[np.int64] | None
    """Number of values from each edge up to the next."""
    infinities: tuple[int, int]
    """Numbers of values that are -infinity and +infinity, from the histogram."""


@dataclass(frozen=True)
class PublishedStatistics:
    """Statistics of a published step, as every reader of the hierarchy sees it: unwritten cells have the fill value."""

    snapshot: int
    """The published snapshot; later commits do not count."""
    chunks: int
    values: int
    """Number of values; a cell may have several."""
    nans: int
    fills: int | None
    """Cells that hold the fill value; None where chunks were copied from the log undecoded."""
    min: Any
    """Minimum; None if values have no order or all are NaN."""
    max: Any
    """Maximum; None likewise."""


def statistics(
    found: tuple[int, int, int, Any, Any, tuple[int, int, Sequence[int], tuple[int, int]] | None],
) -> Statistics:
    """Convert the engine's result."""
    blocks, cells, nans, low, high, histogram = found
    if histogram is None:
        return Statistics(blocks, cells, nans, low, high, None, None, (0, 0))
    exponent, first, counts, infinities = histogram
    edges = np.array([np.ldexp(float(first + i), exponent) for i in range(len(counts) + 1)])
    return Statistics(blocks, cells, nans, low, high, edges, np.array(counts, np.int64), infinities)
