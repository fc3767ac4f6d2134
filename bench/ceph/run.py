"""What reading where the bytes are gains: on a link that is the limit, and on one that is not.

    make rados-class && make setup
    sudo .venv/bin/python bench/ceph/run.py [--quick] [--document]

One field of three 8-byte values is read from blocks of 16 MiB in a cluster of three storage daemons (objects in
memory), raw and with `shuffle,zstd:1`: by ranges (`DRYSTONE_PROGRAMS=never`), by programs in the daemons (`always`),
and as the engine decides (`auto`). The bar: on 1 Gbit/s at least 2 times as fast as pipelined whole reads, with at most
1.02 bytes on the wire for each byte that is wanted; where the link is free the engine must not choose what loses.

The cluster and the readers run in a network namespace of their own, whose loopback is limited by a token bucket (`tc
... tbf`): bytes on the wire are those that the namespace's interface counted, TCP included. It needs root, Ceph's
daemons and the class.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "servers"))
import ceph  # noqa: E402
from link import document, enter, limit, received  # noqa: E402

CLASS = Path(os.environ.get("DRYSTONE_RADOS_CLASS", ROOT / "build" / "rados-class"))
FIELDS = 699_050
"""16 MiB of three 8-byte values each."""
LINKS = {"1 Gbit/s": "1gbit", "free loopback": ""}
TRANSFORMS = {"raw": "", "shuffle,zstd:1": "shuffle,zstd:1"}


def read(where: str, conf: str, rounds: int) -> None:
    """Reads the field of each step, and prints seconds and bytes on the wire of each round; runs in a new process."""
    import drystone as dry
    import numpy as np

    out = []
    with dry.open(where, storage_options={"conf": conf}) as c:
        T = c["T"]
        steps = T.shape[0]
        expected = [float(T[t, :8, 1].sum()) for t in range(steps)]
        T[0, :, 1]  # the link and the daemons are measured
        T[0, :, 1]
        for _ in range(rounds):
            wire, began = received(), time.perf_counter()
            field = T[:, :, 1]
            seconds = time.perf_counter() - began
            out.append((seconds, received() - wire))
            assert [float(f[:8].sum()) for f in field] == expected
        shown = str(T.explain[:, :, 1])
        print(
            json.dumps(
                {"rounds": out, "bytes": int(field.nbytes), "there": "read there" in shown, "explain": shown}
            )
        )
        assert isinstance(field, np.ndarray)


def write(where: str, conf: str, transform: str, steps: int) -> None:
    """Writes steps of one block each."""
    import drystone as dry
    import numpy as np

    rng = np.random.default_rng(8)
    with dry.create(where, storage_options={"conf": conf}) as c:
        c.create_variable("T", "f8", shape=(FIELDS, 3), steps=True, transform=transform or None)
        with c.writer(rank=0, nranks=1, layout="log") as w:
            for _ in range(steps):
                with w.step():
                    w.put("T", np.round(rng.normal(size=(FIELDS, 3)), 3))


def small_calls(conf: Path) -> dict[str, float]:
    """Median microseconds of a read of a small object, of `dry.version` and of a program on it, one after the other."""
    vectors = ROOT / "tests" / "vectors" / "programs"
    code = f"""
import json, sys, time, rados
cluster = rados.Rados(conffile={str(conf)!r}, name="client.admin"); cluster.connect()
io = cluster.open_ioctx("test")
io.write_full("small", open({str(vectors / "v1_object.bin")!r}, "rb").read() + bytes(4096))
program = open({str(vectors / "v1_field.bin")!r}, "rb").read()
acts = {{"read of 4 KiB": lambda: io.read("small", 4096), "dry.version": lambda: io.execute("small", "dry", "version", b""),
        "program": lambda: io.execute("small", "dry", "read.1", program)}}
times = {{name: [] for name in acts}}
for _ in range(3000):
    for name, act in acts.items():
        began = time.perf_counter(); act(); times[name].append(time.perf_counter() - began)
print(json.dumps({{name: sorted(t)[len(t) // 2] * 1e6 for name, t in times.items()}}))
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [ceph.SYSTEM_PYTHON, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return {name: float(value) for name, value in json.loads(done.stdout).items()}


def measure(cluster: ceph.Cluster, quick: bool) -> dict[str, Any]:
    """All figures."""
    steps, rounds = (2, 2) if quick else (6, 7)
    found: dict[str, Any] = {"steps": steps, "small": small_calls(cluster.conf), "rows": []}
    for name, transform in TRANSFORMS.items():
        where = f"rados://test/bench-{name.replace(',', '-').replace(':', '-')}/run.dry"
        write(where, str(cluster.conf), transform, steps)
        for link, rate in LINKS.items():
            limit(rate)
            for way in ("never", "always", "auto"):
                command = [sys.executable, __file__, "--read", where, str(cluster.conf), str(rounds)]
                done = subprocess.run(
                    command,
                    env={**os.environ, "DRYSTONE_PROGRAMS": way},
                    capture_output=True,
                    text=True,
                    timeout=600,
                )
                if done.returncode != 0:
                    sys.exit(done.stderr)
                figure = json.loads(done.stdout)
                seconds = median(s for s, _ in figure["rounds"])
                wire = median(b for _, b in figure["rounds"]) / figure["bytes"]
                row = {
                    "stored": name,
                    "link": link,
                    "way": way,
                    "ms": seconds * 1e3,
                    "wire": wire,
                    "there": figure["there"],
                }
                found["rows"].append(row)
                print(json.dumps(row), flush=True)
            limit("")
    return found


def table(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = [
        "| stored | link | by ranges | by programs | as decided | ratio | bytes on the wire, ranges and programs |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    by = {(r["stored"], r["link"], r["way"]): r for r in found["rows"]}
    for stored in TRANSFORMS:
        for link in LINKS:
            never, always, auto = (by[stored, link, way] for way in ("never", "always", "auto"))
            decided = f"{auto['ms']:.0f} ms ({'programs' if auto['there'] else 'ranges'})"
            lines.append(
                f"| {stored} | {link} | {never['ms']:.0f} ms | {always['ms']:.0f} ms | {decided} | "
                f"{never['ms'] / always['ms']:.2f} | {never['wire']:.3f} and {always['wire']:.3f} of the wanted |"
            )
    small = ", ".join(f"{name} {value:.0f} us" for name, value in found["small"].items())
    lines.append("")
    lines.append(
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}. "
        f"{found['steps']} blocks of 16 MiB. Small calls, one after the other, from Python: {small}."
    )
    return "\n".join(lines)


def main() -> None:
    """Measures, in a namespace of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shows that everything works, measures nothing")
    parser.add_argument(
        "--document", action="store_true", help="write the figures into docs/benchmarks/ceph.md"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--read", nargs=3, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.read:
        read(said.read[0], said.read[1], int(said.read[2]))
        return
    if lacking := ceph.missing():
        sys.exit(f"{lacking}")
    if not (CLASS / "libcls_dry.so").exists():
        sys.exit("the object class is not built: make rados-class")
    enter(__file__, said.inside)
    with (
        tempfile.TemporaryDirectory(prefix="drystone-ceph-") as folder,
        ceph.Cluster(Path(folder), classes=CLASS) as cluster,
    ):
        shown = table(measure(cluster, said.quick))
    print(shown)
    if said.document:
        document("figures", shown)


if __name__ == "__main__":
    main()
