"""Ceph's own S3 gateway over a small cluster, with one bucket: `python tests/servers/serve_radosgw.py [PORT]`.

It needs Debian's packages of `ceph.py` beside this, and radosgw. It ends with Ctrl-C, or when this script's standard
input is closed. The first line printed is its address. It checks signatures:

    export AWS_ENDPOINT_URL=http://127.0.0.1:7480 AWS_ACCESS_KEY_ID=drystone AWS_SECRET_ACCESS_KEY=drystone-secret
"""

from __future__ import annotations

import base64
import email.utils
import hmac
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import ceph
from standing_by import MISSING, find, free_port, serve

KEY, SECRET = "drystone", "drystone-secret"


def make_bucket(endpoint: str) -> None:
    """Makes the bucket, signed as version 2 of S3's protocol has it."""
    date = email.utils.formatdate(usegmt=True)
    signed = hmac.digest(SECRET.encode(), f"PUT\n\n\n{date}\n/bucket".encode(), "sha1")
    authorization = f"AWS {KEY}:{base64.b64encode(signed).decode()}"
    headers = {"Date": date, "Authorization": authorization, "Content-Length": "0"}
    deadline = time.monotonic() + 30
    while True:
        request = urllib.request.Request(f"{endpoint}/bucket", method="PUT", headers=headers)
        try:
            urllib.request.urlopen(request, timeout=20).close()
            return
        except urllib.error.HTTPError as error:
            # Its pools are being made.
            if error.code < 500 or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def main() -> None:
    """Serve until nobody wants it any more."""
    program, admin = find("radosgw", "DRYSTONE_RADOSGW"), find("radosgw-admin", "DRYSTONE_RADOSGW_ADMIN")
    if lacking := ceph.missing():
        print(lacking, file=sys.stderr)
        sys.exit(MISSING)
    port = int(sys.argv[1]) if len(sys.argv) > 1 else free_port()
    with tempfile.TemporaryDirectory() as name, ceph.Cluster(Path(name), osds=1) as cluster:
        as_admin = ["-c", str(cluster.conf), "-n", "client.admin"]
        user = [
            "user",
            "create",
            "--uid",
            KEY,
            "--display-name",
            KEY,
            "--access-key",
            KEY,
            "--secret",
            SECRET,
        ]
        subprocess.run([admin, *as_admin, *user], check=True, capture_output=True, timeout=120)
        # A gateway speaks to monitors encrypted, which a cluster without keys does not.
        plain = ["--ms_mon_client_mode", "crc"]
        serve(
            [program, *as_admin, *plain, "-f", "--rgw_frontends", f"beast endpoint=127.0.0.1:{port}"],
            f"http://127.0.0.1:{port}",
            port,
            make_bucket,
        )


if __name__ == "__main__":
    main()
