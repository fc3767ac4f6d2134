"""The whole story: a simulation is killed in the middle of writing, restarts on other ranks, and nothing is lost.

1. An uninterrupted run on 8 ranks: the reference, with plain `.npy` files beside it and plain writes timed beside it.
2. The same run again, all ranks killed with SIGKILL at a random moment of writing a step about halfway.
3. A restart on 6 ranks from the last complete step to the end.
4. Another process reads planes, points, subvolumes and everything of the restarted run, holds every bit to the
   reference and the `.npy` files, and draws a picture.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from events import Event, Follower
from units import duration, rate, size

HERE = Path(__file__).parent


class Failure(Exception):
    """A stage did not do what it should."""


class Job:
    """One `simulate.py` under mpiexec, and what it tells."""

    def __init__(self, folder: Path, name: str, ranks: int, arguments: list[str], mpiexec: str) -> None:
        self.name, self.ranks = name, ranks
        events = folder / f"{name}.events"
        self.log = folder / f"{name}.log"
        self.pids: list[int] = []
        self._follower = Follower(events)
        command = [mpiexec, "-n", str(ranks), sys.executable, str(HERE / "simulate.py"), *arguments, "--events", str(events)]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, env=mpi_environment(), stdout=output, stderr=subprocess.STDOUT)

    def events(self) -> Iterator[Event]:
        """What happens, as it happens, until the job ends."""
        while True:
            ended = self.process.poll() is not None
            for event in self._follower.new():
                if event["event"] == "start":
                    self.pids.append(event["pid"])
                yield event
            if ended:
                return
            time.sleep(0.002)

    def expect_success(self) -> None:
        """Wait for the end; show the log if it is not a good one."""
        if self.process.wait() != 0:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])
            raise Failure(f"{self.name}: exit status {self.process.returncode}; the end of {self.log}:\n{tail}")

    def kill(self) -> None:
        """SIGKILL to every rank, then to the launcher if it does not follow by itself."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self._follower.close()


def main() -> int:
    """Run the four stages; 0 only if all bits agree."""
    arguments = parser().parse_args()
    started = time.perf_counter()
    try:
        check(arguments)
        tell_story(arguments)
    except (Failure, OSError, ValueError) as failure:
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
    same = ["--outputs", str(arguments.outputs)]
    new = ["--grid", *(str(n) for n in arguments.grid), "--interval", str(arguments.interval), "--dtype", arguments.dtype]
    new += ["--durability", arguments.durability] + (["--transform", arguments.transform] if arguments.transform else [])
    beside = ["--truth", str(truth), "--raw-limit", str(folder / "plain")]

    heading(1, f"an uninterrupted run on {arguments.ranks} ranks")
    with Job(folder, "reference", arguments.ranks, [str(reference), *same, *new, *beside], arguments.mpiexec) as job:
        outputs = watch(job, arguments.outputs)
        job.expect_success()
    summarise_writes(outputs, reference, arguments.durability)

    heading(2, f"the same run again, killed while it writes step {arguments.kill_step}")
    with Job(folder, "killed", arguments.ranks, [str(restarted), *same, *new], arguments.mpiexec) as job:
        kill_midway(job, arguments)

    heading(3, f"a restart on {arguments.restart_ranks} ranks from the last complete step")
    with Job(folder, "restart", arguments.restart_ranks, [str(restarted), *same, "--restart"], arguments.mpiexec) as job:
        resumed = 0
        for event in progress(job, arguments.outputs):
            if event["event"] == "resumed":
                resumed = event["step"]
                seconds = event["seconds"]
                print(
                    f"  read step {resumed}, written by {arguments.ranks} ranks, on {arguments.restart_ranks}: "
                    f"{size(event['bytes'])} in {duration(seconds)} = {rate(event['bytes'], seconds)}"
                )
        job.expect_success()
    if not resumed:
        raise Failure("the restart did not say where it went on from")

    heading(4, "analysis: every value against the uninterrupted run and the .npy files, bit for bit")
    picture = folder / "gray_scott.png"
    command = [sys.executable, str(HERE / "analyse.py"), str(restarted), "--reference", str(reference), "--truth", str(truth)]
    command += ["--figure", str(picture), "--restarted-at", str(resumed), "--report", str(folder / "analysis.json")]
    status = subprocess.run(command, env=mpi_environment(), check=False).returncode
    if status != 0:
        raise Failure(f"the analysis ended with status {status}: see above")
    print("all bits agree")


def watch(job: Job, outputs: int) -> list[Event]:
    """Follow a job to its end, showing progress; its output steps."""
    return [event for event in progress(job, outputs) if event["event"] == "output"]


