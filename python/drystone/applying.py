"""Applies a function to all tiles of a variable: in Python or compiled, at once or as tasks of Dask."""

from __future__ import annotations

import collections
import itertools
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from drystone import functions, tiles
from drystone.errors import DeadlineError, InvalidArgumentError

if TYPE_CHECKING:
    from drystone.variable import Variable

    _Edge = Literal["one_sided", "fill", "periodic", "nan"]
    _Given = Callable[[npt.NDArray[Any]], Any] | functions.Function

_Place = tiles.Place


def apply(
    variable: Variable,
    function: _Given,
    halo: SupportsIndex | Sequence[SupportsIndex],
    dtype: npt.DTypeLike | None,
    out: Any,
    shape: SupportsIndex | Sequence[SupportsIndex] | None,
    edge: _Edge,
    deadline: float | None,
    lazy: bool,
) -> Any:
    """The result put in its place, tile by tile; or a Dask array of it."""
    call = _Call(variable, function, halo, dtype, deadline)
    if lazy:
        if out is not None:
            raise InvalidArgumentError("lazy=True makes a Dask array: leave out= out")
        return _lazy(variable, call, shape, edge)
    for place, made in _made(call, tiles.tiles(variable, shape, call.halo, None, edge)):
        if out is None:
            out = np.empty(variable.shape, made.dtype if call.dtype is None else call.dtype)
        out[place] = made
    return (
        np.empty(variable.shape, variable.dtype if call.dtype is None else call.dtype) if out is None else out
    )


