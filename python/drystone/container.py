"""Containers: create, open, commit, look at earlier snapshots, recover, publish, calibrate, verify."""

from __future__ import annotations

import operator
import os
import pathlib
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from html import escape
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, cast, overload

from drystone import html, metrics, values
from drystone._core import ContainerHandle, RegionsHandle
from drystone.assigning import Assigned
from drystone.counted import counted
from drystone.described import Description, Files, Usage, WriterLog
from drystone.errors import CorruptError, InvalidArgumentError, NotFoundError, warn
from drystone.events import emit
from drystone.fragments import Fragment
from drystone.group import Group
from drystone.location import (
    is_url,
    local_path,
    place,
    remove_container,
    store_options,
    supplier,
    with_token,
)
from drystone.logs import log
from drystone.regions import Transfer, operation_text, regions_of
from drystone.reports import (
    Calibration,
    Damage,
    GcReport,
    IncompleteStep,
    IndexReport,
    PublishedArray,
    PublishReport,
    RecoverReport,
    Snapshot,
    StagedPart,
    Tier,
    VerifyReport,
    in_words,
    moment,
)
from drystone.writer import Writer

if TYPE_CHECKING:
    from polars import LazyFrame

    from drystone.expr import Expression
    from drystone.query import Query
    from drystone.tables import Blocks, Table
    from drystone.tables.dataset import CellDataset
    from drystone.variable import Variable
    from drystone.zarr_store import DrystoneStore

    _Consistency = Literal["eventual", "session", "commit", "strong"]

Path = str | os.PathLike[str]
CONSISTENCIES = ("eventual", "session", "commit", "strong")


def create(
    path: Path,
    durability: Literal["async", "durable", "memory"] = "async",
    *,
    overwrite: bool = False,
    into_existing: bool = False,
    targets: Sequence[Path] | None = None,
    spread: Literal["lattice", "hilbert", "row-major"] = "lattice",
    storage_options: Mapping[str, object] | None = None,
    credentials: Callable[[], Mapping[str, object]] | None = None,
    token: str | None = None,
    tiers: Sequence[Path | tuple[Path, int]] | None = None,
    redundancy: str = "none",
) -> Container:
    """Create a container: a directory, made with those above it, a folder of an object store, or one on a server.

    Args:
        path: A path, a `file://` URL, a URL of an object store (`s3://`, `gs://`, `az://`) or of a server (`drys://`,
            `drys+unix://`, on this machine also `dry://`).
        durability: What survives. `"async"`: nothing committed is lost when processes are killed; a power cut may lose
            commits after the last `flush()`. `"durable"`: what is committed is on stable storage. `"memory"`: never synced.
        overwrite: Remove a container that is there, and nothing that is not the container's; else that is a `ConflictError`.
        into_existing: Take a folder that holds other files, which stay as they are; else that is a `ConflictError`.
        targets: Folders on several storage targets (disks, pools of a parallel file system), over which the log parts of writers
            and published shards are spread; the container makes a folder of its own in each. See docs/guide/layout.md.
        spread: How: balanced by a lattice, round-robin along the Hilbert curve, or row by row.
        storage_options: Endpoint, region, credentials and the like of an object store, by the names that the `object_store`
            library gives them (`aws_endpoint`, `aws_region`, ...); what is not given comes from the environment. See
            docs/guide/far-stores.md.
        credentials: Gives the credentials of an object store: names and values as of `storage_options`, and `expires`, a time in
            UTC. It is called at the first request and again before they expire, from another thread. It is in no pickle.
        token: The word that gives rights on a server; without it `BEARER_TOKEN` or `BEARER_TOKEN_FILE` of the environment.
        tiers: Folders nearer than the container's home (memory, a local disk), nearest first, in which blocks are laid down and
            from which they are brought home in the background; a pair gives the most bytes that a tier may hold. Older programs
            cannot read such a container. See docs/guide/tiers.md.
        redundancy: How steps in tiers survive the loss of a node before they are home, for ever: `"none"`; `"partner"`, another node
            keeps a copy; `"xor:N"`, sets of up to N writers of different nodes keep parity, and one may be lost; `"rs:D+P"`, sets of
            up to D + P, and P may be lost. Anything else is an `InvalidArgumentError`. See docs/guide/redundancy.md.

    """
    begun = time.perf_counter()
    location = place(path)
    options = store_options(location, with_token(storage_options, token))
    who = supplier(location, credentials)
    _check_targets(location, targets)
    among_files = into_existing
    if overwrite and is_url(location):
        ContainerHandle.remove_url(location, options, who)
    elif overwrite:
        # What lay beside a container that is replaced lies beside the new one.
        among_files = remove_container(location) or into_existing
    handle = ContainerHandle.create(
        location, durability, _folders(targets), spread, among_files, options, who, _tiers(tiers), redundancy
    )
    _remember(location, options, credentials)
    log.info("created %s (%s)", location, durability)
    emit("create", location, begun, durability=durability)
    return metrics.remember(Container(handle, location, options))


