"""Names of a variable's axes, and the coordinate values along them.

A coordinate is the one-dimensional variable with the name of an axis, in the variable's group or one above it, as in
netCDF's conventions. Commands and the page label axes with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.container import Container
from drystone.selection import Wanted
from drystone.variable import Variable


@dataclass(frozen=True)
class Coordinate:
    """Values along one axis, one per cell."""

    name: str
    values: npt.NDArray[Any]
    units: str
    calendar: str
    times: npt.NDArray[Any] | None = None
    """The values as instants or durations, if the variable stores those."""

    @property
    def moments(self) -> list[str] | None:
        """The values as times: as stored, or if the units count from a date and `cftime` is installed."""
        if self.times is not None:
            return [str(time) for time in self.times]
        if " since " not in self.units:
            return None
        try:
            import cftime  # type: ignore[import-untyped]

            found = cftime.num2date(self.values.astype("f8"), self.units, self.calendar.lower())
        except (ImportError, ValueError, OverflowError, TypeError):
            return None
        return [str(moment) for moment in np.ravel(found)]

    @property
    def is_northward(self) -> bool:
        """Whether the axis is a latitude or a northing, which pictures draw with the largest value at the top."""
        return bool(
            re.search("degrees?_?n", self.units, re.IGNORECASE)
            or re.match("lat|y|north", self.name, re.IGNORECASE)
        )

    @property
    def label(self) -> str:
        """Its name and units, for an axis label."""
        return f"{self.name} [{self.units}]" if self.units else self.name


def axis_names(v: Variable) -> list[str]:
    """A name for each axis of a variable, the axis of steps first; `dim_N` for those without a name."""
    own = list(v.dims or ()) or [f"dim_{d}" for d in range(v.ndim - v.has_steps)]
    return [str(v.attrs.get("_step_dim", "step")), *own] if v.has_steps and not v.local else own


def coordinate(c: Container, path: str, axis: str, most: int) -> Coordinate | None:
    """The coordinate of an axis of the variable at `path`; None if there is none, or one of more than `most` cells."""
    group = path.rpartition("/")[0]
    while True:
        name = f"{group}/{axis}" if group else axis
        if name in c.variables:
            v = c.variables[name]
            if v.ndim != 1 or v.local or v.dtype.kind not in "biufmM" or not 0 < v.size <= most:
                return None
            units = str(v.attrs.get("units", ""))
            values = np.asarray(v[...])
            if values.dtype.kind in "mM":
                return Coordinate(axis, values.view(np.int64), "", "", values)
            return Coordinate(axis, values, units, str(v.attrs.get("calendar", "standard")))
        if not group:
            return None
        group = group.rpartition("/")[0]


def selected_axes(wanted: Wanted) -> list[tuple[int, npt.NDArray[np.int64]] | None]:
    """For each axis of a selection's result: the axis of the variable that it runs along, and its cells there.

    None for new axes and for those from index arrays with several axes.
    """
    if len(wanted.kept) == len(wanted.shape):
        legs = [None if number is None else wanted.legs[number] for number in wanted.kept]
    elif tuple(leg.count for leg in wanted.legs) == wanted.shape:
        legs = list(wanted.legs)
    else:
        legs = [None] * len(wanted.shape)
    return [(leg.axes[0], leg.along(leg.axes[0])) if leg and len(leg.axes) == 1 else None for leg in legs]
