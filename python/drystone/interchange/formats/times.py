"""Dates and durations of NumPy, which containers do not hold: integers, whose units are named as the CF conventions name them.

Values are kept exactly. What CF has no unit for is converted to one that it has, where that is exact; else the numbers stay as they are,
without a unit, and the loss is told.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.errors import UnsupportedError
from drystone.interchange.formats import Contents, native

# Of NumPy's units, those that CF has.
_UNITS = {
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
NOT_A_TIME = np.iinfo("i8").min
"""The number that NumPy keeps where there is no time."""


def is_time(dtype: np.dtype[Any]) -> bool:
    """Whether it is a type of dates or durations."""
    return dtype.kind in "mM"


def attributes(name: str, dtype: np.dtype[Any], contents: Contents) -> dict[str, str]:
    """What says of the numbers which times they are; what is lost is named."""
    stored, kept = _stored(dtype), np.datetime_data(dtype)
    unit = _UNITS.get(np.datetime_data(stored)[0])
    if unit is None:
        contents.lost.append(f"{name}: its type {native(dtype)} (the numbers are kept, without a unit)")
        return {}
    in_days = " in days" if kept[0] in "YMW" else ""
    contents.lost.append(
        f"{name}: its type {native(dtype)} (the numbers are kept{in_days}, the unit is in the attribute units)"
    )
    if dtype.kind == "m":
        return {"units": unit}
    return {"units": f"{unit} since 1970-01-01", "calendar": "proleptic_gregorian"}


def numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Times as they are stored."""
    times = values.astype(native(values.dtype), copy=False)
    stored = times.astype(_stored(times.dtype), copy=False)
    if stored is not times and not np.array_equal(stored.astype(times.dtype), times, equal_nan=True):
        raise UnsupportedError(
            f"times of type {times.dtype} that do not fit into 64 bits as {stored.dtype} cannot be taken over"
        )
    return stored.view("i8")


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of which the numbers are stored: of one unit that CF has, if that is exact."""
    unit, _ = np.datetime_data(dtype)
    if unit == "generic":
        return native(dtype)
    exact = "D" if unit == "W" or (unit in "YM" and dtype.kind == "M") else unit
    return np.dtype(f"{dtype.kind}8[{exact}]")
