"""The demo: a simulation is killed while it writes, restarts on another number of ranks, and nothing is lost.

1. An uninterrupted run on 8 ranks: the reference, with `.npy` files and timed plain writes for comparison.
2. The same run again; all ranks are killed with SIGKILL at a random moment of writing a step about halfway.
3. A restart on 6 ranks from the last complete step to the end.
4. Another process reads planes, points, subvolumes and everything of the restarted run, compares every bit with the
   reference and the `.npy` files, and draws a picture.

"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from events import Event
from job import Job, JobFailed
from units import duration, rate, size

HERE = Path(__file__).parent


class Failure(Exception):
    """A stage failed."""


def main() -> int:
    """Run the four stages; 0 only if all bits agree."""
    arguments = parser().parse_args()
    started = time.perf_counter()
    try:
        check(arguments)
        tell_story(arguments)
    except (Failure, JobFailed, OSError, ValueError) as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; the ranks were ended", file=sys.stderr)
        return 130
    print(f"\nThe demo took {duration(time.perf_counter() - started)}. Everything lies in {arguments.folder}")
    return 0


def tell_story(arguments: argparse.Namespace) -> None:
    """The four stages."""
    folder: Path = arguments.folder
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    reference, restarted, truth = folder / "reference.dry", folder / "restarted.dry", folder / "truth"
    end = f"--outputs {arguments.outputs}".split()
    new = f"--interval {arguments.interval} --dtype {arguments.dtype} --durability {arguments.durability}".split()
    new += ["--grid", *(str(cells) for cells in arguments.grid)]
    new += ["--transform", arguments.transform] if arguments.transform else []
    beside = ["--truth", str(truth), "--raw-limit", str(folder / "plain")]

    def job(name: str, ranks: int, *options: str) -> Job:
        return Job(folder, name, arguments.mpiexec, ranks, [str(HERE / "simulate.py"), *options, *end])

    heading(1, f"an uninterrupted run on {arguments.ranks} ranks")
    with job("reference", arguments.ranks, str(reference), *new, *beside) as run:
        outputs = [event for event in progress(run, arguments.outputs) if event["event"] == "output"]
        run.expect_success()
    summarise_writes(outputs, reference, arguments.durability)

    heading(2, f"the same run again, killed while it writes step {arguments.kill_step}")
    with job("killed", arguments.ranks, str(restarted), *new) as run:
        kill_midway(run, arguments)

    heading(3, f"a restart on {arguments.restart_ranks} ranks from the last complete step")
    with job("restart", arguments.restart_ranks, str(restarted), "--restart") as run:
        resumed = [event for event in progress(run, arguments.outputs) if event["event"] == "resumed"]
        run.expect_success()

    heading(4, "analysis: every value against the uninterrupted run and the .npy files, bit for bit")
    command = [sys.executable, str(HERE / "analyse.py"), str(restarted)]
    command += ["--reference", str(reference), "--truth", str(truth)]
    command += ["--restarted-at", str(resumed[0]["step"])]
    command += ["--figure", str(folder / "gray_scott.png"), "--report", str(folder / "analysis.json")]
    status = subprocess.run(command, check=False).returncode
    if status != 0:
        raise Failure(f"the analysis ended with status {status}: see above")
    print("  all bits agree")


def progress(job: Job, outputs: int) -> Iterator[Event]:
    """Yield a job's events, and print a line for the interesting ones."""
    for event in job.events():
        if event["event"] == "output":
            seconds = event["write_s"] + event["commit_s"]
            raw = f" (plain files {rate(event['bytes'], event['raw_s'])})" if event["raw_s"] else ""
            print(
                f"  step {event['step']:>3}/{outputs}  computed {duration(event['compute_s']):>7}  "
                f"wrote {size(event['bytes'])} in {duration(seconds):>7} = {rate(event['bytes'], seconds):>9}{raw}",
                flush=True,
            )
        if event["event"] == "recovered":
            print("\n".join(f"  recover: {line}" for line in event["report"].splitlines()), flush=True)
        if event["event"] == "resumed":
            seconds = event["seconds"]
            print(
                f"  read step {event['step']} on {job.ranks} ranks: "
                f"{size(event['bytes'])} in {duration(seconds)} = {rate(event['bytes'], seconds)}",
                flush=True,
            )
        yield event


def kill_midway(job: Job, arguments: argparse.Namespace) -> None:
    """Wait until the run writes the chosen step, then for a random part of a write's duration, and kill every rank."""
    chance = random.Random(arguments.seed)
    writes: list[float] = []
    for event in progress(job, arguments.outputs):
        if event["event"] == "output":
            writes.append(event["write_s"] + event["commit_s"])
        if event["event"] == "writing" and event["step"] == arguments.kill_step:
            wait = chance.random() * statistics.median(writes)
            until = time.perf_counter() + wait
            while time.perf_counter() < until:
                pass
            job.kill()
            break
    rest = list(job.events())
    left = sum(event["event"] == "written" and event["step"] == arguments.kill_step for event in rest)
    if job.process.returncode == 0 or any(event["event"] == "end" for event in rest):
        raise Failure("the run ended before it could be killed")
    print(
        f"  killed all {arguments.ranks} ranks {duration(wait)} into writing step {arguments.kill_step} "
        f"(--seed {arguments.seed}): {left} of them had left the step"
    )


