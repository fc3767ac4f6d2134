"""Meshes: variables of a container with the same axes, which visualization programs show together.

Variables on a mesh share their axes: names, lengths, and coordinates. The last three axes are those of the mesh; axes
before them, except the step axis, are *outer* axes, of which a program shows one cell. Each numeric member of a record
is a field; a member's inner axes are components of a vector. The cells of a mesh with one axis are particles if some
of its fields are their positions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.container import Container
from drystone.coordinates import axis_names, coordinate
from drystone.errors import InvalidArgumentError
from drystone.interchange.formats.bfloat16 import is_bfloat16
from drystone.variable import Variable

_MOST_COORDINATES = 1 << 24
_MOST_COMPONENTS = 9
_POSITIONS = ("position", "positions", "pos", "coordinates", "coords", "xyz")


@dataclass(frozen=True)
class Field:
    """A variable, or a member of one, on a mesh."""

    variable: str
    member: str | None
    components: int
    outer: tuple[tuple[str, int], ...] = ()
    """Name and length of each outer axis."""

    @property
    def name(self) -> str:
        """Its name in lists of fields."""
        return self.variable if self.member is None else f"{self.variable}.{self.member}"

    def of(self, c: Container) -> Variable:
        """The variable, or the member of it."""
        found = c.variables[self.variable]
        for part in self.member.split(".") if self.member else ():
            found = found[part]
        return found


@dataclass(frozen=True)
class Mesh:
    """Axes, slowest first, and the fields on them."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coordinates: tuple[npt.NDArray[np.float64] | None, ...] = field(compare=False)
    """The coordinates along each axis, strictly monotone; None if there are none."""
    fields: tuple[Field, ...] = ()

    @property
    def name(self) -> str:
        """Its name, such as `z, y, x: 6 x 40 x 60`."""
        return f"{', '.join(self.dims)}: {' x '.join(map(str, self.shape))}"

    def along(self, axis: int) -> npt.NDArray[np.float64]:
        """The coordinates along an axis; cell numbers if there are none."""
        known = self.coordinates[axis]
        return np.arange(self.shape[axis], dtype="f8") if known is None else known

    def spacing(self) -> list[tuple[float, float]] | None:
        """First coordinate and spacing along each axis, if all are even to a millionth of the spacing; else None."""
        found = []
        for axis, n in enumerate(self.shape):
            values = self.along(axis)
            distance = float(values[-1] - values[0]) / (n - 1) if n > 1 else 1.0
            even = values[0] + distance * np.arange(n)
            if np.abs(values - even).max(initial=0) > 1e-6 * abs(distance):
                return None
            found.append((float(values[0]), distance))
        return found


def meshes(c: Container) -> tuple[list[Mesh], list[str]]:
    """The meshes of a container, larger ones first, and variables on no mesh, each with the reason."""
    by_axes: dict[tuple[Any, ...], list[Field]] = {}
    coordinates: dict[tuple[Any, ...], tuple[npt.NDArray[np.float64] | None, ...]] = {}
    left_out = []
    for name in sorted(c.variables):
        v = c.variables[name]
        own = 1 if v.has_steps else 0
        dims, shape = tuple(axis_names(v)[own:]), tuple(v.shape[own:])
        if reason := _unfit(v, dims, shape):
            left_out.append(f"{name} ({reason})")
            continue
        outer = tuple(zip(dims[:-3], shape[:-3], strict=True))
        dims, shape = dims[-3:], shape[-3:]
        found = list(_fields(v, outer))
        if not found:
            left_out.append(f"{name} (it holds no numbers)")
            continue
        along = tuple(_coordinates(c, name, dim, n) for dim, n in zip(dims, shape, strict=True))
        key = (dims, shape, tuple(None if one is None else one.tobytes() for one in along))
        by_axes.setdefault(key, []).extend(found)
        coordinates[key] = along
    out = [Mesh(key[0], key[1], coordinates[key], tuple(fields)) for key, fields in by_axes.items()]
    out.sort(key=lambda mesh: (-len(mesh.shape), -int(np.prod(mesh.shape)), mesh.dims))
    return out, left_out


def mesh_named(found: list[Mesh], name: str | None) -> Mesh:
    """The mesh of this name; the first one if no name is given."""
    if not found:
        raise InvalidArgumentError("no variable of the container has axes and holds numbers")
    if not name:
        return found[0]
    for mesh in found:
        if mesh.name == name:
            return mesh
    raise InvalidArgumentError(
        f"there is no mesh {name!r}; there are: {'; '.join(one.name for one in found)}"
    )


