"""`drystone publish --hdf5 FILE`.

Turns a file that an HDF5 program wrote through the connector into a genuine HDF5 file, which needs no
plug-in.

An HDF5 library makes the copy in a separate process, which opens the file with `publish=1` and closes it, as a program
with that configuration does. If it is killed at any moment, FILE is either unchanged or the genuine file.
"""

from __future__ import annotations

import os
from pathlib import Path

from drystone import errors, hdf5
from drystone.commands.doctor import last
from drystone.commands.outcome import Outcome
from drystone.counted import size
from drystone.hdf5.libraries import ask, libraries
from drystone.hdf5.stubs import SIGNATURE, begins, is_stub


def run(*, path: str, library: str | None) -> Outcome:
    """Replace the stub with the copy."""
    return _published(Path(path), [Path(library)] if library else None)


def _published(path: Path, candidates: list[Path] | None) -> Outcome:
    if not path.exists():
        raise errors.NotFoundError(f"there is nothing at {path}")
    if path.is_dir():
        raise errors.InvalidArgumentError(f"{path} is a folder; name the file that an HDF5 program wrote")
    if not is_stub(path):
        if begins(path).startswith(SIGNATURE):
            return Outcome(f"{path} is a genuine HDF5 file already", {"published": False, "path": str(path)})
        raise errors.InvalidArgumentError(f"{path} was not written through the HDF5 connector")
    candidates = candidates or [library.path for library in libraries([])]
    environment = {**os.environ, **hdf5.environment("publish=1")}
    tried = []
    for library in candidates:
        answer = ask(library, os.environ)
        if answer.version is None or answer.too_old:
            tried.append(f"{library} is too old" if answer.too_old else f"{library}: {last(answer.said)}")
            continue
        answer = ask(library, environment, path)
        if answer.connector != hdf5.CONNECTOR:
            raise errors.IoError(f"{path} was not published, and is what it was: {last(answer.said)}")
        if is_stub(path):
            raise errors.IoError(
                f"{path} is still what it was; drystone doctor says more. {last(answer.said)}"
            )
        text = f"{path} is a genuine HDF5 file of {size(path.stat().st_size)}"
        return Outcome(text, {"published": True, "path": str(path), "library": str(library)})
    found = "; ".join(tried) or "none was found"
    raise errors.UnsupportedError(
        f"no HDF5 of version 1.14 or newer to write with ({found}): pip install h5py"
    )
