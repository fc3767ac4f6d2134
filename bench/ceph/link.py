"""A network namespace whose loopback is as slow as a link, and the document that figures go into."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "ceph.md"
COUNTERS = Path("/proc/self/net/dev")


def enter(script: str, inside: bool) -> None:
    """Begin the script again in a namespace of its own, unless it is inside. It needs root."""
    if not inside:
        sys.exit(
            subprocess.run(["unshare", "-n", sys.executable, script, "--inside", *sys.argv[1:]]).returncode
        )
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def limit(rate: str) -> None:
    """Makes the loopback of this namespace as slow as a link, or as fast as it is."""
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], capture_output=True)
    if rate:
        bucket = ["tbf", "rate", rate, "burst", "512kb", "latency", "200ms"]
        subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", *bucket], check=True)


def received() -> int:
    """Bytes that the loopback of this namespace has received."""
    line = next(line for line in COUNTERS.read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])


def document(name: str, shown: str) -> None:
    """Puts figures between the marks of their name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    head, _, rest = DOCUMENT.read_text().partition(begin)
    _, _, tail = rest.partition(end)
    DOCUMENT.write_text(f"{head}{begin}{shown}\n{end}{tail}")
