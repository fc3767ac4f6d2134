"""Answers queries of the page: every argument is checked here, whatever the client sends."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drystone import errors
from drystone._core import readable_transform
from drystone.absent_steps import gaps
from drystone.container import Container
from drystone.coordinates import axis_names, coordinate
from drystone.counted import size
from drystone.errors import InvalidArgumentError, NotFoundError
from drystone.lists import shown_element
from drystone.variable import Variable
from drystone.view import pictures
from drystone.view.pictures import Picture, Source

_MOST_NAMES = 20_000
_MOST_BLOCKS = 4_000
_MOST_ENTRIES = 500_000
_MOST_COORDINATES = 20_000
_MOST_SNAPSHOTS = 500
_SNAPSHOTS_OPEN = 8
_LIMIT = 256 << 20
_EXACT = 1 << 53
_MOST_CONDITION = 4096
_MOST_GAPS = 500

Query = Mapping[str, str]


class Questions:
    """Answers about one container, from any number of threads."""

    def __init__(self, container: Container, shown: str | None = None, most: int = 1 << 50) -> None:
        """`shown` replaces the container's path, which may be private; no answer reads more than `most` bytes."""
        self._container = container
        self._shown = shown
        self._most = most
        self._earlier: dict[int, Container] = {}
        self._lock = threading.Lock()
        self._known: dict[str, Callable[[Container, Query], Any]] = {
            "state": self._state,
            "container": self._summary,
            "tree": self._tree,
            "variable": self._variable,
            "picture": self._picture,
            "hits": self._hits,
            "texts": self._texts,
            "statistics": self._statistics,
            "sample": self._sample,
            "layout": self._layout,
            "cut": self._cut,
            "plan": self._plan,
        }

    def ask(self, name: str, query: Query) -> Any:
        """The answer: JSON-compatible data, or a `Picture`. Raises a `DrystoneError` with one line."""
        if name not in self._known:
            raise NotFoundError(f"there is no such question; there are: {', '.join(self._known)}")
        try:
            return self._known[name](self._at(query), query)
        except IndexError as error:
            raise InvalidArgumentError(str(error)) from None

    def is_there(self) -> bool:
        """Whether the path still holds the container that was opened."""
        try:
            self._container.refresh()
        except (errors.ConflictError, NotFoundError):
            return False
        return True

    def _at(self, query: Query) -> Container:
        """The newest state, or that of an earlier snapshot."""
        if "snapshot" not in query:
            return self._container
        number = whole(query, "snapshot", 0)
        with self._lock:
            if number in self._earlier:
                self._earlier[number] = self._earlier.pop(number)
                return self._earlier[number]
        found = self._container.at(number)
        with self._lock:
            self._earlier[number] = found
            while len(self._earlier) > _SNAPSHOTS_OPEN:
                self._earlier.pop(next(iter(self._earlier)))
        return found

    def _limit(self, query: Query) -> int:
        """The most bytes that an answer may read."""
        wanted = whole(query, "limit", 0, 1 << 50, min(_LIMIT, self._most))
        if wanted > self._most:
            raise InvalidArgumentError(
                f"the server reads at most {size(self._most)} for one answer: show a smaller part"
            )
        return wanted

    def _state(self, c: Container, query: Query) -> Any:
        """The number of the newest snapshot, after a refresh."""
        self._container.refresh()
        return {"snapshot": int(self._container.snapshot), "steps": _span(self._container.steps)}

    def _summary(self, c: Container, query: Query) -> Any:
        found, snapshot = c.describe(), c.snapshot
        usage = c.usage() if found.entries <= _MOST_ENTRIES else {}
        history = c.snapshots
        stored, decoded = (
            sum(u.stored for u in usage.values()),
            sum(u.decoded for u in usage.values()),
        )
        return {
            "path": self._shown or str(Path(c.path).absolute()),
            "name": self._shown or Path(c.path).absolute().name,
            "uuid": c.uuid,
            "durability": c.durability,
            "snapshot": int(snapshot),
            "time": _time(snapshot.time),
            "snapshots": [
                {"number": int(one), "time": _time(one.time)} for one in reversed(history[-_MOST_SNAPSHOTS:])
            ],
            "snapshot_count": len(history),
            "steps": _span(c.steps),
            "variables": len(c.variables),
            "groups": len(c.groups),
            "attributes": pictures.described(c.attrs),
            "files": {
                folder or "beside": {"files": files.number, "bytes": files.nbytes}
                for folder, files in found.files.items()
            },
            "bytes": found.nbytes,
            "entries": found.entries,
            "stored": stored,
            "decoded": decoded,
            "usage": [
                {
                    "name": name,
                    "blocks": u.blocks,
                    "subchunks": u.subchunks,
                    "stored": u.stored,
                    "decoded": u.decoded,
                    "transforms": [readable_transform(one) for one in u.transforms],
                }
                for name, u in sorted(usage.items(), key=lambda item: -item[1].stored)[:200]
            ],
            "writers": {
                state: sum(w.state == state for w in found.writers)
                for state in sorted({w.state for w in found.writers})
            },
            "run": found.run,
            "waiting": list(found.waiting[:100]),
            "backlog": found.backlog,
            "incomplete": len(found.incomplete),
            "notes": list(found.notes),
            "published": _published(Path(c.path)),
        }

    def _tree(self, c: Container, query: Query) -> Any:
        variables = list(c.variables)
        groups = list(c.groups)
        shown = []
        for name in variables[:_MOST_NAMES]:
            v = c.variables[name]
            reading = v._reading()
            shown.append(
                {
                    "name": name,
                    "dtype": "str" if reading.strings else _dtype(reading.element),
                    "shape": None if reading.local else list(reading.shape),
                    "steps": reading.has_steps,
                    "local": reading.local,
                }
            )
        return {
            "snapshot": int(c.snapshot),
            "groups": groups[:_MOST_NAMES],
            "variables": shown,
            "left_out": max(0, len(variables) - _MOST_NAMES) + max(0, len(groups) - _MOST_NAMES),
        }

    def _variable(self, c: Container, query: Query) -> Any:
        """The attributes of a group, or everything about a variable except its values."""
        name = _name(query)
        if not name or name in c.groups:
            group = c.groups[name] if name else c
            return {"kind": "group", "name": name, "attributes": pictures.described(group.attrs)}
        v = _member(c, query)
        whole_v = c.variables[name]
        steps = v.steps if v.has_steps else []
        missing = gaps(steps, v.shape[0]) if v.has_steps and not v.local else []
        seen = _source(v, query)
        axes = _axes(v, seen)
        leaves = pictures.members(whole_v.dtype)
        scale, offset = pictures.packing(v)
        fill = _fill(v)
        return {
            "kind": "variable",
            "name": name,
            "member": v.member,
            "members": [{"name": path, "dtype": _dtype(dtype)} for path, dtype in leaves],
            "dtype": "str" if v._reading().strings else _dtype(v.dtype),
            "element": v.dtype.base.kind if v.dtype.subdtype else v.dtype.kind,
            "shape": list(seen.shape),
            "axes": axes,
            "steps": steps[-5000:],
            "has_steps": v.has_steps,
            "missing": missing[-_MOST_GAPS:],
            "missing_count": sum(end - first for first, end in missing),
            "local": v.local,
            "blocks": _local_blocks(v, query) if v.local else None,
            "transform": v.transform and readable_transform(v.transform),
            "chunks": list(v.chunk_shape) if v.chunk_shape else None,
            "growable": list(v.growable),
            "fill": fill,
            "units": str(v.attrs.get("units", "")),
            "title": str(v.attrs.get("long_name", v.attrs.get("standard_name", ""))),
            "derived": v.derived and [v.derived.text, v.derived.kind, v.derived.edge],
            "packed": (scale, offset) != (1.0, 0.0),
            "bytes": math.prod(seen.shape) * v.dtype.itemsize,
            "attributes": pictures.described(v.attrs),
            "coordinates": [None if v.local else _coordinate(c, name, axis) for axis in axes],
        }

    def _picture(self, c: Container, query: Query) -> Picture:
        seen = _source(_member(c, query), query)
        key = pictures.parse(query.get("place", ""), seen.shape)
        down = whole(query, "down", 0) if "down" in query else None
        return pictures.picture(
            seen,
            key,
            whole(query, "most", 1, pictures.MOST, 1024),
            self._limit(query),
            query.get("part", "re"),
            query.get("plain") == "1",
            down,
        )

    def _hits(self, c: Container, query: Query) -> Picture:
        """Where in a picture a condition holds: the fraction of cells for each value."""
        v = _member(c, query)
        if v.local:
            raise InvalidArgumentError("a local variable has blocks and no array: no condition is about it")
        key = pictures.parse(query.get("place", ""), v.shape)
        down = whole(query, "down", 0) if "down" in query else None
        return pictures.hits(
            c,
            v,
            key,
            _condition(query),
            whole(query, "most", 1, pictures.MOST, 1024),
            self._limit(query),
            down,
        )

    def _texts(self, c: Container, query: Query) -> Any:
        seen = _source(_member(c, query), query)
        key = pictures.parse(query.get("place", ""), seen.shape)
        return pictures.texts(seen, key, (200, 20), self._limit(query))

    def _statistics(self, c: Container, query: Query) -> Any:
        v = _member(c, query)
        _bearable(c)
        step = _step(v, query)
        found, shown = v.statistics(step), v.published_statistics(step)
        return {
            "published": None
            if shown is None
            else {
                "snapshot": shown.snapshot,
                "values": shown.values,
                "nans": shown.nans,
                "fills": shown.fills,
                "min": number(shown.min),
                "max": number(shown.max),
            },
            "blocks": found.blocks,
            "cells": found.cells,
            "nans": found.nans,
            "min": number(found.min),
            "max": number(found.max),
            "missing": _missing(v, found.min, found.max),
            "edges": None if found.edges is None else [number(edge) for edge in found.edges],
            "counts": None if found.counts is None else found.counts.tolist(),
            "infinities": list(found.infinities),
        }

    def _sample(self, c: Container, query: Query) -> Any:
        seen = _source(_member(c, query), query)
        place = query.get("place", ",".join(":" for _ in seen.shape))
        return pictures.sample(
            seen,
            pictures.parse(place, seen.shape),
            whole(query, "cells", 1, 4 << 20, 1 << 20),
            self._limit(query),
            query.get("part", "re"),
        )

    def _cut(self, c: Container, query: Query) -> Any:
        """The subchunk shapes of a variable's blocks; None for blocks that are not cut."""
        _bearable(c)
        v = _member(c, query)
        return {"cuts": c._handle.cuts().get(c._handle.followed(v.name) or v.name, [])}

    def _layout(self, c: Container, query: Query) -> Any:
        v = _member(c, query)
        _bearable(c)
        step = _step(v, query)
        blocks = v.blocks(step)
        item = v.dtype.itemsize
        return {
            "step": step,
            "shape": list(v.shape[v.has_steps :]),
            "dims": list(v.dims or (f"axis {d}" for d in range(len(v.shape) - v.has_steps))),
            "count": len(blocks),
            "left_out": max(0, len(blocks) - _MOST_BLOCKS),
            "stored": sum(b.nbytes for b in blocks),
            "decoded": sum(math.prod(b.shape) for b in blocks) * item,
            "blocks": [
                {
                    "offset": b.offset,
                    "shape": b.shape,
                    "chunks": b.chunks,
                    "writer": str(b.rank) if b.rank is not None else f"{b.writer:016x}",
                    "ranked": b.rank is not None,
                    "put": b.put,
                    "commit": b.commit,
                    "stored": b.nbytes,
                    "decoded": math.prod(b.shape) * item,
                    "transform": b.transform and readable_transform(b.transform),
                    "layout": b.layout,
                    "nans": b.nans,
                    "min": number(b.min),
                    "max": number(b.max),
                    "missing": _missing(v, b.min, b.max),
                    "members": b.members,
                    "place": b.place,
                }
                for b in blocks[-_MOST_BLOCKS:]
            ],
        }

    def _plan(self, c: Container, query: Query) -> Any:
        seen = _source(_member(c, query), query)
        key = pictures.parse(query.get("place", ""), seen.shape)
        if seen.block is not None:
            raise InvalidArgumentError("local variables are read block by block, without a plan")
        plan = seen.variable.explain[
            tuple(slice(p.start, p.stop) if isinstance(p, range) else p for p in key)
        ]
        return {"plan": str(plan)[:20_000], "read": plan.read_bytes, "requests": plan.requests}


