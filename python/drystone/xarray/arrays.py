"""Stored variables as xarray's lazy arrays, and as targets that it, or Dask, writes to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xarray.backends.common import BackendArray
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing

from drystone import assigning, selection, values, views
from drystone.container import Container
from drystone.selection import Listed, Rule, Run, Wanted
from drystone.variable import Variable
from drystone.xarray import times


class StoredArray(BackendArray):
    """A variable that is read lazily: basic, orthogonal and vectorised indexing each take one plan.

    It needs no lock, and is pickled as path and snapshot. `steps` are the numbers of the steps along its first axis,
    if they are not 0, 1, 2, …
    """

    def __init__(self, variable: Variable, steps: npt.NDArray[np.int64] | None) -> None:
        self.variable = variable
        self.steps = steps
        shape = variable.shape
        self.shape = shape if steps is None else (len(steps), *shape[1:])
        dtype = variable.dtype
        self.dtype = create_vlen_dtype(str) if dtype.kind == "O" else times.shown_as(dtype)

    def __getitem__(self, key: Any) -> Any:
        rule = Rule.PLAIN
        if isinstance(key, indexing.OuterIndexer):
            rule = Rule.OUTER
        elif isinstance(key, indexing.VectorizedIndexer):
            rule = Rule.VECTOR
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.VECTORIZED, lambda key: self._read(key, rule)
        )

    async def async_getitem(self, key: Any) -> Any:
        """The same array for another thread."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _read(self, key: Any, rule: Rule) -> npt.NDArray[Any]:
        wanted = selection.select(key, self.shape, rule)
        if self.steps is not None:
            wanted = Wanted(tuple(self._numbered(leg) for leg in wanted.legs), wanted.shape)
        values = views.read(self.variable._reading(), wanted)
        if self.variable.dtype.kind in "mM":
            return times.shown(np.asarray(values), self.dtype)
        return np.asarray(values, self.dtype if self.dtype.kind == "O" else None)

    def _numbered(self, leg: selection.Leg) -> selection.Leg:
        """The same key with step numbers instead of positions."""
        assert self.steps is not None
        if 0 not in leg.axes:
            return leg
        numbers = self.steps[leg.along(0)]
        if isinstance(leg, Run):
            strides = np.unique(np.diff(numbers))
            if leg.count < 2 or (len(strides) == 1 and strides[0] != 0):
                first, step = (
                    (int(numbers[0]), int(strides[0]) if len(strides) else 1) if leg.count else (0, 1)
                )
                return Run(0, first, step, leg.count)
            return Listed((0,), numbers[:, None])
        cells = leg.cells.copy()
        cells[:, 0] = numbers
        return Listed(leg.axes, cells)


class Target:
    """A target for an array of `shape`: a variable, from `start` on; `steps` are the steps along its first axis."""

    def __init__(
        self,
        container: Container,
        path: str,
        start: Sequence[int],
        shape: tuple[int, ...],
        steps: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self._container = container
        self._path = path
        self._start = tuple(start)
        self._steps = steps
        self.shape = shape
        self.ndim = len(shape)
        self.dtype = container._handle.reading(path, None).element

    def __setitem__(self, key: Any, value: Any) -> None:
        wanted = selection.select(key, self.shape)
        runs = [leg for leg in wanted.legs if isinstance(leg, Run)]
        array = np.asarray(value)
        if self.dtype.kind in "mM" and array.dtype == np.int64:  # as `times.counted` returns them
            array = array.view(self.dtype)
        array = values.as_stored(array, self.dtype, f'"{self._path}"')
        start = [run.start + first for run, first in zip(runs, self._start, strict=True)]
        box = np.broadcast_to(array, wanted.shape).reshape([run.count for run in runs])
        if self._steps is None:
            assigning.assign_box(self._container, self._path, None, start, box)
            return
        numbers = self._steps[runs[0].start : runs[0].start + runs[0].count]
        for here in np.split(np.arange(len(numbers)), np.nonzero(np.diff(numbers) != 1)[0] + 1):
            if len(here):
                first = [int(numbers[here[0]]), *start[1:]]
                assigning.assign_box(self._container, self._path, None, first, box[here[0] : here[-1] + 1])
