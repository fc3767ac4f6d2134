"""The scripted S3 server of crates/s3-rig in a process of its own: its link, and its exact counts."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"aws_access_key_id": "rig", "aws_secret_access_key": "rig-secret"}
LINK = 125e6
"""Bytes per second: 1 Gbit/s."""


@dataclass(frozen=True)
class Counts:
    """What a server was asked for."""

    requests: int
    rounds: int
    bytes_out: int
    bytes_in: int
    kinds: dict[str, int]

    def modelled(self, rtt: float) -> float:
        """Seconds if every request waited for the one before: what a reader of any program pays at least in work."""
        return self.requests * rtt + (self.bytes_out + self.bytes_in) / LINK


class Server:
    """A server until it is closed."""

    def __init__(self) -> None:
        program = os.environ.get("DRYSTONE_S3_RIG") or _built()
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()

    def order(self, **orders: object) -> dict[str, object]:
        """What crates/s3-rig/src/admin.rs takes; the counts."""
        body = json.dumps(orders).encode() if orders else None
        with urllib.request.urlopen(f"{self.endpoint}/_rig", data=body, timeout=60) as answer:
            return dict(json.loads(answer.read()))

    @contextmanager
    def link(self, rtt: float) -> Iterator[None]:
        """A link of 1 Gbit/s with this round trip, in seconds; without one outside."""
        self.order(rtt_ms=rtt * 1e3, bytes_per_second=LINK)
        try:
            yield
        finally:
            self.order(rtt_ms=0, bytes_per_second=None)

    def counts(self) -> Counts:
        """Since the last `order(reset=True)`."""
        said = self.order()
        numbers = (int(str(said[name])) for name in ("total", "rounds", "bytes_out", "bytes_in"))
        kinds = said["requests"]
        assert isinstance(kinds, dict)
        return Counts(*numbers, kinds)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)


def _built() -> str:
    command = [
        "cargo",
        "build",
        "--release",
        "--quiet",
        "--package",
        "drystone-s3-rig",
        "--message-format=json",
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for line in built.stdout.splitlines():
        said = json.loads(line)
        if said.get("executable") and said["target"]["name"] == "s3-rig":
            return str(said["executable"])
    raise SystemExit("cargo built no s3-rig")