def whole(query: Query, name: str, least: int, most: int = 1 << 62, default: int | None = None) -> int:
    """A whole number of a query, within bounds."""
    text = query.get(name)
    if text is None and default is not None:
        return default
    if text is None or len(text) > 20 or not text.lstrip("-").isascii() or not text.lstrip("-").isdigit():
        raise InvalidArgumentError(f"{name} is a whole number")
    if not least <= int(text) <= most:
        raise InvalidArgumentError(f"{name} is {text}; it may be {least} to {most}")
    return int(text)


def number(value: Any) -> Any:
    """A number that JSON and JavaScript represent exactly, else its text; None stays None."""
    if value is None:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    try:
        return number(float(value))
    except (TypeError, ValueError):
        return str(value)


def _condition(query: Query) -> str:
    text = query.get("where", "")
    if len(text) > _MOST_CONDITION:
        raise InvalidArgumentError(
            f"a condition has at most {_MOST_CONDITION} characters here, not {len(text)}"
        )
    return text


def _name(query: Query) -> str:
    name = query.get("name", "")
    if len(name) > 4096:
        raise InvalidArgumentError("the name is too long")
    return name.strip("/")


def _member(c: Container, query: Query) -> Variable:
    found = c.variables[_name(query)]
    for part in query.get("member", "").split(".") if query.get("member") else ():
        found = found[part]
    return found


