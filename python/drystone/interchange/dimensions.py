"""The dimensions of a netCDF file that will hold given variables.

In netCDF, an axis refers to a dimension, which has one length and is visible in the group that defines it and all
groups below. In a container, each axis has its own name and length. So this module decides before the file is created
which axes share a dimension; one that any of them can grow along is unlimited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Axis:
    """The wanted dimension of an axis; `shares`: a longer dimension may be used, as for steps."""

    name: str
    length: int
    grows: bool = False
    shares: bool = False


@dataclass
class _Dimension:
    name: str
    group: str
    length: int
    grows: bool
    shares: bool

    def serves(self, axis: Axis) -> bool:
        return self.length == axis.length or (self.shares and axis.shares)


class Dimensions:
    """Dimensions by group, defined as variables need them."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], _Dimension] = {}
        self._seen: dict[tuple[str, str], _Dimension] = {}

    def of(self, group: str, axes: Sequence[Axis]) -> list[str]:
        """The names of the dimensions of a variable of that group (`"a/b"`; `""` is the root)."""
        return [self._of(group, axis).name for axis in axes]

    def create(self, file: Any) -> None:
        """Create them in a netCDF4 dataset, with their groups."""
        for dimension in self._made.values():
            group = file.createGroup(dimension.group) if dimension.group else file
            group.createDimension(dimension.name, None if dimension.grows else dimension.length)

    def _of(self, group: str, axis: Axis) -> _Dimension:
        """The dimension of that name and length in a group.

        A number is appended to the name if the group uses another one of that name.
        """
        name, number = axis.name, 1
        while True:
            found = self._seen.get((group, name)) or self._above(group, name)
            if found is not None and found.serves(axis):
                break
            if (group, name) not in self._seen:
                found = self._made[group, name] = _Dimension(
                    name, group, axis.length, axis.grows, axis.shares
                )
                break
            number += 1
            name = f"{axis.name}_{number}"
        found.grows |= axis.grows
        found.length = max(found.length, axis.length)
        self._seen[group, name] = found
        return found

    def _above(self, group: str, name: str) -> _Dimension | None:
        """The nearest dimension of that name, in the group or one above it."""
        while (group, name) not in self._made and group:
            group = group.rpartition("/")[0]
        return self._made.get((group, name))
