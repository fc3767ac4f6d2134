"""Reports of calls: snapshots, blocks, recoveries, publications, calibrations, verifications."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt

from drystone.counted import counted

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_RANKS = 1 << 24


@dataclass(frozen=True)
class StoredDerived:
    """How much of derived variables was stored."""

    blocks: int
    cells: int
    """Cells whose values were computed."""
    nbytes: int
    """Bytes of these values."""
    left: int
    """Boxes that the budget left out."""


@dataclass(frozen=True)
class IncompleteStep:
    """A step that some ranks of a run have left and others not: it is not visible, or visible as all left it before."""

    run: int
    step: int
    nranks: int
    missing: tuple[int, ...]
    """Ranks that have not left it; none where writers of different attempts have, so that `recover` has to decide."""
    again: bool = False
    """Whether it is visible as all ranks left it before, and these have not left it again."""

    def __str__(self) -> str:
        return self._with_those_to(self.step)

    def _with_those_to(self, last: int) -> str:
        shown = ", ".join(map(str, self.missing[:16])) + (", ..." if len(self.missing) > 16 else "")
        which = f"rank {shown} has" if len(self.missing) == 1 else f"ranks {shown} have"
        what, verb, them = f"step {self.step}", "is", "it"
        if last > self.step:
            what, verb, them = f"steps {self.step} to {last}", "are", "them"
        if not self.missing:
            return (
                f"{what} of run {self.run} {verb} not visible: writers of different attempts closed {them}; "
                f"recover() settles {them}"
            )
        state, closed = ("visible as before", f"{them} again") if self.again else ("not visible", them)
        return (
            f"{what} of run {self.run} {verb} {state}: {which} not closed {closed} "
            f"({len(self.missing)} of {self.nranks} missing)"
        )


def in_words(incomplete: Iterable[IncompleteStep]) -> list[str]:
    """A sentence for each step, or for several one after another that lack the same ranks."""
    # What stays the same along such steps.
    alike = groupby(
        enumerate(incomplete),
        lambda at: (at[1].run, at[1].nranks, at[1].missing, at[1].again, at[1].step - at[0]),
    )
    runs = [[step for _, step in run] for _, run in alike]
    return [run[0]._with_those_to(run[-1].step) for run in runs]


class ErrorBound(NamedTuple):
    """Guaranteed largest error of values that were read, against those that were written.

    It includes the loss of a lossy transform, and that of a read of less than full precision. NaN and
    infinities always read as such. Infinite means that no such error is guaranteed.
    """

    absolute: float
    """Largest difference."""
    relative: float
    """Largest difference, as a part of the magnitude of the written value; subnormal ones count as the least normal number."""

    @property
    def exact(self) -> bool:
        """Whether every bit is as it was written."""
        return self == (0.0, 0.0)

    @property
    def known(self) -> bool:
        """Whether anything is guaranteed: some transforms (`zfp` with a rate) promise no error."""
        return self != (math.inf, math.inf)


class Found(NamedTuple):
    """Cells whose values lie in a range, in row-major order."""

    coords: npt.NDArray[np.int64]
    """One row per cell, one column per dimension; the step axis is left out."""
    values: npt.NDArray[Any]
    """The value of each cell."""
    read_bytes: int
    """Bytes that were read to find them."""
    requests: int
    """Requests to the store for them."""


@final
class Snapshot(int):
    """A committed state of a container. It is the number of its commit; `Container.at` takes it."""

    time: datetime | None
    """When it was committed; None for the state before the first commit."""
    changed: bool
    """Whether the call that returned it committed anything new."""
    incomplete: tuple[IncompleteStep, ...]
    """Steps that the commit found but could not take, because ranks are missing."""
    notes: tuple[str, ...]
    """Other things that a person should know."""

    def __new__(
        cls,
        version: int,
        time: datetime | None = None,
        changed: bool = False,
        incomplete: tuple[IncompleteStep, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> Self:
        """Make one; containers do."""
        self = super().__new__(cls, version)
        self.time = time
        self.changed = changed
        self.incomplete = incomplete
        self.notes = notes
        return self

    @property
    def version(self) -> int:
        """The number of the commit; 0 before the first."""
        return int(self)

    def __repr__(self) -> str:
        when = f" of {self.time:%Y-%m-%d %H:%M:%S} UTC" if self.time else ""
        rest = f", {counted(len(self.incomplete), 'step')} incomplete" if self.incomplete else ""
        return f"<drystone snapshot {int(self)}{when}{rest}>"

    __str__ = int.__repr__


def moment(nanoseconds: int) -> datetime | None:
    """Nanoseconds since 1970 as a time; None for 0."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds else None


