"""Containers: their content, writers, commits, snapshots, and closing."""

from __future__ import annotations

import operator
import os
import pathlib
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from html import escape
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, cast

from drystone import html, metrics
from drystone._core import ContainerHandle, RegionsHandle
from drystone.assigning import Assigned
from drystone.errors import DrystoneError, warn
from drystone.events import emit
from drystone.fragments import Fragment
from drystone.location import Location, is_url
from drystone.logs import log
from drystone.maintained import Maintained, incomplete_steps
from drystone.publishing import Published
from drystone.queried import Queried
from drystone.regions import Region, Transfer, operation_text, regions_of
from drystone.reports import IncompleteStep, Snapshot, in_words, moment
from drystone.tiered import Tiered
from drystone.writer import Writer

if TYPE_CHECKING:
    from drystone.variable import Variable

    _Consistency = Literal["eventual", "session", "commit", "strong"]


class Container(Tiered, Queried, Maintained, Published):
    """An open container, showing one snapshot until `refresh` or a commit of its own. `with` closes it.

    It may be used from several threads. Pickled, it opens the same snapshot again, for reading.
    """

    def __init__(self, handle: ContainerHandle, path: str, options: Sequence[tuple[str, str]] = ()) -> None:
        self._handle = handle
        self._location = path
        # What another process needs to reopen it: no secrets, which it takes from its environment.
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
        # Steps that writers of this handle have closed since its last commit.
        self._mapped: weakref.WeakSet[Region] = weakref.WeakSet()
        self._warn()

    @property
    def _regions(self) -> RegionsHandle:
        """The locks and releases of the container."""
        if self._own_regions is None:
            self._own_regions = regions_of(self)
        return self._own_regions

    def _released(self, transfer: Transfer) -> None:
        """Record a released region, which the next commit of this handle includes."""
        if self._consistency == "strong":
            transfer.wait()
            self.commit()
            return
        self._transfers = [*(one for one in self._transfers if one._reached == "received"), transfer]

    def _drain(self) -> None:
        transfers, self._transfers = self._transfers, []
        while transfers:
            transfer, *transfers = transfers
            told = transfer._told
            try:
                transfer.wait()
            except DrystoneError:
                if not told:
                    self._transfers = [*transfers, *self._transfers]
                    raise

    def _commit_earlier(self, assigned: bool = True) -> None:
        """Commit what regions released and, with `assigned`, what was assigned, before later values of this handle.

        The later values are then the newer ones.
        """
        if self._transfers and not self._handle.closed:
            self._drain()
            self._handle.commit()
        if assigned and self._assigned.pending:
            self._assigned.settle()

    def _all_options(self) -> Iterable[tuple[str, str]]:
        """The options of its store, including secrets if this process received them."""
        from drystone.opening import given_options

        return given_options.get(self._location, list(self._options))

    def _newest(self) -> Container:
        """Another handle on the newest snapshot, for reading."""
        from drystone.opening import open_again

        return open_again(self._location, "r", self._options)

    @property
    def consistency(self) -> _Consistency:
        """The consistency level (docs/guide/regions.md).

        It defines when others see values written here, and which values are visible here.
        """
        return self._consistency

    @property
    def _container(self) -> Container:
        return self

    @property
    def _latest(self) -> ContainerHandle:
        """The handle; with strong consistency, at the newest snapshot."""
        if self._consistency == "strong" and not self._handle.closed:
            self._handle.refresh()
        return self._handle

    def _settle(self) -> None:
        """Make assigned values visible; with strong consistency, look at the newest snapshot."""
        if self._assigned.pending:
            self._assigned.settle()
        _ = self._latest

    def _settle_before_change(self) -> None:
        """Make assigned values visible before names and extents change.

        Inside a batch this was done when the batch began.
        """
        if not self._batched:
            self._settle()

    def _warn(self) -> None:
        for text in self._handle.take_warnings():
            warn(text)

    @property
    def path(self) -> str:
        """Its path or URL."""
        return self._location

    @property
    def targets(self) -> tuple[str, ...]:
        """The container's folders on the storage targets over which log parts and shards are spread.

        None by default.
        """
        # The container of an HDF5 program has the path of a file, and no targets.
        has_none = is_url(self._location) or pathlib.Path(self._location).is_file()
        found = None if has_none else ContainerHandle.targets(self._location)
        return () if found is None else tuple(os.fspath(folder) for folder in found[0])

    def _holders(self, keys: Sequence[str]) -> list[str | None]:
        """The storage target that holds each of the container's files: a folder, or a storage daemon of Ceph."""
        return ContainerHandle.holders(self._location, list(self._all_options()), list(keys))

    @property
    def uuid(self) -> str:
        """Its permanent identity, in hexadecimal."""
        return self._handle.uuid

    @property
    def durability(self) -> str:
        """The durability, which says what survives a power cut: `"async"`, `"durable"` or `"memory"`."""
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
        """Close it, the writers that were opened from it, and the regions that were mapped. Closing again does nothing.

        Parts in its tiers are copied home first, which may take a while. With `drain=False` they stay there until a
        process of this node opens the container with these tiers. Closing a container in the process that created
        it flushes it (durability `"async"`), so it survives a power cut.
        """
        try:
            if not self.closed:
                self._drain()
            self._assigned.end()
            for writer in list(self._writers):
                writer.close()
            for region in list(self._mapped):
                region.close()
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
        """Compute a result of each release of a variable, in the same step of the log and so in the same commit.

        Args:
            variable: Location of a variable with steps, of floats of 32 or 64 bits or integers to 32 bits.
            operation: `"min"`, `"max"`, `"sum"`, `"mean"`: one value per step. `"histogram"` (`bins=`, `low=`,
                `high=`): counts per step. `"downsample"` (`factor=`): means of blocks. `"stride"` (`by=`): every
                N-th cell of each axis. `"above"` (`value=`): a mask. `"cast"` (`dtype="f4"`): the values with
                another precision. `"function"` (`name=`): a function with a halo that the server's configuration
                names, or that this process has registered (`Function.register`).
            into: Location of the variable with the results, which is created; by default the variable's with `_`
                and the operation, or the function's name.
            parameters: Those of the operation, in the variable's units.

        Returns:
            The variable with the results.

        The container's server computes the result if there is one, otherwise the process that releases.
        `InvalidArgumentError`: no such operation, or other parameters than it has. `NotFoundError`: no such
        variable or function. `UnsupportedError`: a variable that cannot be computed with. `ConflictError`: `into` is
        another variable. See docs/guide/regions.md.

        """
        suffix = parameters.get("name", operation) if operation == "function" else operation
        path = f"{variable}_{suffix}" if into is None else into
        self._regions.on(self._handle, variable, operation_text(operation, parameters), path)
        return cast("Variable", self[path])

    def transfer(
        self,
        source: str,
        into: str,
        rule: str | None = None,
        step: int | None = None,
        **parameters: float | str,
    ) -> Transfer:
        """Start copying committed values of one variable to another, in one pass, where the container is.

        `into` is created if it does not exist. `rule` is an operation as in `on`, with its `parameters`. Without
        it, values stay as they are. `step` is one step; by default all. The values can be committed when the
        transfer is done: `c.transfer("T", "T32", "cast", dtype="f4").wait(); c.commit()`. The transfer raises
        errors.
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

        With `rank` and `nranks` a step becomes visible as a whole, when every rank 0..nranks-1 has closed it and
        one process commits; with `nranks=1` it becomes visible at its end. Without them a commit takes all closed
        steps and values.

        Args:
            rank: The rank of this writer, from 0.
            nranks: The number of ranks that write each step.
            run: The generation of writers this belongs to; by default the one that the last recovery began.
            layout: `"model"` cuts blocks into the subchunks for which the expected reads cost least, `"log"` leaves
                them whole up to 16 MiB. `chunks` of a variable decide before either, a configuration file before
                the argument.

        """
        writer = Writer(self, self._handle.writer(rank, nranks, run, layout))
        self._writers.add(writer)
        self._writer_count += 1
        self._warn()
        return writer

    def commit(self) -> Snapshot:
        """Make everything that writers have closed visible. One process calls it. With nothing new it changes nothing.

        Steps that some ranks have not closed stay invisible: they are in `.incomplete`. A warning names the missing
        ranks if the caller would miss the step: if the commit made nothing visible, a writer of this handle has
        reached the step, or a later step is visible. Ranks that run ahead of the committing one cause no warning.
        """
        begun = time.perf_counter()
        self._drain()
        with self._assigned.settling() if self._assigned.pending else nullcontext():
            version, when, changed, incomplete, notes = self._handle.commit()
        if changed:
            log.info("committed snapshot %d of %s", version, self._location)
            emit("commit", self._location, begun, snapshot=version)
        snapshot = Snapshot(version, moment(when), changed, incomplete_steps(incomplete), tuple(notes))
        for text in in_words(self._missed(snapshot)):
            warn(text)
        for note in notes:
            warn(note)
        self._warn()
        return snapshot

    def _missed(self, commit: Snapshot) -> list[IncompleteStep]:
        """Incomplete steps, except those that are only ahead of this process: later commits include them."""
        if not commit.incomplete or not commit.changed:
            return list(commit.incomplete)
        reached = max([self._reached, *self._handle.steps()[-1:]])
        return [one for one in commit.incomplete if one.again or one.step <= reached]

    def flush(self) -> int:
        """Make everything committed so far survive a power cut. Returns the number of the last commit."""
        begun = time.perf_counter()
        self._settle()
        version = self._handle.flush()
        log.debug("flushed %s up to snapshot %d", self._location, version)
        emit("flush", self._location, begun, snapshot=version)
        return version

    def metrics(self) -> dict[str, Any]:
        """Counters, by name, of reads, puts and commits through this container since it was opened.

        All counters but `steps` only grow.

        `steps` has the number of committed steps by level. On a far store it is read once for each snapshot that
        the handle shows, for that snapshot. docs/guide/metrics.md describes each counter. `dry.metrics.prometheus`
        returns those of all open containers as text.
        """
        return metrics.counted(self._handle.metrics(), self._handle.known_levels())

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
        """Show the newest snapshot; returns True if it is another one.

        A container that was removed or renamed raises `NotFoundError`, one that was replaced `ConflictError`.
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
        """Yield each committed step once: first the existing ones, ascending, then every new one.

        The container is refreshed, so it shows a step when the step is yielded. The iterator then waits for the
        next one; `break` out of the loop to stop.

        Args:
            after: Leave out this step and those before it. `after=c.steps[-1]` waits for new ones only.
            timeout: End after this many seconds without a new step; by default the iterator waits for ever.
            poll: Seconds between two checks for commits; the first checks are closer together.

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

    def copy(
        self,
        url: Location,
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
        """Copy the snapshot it shows to a new container, in few files. Returns the new container, open to write.

        Groups, attributes, links, step numbers and the newest value of each cell are the same; unwritten cells stay
        unwritten. Earlier snapshots are not copied. A copy that fails removes what it made. A warning names what
        the copy lacks. See docs/guide/copying.md.

        Args:
            url: A path or URL, as in `create`.
            variables: Paths of variables and groups; by default all.
            steps: A slice of step numbers, or a list of them; by default all.
            transform: Codecs for all variables, None for none; by default those of each variable.
            chunks: The chunk shape by variable, one shape for all variables of as many dimensions, or None for none; by
                default the one of each variable.
            attrs: Whether attributes are copied.
            storage_options: Options of the target's store, as in `create`.
            credentials: A function that returns the credentials of the target, as in `create`.
            overwrite: Remove an existing container at the target before the copy begins.
            progress: Called as `progress(done, total)` in bytes; returning False stops the copy (`CancelledError`).
                True shows a line where standard error is a terminal.
            damaged: Copy what is left of a container that has lost files. Otherwise it raises `CorruptError`.

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
        """Collect what is assigned, and the changes of names, extents and attributes, until the end of the `with`.

        Assigned values are committed as one snapshot, the changes after them as another. An exception inside drops the
        changes; values that were assigned before it stay. Values can be put to new variables after the `with`.
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
        try:
            # Before the names, so that no attribute is visible without the values that were assigned before it.
            self._settle()
        except BaseException:
            self._handle.end_batch(False)
            raise
        self._handle.end_batch(True)
        self._warn()

    def declare(self, text: str, /, **params: SupportsIndex) -> list[str]:
        """Declare a text in the dataset language (docs/reference/language.md).

        One commit creates the variables of its datasets.

        Returns their names. The text is stored, for `fragment`. `params` are values of its parameters; those that
        datasets depend on are required. Declaring the same again changes nothing. An existing variable that differs
        raises `ConflictError`. Errors in the text raise an `InvalidArgumentError` that shows all of them.
        """
        names = self._handle.declare(text, params)
        self._warn()
        return names

    @property
    def datasets(self) -> list[str]:
        """The declared texts, oldest first."""
        return self._handle.declarations()

    def fragment(self, name: str, /, **params: SupportsIndex) -> Fragment:
        """An instance of a declared fragment, to be read and written in the memory layout that its text gives it."""
        return Fragment(self, self._handle.fragment(name, params))

    def __reduce__(self) -> tuple[Any, ...]:
        from drystone.opening import reopen

        self._settle()
        return reopen, (self._location, self.uuid, int(self.snapshot), self._handle.writable, self._options)

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
