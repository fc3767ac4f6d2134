"""Dates and durations in formats without such types: integers, with units as in the CF conventions.

Values stay exact. A unit that CF lacks is converted to one that it has, if that is exact; else the numbers stay
unchanged, and an attribute names their NumPy type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.errors import UnsupportedError

# NumPy's units that CF also has.
_UNITS = {
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}


def is_time(dtype: np.dtype[Any]) -> bool:
    """Whether it is a type of dates or durations."""
    return dtype.kind in "mM"


def has_no_unit(dtype: np.dtype[Any]) -> bool:
    """Whether it is such a type without a unit, which containers do not support."""
    return is_time(dtype) and np.datetime_data(dtype)[0] == "generic"


def attributes(dtype: np.dtype[Any]) -> dict[str, str]:
    """Attributes that define the times of the numbers."""
    unit, count = np.datetime_data(stored_as(dtype))
    name = _UNITS.get(unit) if count == 1 else None
    if name is None:
        return {"numpy_dtype": str(dtype)}
    if dtype.kind == "m":
        return {"units": name}
    return {"units": f"{name} since 1970-01-01", "calendar": "proleptic_gregorian"}


def numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Times as such integers."""
    times = np.asarray(values)
    times = times.astype(times.dtype.newbyteorder("="), copy=False)
    stored = times.astype(stored_as(times.dtype), copy=False)
    if stored is not times and not np.array_equal(stored.astype(times.dtype), times, equal_nan=True):
        raise UnsupportedError(
            f"times of type {times.dtype} that do not fit into 64 bits as {stored.dtype} cannot be taken over"
        )
    return stored.view("i8")


def stored_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the stored numbers: in a single unit that CF has, if that is exact."""
    unit, _ = np.datetime_data(dtype)
    if unit == "generic":
        return dtype.newbyteorder("=")
    exact = "D" if unit == "W" or (unit in "YM" and dtype.kind == "M") else unit
    return np.dtype(f"{dtype.kind}8[{exact}]")
