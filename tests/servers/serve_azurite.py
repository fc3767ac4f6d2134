"""Azurite's blob service with one container, for tests and for trying things out: `python
tests/servers/serve_azurite.py [PORT]`.

Azurite is Microsoft's emulator of Azure Storage, an npm package (`npm install --global azurite`). It is looked for as
`azurite-blob` on the PATH; DRYSTONE_AZURITE names it elsewhere. Blobs are kept in memory. It ends with Ctrl-C, or when
this script's standard input is closed. The first line printed is its address; account and key are those of every
emulator:

    export AZURE_STORAGE_ENDPOINT=http://127.0.0.1:10000/devstoreaccount1 AZURE_STORAGE_ACCOUNT_NAME=devstoreaccount1
    export AZURE_STORAGE_ACCOUNT_KEY=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import sys
import urllib.request
from email.utils import formatdate

from standing_by import find, free_port, serve

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-08-06"


def make_container(endpoint: str) -> None:
    """Create the container "bucket": a signed request, as the service has no other way."""
    date = formatdate(usegmt=True)
    headers = f"x-ms-date:{date}\nx-ms-version:{VERSION}\n"
    text = "PUT" + "\n" * 12 + headers + f"/{ACCOUNT}/{ACCOUNT}/bucket\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    request = urllib.request.Request(f"{endpoint}/bucket?restype=container", method="PUT", data=b"")
    request.add_header("x-ms-date", date)
    request.add_header("x-ms-version", VERSION)
    request.add_header("Content-Type", "")
    request.add_header("Authorization", f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}")
    urllib.request.urlopen(request, timeout=20).close()


def main() -> None:
    """Serve until nobody wants it any more."""
    program = find("azurite-blob", "DRYSTONE_AZURITE")
    port = int(sys.argv[1]) if len(sys.argv) > 1 else free_port()
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    command += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    serve(command, f"http://127.0.0.1:{port}/{ACCOUNT}", port, make_container)


if __name__ == "__main__":
    main()