def open(
    url: Path,
    mode: Literal["r", "r+", "a"] = "r",
    *,
    targets: Sequence[Path] | None = None,
    spread: Literal["lattice", "hilbert", "row-major"] = "lattice",
    damaged: bool = False,
    storage_options: Mapping[str, object] | None = None,
    credentials: Callable[[], Mapping[str, object]] | None = None,
    token: str | None = None,
    consistency: _Consistency = "commit",
    tiers: Sequence[Path | tuple[Path, int]] | None = None,
) -> Container:
    """Open a container to read (`"r"`), or to read and write (`"r+"`; `"a"` creates it if there is none).

    `targets` (as of `create`; to write only) are used by everybody from now on; what lies elsewhere stays there. `url`,
    `storage_options`, `credentials` and `token` are as of `create`; a container behind a web server, `http://` or `https://`, can be
    read.

    `consistency` says when others see what is written through this handle, and what this handle sees: `"eventual"`, `"session"`,
    `"commit"` or `"strong"`; docs/guide/regions.md has the table.

    `tiers` are as of `create`, for a container that was created with tiers: what is written lies in them first, and what dead
    processes of this node left in them is brought home. To read, a container on its own node needs none.

    Where the newest snapshot cannot be read and no power cut explains that, opening for reading is a `CorruptError`;
    `damaged=True` then shows, read-only, the newest snapshot that can be read. See docs/guide/lost-files.md.
    """
    begun = time.perf_counter()
    location = place(url)
    options = store_options(location, with_token(storage_options, token))
    who = supplier(location, credentials)
    _check_targets(location, targets)
    if damaged:
        if mode != "r" or targets is not None or is_url(location):
            raise InvalidArgumentError('damaged=True is for reading a folder: mode is "r", without targets')
        return Container(ContainerHandle.open_damaged(location), location)
    if consistency not in CONSISTENCIES:
        raise InvalidArgumentError(
            f"there is no consistency {consistency!r}; there are: {', '.join(CONSISTENCIES)}"
        )
    handle = ContainerHandle.open(location, mode, _folders(targets), spread, options, who, _tiers(tiers))
    log.info("opened %s to %s", location, "read" if mode == "r" else "write")
    emit("open", location, begun, mode=mode)
    _remember(location, options, credentials)
    container = Container(handle, location, options)
    container._consistency = consistency
    return metrics.remember(container)


def _check_targets(location: str, targets: Sequence[Path] | None) -> None:
    if targets is not None and is_url(location):
        raise InvalidArgumentError(f"{location}: storage targets are folders of local file systems")


def _tiers(given: Sequence[Path | tuple[Path, int]] | None) -> list[tuple[str, int | None]] | None:
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        raise InvalidArgumentError(f"tiers is a list of folders, not {given!r}: write [{given!r}]")
    pairs = [one if isinstance(one, tuple) else (one, None) for one in given]
    return [(local_path(folder), None if most is None else operator.index(most)) for folder, most in pairs]


def require_whole(c: Container) -> None:
    """A CorruptError where the container has lost files."""
    lost = c.lost()
    if lost:
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise CorruptError(
            f"{c.path} has lost files: {lost[0]}{more}; verify() names all: restore them, or go on with what is left by "
            "damaged=True (--damaged); after a power cut recover() settles it"
        )


def _folders(targets: Sequence[Path] | None) -> list[str] | None:
    return None if targets is None else [local_path(target) for target in targets]


