"""HDF5 programs unchanged, at most about 8 minutes (`--minutes`): `bench/hdf5/run.py [--quick] [--document]`.

Question: how long does an HDF5 program wait, and how long until its data is durable, through the connector and on
native HDF5? Bar: the application waits a quarter of the time, and the total is never longer. The kernels (kernels.c)
are VPIC-IO, BD-CATS-IO and H5Boss, the same program for every way: only HDF5_VOL_CONNECTOR and HDF5_PLUGIN_PATH differ,
and each run says which connector HDF5 really used. Ways take turns, in another order each round, and are compared
within rounds; every value read is compared.

Equal durability: each run ends in H5Fflush and H5Fclose; then every file left behind is fsynced here, and that time is
in the total of every way. Bytes and files are counted as they lie there afterwards.

Needs `bench/hdf5/build_hdf5.sh build/hdf5-1.14.5` (parallel HDF5) and the plug-in (`make setup`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
PAGE = ROOT / "docs" / "benchmarks" / "hdf5.md"
NATIVE, OURS = "native", "drystone"
sys.path.insert(0, str(ROOT / "examples" / "gray_scott"))

from job import mpi_environment  # noqa: E402

Times = dict[str, float]


@dataclass(frozen=True)
class Way:
    """A connector and a kind of transfer."""

    connector: str
    transfer: str

    def __str__(self) -> str:
        return f"{self.connector} {self.transfer}"


WAYS = [Way(NATIVE, "independent"), Way(NATIVE, "collective"), Way(OURS, "independent")]
"""The connector takes both kinds of transfer alike: one stands for both."""


@dataclass
class Bench:
    """The compiled kernels, and where their files go."""

    folder: Path
    program: Path
    hdf5: Path
    environment: dict[str, str]
    """What `drystone hdf5-env` says."""
    share: float = 60.0
    """Seconds after which a case begins no further round."""

    def file(self, way: Way) -> Path:
        """What a way writes; beside it the connector's container."""
        return self.folder / f"{way.connector}-{way.transfer}" / "data.h5"

    def run(self, act: str, way: Way, ranks: int, *more: object) -> Times:
        """Run one program; the seconds that it prints, summed by name, and those of steps also one by one."""
        path = self.file(way)
        path.parent.mkdir(exist_ok=True)
        words = [BIN / "mpiexec", "-n", ranks, self.program, act, path, way.transfer, *more]
        environment = mpi_environment() | {"HDF5_USE_FILE_LOCKING": "FALSE"}
        if way.connector == OURS:
            environment |= self.environment
        done = subprocess.run(
            [str(word) for word in words], env=environment, capture_output=True, text=True, timeout=300
        )
        if done.returncode != 0:
            raise SystemExit(f"{act} on {way}, {ranks} ranks: {done.stdout}{done.stderr}")
        told: Times = {}
        for line in done.stdout.splitlines():
            what, value = line.split()
            if what == "connector":
                if value != way.connector:
                    raise SystemExit(f"{act} on {way} really ran on {value}: {done.stderr}")
                told["asserted"] = 1
            else:
                told[what] = told.get(what, 0.0) + float(value)
        if "asserted" not in told:
            raise SystemExit(f"{act} on {way} did not say its connector: {done.stdout}{done.stderr}")
        return told

    def limits(self, ranks: int, *more: object) -> Times:
        """What the kernel says could be reached at best, without HDF5."""
        path = self.folder / "limits"
        path.mkdir(exist_ok=True)
        words = [BIN / "mpiexec", "-n", ranks, self.program, "limits", path / "data", "independent", *more]
        done = subprocess.run(
            [str(word) for word in words],
            env=mpi_environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        shutil.rmtree(path)
        return {what: float(value) for what, value in map(str.split, done.stdout.splitlines())}

    def files(self, way: Way) -> list[Path]:
        """All files a way has written."""
        return [found for found in self.file(way).parent.rglob("*") if found.is_file()]

    def sync(self, way: Way) -> float:
        """Seconds to bring whatever is not on the device yet there."""
        begin = time.perf_counter()
        for path in self.files(way):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        return time.perf_counter() - begin

    def forget(self, way: Way) -> None:
        """Out of the page cache."""
        for path in self.files(way):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)

    def size(self, way: Way) -> tuple[int, int]:
        """Files and bytes."""
        found = self.files(way)
        return len(found), sum(path.stat().st_size for path in found)

    def clear(self) -> None:
        """Removes what was written."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)


@dataclass
class Case:
    """Every way's times in every round."""

    label: str
    bytes_moved: int
    rounds: dict[Way, list[Times]] = field(default_factory=dict)
    left: dict[Way, tuple[int, int]] = field(default_factory=dict)

    def of(self, way: Way, what: str) -> float:
        """The median over the rounds."""
        return median(times[what] for times in self.rounds[way])

    def ratio(self, way: Way, what: str) -> float:
        """Median ratio of native's time to this way's in the same round, each with its better kind of transfer."""
        pairs = zip(self.rounds[way], *(self.rounds[w] for w in WAYS if w.connector == NATIVE), strict=True)
        return median(min(n[what] for n in native) / mine[what] for mine, *native in pairs)


