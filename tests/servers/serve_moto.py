"""Moto's S3 server with one bucket, for tests and for trying things out: `python tests/servers/serve_moto.py [PORT]`.

It keeps objects in memory, checks no signature, and ends with Ctrl-C, or when its standard input is closed. The first line that it
prints is its address; any keys will do:

    export AWS_ENDPOINT_URL=http://127.0.0.1:5000 AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x
"""

from __future__ import annotations

import contextlib
import logging
import sys
import urllib.request

from moto.server import ThreadedMotoServer


def main() -> None:
    """Serve until nobody wants it any more."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
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
