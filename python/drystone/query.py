"""Queries: the cells that satisfy a condition, and the values of variables there.

    q = c.query("p > 3e-5 & (abs(u) < 1 | mask == 2)", steps=3)
    q.count(), q.coords(), q.values("u", "v"), q.mask()

Statistics are evaluated first, and values are read only where they do not decide. See docs/guide/queries.md.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from drystone import expr, html
from drystone.errors import InvalidArgumentError, OutOfRangeError

if TYPE_CHECKING:
    from drystone._core import QueryHandle
    from drystone.container import Container
    from drystone.variable import Variable

_SHOWN = 10
"""The most hits that a notebook shows."""
_SHOWN_BYTES = 256 << 20
"""The most bytes that are read for them."""

Selection = int | slice | EllipsisType | Sequence[int | slice | EllipsisType]
Steps = SupportsIndex | slice | Iterable[SupportsIndex]


class Bounds(NamedTuple):
    """Bounds of the count, inclusive."""

    low: int
    high: int


@dataclass(frozen=True)
class Term:
    """One of the conditions that must all hold, and the decisions about it."""

    text: str
    none: int
    """Tiles in which no cell satisfies it, by statistics."""
    all: int
    """Tiles in which every cell satisfies it, by statistics."""
    some: int
    """The other tiles."""
    bytes: int
    """Upper bound of the stored bytes that it reads."""
    requests: int
    """Subchunks that it reads."""
    site: str | None = None
    """On a far store, in `explain`: where it is evaluated, there or here, and why."""
    tried: int = 0
    """Cells on which it was evaluated."""
    kept: int = 0
    """Cells that satisfied it."""


@dataclass(frozen=True)
class QueryPlan:
    """An upper bound on what a query reads, from statistics alone."""

    text: str = field(repr=False)
    cells: int
    """Selected cells."""
    none: int
    """Cells that statistics exclude."""
    all: int
    """Cells that statistics include."""
    some: int
    """Cells whose values must be read."""
    bytes: int
    requests: int
    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return self.text


class PlanRow(NamedTuple):
    """What statistics decide about one condition in one tile: a subchunk, or a part of one."""

    step: int | None
    """None for variables without steps."""
    offset: tuple[int, ...]
    """Coordinates of the first cell, without the step."""
    shape: tuple[int, ...]
    """Extents, without the step axis."""
    term: str
    """The condition: one of `explain.terms`."""
    decided: str
    """How many cells satisfy it: `"none"`, `"all"`, or `"some"` if values must be read to know."""
    bytes: int
    """Stored bytes of the subchunks whose values it needs; 0 if none are read in this tile."""
    why: str
    """The statistics of each variable in it, and what else decides."""


@dataclass(frozen=True)
class QueryReport(QueryPlan):
    """The cost of an answer, in bytes and requests that were read."""


@dataclass(frozen=True)
class Batch:
    """Some hits in order."""

    coords: npt.NDArray[np.int64]
    """A row per hit."""
    values: Mapping[str, npt.NDArray[Any]]
    """By variable, an element per hit."""
    written: Mapping[str, npt.NDArray[np.bool_] | None]
    """By variable, a mask of the written elements; None: all are. Unwritten ones have the fill value."""

    def __len__(self) -> int:
        return len(self.coords)


class Query:
    """The cells of a snapshot that satisfy a condition; made by `Container.query`.

    Nothing is read before a method is called.

    An unwritten cell satisfies no condition. Coordinates are those of the variable, not of the selection, with the
    step first if there are steps.
    """

    def __init__(
        self,
        container: Container,
        condition: expr.Expression,
        handle: QueryHandle,
        selection: Any,
        steps: Any,
    ) -> None:
        self._container = container
        self._condition = condition
        cells = () if selection is None else selection
        numbers, self._order, self._one_step = _steps(handle, steps, container)
        self._handle, shape = handle.within(cells, numbers)
        self._steps = numbers
        self._shape = shape if not handle.has_steps or self._one_step else [len(numbers), *shape]
        self._report: QueryReport | None = None

    @property
    def text(self) -> str:
        """The condition."""
        return self._handle.text

    @property
    def condition(self) -> expr.Expression:
        """The condition as an expression."""
        return self._condition

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the selection, which `mask` has."""
        return tuple(self._shape)

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the columns of `coords`; None if the dimensions have no names."""
        dims = self._handle.dims
        if len(dims) != len(self._handle.grid) or not all(dims):
            return None
        return ("step", *dims) if self._handle.has_steps else dims

    @property
    def names(self) -> list[str]:
        """The names in the condition."""
        return self._handle.names

    @property
    def explain(self) -> QueryPlan:
        """An upper bound of what it reads, and what statistics decide about each condition.

        On a far store, `site` of each of the `terms` says where it is evaluated. The store may be asked whether it runs
        read programs, and a few reads may measure the link; no other value is read.
        """
        return QueryPlan(**_said(self._handle.explain()[1]))

    def explain_rows(self, limit: int = 10_000) -> list[PlanRow]:
        """What each condition costs in each subchunk, and why; from statistics, in the order of steps and cells.

        Args:
            limit: The most rows.

        """
        limit = operator.index(limit)
        if limit < 0:
            raise InvalidArgumentError(f"limit is {limit}: a number of rows is 0 or more")
        rows = self._handle.explain_rows(limit)
        return [
            PlanRow(step, tuple(offset), tuple(shape), term, decided, nbytes, why)
            for step, offset, shape, term, decided, nbytes, why in rows
        ]

    @property
    def report(self) -> QueryReport:
        """The cost of the last answer; zeros before the first."""
        return self._report or QueryReport("nothing was asked yet", 0, 0, 0, 0, 0, 0, ())

    def bounds(self) -> Bounds:
        """The smallest and the greatest possible number of hits, from statistics only."""
        return Bounds(*self._handle.bounds())

    def count(self) -> int:
        """The number of hits."""
        count, report = self._handle.count()
        self._take(report)
        return count

    def boxes(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Boxes, as offset and count, that contain all hits, each with at least one.

        The smallest box around the hits of a stored piece.
        """
        boxes, report = self._handle.boxes()
        self._take(report)
        return [(tuple(offset), tuple(count)) for offset, count in boxes]

    def coords(self) -> npt.NDArray[np.int64]:
        """The hits in C order: an int64 array of shape (hits, ndim)."""
        flat, report = self._handle.coords()
        self._take(report)
        return flat.reshape(-1, self._ndim) if self._ndim else np.empty((self.count(), 0), np.int64)

    def values(self, *names: str | Variable) -> Any:
        """The values of variables at the hits, in the order of `coords`: an array for one name, for several a tuple."""
        paths = [_path(name) for name in names]
        if not paths:
            raise InvalidArgumentError("values takes the names of variables")
        count, columns, report = self._handle.values(paths)
        self._take(report)
        values = [_array(data, (dtype, inner), count) for data, dtype, inner in columns]
        return values[0] if len(values) == 1 else tuple(values)

    def mask(self) -> npt.NDArray[np.bool_]:
        """A bool array of the shape of the selection, True at hits."""
        flat = np.zeros(int(np.prod(self._shape, dtype=np.int64)), np.uint8)
        self._take(self._handle.mask(flat))
        mask = flat.view(np.bool_)
        inner = self._inner_shape()
        if self._handle.has_steps and self._order is not None:
            mask = mask.reshape([len(self._steps), *inner])[self._order]
        return mask.reshape(self._shape)

    def batches(
        self, rows: int = 65536, variables: Iterable[str | Variable] | None = None
    ) -> Iterator[Batch]:
        """The hits in order, at most `rows` at a time, in bounded memory.

        Each batch has the values of `variables`, by default those of the condition.
        """
        names = self._stored() if variables is None else [_path(name) for name in variables]
        rows = operator.index(rows)
        if rows < 1:
            raise InvalidArgumentError(f"rows is {rows}; batches have at least one row")
        return self._batches(names, rows)

    def _batches(self, names: list[str], rows: int) -> Iterator[Batch]:
        handle = self._handle.batches(names)
        elements = handle.elements()
        while (found := handle.next(rows)) is not None:
            self._take(handle.report())
            count, coords, values, written = found
            columns = [_array(data, element, count) for data, element in zip(values, elements, strict=True)]
            masks = [None if mask is None else mask.view(np.bool_) for mask in written]
            yield Batch(
                self._cells(coords, count),
                dict(zip(names, columns, strict=True)),
                dict(zip(names, masks, strict=True)),
            )
        self._take(handle.report())

    @property
    def _ndim(self) -> int:
        return len(self._handle.grid) + self._handle.has_steps

    def _inner_shape(self) -> list[int]:
        return self._handle.extents()[int(self._handle.has_steps) :]

    def _cells(self, coords: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
        return coords.reshape(count, self._ndim)

    def _stored(self) -> list[str]:
        return self._handle.names

    def _take(self, report: Any) -> None:
        self._report = QueryReport(**_said(report))
        if not self._container.closed:
            self._container._warn()  # of an index that was left out

    def __repr__(self) -> str:
        return f"<drystone query {self.text}>"

    def _repr_html_(self) -> str:
        """A summary of the conditions by statistics, and the first hits with the values that the condition names.

        Reads the values of the first hits. If statistics show that this may be much, no hit is shown.
        """
        if self._container.closed:
            return f"<p>{escape(repr(self))} of a closed container</p>"
        plan, bounds = self.explain, self.bounds()
        terms = [
            (term.text, str(term.none), str(term.all), str(term.some), str(term.bytes)) for term in plan.terms
        ]
        found = f"{bounds.low}" if bounds.low == bounds.high else f"{bounds.low} to {bounds.high}"
        shown = html.table(("condition", "no cell of tiles", "all", "some", "bytes at most"), terms)
        shown += f"<p>{found} of {plan.cells} cells by statistics</p>"
        if plan.bytes > _SHOWN_BYTES:
            return html.box(f"query {self.text}", shown)
        names = self._stored()
        first = next(self.batches(rows=_SHOWN, variables=names), None)
        if first is not None:
            columns = [*(self.dims or (f"axis {d}" for d in range(self._ndim))), *names]
            values = [first.values[name] for name in names]
            rows = [
                [*map(str, cell), *(str(column[n]) for column in values)]
                for n, cell in enumerate(first.coords)
            ]
            shown += html.table(columns, rows)
        return html.box(f"query {self.text}", shown)


def make(
    container: Container,
    condition: str | expr.Expression | Variable,
    selection: Any,
    steps: Any,
    over: Iterable[str | Variable],
) -> Query:
    """A query of a container's current snapshot."""
    if isinstance(condition, str):
        tree = expr.parse(condition, container)
    elif isinstance(condition, expr.Operators):
        tree = condition._expression()
    else:
        raise InvalidArgumentError(
            f"a query takes a text or an expression of variables, not {type(condition).__name__}"
        )
    other = tree.container
    if other is not None and other is not container and other.uuid != container.uuid:
        raise InvalidArgumentError(f"the condition is about {other!r}, the query about {container!r}")
    handle = container._handle.query(tree._handle, [_path(name) for name in over])
    return Query(container, tree, handle, selection, steps)


def _path(name: str | Variable) -> str:
    if isinstance(name, str):
        return name.strip("/")
    return name.name if name.member is None else f"{name.name}.{name.member}"


def _array(
    data: npt.NDArray[np.uint8], element: tuple[np.dtype[Any], Sequence[int]], count: int
) -> npt.NDArray[Any]:
    dtype, inner = element
    return data.view(dtype).reshape(count, *inner)


def _said(item: Any) -> dict[str, Any]:
    cells, none, every, some, nbytes, requests, terms, tried, text = item
    tried = [*tried, *[(0, 0)] * (len(terms) - len(tried))]
    found = tuple(Term(*term, *cost) for term, cost in zip(terms, tried, strict=True))
    return {
        "text": text,
        "cells": cells,
        "none": none,
        "all": every,
        "some": some,
        "bytes": nbytes,
        "requests": requests,
        "terms": found,
    }


def _steps(
    handle: QueryHandle, steps: Any, container: Container
) -> tuple[list[int], npt.NDArray[np.int64] | None, bool]:
    """The steps, ascending.

    Also the position of each requested step among them, and whether it is a single step without an axis.
    """
    if not handle.has_steps:
        if steps is not None:
            raise InvalidArgumentError(f"`{handle.text}` is about variables without steps: leave steps= out")
        return [], None, False
    extent = handle.step_axis
    if steps is None:
        return list(range(extent)), None, False
    # An array has `__index__` too, whatever its dimensions.
    single = hasattr(steps, "__index__") and np.ndim(steps) == 0
    if isinstance(steps, slice):
        asked = list(range(*steps.indices(extent)))
    elif single:
        asked = [operator.index(steps)]
    else:
        asked = [operator.index(step) for step in steps]
    asked = [step + extent if step < 0 else step for step in asked]
    for step in asked:
        if not 0 <= step < extent:
            raise OutOfRangeError(f"there is no step {step}: the last one is {extent - 1}")
    order = np.argsort(asked, kind="stable")
    numbers = [asked[n] for n in order]
    if len(set(numbers)) < len(numbers):
        raise InvalidArgumentError("a step is named twice")
    places = np.empty(len(asked), np.int64)
    places[order] = np.arange(len(asked))
    ascends = bool(np.all(places == np.arange(len(asked))))
    return numbers, None if ascends else places, single
