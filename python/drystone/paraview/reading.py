"""Requests of visualization programs: meshes, times, and boxes of fields at a precision. Does not need VTK.

Extents are those of VTK: first and last point along x, y and z, where x is the fastest axis of the array. With `every`
= n, an extent counts every n-th point.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

import drystone
from drystone.errors import InvalidArgumentError, NotFoundError
from drystone.interchange.formats.bfloat16 import is_bfloat16
from drystone.meshes import Field, Mesh, mesh_named, meshes, positions, times
from drystone.view.pictures import missing

Extent = tuple[int, int, int, int, int, int]


class Reading:
    """An open container and its selected mesh.

    Args:
        path: A container's folder or URL, or the `drystone.json` in it, which file dialogs can choose.
        mesh: The name of a mesh; the largest where none is given.
        every: Read every n-th point along each axis.
        max_error: No value is off by more from what was written; 0 reads values as they are stored.
        relative: `max_error` is a part of the magnitude of each value.
        points: Fields that say where particles are, as of `drystone.meshes.positions`; found by name where none is
            given, and a mesh of one axis is a line where `"none"` is.
        at: Which cell of each outer axis is shown, as in `"species=2, level=0"`; 0 of those that are not named.

    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mesh: str | None = None,
        every: int = 1,
        max_error: float = 0.0,
        relative: bool = False,
        points: str | None = None,
        at: str | None = None,
    ) -> None:
        if every < 1:
            raise InvalidArgumentError(f"every {every}th point cannot be read: it is 1 for all of them")
        if not max_error >= 0:
            raise InvalidArgumentError(f"max_error is {max_error}; it is 0 or a positive number")
        self.container = drystone.open(container_of(path))
        try:
            self.meshes, self.left_out = meshes(self.container)
            self.mesh = mesh_named(self.meshes, mesh)
            self.points = None if points == "none" else positions(self.mesh, points)
            self.at = _cells(at, self.mesh)
        except Exception:
            self.container.close()
            raise
        self.every, self.max_error, self.relative = every, max_error, relative
        self.steps, self.times = times(self.container, self.mesh.fields)

    def close(self) -> None:
        """Close the container."""
        self.container.close()

    @property
    def extent(self) -> Extent:
        """The extent of the whole mesh, with every n-th point."""
        ends = [(n - 1) // self.every for n in reversed(self.mesh.shape)]
        x, y, z = (*ends, 0, 0)[:3]
        return (0, x, 0, y, 0, z)

    def step_at(self, time: float | None) -> int | None:
        """The last step whose time is not later; the first step if there is none."""
        if not self.steps:
            return None
        if time is None:
            return self.steps[0]
        at = int(np.searchsorted(np.asarray(self.times), time, side="right")) - 1
        return self.steps[max(at, 0)]

    def flipped(self, axis: int) -> bool:
        """Whether an axis is reversed: programs need ascending coordinates."""
        values = self.mesh.coordinates[axis]
        return values is not None and len(values) > 1 and bool(values[0] > values[-1])

    def along(self, axis: int) -> npt.NDArray[np.float64]:
        """The coordinates of every n-th point along an axis, ascending."""
        values = self.mesh.along(axis)[:: self.every]
        return values[::-1] if self.flipped(axis) else values

    def spacing(self) -> list[tuple[float, float]] | None:
        """Origin and spacing along each axis, if they are even: then the mesh is an image."""
        found = self.mesh.spacing()
        if found is None:
            return None
        return [
            (float(self.along(axis)[0]), abs(distance) * self.every)
            for axis, (_, distance) in enumerate(found)
        ]

    def read(self, field: Field, step: int | None, extent: Extent) -> npt.NDArray[Any]:
        """The points of an extent, in the order of VTK: shape `(points,)`, or `(points, components)`.

        Missing floats are NaN, and so is a step without committed values. bool is uint8, float16
        and bfloat16 are float32, complex numbers have two components.
        """
        return self._read(field, step, self._box(extent))

    def particles(self, piece: int, pieces: int) -> slice:
        """The particles of one of several pieces, every n-th of all."""
        count = -(-self.mesh.shape[0] // self.every)
        first, last = (count * one // pieces for one in (piece, piece + 1))
        return slice(first * self.every, last * self.every, self.every)

    def read_particles(
        self, fields: list[Field], step: int | None, cells: slice
    ) -> tuple[npt.NDArray[np.float64], list[npt.NDArray[Any]]]:
        """The positions of particles, shape `(particles, 3)`, and the values of fields for them.

        Particles with a missing coordinate are left out.
        """
        parts = [self._read(one, step, (cells,)) for one in self.points or ()]
        columns = [part.reshape(len(part), -1).astype("f8") for part in parts]
        where = np.concatenate(columns, axis=1) if columns else np.empty((0, 0))
        where = np.pad(where, ((0, 0), (0, 3 - where.shape[1])))
        known = np.isfinite(where).all(axis=1)
        values = [self._read(one, step, (cells,)) for one in fields]
        if known.all():
            return where, values
        return where[known], [one[known] for one in values]

    def _read(self, field: Field, step: int | None, box: tuple[slice, ...]) -> npt.NDArray[Any]:
        v = field.of(self.container)
        if self.max_error:
            v = v.within(self.max_error, relative=self.relative)
        shape = tuple(len(range(one.start, one.stop, one.step)) for one in box)
        outer = tuple(self.at.get(name, 0) for name, _ in field.outer)
        if v.has_steps and (step is None or step not in v.steps):
            stored = np.full((*shape, *v.dtype.shape), _nothing(v.dtype.base), v.dtype.base)
        else:
            # Read forwards from the store, then reversed in memory.
            stored = np.asarray(v[(step, *outer, *box)] if v.has_steps else v[(*outer, *box)])
        if v.dtype.base.kind == "f":
            gaps = missing(stored, v)
            if gaps.any():
                stored = np.where(gaps, stored.dtype.type(np.nan), stored)
        stored = stored[
            tuple(slice(None, None, -1) if self.flipped(n) else slice(None) for n in range(len(box)))
        ]
        return _components(stored, len(box), field.components)

    def _box(self, extent: Extent) -> tuple[slice, ...]:
        """Per axis of the array, the points of an extent, ascending in the array."""
        whole, axes = self.extent, len(self.mesh.shape)
        if any(not whole[2 * n] <= extent[2 * n] <= extent[2 * n + 1] <= whole[2 * n + 1] for n in range(3)):
            raise InvalidArgumentError(f"the extent {extent} lies outside of {whole}")
        out = []
        for axis in range(axes):
            n = axes - 1 - axis
            first, last = extent[2 * n], extent[2 * n + 1]
            if self.flipped(axis):
                first, last = whole[2 * n + 1] - last, whole[2 * n + 1] - first
            out.append(slice(first * self.every, last * self.every + 1, self.every))
        return tuple(out)


def container_of(path: str | os.PathLike[str]) -> str:
    """The container of a chosen file: `run.dry/drystone.json` stands for `run.dry`."""
    text = os.fspath(path)
    if not text:
        raise NotFoundError("no container is named")
    folder, _, name = text.rpartition("/")
    return (folder or ".") if name == "drystone.json" else text


def _cells(text: str | None, mesh: Mesh) -> dict[str, int]:
    """The shown cell of each outer axis."""
    lengths: dict[str, int] = {}
    for one in mesh.fields:
        for name, length in one.outer:
            lengths[name] = min(length, lengths.get(name, length))
    found = {}
    for part in filter(None, (one.strip() for one in (text or "").split(","))):
        name, _, cell = (one.strip() for one in part.partition("="))
        if name not in lengths:
            there = ", ".join(lengths) or "there is none"
            raise InvalidArgumentError(f"{name!r} is not an outer axis of the shown fields: {there}")
        if not cell.isdecimal() or int(cell) >= lengths[name]:
            raise InvalidArgumentError(
                f"{part!r} names no cell: those of {name} are 0 to {lengths[name] - 1}"
            )
        found[name] = int(cell)
    return found


def _nothing(dtype: np.dtype[Any]) -> Any:
    return dtype.type(np.nan) if dtype.kind in "fc" or is_bfloat16(dtype) else dtype.type(0)


def _components(values: npt.NDArray[Any], axes: int, components: int) -> npt.NDArray[Any]:
    points = int(np.prod(values.shape[:axes], dtype=np.int64))
    if values.dtype.kind == "b":
        values = values.astype("u1")
    elif values.dtype == np.float16 or is_bfloat16(values.dtype):
        values = values.astype("f4")
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    if values.dtype.kind == "c":
        values = values.view(values.real.dtype)
    return values.reshape(points) if components == 1 else values.reshape(points, components)
