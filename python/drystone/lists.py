"""Lists of numbers of any length in each cell, and references: dtypes, and values as they are stored.

A dtype of lists is `object` with h5py's metadata `vlen`, so h5py's dtypes are accepted. A dtype of references is
`object` with the metadata `reference`; values are the paths of variables and groups, as texts.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from drystone.errors import InvalidArgumentError

REFERENCES_TO = "drystone_reference"
"""The attribute of texts that are references in a format without a type for them: `object` or `region`."""


def ragged(element: npt.DTypeLike) -> np.dtype[Any]:
    """The dtype of lists of numbers of any length: `create_variable("hits", dry.ragged("f4"), shape)`.

    Cells read as one-dimensional NumPy arrays of different lengths; an unwritten cell is an empty one. It equals the
    dtype of `h5py.vlen_dtype`, so h5py's dtypes are accepted too.

    Args:
        element: The dtype of the numbers: an integer, a float, complex or bool.

    Returns:
        The dtype `object` with the dtype of the numbers in its metadata; `ragged_element` returns it.

    Raises:
        InvalidArgumentError: If the elements are no numbers.

    """
    dtype = np.dtype(element)
    if dtype.kind not in "biufc" or dtype.metadata:
        raise InvalidArgumentError(f"a list has plain numbers, not {dtype}")
    return np.dtype(object, metadata={"vlen": dtype.newbyteorder("<")})


def ragged_element(dtype: npt.DTypeLike) -> np.dtype[Any] | None:
    """The dtype of the numbers in lists of any length; None for other dtypes."""
    element = _said(dtype, "vlen")
    return element if isinstance(element, np.dtype) else None


def reference(kind: Literal["object", "region"] = "object") -> np.dtype[Any]:
    """The dtype of references, which are texts.

    A reference names a variable or group by its path, or, with `kind="region"`, a box of a variable.

    A box follows the path, as a range `first:end` per axis: `"fields/T[0:2, 4:8]"`. It is not checked
    whether the target exists.
    """
    if kind not in ("object", "region"):
        raise InvalidArgumentError(f'a reference is of the kind "object" or "region", not {kind!r}')
    return np.dtype(object, metadata={"reference": kind})


def reference_kind(dtype: npt.DTypeLike) -> Literal["object", "region"] | None:
    """The kind of target of a reference dtype; None for other dtypes."""
    kind = _said(dtype, "reference")
    return kind if kind in ("object", "region") else None


def _said(dtype: npt.DTypeLike, name: str) -> Any:
    metadata = np.dtype(dtype).metadata
    return None if metadata is None else metadata.get(name)


def shown_element(dtype: np.dtype[Any]) -> str:
    """A dtype for people, also if it holds values of any length."""
    if not dtype.hasobject:
        return str(dtype)
    if dtype.names is not None:
        members = (f"{name}: {_shown_member(dtype[name])}" for name in dtype.names)
        return f"record{{{', '.join(members)}}}"
    if (element := ragged_element(dtype)) is not None:
        return f"ragged({element})"
    kind = reference_kind(dtype)
    return "str" if kind is None else f"reference({kind})"


def _shown_member(dtype: np.dtype[Any]) -> str:
    return f"{shown_element(dtype.base)}{''.join(f'[{n}]' for n in dtype.shape)}"


def as_lists(value: Any, element: np.dtype[Any], what: str) -> npt.NDArray[np.object_]:
    """The given lists as an array of arrays; the casting rule applies to the numbers of each list.

    `value` is nested lists, an array of objects that are lists, an array of numbers whose last axis is the list, or an
    array of the package awkward.
    """
    from drystone.values import as_stored

    if not isinstance(value, np.ndarray) and hasattr(value, "tolist") and hasattr(value, "layout"):
        value = _of_awkward(value)
    shape, lists = _cells(value, element, what)
    out = np.empty(len(lists), object)
    for n, one in enumerate(lists):
        if np.ndim(one) == 0 and not isinstance(one, list | tuple | np.ndarray):
            raise InvalidArgumentError(f"{what} holds lists of {element}; {one!r:.60} is not a list")
        stored = as_stored(one, element, what)
        if stored.ndim != 1:
            raise InvalidArgumentError(f"{what} holds lists of {element}, not arrays of {stored.ndim} axes")
        out[n] = stored
    return out.reshape(shape)


def _of_awkward(value: Any) -> Any:
    """Convert an awkward array without a Python object for each number; NumPy refuses ragged ones."""
    import awkward  # type: ignore[import-untyped]

    from drystone.contiguous import unflattened

    try:
        counts = awkward.to_numpy(awkward.num(value, axis=-1))
        return unflattened(awkward.to_numpy(awkward.flatten(value, axis=None)), counts)
    except (ValueError, TypeError, InvalidArgumentError):
        return value.tolist()  # of several depths or lengths; the caller reports it


def _cells(value: Any, element: np.dtype[Any], what: str) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of a block of lists, and the lists in row-major order."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return value.shape, list(value.flat)
    depth = _depth(value)
    if depth == 0:
        raise InvalidArgumentError(f"{what} holds lists of {element}, not {type(value).__name__}")
    shape: list[int] = []
    lists: list[Any] = [value]
    for _ in range(depth - 1):
        counts = {len(one) if isinstance(one, list | tuple | np.ndarray) else -1 for one in lists}
        if len(counts) > 1 or -1 in counts:
            raise InvalidArgumentError(
                f"{what} takes a block of lists, which are nested equally deep: {depth} here"
            )
        shape.append(counts.pop() if counts else 0)
        lists = [inner for one in lists for inner in one]
    return tuple(shape), lists


def _depth(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(value.ndim) + int(value.dtype.kind == "O")
    if isinstance(value, list | tuple):
        return 1 + max((_depth(one) for one in value), default=0)
    return 0


def as_bytes(lists: npt.NDArray[np.object_], element: np.dtype[Any]) -> list[bytes]:
    """Lists in the engine's form, in row-major order."""
    return [np.asarray(one, element.newbyteorder("<")).tobytes() for one in lists.ravel()]
