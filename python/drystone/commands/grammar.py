"""All commands and their arguments as data, from the parser; tests compare documents with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from drystone._core import cli_grammar


@dataclass(frozen=True)
class Argument:
    """One argument of a command."""

    name: str
    flags: tuple[str, ...]
    """The flags, such as `-o` and `--output`; none for positional arguments."""
    help: str
    takes: str | None
    """The name of its value; None for a switch."""
    values: tuple[str, ...]
    """The allowed values, if they are few."""
    required: bool
    many: bool


@dataclass(frozen=True)
class Command:
    """One command."""

    name: str
    help: str
    arguments: tuple[Argument, ...]

    @property
    def options(self) -> list[Argument]:
        """The arguments with flags."""
        return [argument for argument in self.arguments if argument.flags]


def commands() -> list[Command]:
    """Every command."""
    return [
        Command(found["name"], found["help"], tuple(_argument(**one) for one in found["arguments"]))
        for found in json.loads(cli_grammar())
    ]


def _argument(*, flags: list[str], values: list[str], **more: Any) -> Argument:
    return Argument(flags=tuple(flags), values=tuple(values), **more)
