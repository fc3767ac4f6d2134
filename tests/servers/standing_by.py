"""Programs of others that serve while a script of this folder runs: found, started, waited for, and ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

MISSING = 3
"""Exit code of a script whose program is not there."""


def find(name: str, variable: str) -> str:
    """The program: what the environment variable names, else one on the PATH or in ~/go/bin. Ends the script where
    there is none."""
    found = (
        os.environ.get(variable) or shutil.which(name) or shutil.which(name, path=Path.home() / "go" / "bin")
    )
    if found is None:
        print(f"{name} is not there, and {variable} does not name it", file=sys.stderr)
        sys.exit(MISSING)
    return found


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(command: list[str], endpoint: str, port: int, prepare: Callable[[str], None]) -> None:
    """Run the program, prepare it, print its endpoint, and end it when standard input is closed."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr) as server:
        try:
            until = time.monotonic() + 60
            while True:
                if server.poll() is not None:
                    sys.exit(f"{command[0]} ended with {server.returncode}")
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                if time.monotonic() > until:
                    sys.exit(f"{command[0]} does not listen at port {port}")
                time.sleep(0.1)
            prepare(endpoint)
            print(endpoint, flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                sys.stdin.read()
        finally:
            server.terminate()
