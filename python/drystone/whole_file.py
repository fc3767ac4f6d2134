"""A file or folder that a command writes: it appears completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from drystone.errors import DrystoneError, InvalidArgumentError, IoError, NotFoundError


@contextmanager
def appearing_folder(path: Path) -> Iterator[Path]:
    """Like `appearing`, for a folder.

    An existing folder is renamed first, and removed when the new one is in its place.
    """
    if not path.parent.is_dir():
        raise NotFoundError(f"there is no folder {path.parent} to hold {path.name}")
    if path.is_file():
        raise InvalidArgumentError(f"{path} is a file; name the folder to write")
    part = _beside(path, "part")
    old = _beside(path, "old")
    try:
        yield part
        if path.exists():
            path.replace(old)
        part.replace(path)
    except OSError as error:
        if isinstance(error, DrystoneError):
            raise
        raise unwritable(path, error) from None
    finally:
        if old.exists() and not path.exists():
            old.replace(path)
        for left in (part, old):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """The name to write to.

    When the block ends without an error, the file is renamed to its own name and replaces an earlier one.

    A missing parent folder raises NotFoundError before anything is written, the name of a folder InvalidArgumentError.
    A refusal by the operating system raises an IoError that names the file.
    """
    if not path.parent.is_dir():
        raise NotFoundError(f"there is no folder {path.parent} to hold {path.name}")
    if path.is_dir():
        raise InvalidArgumentError(f"{path} is a folder; name the file to write")
    part = _beside(path, "part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        if isinstance(error, DrystoneError):
            raise
        raise unwritable(path, error) from None
    finally:
        with suppress(OSError):  # if nothing could be written, there is nothing to remove
            part.unlink()


def _beside(path: Path, kind: str) -> Path:
    """A name that no other thread, process or node uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.{kind}")


def unwritable(path: Path, error: OSError | RuntimeError) -> IoError:
    """The error of a failed write.

    HDF5's message has addresses and offsets; netCDF's does not mention a full disk.
    """
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOSPC or f"errno = {errno.ENOSPC}," in str(error):
        return IoError(
            f"cannot write {path}: no free space is left there; free some, or choose another place"
        )
    there = os.statvfs(path.parent)
    almost = there.f_blocks and there.f_bavail * there.f_frsize < 1 << 16
    why = os.strerror(number) if number else str(error)
    return IoError(f"cannot write {path}: {why}{' (there is almost no free space left)' if almost else ''}")
