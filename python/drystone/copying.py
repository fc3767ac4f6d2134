"""Copies of a container: the newest values of a snapshot in a new container, in few files.

Names, attributes, step numbers and the newest value of every written cell are copied; an unwritten cell stays
unwritten. The copy has no history: earlier snapshots and overwritten values are not copied.
docs/guide/copying.md has the promises.

Values go through one writer, in one pass, while the next part is read. The last commit makes all steps visible. Only
local variables need more writers, for each of their values belongs to one.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from drystone import written
from drystone._core import ContainerHandle, ReadingHandle
from drystone.container import Container
from drystone.described import unfit
from drystone.errors import (
    CancelledError,
    CorruptError,
    DrystoneError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from drystone.location import is_url, place, store_options, supplier
from drystone.opening import open as open_container
from drystone.opening import require_whole
from drystone.undoing import Addition
from drystone.writer import Writer

_MOST = 16 << 20
"""Bytes of a part; two parts are in memory."""
_TEXT = 64
"""Assumed bytes of a text."""
_TRIES = 4096
"""The approximate limit of boxes into which a part with lost values is cut."""
_OPEN = 64
"""The most writers of local variables that are open at a time."""

Chunks = Mapping[str, Sequence[SupportsIndex] | None] | Sequence[SupportsIndex] | None
Transform = str | Sequence[str | Mapping[str, Any]] | None
Progress = Callable[[int, int], object]
Credentials = Callable[[], Mapping[str, object]] | None


@dataclass
class Copied:
    """A finished copy."""

    container: Container
    variables: list[str]
    steps: list[int]
    nbytes: int
    notes: list[str] = field(default_factory=list)
    """Differences of the copy from the original."""


@dataclass(frozen=True)
class _Wanted:
    """The part of a container that is copied."""

    variables: list[str]
    groups: list[str]
    links: dict[str, str]
    steps: list[int]
    everything: bool
    lost: dict[str, str] = field(default_factory=dict)
    """Derived variables that cannot be computed, each with the reason."""


def copy(
    source: Container,
    url: str | os.PathLike[str],
    *,
    variables: str | Iterable[str] | None = None,
    steps: slice | Iterable[SupportsIndex] | None = None,
    transform: Transform | EllipsisType = ...,
    chunks: Chunks | EllipsisType = ...,
    attrs: bool = True,
    storage_options: Mapping[str, object] | None = None,
    credentials: Credentials = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    damaged: bool = False,
) -> Copied:
    """Copy the snapshot that a container shows to a new container. `Container.copy` explains the arguments."""
    source._settle()
    if not damaged:
        require_whole(source)
        source = source.at(source.snapshot)  # independent of later commits through the handle
    wanted = _wanted(source, variables, steps)
    cuts = _cuts(source, wanted, chunks)
    _check_apart(source, url)
    if overwrite:
        _check_other(source, url, storage_options, credentials)
    durability: Any = "async" if is_url(url) else source.durability
    adding = Addition.creating(
        url, durability, overwrite=overwrite, storage_options=storage_options, credentials=credentials
    )
    copied = Copied(adding.container, wanted.variables, wanted.steps, 0)
    copied.notes += [f"{path} is not copied: {reason}" for path, reason in wanted.lost.items()]
    try:
        adding.begin(())
        _create(source, copied, wanted, transform, cuts, attrs)
        _declare(source, copied, wanted, changed=transform is not ... or chunks is not ...)
        cells = _Cells(source, copied, wanted, progress, damaged)
        cells.copy()
        adding.container.commit()
        adding.container.flush()
        cells.name_rounded()
        _name_the_rest(source, copied)
    except BaseException:
        uuid = adding.container.uuid
        adding.undo()
        if is_url(url):
            _remove(place(url), uuid, storage_options, credentials)
        raise
    return copied


def shown(done: int, total: int) -> None:
    """Show how far a copy has come, on one line."""
    with suppress(OSError):
        end = "\n" if done >= total else ""
        print(f"\rcopying: {done >> 20} of {total >> 20} MiB", end=end, file=sys.stderr, flush=True)


def _remove(
    url: str, uuid: str, storage_options: Mapping[str, object] | None, credentials: Credentials
) -> None:
    """Remove the container that a failed copy made in a far store, if it is still that one."""
    with suppress(DrystoneError):
        with open_container(url, storage_options=storage_options, credentials=credentials) as there:
            is_ours = there.uuid == uuid
        if is_ours:
            options = store_options(url, storage_options)
            ContainerHandle.remove_url(url, options, supplier(url, credentials))


def _check_apart(source: Container, url: str | os.PathLike[str]) -> None:
    """Refuse a target that is the source, is inside it or contains it.

    Replacing one would remove the other.
    """
    target = place(url)
    if is_url(target) or is_url(source.path):
        if target.rstrip("/") == source.path.rstrip("/"):
            raise InvalidArgumentError(f"{target} is the container itself: copy it to another place")
        return
    there, here = Path(target).resolve(), Path(source.path).resolve()
    if there == here:
        raise InvalidArgumentError(f"{target} is the container itself: copy it to another place")
    if here in there.parents or there in here.parents:
        raise InvalidArgumentError(
            f"{target} and {source.path} lie in each other: copy the container to a place beside it"
        )


def _check_other(
    source: Container,
    url: str | os.PathLike[str],
    storage_options: Mapping[str, object] | None,
    credentials: Credentials,
) -> None:
    """Refuse to remove the source, which a target may name by another address: of its server, or a path there."""
    target = place(url)
    if not (is_url(target) or is_url(source.path)):
        there, here = Path(target), Path(source.path)
        same = there.exists() and there.samefile(here)
    else:
        same = False
        with (
            suppress(NotFoundError),
            open_container(
                url, storage_options=storage_options, credentials=credentials, damaged=not is_url(target)
            ) as other,
        ):
            same = other.uuid == source.uuid
    if same:
        raise InvalidArgumentError(
            f"{target} is the container itself, or a copy of its files, which overwrite would remove: copy it to "
            "another place"
        )


def _wanted(
    source: Container, variables: str | Iterable[str] | None, steps: slice | Iterable[SupportsIndex] | None
) -> _Wanted:
    handle = source._handle
    listed = {name: handle.followed(name) or name for name in (*source.variables, *source.groups)}
    links = {name: target for name, target in listed.items() if name != target}
    all_variables = [name for name in source.variables if name not in links]
    lost = {name: reason for name in all_variables if (reason := unfit(source, name))}
    all_groups = [name for name in source.groups if name not in links]
    numbers = _steps(source.steps, steps)
    if variables is None:
        links = {name: target for name, target in links.items() if target not in lost}
        able = [name for name in all_variables if name not in lost]
        return _Wanted(able, all_groups, links, numbers, everything=True, lost=lost)
    own, groups = set[str](), set[str]()
    for given in [variables] if isinstance(variables, str) else variables:
        name = source._below(given)
        if handle.kind(name) is None:
            handle.reading(name)  # raises, with the nearest names
        path = handle.followed(name) or name
        own |= {v for v in all_variables if v == path or v.startswith(f"{path}/") or not path}
        groups |= {g for g in all_groups if g == path or g.startswith(f"{path}/") or not path}
    groups |= {g for g in all_groups if any(path.startswith(f"{g}/") for path in own | groups)}
    links = {name: target for name, target in links.items() if target in own | groups}
    return _Wanted(sorted(own), sorted(groups), links, numbers, everything=False)


def _steps(there: list[int], steps: slice | Iterable[SupportsIndex] | None) -> list[int]:
    """The steps that are copied. A slice selects step numbers, as in `T[3:9]`."""
    if steps is None:
        return there
    if isinstance(steps, slice):
        if steps.step is not None and int(steps.step) < 1:
            raise InvalidArgumentError("the steps of a copy ascend: give a slice with a positive step")
        inside = range(*steps.indices(there[-1] + 1 if there else 0))
        return [step for step in there if step in inside]
    try:
        numbers = sorted({int(step.__index__()) for step in steps})
    except (TypeError, AttributeError):
        raise InvalidArgumentError(f"steps is a slice or a list of step numbers, not {steps!r:.80}") from None
    known = set(there)
    for number in numbers:
        if number not in known:
            last = f"; the last is {there[-1]}" if there else ""
            raise NotFoundError(f"there is no step {number}{last}")
    return numbers


def _cuts(source: Container, wanted: _Wanted, chunks: Chunks | EllipsisType) -> dict[str, Any]:
    """The chunk shape of each variable in the copy, if it differs from the original's."""
    if chunks is ...:
        return {}
    arrays = [name for name in wanted.variables if not source.variables[name].local]
    if chunks is None:
        return dict.fromkeys(arrays)
    if isinstance(chunks, Mapping):
        for name in chunks:
            if name not in arrays:
                raise InvalidArgumentError(f'chunks names "{name}", which is not an array that is copied')
        return {name: None if cut is None else tuple(cut) for name, cut in chunks.items()}
    cut = tuple(chunks)
    fit = [name for name in arrays if len(source._handle.reading(name).growable) == len(cut)]
    if not fit:
        raise InvalidArgumentError(
            f"chunks {cut} have {len(cut)} extents, and no array that is copied has as many dimensions"
        )
    return dict.fromkeys(fit, cut)


