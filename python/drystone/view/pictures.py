"""The data of a picture: one or two axes of a variable, at fixed positions along the others.

Large axes are read with a stride, so that an answer has at most `most` values along each. The plan tells the cost of a
read: beyond a limit it is not started, and the page may ask again with a higher limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drystone.absent_steps import absent_steps
from drystone.counted import counted
from drystone.errors import DrystoneError, InvalidArgumentError, NotFoundError
from drystone.values import as_elements
from drystone.variable import Variable

if TYPE_CHECKING:
    from drystone.container import Container

MOST = 2048
_MOST_OF_A_BLOCK = 256 << 20
_BINS = 48
_MOST_MARKED = 1 << 26

Key = tuple[int | range, ...]


class CostlyError(DrystoneError):
    """A read that takes more bytes than the request allows."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(f"this would read {nbytes} bytes: show a smaller part, or read them anyway")
        self.nbytes = nbytes


@dataclass(frozen=True)
class Picture:
    """Values of a picture, `float32` or `float64`, NaN for missing ones, with their description."""

    header: dict[str, Any]
    values: npt.NDArray[Any]


@dataclass(frozen=True)
class Source:
    """The array of a picture: a variable of the container, or one block of a local variable."""

    variable: Variable
    shape: tuple[int, ...]
    block: tuple[int | None, int] | None = None

    def plan(self, key: Sequence[int | slice]) -> tuple[int, Any]:
        """The bytes that a read takes, and a function that reads."""
        if self.block is not None:
            step, number = self.block
            found = self.variable.blocks(step)
            if not 0 <= number < len(found):
                raise NotFoundError(f"there is no block {number}; there are {len(found)}")
            whole = math.prod(found[number].shape) * self.variable.dtype.itemsize
            if whole > _MOST_OF_A_BLOCK:
                raise CostlyError(whole)
            return whole, lambda: np.asarray(self.variable.read_block(step, number))[tuple(key)]
        view = self.variable.lazy[tuple(key)]
        return view.explain.read_bytes, view.read


def source(variable: Variable, block: tuple[int | None, int] | None) -> Source:
    """The array of a variable, or, for local variables, of one block."""
    if not variable.local:
        return Source(variable, variable.shape)
    step, number = block or (variable.steps[-1] if variable.has_steps and variable.steps else None, 0)
    found = variable.blocks(step)
    if not 0 <= number < len(found):
        raise NotFoundError(
            f'"{variable.name}" has {counted(len(found), "block")} there; there is no block {number}'
        )
    return Source(variable, (*found[number].shape, *variable._reading().inner), (step, number))


def parse(text: str, shape: Sequence[int]) -> Key:
    """A position in an array: per axis an index, or `begin:end` for a shown axis; `:` is the whole axis."""
    parts = text.split(",") if text else []
    if len(parts) != len(shape):
        raise InvalidArgumentError(f"the place has {len(parts)} axes, the array {len(shape)}")
    return tuple(_axis(part, n) for part, n in zip(parts, shape, strict=True))


def _axis(part: str, n: int) -> int | range:
    begin, colon, end = part.partition(":")
    try:
        first = int(begin) if begin else 0
        last = (int(end) if end else n) if colon else first + 1
    except ValueError:
        raise InvalidArgumentError(f"{part[:40]!r} is not a position on an axis") from None
    if not 0 <= first < last <= n:
        raise InvalidArgumentError(f"{part[:40]} lies outside an axis of {n} cells")
    return range(first, last) if colon else first


