"""`drystone copy`: the newest values of a container, or of a part of it, in a new one."""

from __future__ import annotations

import argparse
import re

from drystone import copying
from drystone.commands import interruption
from drystone.commands.chunk_shapes import chunk_shapes
from drystone.commands.outcome import Outcome, shown, size
from drystone.commands.progress import Progress
from drystone.commands.selected import opened, place
from drystone.counted import counted
from drystone.errors import InvalidArgumentError
from drystone.location import named


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    place(parser)
    parser.add_argument("target", type=named, help="the new container: a path or URL")
    parser.add_argument("variable", nargs="*", help="which variables and groups; all if none is named")
    parser.add_argument(
        "--steps", metavar="A:B", help="steps from A to before B, as in '10:20', '-5:' or '::10'"
    )
    parser.add_argument(
        "--transform", metavar="CODECS", help="codecs for all variables, as in shuffle,zstd:1; or none"
    )
    parser.add_argument(
        "--chunks",
        action="append",
        metavar="[VARIABLE=]SHAPE",
        help="chunk shape, as in 64,64 for variables of two dimensions, or T=64,64; none for none; may be repeated",
    )
    parser.add_argument("--no-attrs", action="store_true", help="leave attributes out")
    parser.add_argument("--overwrite", action="store_true", help="remove a container that is there first")


def run(given: argparse.Namespace) -> Outcome:
    """Copy, and say what the copy lacks."""
    steps, chunks = _steps(given.steps), chunk_shapes(given.chunks)
    transform = ... if given.transform is None else None if given.transform == "none" else given.transform
    with opened(given) as source:
        bar: Progress | None = None
        before = 0

        def progress(done: int, total: int) -> None:
            nonlocal bar, before
            interruption.check()
            if bar is None:
                bar = Progress(total).__enter__()
            bar.add(done - before)
            before = done

        try:
            copied = copying.copy(
                source,
                given.target,
                variables=given.variable or None,
                steps=steps,
                transform=transform,
                chunks=chunks,
                attrs=not given.no_attrs,
                overwrite=given.overwrite,
                progress=progress,
                damaged=given.damaged,
            )
        finally:
            if bar is not None:
                bar.__exit__(None, None, None)
    with copied.container as target:
        files = sum(found.number for found in target.describe().files.values())
    what = f"{counted(len(copied.variables), 'variable')}, {counted(len(copied.steps), 'step')}"
    text = f"{given.target}: {what}, {size(copied.nbytes)} of values in {counted(files, 'file')}"
    data = {
        "container": str(given.target),
        "variables": copied.variables,
        "steps": copied.steps,
        "bytes": copied.nbytes,
        "files": files,
        "notes": copied.notes,
    }
    return Outcome(shown(text), data, copied.notes)


def _steps(text: str | None) -> slice | list[int] | None:
    if text is None:
        return None
    if not re.fullmatch(r"-?\d+|-?\d*:-?\d*(:\d+)?", text) or text in ("-:", ":-"):
        raise InvalidArgumentError(f"bad steps {text!r}: write one step, as in 12, or a range, as in 10:20")
    if ":" not in text:
        return [int(text)] if not text.startswith("-") else slice(int(text), int(text) + 1 or None)
    try:
        return slice(*(int(part) if part else None for part in text.split(":")))
    except ValueError:
        raise InvalidArgumentError(f"bad steps {text!r}: write a range as in 10:20") from None
