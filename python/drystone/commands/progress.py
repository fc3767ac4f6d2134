"""A progress bar on terminals, with rate and remaining time."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from drystone.commands.outcome import size


class Progress:
    """Counts bytes; draws on standard error, if that is a terminal."""

    def __init__(self, total: int) -> None:
        self._total = max(1, total)
        self._done = 0
        self._began = self._drawn = time.monotonic()
        self._shows = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def add(self, nbytes: int) -> None:
        """So many more are done."""
        self._done += nbytes
        now = time.monotonic()
        if self._shows and now - self._drawn > 0.1:
            self._drawn = now
            part = min(1.0, self._done / self._total)
            rate = self._done / (now - self._began)
            left = (self._total - self._done) / rate if rate else 0
            bar = ("█" * round(part * 24)).ljust(24, "░")
            print(
                f"\r{bar} {part:4.0%}  {size(rate)}/s, {left:.0f} s left \x1b[K",
                end="",
                file=sys.stderr,
                flush=True,
            )
