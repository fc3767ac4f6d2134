"""Events of a running simulation: a file of JSON lines, each appended by one write.

A line has the time, the rank, the kind of event, and figures. The file survives killed ranks and shows what each was
doing when it died.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class EventLog:
    """Appends events of one rank; with no path, drops them."""

    def __init__(self, path: Path | None, rank: int) -> None:
        self.rank = rank
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._descriptor = None if path is None else os.open(path, flags, 0o644)

    def tell(self, event: str, **figures: object) -> None:
        """Append one event."""
        if self._descriptor is not None:
            line = {"time": time.time(), "rank": self.rank, "event": event, **figures}
            os.write(self._descriptor, (json.dumps(line) + "\n").encode())


class Follower:
    """Reads new events."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None
        self._rest = ""

    def new(self) -> Iterator[Event]:
        """Events that arrived since the last call; a line still being written waits for the next one."""
        if self._file is None:
            if not self._path.exists():
                return
            self._file = self._path.open()
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            yield json.loads(line)

    def close(self) -> None:
        """Stop following."""
        if self._file is not None:
            self._file.close()
