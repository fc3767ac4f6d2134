"""Measures Drystone beside raw files and h5py: `make bench`, or `.venv/bin/python bench/run.py --help`.

Each module beside this one answers one question, which it states with the bar; figures of a quiet machine are in
docs/benchmarks/local.md. Nothing here asserts a time, but every value that was read or written is compared, and a wrong
one ends the run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import drystone as dry
import h5py
import numpy as np

if TYPE_CHECKING:
    from report import Listing, Table

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs" / "benchmarks" / "local.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
QUESTIONS = ("checkpoint", "restart", "planes", "points", "many_blocks", "many_steps", "appends", "memory")


def main() -> int:
    """Run what the command line asks for."""
    arguments = _arguments()
    from measure import CHECKED, Anchors, Settings
    from report import anchors_table

    begin = time.perf_counter()
    out: Path = arguments.out
    folder = out / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def say(text: str) -> None:
        now = time.perf_counter()
        print(f"  {now - begin:6.1f} s  {text}", file=sys.stderr, flush=True)

    settings = Settings(folder, arguments.quick, arguments.drop_caches, say)
    try:
        say("limits of the machine")
        limits = {"before": Anchors.measure(settings)}
        tables: list[Table | Listing] = []
        for name in arguments.only or QUESTIONS:
            tables += __import__(name).run(settings)
        say("limits of the machine")
        limits["after"] = Anchors.measure(settings)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tables.insert(0, anchors_table(limits))
    head = _machine(arguments, time.perf_counter() - begin, CHECKED.values)
    text = head + "\n\n" + "\n".join(table.markdown() for table in tables)
    (out / "figures.md").write_text(text)
    told = {
        "machine": head,
        "quick": arguments.quick,
        "checked": {"values": CHECKED.values, **CHECKED.by_engine},
        "tables": [table.values() for table in tables],
    }
    (out / "figures.json").write_text(json.dumps(told, indent=1))
    print(text)
    if arguments.document:
        _into_document(text)
    print(
        f"{CHECKED.values:,} values compared, all as written; figures in {out / 'figures.md'}",
        file=sys.stderr,
    )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Drystone beside raw files and h5py.")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, 2 rounds: shows that everything works"
    )
    parser.add_argument("--only", action="append", choices=QUESTIONS, help="one question (repeatable)")
    parser.add_argument(
        "--out",
        type=Path,
        default=HERE.parent / "build" / "bench",
        help="where data and figures go (build/bench)",
    )
    parser.add_argument(
        "--document", action="store_true", help="put the figures into docs/benchmarks/local.md"
    )
    parser.add_argument(
        "--drop-caches",
        action="store_true",
        help="before cold reads drop the caches of the whole system (root)",
    )
    arguments = parser.parse_args()
    if arguments.drop_caches and os.geteuid() != 0:
        parser.error("--drop-caches needs root: leave it out, files are then dropped from memory one by one")
    if arguments.document and (arguments.quick or arguments.only):
        parser.error("--document takes a full run: leave out --quick and --only")
    return arguments


def _machine(arguments: argparse.Namespace, seconds: float, checked: int) -> str:
    """What was run, where."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    lines = [
        f"{time.strftime('%Y-%m-%d')}; {cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, "
        f"{int(memory[1]) / 2**20:.0f} GiB memory; Linux {platform.release().split('-')[0]}, "
        f"{_file_system(arguments.out)}.",
        f"Drystone {dry.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"h5py {h5py.__version__} with HDF5 {h5py.version.hdf5_version}.",
        f"{'A quick run, which measures nothing. ' if arguments.quick else ''}"
        f"{seconds / 60:.1f} minutes; {checked:,} values compared with what was written.",
    ]
    return "\n".join(lines)


def _file_system(path: Path) -> str:
    best = ("", "unknown file system")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if path.resolve().is_relative_to(mount) and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]


def _into_document(figures: str) -> None:
    """Replace what lies between the markers."""
    text = DOCUMENT.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{figures}\n{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
