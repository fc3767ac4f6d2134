"""versitygw, an S3 server over a folder, with one bucket: `python tests/servers/serve_versity.py [PORT]`.

It is a Go program (`go install github.com/versity/versitygw/cmd/versitygw@latest`), looked for as `versitygw` on the
PATH and in ~/go/bin; DRYSTONE_VERSITY names it elsewhere. Its folder is a temporary one, on a file system with extended
attributes. It ends with Ctrl-C, or when this script's standard input is closed. The first line printed is its address.
It checks signatures:

    export AWS_ENDPOINT_URL=http://127.0.0.1:7070 AWS_ACCESS_KEY_ID=drystone AWS_SECRET_ACCESS_KEY=drystone-secret
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from standing_by import find, free_port, serve


def main() -> None:
    """Serve until nobody wants it any more."""
    program = find("versitygw", "DRYSTONE_VERSITY")
    port = int(sys.argv[1]) if len(sys.argv) > 1 else free_port()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bucket").mkdir()
        command = [
            program,
            "--port",
            f"127.0.0.1:{port}",
            "--access",
            "drystone",
            "--secret",
            "drystone-secret",
        ]
        serve(
            [*command, "--quiet", "posix", folder], f"http://127.0.0.1:{port}", port, lambda _endpoint: None
        )


if __name__ == "__main__":
    main()