def _create(
    source: Container,
    copied: Copied,
    wanted: _Wanted,
    transform: Transform | EllipsisType,
    cuts: dict[str, Any],
    attrs: bool,
) -> None:
    """Create groups, variables and links, as one commit."""
    target = copied.container
    refused: list[DrystoneError] = []
    with target.batch():
        if attrs and (own := source._handle.attrs("")):
            target._handle.change_attrs("", own, [])
        for path in wanted.groups:
            target._handle.create_group(path, source._handle.attrs(path) if attrs else None)
        derived = [path for path in wanted.variables if source._handle.reading(path).derived is not None]
        defined = [path for path in derived if _stays_derived(source, path, wanted)]
        copied.notes += [
            f"{path} holds the values that were computed: not all it is derived from is copied under its name"
            for path in derived
            if path not in defined
        ]
        for path in wanted.variables:
            if path in defined:
                continue
            reading = source._handle.reading(path)
            own = source._handle.attrs(path) if attrs else {}
            make = partial(_create_variable, target, path, reading, cuts, own)
            if transform is ...:
                make(reading.transform)
                continue
            try:
                make(transform)
            except (UnsupportedError, InvalidArgumentError) as error:
                refused.append(error)
                make(reading.transform)
                copied.notes.append(f"{path} keeps its transform: {error}")
        if refused and len(refused) == len(wanted.variables) - len(defined):
            raise refused[0]
        while defined:  # inputs first; there are no circles
            path = next(p for p in defined if not _inputs(source, p).keys() & set(defined))
            text, kind, edge, _ = source._handle.reading(path).derived or ("", "", "", [])
            target._handle.derive(path, text, kind, edge, source._handle.attrs(path) if attrs else None)
            defined.remove(path)
        for path, to in wanted.links.items():
            target._handle.link(path, to)


