"""The Gray-Scott model: two chemicals, U and V, diffuse through a periodic box and react (U + 2V -> 3V).

    dU/dt = Du lap(U) - U V^2 + F (1 - U)
    dV/dt = Dv lap(V) + U V^2 - (F + k) V

`lap` is the mean of the six neighbours minus the cell, so `dt = 1` is stable for Du, Dv < 1.

Invariants
- a cell's next value is computed from its own and its six neighbours' values by the same sequence of single
  floating-point operations at every position, so any decomposition gives the same bits;
- the initial state is a function of global coordinates and the seed only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from decomposition import Box

Array = npt.NDArray[np.floating]

CHUNK = 16 * 1024  # elements per pass: the few arrays a pass touches stay in a core's second-level cache


@dataclass(frozen=True)
class Model:
    """The parameters of a simulation, besides its grid."""

    Du: float = 0.8
    Dv: float = 0.4
    F: float = 0.025
    k: float = 0.055
    dt: float = 1.0
    seed: int = 42

    def __post_init__(self) -> None:
        for name in ("Du", "Dv"):
            if not 0 <= getattr(self, name) * self.dt < 1:
                raise ValueError(
                    f"{name} * dt must lie in [0, 1) for a stable solution; it is {getattr(self, name) * self.dt}"
                )
        if self.dt <= 0:
            raise ValueError(f"dt must be positive; it is {self.dt}")

    def attributes(self) -> dict[str, float | int]:
        """The model as attributes to store beside the data."""
        return asdict(self)

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> Model:
        """The model that `attributes` stored; other attributes are ignored."""
        Du, Dv, F, k, dt = (float(attributes[name]) for name in ("Du", "Dv", "F", "k", "dt"))
        return cls(Du, Dv, F, k, dt, seed=int(attributes["seed"]))


def initial_state(
    box: Box, grid: tuple[int, int, int], model: Model, dtype: npt.DTypeLike
) -> tuple[Array, Array]:
    """U and V of `box` at time 0: U everywhere, with drops of V and a little noise."""
    z, y, x = np.ogrid[tuple(slice(a, a + n) for a, n in zip(box.offset, box.shape, strict=True))]
    u = np.ones(box.shape)
    v = np.zeros(box.shape)
    drops = np.random.default_rng(model.seed)
    smallest = min(grid)
    for _ in range(48):
        centre = drops.random(3) * grid
        radius = smallest * drops.uniform(0.03, 0.06)
        distance = sum(
            periodic_distance(axis, at, extent) ** 2
            for axis, at, extent in zip((z, y, x), centre, grid, strict=True)
        )
        inside = distance <= max(radius, 1.0) ** 2
        u[inside], v[inside] = 0.5, 0.25
    index = (z * grid[1] + y) * grid[2] + x
    u -= 0.02 * noise(index, model.seed)
    v += 0.02 * noise(index, model.seed + 1)
    return u.astype(dtype), v.astype(dtype)


def periodic_distance(axis: npt.NDArray[np.int64], at: float, extent: int) -> npt.NDArray[np.float64]:
    """The distance of cells from `at` along a periodic axis."""
    apart = np.abs(axis - at)
    nearest: npt.NDArray[np.float64] = np.minimum(apart, extent - apart)
    return nearest


def noise(index: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each cell, from its global index only (the SplitMix64 finaliser)."""
    z = index.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


class Field:
    """U and V of one box, each padded by one cell on every side for the neighbours' values."""

    def __init__(self, u: Array, v: Array, model: Model) -> None:
        self.model = model
        self.u, self.v = np.pad(u, 1, mode="edge"), np.pad(v, 1, mode="edge")
        self._next_u, self._next_v = self.u.copy(), self.v.copy()
        self._scratch = np.empty((4, CHUNK), dtype=u.dtype)

    @property
    def interior(self) -> tuple[Array, Array]:
        """Views of U and V without the padding."""
        inner = (slice(1, -1),) * 3
        return self.u[inner], self.v[inner]

    def advance(self) -> None:
        """One time step; the padding of U and V must hold the neighbours' current values.

        Every pass runs over flat, contiguous memory from the first to the last interior cell. It also computes padding
        cells: their values are meaningless but bounded, and are replaced by the next exchange or never read.
        """
        _, rows, columns = self.u.shape
        strides = (rows * columns, columns, 1)
        first = sum(strides)
        last = self.u.size - first
        arrays = (self.u, self.v, self._next_u, self._next_v)
        u, v, next_u, next_v = (array.reshape(-1) for array in arrays)
        for start in range(first, last, CHUNK):
            self._advance_range(u, v, next_u, next_v, start, min(start + CHUNK, last), strides)
        self.u, self._next_u = self._next_u, self.u
        self.v, self._next_v = self._next_v, self.v

    def _advance_range(
        self,
        u: Array,
        v: Array,
        next_u: Array,
        next_v: Array,
        start: int,
        stop: int,
        strides: tuple[int, int, int],
    ) -> None:
        Du, Dv, F, k, dt = (getattr(self.model, name) for name in ("Du", "Dv", "F", "k", "dt"))
        sum_u, sum_v, uvv, work = self._scratch[:, : stop - start]
        here = slice(start, stop)
        sum_neighbours(u, start, stop, strides, sum_u, work)
        sum_neighbours(v, start, stop, strides, sum_v, work)
        np.multiply(v[here], v[here], out=uvv)
        uvv *= u[here]
        uvv *= dt

        # u + dt (Du (sum / 6 - u) - uvv + F (1 - u)), gathered by terms: every pass over memory costs.
        sum_u *= dt * Du / 6
        np.multiply(u[here], 1 - dt * (Du + F), out=work)
        sum_u += work
        sum_u -= uvv
        np.add(sum_u, dt * F, out=next_u[here])

        # v + dt (Dv (sum / 6 - v) + uvv - (F + k) v)
        sum_v *= dt * Dv / 6
        np.multiply(v[here], 1 - dt * (Dv + F + k), out=work)
        sum_v += work
        np.add(sum_v, uvv, out=next_v[here])


def sum_neighbours(
    a: Array, start: int, stop: int, strides: tuple[int, int, int], out: Array, work: Array
) -> None:
    """Sum of the six neighbours of each cell of the flat range [start, stop), into `out`."""
    plane, row, _ = strides
    np.add(a[start - plane : stop - plane], a[start + plane : stop + plane], out=out)
    np.add(a[start - row : stop - row], a[start + row : stop + row], out=work)
    out += work
    np.add(a[start - 1 : stop - 1], a[start + 1 : stop + 1], out=work)
    out += work
