"""`drystone view`: serves a page with the container to browsers on this machine only."""

from __future__ import annotations

import os
import signal
import sys
import threading
import webbrowser

from drystone.asked import opened
from drystone.commands.outcome import Outcome
from drystone.container import Container
from drystone.errors import IoError
from drystone.view import Server

_USUAL = 8737


def run(*, container: str, port: int | None, no_browser: bool, damaged: bool) -> Outcome:
    """Serve until Ctrl-C."""
    with opened(container, None, damaged) as c:
        server = _server(c, port)
        done = threading.Event()
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, lambda *_: done.set())
        with server.start():
            print(server.url, flush=True)
            print("Ctrl-C ends it. Anyone with this address can read the container.", file=sys.stderr)
            if not no_browser and _has_screen():
                threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
            done.wait()
    return Outcome("", {"url": server.url})


def _server(c: Container, port: int | None) -> Server:
    for tried in (port,) if port is not None else (_USUAL, 0):
        try:
            return Server(c, tried)
        except OSError as error:
            failed = error
    raise IoError(
        f"nothing can listen on port {port}: {os.strerror(failed.errno or 0)}; leave out --port for a free one"
    )


def _has_screen() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) or sys.platform == "darwin"
