"""A file that a command writes: it is there whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drystone.errors import InvalidArgumentError, NotFoundError


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """The name to write to; the file gets its own name, in place of what was there, when the block ends without an error.

    A name without a folder to hold it is a NotFoundError before anything is written, that of a folder
    an InvalidArgumentError.
    """
    if not path.parent.is_dir():
        raise NotFoundError(f"there is no folder {path.parent} to hold {path.name}")
    if path.is_dir():
        raise InvalidArgumentError(f"{path} is a folder; name the file to write")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
