"""Applies a function to all tiles of a variable: in Python or compiled, at once or as tasks of Dask."""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
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
    """Put the results in place, tile by tile; or return a Dask array of them."""
    call = _Call(variable, function, halo, dtype, deadline)
    if lazy:
        if out is not None:
            raise InvalidArgumentError("lazy=True makes a Dask array: leave out= out")
        return _lazy(variable, call, shape, edge)
    if out is not None:
        _check_target(variable, call, out)
    if call.runs_in_threads:
        if out is None:
            out = np.empty(variable.shape, call.dtype)
        _in_threads(variable, call, out, shape, edge)
        return out
    for place, tile in tiles.tiles(variable, shape, call.halo, None, edge):
        made = call(place, tile)
        if out is None:
            if call.dtype is None:
                # Nobody chose the type of the first tile: other tiles fit it exactly.
                call.dtype, call.casting = made.dtype, "safe"
            out = np.empty(variable.shape, call.dtype)
        out[place] = made
    return (
        np.empty(variable.shape, variable.dtype if call.dtype is None else call.dtype) if out is None else out
    )


def _check_target(variable: Variable, call: _Call, out: Any) -> None:
    """Checks the shape of a target, that it can be written, and that it takes the values of the results."""
    shape, dtype = getattr(out, "shape", None), getattr(out, "dtype", None)
    if shape is None or dtype is None:
        raise InvalidArgumentError(f"out= is an array or a variable, not {type(out).__name__}")
    if tuple(shape) != tuple(variable.shape):
        raise InvalidArgumentError(
            f'out= has the shape {tuple(shape)}; "{variable.name}" has {tuple(variable.shape)}'
        )
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise InvalidArgumentError("out= is a read-only array")
    if call.dtype is not None and not np.can_cast(call.dtype, dtype, "same_kind"):
        raise InvalidArgumentError(f"out= holds {dtype}, which does not take results of {call.dtype}")
    call.dtype, call.target = dtype if call.dtype is None else call.dtype, dtype


