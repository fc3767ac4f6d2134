"""Recognizes the stub that the HDF5 connector leaves in place of the file that an HDF5 program wrote."""

from __future__ import annotations

import os
from pathlib import Path

SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_stub(path: Path) -> bool:
    """Whether a file is the stub of a container that an HDF5 program wrote."""
    return begins(path).startswith(SIGNATURE + b"DRYSTONE")


def begins(path: Path) -> bytes:
    """The first bytes of the HDF5 file at a path, after its user block; empty if there is none."""
    at = 0
    with path.open("rb") as file:
        while len(found := os.pread(file.fileno(), 16, at)) >= 8 and not found.startswith(SIGNATURE):
            at = max(512, 2 * at)
    return found if found.startswith(SIGNATURE) else b""
