"""`drystone man`: the manual page, made of the parsers' own words. The wheel installs it as drystone(1)."""

from __future__ import annotations

import argparse

from drystone.commands.grammar import Argument, Command, commands
from drystone.commands.outcome import Outcome

CODES = [
    (0, "Done."),
    (
        1,
        "It did its work and found damage (verify), differences (diff), or files that would change (fmt --check).",
    ),
    (2, "Wrong usage or input."),
    (3, "Not found: no such container, variable, group, member, step, block or snapshot."),
    (4, "Corrupt: what had to be read is damaged."),
    (5, "Conflict: somebody else did something that excludes this, or a file is there already."),
    (6, "I/O error: the medium, or where the output goes, failed."),
]


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command: none."""


def run(given: argparse.Namespace) -> Outcome:
    """Print the page, for `man -l -`."""
    page = _page(commands())
    return Outcome(page, {"page": page})


def _text(text: str) -> str:
    """Text as roff takes it."""
    out = text.replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    out = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in out)
    return f"\\&{out}" if out.startswith((".", "'")) else out


def _sentence(text: str) -> str:
    return _text(text if text.endswith(".") else f"{text}.")


def _synopsis(command: Command) -> str:
    parts = [f"\\fBdrystone {command.name}\\fR", "[\\fIoptions\\fR]"]
    for argument in command.by_place:
        name = f"\\fI{_text((argument.takes or argument.name).upper())}\\fR" + (
            "..." if argument.many else ""
        )
        parts.append(name if argument.required else f"[{name}]")
    return " ".join(parts)


def _option(option: Argument) -> list[str]:
    takes = f" \\fI{_text(option.takes)}\\fR" if option.takes else ""
    flags = ", ".join(f"\\fB{_text(flag)}\\fR{takes}" for flag in option.flags)
    values = f" One of {', '.join(option.values)}." if option.values else ""
    return [".TP", flags, f"{_sentence(option.help)}{_text(values)}"]


def _page(all_commands: list[Command]) -> str:
    lines = [
        ".\\\" Made by `drystone man` of the commands' own words.",
        '.TH DRYSTONE 1 "" "drystone" "User Commands"',
        ".SH NAME",
        "drystone \\- look into containers of arrays, check them, and copy to and from other formats",
        ".SH SYNOPSIS",
        "\\fBdrystone\\fR \\fICOMMAND\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]",
        ".SH DESCRIPTION",
        "A container holds arrays that many processes write and anybody reads. "
        "Results go to standard output as tables, or with \\fB\\-\\-json\\fR as JSON; an error is one line on standard error.",
        ".SH COMMANDS",
    ]
    for command in all_commands:
        lines += [f".SS {_synopsis(command)}", _sentence(command.help)]
        for argument in command.by_place:
            if argument.help:
                values = f" One of {', '.join(argument.values)}." if argument.values else ""
                called = _text((argument.takes or argument.name).upper())
                lines += [".TP", f"\\fI{called}\\fR", f"{_sentence(argument.help)}{_text(values)}"]
        for option in command.options:
            if option.flags != ("-h", "--help"):
                lines += _option(option)
    lines += [
        ".SH SELECTIONS",
        "As NumPy writes them, brackets optional: \\fB[3, :, 0:8:2, \\-1]\\fR. The first axis of a variable with steps is the step.",
        ".SH EXIT STATUS",
    ]
    for code, meaning in CODES:
        lines += [".TP", f"\\fB{code}\\fR", _text(meaning)]
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        "\\fBNO_COLOR\\fR",
        "Any value turns colours off.",
    ]
    return "\n".join(lines)
