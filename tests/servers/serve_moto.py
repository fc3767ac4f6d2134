"""Moto's S3 server with one bucket, for tests and for trying things out: `python tests/servers/serve_moto.py [PORT]`.

It keeps objects in memory, checks no signature, and ends with Ctrl-C, or when its standard input is closed. The first
line that it prints is its address; any keys will do:

    export AWS_ENDPOINT_URL=http://127.0.0.1:5000 AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer


def keep_conditions() -> None:
    """Let one request change objects at a time.

    Moto looks whether an object is there, and stores it, in two steps. Of two creations at once both succeeded now and
    then (7 of 1,461 races of raw requests), where S3 promises that one does.
    """
    turn = threading.RLock()
    for name in ("_key_response_put", "_key_response_post", "_key_response_delete"):
        done: Callable[..., Any] = getattr(S3Response, name)

        def alone(*args: Any, done: Callable[..., Any] = done, **options: Any) -> Any:
            with turn:
                return done(*args, **options)

        setattr(S3Response, name, alone)


def main() -> None:
    """Serve until nobody wants it any more."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    keep_conditions()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bucket", method="PUT"), timeout=20).close()
    print(endpoint, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
