"""Commands that run in Python, such as `import` and `plot`. The others run in Rust, which parses all of them.

Each command is a module with a function `run`. It takes the arguments as keywords, calls a function of the package and
returns an `Outcome`. The outcome is printed as text or, with `--json`, as JSON; errors are one line on standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TextIO

from drystone import errors
from drystone._core import cli_main
from drystone.commands.outcome import Outcome
from drystone.interchange import interruption

MODULES = {
    "import": "importing",
    "export": "exporting",
    "copy": "copying",
    "plot": "drawing",
    "diff": "comparing",
    "du": "usage",
    "top": "watching",
    "view": "viewing",
    "tag": "tagging",
    "catalog": "cataloguing",
    "hdf5-env": "hdf5_environment",
    "doctor": "doctor",
    "publish-hdf5": "publishing_hdf5",
}
"""The module of each command, by its name in `crates/cli/src/args/python.rs`."""

_INTERRUPTIBLE = ("import", "export", "copy")
"""Commands that remove their partial output when Ctrl-C ends them."""

_CODES: list[tuple[type[BaseException], int]] = [
    (errors.NotFoundError, 3),
    (errors.CorruptError, 4),
    (errors.ConflictError, 5),
    (errors.PermissionError, 7),
    (errors.DeadlineError, 8),
    (errors.NotYetHome, 9),
    (errors.IoError, 6),
    (errors.DrystoneError, 2),
    (PermissionError, 7),
    (OSError, 6),
]


def main(arguments: Sequence[str]) -> int:
    """Run a command with the arguments after the program's name; returns its exit code."""
    code, handed = cli_main(["drystone", *arguments], _page if "serve" in arguments else None)
    return code if handed is None else _run(json.loads(handed, object_hook=_name))


_making = threading.Lock()
_pages: list[Any] = []


def _page() -> Any:
    """The page that a server shows in browsers: one object, created at the first use."""
    with _making:
        if not _pages:
            from drystone.view.served import Pages

            _pages.append(Pages())
    return _pages[0]


def _name(found: dict[str, Any]) -> Any:
    """Decode a file name that is not UTF-8; other objects stay as they are."""
    return os.fsdecode(bytes(found["bytes"])) if found.keys() == {"bytes"} else found


def _run(given: dict[str, Any]) -> int:
    name, as_json = given.pop("command"), given["json"]
    if name != "top":  # which prints many documents
        del given["json"]
    try:
        run: Callable[..., Outcome] = importlib.import_module(f"drystone.commands.{MODULES[name]}").run
        with interruption.noted() if name in _INTERRUPTIBLE else nullcontext(), _warnings_as_lines():
            outcome = run(**given)
        for note in outcome.notes:
            print(f"drystone: warning: {_plain(note)}", file=sys.stderr)
        if as_json or outcome.text:
            print(json.dumps(outcome.data, indent=2, default=_jsonable) if as_json else outcome.text)
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
    """Print warnings of the package as the compiled commands do, without the position of the call."""
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
