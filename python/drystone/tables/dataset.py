"""Tables as pyarrow datasets: engines push columns and conditions down, and the container's statistics limit the read.

A pushed-down filter becomes a condition of a query. If the condition cannot express all of it, it limits the read, and
pyarrow applies the whole filter to the resulting rows: a filter that is not understood costs bytes and never a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from drystone.errors import InvalidArgumentError, UnsupportedError
from drystone.tables import filters, substrait
from drystone.tables.table import Table

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as pads
except ModuleNotFoundError:
    raise UnsupportedError("a dataset needs the package pyarrow: pip install pyarrow") from None

if TYPE_CHECKING:
    from drystone.query import QueryReport

    _Order = Literal["arrow", "greatest"]


_DEEPEST = 12
"""The deepest filters that are pushed down."""


class CellDataset(pads.Dataset):  # type: ignore[misc]
    """The cells of a grid as a pyarrow dataset; made by `Container.dataset`.

    Engines request a scanner with columns and a filter; it uses the engines' order, in which NaN is greater than all
    numbers. Calls of the dataset itself, such as `to_table(filter=...)`, use pyarrow's, in which a comparison with NaN
    is false. `nan="arrow"` or `"greatest"` selects one for both.
    """

    def __init__(self, table: Table, nan: _Order | None = None) -> None:
        if nan not in (None, "arrow", "greatest"):
            raise InvalidArgumentError(f'nan is "arrow" or "greatest", not {nan!r:.40}')
        self._table = table
        self._nan = nan
        self._schema = pa.schema(table)
        self._last: Table | None = None

    @property
    def schema(self) -> Any:
        """The columns."""
        return self._schema

    @property
    def partition_expression(self) -> Any:
        """The guarantee about all rows: none."""
        return pc.scalar(True)

    @property
    def report(self) -> QueryReport | None:
        """The cost of the last scan so far."""
        return None if self._last is None else self._last.report

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """A scanner of the rows that satisfy a filter; `columns` are names, or expressions by name."""
        return self._scan(columns, filter, self._nan or "greatest", options)

    def _scan(self, columns: Any, filter_: Any, order: _Order, options: dict[str, Any]) -> Any:
        needed = set(self._schema.names) if columns is None or isinstance(columns, dict) else set(columns)
        table, exact = self._pushed(needed, filter_, order)
        return self._scanner(table, columns, exact, options)

    def _scanner(self, table: Table, columns: Any, exact: Any, options: dict[str, Any]) -> Any:
        self._last = table
        kept = {
            name: options[name] for name in ("batch_size", "use_threads", "memory_pool") if name in options
        }
        reader = pa.RecordBatchReader.from_stream(table)
        return pads.Scanner.from_batches(reader, columns=columns, filter=exact, **kept)

    def _pushed(self, needed: set[str], filter_: Any, order: _Order) -> tuple[Table, Any]:
        """The table to read for these columns, and the filter to apply to its rows."""
        if filter_ is None:
            return self._table.narrowed(None, [n for n in self._schema.names if n in needed]), None
        condition = self._decoded(filter_)
        names = self._table.conditions()
        exact = filter_
        if order == "greatest":
            condition = filters.greatest_nan(condition, names)
            rewritten = filters.expression(condition, self._schema)
            exact = filter_ if rewritten is None else rewritten
        used = _columns(condition)
        with_used = set(self._schema.names) if used is None else needed | used
        said = filters.text(condition, names, hashed=order == "arrow")
        if said is None:
            return self._table.narrowed(None, self._in_order(with_used)), exact
        where, is_all = said
        # The query expresses the whole filter: its columns are not needed again.
        if is_all:
            return self._table.narrowed(where, self._in_order(needed)), None
        return self._table.narrowed(where, self._in_order(with_used)), exact

    def _in_order(self, names: set[str]) -> list[str]:
        return [name for name in self._schema.names if name in names]

    def _decoded(self, filter_: Any) -> filters.Condition:
        # The length of the Substrait form doubles with each level, in pyarrow 26.
        if _depth(filter_) > _DEEPEST:
            return filters.Unknown()
        # Texts and lists have no form in conditions; a filter of such a column is not understood.
        known = self._table.conditions()
        plain = pa.schema(
            [field for field in self._schema if field.name in known or pa.types.is_timestamp(field.type)]
        )
        for schema in (plain, _wide(plain)):
            try:
                encoded = bytes(filter_.to_substrait(schema))
            except (pa.ArrowException, ValueError, NotImplementedError):
                continue
            return substrait.condition(encoded, plain.names)
        return filters.Unknown()

    def get_fragments(self, filter: Any = None) -> Iterator[CellFragment]:
        """A fragment per step, or one. Fragments in which no row satisfies the filter, by statistics, are left out."""
        steps = self._table.steps
        if steps is None:
            yield CellFragment(self, None)
            return
        for step in steps:
            fragment = CellFragment(self, step)
            if filter is None or fragment._may_have(filter):
                yield fragment

    def _of_step(self, step: int | None) -> CellDataset:
        if step is None:
            return self
        return CellDataset(self._table.narrowed(None, self._table.names, steps=[step]), self._nan)

    def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """All rows that satisfy a filter, in pyarrow's order of NaN."""
        return self._scan(columns, filter, self._nan or "arrow", options).to_table()

    def to_batches(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """The same in batches."""
        return self._scan(columns, filter, self._nan or "arrow", options).to_batches()

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        """The number of rows that satisfy a filter, in pyarrow's order of NaN."""
        table, exact = self._pushed(set(), filter, self._nan or "arrow")
        if exact is None:
            self._last = table
            return table.count()
        found: int = self._scanner(table, table.names, exact, options).count_rows()
        return found

    def head(self, num_rows: int, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """The first rows."""
        return self._scan(columns, filter, self._nan or "arrow", options).head(num_rows)

    def take(self, indices: Any, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Rows by their numbers."""
        return self._scan(columns, filter, self._nan or "arrow", options).take(pa.array(indices))

    def filter(self, expression: Any) -> Any:
        """The rows that satisfy a filter, in pyarrow's order of NaN, in memory."""
        return pads.InMemoryDataset(self.to_table(filter=expression))

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """All rows in another order, in memory."""
        return self._in_memory().sort_by(sorting, **options)

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """All rows joined with those of another dataset, in memory."""
        return self._in_memory().join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """All rows joined with the nearest ones of another dataset, in memory."""
        return self._in_memory().join_asof(_in_memory(right_dataset), *arguments, **options)

    def _in_memory(self) -> Any:
        return pads.InMemoryDataset(self.to_table())

    def replace_schema(self, schema: Any) -> CellDataset:
        """The same dataset: its schema is that of the container."""
        if schema != self._schema:
            raise InvalidArgumentError("the schema of cells is the container's: cast what was read")
        return self

    def __repr__(self) -> str:
        return f"<drystone dataset of {self._table!r}>"

    def __reduce__(self) -> Any:
        return _again, (self._table, self._nan)


def _in_memory(dataset: Any) -> Any:
    return dataset._in_memory() if isinstance(dataset, CellDataset) else dataset


def _again(table: Table, nan: _Order | None) -> CellDataset:
    return CellDataset(table, nan)


class CellFragment:
    """The cells of one step, as a dataset fragment."""

    def __init__(self, dataset: CellDataset, step: int | None) -> None:
        self._dataset = dataset._of_step(step)
        self.step = step

    @property
    def physical_schema(self) -> Any:
        """The columns."""
        return self._dataset.schema

    @property
    def partition_expression(self) -> Any:
        """The guarantee about all rows: none."""
        return self._dataset.partition_expression

    def _may_have(self, filter_: Any) -> bool:
        table, _ = self._dataset._pushed(set(), filter_, "greatest")
        return table.bounds()[1] > 0

    def scanner(self, schema: Any = None, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """As in the dataset."""
        return self._dataset.scanner(columns, filter, **options)

    def to_table(self, schema: Any = None, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """As in the dataset."""
        return self._dataset.to_table(columns, filter, **options)

    def to_batches(self, schema: Any = None, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """As in the dataset."""
        return self._dataset.to_batches(columns, filter, **options)

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        """As in the dataset."""
        return self._dataset.count_rows(filter, **options)


def _depth(filter_: Any) -> int:
    """How deep calls are nested in a filter."""
    depth = deepest = 0
    for sign in re.findall(r'"(?:[^"\\]|\\.)*"|[()]', str(filter_)):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        deepest = max(deepest, depth)
    return deepest


def _wide(schema: Any) -> Any:
    """The same columns with the widest types of their kinds, so that any constant fits without a cast."""
    wide = []
    for field in schema:
        of = field.type
        if pa.types.is_floating(of):
            of = pa.float64()
        elif pa.types.is_integer(of) and of != pa.uint64():
            of = pa.int64()
        elif pa.types.is_timestamp(of):
            of = pa.timestamp("us")
        wide.append(pa.field(field.name, of))
    return pa.schema(wide)


def _columns(condition: filters.Condition) -> set[str] | None:
    """The columns of a condition; None if some are unknown."""
    if isinstance(condition, filters.Unknown):
        return None
    if isinstance(condition, filters.Not):
        return _columns(condition.of)
    if isinstance(condition, filters.Always):
        return set()
    if isinstance(condition, filters.Pair):
        return {condition.left, condition.right}
    if isinstance(condition, filters.Joined | filters.Truths):
        out: set[str] = set()
        both = condition.parts if isinstance(condition, filters.Joined) else (condition.left, condition.right)
        for part in both:
            found = _columns(part)
            if found is None:
                return None
            out |= found
        return out
    return {condition.column}
