"""The differences between two containers, or two snapshots of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.asked import Asked, opened
from drystone.container import Container
from drystone.enumerations import enum_names
from drystone.errors import InvalidArgumentError
from drystone.lists import ragged_element, shown_element
from drystone.progress import Progress, Report
from drystone.variable import Variable


@dataclass(frozen=True)
class Difference:
    """A difference between two containers."""

    name: str
    """Path of the variable or group; empty for the root."""
    what: str
    steps: list[int] | None = None
    """Steps that only one of the two has."""
    cells: int | None = None
    """How many values differ."""
    largest: float | None = None
    """The largest difference."""
    first: tuple[int, ...] | None = None
    """The position of the first difference."""

    def __str__(self) -> str:
        return f"{self.name or '/'}: {self.what}"


@dataclass(frozen=True)
class _Tolerance:
    atol: float
    rtol: float


def diff(
    first: Asked,
    second: Asked,
    *,
    at: tuple[int, int] | None = None,
    atol: float = 0.0,
    rtol: float = 0.0,
    attrs: bool = True,
    damaged: bool = False,
    progress: Report | bool = False,
) -> list[Difference]:
    """Compare the names, types, shapes, attributes, steps and values of two containers.

    Args:
        first: A path or URL, or a container that is open.
        second: The same, for the second one.
        at: The numbers of the snapshots of the two to compare.
        atol: Absolute tolerance: values that differ by no more than this are equal.
        rtol: Relative tolerance, as a fraction of the second value; it is added to `atol`.
        attrs: Whether attributes are compared.
        damaged: Compare what is left of containers that have lost files. Otherwise they raise `CorruptError`.
        progress: As in `import_file`.

    """
    for name, value in (("atol", atol), ("rtol", rtol)):
        if not value >= 0:
            raise InvalidArgumentError(f"{name} is a tolerance, a number of at least 0, not {value}")
    one, two = at or (None, None)
    with opened(first, one, damaged) as a, opened(second, two, damaged) as b, Progress(progress) as bar:
        return _compared(a, b, _Tolerance(atol, rtol), attrs, bar)


def _compared(
    a: Container, b: Container, tolerance: _Tolerance, attrs: bool, progress: Progress
) -> list[Difference]:
    found: list[Difference] = []

    def differ(name: str, what: str, **more: Any) -> None:
        found.append(Difference(name, what, **more))

    for kind in ("groups", "variables"):
        ours, theirs = set(getattr(a, kind)), set(getattr(b, kind))
        for name in sorted(ours ^ theirs):
            differ(name, f"only in the {'first' if name in ours else 'second'}")
    if a.steps != b.steps:
        only = sorted(set(a.steps) ^ set(b.steps))
        differ("", f"other steps: {_listed(only)}", steps=only)
    if attrs:
        for path in ["", *sorted(set(a.groups) & set(b.groups))]:
            _attrs(
                path,
                a.groups[path].attrs if path else a.attrs,
                b.groups[path].attrs if path else b.attrs,
                differ,
            )
    both = sorted(set(a.variables) & set(b.variables))
    progress.expect(sum(a.variables[name].nbytes for name in both))
    for name in both:
        v, w = a.variables[name], b.variables[name]
        if attrs:
            _attrs(name, v.attrs, w.attrs, differ)
        if v.local or w.local:
            continue
        for what in ("dtype", "dims", "has_steps"):
            one, two = getattr(v, what), getattr(w, what)
            if what == "dtype" and one.kind == two.kind == "O":
                one, two = shown_element(one), shown_element(two)
            if one != two:
                differ(name, f"{what.replace('_', ' ')}: {one} and {two}")
        if v.dtype == w.dtype and (named := _names(v.dtype)) != (others := _names(w.dtype)):
            differ(name, f"names of values: {named} and {others}")
        # Steps that only one of the containers has were named above.
        missing = sorted((set(v.steps) ^ set(w.steps)) - (set(a.steps) ^ set(b.steps)))
        if missing:
            differ(name, f"other steps: {_listed(missing)}", steps=missing)
        alike = v.dtype == w.dtype or _sort(v.dtype) == _sort(w.dtype) != "records"
        if alike and not _same(v.fill_value, w.fill_value):
            differ(name, f"fill value: {v.fill_value} and {w.fill_value}")
        if v.shape != w.shape:
            differ(name, f"shape: {v.shape} and {w.shape}")
        elif alike:
            _values(name, v, w, tolerance, differ, progress)
    return found


def _listed(steps: list[int]) -> str:
    return f"{', '.join(map(str, steps[:10]))}{' ...' if len(steps) > 10 else ''}"


def _names(dtype: np.dtype[Any]) -> dict[str, Any]:
    """The names of an enumeration's values, or those of the enumerations in a record by member."""
    if dtype.names is None:
        return dict(enum_names(dtype) or {})
    below = {name: _names(dtype[name].base) for name in dtype.names}
    return {name: names for name, names in below.items() if names}


