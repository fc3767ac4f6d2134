"""Events: functions are called for the operations of the containers of this process.

    remove = dry.on_event(lambda event: print(event.kind, event.container, event.seconds, event.values))

The logger writes the same as text (docs/guide/logging.md). Events contain numbers and names, but no values of
variables and no options of stores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from drystone._core import SpanListener, listen_to_spans
from drystone.errors import InvalidArgumentError
from drystone.logs import log


@dataclass(frozen=True)
class Event:
    """One completed operation."""

    kind: str
    """`create`, `open`, `step`, `commit`, `flush`, `refresh`, `publish`, `recover`, `gc` or `verify`.

    With `detail` also `read`, `put`, `drain` or `warm`.
    """
    container: str
    """Path or URL."""
    time: float
    """When it ended, in seconds since 1970."""
    seconds: float
    """How long it took."""
    values: dict[str, Any] = field(default_factory=dict)
    """Numbers and names; docs/guide/metrics.md lists them by kind."""


Listener = Callable[[Event], object]

_listeners: tuple[Listener, ...] = ()
_detailed: tuple[Listener, ...] = ()
_spans: SpanListener | None = None
_lock = Lock()


def on_event(listener: Listener, *, detail: bool = False) -> Callable[[], None]:
    """Call a function with each `Event` of this process; returns a function that removes it.

    The function is called after the operation, in the thread that did it, and should return soon. An exception in
    it is logged and changes nothing. It is not called for steps and commits that failed.

    Args:
        listener: Called as `listener(event)`.
        detail: Also report each read, each put, each part that is copied home from a tier, and each warming. There
            may be many, and the engine may hold locks during the call: the function must not use a container. Parts
            are copied home in another thread.

    Raises:
        InvalidArgumentError: If it cannot be called.

    """
    global _listeners, _detailed, _spans
    if not callable(listener):
        raise InvalidArgumentError(f"on_event takes a function, not {type(listener).__name__}")
    with _lock:
        _listeners = (*_listeners, listener)
        if detail:
            _detailed = (*_detailed, listener)
            _spans = _spans or listen_to_spans(_heard)

    def remove() -> None:
        global _listeners, _detailed, _spans
        with _lock:
            _listeners = _without(_listeners, listener)
            if detail:
                _detailed = _without(_detailed, listener)
            if not _detailed and _spans is not None:
                _spans.close()
                _spans = None

    return remove


def _without(listeners: tuple[Listener, ...], listener: Listener) -> tuple[Listener, ...]:
    kept = list(listeners)
    if listener in kept:
        kept.remove(listener)
    return tuple(kept)


def _heard(
    kind: str, container: str, variable: str, seconds: float, values: tuple[int, int, int, int, int]
) -> None:
    """Report a read, put, drain or cache load of the engine."""
    from drystone.metrics import path_of  # which uses events

    wanted, nbytes, requests, rounds, blocks = values
    found: dict[str, Any] = {"variable": variable, "wanted_bytes": wanted}
    if kind == "drain":
        found = {"part": variable, "bytes": nbytes}
    elif kind == "warm":
        found = {"wanted_bytes": wanted, "bytes": nbytes}
    elif kind == "read":
        found |= {"bytes": nbytes, "requests": requests, "rounds": rounds, "blocks": blocks}
    _tell(_detailed, Event(kind, path_of(container), time.time(), seconds, found))


def emit(kind: str, container: str, begun: float, **values: Any) -> None:
    """Call the listeners; `begun` is from `time.perf_counter`."""
    if not _listeners:
        return
    _tell(_listeners, Event(kind, container, time.time(), time.perf_counter() - begun, values))


def _tell(listeners: tuple[Listener, ...], event: Event) -> None:
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            log.exception("a function of on_event failed on %s", event.kind)