class Container(Group):
    """An open container, showing one snapshot until `refresh` or a commit of its own. `with` closes it.

    It may be used from several threads. Pickled, it opens the same snapshot again, for reading.
    """

    def __init__(self, handle: ContainerHandle, path: str, options: Sequence[tuple[str, str]] = ()) -> None:
        self._handle = handle
        self._location = path
        # What another process needs to open it again: no secrets, which it has from its environment.
        self._options = tuple(ContainerHandle.public_options(list(options))) if options else ()
        self._path = ""
        self._writers: weakref.WeakSet[Writer] = weakref.WeakSet()
        self._writer_count = 0  # that were opened from it
        self._batched = False
        self._reached = -1  # the last step that one of them has closed
        self._assigned = Assigned(self)
        self._consistency: _Consistency = "commit"
        self._own_regions: RegionsHandle | None = None
        self._transfers: list[Transfer] = []
        self._warn()

    @property
    def _regions(self) -> RegionsHandle:
        """The locks and releases of the container."""
        if self._own_regions is None:
            self._own_regions = regions_of(self)
        return self._own_regions

    def _released(self, transfer: Transfer) -> None:
        """A region was released: a commit of this handle takes it."""
        if self._consistency == "strong":
            transfer.wait()
            self.commit()
            return
        self._transfers = [*(one for one in self._transfers if one._reached == "received"), transfer]

    def _drain(self) -> None:
        transfers, self._transfers = self._transfers, []
        for transfer in transfers:
            transfer.wait()

    def _all_options(self) -> Iterable[tuple[str, str]]:
        """The options of its store, secrets too where this process was given them."""
        return _given.get(self._location, list(self._options))

    def _newest(self) -> Container:
        """Another handle on the newest snapshot, for reading."""
        return open_again(self._location, "r", self._options)

    @property
    def consistency(self) -> _Consistency:
        """When what is written here is seen, and what is seen here: docs/guide/regions.md has the table."""
        return self._consistency

    @property
    def _container(self) -> Container:
        return self

    def _settle(self) -> None:
        """Makes visible what was assigned."""
        if self._assigned.pending:
            self._assigned.settle()
        if self._consistency == "strong" and not self._handle.closed:
            self._handle.refresh()

    def _settle_before_change(self) -> None:
        """Makes it visible before names and extents change: what is assigned next begins where these say.

        A batch has done so at its begin.
        """
        if not self._batched:
            self._settle()

    def _warn(self) -> None:
        for text in self._handle.take_warnings():
            warn(text)

    @property
    def path(self) -> str:
        """Where it is."""
        return self._location

    @property
    def targets(self) -> tuple[str, ...]:
        """The container's folders on the storage targets over which log parts and shards are spread; none by default."""
        # What an HDF5 program wrote is named by a file, and has no targets.
        has_none = is_url(self._location) or pathlib.Path(self._location).is_file()
        found = None if has_none else ContainerHandle.targets(self._location)
        return () if found is None else tuple(os.fspath(folder) for folder in found[0])

    @property
    def uuid(self) -> str:
        """Its permanent identity, in hexadecimal."""
        return self._handle.uuid

    @property
    def durability(self) -> str:
        """What survives a power cut: `"async"`, `"durable"` or `"memory"`."""
        return self._handle.durability

    @property
    def mode(self) -> str:
        """`"r"` or `"r+"`."""
        return "r+" if self._handle.writable else "r"

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._handle.closed

    def close(self, *, drain: bool = True) -> None:
        """Close it, and the writers that were opened from it. Closing again does nothing.

        What its tiers hold is brought home first, which may take a while; with `drain=False` it stays in them until a process of
        this node opens the container with these tiers. A container that `create` made is flushed by closing it in the same process (durability `"async"`): what was made in one go
        survives a power cut.
        """
        try:
            if not self.closed:
                self._drain()
            self._assigned.end()
            for writer in list(self._writers):
                writer.close()
        finally:
            self._own_regions = None
            warnings = [] if self._handle.closed else self._handle.take_warnings()
            self._handle.close(drain)
        for text in warnings:
            warn(text)

    def __enter__(self) -> Self:
        _ = self.snapshot  # InvalidArgumentError if it is closed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def steps(self) -> list[int]:
        """The committed steps, ascending."""
        self._settle()
        return self._handle.steps()

    def on(
        self, variable: str, operation: str, into: str | None = None, **parameters: float | str
    ) -> Variable:
        """From now on, what is released of a variable gives a result in the same step of the log, so in the same commit.

        Args:
            variable: Path of a variable with steps, of floats of 32 or 64 bits or integers to 32 bits.
            operation: `"min"`, `"max"`, `"sum"`, `"mean"`: one value per step. `"histogram"` (`bins=`, `low=`, `high=`): counts per
                step. `"downsample"` (`factor=`): means of blocks. `"stride"` (`by=`): every so manieth cell of each axis. `"above"`
                (`value=`): a mask. `"cast"` (`dtype="f4"`): the values with another precision.
            into: Path of the variable with the results, which is created; by default the variable's with `_` and the operation.
            parameters: Those of the operation, in the variable's units.

        Returns:
            The variable with the results.

        The container's server computes it where there is one, else the process that releases. `InvalidArgumentError`: no such
        operation, or other parameters than it has. `UnsupportedError`: a variable that cannot be computed with. `ConflictError`: `into` is
        another variable. See docs/guide/regions.md.

        """
        path = f"{variable}_{operation}" if into is None else into
        self._handle.on(variable, operation_text(operation, parameters), path)
        return cast("Variable", self[path])

    def transfer(
        self,
        source: str,
        into: str,
        rule: str | None = None,
        step: int | None = None,
        **parameters: float | str,
    ) -> Transfer:
        """Begins to carry committed values of one variable to another, in one pass, where the container is.

        `into` is created where it is not there. `rule` is an operation as `on` has it, with its `parameters`; without, values
        stay as they are. `step` is one step; by default all. The values can be committed when the transfer is done:
        `c.transfer("T", "T32", "cast", dtype="f4").wait(); c.commit()`. Errors are told by the transfer.
        """
        handle = self._regions
        text = "" if rule is None else operation_text(rule, parameters)
        transfer = Transfer(handle, handle.transfer(source, into, text, step), "node")
        self._transfers = [*self._transfers, transfer]
        return transfer

    def writer(
        self,
        rank: SupportsIndex | None = None,
        nranks: SupportsIndex | None = None,
        run: SupportsIndex | None = None,
        *,
        layout: Literal["model", "log"] = "model",
    ) -> Writer:
        """A writer, for this process alone.

        With `rank` and `nranks` a step becomes visible as a whole, when every rank 0..nranks-1 has closed it and one process
        commits; with `nranks=1` it does so when it is left. Without them a commit takes what has been closed.

        Args:
            rank: Which of the ranks this is.
            nranks: How many write each step.
            run: The generation of writers this belongs to; by default the one that the last recovery began.
            layout: `"model"` cuts blocks into the subchunks for which the expected reads cost least, `"log"` leaves them whole
                up to 16 MiB. `chunks` of a variable decide before either, a configuration file before the argument.

        """
        writer = Writer(self, self._handle.writer(rank, nranks, run, layout))
        self._writers.add(writer)
        self._writer_count += 1
        self._warn()
        return writer

    def commit(self) -> Snapshot:
        """Make what writers have closed visible. One process does; with nothing new it changes nothing.

        Steps that some ranks have not closed stay invisible: they are in `.incomplete`. A warning names the ranks where the caller
        would miss the step: the commit made nothing visible, a writer of this handle has reached the step, or a later step is visible. Ranks that
        run ahead of the one that commits are no reason to warn.
        """
        begun = time.perf_counter()
        self._drain()
        ends = self._assigned.settle(commit=False) if self._assigned.pending else {}
        version, when, changed, incomplete, notes = self._handle.commit()
        self._assigned.committed(ends)
        if changed:
            log.info("committed snapshot %d of %s", version, self._location)
            emit("commit", self._location, begun, snapshot=version)
        snapshot = Snapshot(version, moment(when), changed, _incomplete(incomplete), tuple(notes))
        for text in in_words(self._missed(snapshot)):
            warn(text)
        for note in notes:
            warn(note)
        self._warn()
        return snapshot

    def _missed(self, commit: Snapshot) -> list[IncompleteStep]:
        """The incomplete steps that are not merely ahead of this process: the next commits take those when all ranks are there."""
        if not commit.incomplete or not commit.changed:
            return list(commit.incomplete)
        reached = max([self._reached, *self._handle.steps()[-1:]])
        return [one for one in commit.incomplete if one.again or one.step <= reached]

    def flush(self) -> int:
        """Make everything committed so far survive a power cut; gives the number of the last commit."""
        begun = time.perf_counter()
        self._settle()
        version = self._handle.flush()
        log.debug("flushed %s up to snapshot %d", self._location, version)
        emit("flush", self._location, begun, snapshot=version)
        return version

    def metrics(self) -> dict[str, Any]:
        """What was read, put and committed through this container since it was opened: counters by name, which only grow.

        `steps` has the number of committed steps by level. docs/guide/metrics.md says what each counter counts; `dry.metrics.prometheus`
        gives those of all open containers as text.
        """
        return metrics.counted(self._handle.metrics(), self._handle.levels())

    def levels(self) -> dict[int, str]:
        """How safe each committed step is: `"node"` while it lies in a tier, `"partner"` once other nodes keep enough of it, `"home"`, or `"stable"` where it survives a power cut.

        The levels are ordered: `"received"` < `"node"` < `"partner"` < `"home"` < `"stable"`.
        """
        return self._handle.levels()

    def wait(self, step: SupportsIndex, level: str = "home", timeout: float | None = None) -> None:
        """Wait until a step is committed and has this level; `DeadlineError` after `timeout` seconds.

        For `"stable"` a handle that may write flushes; any other waits until some process has flushed.
        """
        self._handle.wait(step, level, timeout)

    @property
    def redundancy(self) -> str:
        """How steps in tiers survive the loss of nodes, as `create` was told: `"none"`, `"partner"`, `"xor:8"`, `"rs:8+2"`, ..."""
        return self._handle.redundancy

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The tiers of this handle, nearest first, with what lies in them and how far their drain is."""
        return tuple(Tier(*row) for row in self._handle.tiers())

    @property
    def staged(self) -> list[StagedPart]:
        """The parts of logs that are not home yet, of all nodes."""
        return [StagedPart(*part) for part in self._handle.staged()]

    def drain(
        self, timeout: float | None = None, progress: Callable[[int, int], object] | bool | None = None
    ) -> None:
        """Bring home what writers of this handle closed, and what dead processes of this node left in its tiers.

        `DeadlineError` after `timeout` seconds. `progress(done, total)` is called in bytes, and stops by giving False
        (`CancelledError`); True prints to standard error.
        """
        self._settle()
        self._handle.drain(timeout, _print_progress if progress is True else progress or None)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A hint: inside `with c.computing():` the program computes, and the drain of its tiers need not give way to it."""
        self._handle.computing(True)
        try:
            yield
        finally:
            self._handle.computing(False)

    def describe(self) -> Description:
        """What it consists of: files, writers, and what waits for a commit. Lists the store and reads the ends of logs."""
        files, writers, run, entries, waiting, values, incomplete, notes = self._handle.describe()
        return Description(
            {folder: Files(*found) for folder, found in files.items()},
            tuple(WriterLog(*found) for found in writers),
            run,
            entries,
            tuple(waiting),
            values,
            _incomplete(incomplete),
            tuple(notes),
        )

    def usage(self) -> dict[str, Usage]:
        """What each variable takes, by path, on every storage target together. Walks the whole index, reads no values.

        Links are left out: each is another name of what is listed already.
        """
        self._settle()
        return {
            path: Usage(blocks, subchunks, stored, decoded, tuple(chain or "identity" for chain in chains))
            for path, (blocks, subchunks, stored, decoded, chains) in self._handle.usage().items()
        }

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot it shows."""
        version, time = self._handle.snapshot()
        return Snapshot(version, moment(time))

    @property
    def snapshots(self) -> list[Snapshot]:
        """All snapshots that can be read, oldest first."""
        return [Snapshot(version, moment(time)) for version, time in self._handle.history()]

    def at(self, snapshot: SupportsIndex) -> Container:
        """The container as it was at a snapshot, for reading only; it never changes."""
        return Container(self._handle.at(snapshot), self._location, self._options)

    def refresh(self) -> bool:
        """Show the newest snapshot; True if it is another one.

        A container that was removed or renamed is a `NotFoundError`, one that was replaced a `ConflictError`.
        """
        begun = time.perf_counter()
        self._settle()
        changed = self._handle.refresh()
        if changed:
            version = self.snapshot.version
            log.debug("moved to snapshot %d of %s", version, self._location)
            emit("refresh", self._location, begun, snapshot=version)
        self._warn()
        return changed

    def follow(
        self, after: SupportsIndex | None = None, *, timeout: float | None = None, poll: float = 0.25
    ) -> Iterator[int]:
        """Steps as they are committed, each once: those that are there, ascending, then every new one.

        The container is refreshed, so that it shows a step when the step is given. It waits for the next one; `break` out of
        the loop to stop.

        Args:
            after: Leave out this step and those before it. `after=c.steps[-1]` waits for new ones only.
            timeout: End when no step has come for so many seconds; by default it waits for ever.
            poll: Look for commits at least so many seconds apart; in the beginning more often.

        """
        given = set[int]()
        first = -1 if after is None else operator.index(after)
        pause, since = 0.01, time.monotonic()
        self.refresh()
        while True:
            for step in self.steps:
                if step > first and step not in given:
                    given.add(step)
                    yield step
                    pause, since = 0.01, time.monotonic()
            while not self.refresh():
                waited = time.monotonic() - since
                if timeout is not None and waited >= timeout:
                    return
                time.sleep(pause if timeout is None else min(pause, timeout - waited))
                pause = min(2 * pause, poll)

    def query(
        self,
        condition: str | Expression | Variable,
        selection: Any = None,
        steps: SupportsIndex | slice | Iterable[SupportsIndex] | None = None,
        *,
        over: Iterable[str | Variable] = (),
    ) -> Query:
        """The cells that satisfy a condition, in the snapshot that it shows now. Nothing is read before the query is asked.

        A cell that nobody wrote satisfies nothing; NaN satisfies `isnan` and `!=` only. Variables meet by the names of their
        dimensions, or by equal shapes. See docs/guide/queries.md.

        Args:
            condition: A text, as `"p > 3e-5 & abs(u) < 1"`, or an expression of variables, as `c["p"] > 3e-5`.
            selection: What indexing takes, integers and slices, for the axes behind the step; by default all cells.
            steps: A step number, a slice of them or a list; by default all.
            over: Further variables that have a say in which cells there are, though the condition may not name them.

        """
        from drystone import query

        self._settle()
        return query.make(self, condition, selection, steps, over)

    @overload
    def table(
        self,
        where: str | Expression | Variable | None = None,
        columns: Sequence[str] | None = None,
        *,
        selection: Any = None,
        steps: SupportsIndex | slice | Iterable[SupportsIndex] | None = None,
        of: Literal["cells"] = "cells",
    ) -> Table: ...
    @overload
    def table(
        self,
        where: None = None,
        columns: Sequence[str] | None = None,
        *,
        of: Literal["blocks"],
    ) -> Blocks: ...
    def table(
        self,
        where: str | Expression | Variable | None = None,
        columns: Sequence[str] | None = None,
        *,
        selection: Any = None,
        steps: SupportsIndex | slice | Iterable[SupportsIndex] | None = None,
        of: Literal["cells", "blocks"] = "cells",
    ) -> Table | Blocks:
        """Cells as rows, for programs that take Arrow tables: DuckDB, Polars, pandas, pyarrow and others. Nothing is read yet.

        Args:
            where: Rows are the cells that satisfy this condition, as of `query`; by default all.
            columns: Names of variables, members (`P.x`), dimensions and `step`, in the order of the columns; by default those of one grid.
            selection: As of `query`.
            steps: As of `query`.
            of: `"blocks"`: a row per block of variables, with its statistics.

        """
        from drystone.tables import Blocks, Table

        self._settle()
        if of == "cells":
            return Table(self.at(self.snapshot.version), where, columns, selection, steps)
        if of != "blocks":
            raise InvalidArgumentError(f'of is "cells" or "blocks", not {of!r:.40}')
        if where is not None or selection is not None or steps is not None:
            raise InvalidArgumentError("a table of blocks has no condition, selection or steps")
        return Blocks(self.at(self.snapshot.version), columns)

    def dataset(
        self,
        where: str | Expression | Variable | None = None,
        columns: Sequence[str] | None = None,
        *,
        selection: Any = None,
        steps: SupportsIndex | slice | Iterable[SupportsIndex] | None = None,
        nan: Literal["arrow", "greatest"] | None = None,
    ) -> CellDataset:
        """The table of cells as a pyarrow dataset, which takes columns and filters from DuckDB, DataFusion, Dask and pyarrow.

        Args:
            where: As of `table`: it holds whatever an engine pushes down.
            columns: As of `table`.
            selection: As of `query`.
            steps: As of `query`.
            nan: How filters compare with NaN: `"greatest"` above all numbers, as engines do, `"arrow"` as IEEE; by default the first for
                engines that ask for a scanner, the second for `to_table(filter=...)` and other calls of the dataset itself.

        """
        from drystone.tables.dataset import CellDataset

        return CellDataset(self.table(where, columns, selection=selection, steps=steps), nan)

    def scan_polars(
        self,
        where: str | Expression | Variable | None = None,
        columns: Sequence[str] | None = None,
        *,
        selection: Any = None,
        steps: SupportsIndex | slice | Iterable[SupportsIndex] | None = None,
    ) -> LazyFrame:
        """The table of cells as a lazy frame of Polars, which pushes columns, conditions and limits down. Arguments are those of `table`."""
        from drystone.tables import polars

        frame: LazyFrame = polars.scan(self.table(where, columns, selection=selection, steps=steps))
        return frame

    def copy(
        self,
        url: Path,
        *,
        variables: str | Iterable[str] | None = None,
        steps: slice | Iterable[SupportsIndex] | None = None,
        transform: str | Sequence[str | Mapping[str, Any]] | EllipsisType | None = ...,
        chunks: Mapping[str, Sequence[SupportsIndex] | None]
        | Sequence[SupportsIndex]
        | EllipsisType
        | None = ...,
        attrs: bool = True,
        storage_options: Mapping[str, object] | None = None,
        credentials: Callable[[], Mapping[str, object]] | None = None,
        overwrite: bool = False,
        progress: Callable[[int, int], object] | bool | None = False,
        damaged: bool = False,
    ) -> Container:
        """Copy the snapshot it shows to a new container, in few files; gives that one, open to write.

        Groups, attributes, links, step numbers and the newest value of each cell are the same; cells that nobody wrote stay
        unwritten. Earlier snapshots are not copied. A copy that fails removes what it made. A warning names what the copy
        lacks. See docs/guide/copying.md.

        Args:
            url: A path or URL, as of `create`.
            variables: Paths of variables and groups; by default all.
            steps: A slice of step numbers, or a list of them; by default all.
            transform: Codecs for all variables, None for none; by default those that each has.
            chunks: The chunk shape by variable, one shape for all variables of as many dimensions, or None for none; by
                default what each has.
            attrs: Whether attributes are copied.
            storage_options: Of the target, as of `create`.
            credentials: Gives those of the target, as of `create`.
            overwrite: Remove a container that is there before the copy begins.
            progress: Called as `progress(done, total)` in bytes, and stops by giving False (`CancelledError`). True shows a
                line where standard error is a terminal.
            damaged: Copy what is left of a container that has lost files; else that is a `CorruptError`.

        """
        from drystone import copying

        line = copying.shown if progress is True and sys.stderr.isatty() else None
        copied = copying.copy(
            self,
            url,
            variables=variables,
            steps=steps,
            transform=transform,
            chunks=chunks,
            attrs=attrs,
            storage_options=storage_options,
            credentials=credentials,
            overwrite=overwrite,
            progress=progress if callable(progress) else line,
            damaged=damaged,
        )
        for note in copied.notes:
            warn(note)
        return copied.container

    @contextmanager
    def batch(self) -> Iterator[Self]:
        """Collect what is created, renamed, deleted, linked, resized and set inside `with`: one commit for all.

        An exception inside drops it all. Values are put to what it makes when it has ended.
        """
        self._settle()
        self._handle.begin_batch()
        self._batched = True
        try:
            yield self
        except BaseException:
            self._batched = False
            self._handle.end_batch(False)
            raise
        self._batched = False
        self._handle.end_batch(True)
        self._warn()

    def declare(self, text: str, /, **params: SupportsIndex) -> list[str]:
        """Declare a text in the dataset language (docs/reference/language.md): one commit creates the variables of its datasets.

        Gives their names. The text is kept, for `fragment`. `params` are values of its parameters; what datasets depend on
        must be there. Declaring the same again changes nothing; a variable that exists and differs is a `ConflictError`, and
        mistakes in the text are an `InvalidArgumentError` that shows all of them.
        """
        names = self._handle.declare(text, params)
        self._warn()
        return names

    @property
    def datasets(self) -> list[str]:
        """The texts that were declared, oldest first."""
        return self._handle.declarations()

    def fragment(self, name: str, /, **params: SupportsIndex) -> Fragment:
        """An instance of a declared fragment, to be read and written in the memory layout that its text gives it."""
        return Fragment(self, self._handle.fragment(name, params))

    def recover(
        self,
        adopt: bool | Iterable[SupportsIndex] | None = None,
        discard: bool | Iterable[SupportsIndex] | None = None,
        *,
        lost_nodes: Iterable[str] = (),
    ) -> RecoverReport:
        """Settle what a run that died has left, and begin a new run.

        Steps that all its ranks closed but nobody committed become visible (`adopt=True`, the default) or are dropped
        (`discard=True`). `adopt=[steps]` takes only these, `discard=[steps]` all but these. Incomplete steps are dropped. What
        writers of the old run still do will not become visible.

        What no tier of this node has any more is rebuilt where other nodes kept parity of it (`create(redundancy=)`), and else given
        up; the report says per step which. What other nodes hold waits for their drain, unless they are named in `lost_nodes`: then
        all that they did not bring home is lost likewise.
        """
        begun = time.perf_counter()
        which, but = _orders(adopt, discard)
        adopted, discarded, incomplete, rebuilt, notes, run, version = self._handle.recover(
            which, but, list(lost_nodes)
        )
        log.info("recovered %s: adopted steps %s, discarded %s", self._location, adopted, discarded)
        emit("recover", self._location, begun, adopted=tuple(adopted), discarded=tuple(discarded))
        self._warn()
        return RecoverReport(
            tuple(adopted),
            tuple(discarded),
            _incomplete(incomplete),
            tuple(rebuilt),
            tuple(notes),
            run,
            Snapshot(version, self.snapshot.time, True),
        )

    def publish(
        self,
        variables: str | Iterable[str] | None = None,
        progress: Callable[[int, int], object] | bool | None = True,
        *,
        chunks: Mapping[str, Sequence[SupportsIndex]] | None = None,
        compressor: str | None = "auto",
        memory: SupportsIndex = 512 << 20,
        format: Literal["zarr", "zarr+hdf5", "netcdf"] | None = None,
        path: Path | None = None,
    ) -> PublishReport:
        """Write the committed steps as an ordinary Zarr v3 hierarchy, in `zarr` below the container's path.

        It may run while steps arrive, and be killed: readers of the hierarchy see whole steps, and another call completes what
        is missing and writes only what has changed. Records become a group with one array per member. One process
        publishes at a time (`ConflictError`). See docs/guide/publishing.md.

        Args:
            variables: Paths; by default everything that has a portable form, and what is no longer there is removed.
            progress: Called as `progress(done, total)` in bytes after each file, and stops by giving False
                (`CancelledError`). True shows a line where standard error is a terminal.
            chunks: Extents of chunks by variable, steps first, instead of those that the model chooses.
            compressor: `"auto"` (zstd, in HDF5 zlib, where the variable has a transform), `"zstd:LEVEL"`, `"zlib:LEVEL"`, or
                None.
            memory: Bytes that it may use, at least 128 MiB.
            format: `"zarr"`; `"zarr+hdf5"`, where each shard is an HDF5 (netCDF-4) file at the same time; `"netcdf"`, which writes
                one netCDF-4 file instead. By default what an array was published as before, at first `"zarr"`.
            path: Of the netCDF file; by default `netcdf/NAME.nc` below the container's path.

        """
        begun = time.perf_counter()
        self._settle()
        if isinstance(variables, str):
            variables = [variables]
        shown = _print_published if progress is True and sys.stderr.isatty() else None
        snapshot, arrays, skipped, file = self._handle.publish(
            None if variables is None else list(variables),
            memory,
            "none" if compressor is None else compressor,
            {name: list(extents) for name, extents in (values.named(chunks, "chunks") or {}).items()},
            format,
            path,
            self._location,
            progress if callable(progress) else shown,
        )
        published = tuple(
            PublishedArray(
                path,
                variable,
                member,
                tuple(shape),
                tuple(chunk),
                tuple(shard),
                written,
                kept,
                copied,
                nbytes,
                why,
            )
            for path, variable, member, shape, chunk, shard, written, kept, copied, nbytes, why in arrays
        )
        where = f"{self._location}/zarr" if file is None else os.fspath(file)
        log.info("published snapshot %d to %s: %s", snapshot, where, counted(len(published), "array"))
        emit("publish", self._location, begun, snapshot=snapshot, arrays=len(published))
        return PublishReport(where, snapshot, published, dict(skipped))

    def zarr_store(self, *, read_only: bool = True) -> DrystoneStore:
        """The container as a store of zarr-python, unpublished steps included: `zarr.open_group(store=c.zarr_store())`.

        By default it shows the present snapshot, and can be read only. A writable one has a handle of its own: what is created
        and written through it is committed at once, and seen here after `refresh`. See docs/guide/zarr-store.md.
        """
        from drystone.zarr_store import DrystoneStore

        self._settle()
        return DrystoneStore(self, read_only=read_only)

    def gc(
        self,
        keep: SupportsIndex | None = None,
        older_than: float | timedelta | None = None,
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> GcReport:
        """Remove what no retained snapshot needs; it may be killed, and run while others write and read.

        Without `keep` and `older_than` nothing expires, and only what dead processes left is removed. With them expired snapshots
        are `NotFoundError`, and log files whose blocks show in no retained snapshot are deleted. A file with a block that shows is
        never deleted, whatever was published. See docs/guide/gc.md.

        Args:
            keep: So many of the newest snapshots stay, at least 1; the collection's own commit is one of them.
            older_than: Seconds, or a `timedelta`; snapshots that are younger stay.
            dry_run: Only say what would be removed.
            progress: Called as `progress(done, total)` after each file, and stops by giving False (`CancelledError`);
                True prints to standard error.

        """
        begun = time.perf_counter()
        seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        report = _print_progress if progress is True else progress or None
        self._assigned.end()  # a log that goes on is kept
        kept, expired, superseded, removed, nbytes = self._handle.gc(keep, seconds, bool(dry_run), report)
        log.info(
            "collected garbage of %s: %d bytes in %s", self._location, nbytes, counted(len(removed), "file")
        )
        emit("gc", self._location, begun, bytes=nbytes, files=len(removed), dry_run=bool(dry_run))
        return GcReport(tuple(kept), tuple(expired), superseded, dict(removed), nbytes, bool(dry_run))

    def index(
        self,
        variable: str,
        kind: Literal["bins", "zones"] = "bins",
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> IndexReport:
        """Index values that were written without an index, so that queries for ranges of them read few bytes.

        The bins are stored beside the values, in one commit: the data grow by about their own size, and reads of arrays stay
        as they are. Blocks that have bins, and blocks of less than 64 KiB, are left out; so are blocks that are written later,
        for which it is called again. Zones, the least and greatest value of each subchunk, are always there, so `kind="zones"`
        has nothing to do. See docs/guide/queries.md.

        Args:
            variable: Its path, or that of a member of a record (`"P.x"`). Of a record all members that are numbers are indexed.
            kind: `"bins"` or `"zones"`.
            progress: As in `verify`, with blocks for bytes.

        Raises:
            InvalidArgumentError: The values are no integers or floats.
            NotFoundError: There is no such variable.

        """
        self._settle()
        report = _print_progress if progress is True else progress or None
        done = IndexReport(*self._handle.index(variable, kind, report))
        log.info("indexed %s of %s: %s", variable, self._location, done)
        return done

    def drop_index(self, variable: str) -> int:
        """Take an index that `index` made out of the next snapshot; `gc` gives back its bytes.

        Bins that were asked for when the variable was created are the values, and stay.

        Returns:
            How many blocks had such an index.

        """
        self._settle()
        return self._handle.drop_index(variable)

    def sort(
        self,
        name: str,
        by: str,
        progress: Callable[[int, int], object] | bool | None = None,
    ) -> IndexReport:
        """Keep particles once more in the order of one of their values, so that queries for ranges of it read few bytes of all of them.

        `name` is a group of variables of one dimension and equal shape, or a variable of records; `by` is the variable in the group, or the
        member, that sorts. Each block of it gets a replica that holds its values in ascending order, and beside them the values of
        all others at the same cells. Everything is committed at once, answers stay the same, and arrays are read as before. Blocks of
        less than 64 KiB are left out; so are blocks that are written later, for which it is called again. See docs/guide/queries.md.

        Args:
            name: Path of the group, or of the variable of records; "" is the root.
            by: What sorts: integers or floats.
            progress: As in `index`.

        Raises:
            InvalidArgumentError: The key is no number, or has several dimensions.
            NotFoundError: There is no such group or variable, or it has no such key.
            UnsupportedError: There are more than 64 further columns, or more than 1024 bytes of them in a cell.

        """
        self._settle()
        report = _print_progress if progress is True else progress or None
        done = IndexReport(*self._handle.sort(name, by, report))
        log.info("sorted %s of %s by %s: %s", name, self._location, by, done)
        return done

    def drop_sort(self, name: str, by: str) -> int:
        """Take the replicas that `sort` made out of the next snapshot; `gc` gives back their bytes.

        Returns:
            How many blocks had one.

        """
        self._settle()
        return self._handle.drop_sort(name, by)

    def calibrate(self, seconds: float = 3.0, max_bytes: SupportsIndex = 256 << 20) -> Calibration:
        """Measure what this container's store costs, so that layouts and predicted costs fit it.

        A probe of at most `max_bytes` is written, synced, read and removed again. The result is kept for 30 days for all
        containers on the device, in the user's cache folder. Without it a local solid-state disk is assumed. See
        docs/guide/calibration.md.

        Args:
            seconds: About so long it takes.
            max_bytes: Bytes that are written at most; at least 16 MiB.

        """
        profile, device, kept, not_kept = self._handle.calibrate(float(seconds), max_bytes)
        return Calibration.of(profile, device, kept, not_kept)

    @property
    def calibration(self) -> Calibration | None:
        """What was measured of this container's device in the last 30 days; None if nobody did."""
        profile = self._handle.profile()
        return None if profile is None else Calibration.of(profile)

    def lost(self) -> list[Damage]:
        """Lost files that the newest snapshot names: manifests that are gone, log files that are missing or too short.

        Looks at names and lengths only; `verify` reads everything.
        """
        self._settle()
        return [Damage(key, None, None, message) for key, message in self._handle.lost()]

    def verify(
        self, progress: Callable[[int, int], object] | bool | None = None, *, values: bool = False
    ) -> VerifyReport:
        """Read and check every byte that the snapshot refers to, and every chunk that was published of it.

        With `values` what the published chunks decode to is also compared with the log.

        `progress(done, total)` is called now and then, and stops it by giving False (`CancelledError`); `progress=True`
        prints to standard error.
        """
        begun = time.perf_counter()
        self._settle()
        report = _print_progress if progress is True else progress or None
        entries, nbytes, manifests, shards, damage, away = self._handle.verify(report, bool(values))
        log.info("verified %s: %s", self._location, counted(len(damage), "damaged place"))
        emit("verify", self._location, begun, bytes=nbytes, damaged=len(damage))
        return VerifyReport(entries, nbytes, manifests, [Damage(*found) for found in damage], shards, away)

    def __reduce__(self) -> tuple[Any, ...]:
        self._settle()
        return _reopen, (self._location, self.uuid, int(self.snapshot), self._handle.writable, self._options)

    def _repr_html_(self) -> str:
        if self.closed:
            return f"<p>{escape(repr(self))}</p>"
        snapshot = self.snapshot
        steps = self.steps
        facts = {
            "path": self._location,
            "snapshot": f"{int(snapshot)} of {snapshot.time:%Y-%m-%d %H:%M:%S}",
            "steps": f"{len(steps)}, the last is {steps[-1]}" if steps else "none",
            "durability": self.durability,
            "mode": self.mode,
            **html.written(self),
        }
        return html.group(self, "container", facts)

    def __repr__(self) -> str:
        if self.closed:
            return f"<drystone container {self._location}, closed>"
        return f"<drystone container {self._location}, mode {self.mode}, snapshot {int(self.snapshot)}>"


