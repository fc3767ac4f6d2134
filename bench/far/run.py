"""Measures opens, reads and writes on a far store beside TensorStore, Icechunk and zarr over obstore.

The server is the scripted one of crates/s3-rig, in a process of its own behind a link of 1 Gbit/s, with round trips of
1 and 30 ms. Counts are exact. Bars: a cold open of 20,000 blocks in 5 requests and 2 rounds; 64 MiB in 64 ranges in
1.15 of bytes / bandwidth + 2 round trips, and 1.3 times as fast as the best peer; boxes, planes and points at 0.6 of
the best peer's requests x round trip + bytes / bandwidth; a checkpoint at 0.9 of the best multipart upload.

The first run makes an environment of bench/far/requirements.txt in build/far and goes on in it; `--here` takes the
packages of the Python it is started with. The extension must be built (`make setup`). A wrong value ends the run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
QUESTIONS = ("open", "ranges", "boxes", "checkpoint", "forks", "explain")


def main() -> int:
    """Run what the command line asks for, and print Markdown."""
    parser = argparse.ArgumentParser(description="Measure far stores beside peers.")
    parser.add_argument(
        "--quick", action="store_true", help="tiny: shows that everything works, measures nothing"
    )
    parser.add_argument("--only", action="append", choices=QUESTIONS, help="one question (repeatable)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    parser.add_argument("--here", action="store_true", help="use the packages of this Python")
    arguments = parser.parse_args()
    if not arguments.here:
        python = _environment(ROOT / "build" / "far" / "environment")
        os.execv(python, [str(python), __file__, *sys.argv[1:], "--here"])
    sys.path.insert(1, str(ROOT / "python"))
    os.environ["PYTHONPATH"] = str(ROOT / "python")
    import questions
    from engines import available
    from server import Server

    server = Server()
    engines, missing = available(server.endpoint)
    for name, reason in missing.items():
        print(f"{name} is not here: {reason}\n")
    quick, rounds = arguments.quick, 1 if arguments.quick else arguments.rounds
    wanted = arguments.only or QUESTIONS
    try:
        if "open" in wanted:
            _table(questions.cold_open(server, engines, rounds, 200 if quick else 20_000))
        if "ranges" in wanted:
            _table(questions.ranges(server, engines, rounds, 4 if quick else 64))
        if "boxes" in wanted:
            _table(questions.boxes(server, engines, rounds, 32 if quick else 256))
        if "explain" in wanted:
            print("\n".join(questions.explained(server)), "\n")
        server.order(clear="bucket")
        if "checkpoint" in wanted:
            rows, remarks = questions.checkpoint(
                server, min(rounds, 3), 2 if quick else 8, 20 if quick else 128
            )
            _table(rows)
            print("\n".join(remarks), "\n")
        if "forks" in wanted:
            print("\n".join(questions.forks(server, 5 if quick else 1000)), "\n")
    finally:
        server.close()
    return 0


def _table(rows: list) -> None:
    """Times, counts, and the ratio to the best peer."""
    names = list(dict.fromkeys(name for row in rows for name in (*row.counts, *row.failures)))
    print("| case | RTT | " + " | ".join(names) + " | ours / best peer: time | work |")
    print("|---" * (len(names) + 4) + "|")
    for row in rows:
        cells = []
        for name in names:
            if name in row.failures:
                cells.append(row.failures[name])
            elif name in row.seconds:
                n = row.counts[name]
                moved = (n.bytes_out + n.bytes_in) / (1 << 20)
                cells.append(f"{row.seconds[name] * 1e3:.0f} ms; {n.requests} in {n.rounds}, {moved:.2f} MiB")
            else:
                cells.append("-")
        ours = [name for name in row.seconds if name.startswith("drystone")]
        ratios = []
        for of in (row.seconds.__getitem__, lambda name, row=row: row.counts[name].modelled(row.rtt)):
            best, whose = row.best_peer(of)
            ratios.append(
                ", ".join(f"{of(name) / best:.2f}" for name in ours) + f" of {whose}" if best else "-"
            )
        print(f"| {row.case} | {row.rtt * 1e3:.0f} ms | " + " | ".join([*cells, *ratios]) + " |")
    print(flush=True)


def _environment(folder: Path) -> Path:
    """An environment with every peer; made once, and again when the requirements change."""
    wanted, stamp, python = HERE / "requirements.txt", folder / "requirements.txt", folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print(f"  the peers, into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
        stamp.write_text(wanted.read_text())
    return python


if __name__ == "__main__":
    raise SystemExit(main())
