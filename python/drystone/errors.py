"""Errors, classified by how the caller can react.

Each is also the built-in exception that a caller would expect in its place, so that code written for NumPy arrays,
dictionaries and files handles them.
"""

from __future__ import annotations

import builtins
import sys
import warnings

from drystone.logs import log


class DrystoneError(Exception):
    """Any error of this package."""


class NotFoundError(DrystoneError, KeyError):
    """A container, variable, group, attribute, step, block or snapshot does not exist."""

    def __str__(self) -> str:
        # KeyError shows its argument quoted.
        return Exception.__str__(self)


class CorruptError(DrystoneError):
    """Stored bytes differ from what was written; the message names the file, the offset and the variable."""


class ConflictError(DrystoneError):
    """An existing object, or a change by another process, excludes the operation."""


class UnsupportedError(DrystoneError):
    """This version, or this kind of storage, does not support the operation."""


class InvalidArgumentError(DrystoneError, ValueError):
    """The arguments are wrong, or do not fit the object."""


class OutOfRangeError(InvalidArgumentError, IndexError):
    """An index or a box is outside the array."""


class IoError(DrystoneError, OSError):
    """The storage medium failed, or is full."""


class PermissionError(IoError, builtins.PermissionError):
    """Rights on a file or at a store are missing. The message names what was refused, and what to check."""


class DeadlineError(IoError, TimeoutError):
    """The time limit has passed. It is unknown whether a change was made."""


class NotYetHome(IoError):  # noqa: N818 (its name is a state, as of StopIteration)
    """The bytes are in a tier of another node and not home yet. They are not lost."""

    node: str | None
    """The node that has them."""
    bytes_left: int
    """Bytes that this node has yet to drain to its home."""

    def __init__(self, message: str, node: str | None = None, bytes_left: int = 0) -> None:
        super().__init__(message)
        self.node = node
        self.bytes_left = bytes_left

    def __reduce__(self) -> tuple[type[NotYetHome], tuple[str, str | None, int]]:
        return type(self), (str(self), self.node, self.bytes_left)


class LeaseExpired(ConflictError):  # noqa: N818 (its name is a state, as of StopIteration)
    """The lease of a region has expired; the values released under it were not written."""


class CancelledError(DrystoneError):
    """The caller asked to stop."""


class DrystoneWarning(UserWarning):
    """A warning for people about a call that succeeded."""


def warn(text: str) -> None:
    """Warn at the position where the package was called."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("drystone."):
        level, frame = level + 1, frame.f_back
    log.warning("%s", text)
    warnings.warn(text, DrystoneWarning, stacklevel=level)
