"""`drystone diff`: what two containers, or two snapshots of one, hold differently."""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.commands.outcome import Outcome, shown
from drystone.commands.progress import Progress
from drystone.commands.selected import damaged, whole
from drystone.container import Container
from drystone.location import named
from drystone.variable import Variable


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("first", type=named, help="a container")
    parser.add_argument("second", type=named, help="the other")
    parser.add_argument("--at", type=int, nargs=2, metavar=("FIRST", "SECOND"), help="snapshots of the two")
    parser.add_argument(
        "--atol", type=_tolerance, default=0.0, help="differences of values up to this are none"
    )
    parser.add_argument(
        "--rtol", type=_tolerance, default=0.0, help="and up to this part of the second value"
    )
    parser.add_argument("--no-attrs", action="store_true", help="do not compare attributes")
    damaged(parser)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text} is no tolerance: a number of at least 0")
    return value


def run(given: argparse.Namespace) -> Outcome:
    """Compare names, types, shapes, attributes, steps and every value."""
    one, two = given.at or (None, None)
    with whole(given.first, one, given.damaged) as a, whole(given.second, two, given.damaged) as b:
        found = _compared(a, b, given)
    lines = [shown(f"{d['name'] or '/'}: {d['what']}") for d in found]
    return Outcome("\n".join(lines) or "no difference", {"differences": found}, code=1 if found else 0)


def _compared(a: Container, b: Container, given: argparse.Namespace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def differ(name: str, what: str, **more: Any) -> None:
        found.append({"name": name, "what": what, **more})

    for kind in ("groups", "variables"):
        ours, theirs = set(getattr(a, kind)), set(getattr(b, kind))
        for name in sorted(ours ^ theirs):
            differ(name, f"only in the {'first' if name in ours else 'second'}")
    if a.steps != b.steps:
        only = sorted(set(a.steps) ^ set(b.steps))
        differ(
            "", f"other steps: {', '.join(map(str, only[:10]))}{' ...' if len(only) > 10 else ''}", steps=only
        )
    if not given.no_attrs:
        for path in ["", *sorted(set(a.groups) & set(b.groups))]:
            _attrs(
                path,
                a.groups[path].attrs if path else a.attrs,
                b.groups[path].attrs if path else b.attrs,
                differ,
            )
    both = sorted(set(a.variables) & set(b.variables))
    with Progress(sum(a.variables[name].nbytes for name in both)) as progress:
        for name in both:
            v, w = a.variables[name], b.variables[name]
            if not given.no_attrs:
                _attrs(name, v.attrs, w.attrs, differ)
            if v.local or w.local:
                continue
            for what in ("dtype", "dims", "has_steps"):
                one, two = getattr(v, what), getattr(w, what)
                if one != two:
                    differ(name, f"{what.replace('_', ' ')}: {one} and {two}")
            alike = v.dtype == w.dtype or _sort(v.dtype) == _sort(w.dtype) != "records"
            if alike and not _same(v.fill_value, w.fill_value):
                differ(name, f"fill value: {v.fill_value} and {w.fill_value}")
            if v.shape != w.shape:
                differ(name, f"shape: {v.shape} and {w.shape}")
            elif alike:
                _values(name, v, w, given, differ, progress)
    return found


def _attrs(name: str, ours: Any, theirs: Any, differ: Any) -> None:
    one, two = dict(ours), dict(theirs)
    for key in sorted(one.keys() | two.keys()):
        if key not in one or key not in two:
            differ(name, f"attribute {key}: only in the {'first' if key in one else 'second'}")
        elif not _same(one[key], two[key]):
            differ(name, f"attribute {key}: {one[key]!r} and {two[key]!r}")


def _same(one: Any, two: Any) -> bool:
    """Whether two attributes are: numbers by their values, lists and arrays item by item; NaN is NaN."""
    one, two = (
        value.tolist() if isinstance(value, np.ndarray | np.generic) else value for value in (one, two)
    )
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two or (one != one and two != two))


def _values(
    name: str, v: Variable, w: Variable, given: argparse.Namespace, differ: Any, progress: Progress
) -> None:
    cells, largest, place = 0, 0.0, None
    for box, ours in v.pieces():
        theirs = np.asarray(w[box] if box else w[...], w.dtype)
        different = _different(ours, theirs, given)
        if different.any():
            cells += int(different.sum())
            if place is None:
                first = np.argwhere(different)[0]
                place = tuple(int(part.start + i) for part, i in zip(box, first, strict=True))
            if _sort(v.dtype) == "numbers":
                largest = max(largest, _gap(ours[different], theirs[different]))
        progress.add(ours.nbytes)
    if cells:
        by = f", by up to {largest:g}" if _sort(v.dtype) == "numbers" else ""
        differ(
            name,
            f"{cells} of {v.size} values{by}, the first at {place}",
            cells=cells,
            largest=largest,
            first=place,
        )


def _different(ours: Any, theirs: Any, given: argparse.Namespace) -> npt.NDArray[np.bool_]:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.dtype.names:
        out = np.zeros(ours.shape, bool)
        for member in ours.dtype.names:
            part = _different(ours[member], theirs[member], given)
            out |= part.reshape(*ours.shape, -1).any(axis=-1)
        return out
    if _sort(ours.dtype) != "numbers":
        return np.asarray(ours != theirs)
    ours, theirs = _numbers(ours), _numbers(theirs)
    tolerant = (given.atol or given.rtol) and ours.dtype.kind != "b"
    if tolerant and _are_whole(ours, theirs):
        close = _apart(ours, theirs) <= given.atol + given.rtol * np.abs(theirs.astype("f8"))
        return np.asarray(~close)
    if tolerant:
        return np.asarray(~np.isclose(ours, theirs, rtol=given.rtol, atol=given.atol, equal_nan=True))
    unlike = np.asarray(ours != theirs)
    if ours.dtype.kind in "fc" and theirs.dtype.kind in "fc":
        unlike &= ~(np.isnan(ours) & np.isnan(theirs))
    return unlike


def _sort(dtype: np.dtype[Any]) -> str:
    """Values of one sort can be compared, whatever their types."""
    if dtype.names:
        return "records"
    return {"O": "texts", "U": "texts", "S": "bytes"}.get(dtype.kind, "numbers")


def _numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """With bfloat16, which NumPy does not know, as float32, which holds it."""
    return values.astype("f4") if values.dtype.kind == "V" else values


def _are_whole(*arrays: npt.NDArray[Any]) -> bool:
    return all(array.dtype.kind in "biu" for array in arrays)


def _apart(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """How far integers are apart, exactly."""
    there: npt.NDArray[np.uint64] = ours.astype("u8") - theirs.astype("u8")
    return np.asarray(np.where(ours > theirs, there, -there), np.uint64)


def _gap(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> float:
    """How far numbers are apart at most."""
    ours, theirs = _numbers(ours), _numbers(theirs)
    if _are_whole(ours, theirs):
        return float(_apart(ours, theirs).max())
    with np.errstate(all="ignore"):
        return float(np.nanmax(np.abs(ours.astype("c16") - theirs.astype("c16")), initial=0.0))