def picture(
    source: Source, key: Key, most: int, limit: int, part: str, plain: bool, down: int | None = None
) -> Picture:
    """Read one or two axes.

    Args:
        source: The array.
        key: Indices, and a range for each axis that is shown.
        most: The most values along an axis.
        limit: The most bytes that may be read.
        part: For complex numbers: `re`, `im`, `abs` or `phase`.
        plain: As stored: fill values are shown, and packed values are not unpacked.
        down: Of two axes, the one that runs down.

    """
    axes = [axis for axis, place in enumerate(key) if isinstance(place, range)]
    if len(axes) not in (1, 2):
        raise InvalidArgumentError(f"a picture shows one or two axes, not {len(axes)}")
    strides = {axis: max(1, math.ceil(len(_range(key[axis])) / most)) for axis in axes}
    reads, read = source.plan([_with_stride(place, strides.get(axis, 1)) for axis, place in enumerate(key)])
    absent = _absent(source, key, strides.get(0, 1))
    if reads > limit:
        raise CostlyError(reads)
    began = time.perf_counter()
    stored = np.asarray(read())
    took = time.perf_counter() - began
    values, left_out = numbers(stored, source.variable, part, plain)
    if absent.any():
        if not plain and source.variable.dtype.kind != "c":
            left_out -= int(missing(stored[absent], source.variable).sum())
        values[absent] = np.nan
    lacking = int(absent.sum()) * (values.size // max(1, len(absent)))
    if len(axes) == 2 and down == axes[1]:
        values, axes = values.T, axes[::-1]
    header = {
        "dtype": "f4" if values.dtype == np.float32 else "f8",
        "shape": values.shape,
        "axes": axes,
        "starts": [_range(key[axis]).start for axis in axes],
        "stops": [_range(key[axis]).stop for axis in axes],
        "strides": [strides[axis] for axis in axes],
        "integers": stored.dtype.kind in "biu",
        "read": reads,
        "seconds": took,
        "left_out": left_out,
        "absent": int(absent.sum()),
        "absent_cells": lacking,
        **summary(values),
    }
    return Picture(header, np.ascontiguousarray(values))


def _absent(source: Source, key: Key, stride: int) -> npt.NDArray[np.bool_]:
    """Which rows of a read are steps without committed values; an error if the only row is one."""
    steps = key[0] if key else 0
    rows = np.asarray(steps[::stride] if isinstance(steps, range) else [], "i8")
    if source.block is not None or not source.variable.has_steps:
        return np.zeros(len(rows), bool)
    if isinstance(steps, range):
        return np.isin(rows, absent_steps(source.variable, slice(steps.start, steps.stop)))
    if absent_steps(source.variable, steps):
        raise NotFoundError(
            f'step {steps} of "{source.variable.name}" is missing: nothing was committed of it'
        )
    return np.zeros(0, bool)


def hits(
    container: Container,
    variable: Variable,
    key: Key,
    where: str,
    most: int,
    limit: int,
    down: int | None = None,
) -> Picture:
    """For each value of a picture, the fraction of its cells that satisfy a condition.

    Args:
        container: The container of the variables in the condition.
        variable: The variable of the picture.
        key: Indices, and a range for each axis that is shown.
        where: The condition.
        most: The most values along an axis, as for the picture.
        limit: The most bytes that may be read.
        down: Of two axes, the one that runs down.

    """
    axes = [axis for axis, place in enumerate(key) if isinstance(place, range)]
    if len(axes) not in (1, 2):
        raise InvalidArgumentError(f"a picture shows one or two axes, not {len(axes)}")
    cells = [slice(place.start, place.stop) if isinstance(place, range) else place for place in key]
    steps: Any = None
    if variable.has_steps:
        first, *cells = cells
        steps = first
    q = container.query(where, tuple(cells), steps=steps, over=[variable.name])
    if math.prod(q.shape) != math.prod(len(_range(key[axis])) for axis in axes):
        raise InvalidArgumentError(f"`{where}` is about the cells of another variable")
    if math.prod(q.shape) > _MOST_MARKED:
        raise InvalidArgumentError(f"hits are shown in {_MOST_MARKED} cells at most: drag over a part")
    if q.explain.bytes > limit:
        raise CostlyError(q.explain.bytes)
    began = time.perf_counter()
    mask = q.mask().reshape([len(_range(key[axis])) for axis in axes])
    took = time.perf_counter() - began
    found = int(mask.sum())
    parts: npt.NDArray[Any] = mask.astype(np.float32)
    strides = [max(1, math.ceil(n / most)) for n in mask.shape]
    for axis, stride in enumerate(strides):
        edges = np.arange(0, parts.shape[axis], stride)
        sums = np.add.reduceat(parts, edges, axis=axis)
        each = np.diff([*edges.tolist(), parts.shape[axis]]).astype(np.float32)
        parts = sums / (each if axis == parts.ndim - 1 else each[:, None])
    if len(axes) == 2 and down == axes[1]:
        parts, axes = parts.T, axes[::-1]
    header = {
        "dtype": "f4",
        "shape": parts.shape,
        "axes": axes,
        "hits": found,
        "cells": mask.size,
        "read": q.report.bytes,
        "seconds": took,
    }
    return Picture(header, np.ascontiguousarray(parts.astype(np.float32)))


def _range(place: int | range) -> range:
    assert isinstance(place, range)
    return place


def _with_stride(place: int | range, stride: int) -> int | slice:
    return slice(place.start, place.stop, stride) if isinstance(place, range) else place


def numbers(
    stored: npt.NDArray[Any], variable: Variable, part: str, plain: bool
) -> tuple[npt.NDArray[Any], int]:
    """The drawn values: floats, with NaN for missing ones, and the number of these."""
    if stored.dtype.kind == "c":
        parts: dict[str, Callable[[Any], Any]] = {
            "re": np.real,
            "im": np.imag,
            "abs": np.abs,
            "phase": np.angle,
        }
        if part not in parts:
            raise InvalidArgumentError(f"a complex number has re, im, abs and phase, not {part[:20]!r}")
        stored = parts[part](stored)
    small = stored.dtype.itemsize <= (4 if stored.dtype.kind in "fV" else 2)
    if stored.dtype.kind not in "biufV" or stored.dtype.names or (stored.dtype.kind == "V" and not small):
        raise InvalidArgumentError(f"{stored.dtype} is not drawn")
    values = stored.astype("f4" if small else "f8")
    if plain or variable.dtype.kind == "c":
        return values, 0
    left_out = missing(stored, variable)
    values[left_out] = np.nan
    scale, offset = packing(variable)
    if (scale, offset) != (1.0, 0.0):
        values = values.astype("f8") * scale + offset
    return values, int(left_out.sum())


def packing(variable: Variable) -> tuple[float, float]:
    """Scale and offset of packed values, in the attributes of the CF conventions."""
    given = variable.attrs
    try:
        return float(given.get("scale_factor", 1)), float(given.get("add_offset", 0))
    except (TypeError, ValueError):
        return 1.0, 0.0


def missing(stored: npt.NDArray[Any], variable: Variable) -> npt.NDArray[np.bool_]:
    """Which values are missing: `_FillValue`, `missing_value`, or the fill value if one was given."""
    attrs = variable.attrs
    out = np.zeros(stored.shape, bool)
    stands = [attrs.get("_FillValue"), attrs.get("missing_value")]
    if variable._reading().fill is not None and attrs.get("_FillValue") is None:
        stands.append(variable.fill_value)
    for value in stands:
        try:
            several = np.ravel(value) if value is not None else ()
        except ValueError:  # lists of different lengths
            continue
        for one in several:
            with suppress(InvalidArgumentError):  # in another type, or rounded, it would be a different value
                out |= stored == as_elements(one, stored.dtype, "")[()]
    return out


def summary(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Count, extremes, mean, deviation and histogram of the drawn values."""
    finite = values[np.isfinite(values)]
    out: dict[str, Any] = {
        "count": int(values.size),
        "nans": int(np.isnan(values).sum()),
        "infinities": int(np.isinf(values).sum()),
        "min": None,
        "max": None,
        "mean": None,
        "deviation": None,
        "edges": [],
        "counts": [],
    }
    if finite.size == 0:
        return out
    wide = finite.astype("f8")
    with np.errstate(all="ignore"):
        low, high, mean, deviation = wide.min(), wide.max(), wide.mean(), wide.std()
    out["min"], out["max"] = float(low), float(high)
    out["mean"], out["deviation"] = _finite(mean), _finite(deviation)
    if np.isfinite(high - low):
        try:
            counts, edges = np.histogram(wide, bins=_BINS if high > low else 1)
        except ValueError:  # too close together for this many bins
            counts, edges = np.array([wide.size]), np.array([low, high])
        out["edges"], out["counts"] = edges.tolist(), counts.tolist()
    return out


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def texts(source: Source, key: Key, most: tuple[int, int], limit: int) -> dict[str, Any]:
    """Cells of any type as a table of texts, along up to two axes, from the start of the selection."""
    axes = [axis for axis, place in enumerate(key) if isinstance(place, range)]
    if len(axes) > 2:
        raise InvalidArgumentError(f"a table shows up to two axes, not {len(axes)}")
    bounds = dict(zip(axes, most, strict=False))
    cut = [place[: bounds[axis]] if isinstance(place, range) else place for axis, place in enumerate(key)]
    reads, read = source.plan([_with_stride(place, 1) for place in cut])
    if reads > limit:
        raise CostlyError(reads)
    absent = _absent(source, tuple(cut), 1)
    values = np.asarray(read(), dtype=object if source.variable.dtype.kind == "O" else None)
    extents = [len(_range(cut[axis])) for axis in axes]
    rows = values.reshape((*extents, 1, 1)[:2])
    gaps = absent if axes and axes[0] == 0 else np.zeros(len(rows), bool)
    return {
        "cells": [
            ["missing" if gap else text(cell) for cell in row] for row, gap in zip(rows, gaps, strict=True)
        ],
        "axes": axes,
        "starts": [_range(key[axis]).start for axis in axes],
        "stops": [_range(key[axis]).stop for axis in axes],
    }


def text(value: Any) -> str:
    """One cell, complete except for long texts and members that are arrays."""
    if isinstance(value, np.void) and value.dtype.names:
        members = (f"{name}: {text(value[name])}" for name in value.dtype.names)
        return f"({', '.join(members)})"
    if isinstance(value, np.ndarray):
        with np.printoptions(threshold=20):
            return str(value)[:400]
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    said = str(value)
    return said if len(said) <= 400 else f"{said[:396]} …"


def sample(source: Source, key: Key, cells: int, limit: int, part: str) -> dict[str, Any]:
    """Statistics of values that are read: all of them, or every n-th along each axis, about `cells` in total."""
    extents = [len(place) for place in key if isinstance(place, range)]
    wanted = math.prod(extents)
    stride = 1
    while wanted and math.prod(math.ceil(n / stride) for n in extents) > cells:
        stride += max(1, stride // 4)
    reads, read = source.plan([_with_stride(place, stride) for place in key])
    if reads > limit:
        raise CostlyError(reads)
    values, left_out = numbers(np.asarray(read()), source.variable, part, False)
    return {**summary(np.atleast_1d(values)), "stride": stride, "left_out": left_out, "of": wanted}


def members(dtype: np.dtype[Any], above: str = "") -> list[tuple[str, np.dtype[Any]]]:
    """The leaves of a record: path and type of each; none for other types."""
    found: list[tuple[str, np.dtype[Any]]] = []
    for name in dtype.names or ():
        member = dtype.fields[name][0] if dtype.fields else dtype
        path = f"{above}.{name}" if above else name
        found.extend(members(member.base, path) if member.base.names else [(path, member)])
    return found


def described(attrs: Mapping[str, Any]) -> list[dict[str, str]]:
    """Attributes as texts, with their types."""
    out = []
    for name, value in attrs.items():
        kind = str(value.dtype) if isinstance(value, np.ndarray | np.generic) else type(value).__name__
        said = str(value.tolist()) if isinstance(value, np.ndarray) else str(value)
        out.append({"name": name, "type": kind, "value": said if len(said) <= 4000 else f"{said[:3996]} …"})
    return out