class _Call:
    """A function with what it needs, to be called for one tile."""

    def __init__(
        self,
        variable: Variable,
        function: _Given,
        halo: SupportsIndex | Sequence[SupportsIndex],
        dtype: npt.DTypeLike | None,
        deadline: float | None,
    ) -> None:
        ndim = variable.ndim - variable.has_steps
        given = functions.from_capsule(function) if functions.is_capsule(function) else function
        self.name, self.function, self.deadline = variable.name, given, deadline
        self.dtype = None if dtype is None else np.dtype(dtype)
        self.halo = tiles.extents(halo, ndim, "halo", 0)
        self.threads = 1
        if deadline is not None and not deadline > 0:
            raise InvalidArgumentError(f"deadline={deadline}: seconds above 0 are needed")
        if not isinstance(given, functions.Function):
            if not callable(given):
                raise InvalidArgumentError(f"a function is needed, not {given!r}")
            return
        if any(self.halo) and self.halo != given.halo:
            raise InvalidArgumentError(f"halo={self.halo}: the function declares {given.halo}")
        if given.ndim != ndim or given.in_dtype != variable.dtype:
            raise InvalidArgumentError(
                f"the function reads {given.in_dtype} in {given.ndim} dimensions; "
                f'"{variable.name}" holds {variable.dtype} in {ndim}'
            )
        self.halo = given.halo
        self.dtype = given.out_dtype if self.dtype is None else self.dtype
        if given.thread_safe:
            self.threads = (
                len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            )

    def __call__(self, place: _Place, tile: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The result for a tile with its halo."""
        cells = tuple(slice(h, n - h) for h, n in zip(self.halo, tile.shape, strict=True))
        wanted = tile[cells].shape
        box = ", ".join(f"{p.start}:{p.stop}" if isinstance(p, slice) else str(p) for p in place)
        try:
            made = self._within(place, tile, box)
        except Exception as error:
            error.add_note(f'in the tile [{box}] of "{self.name}"')
            raise
        if made.shape == tile.shape:
            made = made[cells]
        if made.shape != wanted:
            raise InvalidArgumentError(
                f'the function gave an array of shape {made.shape} for the tile [{box}] of "{self.name}"; '
                f"{wanted} is needed, or {tile.shape} with the halo"
            )
        if self.dtype is not None and not np.can_cast(made.dtype, self.dtype, "same_kind"):
            raise InvalidArgumentError(
                f'the function gave {made.dtype} for the tile [{box}] of "{self.name}"; {self.dtype} is needed'
            )
        return made

    def _run(self, place: _Place, tile: npt.NDArray[Any], box: str) -> npt.NDArray[Any]:
        if not isinstance(self.function, functions.Function):
            return np.asarray(self.function(tile))
        lines = [p for p in place if isinstance(p, slice)]
        origin = [int(line.start) - halo for line, halo in zip(lines, self.halo, strict=True)]
        step = place[0] if place and not isinstance(place[0], slice) else None
        return self.function(tile, step, origin, box)

    def _within(self, place: _Place, tile: npt.NDArray[Any], box: str) -> npt.NDArray[Any]:
        """The result, or an error after the deadline. The function then goes on in a thread that is not waited for."""
        if self.deadline is None:
            return self._run(place, tile, box)
        done: Future[npt.NDArray[Any]] = Future()

        def run() -> None:
            try:
                done.set_result(self._run(place, tile, box))
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="drystone-function", daemon=True).start()
        try:
            return done.result(self.deadline)
        except TimeoutError:
            if done.done():
                raise
            raise DeadlineError(
                f'the function took more than {self.deadline} s for the tile [{box}] of "{self.name}"'
            ) from None


def _made(
    call: _Call, each: Iterator[tuple[_Place, npt.NDArray[Any]]]
) -> Iterator[tuple[_Place, npt.NDArray[Any]]]:
    """Results in the order of the tiles, of which as many are under way as threads may call."""
    if call.threads == 1:
        yield from ((place, call(place, tile)) for place, tile in each)
        return
    with ThreadPoolExecutor(call.threads, "drystone-functions") as pool:
        under_way: collections.deque[tuple[_Place, Future[npt.NDArray[Any]]]] = collections.deque()
        for place, tile in each:
            under_way.append((place, pool.submit(call, place, tile)))
            if len(under_way) > call.threads:
                first, made = under_way.popleft()
                yield first, made.result()
        for first, made in under_way:
            yield first, made.result()


def _lazy(
    variable: Variable,
    call: _Call,
    shape: SupportsIndex | Sequence[SupportsIndex] | None,
    edge: _Edge,
) -> Any:
    """One task per tile, which reads its halo itself: nothing is rechunked."""
    import dask.array

    whole, size, halo = tiles.frame(variable, shape, call.halo, edge)
    lines = [[(lo, min(lo + own, n)) for lo in range(0, n, own)] for n, own in zip(whole, size, strict=True)]
    steps: list[int | None] = list(range(variable.shape[0])) if variable.has_steps else [None]
    name = f"drystone-apply-{uuid.uuid4().hex}"
    graph = {}
    for step in steps:
        for numbers in itertools.product(*(range(len(line)) for line in lines)):
            box = tuple(line[n] for line, n in zip(lines, numbers, strict=True))
            key = (name, *numbers) if step is None else (name, step, *numbers)
            graph[key] = (_task, variable, call, step, box, whole, halo, edge)
    chunks = [tuple(hi - lo for lo, hi in line) for line in lines]
    if variable.has_steps:
        chunks.insert(0, (1,) * len(steps))
    dtype = variable.dtype if call.dtype is None else call.dtype
    make: Any = dask.array.Array
    return make(graph, name, tuple(chunks), dtype=dtype)


def _task(
    variable: Variable,
    call: _Call,
    step: int | None,
    box: tuple[tuple[int, int], ...],
    whole: Sequence[int],
    halo: Sequence[int],
    edge: _Edge,
) -> npt.NDArray[Any]:
    tile = tiles.read(variable, step, box, whole, halo, edge)
    cells = tuple(slice(lo, hi) for lo, hi in box)
    made = call(cells if step is None else (step, *cells), tile)
    if call.dtype is not None:
        made = made.astype(call.dtype, copy=False)
    elif made.dtype != variable.dtype:
        raise InvalidArgumentError(
            f'the function gave {made.dtype} of "{variable.name}", which holds {variable.dtype}: say dtype='
        )
    return made if step is None else made[None]
