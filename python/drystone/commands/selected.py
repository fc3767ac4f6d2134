"""The part of a container that a command is about: container, variables, selection."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import Any

from drystone import container
from drystone.container import Container, require_whole
from drystone.errors import InvalidArgumentError, NotFoundError
from drystone.location import named
from drystone.variable import Variable


def place(parser: argparse.ArgumentParser) -> None:
    """The container, and which of its snapshots."""
    parser.add_argument("container", type=named, help="the container's directory")
    parser.add_argument("--at", type=int, metavar="SNAPSHOT", help="an earlier snapshot, by its number")
    damaged(parser)


def damaged(parser: argparse.ArgumentParser) -> None:
    """Whether the command goes on where files are lost."""
    what = "go on with what is left where files are lost; else that is an error (exit code 4)"
    parser.add_argument("--damaged", action="store_true", help=what)


def opened(given: argparse.Namespace) -> Container:
    """The container at the snapshot that was asked for."""
    return whole(given.container, given.at, given.damaged)


def whole(path: Path | str, at: int | None, damaged: bool) -> Container:
    """A container at a snapshot; a CorruptError where it has lost files, unless `damaged` says to go on."""
    c = container.open(path, damaged=damaged)
    shown = c if at is None else c.at(at)
    if not damaged:
        require_whole(shown)
    return shown


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


def parse(text: str | None) -> Any:
    """A selection as NumPy writes it, `[3, :, 0:8:2, [1, 5]]`, brackets optional."""
    if text is None:
        return ...
    inner = text.strip()
    for tried in (inner, f"[{inner}]"):
        try:
            tree = ast.parse(f"x{tried}", mode="eval").body
        except SyntaxError:
            continue
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
            return _item(tree.slice, text)
    raise InvalidArgumentError(f"bad selection {text!r}: write it as for NumPy, '[3, :, 0:8:2]'")


def _item(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Tuple):
        return tuple(_item(part, text) for part in node.elts)
    if isinstance(node, ast.Slice):
        return slice(
            *(None if part is None else _number(part, text) for part in (node.lower, node.upper, node.step))
        )
    if isinstance(node, ast.List):
        return [_number(part, text) for part in node.elts]
    if isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis):
        return node.value
    return _number(node, text)


def _number(node: ast.expr, text: str) -> int:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if type(value) is not int:
        raise InvalidArgumentError(f"bad selection {text!r}: {ast.unparse(node)} is no integer")
    return value
