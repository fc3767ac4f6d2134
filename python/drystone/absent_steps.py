"""Steps of a selection in which a variable has no data (docs/guide/reading.md, "Missing steps")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from drystone.selection import select
from drystone.variable import Variable


def absent_steps(v: Variable, key: Any) -> list[int]:
    """The selected steps in which nothing was written, ascending."""
    if not v.has_steps:
        return []
    there = set(v.steps)
    of_steps = [leg.along(0) for leg in select(key, v.shape).legs if 0 in leg.axes]
    return sorted({int(step) for numbers in of_steps for step in np.ravel(numbers)} - there)


def gaps(there: Sequence[int], count: int) -> list[tuple[int, int]]:
    """The half-open ranges of the steps below `count` that are not in `there`, which ascends."""
    edges = [-1, *there, count]
    return [(a + 1, b) for a, b in pairwise(edges) if b - a > 1]


def listed(steps: list[int]) -> str:
    """The ranges for a message; at most eight of them."""
    return ", ".join(map(str, steps[:8])) + (", ..." if len(steps) > 8 else "")
