"""Values that are not arrays of exactly the stored type yet: scalars, lists, strings.

They are converted if nothing is lost but the last digits of a float. Arrays of another type are not converted here: that is
a decision of the caller's, made with `.astype`.
"""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.errors import InvalidArgumentError


def is_array(value: object) -> bool:
    """Whether it is an array, which has a type of its own, and not a scalar or a list."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, np.generic | bytes | bytearray):
        return False
    return (
        hasattr(value, "__array__") or _by_dlpack_alone(value) or isinstance(value, memoryview | array.array)
    )


def as_array(value: Any) -> npt.NDArray[Any]:
    """An array, of whatever library, as NumPy's: its own memory where that can be."""
    if not _by_dlpack_alone(value):
        return np.asarray(value)
    try:
        return np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InvalidArgumentError(
            f"the memory of {type(value).__name__} cannot be reached by DLPack: {error}; copy it to an array of NumPy"
        ) from error


def _by_dlpack_alone(value: object) -> bool:
    return hasattr(value, "__dlpack__") and not (
        hasattr(value, "__array__") or hasattr(value, "__array_interface__")
    )


def as_elements(value: Any, dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """The value as an array of `dtype`; an array as it is."""
    if is_array(value):
        return as_array(value)
    if isinstance(value, np.generic):
        if value.dtype == dtype:
            return np.asarray(value)
        if value.dtype.kind == "V" and value.dtype.names is None:  # bfloat16 and its like
            value = float(value)
    try:
        with np.errstate(all="ignore"):
            if dtype.names is not None:
                return np.asarray(value, dtype)
            return _converted(np.asarray(value), value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{what} takes {dtype}, which {_shown(value)} does not fit: {error}"
        ) from None


def _converted(plain: npt.NDArray[Any], value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if plain.size == 0:
        return plain.astype(dtype)
    match plain.dtype.kind, "f" if dtype.kind == "V" else dtype.kind:
        case ("b", "b" | "i" | "u" | "f" | "c") | ("i" | "u" | "f" | "c", "c"):
            return plain.astype(dtype)
        case ("i" | "u", "i" | "u"):
            out = plain.astype(dtype)
            lossless = (out == plain).all()
        case ("f" | "O", "i" | "u"):
            # Integers that no one integer type holds together have become something else.
            numbers = np.asarray(value, object)
            if all(isinstance(number, int | np.integer) for number in numbers.flat):
                return numbers.astype(dtype)
            out = plain.astype(dtype)
            lossless = (out == plain).all()
        case ("i" | "u" | "f", "f"):
            out = plain.astype(dtype)
            lossless = (np.isfinite(out.astype("f8")) == np.isfinite(plain)).all()
        case ("S" | "U", "S" | "U"):
            out = plain.astype(dtype)
            lossless = (np.strings.str_len(out) == np.strings.str_len(plain)).all()
        case _:
            raise TypeError(f"{plain.dtype} is of another kind")
    if not lossless:
        raise ValueError("the value would change")
    return out


def as_texts(value: Any, what: str) -> npt.NDArray[np.object_]:
    """The value as an array of `str` objects."""
    if isinstance(value, str):
        out = np.empty((), object)
        out[()] = value
        return out
    texts = np.asarray(value) if is_array(value) else np.asarray(value, dtype=object)
    if texts.dtype.kind not in "OTU" and texts.size:
        raise InvalidArgumentError(f"{what} holds strings, the array {texts.dtype}")
    return texts.astype(object)


def fill_bytes(value: Any, dtype: np.dtype[Any], strings: bool) -> bytes | None:
    """The fill value as stored; None for zeros."""
    if value is None:
        return None
    if strings:
        if isinstance(value, str) and not value:
            return None
        raise InvalidArgumentError(
            "strings have no fill value: where nothing was written, the empty string is read"
        )
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    element = as_elements(value, dtype, "fill_value")
    if element.shape != ():
        raise InvalidArgumentError(f"fill_value is one value, not {_shown(value)}")
    if element.dtype != dtype:
        element = element.astype(dtype)
    return element.tobytes()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."