@dataclass(frozen=True)
class Block:
    """One block as it was written."""

    step: int | None
    offset: tuple[int, ...]
    shape: tuple[int, ...]
    writer: int
    """Rank, or for writers without ranks the id of the writer."""
    put: int
    """Number of the put in its writer."""
    commit: int
    """Number of the commit that made it visible."""
    nbytes: int
    """Bytes it takes as stored."""
    chunks: tuple[int, ...]
    """Shape of the subchunks it is cut into."""
    transform: str | None
    nans: int
    """How many of its values are NaN."""
    min: Any = None
    """Least value; None where values have no order."""
    max: Any = None
    """Greatest value; None where values have no order."""
    members: tuple[str, ...] = ()
    """Which members of a record it wrote."""
    layout: str | None = None
    """The order of its cells, and their size where members stand together; None is row-major, each member by itself."""
    place: tuple[str, int, int] | None = None
    """The file in the container, and from the first to behind the last of its bytes there; others may stand between."""

    @property
    def rank(self) -> int | None:
        """Rank that wrote it; None for writers without ranks."""
        return self.writer if self.writer < _MAX_RANKS else None


@dataclass(frozen=True)
class TransformChoice:
    """A chain that `transform="auto"` chose. Prints as the table of the chains that were tried."""

    transform: str
    """The chain that won, as `transform=` takes it."""
    report: str

    def __str__(self) -> str:
        return self.report


@dataclass(frozen=True)
class RecoverReport:
    """The result of a recovery."""

    adopted: tuple[int, ...]
    """Steps that became visible."""
    discarded: tuple[int, ...]
    """Complete steps that were dropped, as asked."""
    incomplete: tuple[IncompleteStep, ...]
    """Steps that were dropped because ranks are missing."""
    rebuilt: tuple[int, ...]
    """Steps of which parts were rebuilt from what other nodes kept, and none is lost."""
    notes: tuple[str, ...]
    run: int
    """Number of the run that begins now."""
    snapshot: Snapshot

    def __str__(self) -> str:
        lines = [f"run {self.run} begins; steps adopted: {_listed(self.adopted)}"]
        if self.discarded:
            lines.append(f"steps discarded: {_listed(self.discarded)}")
        if self.rebuilt:
            lines.append(f"steps rebuilt: {_listed(self.rebuilt)}")
        lines.extend(f"dropped: {step}" for step in self.incomplete)
        lines.extend(self.notes)
        return "\n".join(lines)


def _listed(steps: tuple[int, ...]) -> str:
    if not steps:
        return "none"
    return ", ".join(map(str, steps[:16])) + (f" and {len(steps) - 16} more" if len(steps) > 16 else "")


@dataclass(frozen=True)
class Damage:
    """Something that cannot be read as it was written."""

    key: str
    """Which file, as far as known."""
    variable: str | None
    step: int | None
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class VerifyReport:
    """The result of a verification. It is true if nothing is damaged."""

    entries: int
    """Index entries checked: one per block and member."""
    nbytes: int
    """Stored bytes read and checked."""
    manifests: int
    damage: list[Damage] = field(default_factory=list)
    shards: int = 0
    """Published files checked."""
    away: dict[str, int] = field(default_factory=dict)
    """Bytes that are not home yet, by the node whose tiers hold them. Those of other nodes were not read."""

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.damage

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        seen = (
            f"{counted(self.entries, 'entry')}, {counted(self.nbytes, 'byte')}, "
            f"{counted(self.manifests, 'snapshot')} checked"
        )
        away = "".join(f"; {counted(n, 'byte')} not home yet on {node}" for node, n in self.away.items())
        if self.ok:
            return f"sound: {seen}{away}"
        first = f"damaged in {counted(len(self.damage), 'place')}: {seen}{away}"
        return "\n".join([first, *map(str, self.damage)])


class Tier(NamedTuple):
    """A tier of an open container: a place nearer than its home."""

    path: str
    """Where it is."""
    nbytes: int
    """Bytes of parts that this handle wrote or took over, and that lie there."""
    undrained: int
    """Bytes of those that are not home."""
    oldest: int | None
    """The oldest step of those."""
    rate: float
    """Bytes per second that the drain took home last; 0 before."""
    hits: int
    """Reads that it answered."""
    aside: str | None
    """Why it is left alone now, if it is."""


class Warmed(NamedTuple):
    """The result of `warm` or `pin`, in bytes of stored blocks."""

    wanted: int
    """Bytes that the selections need."""
    fetched: int
    """Bytes that came from home."""
    held: int
    """Bytes that the cache folder has now; fewer than wanted where it is full."""


class StagedPart(NamedTuple):
    """A part of a log that is not home yet."""

    node: str
    """The node whose tiers hold it."""
    part: str
    """Writer and number, as in the name of its file."""
    step: int | None
    """The step that it ends with; None for values without step."""
    nbytes: int


class AtDepth(NamedTuple):
    """Reads with a number of requests under way: each request costs a time, and its bytes."""

    depth: int
    """Requests under way at a time."""
    bandwidth: float
    """Bytes per second of all of them together."""
    request: float
    """Seconds per request besides its bytes: what one takes, divided by how many are under way."""