def _attrs(name: str, ours: Any, theirs: Any, differ: Any) -> None:
    one, two = dict(ours), dict(theirs)
    for key in sorted(one.keys() | two.keys()):
        if key not in one or key not in two:
            differ(name, f"attribute {key}: only in the {'first' if key in one else 'second'}")
        elif not _same(one[key], two[key]):
            differ(name, f"attribute {key}: {one[key]!r} and {two[key]!r}")


def _same(one: Any, two: Any) -> bool:
    """Whether two attributes are equal: numbers by value, lists and arrays item by item; NaN equals NaN."""
    one, two = (
        value.tolist() if isinstance(value, np.ndarray | np.generic) else value for value in (one, two)
    )
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two or (one != one and two != two))


def _values(
    name: str, v: Variable, w: Variable, tolerance: _Tolerance, differ: Any, progress: Progress
) -> None:
    cells, largest, place = 0, 0.0, None
    for box, ours in v.pieces():
        theirs = w[box] if box else w[...]
        if not (isinstance(theirs, np.ndarray) and theirs.dtype.hasobject):
            theirs = np.asarray(theirs, w.dtype)
        different = _different(ours, theirs, tolerance)
        if different.any():
            cells += int(different.sum())
            if place is None:
                first = np.argwhere(different)[0]
                place = tuple(int(part.start + i) for part, i in zip(box, first, strict=True))
            if _sort(v.dtype) == "numbers":
                largest = max(largest, _gap(ours[different], theirs[different]))
        progress.add(ours.nbytes)
    if cells:
        by = f", by up to {largest:g}" if largest else ""  # none where one side is NaN or missing
        differ(
            name,
            f"{cells} of {v.size} values{by}, the first at {place}",
            cells=cells,
            largest=largest,
            first=place,
        )


def _different(ours: Any, theirs: Any, tolerance: _Tolerance) -> npt.NDArray[np.bool_]:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.dtype.names:
        out = np.zeros(ours.shape, bool)
        for member in ours.dtype.names:
            part = _different(ours[member], theirs[member], tolerance)
            out |= part.reshape(*ours.shape, -1).any(axis=-1)
        return out
    if _sort(ours.dtype) == "lists":
        unlike = np.zeros(ours.shape, bool)
        for place in np.ndindex(ours.shape):
            one, two = ours[place], theirs[place]
            unlike[place] = one.shape != two.shape or _different(one, two, tolerance).any()
        return unlike
    if _sort(ours.dtype) != "numbers":
        return np.asarray(ours != theirs)
    ours, theirs = _numbers(ours), _numbers(theirs)
    tolerant = (tolerance.atol or tolerance.rtol) and ours.dtype.kind not in "bmM"
    if tolerant and _are_whole(ours, theirs):
        close = _apart(ours, theirs) <= tolerance.atol + tolerance.rtol * np.abs(theirs.astype("f8"))
        return np.asarray(~close)
    near = partial(np.isclose, rtol=tolerance.rtol, atol=tolerance.atol)
    if "c" in (ours.dtype.kind, theirs.dtype.kind):
        # With NaN in one part, the other part still counts.
        parts = _different(ours.real, theirs.real, tolerance) | _different(ours.imag, theirs.imag, tolerance)
        missing = np.isnan(ours) | np.isnan(theirs)
        return np.where(missing, parts, ~near(ours, theirs)) if tolerant else parts
    if tolerant:
        return np.asarray(~near(ours, theirs, equal_nan=True))
    unlike = np.asarray(ours != theirs)
    if ours.dtype.kind == "f" and theirs.dtype.kind == "f":
        unlike &= ~(np.isnan(ours) & np.isnan(theirs))
    if ours.dtype.kind in "mM" and theirs.dtype.kind in "mM":
        unlike &= ~(np.isnat(ours) & np.isnat(theirs))
    return unlike


def _sort(dtype: np.dtype[Any]) -> str:
    """The sort of values: values of one sort can be compared, whatever their types."""
    if dtype.names:
        return "records"
    if ragged_element(dtype) is not None:
        return "lists"
    return {"O": "texts", "U": "texts", "S": "bytes"}.get(dtype.kind, "numbers")


def _numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert bfloat16, which NumPy does not know, to float32, which is exact."""
    return values.astype("f4") if values.dtype.kind == "V" else values


def _are_whole(*arrays: npt.NDArray[Any]) -> bool:
    return all(array.dtype.kind in "biu" for array in arrays)


def _apart(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """The exact differences of integers."""
    there: npt.NDArray[np.uint64] = ours.astype("u8") - theirs.astype("u8")
    return np.asarray(np.where(ours > theirs, there, -there), np.uint64)


def _gap(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> float:
    """The largest difference of numbers."""
    ours, theirs = _numbers(ours), _numbers(theirs)
    if _are_whole(ours, theirs):
        return float(_apart(ours, theirs).max())
    with np.errstate(all="ignore"):
        return float(np.nanmax(np.abs(ours.astype("c16") - theirs.astype("c16")), initial=0.0))
