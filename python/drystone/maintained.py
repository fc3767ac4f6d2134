"""Maintenance of a container: describe, recover, collect garbage, index, sort, calibrate, verify."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Literal, SupportsIndex

from drystone.counted import counted
from drystone.described import Description, Files, Usage, WriterLog
from drystone.errors import InvalidArgumentError
from drystone.events import emit
from drystone.group import Group
from drystone.logs import log
from drystone.progress import reported
from drystone.reports import (
    Calibration,
    Damage,
    GcReport,
    IncompleteStep,
    IndexReport,
    RecoverReport,
    Snapshot,
    VerifyReport,
)


class Maintained(Group):
    """The part of a container that an operator uses."""

    def describe(self) -> Description:
        """Its files, writers and uncommitted steps. Lists the store and reads the ends of logs."""
        files, writers, run, entries, waiting, values, incomplete, notes = self._container._handle.describe()
        return Description(
            {folder: Files(*found) for folder, found in files.items()},
            tuple(WriterLog(*found) for found in writers),
            run,
            entries,
            tuple(waiting),
            values,
            incomplete_steps(incomplete),
            tuple(notes),
        )

    def usage(self) -> dict[str, Usage]:
        """The size of each variable, by path, on all storage targets together. Walks the whole index, reads no values.

        Links are omitted, because their targets are listed.
        """
        self._container._settle()
        return {
            path: Usage(blocks, subchunks, stored, decoded, tuple(chain or "identity" for chain in chains))
            for path, (blocks, subchunks, stored, decoded, chains) in self._container._handle.usage().items()
        }

    def recover(
        self,
        adopt: bool | Iterable[SupportsIndex] | None = None,
        discard: bool | Iterable[SupportsIndex] | None = None,
        *,
        lost_nodes: Iterable[str] = (),
    ) -> RecoverReport:
        """Settle the steps of a run that died, and begin a new run.

        Steps that all its ranks closed, and that were not committed, become visible (`adopt=True`, the default) or
        are dropped (`discard=True`). `adopt=[steps]` takes only these, `discard=[steps]` all but these. Incomplete
        steps are dropped. Later writes by writers of the old run will not become visible.

        Parts that the tiers of this node have lost are rebuilt if other nodes kept parity of them
        (`create(redundancy=)`), else given up; the report lists them by step. Parts on other nodes wait for their
        drain, unless the nodes are named in `lost_nodes`. Then all parts that these nodes did not drain are lost
        too.
        """
        begun = time.perf_counter()
        which, but = _orders(adopt, discard)
        adopted, discarded, incomplete, rebuilt, notes, run, version = self._container._handle.recover(
            which, but, list(lost_nodes)
        )
        log.info(
            "recovered %s: adopted steps %s, discarded %s", self._container._location, adopted, discarded
        )
        emit("recover", self._container._location, begun, adopted=tuple(adopted), discarded=tuple(discarded))
        self._container._warn()
        return RecoverReport(
            tuple(adopted),
            tuple(discarded),
            incomplete_steps(incomplete),
            tuple(rebuilt),
            tuple(notes),
            run,
            Snapshot(version, self._container.snapshot.time, True),
        )

    def gc(
        self,
        keep: SupportsIndex | None = None,
        older_than: float | timedelta | None = None,
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> GcReport:
        """Remove files that no retained snapshot needs. It may be killed, and may run while others write and read.

        Without `keep` and `older_than` no snapshot expires, and only files that dead processes left are removed.
        With them, expired snapshots raise `NotFoundError`, and log files whose blocks are visible in no retained
        snapshot are deleted. A file with a visible block is never deleted, even if it was published. See
        docs/guide/gc.md.

        Args:
            keep: The number of newest snapshots to keep, at least 1, including the commit of the collection.
            older_than: Seconds, or a `timedelta`; younger snapshots are kept.
            dry_run: Remove nothing, and report what would be removed.
            progress: Called as `progress(done, total)` after each file; returning False stops (`CancelledError`);
                True prints to standard error.

        """
        begun = time.perf_counter()
        seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        report = reported(progress)
        self._container._assigned.end()  # a log that is still written is kept
        kept, expired, superseded, removed, nbytes = self._container._handle.gc(
            keep, seconds, bool(dry_run), report
        )
        log.info(
            "collected garbage of %s: %d bytes in %s",
            self._container._location,
            nbytes,
            counted(len(removed), "file"),
        )
        emit("gc", self._container._location, begun, bytes=nbytes, files=len(removed), dry_run=bool(dry_run))
        return GcReport(tuple(kept), tuple(expired), superseded, dict(removed), nbytes, bool(dry_run))

    def index(
        self,
        variable: str,
        kind: Literal["bins", "zones"] = "bins",
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> IndexReport:
        """Index values that were written without an index, so that queries for ranges of them read few bytes.

        The bins are stored in addition to the values, in one commit: the data grow by about their own size, and
        reads of arrays stay the same. Blocks with bins and blocks of less than 64 KiB are skipped. Blocks that are
        written later have no bins until it is called again. Zones, the smallest and greatest value of each
        subchunk, always exist, so `kind="zones"` has nothing to do. See docs/guide/queries.md.

        Args:
            variable: Its path, or that of a member of a record (`"P.x"`). Of a record all members that are numbers
                are indexed.
            kind: `"bins"` or `"zones"`.
            progress: As in `verify`, with blocks for bytes.

        Raises:
            InvalidArgumentError: The values are no integers or floats.
            NotFoundError: There is no such variable.

        """
        self._container._settle()
        report = reported(progress)
        done = IndexReport(*self._container._handle.index(variable, kind, report))
        log.info("indexed %s of %s: %s", variable, self._container._location, done)
        return done

    def drop_index(self, variable: str) -> int:
        """Remove an index that `index` made from the next snapshot; `gc` frees its bytes.

        Bins of a variable that was created with `index="bins"` hold its values, and stay.

        Returns:
            The number of blocks that had such an index.

        """
        self._container._settle()
        return self._container._handle.drop_index(variable)

    def sort(
        self,
        name: str,
        by: str,
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> IndexReport:
        """Store a replica of particles sorted by one of their values, so that queries for ranges of it read few bytes.

        `name` is a group of variables of one dimension and equal shape, or a variable of records; `by` is the
        variable in the group, or the member, to sort by. Each block of it gets a replica with its values in
        ascending order, and the values of all other variables at the same cells. Everything is one commit, answers
        stay the same, and arrays are read as before. Blocks of less than 64 KiB are skipped. Blocks that are
        written later have none until it is called again. See docs/guide/queries.md.

        Args:
            name: Path of the group, or of the variable of records; "" is the root.
            by: The name of the key: integers or floats.
            progress: As in `index`.

        Raises:
            InvalidArgumentError: The key is no number, or has several dimensions.
            NotFoundError: There is no such group or variable, or it has no such key.
            UnsupportedError: There are more than 64 further columns, or more than 1024 bytes of them in a cell.

        """
        self._container._settle()
        report = reported(progress)
        done = IndexReport(*self._container._handle.sort(name, by, report))
        log.info("sorted %s of %s by %s: %s", name, self._container._location, by, done)
        return done

    def drop_sort(self, name: str, by: str) -> int:
        """Remove the replicas that `sort` made from the next snapshot; `gc` frees their bytes.

        Returns:
            The number of blocks that had one.

        """
        self._container._settle()
        return self._container._handle.drop_sort(name, by)

    def calibrate(self, seconds: float = 3.0, max_bytes: SupportsIndex = 256 << 20) -> Calibration:
        """Measure the costs of this container's store, so that layouts and predicted costs fit it.

        A probe of at most `max_bytes` is written, synced, read and removed again. The result is kept for 30 days
        for all containers on the device, in the user's cache folder. Without it a local solid-state disk is
        assumed. See docs/guide/calibration.md.

        Args:
            seconds: The approximate duration.
            max_bytes: Limit of the written bytes; at least 16 MiB.

        """
        profile, device, kept, not_kept = self._container._handle.calibrate(float(seconds), max_bytes)
        return Calibration.of(profile, device, kept, not_kept)

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of this container's device, if it was measured in the last 30 days; else None."""
        profile = self._container._handle.profile()
        return None if profile is None else Calibration.of(profile)

    def lost(self) -> list[Damage]:
        """The lost files that the newest snapshot names.

        These are missing manifests, and log files that are missing or too short.

        Checks only names and lengths; `verify` reads everything.
        """
        self._container._settle()
        return [Damage(key, None, None, message) for key, message in self._container._handle.lost()]

    def verify(
        self, progress: Callable[[int, int], object] | bool | None = None, *, values: bool = False
    ) -> VerifyReport:
        """Read and check every byte that the snapshot refers to, and every published chunk of it.

        With `values` the decoded values of published chunks are also compared with the log.

        `progress(done, total)` is called from time to time; returning False stops (`CancelledError`). `progress=True`
        prints to standard error.
        """
        begun = time.perf_counter()
        self._container._settle()
        report = reported(progress)
        entries, nbytes, manifests, shards, damage, away = self._container._handle.verify(
            report, bool(values)
        )
        log.info("verified %s: %s", self._container._location, counted(len(damage), "damaged place"))
        emit("verify", self._container._location, begun, bytes=nbytes, damaged=len(damage))
        return VerifyReport(entries, nbytes, manifests, [Damage(*found) for found in damage], shards, away)


def _orders(
    adopt: bool | Iterable[SupportsIndex] | None, discard: bool | Iterable[SupportsIndex] | None
) -> tuple[bool | list[SupportsIndex], bool]:
    """The steps to adopt (all, none, or some), and whether they are the steps not to adopt."""
    if adopt is not None and discard is not None:
        if isinstance(adopt, bool) and isinstance(discard, bool) and adopt is not discard:
            return adopt, False
        raise InvalidArgumentError("adopt= and discard= contradict each other: give one of them")
    if discard is not None:
        return (not discard, False) if isinstance(discard, bool) else (list(discard), True)
    return (adopt, False) if isinstance(adopt, bool) else (True if adopt is None else list(adopt), False)


def incomplete_steps(steps: list[tuple[int, int, int, list[int], bool]]) -> tuple[IncompleteStep, ...]:
    """The steps that some ranks have not closed, as the engine names them."""
    return tuple(
        IncompleteStep(run, step, nranks, tuple(missing), again)
        for run, step, nranks, missing, again in steps
    )
