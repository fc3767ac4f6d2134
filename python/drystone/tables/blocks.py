"""Tables of blocks: the statistics of every block of some variables. No value is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone import _core, html
from drystone.counted import counted
from drystone.errors import InvalidArgumentError
from drystone.tables import arrow

if TYPE_CHECKING:
    from drystone.container import Container
    from drystone.variable import Variable

_ROWS = 4096
_SHOWN = 10


class Blocks:
    """A row per block: variable, step, covered cells, statistics and bytes. Made by `Container.table(of="blocks")`.

    `min` and `max` are floats; those of 64-bit integers are rounded outwards. They describe what was put, including
    cells that later blocks hide.
    """

    def __init__(self, container: Container, columns: Sequence[str] | None = None) -> None:
        names = list(container.variables) if columns is None else list(columns)
        found = [container.variables[name] for name in names]
        self._variables = [v for v in found if v.member is None and not v.local]
        if not self._variables:
            raise InvalidArgumentError("there is no variable whose blocks a table could have")
        self._axes = max((len(v.shape) - v.has_steps for v in self._variables), default=0)
        same = {v.dims for v in self._variables if v.dims}
        dims = next(iter(same)) if len(same) == 1 else ()
        self._dims = [*dims, *(f"dim_{n}" for n in range(len(dims), self._axes))]

    @property
    def fields(self) -> list[arrow.Field]:
        """The columns."""
        whole: list[arrow.Field] = [("variable", "U", []), ("step", "l", [])]
        for dim in self._dims:
            whole += [(f"{dim}_start", "l", []), (f"{dim}_stop", "l", [])]
        return [
            *whole,
            *((name, "g", []) for name in ("min", "max")),
            *((name, "l", []) for name in ("nans", "cells", "nbytes", "commit")),
            ("transform", "U", []),
        ]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _, _ in self.fields]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows; None is null."""
        for v in self._variables:
            for step in self._container_steps(v):
                for block in v.blocks(step) if step is not None else v.blocks():
                    cells: list[int | None] = []
                    for offset, count in zip(block.offset, block.shape, strict=True):
                        cells += [offset, offset + count]
                    cells += [None] * (2 * self._axes - len(cells))
                    low, high = _outwards(block.min, -math.inf), _outwards(block.max, math.inf)
                    size = math.prod(block.shape)
                    yield (
                        v.name,
                        step,
                        *cells,
                        low,
                        high,
                        block.nans,
                        size,
                        block.nbytes,
                        block.commit,
                        block.transform,
                    )

    @staticmethod
    def _container_steps(v: Variable) -> Sequence[int | None]:
        return v.container.steps if v.has_steps else [None]

    def _nodes(self) -> Iterator[tuple[int, list[arrow.Node]]]:
        rows: list[tuple[Any, ...]] = []
        for row in self.rows():
            rows.append(row)
            if len(rows) == _ROWS:
                yield len(rows), self._columns(rows)
                rows = []
        if rows:
            yield len(rows), self._columns(rows)

    def _columns(self, rows: Sequence[tuple[Any, ...]]) -> list[arrow.Node]:
        out = []
        for n, (_, form, _) in enumerate(self.fields):
            column = [row[n] for row in rows]
            there = np.array([value is not None for value in column])
            dtype, nothing = {"U": (object, ""), "g": (np.float64, 0.0)}.get(form, (np.int64, 0))
            values = np.array([nothing if value is None else value for value in column], dtype)
            out.append(arrow.node(values, None if there.all() else there))
        return out

    def __arrow_c_schema__(self) -> Any:
        return _core.arrow_schema(self.fields)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return _core.arrow_stream(self.fields, self._nodes())

    def __repr__(self) -> str:
        return f"<drystone table of the blocks of {', '.join(v.name for v in self._variables)}>"

    def _repr_html_(self) -> str:
        rows: list[list[str]] = []
        for row in self.rows():
            if len(rows) == _SHOWN:
                break
            rows.append(["null" if cell is None else str(cell) for cell in row])
        title = f"blocks of {counted(len(self._variables), 'variable')}"
        return html.box(title, html.table(self.names, rows))


def _outwards(value: Any, towards: float) -> float | None:
    """The value as a float, rounded to that side."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = (
            None if np.isnat(value) else int(value.astype("i8"))
        )  # as they are stored: numbers of their unit
    if value is None:
        return None
    near = float(value)
    beyond = near > value if towards < 0 else near < value
    exact = value.item() if hasattr(value, "item") else value
    if isinstance(exact, int):
        beyond = int(near) > exact if towards < 0 else int(near) < exact
    return math.nextafter(near, towards) if beyond else near