def _step(v: Variable, query: Query) -> int | None:
    if not v.has_steps:
        return None
    if "step" in query:
        return whole(query, "step", 0)
    steps = v.steps
    if not steps:
        raise NotFoundError(f'"{v.name}" has no steps yet')
    return steps[-1]


def _source(v: Variable, query: Query) -> Source:
    if not v.local:
        return pictures.source(v, None)
    if not (v.steps if v.has_steps else v.blocks()):
        raise NotFoundError(f'"{v.name}" has no blocks yet')
    return pictures.source(v, (_step(v, query), whole(query, "block", 0, default=0)))


def _bearable(c: Container) -> None:
    entries = c.describe().entries
    if entries > _MOST_ENTRIES:
        raise errors.UnsupportedError(f"the index has {entries} entries, too many to go through for a page")


def _dtype(dtype: np.dtype[Any]) -> str:
    if dtype.names:
        return "record"
    if dtype.subdtype:
        return f"{shown_element(dtype.base)} {'x'.join(map(str, dtype.shape))}"
    return shown_element(dtype)


def _fill(v: Variable) -> str | None:
    return pictures.text(v.fill_value) if v._reading().fill is not None else None


def _missing(v: Variable, *extremes: Any) -> list[bool]:
    """Which of these stored extremes are missing values, such as the fill value."""
    if v.dtype.kind not in "iuf" or v.dtype.subdtype:
        return [False] * len(extremes)
    return [one is not None and bool(pictures.missing(np.asarray(one, v.dtype), v)) for one in extremes]


