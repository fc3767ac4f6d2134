"""What tiers cost the program that writes, and what they save it.

The tiers are a folder in memory (/dev/shm) and one on the disk; home is the scripted S3 of crates/s3-rig behind a link
of 1 Gbit/s with round trips of 30 ms; nodes are folders and processes. Counts are exact, times are ratios of one run.
Bars (docs/benchmarks/tiers.md):

- wait: a checkpoint waits at most 1.15 of a copy into new files of the same memory, and 1/7 of what it waits without
  tiers;
- drain: each byte is sent once; write and drain together take at most 1.1 of a direct write;
- yield: a loop that computes beside the drain slows down by at most 5 %, a put during a drain by at most 10 %;
- kills: no committed step is lost, and at most one part for each drainer is sent again after a kill;
- redundancy: the space of the scheme, parity at 0.4 of memcpy or more, a restore in at most 1.3 of reading the parts
  that are left;
- faults: no put fails while a tier or home has room.

The extension must be built (`make setup`). A wrong value ends the run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[1:1] = [str(ROOT / "python"), str(HERE.parent / "far")]

import drystone as dry  # noqa: E402
import numpy as np  # noqa: E402
from server import KEYS, Server  # noqa: E402

RTT = 0.030
QUESTIONS = ("wait", "yield", "kills", "redundancy", "faults")
MEMORY = Path("/dev/shm")
SCALE = 1 << 20


class Place:
    """Folders of one question, removed at its end."""

    def __init__(self, disk: Path) -> None:
        self.memory = Path(tempfile.mkdtemp(prefix="drystone-tiers-", dir=MEMORY))
        self.disk = Path(tempfile.mkdtemp(prefix="drystone-tiers-", dir=disk))

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.memory, ignore_errors=True)
        shutil.rmtree(self.disk, ignore_errors=True)


def options(server: Server) -> dict[str, str]:
    """How the server is reached."""
    return {"aws_endpoint": server.endpoint, "allow_http": "true", **KEYS}


def timed(act: Callable[[], object]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def block(mebibytes: int) -> np.ndarray:
    """Values that no codec makes shorter."""
    return np.random.default_rng(1).integers(0, 1 << 32, mebibytes * SCALE // 4, dtype=np.uint32)


def row(name: str, *cells: object) -> None:
    """A row of the table."""
    print(
        f"| {name} | " + " | ".join(f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells) + " |",
        flush=True,
    )


def head(*names: str) -> None:
    """The head of a table."""
    print("\n| " + " | ".join(names) + " |\n|" + "---|" * len(names), flush=True)


def container(server: Server, name: str, data: np.ndarray, tiers: list[Path] | None) -> dry.Container:
    """A new container at the server."""
    c = dry.create(f"s3://bucket/{name}.dry", tiers=tiers, storage_options=options(server))
    c.create_variable("T", dtype="u4", shape=data.shape, steps=True)
    return c


def written(c: dry.Container, w: dry.Writer, data: np.ndarray, step: int) -> None:
    """One checkpoint."""
    with w.step(step):
        w.put("T", data)


def copied(folder: Path, data: np.ndarray, name: str) -> None:
    """The limit: the same bytes copied into a file of the same folder, in pieces as the engine writes them."""
    with (folder / name).open("wb", buffering=0) as file:
        view = memoryview(data).cast("B")
        for at in range(0, len(view), 512 << 10):
            file.write(view[at : at + (512 << 10)])


def wait(server: Server, disk: Path, quick: bool) -> None:
    """How long a checkpoint is waited for, and how long its drain takes."""
    data, rounds = block(16 if quick else 512), 1 if quick else 3
    with Place(disk) as place, server.link(RTT):
        direct = container(server, "direct", data, None)
        with direct.writer(rank=0, nranks=1) as w:
            straight = timed(lambda: written(direct, w, data, 0))
        direct.close()
        head(f"checkpoint of {data.nbytes >> 20} MiB", "s", "/ copy", "direct / this")
        row("direct to S3", straight, "", 1.0)
        for name, folder in (("memory", place.memory), ("disk", place.disk)):
            copies = [timed(partial(copied, folder, data, f"copy{r}")) for r in range(rounds)]
            again = [timed(partial(copied, folder, data, "copy0")) for _ in range(rounds)]
            for r in range(rounds):
                (folder / f"copy{r}").unlink()
            fresh = min(copies)
            row(f"copy into new files, {name}", fresh, 1.0, straight / fresh)
            row(f"copy into old files, {name}", min(again), min(again) / fresh, straight / min(again))
            c = container(server, f"tier-{name}", data, [folder])
            server.order(reset=True)
            with c.writer(rank=0, nranks=1) as w:
                waited = timed(partial(written, c, w, data, 0))
                drained = timed(c.drain)
            counts = server.counts()
            row(f"tier in {name}", waited, waited / fresh, straight / waited)
            row(f"tier in {name}, with its drain", waited + drained, "", straight / (waited + drained))
            row(f"sent, in {counts.requests} requests, / bytes", counts.bytes_in / data.nbytes, "", "")
            assert np.array_equal(c["T"][0], data)
            c.close()


COMPUTES = """
import sys, time
import numpy as np
a = np.random.default_rng(2).random((400, 400))
end, loops = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    b = a @ a
    loops += 1
