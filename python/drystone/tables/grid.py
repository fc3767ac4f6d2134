"""The grid whose cells are the rows of a table, and the possible columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone.described import obstacle
from drystone.errors import InvalidArgumentError, NotFoundError
from drystone.lists import ragged_element

if TYPE_CHECKING:
    from drystone.container import Container


@dataclass(frozen=True)
class Stored:
    """A variable, or a member of its records, that can be a column."""

    name: str
    """Its name, `P.x` for a member."""
    condition: str
    """Its name in conditions, with quotes."""
    dtype: np.dtype[Any]
    inner: tuple[int, ...]
    """The shape of one element."""
    shape: tuple[int, ...]
    """Extents without the step axis."""
    dims: tuple[str, ...]
    """Names of the dimensions; empty if they have none."""
    has_steps: bool
    is_text: bool
    """Whether it holds strings of any length, which are read by their coordinates."""
    path: str
    member: str | None

    def is_along(self, dims: tuple[str, ...], shape: tuple[int, ...], steps: bool) -> bool:
        """Whether it has a value for each cell of a grid."""
        if self.has_steps and not steps:
            return False
        if not self.dims or not any(dims):
            return self.shape == shape
        extents = dict(zip(dims, shape, strict=True))
        return all(extents.get(d) == n for d, n in zip(self.dims, self.shape, strict=True))


@dataclass(frozen=True)
class Grid:
    """The cells of variables with one shape."""

    dims: tuple[str, ...]
    """Names of the dimensions; empty texts if they have none."""
    shape: tuple[int, ...]
    has_steps: bool


def stored(c: Container) -> Iterator[Stored]:
    """Everything that can be a column."""
    for path in c.variables:
        v = c.variables[path]
        reading = v._reading()
        if reading.local or ragged_element(reading.element) is not None or obstacle(c, path):
            continue
        steps = int(reading.has_steps)
        shape, dims = tuple(reading.shape[steps:]), tuple(reading.dims or ())
        element = reading.element
        for names, dtype, inner in _members(element):
            if dtype.kind == "O" and (inner or ragged_element(dtype) is not None):
                continue  # a column has one text in each row
            yield Stored(
                ".".join([path, *names]),
                ".".join(_quoted(part) for part in (path, *names)),
                dtype,
                inner,
                shape,
                dims,
                bool(steps),
                dtype.kind == "O",
                path,
                ".".join(names) or None,
            )


def _quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


def _members(
    dtype: np.dtype[Any], inner: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[str, ...], np.dtype[Any], tuple[int, ...]]]:
    """The numbers and texts in an element; members of arrays of records have no names."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        yield from _members(base, (*inner, *shape))
    elif dtype.names is None:
        yield (), dtype, inner
    elif not inner:
        for name in dtype.names:
            for names, leaf, shape in _members(dtype.fields[name][0]):  # type: ignore[index]
                yield (name, *names), leaf, shape


def is_coordinate(one: Stored) -> bool:
    """Whether it is a coordinate: it has one dimension, with its own name."""
    return one.dims == (one.name.rpartition("/")[2],) and not one.inner and not one.has_steps


def named(all_: list[Stored], names: Iterable[str]) -> list[Stored]:
    """The columns with these names; a record's name means all of its members."""
    known = {one.name: one for one in all_}
    out = []
    for name in names:
        path = name.strip("/")
        members = [one for one in all_ if one.name.startswith(f"{path}.")]
        if path in known:
            out.append(known[path])
        elif members:
            out.extend(members)
        else:
            raise NotFoundError(f'there is no column "{name}"; there are: {", ".join(sorted(known)[:20])}')
    return out


def widest(all_: list[Stored]) -> Stored:
    """The variable that defines the rows by default: all others must vary along its axes."""
    candidates = [one for one in all_ if not is_coordinate(one)] or all_
    if not candidates:
        raise InvalidArgumentError("there is no variable to make a table of")
    best = max(candidates, key=lambda one: (len(one.shape), one.has_steps))
    others = [
        one
        for one in candidates
        if not one.is_along(best.dims or ("",) * len(best.shape), best.shape, best.has_steps)
    ]
    if others:
        raise InvalidArgumentError(
            f'"{best.name}" and "{others[0].name}" have different cells: a table is about one grid; name columns of one, or give a condition'
        )
    return best