def progress(job: Job, outputs: int) -> Iterator[Event]:
    """A job's events, with a line for each output step as it comes."""
    for event in job.events():
        if event["event"] == "output":
            seconds = event["write_s"] + event["commit_s"]
            raw = f" (plain files {rate(event['bytes'], event['raw_s'])})" if event["raw_s"] else ""
            print(
                f"  step {event['step']:>3}/{outputs}  computed {duration(event['compute_s']):>7}  "
                f"wrote {size(event['bytes'])} in {duration(seconds):>7} = {rate(event['bytes'], seconds):>9}{raw}",
                flush=True,
            )
        yield event


def kill_midway(job: Job, arguments: argparse.Namespace) -> None:
    """Let the run come to the chosen step, wait for a random part of the time a write takes, and kill every rank."""
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
    seen = [event["rank"] for event in rest if event["event"] == "written" and event["step"] == arguments.kill_step]
    if job.process.returncode == 0 or any(event["event"] == "end" for event in rest):
        raise Failure("the run ended before it could be killed")
    print(
        f"  killed all {arguments.ranks} ranks {duration(wait)} into writing step {arguments.kill_step} "
        f"(--seed {arguments.seed}): {len(seen)} of them had left the step"
    )


def summarise_writes(outputs: list[Event], container: Path, durability: str) -> None:
    """What the steps cost together, beside the plain files."""
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


def mpi_environment() -> dict[str, str]:
    """The environment in which PyPI's Open MPI runs more ranks than cores, as any user, with a fair MPI-IO."""
    defaults = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_io": "romio341",
    }
    return defaults | os.environ


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work, before anything is removed or run; complete the arguments."""
    if len(arguments.grid) == 1:
        arguments.grid *= 3
    if len(arguments.grid) != 3 or min(arguments.grid) < 1:
        raise ValueError("--grid takes one or three positive numbers of cells")
    if arguments.outputs < 3 or arguments.interval < 1 or min(arguments.ranks, arguments.restart_ranks) < 1:
        raise ValueError("at least 3 --outputs, an --interval of 1 and one rank are needed")
    if arguments.kill_step is None:
        arguments.kill_step = (arguments.outputs + 1) // 2
    if not 1 <= arguments.kill_step < arguments.outputs:
        raise ValueError(f"--kill-step must lie between 1 and {arguments.outputs - 1}, so that a step lies before and after it")
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(2**32)
    if shutil.which(arguments.mpiexec) is None:
        raise ValueError(f"cannot find {arguments.mpiexec}: run `make setup`, or name one with --mpiexec")
    if arguments.folder.exists() and not (arguments.folder / "reference.events").exists() and any(arguments.folder.iterdir()):
        raise ValueError(f"{arguments.folder} is not empty and not of an earlier demo: name another --folder, or remove it yourself")
    cell = 8 if arguments.dtype == "float64" else 4
    needed = 2 * cell * arguments.grid[0] * arguments.grid[1] * arguments.grid[2] * (3 * (arguments.outputs + 1) + 1)
    existing = next(path for path in [arguments.folder.absolute(), *arguments.folder.absolute().parents] if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed * 1.1:
        raise ValueError(f"{size(needed * 1.1)} are needed in {existing}, {size(free)} are free: use a smaller --grid or another --folder")
    print(
        f"Gray-Scott on {' x '.join(str(n) for n in arguments.grid)} cells of {arguments.dtype}, {arguments.outputs} output steps of "
        f"{arguments.interval} time steps, durability {arguments.durability}, {os.cpu_count()} cores; {size(needed)} in {arguments.folder}"
    )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    beside_python = Path(sys.executable).parent / "mpiexec"
    options = argparse.ArgumentParser(
        prog="demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--folder", type=Path, default=Path("build/demo"), help="where everything goes; an earlier demo there is replaced")
    options.add_argument("--ranks", type=int, default=8, help="of the first two runs (default %(default)s)")
    options.add_argument("--restart-ranks", type=int, default=6, help="of the restart (default %(default)s)")
    options.add_argument("--grid", type=int, nargs="+", default=[128], metavar="N", help="cells per axis: one number or three (default 128)")
    options.add_argument("--outputs", type=int, default=12, help="output steps after the initial one (default %(default)s)")
    options.add_argument("--interval", type=int, default=75, help="time steps from one output to the next (default %(default)s)")
    options.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    options.add_argument("--durability", choices=["durable", "async", "memory"], default="durable")
    options.add_argument("--transform", default=None, help='how to encode U and V, such as "shuffle,zstd:1" (default: as they are)')
    options.add_argument("--kill-step", type=int, default=None, help="the step that is being written at the kill (default: halfway)")
    options.add_argument("--seed", type=int, default=None, help="of the moment of the kill (default: another each time)")
    options.add_argument("--mpiexec", default=str(beside_python) if beside_python.exists() else "mpiexec")
    return options


if __name__ == "__main__":
    sys.exit(main())
