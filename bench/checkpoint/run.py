"""The checkpoint kernels of the papers, about 20 minutes: `bench/checkpoint/run.py [--quick] [--document]`.

Question: what does a checkpoint of N ranks cost, and a restart on the same, half and 5/4 as many, against collective
MPI-IO (ROMIO), parallel HDF5 and a file per process? Bar: no slower than MPI-IO and HDF5. The kernels (kernel.c) are
Pixie3D's checkpoint and LANL's mpi_io_test, N to 1 in blocks of 47 KiB. Requests and bytes are counted exactly, by
strace in runs of their own; times are of the slowest rank, the ways taken in turn, every cell read is compared. A last
table asks whether the model chooses well how many ranks write (bench/collective).

Needs the C library installed (`make install PREFIX=...`) and, for HDF5, `bench/checkpoint/fetch_hdf5.sh build/hdf5`.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import runpy
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
PAGE = ROOT / "docs" / "benchmarks" / "checkpoint.md"
CALLS = ("openat", "fsync", "fdatasync")
CALLS += (
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "read",
    "pread64",
    "readv",
    "preadv",
    "preadv2",
)
CALL = re.compile(
    r"(?P<call>\w+)\((?:AT_FDCWD|\d+)<(?P<path>[^>]*)>.* = (?P<result>\d+)(?:<(?P<opened>[^>]*)>)?"
)
SIZES = {"256 KiB": 16, "16 MiB": 64, "128 MiB": 128}
BEST = " | against the best of MPI-IO and HDF5"
sys.path += [str(ROOT / "examples" / "gray_scott"), str(ROOT / "bench")]

from job import mpi_environment  # noqa: E402
from measure import settle  # noqa: E402


@dataclass
class Counts:
    """What all ranks together asked of the file system."""

    opens: int = 0
    writes: int = 0
    written: int = 0
    reads: int = 0
    read: int = 0
    syncs: int = 0

    def less(self, other: Counts) -> Counts:
        """What is left of it without another."""
        mine, theirs = vars(self), vars(other)
        return Counts(**{name: mine[name] - theirs[name] for name in mine})

    def add(self, call: str, result: int) -> None:
        """One call that succeeded."""
        if call == "openat":
            self.opens += 1
        elif call in ("fsync", "fdatasync"):
            self.syncs += 1
        elif "write" in call:
            self.writes += 1
            self.written += result
        else:
            self.reads += 1
            self.read += result


@dataclass
class Cell:
    """One way in one case."""

    first: list[float] = field(default_factory=list)  # what precedes the first checkpoint
    seconds: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)  # restarts of files that are not in memory
    counts: Counts = field(default_factory=Counts)  # of one checkpoint or restart
    once: Counts = field(default_factory=Counts)  # of a run besides


@dataclass
class Bench:
    """Compiled programs, and where their files go."""

    folder: Path
    program: Path
    ways: list[str]
    counts: int  # so many of the ways are counted

    def run(self, act: str, ranks: int, kernel: str, way: str, *more: object) -> Cell:
        """One program; its times."""
        cell = Cell()
        for line in self._start([], act, ranks, kernel, way, *more).splitlines():
            kind, seconds = line.split()
            (cell.first if kind == "B" else cell.seconds).append(float(seconds))
        return cell

    def counted(self, act: str, ranks: int, kernel: str, way: str, *more: object) -> Counts:
        """The same program once more, traced: what all ranks together ask of the file system."""
        traces = self.folder / "traces"
        shutil.rmtree(traces, ignore_errors=True)
        traces.mkdir()
        # One file per thread, so that no line is interrupted by another.
        tracer = [
            "strace",
            "-ff",
            "--seccomp-bpf",
            "-qq",
            "-y",
            "-s",
            "0",
            "-e",
            f"trace={','.join(CALLS)}",
            "-o",
        ]
        self._start([*tracer, traces / "trace"], act, ranks, kernel, way, *more)
        counts, below = Counts(), str(self.folder / "data")
        for trace in traces.iterdir():
            for line in trace.read_text(errors="replace").splitlines():
                found = CALL.match(line)
                if found and below in (found["path"] or found["opened"] or ""):
                    counts.add(found["call"], int(found["result"]))
        return counts

    def _start(self, before: list[object], act: str, ranks: int, kernel: str, way: str, *more: object) -> str:
        data = self.folder / "data" / way
        data.mkdir(parents=True, exist_ok=True)
        command = [BIN / "mpiexec", "-n", ranks, *before, self.program, act, kernel, way, data, *more]
        words = [str(word) for word in command]
        for left in (0,) if way == "drystone" else (1, 0):  # a peer may fail once; that is said
            done = subprocess.run(words, env=mpi_environment(), capture_output=True, text=True, timeout=300)
            if done.returncode == 0:
                return done.stdout
            print(f"{' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}", file=sys.stderr)
            if left and act == "write":
                shutil.rmtree(data)
                data.mkdir()
        raise SystemExit(1)

    def clear(self) -> None:
        """Removes what was written."""
        shutil.rmtree(self.folder / "data", ignore_errors=True)


def main() -> None:
    """Compile, measure, print tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--prefix", type=Path, default=Path(os.environ.get("PREFIX", "/usr/local")))
    options.add_argument("--hdf5", type=Path, default=ROOT / "build" / "hdf5", help="made by fetch_hdf5.sh")
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--most-ranks", type=int, default=16, help="leave out what takes more")
    options.add_argument("--small", action="store_true", help="256 KiB per process only")
    options.add_argument("--quick", action="store_true", help="the smallest cases once, for the tests")
    options.add_argument("--document", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        given.rounds = 1 if given.quick else given.rounds
        bench = compiled(given.prefix, given.hdf5, Path(folder))
        bench.counts = 1 if given.quick else bench.counts
        text = pixie(bench, given) + strided(bench, given)
        if not given.quick:
            text += aggregated(given, Path(folder))
    if given.document:
        PAGE.write_text(page(text, given))
    print(text)


def compiled(prefix: Path, hdf5: Path, folder: Path) -> Bench:
    """The kernels with what is there to compare with."""
    share = prefix / "share" / "drystone"
    sources = [HERE / f"{name}.c" for name in ("kernel", "with_drystone", "with_mpiio", "with_files")]
    flags: list[object] = ["-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
    flags += [f"-I{prefix}/include", f"-I{share}"]
    link: list[object] = [f"-L{prefix}/lib", "-ldrystone", f"-Wl,-rpath,{prefix}/lib"]
    ways = ["drystone", "mpiio", "files"]
    # Debian's package unpacked in a folder, or installed.
    for root in (hdf5 / "usr", Path("/usr")):
        headers = root / "include" / "hdf5" / "openmpi"
        libraries = root / "lib" / f"{platform.machine()}-linux-gnu"
        if (headers / "hdf5.h").exists():
            flags += ["-DWITH_HDF5", "-isystem", headers]
            link += [
                f"-L{libraries}",
                "-lhdf5_openmpi",
                # What that library needs itself is looked for along a RUNPATH only where the program names it.
                *("-Wl,--no-as-needed", "-l:libsz.so.2", "-l:libaec.so.0", "-Wl,--as-needed"),
                f"-Wl,-rpath,{libraries},-rpath-link,{libraries}",
                "-Wl,--allow-shlib-undefined",
            ]
            sources.append(HERE / "with_hdf5.c")
            ways.insert(2, "hdf5")
            break
    program = folder / "kernel"
    build = [BIN / "mpicc", *flags, *sources, share / "drystone_mpi.c", *link, "-o", program]
    subprocess.run([str(word) for word in build], check=True)
    return Bench(folder, program, ways, len(ways))


def pixie(bench: Bench, given: argparse.Namespace) -> str:
    """Pixie3D: eight arrays and seven scalars."""
    cases = [("256 KiB", (2, 4, 16), 4), ("16 MiB", (2, 8), 2), ("128 MiB", (2, 4), 1)]
    if given.quick:
        cases = [("256 KiB", (2,), 1)]
    cases = cases[:1] if given.small else cases
    cases = [(label, [n for n in counts if n <= given.most_ranks], steps) for label, counts, steps in cases]
    out = "## Pixie3D: eight arrays of doubles and seven scalars\n\n"
    for durable in (1,) if given.quick else (0, 1):
        rows = []
        for label, counts, steps in cases:
            for ranks in counts:
                cells = rounds(bench, given.rounds, "pixie3d", ranks, SIZES[label], steps, durable)
                rows.append((f"{label} x {ranks}", cells))
        word = "durable (synced before it returns)" if durable else "not synced"
        out += f"### Checkpoint, {word}\n\n" + write_table(bench.ways, rows)
    rows = []
    for label, counts, steps in cases:
        for ranks in counts:
            patterns = [(readers, "boxes") for readers in restart_counts(ranks)]
            patterns = patterns[1:2] if given.quick else patterns
            found = restarts(bench, given.rounds, "pixie3d", SIZES[label], steps, ranks, patterns)
            rows += [(f"{label} x {ranks} {what}", cells) for what, cells in found]
    out += "### Restart on the same, half and 5/4 as many ranks, from the page cache\n\n"
    out += read_table(bench.ways, rows)
    out += "### The same from the device: new programs, files not in memory\n\n"
    return out + cold_table(bench.ways, rows)


def strided(bench: Bench, given: argparse.Namespace) -> str:
    """mpi_io_test: N to 1, blocks of 47 KiB in turn."""
    blocks, steps = (4, 1) if given.quick else (64, 2)
    counts = [n for n in ((2,) if given.quick else (2, 4, 16)) if n <= given.most_ranks]
    out = f"## mpi_io_test: N ranks write one array of bytes in turn, {blocks} blocks of 47 KiB each\n\n"
    for durable in (1,) if given.quick else (0, 1):
        rows = [
            (f"{ranks} ranks", rounds(bench, given.rounds, "strided", ranks, blocks, steps, durable))
            for ranks in counts
        ]
        word = "durable (synced before it returns)" if durable else "not synced"
        out += f"### Write, {word}\n\n" + write_table(bench.ways, rows)
    rows = []
    for ranks in counts:
        others = [(readers, "other") for readers in restart_counts(ranks)[1:]]
        patterns = [(ranks, "uniform"), *([] if given.quick else others)]
        found = restarts(bench, given.rounds, "strided", blocks, steps, ranks, patterns)
        rows += [(f"{ranks} ranks, {what}", cells) for what, cells in found]
    out += "### Read back: uniform in the pattern of the writers, other in one run per rank\n\n"
    out += read_table(bench.ways, rows)
    out += "### The same from the device: new programs, files not in memory\n\n"
    return out + cold_table(bench.ways, rows)


def aggregated(given: argparse.Namespace, folder: Path) -> str:
    """Small blocks of 8 ranks at most: the number of writers that the model takes beside every power of two."""
    collective = runpy.run_path(str(ROOT / "bench" / "collective" / "run.py"))
    sizes = [1 << 10, 1 << 16, 1 << 20]
    options = argparse.Namespace(
        prefix=given.prefix,
        ranks=min(8, given.most_ranks),
        steps=40,
        rounds=given.rounds,
        bytes=sizes,
        quantile=0.5,
        folder=folder,
    )
    out = "## How many ranks write: the model's number beside every power of two\n\n"
    return out + str(collective["measure"](options, folder)) + "\n"


def rounds(bench: Bench, count: int, *arguments: object) -> dict[str, Cell]:
    """Each way in turn, `count` times; then each once more for one step, counted."""
    cells: dict[str, Cell] = {way: Cell() for way in bench.ways}
    kernel, ranks, size, steps, durable = arguments
    for _ in range(count):
        bench.clear()
        for way in bench.ways:
            one = bench.run("write", ranks, kernel, way, size, steps, durable)
            cells[way].first += one.first
            cells[way].seconds += one.seconds
    for way in bench.ways[: bench.counts]:
        bench.clear()
        counts = bench.counted("write", ranks, kernel, way, size, 1, durable)
        if way == "drystone":  # the others begin anew with every checkpoint
            bench.clear()
            further = bench.counted("write", ranks, kernel, way, size, 2, durable).less(counts)
            cells[way].once, counts = counts.less(further), further
        cells[way].counts = counts
    bench.clear()
    return cells


def restarts(
    bench: Bench,
    count: int,
    kernel: str,
    size: int,
    steps: int,
    writers: int,
    patterns: list[tuple[int, str]],
) -> list[tuple[str, dict[str, Cell]]]:
    """Read stored data with each number of ranks in each way in turn, `count` times; once more, counted; then cold."""
    for way in bench.ways:
        bench.run("write", writers, kernel, way, size, steps, 0)
    out = []
    for readers, pattern in patterns:
        found: dict[str, Cell] = {way: Cell() for way in bench.ways}
        for _ in range(count):
            for way in bench.ways:
                read = bench.run("read", readers, kernel, way, size, steps, 0, writers, pattern)
                found[way].seconds += read.seconds
        for way in bench.ways[: bench.counts]:
            found[way].counts = bench.counted("read", readers, kernel, way, size, 1, 0, writers, pattern)
        out.append((f"{pattern} on {readers}" if pattern != "boxes" else f"on {readers}", found))
    # Afterwards: nothing of this is in memory any more.
    for (readers, pattern), (_, found) in zip(patterns, out, strict=True):
        for _ in range(count):
            for way in bench.ways:
                settle([bench.folder / "data" / way], forget=True)
                read = bench.run("read", readers, kernel, way, size, 1, 0, writers, pattern)
                found[way].cold += read.seconds
    bench.clear()
    return out


def restart_counts(ranks: int) -> list[int]:
    """The same, half and 5/4 as many ranks."""
    return [ranks, max(1, ranks // 2), -(-5 * ranks // 4)]


def write_table(ways: list[str], rows: list[tuple[str, dict[str, Cell]]]) -> str:
    """Times, requests and bytes of writing."""
    head = "| per checkpoint | " + " | ".join(f"{way} ms" for way in ways)
    head += BEST + " | " + " | ".join(f"{way} writes, syncs, MB" for way in ways)
    head += " | drystone once"
    out = head + " |\n" + "|---" * (2 * len(ways) + 3) + "|\n"
    for label, cells in rows:
        times = " | ".join(f"{middle(cells[way]):.2f}" for way in ways)
        each = [cells[way].counts for way in ways] + [cells["drystone"].once]
        counts = " | ".join(f"{n.writes}, {n.syncs}, {n.written / 1e6:.3f}" for n in each)
        out += f"| {label} | {times} | {ratio(cells)} | {counts} |\n"
    return out + "\n"


def read_table(ways: list[str], rows: list[tuple[str, dict[str, Cell]]]) -> str:
    """The same of reading."""
    head = "| per restart | " + " | ".join(f"{way} ms" for way in ways)
    head += BEST + " | " + " | ".join(f"{way} reads, MB" for way in ways)
    out = head + " |\n" + "|---" * (2 * len(ways) + 2) + "|\n"
    for label, cells in rows:
        times = " | ".join(f"{middle(cells[way]):.2f}" for way in ways)
        counts = " | ".join(f"{cells[way].counts.reads}, {cells[way].counts.read / 1e6:.3f}" for way in ways)
        out += f"| {label} | {times} | {ratio(cells)} | {counts} |\n"
    return out + "\n"


def cold_table(ways: list[str], rows: list[tuple[str, dict[str, Cell]]]) -> str:
    """Times of restarts of what is not in memory."""
    head = "| per restart | " + " | ".join(f"{way} ms" for way in ways) + BEST
    out = head + " |\n" + "|---" * (len(ways) + 2) + "|\n"
    for label, cells in rows:
        cold = {way: Cell(seconds=cells[way].cold) for way in ways}
        times = " | ".join(f"{middle(cold[way]):.2f}" for way in ways)
        out += f"| {label} | {times} | {ratio(cold)} |\n"
    return out + "\n"


def middle(cell: Cell) -> float:
    """Milliseconds."""
    return statistics.median(cell.seconds) * 1e3


def ratio(cells: dict[str, Cell]) -> str:
    """Drystone's time against the best of those that share a file."""
    best = min(middle(cells[way]) for way in ("mpiio", "hdf5") if way in cells)
    return f"{middle(cells['drystone']) / best:.2f}"


def page(text: str, given: argparse.Namespace) -> str:
    """The whole page."""
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    # The ranks themselves make a load of a few.
    busy = ""
    if os.getloadavg()[0] > 3 * (os.cpu_count() or 1):
        busy = "**The machine was busy with other work: of these figures only requests and bytes can be trusted.**\n\n"
    left_out = f" --most-ranks {given.most_ranks}" if given.most_ranks < 16 else ""
    left_out += " --small" if given.small else ""
    return f"""# Checkpoint kernels of N ranks

`.venv/bin/python bench/checkpoint/run.py --document{left_out} --rounds {given.rounds}`, after `make install PREFIX=...`
and `bench/checkpoint/fetch_hdf5.sh build/hdf5`; {date.today()}, {os.cpu_count()} x {model}, load
{os.getloadavg()[0]:.1f}.

The kernels follow the descriptions of two codes in the papers on log-structured checkpoints: Pixie3D's, and LANL's
mpi_io_test. MPI-IO is ROMIO with collective calls and one view per array; HDF5 is parallel 1.10.8 with collective
transfers and no fill values; `files` is a file per process. All but Drystone make a new file per checkpoint, whose
opening and closing are included; Drystone's container is opened once. Times are medians of the slowest rank. In the
column of ratios, below 1 means that Drystone is faster. Requests and bytes are exact, for all ranks together. For
Drystone they are those of each further checkpoint. The column `once` has those that a run of any length makes once: for
the container, its logs, and closing them.
Mapped reads from the page cache are not counted. Ranks share {os.cpu_count()} cores, so more ranks than that show the
load on a file system, not how a cluster would scale. A restart from the page cache reads data that was just written. A
restart from the device is that of a new job: its files were synced and dropped from memory (`posix_fadvise`), and its
time includes all work that a program does only once.

{busy}{text}"""


if __name__ == "__main__":
    main()
