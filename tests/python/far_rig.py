"""The scripted S3 server of crates/s3-rig as a program: for tests of far stores."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KEYS = {"aws_access_key_id": "rig-key-id", "aws_secret_access_key": "rig-secret-hunter2"}


@functools.cache
def program() -> str:
    """The server, built if it does not exist: `DRYSTONE_S3_RIG` names one that was built elsewhere."""
    named = os.environ.get("DRYSTONE_S3_RIG")
    if named:
        return named
    if shutil.which("cargo") is None:
        pytest.skip("cargo, which builds the scripted S3 server, is not there")
    built = subprocess.run(
        [ROOT / "tools" / "test_builds.sh", "--message-format=json"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in built.stdout.splitlines():
        said = json.loads(line)
        if said.get("executable") and said["target"]["name"] == "s3-rig":
            return str(said["executable"])
    pytest.skip(f"the scripted S3 server cannot be built: {built.stderr[-500:]}")


class Rig:
    """A server that runs until it is closed, or this process ends."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [program(), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()

    @property
    def options(self) -> dict[str, str]:
        return {"aws_endpoint": self.endpoint, **KEYS}

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEYS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": KEYS["aws_secret_access_key"],
        }

    def order(self, **orders: Any) -> dict[str, Any]:
        """Send commands to the admin route (crates/s3-rig/src/admin.rs); returns the counters."""
        body = json.dumps(orders).encode() if orders else None
        with urllib.request.urlopen(f"{self.endpoint}/_rig", data=body, timeout=20) as answer:
            return dict(json.loads(answer.read()))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()