def _axes(v: Variable, seen: Source) -> list[str]:
    """A name for each axis of the array."""
    names = axis_names(v) if v.dims or (v.has_steps and not v.local) else []
    return [names[axis] if axis < len(names) else f"axis {axis}" for axis in range(len(seen.shape))]


def _coordinate(c: Container, name: str, axis: str) -> dict[str, Any] | None:
    """The values along an axis."""
    found = coordinate(c, name, axis, _MOST_COORDINATES)
    if found is None:
        return None
    return {
        "values": [number(value) for value in found.values],
        "units": found.units,
        "texts": found.moments,
    }


def _local_blocks(v: Variable, query: Query) -> list[dict[str, Any]]:
    return [
        {"writer": str(b.rank) if b.rank is not None else f"{b.writer:016x}", "shape": b.shape}
        for b in v.blocks(_step(v, query))[:_MOST_BLOCKS]
    ]


def _span(steps: list[int]) -> dict[str, int | None]:
    return {"count": len(steps), "first": steps[0] if steps else None, "last": steps[-1] if steps else None}


def _time(moment: Any) -> str | None:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else None


def _published(path: Path) -> int | None:
    """The snapshot of the published replica, from its own metadata."""
    try:
        with (path / "zarr" / "zarr.json").open(encoding="utf-8") as file:
            found = json.loads(file.read(1 << 20))["attributes"]["drystone"]["snapshot"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None
