"""Events: what containers of this process did, given to functions as it is done.

    remove = dry.on_event(lambda event: print(event.kind, event.container, event.seconds, event.values))

The logger says the same as text (docs/guide/logging.md). Events carry numbers and names, never values of variables or options of stores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from drystone.errors import InvalidArgumentError
from drystone.logs import log


@dataclass(frozen=True)
class Event:
    """One thing that was done."""

    kind: str
    """`create`, `open`, `step`, `commit`, `flush`, `refresh`, `publish`, `recover`, `gc` or `verify`."""
    container: str
    """Path or URL."""
    time: float
    """When it ended, in seconds since 1970."""
    seconds: float
    """How long it took."""
    values: dict[str, Any] = field(default_factory=dict)
    """Numbers and names by kind: docs/guide/metrics.md lists them."""


Listener = Callable[[Event], object]

_listeners: tuple[Listener, ...] = ()
_lock = Lock()


def on_event(listener: Listener) -> Callable[[], None]:
    """Have a function called with each `Event` of this process; gives a function that ends it.

    The function is called in the thread that did it, after it is done, and should return soon. An exception in it is logged and
    changes nothing. It is not called for steps and commits that failed.

    Args:
        listener: Called as `listener(event)`.

    Raises:
        InvalidArgumentError: If it cannot be called.

    """
    global _listeners
    if not callable(listener):
        raise InvalidArgumentError(f"on_event takes a function, not {type(listener).__name__}")
    with _lock:
        _listeners = (*_listeners, listener)

    def remove() -> None:
        global _listeners
        with _lock:
            kept = list(_listeners)
            if listener in kept:
                kept.remove(listener)
            _listeners = tuple(kept)

    return remove


def emit(kind: str, container: str, begun: float, **values: Any) -> None:
    """Tell the listeners; `begun` is of `time.perf_counter`."""
    if not _listeners:
        return
    event = Event(kind, container, time.time(), time.perf_counter() - begun, values)
    for listener in _listeners:
        try:
            listener(event)
        except Exception:
            log.exception("a function of on_event failed on %s", kind)