def _orders(
    adopt: bool | Iterable[SupportsIndex] | None, discard: bool | Iterable[SupportsIndex] | None
) -> tuple[bool | list[SupportsIndex], bool]:
    """What to adopt (everything, nothing, or some steps), and whether the steps are those not to adopt."""
    if adopt is not None and discard is not None:
        if isinstance(adopt, bool) and isinstance(discard, bool) and adopt is not discard:
            return adopt, False
        raise InvalidArgumentError("adopt= and discard= contradict each other: give one of them")
    if discard is not None:
        return (not discard, False) if isinstance(discard, bool) else (list(discard), True)
    return (adopt, False) if isinstance(adopt, bool) else (True if adopt is None else list(adopt), False)


_reopened: weakref.WeakValueDictionary[tuple[str, str, int], Container] = weakref.WeakValueDictionary()


# All options with which URLs were opened in this process, or in one from which it was forked: they leave it in no pickle.
_given: dict[str, list[tuple[str, str]]] = {}
_suppliers: dict[str, Callable[[], Mapping[str, object]]] = {}


def _remember(
    location: str,
    options: list[tuple[str, str]],
    credentials: Callable[[], Mapping[str, object]] | None,
) -> None:
    """Keeps what only this process knows, for pickles that come back to it."""
    if options:
        _given[location] = options
    if credentials is not None:
        _suppliers[location] = credentials


