"""Variables: arrays in a container, read with NumPy's rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from drystone import applying, assigning, described, expr, html, narrowing, selection, tiles, views
from drystone.described import PublishedStatistics, Statistics
from drystone.enumerations import enum_names
from drystone.errors import DrystoneError, InvalidArgumentError, NotFoundError, OutOfRangeError
from drystone.group import Attributes
from drystone.lists import ragged_element, shown_element
from drystone.regions import Region, region
from drystone.reports import Block, ErrorBound, Found
from drystone.selection import Rule
from drystone.values import as_elements
from drystone.views import Indexer, IndexPlans, Lazy

if TYPE_CHECKING:
    from drystone._core import ReadingHandle
    from drystone.container import Container
    from drystone.functions import Function


class Variable(expr.Operators):
    """An array in a container, or one member of an array of records.

    Operators with numbers and with other variables make an `expr.Expression` and read nothing: `c["p"] > 3e-5`.
    With arrays they are NumPy's, which reads all of the variable. `==` with a number is a condition; of two
    variables it says whether they are the same object (`expr.eq` compares values).

    Indexing reads: integers, slices of any step, `...`, `None`, lists, integer arrays and boolean masks give what
    NumPy gives. The first axis of a variable with steps is the step. It follows its container: after a commit or
    `refresh` it shows the newer state.
    """

    __slots__ = ("__weakref__", "_container", "_cut", "_member", "_path", "_precision")

    def __init__(
        self,
        container: Container,
        path: str,
        member: str | None = None,
        precision: tuple[float | None, bool, SupportsIndex | None] | None = None,
    ) -> None:
        self._container = container
        self._path = path
        self._member = member
        self._precision = precision
        self._cut: tuple[int, tuple[int, ...] | None] | None = None

    def _reading(self) -> ReadingHandle:
        self._container._settle()
        reading = self._container._handle.reading(self._path, self._member)
        return reading.with_precision(*self._precision) if self._precision else reading

    @property
    def name(self) -> str:
        """Path in the container."""
        return self._path

    @property
    def member(self) -> str | None:
        """The path of the record member; None for the whole variable."""
        return self._member

    @property
    def container(self) -> Container:
        """The container it is in."""
        return self._container

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each axis. With steps, the first is the last committed step of the container + 1."""
        return self._reading().shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its values.

        It is `object` for strings of any length, whose values are `str`, and for lists of numbers, also as members of
        records.
        """
        return self._reading().element

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the dimensions, without the step axis; None if they have none."""
        return self._reading().dims

    @property
    def attrs(self) -> Attributes:
        """Its attributes; setting one is a commit."""
        return Attributes(self._container, self._path)

    def tag(self, tags: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Set attributes of the variable, as one commit; `None` removes one. A catalogue finds containers by them."""
        self.attrs.tag(tags, named)

    @property
    def transform(self) -> str | None:
        """The codecs applied to written values, as text; None for none."""
        return self._reading().transform

    @property
    def derived(self) -> described.Derived | None:
        """Its definition from other variables; None if it stores values."""
        found = self._reading().derived
        return None if found is None else described.Derived(*found[:3], dict(found[3]))

    @property
    def access(self) -> str | None:
        """The expected mix of reads, every kind with its share; None if none was declared."""
        return self._reading().access

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        """The declared shape into which blocks are cut, if any."""
        return self._reading().chunks

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """A shape for reading it in pieces, an extent per axis, as in h5py and zarr; None if it is unknown.

        That is `chunk_shape` if it was declared, else the largest subchunk of the last step's blocks. The step axis is
        1, and axes of a member are whole. Other steps may be cut differently: see `blocks`.
        """
        reading = self._reading()
        if reading.local:
            return None
        if self._cut is None or self._cut[0] != reading.snapshot:
            cut = reading.chunks or _largest_cut(reading) or self._cut_of_inputs(reading)
            steps = (1,) if reading.has_steps else ()
            self._cut = reading.snapshot, None if cut is None else (*steps, *cut, *reading.inner)
        return self._cut[1]

    def _cut_of_decoding(self) -> tuple[int, ...] | None:
        """The shape that is decoded as a whole, without the step axis; None where any cells are read as they are.

        Judged by the blocks of the last step.
        """
        reading = self._reading()
        cut = self.chunks
        if cut is None or (reading.derived is None and _is_raw(reading)):
            return None
        return cut[int(self.has_steps) :]

    def _cut_of_inputs(self, reading: ReadingHandle) -> tuple[int, ...] | None:
        """The chunk shape of an input with the same shape, for a derived variable."""
        if reading.derived is None:
            return None
        for path in dict(reading.derived[3]).values():
            if path is not None:
                other = self._container._handle.reading(path, None)
                if other.has_steps == reading.has_steps and other.shape == reading.shape:
                    own = Variable(self._container, path).chunks
                    return None if own is None else own[int(other.has_steps) :]
        return None

    @property
    def fill_value(self) -> Any:
        """The value of unwritten cells."""
        reading = self._reading()
        if reading.strings:
            element = ragged_element(reading.element)
            return "" if element is None else np.empty(0, element)
        whole = self._container._handle.reading(self._path, None) if self._member else reading
        if whole.objects:
            value = whole.record_fill()
        else:
            value = np.frombuffer(whole.fill or bytes(whole.item), whole.element)[0]
        return selection.member_of(value, self._member) if self._member else value

    @property
    def steps(self) -> list[int]:
        """The committed steps in which it has data."""
        return self._reading().steps()

    @property
    def has_steps(self) -> bool:
        """Whether it has one value per output time."""
        return self._reading().has_steps

    @property
    def local(self) -> bool:
        """Whether each writer has a separate value, of any shape."""
        return self._reading().local

    @property
    def growable(self) -> tuple[bool, ...]:
        """Which dimensions grow as blocks are put, without the step axis."""
        return self._reading().growable

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.size * self.dtype.itemsize

    def __getitem__(self, key: Any) -> Any:
        """Read a selection; a string gives a member of a record, to be read in turn."""
        if isinstance(key, str):
            return self._member_named(key)
        reading = self._reading()
        try:
            if selection.is_basic(key):
                return reading.select(key)
            return views.read(reading, selection.select(key, reading.shape))
        except OutOfRangeError as error:
            if not reading.has_steps:
                raise
            raise self._with_what_waits(error) from None

    def _with_what_waits(self, error: OutOfRangeError) -> OutOfRangeError:
        """The error, extended by the steps that a commit would make visible."""
        with suppress(DrystoneError):
            found = self._container.describe()
            if found.waiting:
                return OutOfRangeError(f"{error}; {found.backlog}: Container.commit() makes them visible")
        return error

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write a block: `T[5:9, :] = array`, `T[step, ...] = array`.

        The key is what indexing takes; on the step axis and axes that grow, integers, slices and lists may lie
        beyond the end. Only the selected cells are written, as boxes, 4096 of them at most: `T[::2]` along an axis
        is a box per cell. Arrays are cast where `numpy.can_cast(..., "same_kind")` allows, and broadcast. Several
        threads may assign at once, to any boxes (`dask.array.store(..., lock=False)`). What was assigned becomes
        visible, in one commit, with the next read, `commit` or `close` of the container.
        """
        if isinstance(key, str):
            raise InvalidArgumentError(f'a member is assigned with an index: T["{key}"][...] = array')
        assigning.assign(self._container, self._path, self._member, key, value)

    def append(self, value: Any, axis: SupportsIndex | None = None) -> None:
        """Write an array after the existing cells: as the next step, or along the growable axis.

        With steps `value` has the shape of one step, or an axis of steps before it. Other axes fit exactly. It
        becomes visible as assignments do, many at once. Threads of this process may append at the same time; one
        process appends.

        Args:
            value: The array.
            axis: Which axis grows, if there are several.

        """
        if self._member is not None:
            raise InvalidArgumentError(f'"{self._path}" is appended to by whole records, not by a member')
        assigning.append(self._container, self._path, value, axis)

    def _member_named(self, name: str) -> Variable:
        if not self._reading().members:
            which = f'"{self._path}"' + (f' member "{self._member}"' if self._member else "")
            raise NotFoundError(f'{which} holds {self.dtype}, which has no member "{name}"')
        path = f"{self._member}.{name}" if self._member else name
        self._container._handle.reading(self._path, path)
        return Variable(self._container, self._path, path, self._precision)

    def within(
        self,
        max_error: float | None = None,
        *,
        relative: bool = False,
        precision: SupportsIndex | None = None,
    ) -> Variable:
        """The same variable with reduced precision, for every way of reading it.

        If its transform supports this (`aplod`, `multilevel`), reads take fewer bytes; otherwise all stored bytes are
        read. Fewer bytes are faster if the storage is the bottleneck; on a local disk they often are not.

        Reading raises `InvalidArgumentError` if a lossy transform is less exact than `max_error`, or if its error is
        unknown.

        Args:
            max_error: The largest error of a finite value, compared with the written one.
            relative: `max_error` is a fraction of the magnitude of each value.
            precision: Instead of an error, the number of components to read, from 1.

        """
        view = Variable(self._container, self._path, self._member, (max_error, relative, precision))
        view._reading()
        return view

    def read(
        self,
        step: SupportsIndex | None = None,
        offset: Sequence[SupportsIndex] | SupportsIndex | None = None,
        count: Sequence[SupportsIndex] | SupportsIndex | None = None,
        out: Any = None,
        max_error: float | None = None,
        *,
        relative: bool = False,
        precision: SupportsIndex | None = None,
        return_bound: bool = False,
        dtype: npt.DTypeLike | None = None,
    ) -> Any:
        """Read a box: of one step, or (`step=None`) of a variable without steps.

        `offset` and `count` have an entry per dimension, without the step axis. The defaults are the beginning, and
        everything after `offset`. `out` may be any writable array of the right shape and dtype, of NumPy or in
        memory that DLPack exposes; it is filled and returned. `max_error`, `relative` and `precision` are as in
        `within`. With `return_bound` the result is the array and the `ErrorBound` that holds for it, which may be
        smaller than requested. It counts from the written values: after a lossy transform it is not 0. `dtype="f4"`
        reads float64 as float32, rounded to the nearest. A server rounds before it sends, so that half of the bytes
        are sent. The bound includes the rounding; magnitudes below the smallest normal float32 count as that
        number. A value beyond float32 raises `InvalidArgumentError`.
        """
        given = out
        if out is not None and not isinstance(out, np.ndarray):
            out = views.in_memory(out)
            out = given if out is None else out
        if isinstance(out, np.ndarray):
            views.check_apart(out)
        reading = self._reading_to(max_error, relative, precision)
        if narrowing.is_narrow(dtype, reading, f'"{self._path}"'):

            def act(reading: ReadingHandle) -> tuple[Any, ErrorBound]:
                wide, *bound = reading.read_box(step, offset, count, None)
                return wide, ErrorBound(*bound)

            most = self._most(max_error, relative)
            narrow, bounded = narrowing.read(reading, f'"{self._path}"', act, most, out)
            values = narrow if given is None else given
            return (values, bounded) if return_bound else values
        values, *bound = reading.read_box(step, offset, count, out)
        if given is not None:
            values = given
        return (values, ErrorBound(*bound)) if return_bound else values

    def value_range(self, low: Any, high: Any, step: SupportsIndex | None = None) -> Found:
        """The cells of a step whose values lie between two values, inclusive.

        A variable with the transform `alacrity` is searched by its index, which reads only the matching bins. For
        other transforms, subchunks are read if their extremes overlap the range. NaN is in no range, and unwritten
        cells are not found, whatever the fill value.

        Args:
            low: The smallest value.
            high: The largest value.
            step: The output time; left out for variables without steps.

        """
        reading = self._reading()
        if reading.element.kind in "mM":  # times and named values are stored as integers
            ends = (as_elements(end, reading.element, f'"{self._path}"') for end in (low, high))
            low, high = (int(end.view(np.int64)) for end in ends)
        coords, values, read_bytes, requests = reading.value_range(step, low, high)
        found = np.frombuffer(values, reading.element)
        ndim = len(reading.shape) - reading.has_steps
        cells = np.frombuffer(coords, np.uint64).astype(np.int64).reshape(len(found), ndim)
        return Found(cells, found, read_bytes, requests)

    def blocks(self, step: SupportsIndex | None = None) -> list[Block]:
        """The blocks as written, oldest first: of one step, or (`step=None`) of all."""
        reading = self._reading()
        steps: Sequence[SupportsIndex | None]
        steps = reading.steps() if step is None and reading.has_steps else [step]
        return [Block(**block) for s in steps for block in reading.blocks(s)]

    def statistics(self, step: SupportsIndex | None = None, selection: Any = None) -> Statistics:
        """Statistics of a step (None: of a variable without steps): extremes, NaNs, a histogram.

        No value is read. For records, use a member. There is a histogram if every subchunk has one: if they are
        encoded and have 4096 elements or more. A derived variable has statistics where its stored values, or their
        bounds, are current.

        Args:
            step: The output time; left out for variables without steps.
            selection: An index of the cells without the step, as in `T[step][10:20]`. Then those blocks and subchunks
                count, as a whole, that meet the box around these cells: every value there lies between the extremes,
                and `cells` says how many cells count.

        """
        return described.statistics(self._reading().statistics(step, selection))

    def published_statistics(self, step: SupportsIndex | None = None) -> PublishedStatistics | None:
        """Statistics of a step (None: of a variable without steps) when it was published. Reads no value.

        They are stored beside the published shards, and cover the cells that were visible then. For records, use a
        member. None if this snapshot has no published replica, if the replica was replaced or changed its format
        since, or if chunks hold several steps.
        """
        found = self._reading().published_statistics(step)
        return None if found is None else PublishedStatistics(*found)

    def read_block(self, step: SupportsIndex | None, number: SupportsIndex) -> Any:
        """One block of a step (None: of a variable without steps) as written, even where others overlap it."""
        (value,) = self._reading().read_blocks(step, number)
        return value

    def read_blocks(self, step: SupportsIndex | None = None) -> list[Any]:
        """Every block of a step as written; for a local variable, the value of each writer."""
        return self._reading().read_blocks(step, None)

    def read_points(
        self,
        coords: Any,
        out: Any = None,
        max_error: float | None = None,
        *,
        relative: bool = False,
        precision: SupportsIndex | None = None,
        return_bound: bool = False,
        dtype: npt.DTypeLike | None = None,
    ) -> Any:
        """Read single cells, in one plan.

        An encoded subchunk that can be read in part is read only where it holds the cells.

        Args:
            coords: Integers of shape `(..., ndim)`: a coordinate per axis, the step first; negative ones count from
                the end. One outside the array raises `OutOfRangeError`, an `IndexError`.
            out: An array of shape `(...)` and the variable's dtype, to be filled and returned.
            max_error: The largest error of a finite value, as in `within`.
            relative: `max_error` is a fraction of the magnitude of each value.
            precision: Instead of an error, the number of components to read.
            return_bound: Return the array and the `ErrorBound` that holds for it.
            dtype: `"f4"` reads float64 as float32, as `read` does.

        """
        reading = self._reading_to(max_error, relative, precision)
        if narrowing.is_narrow(dtype, reading, f'"{self._path}"'):
            points = selection.points(coords, reading.shape)
            most = self._most(max_error, relative)
            found = narrowing.read(
                reading, f'"{self._path}"', lambda reading: views.read_bounded(reading, points), most, out
            )
            return found if return_bound else found[0]
        values, bound = views.read_bounded(reading, selection.points(coords, reading.shape), out)
        return (values, bound) if return_bound else values

    def _reading_to(
        self, max_error: float | None, relative: bool, precision: SupportsIndex | None
    ) -> ReadingHandle:
        """The reading with the requested precision."""
        reading = self._reading()
        if max_error is None and not relative and precision is None:
            return reading
        return reading.with_precision(max_error, relative, precision)

    def _most(self, max_error: float | None, relative: bool) -> tuple[float | None, bool]:
        """The requested error, of a read or of `within`, and whether it is relative."""
        if max_error is None and self._precision is not None:
            return self._precision[:2]
        return max_error, relative

    @property
    def learnt(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The observed reads: their number, and their extents, the step first; 0 is a whole axis.

        See docs/guide/layout.md.
        """
        found = self._container._handle.learnt_reads(self._path)
        return tuple((weight, tuple(extents)) for weight, extents in found)

    @property
    def explain(self) -> IndexPlans:
        """`T.explain[key]` is the plan of `T[key]`: what it would read, without reading it.

        `T.explain.measured[key]` also reads, and adds the measured time to the predicted one.
        """
        return IndexPlans(self)

    @property
    def oindex(self) -> Indexer:
        """`T.oindex[[3, 1], :, mask]`: each list, array or mask selects along its own axis."""
        return Indexer(self, Rule.OUTER)

    @property
    def vindex(self) -> Indexer:
        """`T.vindex[[3, 1], :, [0, 7]]`: arrays are combined to cells, as in NumPy; their axes come first."""
        return Indexer(self, Rule.VECTOR)

    @property
    def lazy(self) -> Lazy:
        """`T.lazy[key]` is a `View` of `T[key]`: planned once, and read any number of times."""
        return Lazy(self)

    def pieces(
        self, selection: Any = ..., max_bytes: int = 16 << 20
    ) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
        """Read a selection piece by piece, in bounded memory.

        Yields pairs (place, piece) in row-major order: `T[selection][place]` equals `piece`, so `out[place] = piece`
        assembles the selection. Pieces follow chunk boundaries, so that little is read twice. The next piece is read
        while one is used.

        Args:
            selection: Integers, slices, `...` and `None`, as in indexing.
            max_bytes: Largest piece; about two are in memory at a time.

        """
        return views.pieces(self._reading(), selection, max_bytes)

    def tiles(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
        halo: SupportsIndex | Sequence[SupportsIndex] = 0,
        steps: SupportsIndex | Sequence[SupportsIndex] | None = None,
        edge: Literal["one_sided", "fill", "periodic", "nan"] = "one_sided",
    ) -> Iterator[tuple[tuple[int | slice, ...], npt.NDArray[Any]]]:
        """Read all of it tile by tile, each with a halo of neighbouring cells, in bounded memory.

        Yields pairs (place, array) in row-major order, step by step. `place` selects the cells of the tile:
        `out[place]` has its shape without the halo. The array includes the halo, and has no step axis. Neighbours are
        read whichever process wrote them. The next tile is read while one is used.

        Args:
            shape: Extents of a tile, without the step axis; the last ones are smaller. By default whole rows of 8 MiB.
            halo: Cells on each side, one number or one per dimension.
            steps: The steps; by default all.
            edge: What lies beyond the edge of the domain: `"one_sided"` the cell at the edge again, `"fill"` the
                fill value, `"periodic"` the cells at the opposite end, `"nan"` NaN.

        """
        return tiles.tiles(self, shape, halo, steps, edge)

    def apply(
        self,
        function: Callable[[npt.NDArray[Any]], Any] | Function,
        halo: SupportsIndex | Sequence[SupportsIndex] = 0,
        dtype: npt.DTypeLike | None = None,
        *,
        out: Any = None,
        shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
        edge: Literal["one_sided", "fill", "periodic", "nan"] = "one_sided",
        deadline: float | None = None,
        lazy: bool = False,
    ) -> Any:
        """The result of a function, tile by tile, as an array of the variable's shape.

        The function gets an array with the halo, and returns one without it, or one of the same shape, whose halo is
        cut off. A Python function is called in one thread, a compiled one that is thread-safe in several. Its errors
        are raised with the tile's box. A result of a wrong shape or dtype raises `InvalidArgumentError`, an expired
        deadline `DeadlineError`. See docs/guide/derived.md.

        Args:
            function: Takes an array of one step's cells and returns one; or a compiled function:
                `drystone.function(...)`, or a capsule.
            halo: Cells on each side that it needs, one number or one per dimension. A compiled function declares
                its own.
            dtype: The dtype of the result; by default that of the first tile's result.
            out: The target of the results, by `out[place] = array`: an array, a memory map, another variable. By
                default a new array.
            shape: Extents of a tile, as in `tiles`.
            edge: What lies beyond the edge of the domain, as in `tiles`.
            deadline: Time limit for one tile, in seconds.
            lazy: Return a Dask array instead, with one task per tile. Without `dtype`, the result has the variable's.

        """
        return applying.apply(self, function, halo, dtype, out, shape, edge, deadline, lazy)

    def map(
        self,
        step: SupportsIndex | None = None,
        offset: Sequence[SupportsIndex] | None = None,
        count: Sequence[SupportsIndex] | None = None,
        mode: Literal["r", "w", "rw"] = "r",
    ) -> Region:
        """A box of one step (or of a variable without steps) with memory for its values, to be locked and released.

        `mode` selects reading, writing or both. Without `offset` and `count` the box is the whole array. See
        docs/guide/regions.md.
        """
        return region(self, step, offset, count, mode)

    def why(self, block: Sequence[SupportsIndex]) -> str:
        """How the model cuts a block of these extents, as text for people.

        It lists the expected reads and their predicted costs.
        """
        text, _, said = self._container._handle.cut_of(self._path, list(block))
        return f"{text}reads: {said}"

    def resize(self, shape: Sequence[SupportsIndex] | SupportsIndex) -> None:
        """Set the extents, without the step axis.

        Cells that are cut off, and later added again, read as the fill value.
        """
        self._container._settle_before_change()
        self._container._handle.resize(self._path, shape)
        self._container._warn()

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("a variable of no dimensions has no length")
        return shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a variable cannot become an array without a copy")
        values = np.asarray(self._reading().select(...))
        return values if dtype is None else values.astype(dtype, copy=False)

    def __dlpack__(self, *, copy: bool | None = None, **how: Any) -> Any:
        """Its values, read into a new array: `torch.from_dlpack(T)`."""
        if copy is False:
            raise BufferError("a variable cannot become a tensor without a copy")
        return np.asarray(self).__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the CPU's memory

    def _expression(self) -> expr.Expression:
        return expr.of(self)

    def __eq__(self, other: object) -> Any:
        return expr.eq(self, other) if self._makes_condition(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return expr.ne(self, other) if self._makes_condition(other) else NotImplemented

    def _makes_condition(self, other: object) -> bool:
        """Whether `==` with it is a condition.

        NumPy's scalars define the comparison themselves. Texts make a condition if values have names or are times.
        """
        if isinstance(other, int | float | expr.Expression):
            return not isinstance(other, np.generic)
        return expr.is_word(other) and (self.dtype.kind in "mM" or enum_names(self.dtype) is not None)

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), (self._container, self._path, self._member, self._precision)

    def _at(self, snapshot: int) -> Self:
        """The same variable at a snapshot."""
        if int(self._container.snapshot) == snapshot:
            return self
        return type(self)(self._container.at(snapshot), self._path, self._member, self._precision)

    def _ipython_key_completions_(self) -> list[str]:
        """Completions of `T["<Tab>`: the members of a record."""
        return self._reading().members

    def _repr_html_(self) -> str:
        return html.variable(self)

    def __repr__(self) -> str:
        name = self._path if self._member is None else f"{self._path}[{self._member!r}]"
        try:
            reading = self._reading()
        except (NotFoundError, InvalidArgumentError) as error:
            return f"<drystone variable {name}: {error}>"
        kind = shown_element(reading.element)
        what = "local, " if reading.local else ""
        steps = ", steps" if reading.has_steps else ""
        return f"<drystone variable {name}: {what}{kind} {reading.shape}{steps}{self._exactness()}>"

    def _exactness(self) -> str:
        """The precision that `within` set, in words."""
        match self._precision:
            case (None, False, None) | None:
                return ""
            case (None, _, level):
                return f", at precision {level}"
            case (error, relative, _):
                return f", within {error}{' of each magnitude' if relative else ''}"


def _largest_cut(reading: ReadingHandle) -> tuple[int, ...] | None:
    """The largest subchunk shape of the last step's blocks; None if there is no block or no dimension."""
    cuts = (tuple(block["chunks"]) for block in _last_blocks(reading))
    return max(cuts, key=math.prod, default=None) or None


def _is_raw(reading: ReadingHandle) -> bool:
    """Whether no block of the last step is encoded."""
    return all(block["transform"] is None for block in _last_blocks(reading))


def _last_blocks(reading: ReadingHandle) -> list[dict[str, Any]]:
    last = reading.steps()[-1:] if reading.has_steps else [None]
    return [block for step in last for block in reading.blocks(step)]
