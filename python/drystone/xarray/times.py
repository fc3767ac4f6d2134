"""Encodes times without loss, and so that later ones can be appended.

Times become numbers in a unit, and appended times must use the stored unit. xarray takes the coarsest unit that holds
the times it sees: for a first step at midnight, days, which do not fit a step at six o'clock. More steps will follow,
so their times are stored in microseconds, as xarray itself stores times that it does not examine, and in nanoseconds
if they are finer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.core.common import contains_cftime_datetimes

from drystone.errors import InvalidArgumentError
from drystone.values import as_stored

_EPOCH = " since 1970-01-01"
_CENTURIES = (1 << 63) // 10**9
"""Seconds whose nanoseconds fit 64 bits."""
# From the coarsest on: NumPy's name, and that of the CF conventions.
_RESOLUTIONS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def shown_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which xarray gets values: times in a unit that it supports, if they are exact in it.

    Units finer than nanoseconds, durations of months and years, and multiples of an unsupported unit become integers.
    """
    if dtype.kind not in "mM":
        return dtype
    unit, count = np.datetime_data(dtype)
    if count == 1 and unit in _RESOLUTIONS:
        return dtype
    exact = unit in ("W", "D", "h", "m", *_RESOLUTIONS) or (dtype.kind == "M" and unit in ("Y", "M"))
    return np.dtype(f"{dtype.kind}8[{unit if unit in _RESOLUTIONS else 's'}]") if exact else np.dtype("i8")


def shown(times: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Stored times in the dtype from `shown_as`; InvalidArgumentError if one is out of its range."""
    return times.view(dtype) if dtype.kind == "i" else _finer(times, dtype)


def counted(name: str, variable: xr.Variable, dtype: np.dtype[Any]) -> xr.Variable:
    """Times that join stored ones of `dtype`, as integers in that unit, which are not encoded further."""

    def numbers(times: Any) -> npt.NDArray[np.int64]:
        given = np.asarray(times)
        stored: npt.NDArray[np.int64] = as_stored(given, dtype, f'"{name}"').view(np.int64)
        return stored

    if variable.chunks is None:
        return xr.Variable(variable.dims, numbers(variable.values), variable.attrs)
    data = variable.data.map_blocks(numbers, dtype=np.dtype(np.int64))
    return xr.Variable(variable.dims, data, variable.attrs)


def in_units_for_steps(variable: xr.Variable) -> xr.Variable:
    """The variable with an encoding that fits later steps.

    It is unchanged if it holds no times, or if its encoding determines how they are stored.
    """
    kind = variable.dtype.kind
    dates = kind == "M" or (kind == "O" and contains_cftime_datetimes(variable))
    if not (dates or kind == "m") or variable.encoding.keys() & {"units", "dtype"}:
        return variable
    variable = variable.copy(deep=False)
    unit = "nanoseconds" if kind in "mM" and _is_finer(variable) else "microseconds"
    variable.encoding = {**variable.encoding, "units": unit + (_EPOCH if dates else "")}
    if variable.chunks is not None:
        # Encoding at a later time needs both.
        variable.encoding["dtype"] = np.dtype(np.int64)
    return variable


def in_units_for_centuries(variable: xr.Variable) -> xr.Variable:
    """The variable with an encoding for times over 292 years apart; unchanged without those, or if encoded.

    xarray (2026.9) counts from the first: nanoseconds that do not fit become fractional hours, which are other times.
    """
    if (
        variable.dtype.kind != "M"
        or variable.chunks is not None
        or variable.encoding.keys() & {"units", "dtype"}
    ):
        return variable
    times = np.asarray(variable.values)
    there = times[~np.isnat(times)]
    first, last = np.array([there.min(), there.max()] if there.size else [0, 0], "M8[s]").astype(np.int64)
    if last - first < _CENTURIES:
        return variable
    variable = variable.copy(deep=False)
    unit = _RESOLUTIONS.get(np.datetime_data(times.dtype)[0], "second")
    variable.encoding = {**variable.encoding, "units": f"{unit}s{_EPOCH}", "dtype": np.dtype(np.int64)}
    return variable


def as_fine_as_units(variable: xr.Variable) -> xr.Variable:
    """The variable with times of at least the resolution of the unit in its encoding.

    xarray (2026.9) silently encodes coarser ones as missing. A time out of range for that resolution raises
    InvalidArgumentError; for a Dask array, when it is computed.
    """
    units = variable.encoding.get("units")
    if variable.dtype.kind not in "mM" or not isinstance(units, str):
        return variable
    unit = units.partition(" ")[0].lower().rstrip("s")
    names = list(_RESOLUTIONS)
    wanted = next((name for name, cf in _RESOLUTIONS.items() if cf == unit), "s")
    own = np.datetime_data(variable.dtype)[0]
    if own in names and names.index(own) >= names.index(wanted):
        return variable
    dtype = np.dtype(f"{variable.dtype.kind}8[{wanted}]")
    data = variable.data
    finer = (
        data.map_blocks(_finer, dtype, dtype=dtype) if variable.chunks is not None else _finer(data, dtype)
    )
    return variable.copy(deep=False, data=finer)


def _finer(times: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    times = np.asarray(times)
    finer: npt.NDArray[Any] = times.astype(dtype)
    wrong = ~np.isnat(times) & (finer.astype(times.dtype) != times)
    if wrong.any():
        raise InvalidArgumentError(
            f"{times[wrong][0]} cannot be stored in units of {_RESOLUTIONS[np.datetime_data(dtype)[0]]}s"
        )
    return finer


def _is_finer(variable: xr.Variable) -> bool:
    """Whether some times need more than microseconds, or may: Dask arrays are not examined."""
    if variable.chunks is not None:
        return np.datetime_data(variable.dtype)[0] == "ns"
    times = np.asarray(variable.values)
    return bool((~np.isnat(times) & (times.astype(f"{times.dtype.kind}8[us]") != times)).any())
