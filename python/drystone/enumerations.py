"""Enumerations: integers with names for some values, as NumPy dtypes with h5py's metadata."""

from __future__ import annotations

import enum as standard
import operator
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from drystone.errors import InvalidArgumentError

_MOST_NAMES = 4096
_BASES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")


def enum(
    names: Mapping[str, SupportsIndex] | Sequence[str] | type[standard.Enum],
    base: npt.DTypeLike | None = None,
) -> np.dtype[Any]:
    """The dtype of an enumeration: integers with names for some values.

    `create_variable("phase", dry.enum({"solid": 0, "fluid": 1}), shape)`; values are integers, and in assignments,
    `put` and conditions also the names. It equals the dtype of `h5py.enum_dtype`, so each package accepts the
    other's.

    Args:
        names: Integers by name; or names, which count from 0; or a class of Python's `enum` whose values are integers.
        base: The integer type that is stored; by default the shortest one that holds all named values.

    Returns:
        An integer dtype, equal to `base`, with the names in its metadata; `enum_names` returns them.

    Raises:
        InvalidArgumentError: If a name has no integer, or a value is not one of `base`.

    """
    if isinstance(names, type) and issubclass(names, standard.Enum):
        given = {name: member.value for name, member in names.__members__.items()}
    elif isinstance(names, Mapping):
        given = dict(names)
    else:
        listed = [names] if isinstance(names, str) else list(names)
        given = {name: number for number, name in enumerate(listed)}
        if len(given) != len(listed):
            raise InvalidArgumentError("an enumeration has a name twice")
    try:
        values = {str(name): operator.index(value) for name, value in given.items()}
    except TypeError as error:
        raise InvalidArgumentError(f"an enumeration gives names to integers: {error}") from None
    if not 1 <= len(values) <= _MOST_NAMES:
        raise InvalidArgumentError(f"an enumeration has 1 to {_MOST_NAMES} names, not {len(values)}")
    low, high = min(values.values()), max(values.values())
    for one in _BASES if base is None else [base]:
        dtype = np.dtype(one)
        if dtype.kind not in "iu":
            raise InvalidArgumentError(f"an enumeration is stored as integers, not as {dtype}")
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return np.dtype(dtype.str, metadata={"enum": values})
    raise InvalidArgumentError(f"{low} to {high} do not fit one integer type ({base or 'of 64 bits'})")


def enum_names(dtype: npt.DTypeLike) -> dict[str, int] | None:
    """The integers of an enumeration by name, in declaration order; None for other dtypes."""
    metadata = np.dtype(dtype).metadata
    names = metadata.get("enum") if metadata is not None else None
    return None if names is None else {str(name): int(value) for name, value in names.items()}


def numbered(value: Any, names: Mapping[str, int], what: str) -> Any:
    """The value with names replaced by integers; a value without texts stays as it is."""
    texts = np.asarray(value) if isinstance(value, str | list | tuple | np.ndarray | np.str_) else None
    if texts is None or texts.dtype.kind not in "OUT" or not texts.size:
        return value
    try:
        numbers = [
            names[one] if isinstance(one, str) else operator.index(one) for one in texts.ravel().tolist()
        ]
    except KeyError as error:
        known = ", ".join(list(names)[:20])
        raise InvalidArgumentError(f"{what} has no value named {error.args[0]!r}; it has: {known}") from None
    except TypeError:
        return value
    return np.array(numbers, object).reshape(texts.shape).tolist()
