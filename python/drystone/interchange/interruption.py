"""Ctrl-C ends a command where it can still remove what it has made.

Python raises KeyboardInterrupt wherever the main thread is, and drops it in callbacks of the collector. So it is noted, too, and what works piece
by piece asks after each.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_asked = threading.Event()


@contextmanager
def noted() -> Iterator[None]:
    """Within the block the first SIGINT is noted and raised; the second ends the process. Programs that handle it themselves still do."""
    before = signal.getsignal(signal.SIGINT)
    usual = before in (signal.SIG_DFL, signal.default_int_handler)
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _note)
    told = sys.unraisablehook

    def tell(what: sys.UnraisableHookArgs) -> None:
        """What Python drops, but for that interruption, which is noted."""
        if what.exc_type is not KeyboardInterrupt:
            told(what)

    sys.unraisablehook = tell
    try:
        yield
    finally:
        _asked.clear()
        sys.unraisablehook = told
        signal.signal(signal.SIGINT, before)


def _note(*_: Any) -> None:
    _asked.set()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt


def check() -> None:
    """A KeyboardInterrupt if one was noted."""
    if _asked.is_set():
        raise KeyboardInterrupt
