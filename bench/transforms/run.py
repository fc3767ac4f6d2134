"""All questions about transforms, one after the other, into one page.

    .venv/bin/python bench/transforms/run.py                     # docs/benchmarks/transforms.md and docs/benchmarks/tipping.svg
    .venv/bin/python bench/transforms/run.py --quick --out build/transforms.md

Peers are those that the interpreter has (bench/transforms/requirements.txt); what is missing is said in the page.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIELDS = (
    "gray_scott_U_f8",
    "turbulence_f4",
    "wave_f8",
    "mhd_density_f4",
    "structure_with_noise_f8",
    "ocean_climatology_f4",
)

INTRODUCTION = """# What transforms cost

Written by `bench/transforms/run.py`, which runs one program per section; each compares every value that it reads.
**Bytes and requests are exact; times are those of one run on this machine**: {machine}, load {load:.1f} at the
beginning.
"""

QUESTIONS = (
    (
        "A part of an array, by pattern, chunking and transform",
        "A subvolume of a quarter of each edge, and planes across x and y, from chunks of 2^3 to 16^3 of the domain; "
        "*cold* is with the system's cache dropped. `aplod partial` asks for a relative error of 0.04.",
        ["patterns.py", "--edge", "128", "--rounds", "9"],
        ["patterns.py", "--edge", "32", "--rounds", "1", "--cuts", "2"],
        False,
    ),
    (
        "The tipping point of opaque codecs",
        "A box in the middle, of a growing part of each edge. An opaque codec reads every chunk that the box touches "
        "as a whole; below the part where its line meets that of `none`, compression costs bytes instead of saving "
        "them.\n\n![bytes read](tipping.svg)",
        ["tipping.py", "--edge", "128", "--rounds", "5", "--plot", "{plot}"],
        ["tipping.py", "--edge", "32", "--rounds", "1", "--plot", "{plot}"],
        False,
    ),
    (
        "A checkpoint that uses no transform",
        "`identity` against no transform; the bar is CPU time within 3 % at the median.",
        ["overhead.py", "--edge", "128", "--rounds", "20", "--ranks", "1", "2", "4"],
        ["overhead.py", "--edge", "16", "--rounds", "1", "--ranks", "1"],
        False,
    ),
    (
        "Points and small boxes",
        "The bar is to take no longer than blosc2 and TileDB.",
        ["points.py", "--edge", "160", "--rounds", "5"],
        ["points.py", "--edge", "32", "--rounds", "1", "--count", "20"],
        False,
    ),
    (
        "Ratio and speed beside other compressors",
        "Simulated fields of 160^3 cells, in memory. Each store uses its own arrays, with chunks of about 2 MiB. "
        "Speeds are MB/s of data; Drystone's include statistics, histograms, checksums and the commit, and those of "
        "`auto` its trials. A peer's point is *above* `auto` if no goal or bandwidth of `auto` has both its ratio "
        "and its speed at the same number of threads (1 % of ratio and 5 % of speed are noise). It is *beyond* "
        "`auto` if no mix of two of them has (alternating blocks of both). Points that save less than 1 % do not "
        "count. Each point is the best of two passes over all of them. pcodec's wheel is compiled for processors "
        "with AVX2 and BMI2; Drystone's for any.",
        ["pareto.py", "--n", "160", "--steps", "40", "--seconds", "0.1", "--only", *FIELDS],
        ["pareto.py", "--n", "24", "--steps", "5", "--rounds", "1", "--only", "wave_f8"],
        False,
    ),
)


def asked(command: list[str], limit: float) -> str:
    """What a program printed, or why it has nothing to say."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'python'}:{os.environ.get('PYTHONPATH', '')}"}
    # NumPy's own threads would wait busily beside what is measured.
    environment["OPENBLAS_NUM_THREADS"] = "1"
    ran = subprocess.run(
        [sys.executable, *command], cwd=HERE, env=environment, capture_output=True, text=True, timeout=limit
    )
    if ran.returncode == 0:
        return ran.stdout.strip()
    last = ran.stderr.strip().splitlines()[-1]
    if "ModuleNotFoundError" not in last:
        raise SystemExit(f"{command[0]}: {ran.stderr}")
    return f"Not measured: {last.split(': ', 1)[1]}."


def main() -> None:
    """Asks all questions and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks" / "transforms.md")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    machine = f"{platform.machine()}, {os.cpu_count()} processors"
    page = [INTRODUCTION.format(machine=machine, load=os.getloadavg()[0])]
    for title, text, whole, quick, fenced in QUESTIONS:
        begin = time.monotonic()
        command = [
            word.format(plot=out.parent / "tipping.svg") for word in (quick if arguments.quick else whole)
        ]
        told = asked(command, 900)
        shown = [
            word if word != command[-1] or "plot" not in whole[-2] else "docs/benchmarks/tipping.svg"
            for word in command
        ]
        line = " ".join(["bench/transforms/" + shown[0], *shown[1:]])
        page += [f"## {title}\n", f"```\n.venv/bin/python {line}\n```\n", f"{text}\n"]
        page.append(f"```\n{told}\n```\n" if fenced and not told.startswith("Not") else f"{told}\n")
        print(f"{title}: {time.monotonic() - begin:.0f} s", flush=True)
    out.write_text("\n".join(page))
    print(out)


if __name__ == "__main__":
    main()
