"""The decomposition of the grid into boxes, and the exchange of faces between neighbours.

Ranks form a periodic 3-D grid. Along an axis, rank i of p owns the cells [i n / p, (i + 1) n / p), rounded down, so
any number of ranks divides any grid that has a cell for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from mpi4py import MPI

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Box:
    """A part of the grid: its first cell and how many cells it has along each axis."""

    offset: Triple
    shape: Triple

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """The box as an index into the whole grid."""
        z, y, x = (slice(a, a + n) for a, n in zip(self.offset, self.shape, strict=True))
        return z, y, x


def box_at(coordinates: Triple, ranks: Triple, grid: Triple) -> Box:
    """The box of the rank at `coordinates` among `ranks` per axis."""
    for axis, (p, n) in enumerate(zip(ranks, grid, strict=True)):
        if p > n:
            raise ValueError(
                f"axis {axis} of the grid has {n} cells, too few for {p} ranks: use fewer ranks or a larger grid"
            )
    starts = [c * n // p for c, p, n in zip(coordinates, ranks, grid, strict=True)]
    stops = [(c + 1) * n // p for c, p, n in zip(coordinates, ranks, grid, strict=True)]
    z, y, x = starts
    return Box((z, y, x), (stops[0] - z, stops[1] - y, stops[2] - x))


class Neighbours:
    """One rank's place in the grid of ranks, and its exchange with the six ranks around it."""

    def __init__(self, communicator: MPI.Intracomm, grid: Triple) -> None:
        from mpi4py import MPI

        ranks = MPI.Compute_dims(communicator.size, 3)
        self.communicator = communicator.Create_cart(ranks, periods=(True, True, True))
        coordinates = self.communicator.Get_coords(self.communicator.rank)
        z, y, x = ranks
        self.ranks = (z, y, x)
        self.box = box_at((coordinates[0], coordinates[1], coordinates[2]), self.ranks, grid)
        self._sides = [(axis, *self.communicator.Shift(axis, 1)) for axis in range(3)]
        self._wait_all = MPI.Request.Waitall
        self._buffers: dict[tuple[int, int], tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]] = {}

    def exchange(self, *padded: npt.NDArray[np.floating]) -> None:
        """Fill the padding of each array's six faces with the neighbours' cells (edges and corners are left)."""
        requests = []
        arrivals = []
        for axis, below, above in self._sides:
            # A face that is sent is the last layer on that side; the received face fills the padding there.
            for direction, neighbour, leaving, filled in ((0, below, 1, 0), (1, above, -2, -1)):
                send, receive = self._faces(axis, direction, padded)
                for array, buffer in zip(padded, send, strict=True):
                    buffer[...] = face(array, axis, leaving)
                requests.append(
                    self.communicator.Irecv(receive, source=neighbour, tag=2 * axis + 1 - direction)
                )
                requests.append(self.communicator.Isend(send, dest=neighbour, tag=2 * axis + direction))
                arrivals.append((receive, axis, filled))
        self._wait_all(requests)
        for receive, axis, filled in arrivals:
            for array, buffer in zip(padded, receive, strict=True):
                face(array, axis, filled)[...] = buffer

    def _faces(
        self, axis: int, direction: int, padded: tuple[npt.NDArray[np.floating], ...]
    ) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
        if (axis, direction) not in self._buffers:
            shape = (len(padded), *face(padded[0], axis, 0).shape)
            self._buffers[axis, direction] = (
                np.empty(shape, padded[0].dtype),
                np.empty(shape, padded[0].dtype),
            )
        return self._buffers[axis, direction]


def face(padded: npt.NDArray[np.floating], axis: int, layer: int) -> npt.NDArray[np.floating]:
    """One layer of a padded array across `axis`, without the padding of the other axes."""
    index: list[slice | int] = [slice(1, -1)] * 3
    index[axis] = layer
    return padded[tuple(index)]
