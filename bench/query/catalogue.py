"""Finding runs among ten thousand: how long does it take.

    python bench/query/catalogue.py [--containers 10000] [--tags 100] [--folder DIR]

Bars: opening the catalogue and a first answer <= 50 ms, an exact question <= 2 ms, an infix <= 50 ms, >= 100 x faster
than opening each container, an update after one commit <= 10 ms, adding >= 10^4 containers a minute. Files are in the
page cache, for opening each as well.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import drystone as dry
import numpy as np

COPIES = 20


def make(folder: Path, containers: int, tags: int) -> None:
    """Small containers: an array, and tags of which some are common, some rare, some its own.

    One in twenty is written, the others are copies of these at other places: a question that one of them answers has
    twenty answers.
    """
    random = np.random.default_rng(114)
    different = -(-containers // COPIES)
    for n in range(containers):
        path = folder / f"{n // 1000:03}" / f"run{n:05}.dry"
        if n >= different:
            shutil.copytree(folder / f"{n % different // 1000:03}" / f"run{n % different:05}.dry", path)
            continue
        with dry.create(path, durability="memory") as c:
            c["p"] = random.normal(size=16).astype("f4") + n % 100
            own = {
                "campaign": f"campaign{n % 100:03}",
                "number": n,
                "label": f"label {random.integers(2**40):x}",
            }
            more = {
                f"tag{t:02}": float(random.integers(1000)) if t % 2 else f"word{random.integers(500)}"
                for t in range(tags - 3)
            }
            c.tag({**own, **more})


def timed(do: Callable[[], object], times: int = 20) -> float:
    """The median, in milliseconds."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        do()
        took.append(1000 * (time.perf_counter() - begin))
    return statistics.median(took)


def cold(folder: Path) -> float:
    """Opening and a first answer in a new process, without the start of the interpreter, in milliseconds."""
    code = (
        "import sys, time, drystone as dry\nbegin = time.perf_counter()\n"
        "found = dry.catalog(sys.argv[1], make=False).find(\"name == 'run04711.dry'\")\n"
        "print(1000 * (time.perf_counter() - begin))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
        for _ in range(5)
    ]
    return statistics.median(float(run.stdout) for run in runs)


def main() -> None:
    """Make, add, ask, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--containers", type=int, default=10_000)
    parser.add_argument("--tags", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where containers are kept for the next time")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="catalogue"))
    runs, n = folder / "runs", given.containers
    if not runs.exists():
        make(runs, n, given.tags)
    known = dry.catalog(Path(tempfile.mkdtemp(dir=folder)))
    begin = time.perf_counter()
    known.add(runs)
    adding = time.perf_counter() - begin
    checked = known.check()
    rows = {
        "added, containers per minute": 60 * n / adding,
        "bytes per tag": checked.nbytes / (n * given.tags),
    }
    rows["open and first answer, ms"] = cold(Path(known.path))
    rows["exact, 1 answer, ms"] = timed(lambda: known.find("name == 'run04711.dry'"))
    rows["exact, 100 to 200 answers, ms"] = timed(lambda: known.find("campaign == 'campaign042'"))
    rows["prefix, ms"] = timed(lambda: known.find("label == 'label 7a*' & campaign == 'campaign04*'"))
    rows["range of statistics, ms"] = timed(lambda: known.find("max(p) > 101.5"))
    rows["infix, ms"] = timed(lambda: known.find("label == '*7a7*'"))
    paths = sorted(runs.rglob("*.dry"))[:: max(1, n // 500)]

    def each() -> None:
        for path in paths:
            with dry.open(path) as c:
                _ = c.attrs["number"] == 4711

    rows["opening each, ms"] = timed(each, 3) * n / len(paths)
    rows["ratio to an exact question"] = rows["opening each, ms"] / rows["exact, 1 answer, ms"]
    changed = runs / "000" / "run00007.dry"
    with dry.open(changed, mode="r+") as c:
        c.tag(number=-7)
    begin = time.perf_counter()
    known.add(changed)
    rows["update after a commit, ms"] = 1000 * (time.perf_counter() - begin)
    with dry.open(changed, mode="r+") as c:
        c.tag(number=7)
    for name, value in rows.items():
        print(f"{name:32} {value:12.4g}")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
