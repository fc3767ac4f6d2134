"""Containers, groups and variables in notebooks: schema and index as a table. No value is read.

The index is only read if it has at most 20,000 entries, so that a notebook cell stays fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from drystone._core import readable_transform
from drystone.counted import counted, smaller
from drystone.lists import shown_element

if TYPE_CHECKING:
    from drystone.container import Container
    from drystone.described import Usage
    from drystone.group import Group
    from drystone.variable import Variable

_MOST = 60
_MOST_ENTRIES = 20_000


def variable(v: Variable) -> str:
    """A variable: type, shape, dimensions, encoding, attributes."""
    reading = v._reading()
    kind = shown_element(reading.element)
    facts: dict[str, Any] = {"dtype": kind, "shape": _shape(v), "dims": ", ".join(v.dims or ()) or "-"}
    if v.has_steps:
        facts["steps"] = f"{v.shape[0]} along the first axis"
    if v.local:
        facts["local"] = "a value of its own for each writer"
    else:
        facts["size"] = _size(v.size * reading.element.itemsize)
    facts["transform"] = readable_transform(v.transform or "none")
    if v.chunk_shape:
        facts["cut into"] = " x ".join(map(str, v.chunk_shape))
    used = _usage(v.container).get(v.container._handle.followed(v.name) or v.name)
    if used is not None:
        facts["layout"] = f"{counted(used.blocks, 'block')} of {counted(used.subchunks, 'subchunk')}"
        if used.stored:
            facts["stored"] = f"{_size(used.stored)}, {smaller(used.ratio or 1)}"
    if reading.fill is not None:
        facts["fill value"] = v.fill_value
    name = v.name if v.member is None else f"{v.name}[{v.member!r}]"
    return box(f"variable {name}", _facts(facts) + _attrs(dict(v.attrs)))


def group(g: Group, title: str, facts: Mapping[str, Any]) -> str:
    """A container or group: its variables and attributes."""
    names = list(g.variables)
    usage = _usage(g._container)
    rows = []
    for name in names[:_MOST]:
        v = g.variables[name]
        reading = v._reading()
        kind = shown_element(reading.element)
        rows.append(
            (
                name,
                kind,
                "local" if v.local else _shape(v),
                "yes" if v.has_steps else "",
                readable_transform(v.transform or ""),
                *_stored(usage, g._below(name)),
            )
        )
    shown = table(("variable", "dtype", "shape", "steps", "transform", "blocks", "stored", "ratio"), rows)
    more = f"<p>… and {len(names) - _MOST} more</p>" if len(names) > _MOST else ""
    return box(
        title, _facts(facts) + (shown if rows else "<p>no variables</p>") + more + _attrs(dict(g.attrs))
    )


def written(c: Container) -> dict[str, str]:
    """The size of a container, its ratio to the size in memory, and the uncommitted bytes in its log."""
    found = c.describe()
    facts = {
        "on disk": f"{_size(found.nbytes)} in {counted(sum(f.number for f in found.files.values()), 'file')}"
    }
    usage = _usage(c, found.entries).values()
    stored, decoded = sum(u.stored for u in usage), sum(u.decoded for u in usage)
    if stored:
        facts["blocks"] = f"{_size(stored)} for {_size(decoded)} in memory: {smaller(decoded / stored)}"
    facts["waits in the log"] = found.backlog
    return facts


def _usage(c: Container, entries: int | None = None) -> dict[str, Usage]:
    if entries is None:
        entries = c.describe().entries
    return c.usage() if entries <= _MOST_ENTRIES else {}


def _stored(usage: Mapping[str, Usage], path: str) -> tuple[str, str, str]:
    used = usage.get(path)
    if used is None:
        return "", "", ""
    return str(used.blocks), _size(used.stored), f"{used.ratio:.3g}" if used.ratio else ""


def _shape(v: Variable) -> str:
    return " x ".join(map(str, v.shape)) or "one value"


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} TiB"


def box(title: str, inner: str) -> str:
    """A titled box."""
    return f"<div><p><b>{escape(title)}</b></p>{inner}</div>"


def _facts(facts: Mapping[str, Any]) -> str:
    return table((), [(name, str(value)) for name, value in facts.items()])


def _attrs(attrs: Mapping[str, Any]) -> str:
    if not attrs:
        return ""
    shown = [
        (name, text if len(text := repr(value)) <= 120 else f"{text[:116]} ...")
        for name, value in attrs.items()
    ]
    return f"<details><summary>{len(attrs)} attributes</summary>{table((), shown)}</details>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table of rows of texts; the header may be empty."""
    head = "".join(f"<th style='text-align:left'>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"