print(loops)
"""


def loops(seconds: float) -> subprocess.Popen[str]:
    """A program that computes on one processor."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", COMPUTES, str(seconds)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def drain_yields(server: Server, disk: Path, quick: bool) -> None:
    """What the drain costs a program that computes beside it, and a put."""
    data, seconds = block(8 if quick else 64), 0.5 if quick else 4.0
    with Place(disk) as place, server.link(RTT):
        alone = int(loops(seconds).communicate()[0])
        c = container(server, "yield", data, [place.memory])
        with c.writer(rank=0, nranks=1) as w:
            written(c, w, data, 0)
            quiet = min(timed(lambda s=s: written(c, w, data, s)) for s in range(1, 4))
            c.wait(3, "stable", timeout=300)
            for step in range(4, 4 + (2 if quick else 8)):
                written(c, w, data, step)
            computing = loops(seconds)
            beside = int(computing.communicate()[0])
            busy = min(timed(lambda s=s: written(c, w, data, s)) for s in range(100, 103))
        c.close()
        head("beside a drain", "slowdown")
        row("a loop that computes", alone / beside - 1)
        row(f"a put of {data.nbytes >> 20} MiB", busy / quiet - 1)


KILLED = """
import os, random, signal, sys, threading
import numpy as np
import drystone as dry
home, tier, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
data = np.arange(65536, dtype="u4")
threading.Timer(random.Random(seed).uniform(0.05, 0.4), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
c = dry.open(home, "r+", tiers=[tier])
c.recover()
with c.writer(rank=0, nranks=1) as w:
    for step in range(seed * 1000, seed * 1000 + 1000):
        with w.step(step):
            w.put("T", data + step)
        print(step, flush=True)
"""


def kills(disk: Path, quick: bool) -> None:
    """Steps that were promised are there after kills, whatever the moment."""
    lives = 3 if quick else 40
    with Place(disk) as place:
        home = place.disk / "run.dry"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "DRYSTONE_NODE": "bench"}
        os.environ["DRYSTONE_NODE"] = "bench"
        with dry.create(home, tiers=[]) as c:
            c.create_variable("T", dtype="u4", shape=(65536,), steps=True)
        promised: set[int] = set()
        for seed in range(lives):
            command = [sys.executable, "-c", KILLED, str(home), str(place.memory), str(seed)]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
            assert done.returncode == -signal.SIGKILL, done
            promised |= {int(line) for line in done.stdout.split("\n")[:-1]}
        with dry.open(home, "r+", tiers=[place.memory]) as c:
            c.recover()
            c.drain()
            lost = promised - set(c.steps)
            wrong = sum(
                not np.array_equal(c["T"][s], np.arange(65536, dtype="u4") + s) for s in promised - lost
            )
        head("kills", "steps promised", "lost", "wrong")
        row(str(lives), len(promised), len(lost), wrong)
        assert not lost
        assert not wrong


