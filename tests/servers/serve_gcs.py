"""fake-gcs-server with one bucket, for tests and for trying things out: `python tests/servers/serve_gcs.py [PORT]`.

It is an emulator of Google Cloud Storage, a Go program (`go install github.com/fsouza/fake-gcs-server@v1.56.1`). It is
looked for as `fake-gcs-server` on the PATH and in ~/go/bin; DRYSTONE_FAKE_GCS names it elsewhere. Objects are kept in
memory. It ends with Ctrl-C, or when this script's standard input is closed. The first line printed is its address. It
checks no signature, and takes objects by Google's JSON interface only:

    export GOOGLE_BASE_URL=http://127.0.0.1:4443 GOOGLE_SKIP_SIGNATURE=true
"""

from __future__ import annotations

import json
import sys
import urllib.request

from standing_by import find, free_port, serve


def make_bucket(endpoint: str) -> None:
    """Create the bucket "bucket"."""
    request = urllib.request.Request(f"{endpoint}/storage/v1/b", json.dumps({"name": "bucket"}).encode())
    request.add_header("Content-Type", "application/json")
    urllib.request.urlopen(request, timeout=20).close()


def main() -> None:
    """Serve until nobody wants it any more."""
    program = find("fake-gcs-server", "DRYSTONE_FAKE_GCS")
    port = int(sys.argv[1]) if len(sys.argv) > 1 else free_port()
    command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    command += ["-public-host", f"127.0.0.1:{port}", "-log-level", "error"]
    serve(command, f"http://127.0.0.1:{port}", port, make_bucket)


if __name__ == "__main__":
    main()