def summarise_writes(outputs: list[Event], container: Path, durability: str) -> None:
    """Print the total cost of the steps, and that of the plain files."""
    total = sum(event["bytes"] for event in outputs)
    seconds = sum(event["write_s"] + event["commit_s"] for event in outputs)
    raw = sum(event["raw_s"] for event in outputs)
    commits = statistics.median(event["commit_s"] for event in outputs)
    stored = sum(path.stat().st_size for path in container.rglob("*") if path.is_file())
    synced = "synced" if durability == "durable" else "not synced"
    print(
        f"  {len(outputs)} steps, {size(total)}: {duration(seconds)} = {rate(total, seconds)}, "
        f"of which {duration(commits)} per commit (median)\n"
        f"  the same bytes to plain files, {synced}: {duration(raw)} = {rate(total, raw)}; "
        f"Drystone takes {seconds / raw:.2f} times as long\n"
        f"  stored: {size(stored)} for {size(total)} of values ({100 * (stored - total) / total:+.2f} %)"
    )


def heading(number: int, text: str) -> None:
    """The title of a stage."""
    print(f"\n[{number}/4] {text}", flush=True)


def check(arguments: argparse.Namespace) -> None:
    """Refuse invalid arguments before anything is removed or run; complete the others."""
    if len(arguments.grid) == 1:
        arguments.grid *= 3
    if len(arguments.grid) != 3 or min(arguments.grid) < 1:
        raise ValueError("--grid takes one or three positive numbers of cells")
    if arguments.outputs < 3 or arguments.interval < 1 or min(arguments.ranks, arguments.restart_ranks) < 1:
        raise ValueError("at least 3 --outputs, an --interval of 1 and one rank are needed")
    if arguments.kill_step is None:
        arguments.kill_step = (arguments.outputs + 1) // 2
    if not 1 <= arguments.kill_step < arguments.outputs:
        raise ValueError(
            f"--kill-step must lie between 1 and {arguments.outputs - 1}, so that a step lies before and after it"
        )
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(2**32)
    if shutil.which(arguments.mpiexec) is None:
        raise ValueError(f"cannot find {arguments.mpiexec}: run `make setup`, or name one with --mpiexec")
    folder: Path = arguments.folder.absolute()
    if folder.exists() and any(folder.iterdir()) and not (folder / "reference.events").exists():
        raise ValueError(
            f"{folder} is not empty and not of an earlier demo: name another --folder, or empty it"
        )
    step = 2 * math.prod(arguments.grid) * (8 if arguments.dtype == "float64" else 4)
    needed = step * (
        3 * (arguments.outputs + 1) + 1
    )  # two containers, the ground truth, one step of plain files
    free = shutil.disk_usage(next(path for path in [folder, *folder.parents] if path.exists())).free
    if free < 1.1 * needed:
        raise ValueError(
            f"{folder} needs {size(1.1 * needed)}, {size(free)} are free: use a smaller --grid or another --folder"
        )
    print(
        f"Gray-Scott on {' x '.join(str(n) for n in arguments.grid)} cells of {arguments.dtype}, "
        f"{arguments.outputs} output steps of {arguments.interval} time steps each, {arguments.durability}, "
        f"{os.cpu_count()} cores; {size(needed)} in {folder}",
        flush=True,
    )


def parser() -> argparse.ArgumentParser:
    """Parse the command line."""
    beside_python = Path(sys.executable).parent / "mpiexec"
    options = argparse.ArgumentParser(
        prog="demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--folder",
        type=Path,
        default=Path("build/demo"),
        help="where everything goes; an earlier demo there is replaced",
    )
    options.add_argument("--ranks", type=int, default=8, help="of the first two runs (default %(default)s)")
    options.add_argument("--restart-ranks", type=int, default=6, help="of the restart (default %(default)s)")
    options.add_argument(
        "--grid",
        type=int,
        nargs="+",
        default=[128],
        metavar="N",
        help="cells per axis: one number or three (default 128)",
    )
    options.add_argument(
        "--outputs", type=int, default=12, help="output steps after the initial one (default %(default)s)"
    )
    options.add_argument(
        "--interval",
        type=int,
        default=50,
        help="time steps from one output to the next (default %(default)s)",
    )
    options.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    options.add_argument("--durability", choices=["durable", "async", "memory"], default="durable")
    options.add_argument(
        "--transform",
        default=None,
        help='how to encode U and V, such as "shuffle,zstd:1" (default: as they are)',
    )
    options.add_argument(
        "--kill-step",
        type=int,
        default=None,
        help="the step that is being written at the kill (default: halfway)",
    )
    options.add_argument(
        "--seed", type=int, default=None, help="of the moment of the kill (default: another each time)"
    )
    options.add_argument("--mpiexec", default=str(beside_python) if beside_python.exists() else "mpiexec")
    return options


if __name__ == "__main__":
    sys.exit(main())
