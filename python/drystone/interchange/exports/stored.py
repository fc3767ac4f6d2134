"""Storage of values in an exported file: chunk shapes and compression."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType

from drystone.errors import InvalidArgumentError
from drystone.variable import Variable

_LEAST_CHUNK = 16 << 10
"""Chunks smaller than this, in bytes, hold several steps."""


@dataclass(frozen=True)
class Stored:
    """The caller's options.

    By default chunks are those that the variable declares, and nothing is compressed.
    """

    level: int | None = None
    """The level of deflate, after a byte shuffle; all programs read both."""
    chunks: tuple[int, ...] | Mapping[str, tuple[int, ...] | None] | EllipsisType | None = ...
    """One shape for all variables with that number of dimensions, or shapes by variable, without the step axis; None
    for none."""

    def require_known(self, variables: Sequence[Variable]) -> None:
        """Refuse shapes that fit no variable."""
        if isinstance(self.chunks, Mapping):
            by_name = {v.name: v for v in variables}
            for name, cut in self.chunks.items():
                if name not in by_name:
                    raise InvalidArgumentError(f'chunks names "{name}", which is not exported')
                inner = by_name[name].shape[by_name[name].has_steps :]
                if cut is not None and (len(cut) != len(inner) or 0 in cut):
                    raise InvalidArgumentError(
                        f'chunks {name}={",".join(map(str, cut))}: "{name}" has {len(inner)} dimensions besides steps, '
                        "and extents are at least 1"
                    )
        elif isinstance(self.chunks, tuple) and (
            0 in self.chunks or not any(v.ndim - v.has_steps == len(self.chunks) for v in variables)
        ):
            raise InvalidArgumentError(
                f"chunks {','.join(map(str, self.chunks))}: extents are at least 1, and some variable has as many "
                "dimensions"
            )

    def cut(self, v: Variable) -> tuple[int, ...] | None:
        """The chunks of a variable with the step axis.

        None if neither the caller nor the variable gives any.
        """
        own = v.chunk_shape
        if isinstance(self.chunks, Mapping):
            own = self.chunks.get(v.name, own)
        elif self.chunks is None:
            own = None
        elif isinstance(self.chunks, tuple) and len(self.chunks) == v.ndim - v.has_steps:
            own = self.chunks
        if own is None or not v.has_steps:
            return own
        # Several steps share a chunk if a step is so small that HDF5 takes longer to find it than to read it.
        return max(1, _LEAST_CHUNK // max(1, math.prod(own) * v.dtype.itemsize)), *own
