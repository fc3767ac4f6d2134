"""The casting rule: converts values that are not arrays of exactly the stored type.

`as_stored` applies it for every way to write (docs/guide/reading.md states it). An array is converted within its kind
(NumPy's `same_kind`), a scalar or list by its value. A value that would change by more than the last digits of a float
is refused.
"""

from __future__ import annotations

import array
import sys
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from drystone import records
from drystone.enumerations import enum_names, numbered
from drystone.errors import InvalidArgumentError
from drystone.lists import as_lists, ragged_element


def named(given: Any, what: str) -> dict[str, Any] | None:
    """A mapping as a dictionary; None for None."""
    if given is None:
        return None
    try:
        return dict(given)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{what} is a mapping by name, not {given!r:.80}") from None


def is_array(value: object) -> bool:
    """Whether it is an array, which has a type, and not a scalar or a list."""
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, np.generic | bytes | bytearray):
        return False
    return (
        hasattr(value, "__array__") or _by_dlpack_alone(value) or isinstance(value, memoryview | array.array)
    )


def is_masked(value: object) -> bool:
    """Whether it is a masked array that hides a cell."""
    # Without an import of `numpy.ma` there are none; importing it takes longer than writing a small array.
    if type(value) is np.ndarray or "numpy.ma" not in sys.modules:
        return False
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def as_array(value: Any) -> npt.NDArray[Any]:
    """An array of any library as a NumPy array, sharing its memory if possible.

    Masked arrays are refused: their hidden values would become visible.
    """
    if is_masked(value):
        raise InvalidArgumentError("the array is masked: give array.filled(value)")
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


def as_stored(value: Any, dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """Values as an array of the type that a variable holds (`object` for strings): the casting rule of all writes.

    `what` names the variable in errors, with quotes.
    """
    if dtype.kind == "O":
        element = ragged_element(dtype)
        return as_texts(value, what) if element is None else as_lists(value, element, what)
    if records.holds_objects(dtype):
        return records.as_records(value, dtype, what)
    if dtype.metadata and (names := enum_names(dtype)) is not None:
        value = numbered(value, names, what)
        if is_array(value) and enum_names(as_array(value).dtype) not in (None, names):
            raise InvalidArgumentError(
                f"{what} is an enumeration with other names than the array: give its numbers (array.astype(int))"
            )
    if not is_array(value):
        return as_elements(value, dtype, what, whole=True)
    array = as_array(value)
    return array if array.dtype == dtype else _as_same_kind(array, dtype, what)


def as_elements(value: Any, dtype: np.dtype[Any], what: str, *, whole: bool = False) -> npt.NDArray[Any]:
    """The value as an array of `dtype`; an array unchanged. `whole` refuses integers that a float type rounds."""
    if dtype.kind in "mM":
        return _as_times(value, dtype, what)
    if dtype.metadata and (names := enum_names(dtype)) is not None:
        value = numbered(value, names, what)
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
            return _converted(np.asarray(value), value, dtype, whole)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{what} takes {dtype}, which {_shown(value)} does not fit: {error}"
        ) from None


def _as_times(value: Any, dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """Instants or durations as an array of `dtype`.

    They are given as such, as texts of ISO 8601, or as objects of Python's `datetime`.
    """
    if is_array(value) and as_array(value).dtype.kind not in "OUT":
        return _as_same_kind(as_array(value), dtype, what)
    exact = getattr(
        value, "to_datetime64" if dtype.kind == "M" else "to_timedelta64", None
    )  # as pandas has them
    try:
        given = np.asarray(value if exact is None else exact())
        if given.dtype.kind not in "mM":
            if dtype.kind == "m" and given.dtype.kind in "UT":
                raise TypeError("a duration is a timedelta, not a text")
            given = np.asarray(value, dtype.kind + "8")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{what} takes {dtype}, which {_shown(value)} does not fit: {error}"
        ) from None
    return given if given.dtype == dtype else _as_same_kind(given, dtype, what)


