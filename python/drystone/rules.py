"""Rules: compiled conversions between two memory layouts.

    src = Layout.of((1000, 1000), "f8")
    dst = Layout.of((100, 100), "f4", order="F", start=(50, 60))
    rule = compile(src, dst, narrowing="saturate")
    rule.apply(array, out)

A layout describes where a box of an abstract array is in memory. A rule copies the elements that two layouts share.
It is checked against both buffers before a byte moves, and `bytes(rule)` is a few dozen bytes that another process
can run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from drystone._core import LayoutHandle, RuleHandle
from drystone.errors import InvalidArgumentError

Extents = Sequence[SupportsIndex] | SupportsIndex


class Layout:
    """Boxes of one abstract array, and their positions in memory. `Layout.of` makes one; `a + b` joins two."""

    def __init__(self, handle: LayoutHandle) -> None:
        self._handle = handle

    @classmethod
    def of(
        cls,
        shape: Extents,
        dtype: npt.DTypeLike,
        strides: Extents | None = None,
        *,
        order: Literal["C", "F"] = "C",
        start: Extents | None = None,
        offset: SupportsIndex = 0,
        field: str = "",
    ) -> Layout:
        """A box of the array.

        Args:
            shape: The number of elements along each axis of the box.
            dtype: The type of an element. Members of records are matched by name; a member that one layout lacks is
                not copied.
            strides: Bytes from one element to the next; the box begins at its lowest byte. Dense if left out.
            order: The order if strides are omitted: `"C"` or `"F"`.
            start: The first element of the box in the abstract array; zero if left out.
            offset: Bytes from the beginning of the memory to the box.
            field: The member of the abstract array's records that this is, as in `"velocity.x"`; empty for the whole.

        """
        descr = np.dtype(dtype)
        extents = _extents(shape)
        if any(n < 0 for n in extents):
            raise InvalidArgumentError(f"the shape {tuple(extents)} has an extent below zero")
        if order not in ("C", "F"):
            raise InvalidArgumentError(f'order is "C" or "F", not {order!r}')
        if strides is None:
            dense, step = [0] * len(extents), descr.itemsize
            for axis in range(len(extents)) if order == "F" else reversed(range(len(extents))):
                dense[axis], step = step, step * max(extents[axis], 1)
            strides = dense
        begin = [0] * len(extents) if start is None else _extents(start)
        big = descr.byteorder == ">"
        if descr.names is not None and descr != descr.newbyteorder("<"):
            raise InvalidArgumentError("members of records are little-endian")
        names = [name for name in field.split(".") if name]
        return cls(
            LayoutHandle(extents, descr, _extents(strides), begin, int(offset.__index__()), names, big)
        )

    @property
    def size(self) -> int:
        """Bytes from the beginning of the memory to the end of the last box."""
        return self._handle.size

    def __add__(self, other: Layout) -> Layout:
        return Layout(self._handle.join(other._handle))


class Rule:
    """A compiled conversion. Rules are values: equal ones compare equal, hash equal, and have equal bytes."""

    def __init__(self, handle: RuleHandle) -> None:
        self._handle = handle

    @classmethod
    def from_bytes(cls, data: bytes, src_len: SupportsIndex, dst_len: SupportsIndex) -> Rule:
        """Decode a rule from anywhere.

        It is refused (`InvalidArgumentError`) unless it is valid and stays inside of `src_len` bytes to read and
        `dst_len` bytes to write.
        """
        return cls(RuleHandle.decode(bytes(data), src_len.__index__(), dst_len.__index__()))

    @property
    def src_len(self) -> int:
        """The minimum size of the source, in bytes."""
        return self._handle.src_len

    @property
    def dst_len(self) -> int:
        """The minimum size of the destination, in bytes."""
        return self._handle.dst_len

    @property
    def moved(self) -> int:
        """Bytes that are written."""
        return self._handle.moved

    @property
    def digest(self) -> bytes:
        """Sixteen bytes that are equal for equal rules in every process.

        They are a name for caches, and do not protect against forgery.
        """
        return self._handle.content_hash()

    def apply(self, src: npt.NDArray[Any], out: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Run the rule from `src` into `out`, which are dense and do not overlap; returns `out`.

        Elements of `out` that the source does not hold are not changed.
        """
        self._handle.apply(src, out)
        return out

    def __bytes__(self) -> bytes:
        return self._handle.encode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self._handle == other._handle

    def __hash__(self) -> int:
        return hash(self._handle)

    def __str__(self) -> str:
        return str(self._handle)

    def __repr__(self) -> str:
        return f"<drystone rule: {self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Rule.from_bytes, (bytes(self), self.src_len, self.dst_len)


def compile(src: Layout, dst: Layout, *, narrowing: Literal["refuse", "saturate", "wrap"] = "refuse") -> Rule:
    """The rule that copies to `dst` all elements that `src` holds.

    Numbers of different types are converted. `narrowing` applies to values that do not fit: refuse types that could
    lose something (now, not when the rule runs), take the nearest value, or keep the low bits of integers. A
    complex number that becomes a real one keeps its real part; short floats are rounded once, to nearest.
    """
    return Rule(RuleHandle.compile(src._handle, dst._handle, narrowing))


def _extents(given: Extents) -> list[int]:
    return [n.__index__() for n in given] if isinstance(given, Sequence | np.ndarray) else [given.__index__()]
