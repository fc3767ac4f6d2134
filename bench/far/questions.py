"""What is asked on a far store; each question writes without a link and measures over one.

Invariants
- engines are asked in turn, first in another order each round; a time is the median of the rounds, counts are those of
  the last;
- a handle is new in every round, and every value is compared outside the clock;
- an engine that fails leaves its reason in the table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from engines import Drystone, Engine
from server import LINK, Counts, Server

RTTS = (0.001, 0.03)


@dataclass
class Row:
    """One case at one round trip: seconds and counts of each engine."""

    case: str
    rtt: float
    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def best_peer(self, of: Callable[[str], float]) -> tuple[float, str]:
        """The least of the others, and whose it is."""
        return min(
            ((of(name), name) for name in self.seconds if not name.startswith("drystone")), default=(0.0, "-")
        )


Act = Callable[[], np.ndarray | None]


def asked(
    server: Server,
    case: str,
    rtt: float,
    acts: dict[str, Callable[[], Act]],
    expected: np.ndarray | None,
    rounds: int,
) -> Row:
    """`acts` prepare what is measured, such as a handle; what they return is."""
    row = Row(case, rtt)
    taken: dict[str, list[float]] = {name: [] for name in acts}
    names = list(acts)
    with server.link(rtt):
        for turn in range(rounds + 1):  # the first finds connections and the number of requests under way
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                if name in row.failures:
                    continue
                try:
                    act = acts[name]()
                    server.order(reset=True)
                    begun = time.perf_counter()
                    found = act()
                    seconds = time.perf_counter() - begun
                except Exception as error:  # an engine that cannot do it is part of the answer
                    row.failures[name] = f"{type(error).__name__}: {error}"[:900]
                    continue
                row.counts[name] = server.counts()
                if expected is not None and not np.array_equal(found, expected):
                    raise SystemExit(f"{name}: {case}: wrong values")
                if turn:
                    taken[name].append(seconds)
    row.seconds = {name: median(times) for name, times in taken.items() if times}
    return row


def cold_open(server: Server, engines: Sequence[Engine], rounds: int, size: int) -> list[Row]:
    """A container of many blocks is opened by a new handle, and a first row is read."""
    values = np.arange(size * 64, dtype="f4").reshape(size, 64)
    ours = [engine for engine in engines if isinstance(engine, Drystone) and not engine.published]
    others = [engine for engine in engines if not isinstance(engine, Drystone)]
    for drystone in ours:
        drystone.write_rows("rows", values)
    for engine in others:
        engine.write("rows", {"a": values}, (1, 64))
    rows = []
    for rtt in RTTS:

        def opening(engine: Engine) -> Act:
            def act() -> None:
                engine.open("rows", "a")

            return act

        def reading(engine: Engine) -> Act:
            return lambda: np.asarray(engine.open("rows", "a")[size // 2 : size // 2 + 1])

        engines_here = [*ours, *others]
        acts = {engine.name: lambda engine=engine: opening(engine) for engine in engines_here}
        rows.append(asked(server, f"open of {size:,} blocks", rtt, acts, None, rounds))
        acts = {engine.name: lambda engine=engine: reading(engine) for engine in engines_here}
        row = values[size // 2 : size // 2 + 1]
        rows.append(asked(server, "open and a first row", rtt, acts, row, rounds))
    return rows


def ranges(server: Server, engines: Sequence[Engine], rounds: int, size: int) -> list[Row]:
    """One of two variables that were put turn by turn: blocks of 1 MiB that lie apart."""
    a = np.arange(size * (1 << 18), dtype="f4").reshape(size, 1 << 18)
    b = -a
    for engine in engines:
        engine.write("ranges", {"a": a, "b": b}, (1, 1 << 18))
    rows = []
    for rtt in RTTS:
        acts = {
            engine.name: lambda engine=engine: _read(engine.open("ranges", "a"), (slice(None), slice(None)))
            for engine in engines
        }
        rows.append(asked(server, f"{size} MiB in {size} ranges", rtt, acts, a, rounds))
    return rows


def _read(array: Any, key: Any) -> Act:
    return lambda: np.asarray(array[key])


def boxes(server: Server, engines: Sequence[Engine], rounds: int, edge: int) -> list[Row]:
    """Boxes, planes and points of a cube, by handles that know nothing."""
    rng = np.random.default_rng(7)
    whole = rng.random((edge, edge, edge), dtype="f4")
    for engine in engines:
        engine.write("cube", {"a": whole}, (edge // 4,) * 3)
    low, high = edge // 5, edge // 5 + edge // 4
    keys: dict[str, Any] = {
        f"an unaligned box of {edge // 4}^3": (slice(low, high),) * 3,
        "a plane across the slowest axis": (slice(None), slice(None), edge // 2 + 1),
        "a plane of the slowest axis": (edge // 2 + 1, slice(None), slice(None)),
    }
    coords = rng.integers(0, edge, (100, 3))
    rows = []
    for rtt in RTTS:
        for case, key in keys.items():
            acts = {
                engine.name: lambda engine=engine, key=key: _read(engine.open("cube", "a"), key)
                for engine in engines
            }
            rows.append(asked(server, case, rtt, acts, whole[key], rounds))
        acts = {engine.name: lambda engine=engine: _points(engine, coords) for engine in engines}
        rows.append(asked(server, "100 points", rtt, acts, whole[tuple(coords.T)], rounds))
    return rows


def _points(engine: Engine, coords: np.ndarray) -> Act:
    array = engine.open("cube", "a")
    return lambda: engine.points(array, coords)


WRITER = """
import sys, time
import numpy as np
kind, endpoint, count, mib, concurrency = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
block = np.arange((mib << 20) // 4, dtype="f4")
key, secret = "rig", "rig-secret"
if kind == "drystone":
    import drystone as dry
    options = {"aws_endpoint": endpoint, "aws_access_key_id": key, "aws_secret_access_key": secret}
    c = dry.create(f"s3://bucket/checkpoint/{time.time_ns()}.dry", storage_options=options)
    for n in range(count):
        c.create_variable(f"v{n}", "f4", shape=block.shape, steps=True)
    w = c.writer(rank=0, nranks=1)  # the end of a step commits it
    def act():
        with w.step():
            for n in range(count):
                w.put(f"v{n}", block)
else:
    import obstore
    from concurrent.futures import ThreadPoolExecutor
    from obstore.store import S3Store
    store = S3Store("bucket", prefix="obstore", endpoint=endpoint, access_key_id=key, secret_access_key=secret,
                    region="us-east-1", virtual_hosted_style_request=False, client_options={"allow_http": True})
    pool = ThreadPoolExecutor(concurrency)
    def act():
        put = lambda n: obstore.put(store, f"v{n}", memoryview(block).cast("B"), use_multipart=True,
                                    chunk_size=8 << 20, max_concurrency=12)
        list(pool.map(put, range(count)))
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
import urllib.request
ask = lambda body=None: urllib.request.urlopen(f"{endpoint}/_rig", data=body).read()
ask(b'{"reset": true}')
begun = time.perf_counter()
act()
print(time.perf_counter() - begun, (peak() - before) / 1024)
"""


def checkpoint(server: Server, rounds: int, count: int, mib: int) -> tuple[list[Row], list[str]]:
    """Blocks of one process, in one step with its commit, beside multipart uploads of the bare bytes."""
    rows, remarks = [], []
    ways = {"drystone": ("drystone", 0), **{f"obstore, {n} at once": ("obstore", n) for n in (1, 2, 4)}}
    for rtt in RTTS:
        row = Row(f"{count} x {mib} MiB written", rtt)
        taken: dict[str, list[float]] = {name: [] for name in ways}
        held: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, (kind, concurrency) in ways.items():
                with server.link(rtt):
                    said = _child(kind, server.endpoint, count, mib, max(concurrency, 1))
                row.counts[name] = server.counts()
                server.order(clear="bucket")
                taken[name].append(said[0])
                held[name].append(said[1])
        row.seconds = {name: median(times) for name, times in taken.items()}
        rows.append(row)
        best, _ = row.best_peer(row.seconds.__getitem__)
        kinds = row.counts["drystone"].kinds
        data = sum(kinds.get(kind, 0) for kind in ("PUT_PART", "CREATE_UPLOAD", "COMPLETE_UPLOAD"))
        remarks.append(
            f"At {rtt * 1e3:.0f} ms: throughput {best / row.seconds['drystone']:.2f} of the best multipart upload, "
            f"{row.counts['drystone'].requests - data} requests besides the data's {data}, peak memory "
            f"{median(held['drystone']):.0f} MiB beside the array (obstore {median(held['obstore, 2 at once']):.0f}); "
            f"the bytes alone take {count * mib * (1 << 20) / LINK:.2f} s."
        )
    return rows, remarks


def _child(kind: str, *arguments: object) -> list[float]:
    command = [sys.executable, "-c", WRITER, kind, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [float(word) for word in done.stdout.split()]


def forks(server: Server, runs: int) -> list[str]:
    """A container that the parent opened and read is read by 8 forked children."""
    ours = Drystone(server.endpoint)
    values = np.arange(64 * 4096, dtype="f4").reshape(64, 4096)
    ours.write("forks", {"a": values}, (1, 4096))
    array = ours.open("forks", "a")
    begun, wrong = time.perf_counter(), 0
    with server.link(RTTS[0]):
        for _ in range(runs):
            if not np.array_equal(array[...], values):
                raise SystemExit("the parent reads wrong values")
            children = []
            for n in range(8):
                child = os.fork()
                if child == 0:
                    os._exit(0 if np.array_equal(array[n::8], values[n::8]) else 1)
                children.append(child)
            wrong += sum(os.waitpid(child, 0)[1] != 0 for child in children)
    seconds = time.perf_counter() - begun
    return [f"{runs} runs of a parent and 8 forked children: {wrong} wrong, no hang, {seconds:.0f} s."]


def explained(server: Server) -> list[str]:
    """What `explain` predicts beside what is measured."""
    ours = Drystone(server.endpoint)
    lines = []
    for rtt in RTTS:
        with server.link(rtt):
            for name, key in (("ranges", (slice(None), slice(None))), ("cube", (slice(50, 114),) * 3)):
                array = ours.open(name, "a")
                plan = array.explain[key]
                server.order(reset=True)
                begun = time.perf_counter()
                _ = array[key]
                seconds = time.perf_counter() - begun
                counts = server.counts()
                lines.append(
                    f"{name} at {rtt * 1e3:.0f} ms: measured {counts}, {seconds:.3f} s; plan: {plan}"
                )
    return lines