RANK = """
import os, sys, time
import numpy as np
import drystone as dry
home, near, rank, nranks, cells = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
c = dry.open(home, "r+", tiers=[near])
data = np.random.default_rng(rank).integers(0, 1 << 32, cells, dtype=np.uint32)
with c.writer(rank=rank, nranks=nranks) as w, w.step(0):
    w.put("T", data, offset=rank * cells)
print("ready", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def redundancy(disk: Path, quick: bool) -> None:
    """Space, the speed of parity, and of a restore."""
    cells = (2 if quick else 64) * SCALE // 4
    source, target = np.ones(cells, dtype=np.uint32), np.empty(cells, dtype=np.uint32)
    copy = min(timed(lambda: np.copyto(target, source)) for _ in range(5)) / source.nbytes
    head(
        f"{cells * 4 >> 20} MiB each", "space / B", "of the scheme", "parity: memcpy / this", "restore / read"
    )
    for scheme, nranks, factor in (
        ("partner", 2, 2.0),
        ("xor:4", 4, 4 / 3),
        ("xor:8", 8, 8 / 7),
        ("rs:4+2", 6, 1.5),
    ):
        with Place(disk) as place:
            home = place.disk / "run.dry"
            with dry.create(home, tiers=[], redundancy=scheme) as c:
                c.create_variable("T", dtype="u4", shape=(cells * nranks,), steps=True)
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "DRYSTONE_DRAIN": "hold"}
            ranks = []
            for rank in range(nranks):
                words = [str(home), str(place.memory / f"near{rank}"), str(rank), str(nranks), str(cells)]
                command = [sys.executable, "-c", RANK, *words]
                node = {**environment, "DRYSTONE_NODE": f"n{rank}"}
                pipe = subprocess.PIPE
                ranks.append(subprocess.Popen(command, env=node, stdin=pipe, stdout=pipe, text=True))
            for process in ranks:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            os.environ |= {"DRYSTONE_NODE": "n0", "DRYSTONE_DRAIN": "hold"}
            for process in ranks:
                process.communicate("\n")
            with dry.open(home, "r+", tiers=[place.memory / "near0"]) as c:
                c.commit()
                coded = timed(lambda: c.wait(0, "partner", timeout=300))
            parts = sum(path.stat().st_size for path in place.memory.rglob("*.seg"))
            kept = sum(path.stat().st_size for path in place.memory.rglob("*.red"))
            left = [path for path in place.memory.rglob("*.seg") if "near1/" not in str(path)]
            read = timed(partial(read_all, left))
            shutil.rmtree(place.memory / "near1")
            os.environ["DRYSTONE_NODE"] = "spare"
            with dry.open(home, "r+") as c:
                restore = timed(lambda: c.recover(lost_nodes=["n1"]))
                assert c.steps == [0]
            row(
                f"{scheme}, {nranks} nodes",
                (parts + kept) / parts,
                factor,
                copy * parts / coded,
                restore / read,
            )
            del os.environ["DRYSTONE_NODE"], os.environ["DRYSTONE_DRAIN"]


def read_all(paths: list[Path]) -> None:
    """What a restore reads at least."""
    for path in paths:
        path.read_bytes()


def faults(disk: Path, quick: bool) -> None:
    """Full and failing tiers: puts go on."""
    data, steps = block(1), 10 if quick else 100
    with Place(disk) as place:
        for name, spoil in (("full", False), ("failing", True)):
            home = place.disk / f"{name}.dry"
            with dry.create(home, tiers=[(place.memory / name, 4 << 20), place.disk / name]) as c:
                c.create_variable("T", dtype="u4", shape=data.shape, steps=True)
                failed = 0
                with c.writer(rank=0, nranks=1) as w:
                    for step in range(steps):
                        if spoil and step == steps // 2:
                            c.drain()
                            for folder in (place.memory / name).glob("*/parts/log"):
                                shutil.rmtree(folder)
                                folder.write_text("no folder any more")
                        try:
                            written(c, w, data, step)
                        except dry.DrystoneError:
                            failed += 1
                c.drain()
                assert all(np.array_equal(c["T"][step], data) for step in range(steps))
            head("a tier that is " + name, "puts", "failed")
            row("", steps, failed)
            assert not failed


def main() -> int:
    """Run what the command line asks for, and print Markdown."""
    parser = argparse.ArgumentParser(description="Measure tiers.")
    parser.add_argument(
        "--quick", action="store_true", help="tiny: shows that everything works, measures nothing"
    )
    parser.add_argument("--only", action="append", choices=QUESTIONS, help="one question (repeatable)")
    parser.add_argument("--disk", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk")
    arguments = parser.parse_args()
    wanted, quick, disk = arguments.only or QUESTIONS, arguments.quick, arguments.disk
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    if {"wait", "yield"} & set(wanted):
        server = Server()
        try:
            if "wait" in wanted:
                wait(server, disk, quick)
            if "yield" in wanted:
                drain_yields(server, disk, quick)
        finally:
            server.close()
    if "kills" in wanted:
        kills(disk, quick)
    if "redundancy" in wanted:
        redundancy(disk, quick)
    if "faults" in wanted:
        faults(disk, quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