def _inputs(source: Container, path: str) -> dict[str, str | None]:
    derived = source._handle.reading(path).derived
    return {} if derived is None else dict(derived[3])


def _stays_derived(source: Container, path: str, wanted: _Wanted) -> bool:
    """Whether everything it is derived from is copied, under the names in the definition."""
    inputs = _inputs(source, path)
    return all(name == own and own in wanted.variables for name, own in inputs.items())


def _create_variable(
    target: Container,
    path: str,
    reading: ReadingHandle,
    cuts: dict[str, Any],
    attrs: dict[str, Any],
    transform: Transform,
) -> None:
    own = reading.shape[reading.has_steps :] if not reading.local else ()
    target._handle.create_variable(
        path,
        reading.element if reading.element.metadata else str if reading.strings else reading.element,
        tuple(None if grows else n for n, grows in zip(own, reading.growable, strict=True)),
        None if reading.dims is None else list(reading.dims),
        reading.has_steps,
        reading.local,
        transform,
        cuts.get(path, reading.chunks),
        reading.fill,
        attrs,
        reading.access,
    )
    if any(grows and n for n, grows in zip(own, reading.growable, strict=True)):
        target._handle.resize(path, own)


def _declare(source: Container, copied: Copied, wanted: _Wanted, *, changed: bool) -> None:
    """Copy the texts in the dataset language, if they describe the variables of the copy."""
    texts = source.datasets
    if texts and (changed or not wanted.everything):
        copied.notes.append("declared texts are not copied, for the copy differs from what they declare")
        return
    for text in texts:
        try:
            names = copied.container._handle.declare(text, {})
        except DrystoneError as error:
            copied.notes.append(f"a declared text is not copied, declare it again: {error}")
            continue
        for name in names:
            if name not in wanted.variables:
                copied.container._handle.delete(name)


