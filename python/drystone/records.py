"""Records with members of any length: structured arrays whose fields are objects, and what the engine takes of them.

NumPy has a pointer in each element for a text or a list. The engine takes the members of fixed size as one array, at
their places in its own element, and the values of each other member as a list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from drystone._core import fixed_part
from drystone.errors import InvalidArgumentError
from drystone.lists import as_bytes, ragged_element, shown_element


def holds_objects(dtype: np.dtype[Any]) -> bool:
    """Whether it is a record with a member of any length."""
    return dtype.names is not None and dtype.hasobject


def as_records(value: Any, dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """The value as an array of records of `dtype`; the casting rule applies to each member."""
    from drystone.values import as_array, is_array

    if is_array(value) or isinstance(value, np.void):
        given = as_array(value)
    else:
        try:
            given = np.asarray(value, dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"{what} holds {shown_element(dtype)}: {error}") from None
    out = np.empty(given.shape, dtype)
    _take(out, given, dtype, what)
    return out


def _take(out: npt.NDArray[Any], given: npt.NDArray[Any], dtype: np.dtype[Any], what: str) -> None:
    from drystone.values import as_stored

    if given.dtype.names != dtype.names:
        found = given.dtype if given.dtype.names is None else ", ".join(given.dtype.names)
        raise InvalidArgumentError(
            f"{what} holds records of {', '.join(dtype.names or ())}, the array {found}: give these members in this order"
        )
    for name in dtype.names or ():
        base, own, member = dtype[name].base, out[name], f'{what} member "{name}"'
        if holds_objects(base):
            if given[name].shape != own.shape:
                raise InvalidArgumentError(f"{member} has shape {own.shape}, the array {given[name].shape}")
            _take(own, given[name], base, member)
            continue
        stored = as_stored(given[name], base, member)
        if stored.shape != own.shape:
            raise InvalidArgumentError(f"{member} has shape {own.shape}, the array {stored.shape}")
        own[...] = stored


def split(
    records: npt.NDArray[Any], dtype: np.dtype[Any], inner: tuple[int, ...] = ()
) -> tuple[npt.NDArray[Any], list[list[Any]]]:
    """The members of fixed size as the engine takes them, and the values of each other member.

    `inner` are the last axes of the array, if they are those of a member.
    """
    fixed = np.zeros(records.shape, fixed_part(dtype))
    values: list[list[Any]] = []
    for place in np.ndindex(inner):
        _split(records[(..., *place)], dtype, fixed[(..., *place)], values)
    return fixed, values


def _split(
    records: npt.NDArray[Any],
    dtype: np.dtype[Any],
    fixed: npt.NDArray[Any] | None,
    values: list[list[Any]],
) -> None:
    known = () if fixed is None else fixed.dtype.names or ()
    for name in dtype.names or ():
        base, own = dtype[name].base, records[name]
        into = fixed[name] if fixed is not None and name in known else None
        if holds_objects(base):
            for place in np.ndindex(dtype[name].shape):
                at = (..., *place)
                _split(own[at], base, None if into is None else into[at], values)
        elif base.kind == "O":
            element = ragged_element(base)
            values.append(own.ravel().tolist() if element is None else as_bytes(own, element))
        elif into is not None:
            into[...] = own


def fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    """A fill value as stored: members of any length are empty in it."""
    element = as_records(value, dtype, "fill_value")
    if element.shape != ():
        raise InvalidArgumentError(f"fill_value is one record, not an array of shape {element.shape}")
    fixed, values = split(element, dtype)
    if any(one for own in values for one in own):
        raise InvalidArgumentError(
            "strings and lists have no fill value: where nothing was written, an empty one is read; leave them empty"
        )
    return fixed.tobytes()


def said(array: npt.NDArray[Any]) -> np.dtype[Any]:
    """The dtype of an array of records; a field of objects that are all `str` is one of strings."""
    dtype = array.dtype
    members = []
    for name in dtype.names or ():
        own = dtype[name]
        if own.base.kind == "O" and not own.base.metadata and array.size:
            texts = all(isinstance(text, str) for text in array[name].flat)
            own = np.dtype((np.dtype(object, metadata={"vlen": str}), own.shape)) if texts else own
        elif holds_objects(own.base):
            own = np.dtype((said(array[name]), own.shape))
        members.append((name, own))
    return np.dtype(members)
