"""The example of docs/guide/ceph.md: 16 writers, reads with and without the object class, a killed daemon."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import drystone as dry
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "servers"))
import ceph  # type: ignore[import-not-found]  # noqa: E402

RANKS = 16
URL = "rados://copies/example/run.dry"
READS = {
    "one field of three": "T[-1, :, :, 1]",
    "a plane": "T[0, :, 7, :]",
    "every eighth row and column": "T[-1, ::8, ::8, 2]",
}


def cells(rank: int, step: int, side: int) -> np.ndarray:
    """The cells that a rank writes: rows of structs of three values."""
    rows = np.arange(rank * side // RANKS, (rank + 1) * side // RANKS)[:, None, None]
    columns = np.arange(side)[None, :, None]
    return np.asarray(np.sin(rows * 0.01 + step) * np.cos(columns * 0.02) + np.arange(3.0), dtype=np.float64)


def write(rank: int, conf: str, steps: int, side: int) -> None:
    """One of the writers, which do not communicate."""
    with (
        dry.open(URL, "r+", storage_options={"conf": conf}) as run,
        run.writer(rank=rank, nranks=RANKS) as w,
    ):
        for step in range(steps):
            with w.step():
                w.put("T", cells(rank, step, side), offset=(rank * side // RANKS, 0, 0))


READER = """
import json, sys, time, numpy as np, drystone as dry
where, conf, expression, rounds, out = sys.argv[1:6]
with dry.open(where, storage_options={"conf": conf, "timeout": "25"}) as run:
    T = run["T"]
    values = eval(expression)
    began = time.perf_counter()
    for _ in range(int(rounds)):
        values = eval(expression)
    seconds = (time.perf_counter() - began) / int(rounds)
    there = "read there" in str(eval(expression.replace("T[", "T.explain[")))
    np.save(out, values)
print(json.dumps([seconds, there]))
"""


def read(
    cluster: ceph.Cluster, expression: str, way: str, rounds: int, folder: Path
) -> tuple[np.ndarray, float, int, bool]:
    """Values, seconds and moved bytes of a read in a separate process, and whether it ran in the daemons."""
    before = cluster.counters()
    out = folder / "values.npy"
    done = subprocess.run(
        [sys.executable, "-c", READER, URL, str(cluster.conf), expression, str(rounds), str(out)],
        env={**os.environ, "DRYSTONE_PROGRAMS": way},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    seconds, there = json.loads(done.stdout)
    moved = cluster.counters()["op_r_out_bytes"] - before["op_r_out_bytes"]
    return np.load(out), seconds, moved // (rounds + 1), there


def main() -> None:
    """Run the example and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=768, help="rows and columns")
    parser.add_argument("--steps", type=int, default=2)
    said = parser.parse_args()
    if lacking := ceph.missing():
        sys.exit(f"{lacking}; see examples/ceph/README.md")
    classes = Path(os.environ.get("DRYSTONE_RADOS_CLASS", ROOT / "build" / "rados-class"))
    has_class = (classes / "libcls_dry.so").exists()
    if not has_class:
        print("the object class is not built (make rados-class): all reads are by ranges")
    with tempfile.TemporaryDirectory(prefix="drystone-ceph-") as name:
        folder = Path(name)
        with ceph.Cluster(
            folder / "cluster", classes=classes if has_class else None, bluestore=True
        ) as cluster:
            cluster.pool("copies", size=2)
            run(cluster, said.side, said.steps, folder)


def run(cluster: ceph.Cluster, side: int, steps: int, folder: Path) -> None:
    """Write, read, kill, compare."""
    conf = str(cluster.conf)
    with dry.create(URL, storage_options={"conf": conf}) as c:
        c.create_variable(
            "T", "f8", shape=(side, side, 3), dims=("y", "x", "field"), steps=True, transform="shuffle,zstd:1"
        )
        context = multiprocessing.get_context("spawn")
        writers = [context.Process(target=write, args=(rank, conf, steps, side)) for rank in range(RANKS)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        if any(writer.exitcode != 0 for writer in writers):
            sys.exit("a writer failed")
        c.commit()
    print(f"{RANKS} writers laid down {steps} steps of {side} x {side} structs of three values")
    whole = np.stack(
        [np.concatenate([cells(rank, step, side) for rank in range(RANKS)]) for step in range(steps)]
    )
    print(f"{'read':30} {'way':28} {'ms':>8} {'moved':>12} {'wanted':>12}")

    def show(what: str, expression: str, way: str, named: str, rounds: int = 3) -> None:
        found, seconds, moved, there = read(cluster, expression, way, rounds, folder)
        expected = eval(expression, {"T": whole})
        if found.tobytes() != np.ascontiguousarray(expected).tobytes():
            sys.exit(f"{what}, {named}: a value is not what was written")
        where = f"{named}{'' if way == 'never' or there else ' (ranges)'}"
        print(f"{what:30} {where:28} {seconds * 1e3:8.1f} {moved:12} {found.nbytes:12}", flush=True)

    for what, expression in READS.items():
        show(what, expression, "never", "ranges")
        show(what, expression, "always", "programs")
        show(what, expression, "auto", "as the engine decides")
    killer = threading.Timer(0.7, cluster.kill_osd, [1])
    killer.start()
    for what, expression in READS.items():
        show(what, expression, "always", "programs, a daemon dies", rounds=40)
    killer.join()
    print("every value is what was written")


if __name__ == "__main__":
    main()
