"""Lists of numbers in datasets, which have only plain arrays: as CF's ragged arrays, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray import conventions

from drystone.contiguous import (
    INSTANCE_DIMENSION,
    SAMPLE_DIMENSION,
    Named,
    by_index,
    flattened,
    unflattened,
)
from drystone.lists import ragged
from drystone.variable import Variable


@dataclass(frozen=True)
class Lists:
    """A variable of lists that a dataset shows as two arrays."""

    dims: tuple[str, ...]
    lists: npt.NDArray[np.object_]
    dtype: np.dtype[Any]
    attrs: dict[str, Any]


def as_two_arrays(
    name: str, variable: Variable, steps: npt.NDArray[np.int64] | None, step_dim: str
) -> dict[str, xr.Variable]:
    """A variable of lists as a contiguous ragged array.

    It is read at once, since the number of values is that of all lists.
    """
    cells = variable[steps.tolist()] if steps is not None else variable[...]
    values, counts = flattened(cells, variable.dtype)
    own = variable.dims or tuple(f"{name}_dim_{axis}" for axis in range(counts.ndim - variable.has_steps))
    dims = (step_dim, *own) if variable.has_steps else own
    named = Named.of(name)
    attrs = {key: value for key, value in variable.attrs.items() if key != "_step_dim"}
    return {
        name: xr.Variable((named.sample,), values, attrs),
        named.counts: xr.Variable(dims, counts, named.attrs_of_counts(name)),
    }


def joined(dataset: xr.Dataset) -> tuple[xr.Dataset, dict[str, Lists]]:
    """A dataset without its ragged arrays, contiguous or indexed, and these as lists.

    Arrays along a sample dimension become lists if each of them has only that dimension; else they stay as they are.
    """
    found: dict[str, Lists] = {}
    gone: list[Any] = []
    for name, variable in dataset.variables.items():
        contiguous, indexed = (variable.attrs.get(one) for one in (SAMPLE_DIMENSION, INSTANCE_DIMENSION))
        row = (
            contiguous
            if contiguous is not None
            else variable.dims[0]
            if indexed and variable.ndim == 1
            else None
        )
        if row not in dataset.sizes or (indexed is not None and indexed not in dataset.sizes):
            continue
        along = {one: v for one, v in dataset.variables.items() if row in v.dims and one != name}
        if not along or any(v.dims != (row,) for v in along.values()):
            continue
        gone += [name, *along]
        for one, v in along.items():
            plain = conventions.encode_cf_variable(v, name=one)
            if plain.dtype.kind not in "biufc":
                gone.remove(one)
                continue
            if contiguous is not None:
                dims, lists = variable.dims, unflattened(plain.values, variable.values)
            else:
                dims, lists = (indexed,), by_index(plain.values, variable.values, dataset.sizes[indexed])
            attrs = dict(plain.attrs)
            if "_FillValue" not in v.attrs and v.encoding.get("_FillValue") is None:
                attrs.pop("_FillValue", None)  # xarray adds it to every float that it encodes
            found[str(one)] = Lists(tuple(map(str, dims)), lists, ragged(plain.dtype), attrs)
    return dataset.drop_vars(gone), found
