"""`drystone copy`: copies the newest values of a container, or of a part of it, to a new one."""

from __future__ import annotations

import re
from typing import Any

from drystone import copying
from drystone.asked import opened, where
from drystone.commands.chunk_shapes import chunk_shapes
from drystone.commands.outcome import Outcome, shown
from drystone.counted import counted, size
from drystone.errors import InvalidArgumentError
from drystone.interchange import interruption
from drystone.progress import Progress


def run(
    *,
    container: str,
    target: str,
    at: int | None,
    damaged: bool,
    steps: str | None,
    transform: str | None,
    chunks: list[str],
    no_attrs: bool,
    variables: list[str],
    overwrite: bool,
) -> Outcome:
    """Copy, and report what the copy lacks."""
    to = where(target)
    kept: Any = {"steps": _steps(steps), "chunks": chunk_shapes(chunks)}
    if transform is not None:
        kept["transform"] = None if transform == "none" else transform
    before = 0
    with opened(container, at, damaged) as source, Progress(True) as bar:

        def progress(done: int, total: int) -> None:
            nonlocal before
            interruption.check()
            bar.expect(total)
            bar.add(done - before)
            before = done

        copied = copying.copy(
            source,
            to,
            variables=variables or None,
            attrs=not no_attrs,
            overwrite=overwrite,
            progress=progress,
            damaged=damaged,
            **kept,
        )
    with copied.container as made:
        files = sum(found.number for found in made.describe().files.values())
    what = f"{counted(len(copied.variables), 'variable')}, {counted(len(copied.steps), 'step')}"
    text = f"{to}: {what}, {size(copied.nbytes)} of values in {counted(files, 'file')}"
    data = {
        "container": str(to),
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
