"""ASGARD's benchmarks MPI-Tile-IO and HPIO, beside MPI-IO (ROMIO), h5py and NumPy memmap, on a local file system.

    .venv/bin/pip install -r bench/asgard/requirements.txt
    .venv/bin/python bench/asgard/run.py [--full | --quick] [--document]

Each program runs under mpiexec with all engines in turn on the same data; every value is compared, and a wrong one ends
the run. Calls and bytes are what the system counted for all ranks together; mapped memory is not counted there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from report import duration, size

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DOCUMENT = ROOT / "docs" / "benchmarks" / "asgard.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
BASE = "MPI-IO collective"
KIB, MIB = 1 << 10, 1 << 20

ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_io": "romio341",  # Open MPI's own MPI-IO is several times slower: it would be no fair peer
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}

Told = dict[str, Any]


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="MPI-Tile-IO and HPIO beside MPI-IO, h5py and memmap.")
    parser.add_argument(
        "--full", action="store_true", help="up to 256 MiB and tiles of 4096 squared; some also without sync"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=9.0,
        help="what would take longer, by its bytes, is left out, and the page says so",
    )
    parser.add_argument("--quick", action="store_true", help="shows that everything works; measures nothing")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "asgard", help="where data and figures go"
    )
    parser.add_argument(
        "--document", action="store_true", help="put the figures into docs/benchmarks/asgard.md"
    )
    arguments = parser.parse_args()
    folder = arguments.out / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begin = time.perf_counter()
    told: list[Told] = []
    left_out: list[str] = []
    pace: dict[str, float] = {}
    try:
        for program, ranks, durable, amount, rounds in plan(arguments):
            name = f"{program}, {ranks} ranks, {amount:,}, {'synced' if durable else 'not synced'}"
            work = ranks * amount**2 * 8 if program == "tiles" else amount
            spent = time.perf_counter() - begin
            ahead = 3 + pace.get(f"{program} {ranks}", 0.0) * work * (rounds + 1)
            if spent + ahead > 60 * arguments.minutes:
                left_out.append(name)
                continue
            told += under_mpi(program, ranks, [str(folder), str(rounds), str(durable), str(amount)])
            took = time.perf_counter() - begin - spent
            pace[f"{program} {ranks}"] = max(0.0, took - 3) / work / (rounds + 1)
            print(f"{spent + took:7.1f} s  {name}", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    (arguments.out / "figures.json").write_text(json.dumps(told))
    text = document(told, time.perf_counter() - begin, left_out)
    (arguments.out / "figures.md").write_text(text)
    print(text)
    if arguments.document:
        head, rest = DOCUMENT.read_text().split(BEGIN)
        DOCUMENT.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}")
    return 0


def plan(arguments: argparse.Namespace) -> list[tuple[str, int, int, int, int]]:
    """Program, ranks, durable, bytes of values or side of tiles, rounds; the most telling first."""
    if arguments.quick:
        small = [("hpio", ranks, 1, values, 1) for ranks in (1, 2) for values in (KIB, 64 * KIB)]
        return [*small, ("tiles", 2, 1, 64, 1)]
    out = [("hpio", ranks, 1, values, 3) for values in (KIB, 64 * KIB, MIB, 16 * MIB) for ranks in (1, 4)]
    out += [("tiles", ranks, 1, side, 3) for side in (512, 1024) for ranks in (1, 4, 16)]
    if arguments.full:
        out += [("hpio", ranks, 1, 64 * MIB, 1) for ranks in (1, 4)]
        out += [("tiles", ranks, 1, 2048, 1) for ranks in (1, 4, 16)]
        out += [("hpio", ranks, 0, values, 2) for values in (MIB, 16 * MIB) for ranks in (1, 4)]
        out += [("hpio", ranks, 1, 256 * MIB, 1) for ranks in (1, 4)]
        out += [("tiles", ranks, 1, 4096, 1) for ranks in (1, 4, 16)]
        out += [("tiles", ranks, 0, 1024, 2) for ranks in (1, 4, 16)]
    return out


def under_mpi(program: str, ranks: int, arguments: list[str]) -> list[Told]:
    """What a program tells."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    command = [str(mpiexec), "-n", str(ranks), sys.executable, str(HERE / f"{program}.py"), *arguments]
    environment = os.environ | ENVIRONMENT | {"DRYSTONE_THREADS": "2" if ranks == 1 else "1"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ran.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}")
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def document(told: list[Told], seconds: float, left_out: list[str]) -> str:
    """Tables of all figures."""
    told = sorted(told, key=lambda t: (t["ranks"], t["bytes"]))
    checked = sum(t["bytes"] // 8 * len(t["costs"]) for t in told if t["act"] == "read")
    head = f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Open MPI with ROMIO; "
    head += f"{seconds / 60:.1f} minutes; {checked:,} values compared with what was written. Times are medians; in brackets how many"
    head += " times as fast as collective MPI-IO, the median of rounds compared within themselves. Up to three rounds; from 64 MiB or 2048 squared on, one.\n"
    if left_out:
        head += f"Left out for want of time: {'; '.join(left_out)}.\n"
    parts = [head]
    for bench, act, durable in [
        (b, a, d) for b in ("hpio", "tiles") for a in ("read", "write") for d in (False, True)
    ]:
        mine = [t for t in told if (t["bench"], t["act"], t["durable"]) == (bench, act, durable)]
        if act == "read" and not durable:
            continue  # the same
        if mine:
            parts.append(table(bench, act, durable, mine))
    return "\n".join(parts)


def table(bench: str, act: str, durable: bool, told: list[Told]) -> str:
    """One line per case, one column per engine; calls and bytes below each time."""
    engines = list(dict.fromkeys(t["engine"] for t in told))
    engines.sort(key=lambda name: (name.startswith("dry"), name != BASE))
    names = {"hpio": "HPIO", "tiles": "MPI-Tile-IO"}
    how = {
        "read": "reads, from the page cache",
        "write": "writes, " + ("synced" if durable else "not synced"),
    }[act]
    lines = [
        f"### {names[bench]}: {how}",
        "",
        "| | " + " | ".join(engines) + " |",
        "|---|" + "---:|" * len(engines),
    ]
    cases: dict[str, dict[str, Told]] = {}
    for t in told:
        where = f"{t['ranks']} rank{'s' * (t['ranks'] > 1)}, "
        if bench == "hpio":
            where += f"memory {t['memory'].upper()}, file {t['file'].upper()}, {binary(t['bytes'])}"
        else:
            where += f"{t['edge']} squared"
        cases.setdefault(where, {})[t["engine"]] = t
    for where, found in cases.items():
        base = found[BASE]["costs"]
        cells = []
        for engine in engines:
            if engine not in found:
                cells.append("")
                continue
            costs = found[engine]["costs"]
            ratio = median(b["seconds"] / c["seconds"] for b, c in zip(base, costs, strict=True))
            calls = median(c["read_calls"] + c["write_calls"] for c in costs)
            moved = median(c["read_bytes"] + c["written_bytes"] for c in costs)
            counted = "" if engine == "NumPy memmap" else f"<br>{calls:,.0f}: {size(moved)}"
            cells.append(f"{duration(median(c['seconds'] for c in costs))} ({ratio:.2f}){counted}")
        lines.append(f"| {where} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def binary(count: int) -> str:
    """Bytes as the cases are named."""
    return f"{count // MIB} MiB" if count >= MIB else f"{count // KIB} KiB"


if __name__ == "__main__":
    raise SystemExit(main())
