"""Commands that need Python packages, as `import` and `plot`. The others are in Rust.

A command gives a result, which is printed as a table or, with `--json`, as an object; errors are one line on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn, TextIO

from drystone import errors
from drystone.commands import (
    cataloguing,
    comparing,
    completing,
    copying,
    doctor,
    drawing,
    exporting,
    hdf5_environment,
    importing,
    interruption,
    manual,
    publishing_hdf5,
    tagging,
    usage,
    viewing,
    watching,
)
from drystone.commands.outcome import Outcome

COMMANDS = {
    "import": (importing, "copy a file of another format into a container"),
    "export": (exporting, "copy variables into a file of another format"),
    "copy": (copying, "copy a container, or a part of it, to a new one of few files"),
    "plot": (drawing, "draw a plane, a series, or where the blocks of a variable lie, as PNG"),
    "diff": (comparing, "compare two containers, or two snapshots of one; exit code 1 if they differ"),
    "du": (usage, "what variables take on disk"),
    "top": (
        watching,
        "show a running simulation: its steps, rates, writers, and the ranks that a step waits for",
    ),
    "view": (viewing, "show a container in the browser"),
    "tag": (tagging, "show and set the tags of a container or of what is in it"),
    "catalog": (cataloguing, "find containers by tags, names and ranges of values, without opening them"),
    "hdf5-env": (hdf5_environment, "print the variables by which HDF5 programs use Drystone, for eval"),
    "doctor": (doctor, "say whether HDF5 programs use Drystone, and if not, why"),
    "completion": (completing, "print the script by which a shell completes what is typed"),
    "man": (manual, "print the manual page"),
}

# Known to the compiled command too, which cannot do it.
PUBLISH_HDF5 = (publishing_hdf5, "make what an HDF5 program wrote a genuine HDF5 file")

_CODES: list[tuple[type[BaseException], int]] = [
    (errors.NotFoundError, 3),
    (errors.CorruptError, 4),
    (errors.ConflictError, 5),
    (errors.PermissionError, 7),
    (errors.DeadlineError, 8),
    (errors.IoError, 6),
    (errors.DrystoneError, 2),
    (PermissionError, 7),
    (OSError, 6),
]


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # argparse takes -1 for a number, but -1e5 and the selection -1,: for options.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        # argparse counts names that may be left out among those that are required.
        free = [
            action.dest
            for action in self._actions
            if not action.option_strings and action.nargs in ("*", "?")
        ]
        if message.startswith("the following arguments are required: "):
            for name in free:
                message = message.removesuffix(f", {name}")
        raise errors.InvalidArgumentError(f"{message} (drystone {self.prog.split()[-1]} --help)")


def parser(name: str) -> argparse.ArgumentParser:
    """What reads the arguments of a command."""
    module, what = PUBLISH_HDF5 if name == "publish" else COMMANDS[name]
    made = _Parser(prog=f"drystone {name}", description=f"{what[0].upper()}{what[1:]}.")
    made.add_argument("--json", action="store_true", help="print JSON, for programs")
    module.arguments(made)
    return made


def _parsed(reader: argparse.ArgumentParser, rest: list[str]) -> argparse.Namespace:
    """The arguments; options may stand between the others, as in compiled commands, where no `--` ends them."""
    return reader.parse_args(rest) if "--" in rest else reader.parse_intermixed_args(rest)


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands with the arguments behind the program's name; gives its exit code."""
    name = next(argument for argument in arguments if argument in COMMANDS or argument == "publish")
    module, _ = PUBLISH_HDF5 if name == "publish" else COMMANDS[name]
    rest = list(arguments)
    rest.remove(name)
    run: Callable[[argparse.Namespace], Outcome] = module.run
    try:
        given = _parsed(parser(name), rest)
        noted = interruption.noted() if module in (importing, exporting, copying) else nullcontext()
        with noted, _warnings_as_lines():
            outcome = run(given)
        for note in outcome.notes:
            print(f"drystone: warning: {_plain(note)}", file=sys.stderr)
        if given.json or outcome.text:
            print(json.dumps(outcome.data, indent=2, default=_jsonable) if given.json else outcome.text)
        sys.stdout.flush()
        return outcome.code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _failed("interrupted", 130)
    except ModuleNotFoundError as error:
        return _failed(f"this needs the package {error.name}: pip install {error.name}", 2)
    except UnicodeEncodeError as error:
        return _failed(f"{error.object!r:.200} is not valid UTF-8, as names have to be", 2)
    except tuple(kind for kind, _ in _CODES) as error:
        return _failed(str(error), next(code for kind, code in _CODES if isinstance(error, kind)))


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Shows warnings of the package as the compiled commands do, without the place in the code that called it."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, errors.DrystoneWarning):
                print(f"drystone: warning: {_plain(str(message))}", file=sys.stderr)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.simplefilter("always", errors.DrystoneWarning)
        warnings.showwarning = show
        yield


def _failed(message: str, code: int) -> int:
    print(f"drystone: {_plain(message)}", file=sys.stderr)
    return code


def _plain(text: str) -> str:
    """One line without control characters."""
    return "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in text.replace("\n", "; "))


def _jsonable(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