def _as_same_kind(array: npt.NDArray[Any], dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """The array converted to `dtype` within its kind (NumPy's `same_kind`; records only if NumPy calls it safe)."""
    casting: Literal["same_kind", "safe"] = "same_kind" if dtype.names is None else "safe"
    cure = f'array.astype("{dtype}")' if dtype.names is None else "array.astype"
    texts = (array.dtype.kind in "SU") != (dtype.kind in "SU")  # NumPy calls casting a number to text safe.
    counts = dtype.kind == "m" and array.dtype.kind != "m"  # NumPy ignores the unit
    if texts or counts or not np.can_cast(array.dtype, dtype, casting):
        raise InvalidArgumentError(
            f"{what} holds {dtype}, the array {array.dtype}, which is of another kind: convert it first ({cure})"
        )
    if dtype.names is None:
        wrong = changed(array, dtype) | _rounded(array, dtype)
        if wrong.any():
            lost = _shown(array[wrong].ravel()[0].item())
            raise InvalidArgumentError(
                f"{what} holds {dtype}, which {lost} of the {array.dtype} array does not fit: the value would change; "
                f"convert it first if it may ({cure})"
            )
    with np.errstate(all="ignore"):
        return array.astype(dtype)


_DIGITS = {("f", 2): 11, ("V", 2): 8, ("f", 4): 24, ("c", 8): 24}
"""Bits of the integers that a float type represents exactly; 53 for others."""


def _rounded(plain: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Which integers a float or complex type cannot represent exactly."""
    bits = 8 * plain.dtype.itemsize - (plain.dtype.kind == "i")
    if (
        plain.dtype.kind not in "iu"
        or dtype.kind not in "fcV"
        or bits <= _DIGITS.get((dtype.kind, dtype.itemsize), 53)
    ):
        return np.zeros(plain.shape, bool)
    limits = np.iinfo(plain.dtype)
    with np.errstate(all="ignore"):
        nearest = plain.astype(dtype)
        back = (nearest.real if dtype.kind == "c" else nearest).astype("f8")
        # The first float above the largest integer: its conversion differs between processors.
        beyond: npt.NDArray[np.bool_] = (back < float(limits.min)) | (back >= float(limits.max) + 1)
        other: npt.NDArray[np.bool_] = np.where(beyond, 0, back).astype(plain.dtype) != plain
        return beyond | other


def changed(plain: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Which elements a cast to a number, boolean or text of `dtype` changes by more than the last digits of a float."""
    kind = "f" if dtype.kind == "V" else dtype.kind
    if kind in "mM":
        moved: npt.NDArray[np.bool_] = ~np.isnat(plain) & (plain.astype(dtype).astype(plain.dtype) != plain)
        return moved
    if plain.dtype.kind == "c" and kind != "c":
        real: npt.NDArray[np.bool_] = plain.imag == 0
        return changed(plain.real, dtype) | ~real
    with np.errstate(all="ignore"):
        out = plain.astype(dtype)
        differs: npt.NDArray[np.bool_]
        if kind in "SU":
            differs = np.strings.str_len(out) != np.strings.str_len(plain)
        elif kind in "fc":
            differs = np.isfinite(out.astype("f8") if dtype.kind == "V" else out) != np.isfinite(plain)
        else:
            differs = out != plain
        if plain.dtype.kind == "f" and kind in "iu":
            # The first float above the largest integer: its conversion differs between processors.
            differs |= plain >= float(np.iinfo(dtype).max) + 1
    return differs


def _converted(plain: npt.NDArray[Any], value: Any, dtype: np.dtype[Any], whole: bool) -> npt.NDArray[Any]:
    if plain.size == 0:
        return plain.astype(dtype)
    match plain.dtype.kind, "f" if dtype.kind == "V" else dtype.kind:
        case ("f" | "O", "i" | "u"):
            # NumPy converts integers that no integer type can hold together to another type.
            numbers = np.asarray(value, object)
            if all(isinstance(number, int | np.integer) for number in numbers.flat):
                return numbers.astype(dtype)
        case (
            ("b", "b" | "i" | "u" | "f" | "c")
            | ("i" | "u", "i" | "u" | "f" | "c")
            | ("f", "f" | "c")
            | ("c", "c")
            | ("S" | "U", "S" | "U")
        ):
            pass
        case _:
            raise TypeError(f"{plain.dtype} is of another kind")
    if plain.dtype.kind == "O" or changed(plain, dtype).any() or (whole and _rounded(plain, dtype).any()):
        raise ValueError("the value would change")
    return plain.astype(dtype)


def as_texts(value: Any, what: str) -> npt.NDArray[np.object_]:
    """The value as an array of `str` objects."""
    if isinstance(value, str):
        out = np.empty((), object)
        out[()] = value
        return out
    texts = as_array(value) if is_array(value) else np.asarray(value, dtype=object)
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
        if ragged_element(dtype) is not None:
            raise InvalidArgumentError(
                "lists have no fill value: where nothing was written, an empty one is read"
            )
        raise InvalidArgumentError(
            "strings have no fill value: where nothing was written, the empty string is read"
        )
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if records.holds_objects(dtype):
        return records.fill_bytes(value, dtype)
    element = as_elements(value, dtype, "fill_value")
    if element.shape != ():
        raise InvalidArgumentError(f"fill_value is one value, not {_shown(value)}")
    if element.dtype != dtype:
        element = element.astype(dtype)
    return element.tobytes()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."
