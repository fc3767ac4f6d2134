"""Containers and groups as trees of names: `print(c)` and `c.tree()`. Only the schema is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drystone.counted import counted
from drystone.errors import InvalidArgumentError, NotFoundError
from drystone.lists import shown_element

if TYPE_CHECKING:
    from drystone.group import Group

_MOST = 500
FEW = 60


class Tree(str):
    """Text that a prompt shows unquoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def drawn(group: Group, title: str, depth: int | None, most: int = _MOST) -> str:
    """The names below a group as text, to the given depth, at most `most` of them."""
    if depth is not None and depth < 1:
        raise InvalidArgumentError(f"depth is {depth}; it must be at least 1")
    variables, groups = set(group.variables), list(group.groups)
    below: dict[str, list[str]] = {"": []}
    for path in sorted({*variables, *groups}, key=lambda path: path.split("/")):
        below.setdefault(path.rpartition("/")[0], []).append(path)
    lines = [title]
    left_out = 0
    # An explicit stack instead of recursion: paths may have hundreds of parts.
    waiting = [(path, "", path == below[""][-1], 1) for path in reversed(below[""])]
    while waiting:
        path, indent, last, level = waiting.pop()
        inside = below.get(path, [])
        if len(lines) > most:
            left_out += 1
        else:
            name = path.rpartition("/")[2]
            if not name.isprintable():  # A name must not send control sequences to a terminal.
                name = repr(name)[1:-1]
            what = f"  {_form(group, path)}" if path in variables else "/"
            lines.append(f"{indent}{'└── ' if last else '├── '}{name}{what}")
        if depth is not None and level >= depth:
            continue
        indent += "    " if last else "│   "
        waiting.extend((one, indent, one == inside[-1], level + 1) for one in reversed(inside))
    if left_out:
        lines.append(f"… and {counted(left_out, 'more name')}")
    return "\n".join(lines)


def _form(group: Group, path: str) -> str:
    """The type and shape of a variable, in a few words."""
    try:
        variable = group.variables[path]
        reading = variable._reading()
    except NotFoundError as error:  # It has been deleted since.
        return f"({error})"
    kind = shown_element(reading.element)
    dims = variable.dims or ()
    named = ("step", *dims) if reading.has_steps and dims else dims
    what = "local " if reading.local else ""
    axes = f" ({', '.join(named)})" if named else ", with steps" if reading.has_steps else ""
    return f"{what}{kind}{'' if reading.local else f' {reading.shape}'}{axes}"