def open_again(
    path: str, mode: Literal["r", "r+", "a"], options: Iterable[tuple[str, str]] = ()
) -> Container:
    """Opens what a pickle or another handle names, with the options of this process where it has any, else with those that came along."""
    given = _given.get(path) if is_url(path) else None
    who = _suppliers.get(path)
    return open(path, mode, storage_options=dict(options if given is None else given), credentials=who)


def _reopen(
    path: str, uuid: str, version: int, writable: bool = False, options: Iterable[tuple[str, str]] = ()
) -> Container:
    """The container of a pickle; many variables unpickled in one process share it.

    It is for reading; what is assigned to its variables goes to the container at its path, if the pickled one was writable.
    """
    known = _reopened.get((path, uuid, version))
    if known is not None and not known.closed:
        return known
    newest = open_again(path, "r", options)
    if newest.uuid != uuid:
        raise NotFoundError(f"the container at {path} is not the one that was pickled: it has been replaced")
    container = newest.at(version)
    container._assigned.elsewhere = (path, tuple(options)) if writable else None
    _reopened[path, uuid, version] = container
    return container


def _incomplete(steps: list[tuple[int, int, int, list[int], bool]]) -> tuple[IncompleteStep, ...]:
    return tuple(
        IncompleteStep(run, step, nranks, tuple(missing), again)
        for run, step, nranks, missing, again in steps
    )


def _print_progress(done: int, total: int) -> None:
    with suppress(OSError):
        end = "\n" if done >= total else ""
        print(f"\rverifying: {done} of {total} entries", end=end, file=sys.stderr, flush=True)


def _print_published(done: int, total: int) -> None:
    with suppress(OSError):
        end = "\n" if done >= total else ""
        print(f"\rpublishing: {done >> 20} of {total >> 20} MiB", end=end, file=sys.stderr, flush=True)
