"""Ctrl-C ends a command at points where it can still remove its partial output.

Python raises KeyboardInterrupt at any position of the main thread, and drops it in callbacks of the collector. So the
signal is also recorded, and work in pieces checks for it after each piece.
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
    """Within the block, the first SIGINT is recorded and raised; the second ends the process.

    A program's own handler stays.
    """
    before = signal.getsignal(signal.SIGINT)
    usual = before in (signal.SIG_DFL, signal.default_int_handler)
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _note)
    told = sys.unraisablehook

    def tell(what: sys.UnraisableHookArgs) -> None:
        """Report exceptions that Python drops, except KeyboardInterrupt, which was recorded."""
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
    """Raise KeyboardInterrupt if a signal was recorded."""
    if _asked.is_set():
        raise KeyboardInterrupt
