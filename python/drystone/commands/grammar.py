"""All commands and their arguments as data, read off the two parsers: that of the compiled commands, and argparse."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Argument:
    """One argument of a command."""

    name: str
    flags: tuple[str, ...]
    """How it is given, as in `-o` and `--output`; none where it goes by its place."""
    help: str
    takes: str | None
    """How its value is called; None for a switch."""
    values: tuple[str, ...]
    """The values it may have, where they are few."""
    required: bool
    many: bool

    @property
    def is_container(self) -> bool:
        """Whether it names a container."""
        return not self.flags and self.name in ("path", "container", "first", "second")

    @property
    def is_variable(self) -> bool:
        """Whether it names a variable of the container before it."""
        return not self.flags and self.name in ("variable", "variables", "group")


@dataclass(frozen=True)
class Command:
    """One command."""

    name: str
    help: str
    arguments: tuple[Argument, ...]

    @property
    def by_place(self) -> list[Argument]:
        """The arguments without flags, in their order."""
        return [argument for argument in self.arguments if not argument.flags]

    @property
    def options(self) -> list[Argument]:
        """The arguments with flags."""
        return [argument for argument in self.arguments if argument.flags]


def commands() -> list[Command]:
    """Every command, those of Python last."""
    from drystone._core import cli_grammar
    from drystone.commands import COMMANDS, parser

    compiled = [
        Command(c["name"], c["help"], tuple(_compiled(a) for a in c["arguments"]))
        for c in json.loads(cli_grammar())
    ]
    ours = [
        Command(
            name, f"{what[0].upper()}{what[1:]}", tuple(_ours(action) for action in parser(name)._actions)
        )
        for name, (_, what) in COMMANDS.items()
    ]
    return [*compiled, *ours]


def _compiled(given: dict[str, Any]) -> Argument:
    return Argument(
        given["name"],
        tuple(given["flags"]),
        given["help"],
        given["takes"],
        tuple(given["values"]),
        given["required"],
        given["many"],
    )


def _ours(action: argparse.Action) -> Argument:
    metavar = action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar
    takes = None if action.nargs == 0 else metavar or action.dest.upper()
    text = action.help or ""
    return Argument(
        action.dest,
        tuple(action.option_strings),
        f"{text[:1].upper()}{text[1:]}",
        takes,
        tuple(map(str, action.choices or ())),
        action.required and not action.option_strings,
        action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
    )