@dataclass(frozen=True)
class Calibration:
    """The measured costs of a store."""

    reads: tuple[AtDepth, ...]
    """By ascending depth."""
    write: float
    """Bytes per second of large appends with a sync at the end."""
    sync: float
    """Seconds of a sync behind a small append."""
    cold: bool | None
    """Whether reads came from the medium: True if nothing was in this machine's memory, False if something was, None if unknown."""
    probed: int
    """Bytes that were written and read."""
    time: datetime | None
    """When it was measured."""
    device: str | None = None
    """The device of the store, if this call measured it."""
    kept: str | None = None
    """The file it was kept in by this call."""
    not_kept: str | None = None
    """Why this call could not keep it."""
    text: str = field(default="", repr=False, compare=False)
    spread: float = 1.0
    """By how much turns of the same reads differed: the third quartile over the first, at the middle one of all depths and sizes."""
    moved: float = 1.0
    """The factor by which some median was moved to fit the others; 1 where all fitted."""
    load: float | None = None
    """Programs that wanted a processor when it began, per processor, if the system said so."""
    noisy: bool = False
    """Whether the machine was busy. Such a result is kept for a day only, and replaces no better one."""

    @classmethod
    def of(
        cls,
        profile: tuple[
            list[tuple[int, float, float]],
            float,
            float,
            bool | None,
            int,
            int,
            tuple[float, float, float | None, bool],
            str,
        ],
        device: str | None = None,
        kept: str | None = None,
        not_kept: str | None = None,
    ) -> Self:
        """Make one of what the engine says."""
        reads, write, sync, cold, probed, time, doubt, text = profile
        depths = tuple(AtDepth(*read) for read in reads)
        return cls(depths, write, sync, cold, probed, moment(time), device, kept, not_kept, text, *doubt)

    def __str__(self) -> str:
        return self.text.rstrip("\n")


@dataclass(frozen=True)
class IndexReport:
    """The result of indexing a variable."""

    blocks: int
    """Blocks that were indexed; of a record, of each member."""
    indexed: int
    """Blocks that had an index before."""
    decoded_nbytes: int
    """Bytes of the values."""
    nbytes: int
    """Bytes that the index takes."""
    snapshot: int
    """The snapshot that has it."""

    def __str__(self) -> str:
        had = f", {counted(self.indexed, 'block')} had an index" if self.indexed else ""
        return f"{counted(self.blocks, 'block')} indexed in {counted(self.nbytes, 'byte')}{had}"


@dataclass(frozen=True)
class GcReport:
    """Files that a garbage collection removed, or would remove."""

    kept: tuple[int, ...]
    """Snapshots that can be read."""
    expired: tuple[int, ...]
    superseded: int
    """Blocks (per member of a record) that the index does not list any more: they were overwritten or hidden whole."""
    removed: dict[str, int]
    """Files, with the bytes that they gave back."""
    nbytes: int
    """Bytes given back."""
    dry_run: bool
    """Whether nothing was done."""

    def __str__(self) -> str:
        would = "would be " if self.dry_run else ""
        return (
            f"{len(self.expired)} snapshots {would}expired, {len(self.kept)} kept: "
            f"{counted(len(self.removed), 'file')} with {counted(self.nbytes, 'byte')} {would}freed"
        )


@dataclass(frozen=True)
class PublishedArray:
    """One Zarr array of a publication."""

    path: str
    """Its path in the hierarchy."""
    variable: str
    member: str
    """Which member of a record it is; empty for a whole variable."""
    shape: tuple[int, ...]
    """Its shape in cells, steps first."""
    chunks: tuple[int, ...]
    """Extents in cells of what is read and decoded at a time."""
    shards: tuple[int, ...]
    """Extents in cells of a file."""
    written: int
    """Files written by this call."""
    kept: int
    """Files that were right already."""
    copied: int
    """Chunks in the files written that the log held as they were to be published: copied, not decoded."""
    nbytes: int
    """Bytes written by this call."""
    why: str | None
    """The costs that the layout model compared; None where an earlier publication fixed the layout."""


@dataclass(frozen=True)
class PublishReport:
    """The result of a publication."""

    path: str
    """The Zarr hierarchy, which `zarr.open_group` and `xarray.open_zarr` take, or the netCDF file."""
    snapshot: int
    """The commit that is published."""
    arrays: tuple[PublishedArray, ...]
    skipped: dict[str, str]
    """Variables that have no portable form in Zarr, with the reason."""

    def __str__(self) -> str:
        written, nbytes = sum(a.written for a in self.arrays), sum(a.nbytes for a in self.arrays)
        lines = [
            f"snapshot {self.snapshot} published: {counted(len(self.arrays), 'array')}, "
            f"{counted(written, 'shard')} written, {counted(nbytes, 'byte')}"
        ]
        lines.extend(f"not published: {name} ({reason})" for name, reason in self.skipped.items())
        return "\n".join(lines)
