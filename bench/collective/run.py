"""Does the model choose the number of writing ranks well? Needs the C library installed in $PREFIX.

The same blocks of all ranks, written as steps by the number of writers that the model takes and by every power of two;
besides by one file per rank and by collective MPI-IO. The bar: the model within 1.2 of the best number of writers, and
not slower than collective MPI-IO. Medians over steps of the slowest rank, the ways taken in turn; what was written is
read back and compared.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "gray_scott"))

from job import mpi_environment

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent


def main() -> None:
    """Compile, measure, print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--prefix", type=Path, default=Path(os.environ.get("PREFIX", "/usr/local")))
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--steps", type=int, default=12)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--bytes", type=int, nargs="+", default=[1 << 10, 1 << 16, 1 << 20, 16 << 20])
    options.add_argument(
        "--quantile", type=float, default=0.5, help="of the steps; 0.2 tells more on a busy machine"
    )
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        print(measure(given, Path(folder)))


def measure(given: argparse.Namespace, folder: Path) -> str:
    """One line per size and durability: milliseconds of each way, and the model against the best."""
    program = folder / "steps"
    share = given.prefix / "share" / "drystone"
    command = [
        BIN / "mpicc",
        "-O2",
        "-std=c99",
        "-D_POSIX_C_SOURCE=200809L",
        f"-I{given.prefix}/include",
        f"-I{share}",
    ]
    command += [HERE / "steps.c", share / "drystone_mpi.c", f"-L{given.prefix}/lib", "-ldrystone"]
    command += [f"-Wl,-rpath,{given.prefix}/lib", "-o", program]
    subprocess.run([str(word) for word in command], check=True)
    counts = [str(1 << i) for i in range(given.ranks.bit_length()) if 1 << i <= given.ranks]
    ways = ["model", *counts, "files", "mpiio"]
    lines = [f"| {given.ranks} ranks, ms a step | " + " | ".join(ways) + " | model / best |"]
    lines.append("|---" * (len(ways) + 2) + "|")
    for durable in (0, 1):
        for size in given.bytes:
            times: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(given.rounds):
                for way in ways:
                    times[way] += steps(given, program, folder, way, size, durable)
            middle = {way: quantile(found, given.quantile) * 1e3 for way, found in times.items()}
            best = min(middle[count] for count in counts)
            label = f"{size >> 10} KiB, {'durable' if durable else 'async'}"
            cells = " | ".join(f"{middle[way]:.2f}" for way in ways)
            lines.append(f"| {label} | {cells} | {middle['model'] / best:.2f} |")
    return "\n".join(lines)


def quantile(values: list[float], part: float) -> float:
    """The value below which so much of them lies."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(part * 100) - 1]


def steps(
    given: argparse.Namespace, program: Path, folder: Path, way: str, size: int, durable: int
) -> list[float]:
    """Seconds of each step."""
    data = folder / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    command = [BIN / "mpiexec", "-n", given.ranks, program, data, way, size, given.steps, durable]
    done = subprocess.run(
        [str(word) for word in command], env=mpi_environment(), check=True, capture_output=True, text=True
    )
    return [float(line) for line in done.stdout.split()]


if __name__ == "__main__":
    main()
