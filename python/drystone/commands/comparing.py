"""`drystone diff`: what two containers, or two snapshots of one, hold differently."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone import container
from drystone.commands.outcome import Outcome
from drystone.commands.progress import Progress
from drystone.container import Container
from drystone.variable import Variable


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("first", type=Path, help="a container")
    parser.add_argument("second", type=Path, help="the other")
    parser.add_argument("--at", type=int, nargs=2, metavar=("FIRST", "SECOND"), help="snapshots of the two")
    parser.add_argument(
        "--atol", type=_tolerance, default=0.0, help="differences of values up to this are none"
    )
    parser.add_argument(
        "--rtol", type=_tolerance, default=0.0, help="and up to this part of the second value"
    )
    parser.add_argument("--no-attrs", action="store_true", help="do not compare attributes")


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
    with container.open(given.first) as first, container.open(given.second) as second:
        a, b = (
            c if at is None else c.at(at)
            for c, at in zip((first, second), given.at or (None, None), strict=True)
        )
        found = _compared(a, b, given)
    lines = [f"{d['name'] or '/'}: {d['what']}" for d in found]
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
            for what in ("dtype", "dims", "has_steps", "fill_value"):
                one, two = getattr(v, what), getattr(w, what)
                if not (one == two or (what == "fill_value" and one != one and two != two)):
                    differ(name, f"{what.replace('_', ' ')}: {one} and {two}")
            if v.shape != w.shape:
                differ(name, f"shape: {v.shape} and {w.shape}")
            elif v.dtype == w.dtype or not (v.dtype.names or w.dtype.names):
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
    try:
        return bool(np.array_equal(one, two, equal_nan=True))
    except TypeError:
        return bool(np.array_equal(one, two))


def _values(
    name: str, v: Variable, w: Variable, given: argparse.Namespace, differ: Any, progress: Progress
) -> None:
    cells, largest, place = 0, 0.0, None
    for box, ours in v.chunks():
        theirs = np.asarray(w[box] if box else w[...], w.dtype)
        different = _different(ours, theirs, given)
        if different.any():
            cells += int(different.sum())
            if place is None:
                first = np.argwhere(different)[0]
                place = tuple(int(part.start + i) for part, i in zip(box, first, strict=True))
            if ours.dtype.kind in "biufc":
                with np.errstate(all="ignore"):
                    gap = np.abs(ours[different].astype("c16") - theirs[different].astype("c16"))
                largest = max(largest, float(np.nanmax(gap, initial=0.0)))
        progress.add(ours.nbytes)
    if cells:
        by = f", by up to {largest:g}" if v.dtype.kind in "biufc" else ""
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
    if ours.dtype.kind in "fc" and theirs.dtype.kind in "biufc":
        if given.atol or given.rtol:
            return np.asarray(~np.isclose(ours, theirs, rtol=given.rtol, atol=given.atol, equal_nan=True))
        return np.asarray((ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs)))
    if (given.atol or given.rtol) and ours.dtype.kind in "iu":
        apart = np.where(ours > theirs, ours, theirs).astype("u8") - np.where(
            ours > theirs, theirs, ours
        ).astype("u8")
        close = apart <= given.atol + given.rtol * np.abs(theirs.astype("f8"))
        return np.asarray(~close)
    return np.asarray(ours != theirs)