def _name_the_rest(source: Container, copied: Copied) -> None:
    """Record what the copy lacks."""
    with suppress(DrystoneError):
        described = source.describe()
        if (zarr := described.files.get("zarr")) is not None and zarr.number:
            copied.notes.append("what was published is not copied: publish the copy")
        if (files := source._handle.byte_files()) is not None and files[0]:
            copied.notes.append(
                f"{files[0]} files of a mount ({files[1]} bytes) are not copied: mount both containers and copy them"
            )
        if described.waiting:
            steps = ", ".join(map(str, described.waiting[:10]))
            copied.notes.append(f"steps that wait for a commit are not copied: {steps}")
    if source.targets:
        copied.notes.append(f"the copy lies in one folder, not on {len(source.targets)} storage targets")


@dataclass(frozen=True)
class _Piece:
    """A part of a variable, which is read, and then put box by box."""

    name: str
    member: str | None
    step: int | None
    part: written.Part
    reading: ReadingHandle


class _Cells:
    """The transfer of the values."""

    def __init__(
        self,
        source: Container,
        copied: Copied,
        wanted: _Wanted,
        progress: Progress | None,
        damaged: bool,
    ) -> None:
        self._source = source
        self._copied = copied
        self._wanted = wanted
        self._progress = progress
        self._damaged = damaged
        self._lost: dict[str, int] = {}
        self._rounded: set[str] = set()
        stored = [n for n in wanted.variables if copied.container._handle.reading(n).derived is None]
        local = {name for name in stored if source._handle.reading(name).local}
        self._local = [name for name in stored if name in local]
        readings = {name: source._handle.reading(name) for name in stored if name not in local}
        self._constant = {name: r for name, r in readings.items() if not r.has_steps}
        self._stepping = {name: (r, set(r.steps())) for name, r in readings.items() if r.has_steps}
        self._total = sum(math.prod(r.shape) * r.item for r in self._constant.values())
        for reading, there in self._stepping.values():
            count = sum(step in there for step in wanted.steps)
            self._total += count * math.prod(reading.shape[1:]) * reading.item

    def copy(self) -> None:
        target = self._copied.container
        with target.writer() as w, ThreadPoolExecutor(1, thread_name_prefix="drystone-copy") as ahead:
            for name, reading in self._constant.items():
                self._put(w, ahead, self._pieces(name, reading, None))
            for step in self._wanted.steps:
                with w.step(step):
                    there = [(n, r) for n, (r, steps) in self._stepping.items() if step in steps]
                    put = self._put(w, ahead, (p for n, r in there for p in self._pieces(n, r, step)))
                    for name, reading in there:
                        if name not in put:
                            # Its blocks are empty: they make the step.
                            w.put(name, np.empty((0,) * (len(reading.shape) - 1), reading.element))
            self._put_locals()
        self._advance(0, last=True)
        notes = self._copied.notes
        notes += [
            f"{n}: {cells} cells in lost files, or beside them, are unwritten in the copy"
            for n, cells in self._lost.items()
        ]

    def name_rounded(self) -> None:
        """Record the variables whose values a lossy transform rounds a second time."""
        target = self._copied.container
        for name in sorted(self._rounded):
            reading = target._handle.reading(name)
            steps = reading.steps()
            plan = reading.explain((steps[0], ...) if steps else ...)
            if any(plan.max_errors):
                self._copied.notes.append(
                    f"{name}: its values were rounded by a lossy transform, and are again by {reading.transform}; "
                    "a lossless transform keeps them as they read now"
                )

    def _put(self, w: Writer, ahead: ThreadPoolExecutor, pieces: Iterator[_Piece]) -> set[str]:
        """Put pieces; each next piece is read meanwhile. Returns the names of variables that got values."""
        before, names = None, set()
        for piece in pieces:
            coming = piece, ahead.submit(self._read, piece)
            if before is not None and self._put_one(w, before[0], before[1].result()):
                names.add(before[0].name)
            before = coming
        if before is not None and self._put_one(w, before[0], before[1].result()):
            names.add(before[0].name)
        return names

    def _put_one(self, w: Writer, piece: _Piece, found: list[tuple[written.Box, npt.NDArray[Any]]]) -> bool:
        for (low, _), values in found:
            w.put(piece.name, values, low, piece.member)
        self._advance(_cells(piece.part.box) * piece.reading.item)
        return bool(found)

    def _advance(self, nbytes: int, *, last: bool = False) -> None:
        self._copied.nbytes += nbytes
        done = self._total if last else min(self._copied.nbytes, self._total)
        if self._progress is not None and self._progress(done, self._total) is False and not last:
            raise CancelledError("the copy was stopped")

    def _pieces(self, name: str, whole: ReadingHandle, step: int | None) -> Iterator[_Piece]:
        """The written parts of an array. Members of a record that were written together are copied together."""
        blocks = whole.blocks(step)
        own = whole.shape[whole.has_steps :]
        leaves = list(_leaves(whole.element)) if whole.members else []
        handed: list[tuple[str | None, ReadingHandle, list[written.Box], int]] = [
            (None, whole, [_box(b, own) for b in blocks], whole.item)
        ]
        if leaves:
            by_member = {leaf: [_box(b, own) for b in blocks if leaf in b["members"]] for leaf in leaves}
            readings = {leaf: self._source._handle.reading(name, leaf) for leaf in leaves}
            together = all(boxes == by_member[leaves[0]] for boxes in by_member.values())
            nbytes = sum(reading.item for reading in readings.values())
            handed = (
                [(None, whole, by_member[leaves[0]], nbytes)]
                if together
                else [(leaf, r, by_member[leaf], r.item) for leaf, r in readings.items()]
            )
        unit = self._copied.container._handle.reading(name).chunks or (1,) * len(own)
        if whole.derived is not None:
            everything = (0,) * len(own), tuple(own)
            for part in written.parts([everything], max(1, _MOST // whole.item), unit, _cells):
                yield _Piece(name, None, step, part, whole)
            return
        for member, reading, boxes, nbytes in handed:
            most = max(1, _MOST // max(1, _TEXT if reading.strings else reading.item))
            count = partial(self._count, name, reading, step, max(1, nbytes))
            boxes = [box for box in boxes if all(a < b for a, b in zip(*box, strict=True))]
            for part in written.parts(boxes, most, unit, count):
                yield _Piece(name, member, step, part, reading)

    def _count(
        self, name: str, reading: ReadingHandle, step: int | None, nbytes: int, box: written.Box
    ) -> int:
        """The number of cells of a box with values, from the plan of a read."""
        key = tuple(slice(a, b) for a, b in zip(*box, strict=True))
        # A published replica has values of unwritten cells too.
        plan = reading.by_way_of(0).explain(key if step is None else (step, *key))
        if any(plan.max_errors):
            self._rounded.add(name)
        return plan.wanted_bytes // nbytes

    def _read(self, piece: _Piece) -> list[tuple[written.Box, npt.NDArray[Any]]]:
        """The boxes of a piece with their values, read at once."""
        part = piece.part
        try:
            values = self._box(piece, part.box)
        except CorruptError:
            if not self._damaged:
                raise
            # In a large part, cells near lost values are given up with them, since each attempt reads.
            least = max(1, _cells(part.box) // _TRIES)
            return [found for box in part.written for found in self._what_is_left(piece, box, least)]
        origin = part.box[0]

        def of(box: written.Box) -> npt.NDArray[Any]:
            parts = (slice(a - o, b - o) for a, b, o in zip(*box, origin, strict=True))
            return np.asarray(values[tuple(parts)]) if origin else values

        return [(box, of(box)) for box in part.written]

    def _box(self, piece: _Piece, box: written.Box) -> npt.NDArray[Any]:
        low, high = box
        shape = tuple(b - a for a, b in zip(low, high, strict=True))
        values = piece.reading.read_box(piece.step, low, shape, None)[0]
        if piece.reading.strings and not (isinstance(values, np.ndarray) and values.dtype.kind == "O"):
            one = np.empty((), object)
            one[()] = values
            return one
        if piece.reading.strings:
            return np.asarray(values)
        return np.asarray(values, piece.reading.element if not piece.reading.inner else None)

    def _what_is_left(
        self, piece: _Piece, box: written.Box, least: int
    ) -> Iterator[tuple[written.Box, npt.NDArray[Any]]]:
        """The readable parts of a box, found by halving; unreadable ones of `least` cells or less are given up."""
        try:
            yield box, self._box(piece, box)
        except CorruptError:
            cells = _cells(box)
            if cells <= least:
                self._lost[piece.name] = self._lost.get(piece.name, 0) + cells
                return
            for half in written.halves(box):
                yield from self._what_is_left(piece, half, least)

    def _put_locals(self) -> None:
        """Values of local variables: those of ranks by the same ranks, others by one writer each."""
        ranked: dict[int, list[tuple[str, int | None, int]]] = {}
        others: dict[int, list[tuple[str, int | None, int]]] = {}
        for name in self._local:
            v = self._source.variables[name]
            there = set(v.steps)
            steps: list[Any] = [s for s in self._wanted.steps if s in there] if v.has_steps else [None]
            for step in steps:
                free = 0
                for number, block in enumerate(v.blocks(step)):
                    if block.rank is not None:
                        ranked.setdefault(block.rank, []).append((name, step, number))
                    else:
                        others.setdefault(free, []).append((name, step, number))
                        free += 1
        target = self._copied.container
        ranks = max(2, max(ranked) + 1) if ranked else 0
        all_steps = {step for found in ranked.values() for _, step, _ in found if step is not None}
        makers = [(partial(target.writer, r, ranks), ranked.get(r, []), all_steps) for r in range(ranks)]
        for free in sorted(others):
            own = {step for _, step, _ in others[free] if step is not None}
            makers.append((partial(target.writer), others[free], own))
        with ExitStack() as stack:
            for number, (make, found, own_steps) in enumerate(makers):
                w = make()
                if (
                    number < _OPEN
                ):  # Values without a step become visible when the writer closes, so it closes late.
                    stack.callback(w.close)
                for step in [None, *sorted(own_steps)]:
                    mine = [(name, n) for name, s, n in found if s == step]
                    if step is None:
                        self._put_local(w, mine, step)
                        continue
                    with w.step(step):
                        self._put_local(w, mine, step)
                if number >= _OPEN:
                    w.close()

    def _put_local(self, w: Writer, found: list[tuple[str, int]], step: int | None) -> None:
        for name, number in found:
            v = self._source.variables[name]
            try:
                value = v.read_block(step, number)
            except CorruptError:
                if not self._damaged:
                    raise
                self._lost[name] = self._lost.get(name, 0) + 1
                continue
            w.put(name, value)
            self._advance(0)


def _leaves(dtype: np.dtype[Any], above: str = "") -> Iterator[str]:
    """The members of a record that are stored separately, such as `position.x`."""
    for name in dtype.names or ():
        inner = dtype[name].base
        if inner.names:
            yield from _leaves(inner, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _cells(box: written.Box) -> int:
    return math.prod(b - a for a, b in zip(*box, strict=True))


def _box(block: dict[str, Any], shape: Sequence[int]) -> written.Box:
    """The cells of a block that lie inside the array."""
    ends = (min(o + n, most) for o, n, most in zip(block["offset"], block["shape"], shape, strict=True))
    return tuple(block["offset"]), tuple(ends)
