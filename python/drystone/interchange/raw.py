"""Import of a raw file: a text in the dataset language describes its layout."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from drystone.counted import counted
from drystone.errors import InvalidArgumentError
from drystone.fragments import Fragment
from drystone.interchange import interruption
from drystone.opening import create
from drystone.progress import Progress
from drystone.undoing import Addition


def copy_raw(
    file: Path, to: str | Path, text: Path, fragment: str, progress: Progress, *, into_existing: bool
) -> tuple[str, list[str]]:
    """Copy a file that is the memory of a fragment, one step after the other.

    Returns the container and the names of the variables.

    Everything is checked against an empty container first, so that a mistake in the text changes nothing.
    """
    words = text.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, create(Path(folder, "empty.dry")) as empty:
        names = empty.declare(words)
        steps = _steps(file, empty.fragment(fragment))
    adding = Addition.to(to, into_existing=into_existing)
    try:
        adding.begin(names)
        container = adding.container
        container.declare(words)
        target = container.fragment(fragment)
        progress.expect(target.nbytes * steps)
        pieces = (
            np.memmap(file, "u1", "r", shape=(steps, target.nbytes))
            if target.nbytes
            else np.zeros((0, 0), "u1")
        )
        with container.writer() as writer:
            for piece in pieces:
                if target.has_steps:
                    with writer.step():
                        writer.put_fragment(target, piece)
                else:
                    writer.put_fragment(target, piece)
                interruption.check()
                progress.add(piece.nbytes)
        container.commit()
        container.flush()
    except BaseException:
        adding.undo()
        raise
    adding.finish()
    return str(to), names


def _steps(file: Path, fragment: Fragment) -> int:
    """The number of steps in the file; 1 for a fragment without steps."""
    length, step = file.stat().st_size, fragment.nbytes
    many = length // step if step else 0
    if length != many * step or (not fragment.has_steps and many != 1):
        wanted = f"{step} bytes" + (" per step" if fragment.has_steps else "")
        raise InvalidArgumentError(
            f'{file} has {counted(length, "byte")}, and the fragment "{fragment.name}" {wanted}: '
            "another fragment, or a text that says what else lies in the file"
        )
    return many
