"""Progress of long calls, reported to a function or drawn on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from drystone.counted import size
from drystone.errors import CancelledError

Report = Callable[[int, int], object]
"""Called as `report(done, total)` in bytes; False stops the call with a `CancelledError`."""


class Progress:
    """Counts bytes. With True it draws a bar on standard error, if that is a terminal; a function is called."""

    def __init__(self, report: Report | bool | None = False) -> None:
        self._report = report if callable(report) else None
        self._shows = report is True and sys.stderr.isatty()
        self._total, self._done = 1, 0
        self._began = self._drawn = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def expect(self, nbytes: int) -> None:
        """The total number of bytes."""
        self._total = max(1, nbytes)

    def add(self, nbytes: int) -> None:
        """Add bytes that are done."""
        self._done += nbytes
        if self._report is not None and self._report(min(self._done, self._total), self._total) is False:
            raise CancelledError("stopped by the caller")
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


def reported(progress: Report | bool | None) -> Report | None:
    """The callback for the argument `progress`: True prints to standard error."""
    return print_entries if progress is True else progress or None


def print_entries(done: int, total: int) -> None:
    """Print how many entries are done, on one line."""
    with suppress(OSError):
        end = "\n" if done >= total else ""
        print(f"\rverifying: {done} of {total} entries", end=end, file=sys.stderr, flush=True)


def print_published(done: int, total: int) -> None:
    """Print how many MiB are published, on one line."""
    with suppress(OSError):
        end = "\n" if done >= total else ""
        print(f"\rpublishing: {done >> 20} of {total >> 20} MiB", end=end, file=sys.stderr, flush=True)
