"""Measures Drystone beside its peers: `make peers`, or `bench/peers/run.py` with any Python 3.11 or newer.

The first run makes an environment of bench/peers/requirements.txt in build/peers and goes on in it; `--here` takes the
packages of the Python it is started with, whichever they are. The extension must be built (`make setup`). `--document`
puts the figures into docs/benchmarks/peers.md. Nothing here asserts a time; a wrong value ends the run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
QUESTIONS = (
    "checkpoint",
    "restart",
    "blocks",
    "steps",
    "records",
    "codecs",
    "unaligned",
    "amplification",
    "memory",
    "damage",
    "imports",
)


def main() -> int:
    """Run what the command line asks for."""
    arguments = _arguments()
    if not arguments.here:
        python = _environment(arguments.out / "environment")
        os.execv(python, [str(python), __file__, *sys.argv[1:], "--here"])
    sys.path[1:1] = [str(HERE.parent), str(ROOT / "python")]  # bench/run.py has this file's name
    os.environ["PYTHONPATH"] = str(ROOT / "python")  # for the commands that are measured
    import figures

    return figures.run(arguments, arguments.only or QUESTIONS)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Drystone beside its peers.")
    parser.add_argument(
        "--quick", action="store_true", help="tiny: shows that everything works, measures nothing"
    )
    parser.add_argument("--only", action="append", choices=QUESTIONS, help="one question (repeatable)")
    parser.add_argument("--engine", action="append", help="one engine (repeatable); drystone is always there")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "peers", help="for data and figures")
    parser.add_argument(
        "--document", action="store_true", help="put tables and plots into docs/benchmarks/peers.md"
    )
    parser.add_argument(
        "--here", action="store_true", help="use the packages of this Python, whichever are there"
    )
    arguments = parser.parse_args()
    if arguments.document and (arguments.quick or arguments.only or arguments.engine):
        parser.error("--document takes a full run: leave out --quick, --only and --engine")
    return arguments


def _environment(folder: Path) -> Path:
    """An environment with every peer; made once, and again when the requirements change."""
    wanted, stamp, python = HERE / "requirements.txt", folder / "requirements.txt", folder / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print(f"  the peers, into {folder}", file=sys.stderr)
        begin = time.perf_counter()
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
        stamp.write_text(wanted.read_text())
        print(f"  {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    return python


if __name__ == "__main__":
    sys.exit(main())
