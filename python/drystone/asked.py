"""Arguments that name a container, a variable and a selection."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drystone import _core, opening
from drystone.container import Container
from drystone.errors import InvalidArgumentError, NotFoundError
from drystone.location import named
from drystone.opening import require_whole
from drystone.variable import Variable

Asked = Container | str | os.PathLike[str]
"""An open container, or a path or URL."""


@contextmanager
def opened(asked: Asked, at: int | None = None, damaged: bool = False) -> Iterator[Container]:
    """A container at a snapshot; closed afterwards if it was opened here.

    A container with lost files raises `CorruptError`, unless `damaged` is set.
    """
    if isinstance(asked, Container):
        yield _at(asked, at, damaged)
        return
    with opening.open(where(asked), damaged=damaged) as c:
        yield _at(c, at, damaged)


def _at(c: Container, at: int | None, damaged: bool) -> Container:
    shown = c if at is None else c.at(at)
    if not damaged:
        require_whole(shown)
    return shown


def where(path: str | os.PathLike[str]) -> str | Path:
    """A path or URL, as `drystone.open` takes it."""
    return named(os.fspath(path))


def variable(c: Container, name: str) -> Variable:
    """A variable, or a member of one, as `name.member`."""
    if name in c.variables:
        return c.variables[name]
    path, _, member = name.partition(".")
    while member and path not in c.variables and "." in member:
        more, _, member = member.partition(".")
        path = f"{path}.{more}"
    if member and path in c.variables:
        found: Variable = c.variables[path][member]
        return found
    if name.strip("/") in c.groups:
        raise NotFoundError(f'"{name}" is a group; it has: {", ".join(c.groups[name.strip("/")].variables)}')
    return c.variables[name]


def names(asked: str | Sequence[str] | None) -> list[str]:
    """The distinct names of the requested variables; a single name may be given as a text."""
    return [asked] if isinstance(asked, str) else list(dict.fromkeys(asked or ()))


def selection(asked: Any) -> Any:
    """The NumPy index of a text such as `[3, :, 0:8:2, [1, 5]]`.

    Other keys are returned as they are; None is everything.
    """
    if asked is None:
        return ...
    if not isinstance(asked, str):
        return asked
    try:
        found = _core.parse_selection(asked)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"bad selection {asked!r}: {error}") from None
    return (found[0] if len(found) == 1 else found) if found else ...
