"""Tables of cells: a PyCapsule source for every program that takes Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drystone import _core, expr, html
from drystone.counted import counted
from drystone.errors import InvalidArgumentError, NotFoundError
from drystone.tables import arrow
from drystone.tables.grid import Grid, Stored, is_coordinate, named, stored, widest

if TYPE_CHECKING:
    from drystone.container import Container
    from drystone.query import Query, QueryPlan, QueryReport

ROWS = 65536
"""Rows of a batch."""
STEP = "step"
_SHOWN = 10


class Column:
    """A column: the step, the position along a dimension, or a variable."""

    def __init__(
        self, name: str, dtype: np.dtype[Any], inner: tuple[int, ...], of: Stored | None, axis: int | None
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.inner = inner
        self.stored = of
        """The variable with its values; None for a counted number."""
        self.axis = axis
        """For a position: the column of the coordinates."""

    @property
    def field(self) -> arrow.Field:
        """Its Arrow field."""
        found = arrow.field(self.name, self.dtype, self.inner)
        if found is None:
            raise InvalidArgumentError(
                f'"{self.name}" is {self.dtype}, which Arrow has no type for: leave it out'
            )
        return found


class Table:
    """The cells of a grid as rows; made by `Container.table`.

    It shows one snapshot, and nothing is read before a request.

    It is accepted wherever Arrow tables are: `pyarrow.table(t)`, `polars.DataFrame(t)`, `duckdb.sql("select ... from
    t")`, `pandas.DataFrame.from_arrow(t)`. Every consumer gets its own stream and reads all of it: select rows with
    `where` and columns with `columns`.
    """

    def __init__(
        self,
        container: Container,
        where: Any = None,
        columns: Sequence[str] | None = None,
        selection: Any = None,
        steps: Any = None,
    ) -> None:
        if isinstance(columns, str):
            raise InvalidArgumentError("columns is a list of names")
        self._container = container
        self._where = where
        self._selection, self._steps = selection, steps
        everything = [one for one in stored(container) if arrow.field(one.name, one.dtype, one.inner)]
        dims = {d for one in everything for d in one.dims} | {STEP}
        chosen = None
        if columns is not None:
            known = {one.name for one in everything}
            asked = [name for name in columns if name.strip("/") in known or not self._is_place(name, dims)]
            chosen = [one for one in named(everything, asked) if not is_coordinate(one)]
        over = chosen or ([] if where is not None else [widest(everything)])
        # These variables define the rows, whatever columns and conditions are used.
        self._over = [one.name for one in over if not one.is_text] or [one.name for one in over]
        self._present: list[int] | None = None
        handle = self._query(where)._handle
        shape = tuple(handle.grid)
        names = tuple(handle.dims) if len(handle.dims) == len(shape) else ("",) * len(shape)
        self._grid = Grid(names, shape, handle.has_steps)
        if not self._over:
            self._over = [n for n in handle.names if n.strip("/") in {one.name for one in everything}]
        along = [one for one in everything if one.is_along(names, shape, handle.has_steps)]
        places = self._places(along)
        values = [
            one for one in (along if chosen is None else chosen) if one.name not in {p.name for p in places}
        ]
        coordinates = {p.stored.name for p in places if p.stored}
        every = [
            *places,
            *(
                Column(one.name, one.dtype, one.inner, one, None)
                for one in values
                if one.name not in coordinates
            ),
        ]
        if columns is not None:
            every = self._in_order(every, columns)
        self.columns: tuple[Column, ...] = tuple(every)
        if self._grid.has_steps:
            self._present = self._with_blocks([*values, *(one for one in over if one.has_steps)])
        self._report: QueryReport | None = None
        self._coordinates: dict[str, npt.NDArray[Any]] = {}

    @staticmethod
    def _is_place(name: str, dims: set[str]) -> bool:
        return name in dims or name.startswith("dim_")

    def _places(self, along: Sequence[Stored]) -> list[Column]:
        """The step and the dimensions."""
        counted_ = np.dtype(np.int64)
        steps = int(self._grid.has_steps)
        out = [Column(STEP, counted_, (), None, 0)] if steps else []
        taken = {one.name for one in along if not is_coordinate(one)}
        for axis, dim in enumerate(self._grid.dims):
            name = dim or f"dim_{axis}"
            if name in taken:
                continue
            own = [one for one in along if is_coordinate(one) and one.dims == (dim,)]
            # The nearest coordinate: beside the variables, or at the root.
            folders = {over.rpartition("/")[0] for over in self._over} | {""}
            own = [one for one in own if one.name.rpartition("/")[0] in folders]
            own.sort(key=lambda one: -len(one.name))
            of = own[0] if own else None
            out.append(Column(name, of.dtype if of else counted_, (), of, axis + steps))
        return out

    @staticmethod
    def _in_order(every: Sequence[Column], columns: Sequence[str]) -> list[Column]:
        out: list[Column] = []
        for name in columns:
            path = name.strip("/")
            found = [c for c in every if c.name == path or (c.stored is not None and c.stored.name == path)]
            found = found or [c for c in every if c.name.startswith(f"{path}.")]
            if not found:
                raise NotFoundError(
                    f'there is no column "{name}" along these cells; there are: {", ".join(c.name for c in every)}'
                )
            out.extend(c for c in found if c not in out)
        return out

    def _with_blocks(self, of: Sequence[Stored]) -> list[int] | None:
        """The steps in which one of these variables has a block; None: all committed ones."""
        names = {one.path for one in of if one.has_steps}
        committed = self._container.steps
        found: set[int] = set()
        for name in names:
            found.update(self._container.variables[name].steps)
            if len(found) == len(committed):
                return None
        return sorted(found) if names else None

    def _query(self, where: Any) -> Query:
        condition = "true" if where is None else where
        query = self._container.query(condition, self._selection, self._steps, over=self._over)
        if self._present is None:
            return query
        steps = sorted(set(self._present).intersection(query._steps))
        return self._container.query(condition, self._selection, steps, over=self._over)

    def narrowed(self, where: str | None, names: Sequence[str], steps: Any = None) -> Table:
        """The same table with a further condition, with these columns, or on some steps."""
        other = object.__new__(Table)
        other.__dict__.update(self.__dict__)
        other._report = None
        known = {column.name: column for column in self.columns}
        other.columns = tuple(known[name] for name in names)
        if where is not None:
            other._where = where if self._where is None else self._tree() & expr.parse(where, self._container)
        if steps is not None:
            other._steps = steps
        return other

    def _tree(self) -> expr.Expression:
        if isinstance(self._where, str):
            return expr.parse(self._where, self._container)
        tree: expr.Expression = self._where._expression()
        return tree

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def steps(self) -> list[int] | None:
        """The steps that it covers; None if the rows have no steps."""
        return list(self._query(self._where)._steps) if self._grid.has_steps else None

    def conditions(self) -> Mapping[str, tuple[str, np.dtype[Any]]]:
        """The name of each column in conditions, and its dtype."""
        out = {}
        for column in self.columns:
            of = column.stored
            plain = not column.inner and column.dtype.kind in "biuf" and column.dtype.name != "bfloat16"
            if plain and column.dtype.itemsize > (2 if column.dtype.kind == "f" else 0):
                if of is not None:
                    out[column.name] = of.condition, column.dtype
                elif not column.name.startswith("dim_"):
                    out[column.name] = f"`{column.name.replace('`', '``')}`", column.dtype
        return out

    def count(self) -> int:
        """The number of rows."""
        query = self._query(self._where)
        number = query.count()
        self._report = query.report
        return number

    def bounds(self) -> tuple[int, int]:
        """Bounds of the number of rows; reads no value."""
        low, high = self._query(self._where).bounds()
        return low, high

    @property
    def explain(self) -> QueryPlan:
        """Upper bound of what the condition reads."""
        return self._query(self._where).explain

    @property
    def report(self) -> QueryReport | None:
        """The cost of the last stream so far; None before any."""
        return self._report

    def arrays(self, rows: int = ROWS) -> Iterator[tuple[int, list[tuple[npt.NDArray[Any], Any]]]]:
        """The rows in batches: their number; per column, the values and a mask of the written ones (None: all)."""
        query = self._query(self._where)
        own = {c.stored.name for c in self.columns if c.stored and c.axis is None and not c.stored.is_text}
        for batch in query.batches(rows, sorted(own)):
            self._report = query.report
            yield len(batch), [self._cells(column, batch) for column in self.columns]
        self._report = query.report

    def _cells(self, column: Column, batch: Any) -> tuple[npt.NDArray[Any], Any]:
        of = column.stored
        if column.axis is not None:
            places = batch.coords[:, column.axis]
            return (places if of is None else self._coordinate(of)[places]), None
        assert of is not None
        if of.is_text:
            return self._texts(of, batch.coords), None
        return batch.values[of.name], batch.written[of.name]

    def _texts(self, of: Stored, coords: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The texts of each row; along dimensions that the variable lacks, they repeat."""
        steps = int(self._grid.has_steps)
        named = of.dims and any(self._grid.dims)
        axes = [self._grid.dims.index(dim) for dim in of.dims] if named else range(len(of.shape))
        own = coords[:, [*range(int(of.has_steps)), *(axis + steps for axis in axes)]]
        places, rows = np.unique(own, axis=0, return_inverse=True)
        variable = self._container.variables[of.path]
        texts = (variable if of.member is None else variable[of.member]).read_points(places)
        texts = np.asarray(texts, object)
        return np.asarray(texts[rows.reshape(-1)], object)

    def _coordinate(self, of: Stored) -> npt.NDArray[Any]:
        if of.name not in self._coordinates:
            self._coordinates[of.name] = self._container.variables[of.name][...]
        return self._coordinates[of.name]

    def streams(self, rows: int = ROWS) -> Iterator[Rows]:
        """The rows in batches, each a separate capsule source."""
        fields = [column.field for column in self.columns]
        for number, columns in self.arrays(rows):
            yield Rows(fields, number, [arrow.node(values, written) for values, written in columns])

    def _nodes(self) -> Iterator[tuple[int, list[arrow.Node]]]:
        for number, columns in self.arrays():
            yield number, [arrow.node(values, written) for values, written in columns]

    def __arrow_c_schema__(self) -> Any:
        return _core.arrow_schema([column.field for column in self.columns])

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return _core.arrow_stream([column.field for column in self.columns], self._nodes())

    def __repr__(self) -> str:
        where = "" if self._where is None else f" where {getattr(self._where, 'text', self._where)}"
        return f"<drystone table of {', '.join(self.names)}{where}>"

    def _repr_html_(self) -> str:
        number, columns = next(self.arrays(_SHOWN), (0, []))
        rows = []
        for n in range(number):
            rows.append(
                [
                    "null" if written is not None and not written[n] else _shown(values[n])
                    for values, written in columns
                ]
            )
        low, high = self.bounds()
        size = counted(low, "row") if low == high else f"{low} to {high} rows"
        title = f"{size}, {counted(len(self.columns), 'column')}"
        header = [f"{c.name} ({'str' if c.dtype.kind == 'O' else c.dtype})" for c in self.columns]
        return html.box(title, html.table(header, rows))


class Rows:
    """Some rows of a table: a capsule source."""

    def __init__(self, fields: list[arrow.Field], number: int, nodes: list[arrow.Node]) -> None:
        self._fields = fields
        self._batch = number, nodes

    def __arrow_c_schema__(self) -> Any:
        return _core.arrow_schema(self._fields)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return _core.arrow_stream(self._fields, iter([self._batch]))


def _shown(value: Any) -> str:
    if isinstance(value, np.floating):
        return f"{value:.6g}"
    return str(value)[:60]
