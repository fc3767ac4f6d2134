"""`drystone view`: the container as a page in the browser, served on this machine alone."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import webbrowser

from drystone import container
from drystone.commands.outcome import Outcome
from drystone.commands.selected import damaged, whole
from drystone.errors import IoError
from drystone.view import Server

_USUAL = 8737


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("container", help="the container's directory")
    parser.add_argument("--port", type=_port, help=f"where to listen; {_USUAL} or a free one if not given")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    damaged(parser)


def run(given: argparse.Namespace) -> Outcome:
    """Serve until Ctrl-C."""
    with whole(given.container, None, given.damaged) as c:
        server = _server(c, given.port)
        done = threading.Event()
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, lambda *_: done.set())
        with server.start():
            print(server.url, flush=True)
            print("Ctrl-C ends it. Whoever has this address can read the container.", file=sys.stderr)
            if not given.no_browser and _has_screen():
                threading.Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
            done.wait()
    return Outcome("", {"url": server.url})


def _server(c: container.Container, port: int | None) -> Server:
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


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 (any free one) to 65535")
    return int(text)