def positions(mesh: Mesh, named: str | None = None) -> tuple[Field, ...] | None:
    """The fields with the positions of particles, for a mesh with one axis; None if its cells are not particles.

    Args:
        mesh: The mesh.
        named: Names of fields, separated by commas, with two or three components together. By default a vector of three
            components that is called `position`, `pos`, `coordinates` or the like, else fields called `x`, `y` and
            perhaps `z` after a common prefix, such as `gas.x`.

    Raises:
        InvalidArgumentError: A named field does not exist, or is not a position.

    """
    fields = {one.name: one for one in mesh.fields}
    if named:
        names = [name.strip() for name in named.split(",")]
        unknown = [name for name in names if name not in fields]
        if unknown or len(mesh.shape) != 1:
            why = f"it has no {unknown[0]}; it has {', '.join(fields)}" if unknown else "it has several axes"
            raise InvalidArgumentError(f"{named!r} are not positions on the mesh {mesh.name!r}: {why}")
        found = tuple(fields[name] for name in names)
        if sum(one.components for one in found) not in (2, 3):
            raise InvalidArgumentError(
                f"positions have two or three components, and {named!r} have {sum(one.components for one in found)}"
            )
        return found
    if len(mesh.shape) != 1:
        return None
    for one in mesh.fields:
        if one.components == 3 and re.split(r"[/.]", one.name)[-1].lower() in _POSITIONS:
            return (one,)
    for name in sorted(fields, key=lambda name: (len(name), name)):
        names = [name[:-1] + letter for letter in "xyz"]
        is_first = re.fullmatch(r"(.*[/._])?x", name) is not None
        there = [fields[one] for one in names if one in fields and fields[one].components == 1]
        if is_first and [one.name for one in there] in (names, names[:2]):
            return tuple(there)
    return None


def times(c: Container, fields: tuple[Field, ...]) -> tuple[list[int], list[float]]:
    """The steps in which any of these fields has data, and the time of each.

    The time is the coordinate of the step if coordinates ascend, otherwise its number.
    """
    variables = [v for one in fields if (v := c.variables[one.variable]).has_steps]
    steps = sorted({step for v in variables for step in v.steps})
    for v in variables:
        found = coordinate(c, v.name, axis_names(v)[0], _MOST_COORDINATES)
        if found is None or found.times is not None or not steps or steps[-1] >= len(found.values):
            continue
        values = found.values.astype("f8")[steps]
        if np.isfinite(values).all() and (np.diff(values) > 0).all():
            return steps, [float(one) for one in values]
    return steps, [float(step) for step in steps]


def _unfit(v: Variable, dims: tuple[str, ...], shape: tuple[int, ...]) -> str | None:
    if v.local:
        return "a local variable has no one array"
    inner = len(v._reading().inner)
    if inner:
        return "each of its cells is an array"
    if not shape:
        return "it has no axes"
    if 0 in shape:
        return "it is empty"
    if len(dims) == 1 and not v.has_steps and v.name.rpartition("/")[2] == dims[0]:
        return "it is a coordinate"
    return None


def _fields(v: Variable, outer: tuple[tuple[str, int], ...]) -> list[Field]:
    found = []
    for path, dtype in _leaves(v.dtype) if v.dtype.names else [(None, v.dtype)]:
        base, inner = dtype.base, int(np.prod(dtype.shape, dtype=np.int64))
        if (base.kind in "biufc" or is_bfloat16(base)) and inner <= _MOST_COMPONENTS:
            found.append(Field(v.name, path, inner * (2 if base.kind == "c" else 1), outer))
    return found


def _leaves(dtype: np.dtype[Any], above: str = "") -> list[tuple[str, np.dtype[Any]]]:
    found: list[tuple[str, np.dtype[Any]]] = []
    for name in dtype.names or ():
        path = f"{above}.{name}" if above else name
        member = dtype[name]
        found.extend(_leaves(member, path) if member.names else [(path, member)])
    return found


def _coordinates(c: Container, path: str, dim: str, n: int) -> npt.NDArray[np.float64] | None:
    found = coordinate(c, path, dim, _MOST_COORDINATES)
    if found is None or found.times is not None or len(found.values) != n:
        return None
    values = np.asarray(found.values, "f8")
    steps = np.diff(values)
    if not np.isfinite(values).all() or not ((steps > 0).all() or (steps < 0).all()):
        return None
    return values
