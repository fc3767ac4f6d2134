"""The server of a node: one process that serves a container to all other processes of the user on this machine."""

from __future__ import annotations

import subprocess
import sys
import threading

from drystone.errors import IoError, NotFoundError


def node_server(place: str) -> str:
    """The URL of a container on its server of this machine, which is started if there is none.

    The server is a separate process in its own session; it ends a minute after its last client has gone. Raises
    `NotFoundError` if there is no container, and `IoError` if the server did not start.
    """
    command = [sys.executable, "-m", "drystone", "serve", "--for", place]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stdout.readline().strip()
    why = "" if url else process.stderr.read().strip()
    process.stdout.close()
    process.stderr.close()
    # It keeps running, or has ended already. The thread only reaps the process.
    threading.Thread(target=process.wait, daemon=True, name="drystone-node-server").start()
    if url:
        return url
    kind = NotFoundError if "there is no container" in why else IoError
    raise kind(why.rsplit("\n", 1)[-1] or f"a server for {place} did not start")
