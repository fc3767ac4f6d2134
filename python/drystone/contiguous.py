"""Lists of numbers as two plain arrays: all numbers concatenated, and the length of each list.

That is the contiguous ragged array of the CF conventions, and what the package awkward calls unflattening. The
variable of lengths has the attribute `sample_dimension`, which names the dimension of the numbers. CF's indexed ragged
array is also read: there, a variable with the attribute `instance_dimension` has the index of the list of each number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.errors import InvalidArgumentError
from drystone.lists import ragged_element

SAMPLE_DIMENSION = "sample_dimension"
INSTANCE_DIMENSION = "instance_dimension"
LISTS_OF = "drystone_lists"
"""Marks lengths that an export made of lists, so that an import makes lists of them again."""


def flattened(
    lists: Any, dtype: npt.DTypeLike | None = None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The numbers of all lists, concatenated, and the length of each list; `awkward.unflatten` takes both.

    Args:
        lists: An array of lists as a variable gives it, in row-major order, or one list.
        dtype: The dtype of the numbers, or of lists of them; by default that of the first list.

    Returns:
        The numbers, shape `(n,)`, and the lengths of the lists, in the shape of `lists`.

    """
    is_array = isinstance(lists, np.ndarray) and lists.dtype.kind == "O"
    cells = lists if is_array else _one(lists)
    flat = [np.asarray(one) for one in cells.ravel()]
    if dtype is None:
        element = flat[0].dtype if flat else np.dtype("f8")
    else:
        element = ragged_element(dtype) or np.dtype(dtype)
    counts = np.array([len(one) for one in flat], np.int64).reshape(cells.shape)
    return np.concatenate([np.empty(0, element), *flat]).astype(element, copy=False), counts


def unflattened(values: Any, counts: Any) -> npt.NDArray[np.object_]:
    """The lists with the lengths `counts` and the concatenated numbers `values`: an array in the shape of `counts`.

    Raises:
        InvalidArgumentError: A length is negative or no integer, or they do not add up to the number of values.

    """
    row, lengths = np.asarray(values), np.asarray(counts)
    if row.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any() or lengths.sum() != len(row):
        raise InvalidArgumentError(
            f"lengths of lists are integers that add up to the number of values, {row.size}, not to {lengths.sum()}"
        )
    out = np.empty(lengths.size, object)
    ends = np.cumsum(lengths.ravel())
    for n, (end, length) in enumerate(zip(ends.tolist(), lengths.ravel().tolist(), strict=True)):
        out[n] = row[end - length : end]
    return out.reshape(lengths.shape)


def by_index(values: Any, index: Any, size: int) -> npt.NDArray[np.object_]:
    """The lists of an indexed ragged array.

    `index` names the list, of `size` lists, to which each number belongs, in order.
    """
    row, of = np.asarray(values), np.asarray(index)
    if (
        of.shape != row.shape
        or of.dtype.kind not in "iu"
        or (of.size and not 0 <= of.min() <= of.max() < size)
    ):
        raise InvalidArgumentError(f"an index of lists has a number from 0 to {size - 1} for each value")
    order = np.argsort(of, kind="stable")
    return unflattened(row[order], np.bincount(of, minlength=size))


@dataclass(frozen=True)
class Named:
    """The names of the two arrays of a variable of lists."""

    sample: str
    counts: str

    @classmethod
    def of(cls, name: str) -> Named:
        """The names of a variable's numbers (also their dimension) and of its lengths."""
        return cls(f"{name}_sample", f"{name}_count")

    def attrs_of_counts(self, name: str) -> dict[str, str]:
        """Attributes for CF and for an import."""
        return {SAMPLE_DIMENSION: self.sample, "long_name": f"number of values in each list of {name}"}


def _one(lists: Any) -> npt.NDArray[np.object_]:
    """A list of numbers, or nested lists, as an array of lists."""
    is_list = np.ndim(lists[0]) == 0 if len(lists) else True
    out = np.empty((1,) if is_list else (len(lists),), object)
    out[:] = [np.asarray(lists)] if is_list else [np.asarray(one) for one in lists]
    return out.reshape(()) if is_list else out