class _Call:
    """A function with its settings, to be called for one tile."""

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
        self.casting: Literal["same_kind", "safe"] = "same_kind"
        # The element type of the array or variable that takes the results, if it was given.
        self.target: np.dtype[Any] | None = None
        shape = variable.shape[int(variable.has_steps) :]
        if any(n > max(extent, 1) for n, extent in zip(self.halo, shape, strict=True)):
            raise InvalidArgumentError(
                f'halo={self.halo} is wider than "{variable.name}", which has {shape} cells'
            )
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

    @property
    def runs_in_threads(self) -> bool:
        """Whether several threads may call it: not with a deadline, since an abandoned call keeps its memory."""
        return self.threads > 1 and self.deadline is None

    def bytes_for(self, cells: int) -> int:
        """Bytes of memory for that many result cells of a compiled function."""
        return self.function.bytes_for(cells) if isinstance(self.function, functions.Function) else 0

    def __call__(
        self, place: _Place, tile: npt.NDArray[Any], into: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[Any]:
        """The result for a tile with its halo; that of a compiled function is in the given memory."""
        cells = tuple(slice(h, n - h) for h, n in zip(self.halo, tile.shape, strict=True))
        wanted = tile[cells].shape
        box = ", ".join(f"{p.start}:{p.stop}" if isinstance(p, slice) else str(p) for p in place)
        try:
            made = self._within(place, tile, box, into)
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
        for dtype in (self.dtype, self.target):
            if dtype is None:
                continue
            if not np.can_cast(made.dtype, dtype, self.casting):
                hint = ", as in the first tile: say dtype=" if self.casting == "safe" else ""
                raise InvalidArgumentError(
                    f'the function gave {made.dtype} for the tile [{box}] of "{self.name}"; {dtype} is needed{hint}'
                )
            made = self._narrowed(made, dtype, box)
        return made

    def _narrowed(self, made: npt.NDArray[Any], dtype: np.dtype[Any], box: str) -> npt.NDArray[Any]:
        """The values in a type; an integer or a finite float beyond it is an error."""
        if np.can_cast(made.dtype, dtype, "safe"):
            return made
        with np.errstate(over="ignore", invalid="ignore"):
            values = made.astype(dtype)
        if dtype.kind in "fc":
            lost = np.isinf(values) & np.isfinite(made)
        else:
            lost = values != made if dtype.kind in "iuSU" else np.zeros(made.shape, bool)
        if np.any(lost):
            raise InvalidArgumentError(
                f'the function gave {made[lost][0]!r} for the tile [{box}] of "{self.name}"; '
                f"{dtype} does not hold it"
            )
        return values

    def _run(
        self, place: _Place, tile: npt.NDArray[Any], box: str, into: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[Any]:
        if not isinstance(self.function, functions.Function):
            return np.asarray(self.function(tile))
        lines = [p for p in place if isinstance(p, slice)]
        origin = [int(line.start) - halo for line, halo in zip(lines, self.halo, strict=True)]
        step = place[0] if place and not isinstance(place[0], slice) else None
        return self.function(tile, step, origin, box, into)

    def _within(
        self, place: _Place, tile: npt.NDArray[Any], box: str, into: npt.NDArray[np.uint8] | None
    ) -> npt.NDArray[Any]:
        """The result, or an error after the deadline. The function then continues in a thread that is not awaited."""
        if self.deadline is None:
            return self._run(place, tile, box, into)
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


class _Memory:
    """Reuses the memory of finished tiles: fresh pages cost more than a copy."""

    def __init__(self) -> None:
        self._free: list[npt.NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lent(self, size: int) -> Iterator[npt.NDArray[np.uint8]]:
        with self._lock:
            at = next((n for n, one in enumerate(self._free) if one.size >= size), None)
            memory = None if at is None else self._free.pop(at)
        if memory is None:
            memory = np.empty(size, "u1")
        try:
            yield memory
        finally:
            with self._lock:
                self._free.append(memory)


def _in_threads(
    variable: Variable,
    call: _Call,
    out: Any,
    shape: SupportsIndex | Sequence[SupportsIndex] | None,
    edge: _Edge,
) -> None:
    """Read and compute tiles in several threads. An array takes results from all threads, other targets in order."""
    whole, size, halo = tiles.frame(variable, shape, call.halo, edge)
    with_halo = math.prod(n + 2 * h for n, h in zip(size, halo, strict=True)) * variable.dtype.itemsize
    memory, is_array = _Memory(), type(out) is np.ndarray

    def act(step: int | None, box: tuple[tuple[int, int], ...]) -> npt.NDArray[Any] | None:
        place = tiles.place(step, box)
        with memory.lent(with_halo) as into:
            tile = tiles.read(variable, step, box, whole, halo, edge, into)
            if not is_array:
                return call(place, tile)
            with memory.lent(call.bytes_for(math.prod(size))) as made:
                out[place] = call(place, tile, made)
        return None

    with ThreadPoolExecutor(call.threads, "drystone-functions") as pool:
        under_way: collections.deque[tuple[_Place, Future[npt.NDArray[Any] | None]]] = collections.deque()

        def finish() -> None:
            place, future = under_way.popleft()
            made = future.result()
            if made is not None:
                out[place] = made

        try:
            for step, box in tiles.boxes(whole, size, tiles.chosen(variable, None)):
                under_way.append((tiles.place(step, box), pool.submit(act, step, box)))
                if len(under_way) > call.threads:
                    finish()
            while under_way:
                finish()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _lazy(
    variable: Variable,
    call: _Call,
    shape: SupportsIndex | Sequence[SupportsIndex] | None,
    edge: _Edge,
) -> Any:
    """One task per tile, which reads its own halo: nothing is rechunked."""
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
