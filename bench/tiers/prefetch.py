"""Measures reads of a far store with prefetch and with a cache folder.

The server is the scripted one of crates/s3-rig behind 1 Gbit/s and round trips of 30 ms, in a process of its own.
Traces are those of three analyses (a network that reads whole images, a gradient and a vorticity with ghost zones), and
tiles, steps, reversed steps and random boxes. The program computes as long after each read as reading it takes without
prefetch.

Bars (B-8, B-9): with prefetch at most 1.1 x max(compute, I/O) in all and 3 times as fast as without; 95 % of reads
after the second need nothing from home; no byte of a ghost zone is fetched twice; random reads at most 2 % slower, with
at most 5 % of the bytes fetched in vain. A warm read from the cache folder takes at most 1.2 of a container on the
local disk.

Every value is compared. Counts are exact; times are for a quiet machine. The extension must be built (`make setup`),
and cargo builds the server.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
KEYS = {"aws_access_key_id": "rig-key-id", "aws_secret_access_key": "rig-secret-hunter2"}
URL = "s3://bucket/run.dry"
EDGE = 128
LIMIT = 30.0  # seconds of one trace


class Server:
    """The scripted S3 server, and what it counted."""

    def __init__(self) -> None:
        subprocess.run(["cargo", "build", "--quiet", "--package", "drystone-s3-rig"], cwd=ROOT, check=True)
        program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "s3-rig"
        command = [str(program), "--rtt", "30ms", "--rate", "1Gbit"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()
        self.options = {"aws_endpoint": self.endpoint, **KEYS}

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)


def expected(n: int, t: int, shift: int) -> np.ndarray:
    """The plane of a step."""
    return (np.arange(n * n, dtype="f4").reshape(n, n) + 1000 * t) * (1 if shift == 0 else -shift)


def tiles(n: int, halo: int) -> list[tuple[slice, slice]]:
    """Tiles of a plane, row by row, with a halo that the edges clip."""
    each = range(0, n, EDGE)

    def span(at: int) -> slice:
        return slice(max(0, at - halo), min(n, at + EDGE + halo))

    return [(span(y), span(x)) for y in each for x in each]


def traces(n: int, steps: int) -> dict[str, list[tuple[str, tuple[object, ...]]]]:
    """Reads of each analysis: variable, and step and slices."""
    chance = random.Random(4)
    jumps = [(chance.randrange(n - EDGE), chance.randrange(n - EDGE)) for _ in range(24)]
    whole = (slice(None), slice(None))
    half = (slice(0, n // 2), slice(0, n // 2))
    return {
        "cnn: whole images": [("u", (t, *whole)) for t in range(steps)],
        "gradient: tiles, halo 1": [("u", (0, *tile)) for tile in tiles(n, 1)],
        "vorticity: two variables, halo 1": [(name, (0, *tile)) for tile in tiles(n, 1) for name in "uv"],
        "raster: tiles": [("u", (1, *tile)) for tile in tiles(n, 0)],
        "steps": [("u", (t, *half)) for t in range(steps)],
        "steps, reversed": [("u", (t, *half)) for t in reversed(range(steps))],
        "random boxes": [("u", (0, slice(y, y + EDGE), slice(x, x + EDGE))) for y, x in jumps],
    }


def run(
    server: Server, data: dict, trace: list, compute: float | None, cache: Path | None
) -> dict[str, float]:
    """Read a trace, computing between reads as long as is said; seconds, and what was counted."""
    import drystone as dry

    with dry.open(URL, storage_options=server.options, cache=False if cache is None else cache) as c:
        variables = {name: c[name] for name in "uv"}
        hits, reading, computing = [], 0.0, 0.0
        for number, (name, key) in enumerate(trace):
            before = c.metrics()["home_bytes"]
            start = time.perf_counter()
            found = variables[name][key]
            reading += time.perf_counter() - start
            hits.append(c.metrics()["home_bytes"] == before)
            if not np.array_equal(found, data[name][key[0]][key[1:]]):
                raise SystemExit(f"a wrong value in read {number} of {name}{key}")
            if compute is not None:
                start = time.perf_counter()
                time.sleep(compute)
                computing += time.perf_counter() - start
        counted = c.metrics()
    later = hits[2:]
    wasted = counted["prefetched_bytes"] - counted["prefetch_used_bytes"]
    return {
        "seconds": reading + computing,  # without what is asked for the counts
        "reading": reading,
        "each": reading / len(trace),
        "hits": sum(later) / max(1, len(later)),
        "fetched": counted["home_bytes"] + counted["prefetched_bytes"],
        "wasted": wasted,
    }


def prefetching(server: Server, n: int, steps: int, data: dict, names: list[str]) -> None:
    """B-8: each trace without prefetch, in a process of its own, and with it."""
    print("### Traces: reading and computing, each as long\n")
    print(
        "| trace | reads | without | with | ratio | of max(compute, I/O) | hits | fetched MiB | without MiB | in vain |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in names:
        trace = traces(n, steps)[name]
        command = [sys.executable, __file__, "--trace", name, "--server", server.endpoint, "--size", str(n)]
        command += ["--steps", str(steps)]
        env = {**os.environ, "DRYSTONE_PREFETCH": "off"}
        told = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        without = json.loads(told.stdout)
        with tempfile.TemporaryDirectory() as folder:
            done = run(server, data, trace, without["each"], Path(folder))
        best = max(without["reading"], without["each"] * len(trace))
        print(
            f"| {name} | {len(trace)} | {without['seconds']:.2f} s | {done['seconds']:.2f} s "
            f"| {without['seconds'] / done['seconds']:.2f} | {done['seconds'] / best:.2f} | {done['hits']:.0%} "
            f"| {done['fetched'] / 2**20:.1f} | {without['fetched'] / 2**20:.1f} "
            f"| {done['wasted'] / max(1, done['fetched']):.1%} |"
        )
    print()


def warm(server: Server, n: int, data: dict, folder: Path, rounds: int) -> None:
    """B-9: the same read from the cache folder and from a container on the same disk."""
    import drystone as dry

    print("### Warm reads: cache folder beside a local container\n")
    print("| read | MiB | local | cache | ratio |")
    print("|---|---|---|---|---|")
    with dry.open(URL, storage_options=server.options) as far:
        far.copy(folder / "local.dry").close()
    with (
        dry.open(URL, storage_options=server.options, cache=folder / "cache") as cached,
        dry.open(folder / "local.dry") as local,
    ):
        cached.warm("u")
        asked = cached.metrics()["home_bytes"]  # for tables that say where cells are
        for what, key in {
            "a step": (0, slice(None), slice(None)),
            "a tile": (0, slice(5, 5 + EDGE), slice(9, 9 + EDGE)),
        }.items():
            times: dict[str, list[float]] = {"local": [], "cache": []}
            for _ in range(rounds):
                for name, c in (("local", local), ("cache", cached)):
                    begun = time.perf_counter()
                    found = c["u"][key]
                    times[name].append(time.perf_counter() - begun)
                    if not np.array_equal(found, data["u"][key[0]][key[1:]]):
                        raise SystemExit(f"a wrong value in {what} from {name}")
            one, two = statistics.median(times["local"]), statistics.median(times["cache"])
            size = data["u"][key[0]][key[1:]].nbytes / 2**20
            print(f"| {what} | {size:.1f} | {one * 1e3:.2f} ms | {two * 1e3:.2f} ms | {two / one:.2f} |")
        if cached.metrics()["home_bytes"] != asked:
            raise SystemExit("a warm read asked home")
    print()


def main() -> int:
    """Run what the command line asks for, and print Markdown."""
    parser = argparse.ArgumentParser(description="Measure prefetch and the cache folder of far stores.")
    parser.add_argument("--quick", action="store_true", help="tiny: shows that everything works")
    parser.add_argument("--trace", help=argparse.SUPPRESS)
    parser.add_argument("--server", help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, default=1024, help="cells of a side of a plane")
    parser.add_argument("--steps", type=int, default=16)
    arguments = parser.parse_args()
    n, steps = (512, 8) if arguments.quick else (arguments.size, arguments.steps)
    data = {name: [expected(n, t, shift) for t in range(steps)] for shift, name in enumerate("uv")}
    if arguments.trace:
        server = Server.__new__(Server)
        server.endpoint, server.options = arguments.server, {"aws_endpoint": arguments.server, **KEYS}
        trace = traces(n, steps)[arguments.trace]
        each = run(server, data, trace, None, None)["each"]
        print(json.dumps(run(server, data, trace, min(each, LIMIT / len(trace)), None)))
        return 0
    import drystone as dry

    server = Server()
    try:
        with dry.create(URL, storage_options=server.options) as c:
            for name in "uv":
                c.create_variable(name, dtype="f4", shape=(n, n), steps=True, chunks=(EDGE, EDGE))
            with c.writer(rank=0, nranks=1) as w:
                for t in range(steps):
                    with w.step(t):
                        for name in "uv":
                            w.put(name, data[name][t])
        names = list(traces(n, steps))
        prefetching(server, n, steps, data, names[1:2] + names[-1:] if arguments.quick else names)
        with tempfile.TemporaryDirectory() as folder:
            warm(server, n, data, Path(folder), 3 if arguments.quick else 15)
    finally:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
