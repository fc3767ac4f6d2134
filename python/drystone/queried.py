"""Queries about the values of a container, and tables of cells for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from drystone.errors import InvalidArgumentError
from drystone.group import Group

if TYPE_CHECKING:
    from polars import LazyFrame

    from drystone.expr import Expression
    from drystone.query import Query
    from drystone.tables import Blocks, Table
    from drystone.tables.dataset import CellDataset
    from drystone.variable import Variable


class Queried(Group):
    """The part of a container with queries and tables."""

    def query(
        self,
        condition: str | Expression | Variable,
        selection: Any = None,
        steps: SupportsIndex | slice | Iterable[SupportsIndex] | None = None,
        *,
        over: Iterable[str | Variable] = (),
    ) -> Query:
        """The cells of the current snapshot that satisfy a condition.

        Nothing is read before a method of the query is called.

        An unwritten cell satisfies no condition; NaN satisfies only `isnan` and `!=`. Variables are matched by the
        names of their dimensions, or by equal shapes. See docs/guide/queries.md.

        Args:
            condition: A text such as `"p > 3e-5 & abs(u) < 1"`, or an expression of variables such as `c["p"] > 3e-5`.
            selection: Integers and slices as in indexing, for the axes after the step; by default all cells.
            steps: A step number, a slice of them or a list; by default all.
            over: Further variables whose axes belong to the cells, though the condition may not name them.

        """
        from drystone import query

        self._container._settle()
        return query.make(self._container, condition, selection, steps, over)

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
        """Cells as rows, for programs that take Arrow tables: DuckDB, Polars, pandas, pyarrow and others.

        Nothing is read yet.

        Args:
            where: Rows are the cells that satisfy this condition, as in `query`; by default all.
            columns: Names of variables, members (`P.x`), dimensions and `step`, in the order of the columns; by
                default those of one grid.
            selection: As in `query`.
            steps: As in `query`.
            of: `"blocks"` returns a row per block of variables, with its statistics.

        """
        from drystone.tables import Blocks, Table

        self._container._settle()
        if of == "cells":
            return Table(
                self._container.at(self._container.snapshot.version), where, columns, selection, steps
            )
        if of != "blocks":
            raise InvalidArgumentError(f'of is "cells" or "blocks", not {of!r:.40}')
        if where is not None or selection is not None or steps is not None:
            raise InvalidArgumentError("a table of blocks has no condition, selection or steps")
        return Blocks(self._container.at(self._container.snapshot.version), columns)

    def dataset(
        self,
        where: str | Expression | Variable | None = None,
        columns: Sequence[str] | None = None,
        *,
        selection: Any = None,
        steps: SupportsIndex | slice | Iterable[SupportsIndex] | None = None,
        nan: Literal["arrow", "greatest"] | None = None,
    ) -> CellDataset:
        """The table of cells as a pyarrow dataset.

        It takes columns and filters from DuckDB, DataFusion, Dask and pyarrow.

        Args:
            where: As in `table`; it applies in addition to pushed-down conditions.
            columns: As in `table`.
            selection: As in `query`.
            steps: As in `query`.
            nan: How filters compare with NaN: `"greatest"` above all numbers, as engines do, `"arrow"` as IEEE; by
                default the first for engines that ask for a scanner, the second for `to_table(filter=...)` and
                other calls of the dataset itself.

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
        """The table of cells as a lazy frame of Polars, which pushes columns, conditions and limits down.

        Arguments are those of `table`.
        """
        from drystone.tables import polars

        frame: LazyFrame = polars.scan(self.table(where, columns, selection=selection, steps=steps))
        return frame