def main() -> None:
    """Compile, measure, print tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--hdf5", type=Path, default=ROOT / "build" / "hdf5-1.14.5", help="made by build_hdf5.sh"
    )
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--ranks", default="2,4,8,16")
    options.add_argument("--rounds", type=int, default=5, help="at most; at least one is run of everything")
    options.add_argument(
        "--minutes", type=float, default=8.0, help="no further rounds where a case has had its share"
    )
    options.add_argument("--quick", action="store_true", help="the smallest cases once, for the tests")
    options.add_argument("--document", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        bench = compiled(given.hdf5.resolve(), Path(folder))
        rounds = 1 if given.quick else given.rounds
        ranks = [int(word) for word in given.ranks.split(",")]
        # Five measurements for each number of ranks (VPIC, BD-CATS cold and not, H5Boss and its reading), one more
        # pair, two of turns.
        bench.share = 60 * given.minutes / (5 * len(ranks) + 4)
        text = particles(bench, rounds, given.quick, ranks) + spectra(bench, rounds, given.quick, ranks)
        text += turns(bench, rounds, given.quick, ranks)
    if given.document:
        PAGE.write_text(page(text, given))
    print(text)


def connector_environment() -> dict[str, str]:
    """What a user's `eval "$(drystone hdf5-env)"` sets."""
    told = subprocess.run(
        [BIN / "drystone", "hdf5-env", "--json"], capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(told.stdout)
    return found


def compiled(hdf5: Path, folder: Path) -> Bench:
    """The kernels against parallel HDF5."""
    library = next((hdf5 / name for name in ("lib", "lib64") if (hdf5 / name).exists()), None)
    if library is None:
        raise SystemExit(f"no HDF5 in {hdf5}: bench/hdf5/build_hdf5.sh {hdf5}")
    program = folder / "kernels"
    flags = ["-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
    flags += ["-isystem", f"{hdf5}/include"]
    link = [f"-L{library}", "-lhdf5", f"-Wl,-rpath,{library}"]
    subprocess.run(
        [str(BIN / "mpicc"), *flags, str(HERE / "kernels.c"), *link, "-o", str(program)], check=True
    )
    return Bench(folder, program, hdf5, connector_environment())


def in_turn(rounds: int, share: float) -> Iterable[list[Way]]:
    """The ways, first in another order each round, as long as a further round fits the case's share of seconds."""
    begin = time.perf_counter()
    for number in range(rounds):
        if number > 0 and (time.perf_counter() - begin) * (number + 1) / number > share:
            return
        first = number % len(WAYS)
        yield WAYS[first:] + WAYS[:first]


def written(bench: Bench, case: Case, rounds: int, act: str, ranks: int, *more: object) -> None:
    """Each way writes, in turn; the last round's files stay."""
    for order in in_turn(rounds, bench.share):
        bench.clear()
        for way in order:
            times = bench.run(act, way, ranks, *more)
            times["rest"] = bench.sync(way)
            times["durable"] = times["total"] + times["rest"]
            times["asked"] = times["wait"] + times["create"]
            case.rounds.setdefault(way, []).append(times)
            case.left[way] = bench.size(way)


def read(bench: Bench, case: Case, rounds: int, act: str, ranks: int, *more: object, cold: bool) -> None:
    """Each way reads what it wrote, in turn."""
    for order in in_turn(rounds, bench.share):
        for way in order:
            if cold:
                bench.forget(way)
            case.rounds.setdefault(way, []).append(bench.run(act, way, ranks, *more))


def particles(bench: Bench, rounds: int, quick: bool, ranks: list[int]) -> str:
    """VPIC-IO, then BD-CATS-IO on what it wrote."""
    mi = 1 << 20
    sizes = [(ranks[0], mi // 16)] if quick else [(n, 8 * mi // n) for n in ranks]
    steps, pause = 2, 20 if quick else 1000
    writes, reads, limits = [], [], []
    for n, count in sizes:
        label = f"{n} {'ranks' if n > 1 else 'rank'} x {count / mi:g} Mi"
        case = Case(label, n * count * 32 * steps)
        bound = [bench.limits(n, count, steps, pause) for _ in range(min(rounds, 3))]
        limits.append((label, {what: median(one[what] for one in bound) for what in bound[0]}))
        written(bench, case, rounds, "vpic", n, count, steps, pause)
        writes.append(case)
        for cold in (True,) if quick else (True, False):
            readers = max(1, n // 2) if cold else n  # on another number of ranks, too
            again = Case(f"{label} by {readers}, {'cold' if cold else 'page cache'}", case.bytes_moved)
            read(bench, again, rounds, "bdcats", readers, n * count, steps, cold=cold)
            reads.append(again)
        bench.clear()
    out = f"## VPIC-IO: 8 variables of 4 bytes, {steps} steps with {pause / 1000:g} s of computation between them\n\n"
    out += (
        write_table(writes, "wait")
        + limit_table(limits)
        + "## BD-CATS-IO: everything is read, an even share per rank\n\n"
        + read_table(reads)
    )
    return out


def spectra(bench: Bench, rounds: int, quick: bool, ranks: list[int]) -> str:
    """H5Boss: many small datasets."""
    writes, reads = [], []
    for n, count in [(ranks[0], 50)] if quick else [*((n, 500) for n in ranks), (ranks[0], 5000)]:
        case = Case(f"{count} datasets, {n} {'ranks' if n > 1 else 'rank'}", count * 16000)
        written(bench, case, 1 if count > 500 else rounds, "h5boss", n, count, 1)
        writes.append(case)
        again = Case(f"{case.label}, cold", case.bytes_moved)
        read(bench, again, 1 if count > 500 else rounds, "h5boss-read", n, count, 1, cold=True)
        reads.append(again)
        bench.clear()
    out = "## H5Boss: many small datasets, 4,000 floats and two attributes each\n\n" + write_table(
        writes, "asked"
    )
    return out + "Reading:\n\n" + read_table(reads)


def turns(bench: Bench, rounds: int, quick: bool, ranks: list[int]) -> str:
    """Each rank writes every n-th cell."""
    writes, reads = [], []
    for n in ranks[:1] if quick else ranks[:2]:
        count = 1000 if quick else 256 << 10
        case = Case(f"{n} {'ranks' if n > 1 else 'rank'} x {count} cells", n * count * 4)
        written(bench, case, rounds, "turns", n, count, 1)
        writes.append(case)
        again = Case(f"{case.label}, page cache", case.bytes_moved)
        read(bench, again, rounds, "turns-read", n, count, 1, cold=False)
        reads.append(again)
        bench.clear()
    out = (
        "## Interleaved cells: one variable of 4-byte integers, of which each rank writes every n-th\n\n"
        + write_table(writes, "wait")
    )
    return out + "Reading, an even share per rank:\n\n" + read_table(reads)


def limit_table(limits: list[tuple[str, Times]]) -> str:
    """What the same bytes take without HDF5."""
    lines = [line(["", "copied in memory, s", "written to a file per rank, s", "that and fsync, s"])]
    lines.append(line(["---"] + ["---:"] * 3))
    for label, times in limits:
        lines.append(line([label, *(seconds(times[what]) for what in ("copy", "files", "files-durable"))]))
    return (
        "The limits, by the same ranks without HDF5. First, the same bytes are copied once into allocated memory; a "
        "library that returns the buffers to the caller must do at least this. Second, they are written to a file "
        "per rank with "
        "write(). Third, these files are also synced, with one fsync each:\n\n" + "\n".join(lines) + "\n\n"
    )


def write_table(cases: list[Case], wait: str) -> str:
    """Waiting and durable, and what stands behind the sum."""
    means = "waits in H5Dwrite" if wait == "wait" else "waits in create and H5Dwrite"
    head = [
        "",
        "",
        f"{means}, s (buffer reusable)",
        "times native's",
        "total to durable, s",
        "times native's",
    ]
    head += ["create", "flush", "close", "fsync after", "files", "MB"]
    lines = [line(head), line(["---"] * 2 + ["---:"] * (len(head) - 2))]
    for case in cases:
        for way in WAYS:
            ours = way.connector == OURS
            files, count = case.left[way]
            cells = [case.label if way is WAYS[0] else "", str(way), seconds(case.of(way, wait))]
            cells += [
                f"{case.ratio(way, wait):.2f} x faster" if ours else "",
                seconds(case.of(way, "durable")),
            ]
            cells += [f"{case.ratio(way, 'durable'):.2f} x faster" if ours else ""]
            cells += [seconds(case.of(way, what)) for what in ("create", "flush", "close", "rest")]
            lines.append(line([*cells, str(files), f"{count / 1e6:.1f}"]))
    return "\n".join(lines) + "\n\n"


def read_table(cases: list[Case]) -> str:
    """Times of reading."""
    head = ["", "", "open, s", "H5Dread, s (values in the buffer)", "GB/s", "times native's"]
    lines = [line(head), line(["---"] * 2 + ["---:"] * (len(head) - 2))]
    for case in cases:
        for way in WAYS:
            time_read = case.of(way, "read")
            cells = [case.label if way is WAYS[0] else "", str(way), seconds(case.of(way, "create"))]
            cells += [seconds(time_read), f"{case.bytes_moved / time_read / 1e9:.2f}"]
            lines.append(
                line([*cells, f"{case.ratio(way, 'read'):.2f} x faster" if way.connector == OURS else ""])
            )
    return "\n".join(lines) + "\n\n"


def line(cells: list[str]) -> str:
    """Of a table."""
    return f"| {' | '.join(cells)} |"


def seconds(count: float) -> str:
    """Three digits."""
    return f"{count:.3g}"


def page(text: str, given: argparse.Namespace) -> str:
    """The whole page."""
    told = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((row.split(":")[1].strip() for row in told if "model name" in row), platform.machine())
    return f"""# HDF5 programs unchanged, through the connector and on native HDF5

`.venv/bin/python bench/hdf5/run.py --document`, after `make setup` and `bench/hdf5/build_hdf5.sh build/hdf5-1.14.5`;
{date.today()}, {os.cpu_count()} x {model}, load {os.getloadavg()[0]:.1f}.

The kernels ([bench/hdf5/kernels.c](../../bench/hdf5/kernels.c)) follow the descriptions of VPIC-IO, BD-CATS-IO and
H5Boss in the papers on object stores for HDF5. One program uses parallel HDF5 1.14.5 with Open MPI and ROMIO. Only
the environment selects the connector, and each run states which one HDF5 used. Every value read is compared with the
one written.

- *waits*: from a barrier before the first H5Dwrite of a step to a barrier after the last, summed over all steps, as
  in the paper. It ends when the caller may reuse its buffers; **nothing is durable then, in either way**.
- *total to durable*: from before H5Fcreate to after H5Fclose, with an H5Fflush before H5Fclose, without computation,
  plus the time to fsync every remaining file. Then everything is durable, in either way.
- *times native's*: native HDF5's time divided by the connector's, for the better of native's two kinds of transfer in
  the same round; the median over the rounds, at most {given.rounds} (5,000 datasets: one). Above 1 the connector is
  faster.

The connector treats both kinds of transfer alike, and is measured with independent ones. Other ranks see the writes of
a rank after a flush, as HDF5 requires ([HDF5 programs](../guide/hdf5.md)). The ranks share {os.cpu_count()} cores. More
ranks than that show the load on the file system, not how a cluster would scale.

{text}"""


if __name__ == "__main__":
    main()
