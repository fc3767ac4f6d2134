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
    """How much of the derived variables was stored."""

    blocks: int
    cells: int
    """Cells whose values were computed."""
    nbytes: int
    """Bytes of these values."""
    left: int
    """Boxes left out because of the budget."""


@dataclass(frozen=True)
class IncompleteStep:
    """A step that only some ranks of a run have closed: invisible, or visible as all ranks had closed it before."""

    run: int
    step: int
    nranks: int
    missing: tuple[int, ...]
    """Ranks that have not closed it; none if writers of different attempts closed it, so that `recover` must decide."""
    again: bool = False
    """Whether an earlier version that all ranks closed is visible, and these have not closed it again."""

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
    """A sentence for each step; consecutive steps that lack the same ranks share one."""
    # What consecutive steps have in common.
    alike = groupby(
        enumerate(incomplete),
        lambda at: (at[1].run, at[1].nranks, at[1].missing, at[1].again, at[1].step - at[0]),
    )
    runs = [[step for _, step in run] for _, run in alike]
    return [run[0]._with_those_to(run[-1].step) for run in runs]


class ErrorBound(NamedTuple):
    """Guaranteed largest error of values that were read, compared with the written ones.

    It includes the loss of a lossy transform, and that of a read below full precision. NaN and infinities are always
    exact. Infinite means that no such error is guaranteed.
    """

    absolute: float
    """Largest absolute difference."""
    relative: float
    """Largest difference as a fraction of the magnitude of the written value; subnormal values count as the smallest
    normal number."""

    @property
    def exact(self) -> bool:
        """Whether every bit is as written."""
        return self == (0.0, 0.0)

    @property
    def known(self) -> bool:
        """Whether any error is guaranteed: some transforms (`zfp` with a rate) guarantee none."""
        return self != (math.inf, math.inf)


