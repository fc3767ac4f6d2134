"""Compound types of HDF5 with members of any length: texts, lists of numbers and references inside of records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.interchange.formats import native, references, text
from drystone.lists import ragged, reference

Taken = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""Values of a member as h5py reads them, as a container takes them."""

STRING = np.dtype(object, metadata={"vlen": str})
"""The dtype of a member that is a text of any length."""


def taken(
    dtype: np.dtype[Any], file: Any, rounded: set[str], losses: list[str]
) -> tuple[np.dtype[Any], Taken] | None:
    """The dtype of a record in a container, and a function that makes its values of h5py's.

    None if a member has no type there. `rounded` gets the names of regions that are no boxes, and `losses` what texts
    lose.
    """
    members, acts = [], []
    for name in dtype.names or ():
        found = _member(dtype[name].base, file, rounded, losses)
        if found is None:
            return None
        members.append((name, found[0], dtype[name].shape))
        acts.append((name, found[1]))
    own = np.dtype(members)

    def act(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out = np.empty(values.shape, own)
        for name, convert in acts:
            out[name][...] = convert(values[name])
        return out

    return own, act


def _member(
    dtype: np.dtype[Any], file: Any, rounded: set[str], losses: list[str]
) -> tuple[np.dtype[Any], Taken] | None:
    import h5py

    if dtype.names is not None and dtype.hasobject:
        return taken(dtype, file, rounded, losses)
    if not dtype.hasobject:
        plain = native(dtype)
        is_opaque = dtype.kind == "V" and dtype.names is None
        return None if is_opaque else (plain, lambda values: values.astype(plain, copy=False))
    if (kind := references.kind_of(dtype)) is not None:
        return reference(kind), lambda values: references.names(values, file, rounded)
    if h5py.check_string_dtype(dtype) is not None:
        return STRING, partial(_texts, losses=losses)
    element = h5py.check_vlen_dtype(dtype)
    if not isinstance(element, np.dtype) or element.kind not in "biufc" or h5py.check_enum_dtype(element):
        return None
    plain = native(element)
    return ragged(plain), partial(_lists, dtype=plain)


def _each(values: npt.NDArray[Any], act: Callable[[Any], Any]) -> npt.NDArray[Any]:
    out = np.empty(values.shape, object)
    for place in np.ndindex(values.shape):
        out[place] = act(values[place])
    return out


def _texts(values: npt.NDArray[Any], losses: list[str]) -> npt.NDArray[Any]:
    return _each(values, lambda one: text(one or "", losses))


def _lists(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return _each(values, lambda one: np.asarray([] if one is None else one, dtype))
