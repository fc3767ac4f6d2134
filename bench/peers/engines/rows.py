"""Blocks gathered into rows: for engines that pay for each file or fragment they write."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engines import Array, Spec


class Rows:
    """Gathers blocks until a row of them along the first axis is whole."""

    def __init__(self, spec: Spec) -> None:
        assert spec.chunks is not None
        self.spec, high = spec, spec.chunks[0]
        self.array = np.zeros((high, *spec.shape[1:]), spec.dtype)
        self.missing = self.all = int(np.prod(spec.shape[1:])) * high
        self.first = -1

    def put(self, offset: Sequence[int], array: Array) -> bool:
        """Whether the row is whole now."""
        self.first = offset[0]
        place = (slice(0, array.shape[0]),)
        place += tuple(slice(a, a + n) for a, n in zip(offset[1:], array.shape[1:], strict=True))
        self.array[place] = array
        self.missing -= array.size
        if self.missing:
            return False
        self.missing = self.all
        return True