class Found(NamedTuple):
    """Cells whose values lie in a range, in row-major order."""

    coords: npt.NDArray[np.int64]
    """One row per cell, one column per dimension; the step axis is left out."""
    values: npt.NDArray[Any]
    """The value of each cell."""
    read_bytes: int
    """Bytes that were read for the search."""
    requests: int
    """Requests to the store for the search."""


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
    """Further remarks for people."""

    def __new__(
        cls,
        version: int,
        time: datetime | None = None,
        changed: bool = False,
        incomplete: tuple[IncompleteStep, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> Self:
        """Make a snapshot; only containers do."""
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
    """One block as written."""

    step: int | None
    offset: tuple[int, ...]
    shape: tuple[int, ...]
    writer: int
    """Rank, or for writers without ranks the id of the writer."""
    put: int
    """Index among the puts of its writer."""
    commit: int
    """Number of the commit that made it visible."""
    nbytes: int
    """Stored bytes."""
    chunks: tuple[int, ...]
    """Shape of the subchunks it is cut into."""
    transform: str | None
    nans: int
    """Number of NaN values."""
    min: Any = None
    """Minimum; None if values have no order."""
    max: Any = None
    """Maximum; None if values have no order."""
    members: tuple[str, ...] = ()
    """The members of a record that it contains."""
    layout: str | None = None
    """The order of its cells, and their size if members are stored together; None is row-major, each member
    separately."""
    place: tuple[str, int, int] | None = None
    """Its file in the container, and the half-open range of its bytes there; bytes of others may lie in between."""

    @property
    def rank(self) -> int | None:
        """Rank that wrote it; None for writers without ranks."""
        return self.writer if self.writer < _MAX_RANKS else None


@dataclass(frozen=True)
class TransformChoice:
    """A chain chosen by `transform="auto"`. Prints as the table of the chains that were tried."""

    transform: str
    """The chosen chain, as `transform=` takes it."""
    report: str

    def __str__(self) -> str:
        return self.report


@dataclass(frozen=True)
class RecoverReport:
    """The result of a recovery."""

    adopted: tuple[int, ...]
    """Steps that became visible."""
    discarded: tuple[int, ...]
    """Complete steps that were dropped on request."""
    incomplete: tuple[IncompleteStep, ...]
    """Steps dropped because ranks are missing."""
    rebuilt: tuple[int, ...]
    """Steps rebuilt without loss from data that other nodes kept."""
    notes: tuple[str, ...]
    run: int
    """Number of the new run."""
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
    """Stored data that cannot be read as written."""

    key: str
    """The file, as far as known."""
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
    """Bytes that are not home yet, by the node whose tiers hold them. Those on other nodes were not read."""

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
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
    """A tier of an open container: a folder nearer than its home."""

    path: str
    """Its path."""
    nbytes: int
    """Bytes in it of parts that this handle wrote or took over."""
    undrained: int
    """Bytes of those that are not home yet."""
    oldest: int | None
    """The oldest step of those."""
    rate: float
    """Bytes per second of the last drain; 0 before the first."""
    hits: int
    """Reads answered by it."""
    aside: str | None
    """Why it is currently not used, if so."""


class Warmed(NamedTuple):
    """The result of `warm` or `pin`, in bytes of stored blocks."""

    wanted: int
    """Bytes that the selections need."""
    fetched: int
    """Bytes fetched from home."""
    held: int
    """Bytes now in the cache folder; less than wanted if it is full."""


class StagedPart(NamedTuple):
    """A part of a log that is not home yet."""

    node: str
    """The node whose tiers hold it."""
    part: str
    """Writer and number, as in the name of its file."""
    step: int | None
    """The last step in it; None for values without a step."""
    nbytes: int
    missing: bool = False
    """Whether it should be in a tier of this node and is not there (docs/guide/tiers.md, "When a tier is lost")."""


class AtDepth(NamedTuple):
    """Costs of reads at a number of concurrent requests: a time per request, and a bandwidth."""

    depth: int
    """Number of concurrent requests."""
    bandwidth: float
    """Bytes per second of all requests together."""
    request: float
    """Seconds per request besides its bytes: the time of one, divided by the number of concurrent requests."""


@dataclass(frozen=True)
class Calibration:
    """The measured costs of a store."""

    reads: tuple[AtDepth, ...]
    """Read costs, by ascending depth."""
    write: float
    """Bytes per second of large appends, sync included."""
    sync: float
    """Seconds of a sync after a small append."""
    cold: bool | None
    """Whether reads came from the medium: True if no data was cached on this machine, False if some was, None if
    unknown."""
    probed: int
    """Bytes that were written and read."""
    time: datetime | None
    """When it was measured."""
    device: str | None = None
    """The device of the store, if this call measured it."""
    kept: str | None = None
    """The file in which this call stored it."""
    not_kept: str | None = None
    """Why this call could not store it."""
    text: str = field(default="", repr=False, compare=False)
    spread: float = 1.0
    """How much repeated reads differed: the third quartile over the first, median of all depths and sizes."""
    moved: float = 1.0
    """The largest factor by which a median was adjusted to fit the others; 1 if none was."""
    load: float | None = None
    """Runnable programs per processor at the start, if the system reports it."""
    noisy: bool = False
    """Whether the machine was busy. Such a result is kept for one day only, and replaces no better one."""

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
        """Convert the engine's result."""
        reads, write, sync, cold, probed, time, doubt, text = profile
        depths = tuple(AtDepth(*read) for read in reads)
        return cls(depths, write, sync, cold, probed, moment(time), device, kept, not_kept, text, *doubt)

    def __str__(self) -> str:
        return self.text.rstrip("\n")


@dataclass(frozen=True)
class IndexReport:
    """The result of indexing a variable."""

    blocks: int
    """Blocks that were indexed; for a record, of each member."""
    indexed: int
    """Blocks that already had an index."""
    decoded_nbytes: int
    """Bytes of the values."""
    nbytes: int
    """Bytes of the index."""
    snapshot: int
    """The snapshot with the index."""

    def __str__(self) -> str:
        had = f", {counted(self.indexed, 'block')} had an index" if self.indexed else ""
        return f"{counted(self.blocks, 'block')} indexed in {counted(self.nbytes, 'byte')}{had}"


@dataclass(frozen=True)
class GcReport:
    """Files that a garbage collection removed, or would remove."""

    kept: tuple[int, ...]
    """Remaining snapshots."""
    expired: tuple[int, ...]
    superseded: int
    """Blocks (per member of a record) removed from the index: they were overwritten or hidden completely."""
    removed: dict[str, int]
    """Removed files, with their bytes."""
    nbytes: int
    """Freed bytes."""
    dry_run: bool
    """Whether this was a dry run."""

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
    """The member of a record; empty for a whole variable."""
    shape: tuple[int, ...]
    """Its shape in cells, steps first."""
    chunks: tuple[int, ...]
    """Extents in cells of a chunk: the unit of reading and decoding."""
    shards: tuple[int, ...]
    """Extents in cells of a shard: a file."""
    written: int
    """Files written by this call."""
    kept: int
    """Files that were up to date."""
    copied: int
    """Chunks in the written files that were copied from the log without decoding."""
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
