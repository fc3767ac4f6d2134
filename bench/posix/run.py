"""Ordinary files in a container, some minutes; needs /dev/fuse: `bench/posix/run.py [--quick] [--document]`.

Question: what do unmodified programs gain and lose that write and read files through `drystone mount`, with `--write`
and with `--writeback`?

- N ranks write one file in strided blocks of 47 KiB (LANL's mpi_io_test) and restart from it: on the mount by ROMIO and
  by POSIX, beside ROMIO on the file system, a file per rank on the mount, and puts of the same bytes. Bars: 0.8 of the
  puts, 2 times ROMIO on the file system, 0.95 of a file per rank; restarts 1.0 of ROMIO's on as many ranks, 0.8 on half
  as many.
- Pixie3D's checkpoint, 8 arrays of which each rank has a box, by collective MPI-IO (ROMIO) and by a call for each row
  of the box, on the mount beside the file system, restarted on as many ranks and on half as many.
- What reaches the disk: appends only, no lock, at most 2 files per rank.
- Views: sequential reads of 1 MiB at 0.5 of the file system where they are made on the fly, and at 0.9 where the kernel
  reads a stored file itself; the first byte of 1 GiB within 20 ms, 20,000 open-stat-close a second.
- The end of a file of many writes within 10 ms; 32 MiB of memory of an idle mount.

The ways are taken in turn, and medians are told. Every word that is read is compared.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import drystone as dry
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAGE = ROOT / "docs" / "benchmarks" / "posix.md"
sys.path.insert(0, str(ROOT / "examples" / "gray_scott"))

from job import mpi_environment  # noqa: E402

BLOCK = 47 * 1024
# Ways to write on a mount, and the words of the program for them.
MOUNTED = (("posix", "posix"), ("romio", "at"), ("each", "each"))
CALL = re.compile(r"(pwrite64|pwritev)\(\d+<([^>]*\.dat)>.* = (\d+)")
LOCK = re.compile(r"(?:fcntl\(\d+<[^>]*>, F_SETLKW?|flock\()")
PLACE = re.compile(r", (\d+)\s*\)\s+= ")


KINDS = ("--write", "--writeback")


@contextmanager
def mounted(run: Path, at: Path, kind: str) -> Iterator[int]:
    """A mount for writing; the number of its process."""
    at.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "drystone", "mount", run, at, kind]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    try:
        if not process.stdout or not process.stdout.readline().startswith("mounted"):
            raise SystemExit("the mount did not begin")
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


class Bench:
    """The compiled program, and where files go."""

    def __init__(self, folder: Path, blocks: int) -> None:
        self.folder, self.blocks = folder, blocks
        self.side = 96 if blocks > 64 else 16
        self.program = folder / "shared_file"
        source = ROOT / "tests" / "mpi" / "shared_file.c"
        flags = ["-std=c99", "-O2", "-D_POSIX_C_SOURCE=200809L", source, "-o", self.program]
        subprocess.run([str(word) for word in (BIN / "mpicc", *flags)], check=True)

    def ranks(self, count: int, *words: object) -> float:
        """Runs a program of so many ranks; the seconds that it tells."""
        command = [str(word) for word in (BIN / "mpiexec", "-n", count, *words)]
        done = subprocess.run(
            command, env=mpi_environment(), capture_output=True, text=True, timeout=280, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        return float(done.stdout.split()[-1])

    def cube(self, act: str, how: str, ranks: int, path: Path) -> float:
        """Writes or reads Pixie3D's checkpoint: 8 arrays of `side`^3 numbers."""
        return self.ranks(ranks, self.program, act, "cube", how, 8, self.side, 1, path)

    def strided(self, act: str, how: str, ranks: int, path: Path) -> float:
        """Writes or reads the strided kernel."""
        return self.ranks(ranks, self.program, act, "strided", how, self.blocks, BLOCK, 1, path)

    def puts(self, ranks: int) -> float:
        """The same bytes as puts."""
        path = self.folder / "puts.dry"
        with dry.create(path, overwrite=True) as c:
            c.create_variable("v", "u1", (self.blocks, BLOCK), steps=True, transform=None)
        return self.ranks(
            ranks, sys.executable, Path(__file__).with_name("native.py"), path, self.blocks, BLOCK
        )


def shared(bench: Bench, mounts: dict[str, Path], rounds: int) -> list[str]:
    """The tables of writing and restarting; `mounts` are the folders of files by the kinds of their mounts."""
    total = bench.blocks * BLOCK / 1e6
    beside = bench.folder / "beside"
    beside.mkdir(exist_ok=True)
    out = [
        "| ranks | mount | one file on the mount, POSIX | by ROMIO | ROMIO on the file system |"
        " a file per rank, mount | puts | to ROMIO | to puts | to a file per rank |",
        "|---:|---|" + "---:|" * 8,
    ]
    for ranks in (4, 8):
        ways = [("beside", "at", beside)]
        for kind, files in mounts.items():
            ways += [(f"{name}{kind}", how, files) for name, how in MOUNTED]
        seen: dict[str, list[float]] = {}
        for number in range(rounds):
            for name, how, folder in ways:
                seconds = bench.strided("write", how, ranks, folder / f"{name}{ranks}.{number}")
                seen.setdefault(name, []).append(total / seconds)
            seen.setdefault("puts", []).append(total / bench.puts(ranks))
        rate = {name: statistics.median(values) for name, values in seen.items()}
        for kind in mounts:
            posix, romio, each = (rate[f"{name}{kind}"] for name, _ in MOUNTED)
            rates = [posix, romio, rate["beside"], each, rate["puts"]]
            cells = [f"`{kind}`", *(f"{value:.0f} MB/s" for value in rates)]
            cells += [f"{romio / other:.2f}" for other in (rate["beside"], rate["puts"], each)]
            out.append(f"| {ranks} | {' | '.join(cells)} |")
    out += [
        "",
        "| restart of 8 ranks' file on | mount | the mount, ROMIO | the file system, ROMIO | ratio | bar |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for ranks, bar in ((8, 1.0), (4, 0.8)):
        paths = {kind: files / f"romio{kind}8.0" for kind, files in mounts.items()}
        paths["beside"] = beside / "beside8.0"
        times: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, path in paths.items():
                times.setdefault(name, []).append(bench.strided("read", "at", ranks, path))
        rate = {name: total / statistics.median(seconds) for name, seconds in times.items()}
        for kind in mounts:
            cells = [f"`{kind}`", f"{rate[kind]:.0f} MB/s", f"{rate['beside']:.0f} MB/s"]
            out.append(f"| {ranks} ranks | {' | '.join(cells)} | {rate[kind] / rate['beside']:.2f} | {bar} |")
    return out


def checkpoint(bench: Bench, mounts: dict[str, Path], rounds: int) -> list[str]:
    """The table of Pixie3D's checkpoint."""
    total = 8 * bench.side**3 * 8 / 1e6
    beside = bench.folder / "beside"
    out = [
        f"| Pixie3D's checkpoint, {total:.0f} MB | {' | '.join(f'`{kind}`' for kind in mounts)} | the file system |"
        " ratios |",
        "|---|---:|" + "---:|" * (len(mounts) + 1),
    ]
    for how, said in (("view_all", "collective"), ("posix", f"a call per row of {bench.side * 4} bytes")):
        for act, ranks in (("write", 8), ("read", 8), ("read", 4)):
            seen: dict[Path, list[float]] = {folder: [] for folder in (*mounts.values(), beside)}
            for number in range(rounds):
                for folder, rates in seen.items():
                    if act == "write" or number == 0 or how == "view_all":
                        path = folder / f"cube-{how}.{number if act == 'write' else 0}"
                        rates.append(total / bench.cube(act, how, ranks, path))
            *mounted_rates, plain = (statistics.median(rates) for rates in seen.values())
            cells = [f"{rate:.0f} MB/s" for rate in (*mounted_rates, plain)]
            cells.append(", ".join(f"{rate / plain:.2f}" for rate in mounted_rates))
            out.append(f"| {said}: {act}, {ranks} ranks | {' | '.join(cells)} |")
    return out


def counted(bench: Bench, files: Path, daemon: int, ranks: int = 4) -> list[str]:
    """What reaches the disk, by strace."""
    if shutil.which("strace") is None:
        return ["(not counted: strace is not installed)"]
    trace = bench.folder / "trace"
    kinds = "trace=pwrite64,pwritev,fcntl,flock"
    words = ["strace", "-f", "-qq", "-y", "-s", "0", "-e", kinds, "-o", trace, "-p", daemon]
    tracer = subprocess.Popen([str(word) for word in words])
    time.sleep(1)
    bench.strided("write", "at", ranks, files / "counted")
    tracer.terminate()
    tracer.wait(20)
    ends: dict[str, int] = {}
    calls = behind = locks = moved = 0
    for line in whole_calls(trace.read_text(errors="replace")):
        locks += LOCK.search(line) is not None
        found, place = CALL.search(line), PLACE.search(line)
        if found and place:
            path, length, offset = found[2], int(found[3]), int(place[1])
            calls += 1
            moved += length
            behind += ends.setdefault(path, offset) == offset
            ends[path] = offset + length
    return [
        "| what reaches the disk, 4 ranks | counted | bar |",
        "|---|---:|---:|",
        f"| writes of data, of {bench.blocks} writes of the ranks | {calls} | |",
        f"| of these behind the end of their log | {behind / max(calls, 1):.0%} | 100 % |",
        f"| bytes of data for each byte written | {moved / (bench.blocks * BLOCK):.4f} | |",
        f"| logs | {len(ends)} | {2 * ranks} |",
        f"| locks | {locks} | 0 |",
    ]


def whole_calls(text: str) -> Iterator[str]:
    """The lines of a trace of several threads, each with its result."""
    begun: dict[str, str] = {}
    for line in text.splitlines():
        thread, _, call = line.partition(" ")
        if call.rstrip().endswith("<unfinished ...>"):
            begun[thread] = call.rstrip().removesuffix("<unfinished ...>")
        elif "resumed>" in call:
            yield begun.pop(thread, "") + call.partition("resumed>")[2]
        else:
            yield call


def views(bench: Bench, run: Path, at: Path, mib: int, rounds: int) -> list[str]:
    """Reads of what is made on the fly."""
    values = np.random.default_rng(1).random((mib, 1 << 17))
    with dry.open(run, mode="r+") as c:
        c.create_variable("big", "f8", values.shape, transform=None)
        with c.writer() as writer:
            for row in range(0, mib, 64):
                writer.put("big", values[row : row + 64], offset=(row, 0))
    view, beside = at / "view/latest/big.npy", bench.folder / "big.npy"
    begun = time.perf_counter()
    with view.open("rb", buffering=0) as file:
        file.read(1)
        first = time.perf_counter() - begun
    np.save(beside, values)

    def read(path: Path) -> float:
        buffer, total, begun = bytearray(1 << 20), 0, time.perf_counter()
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED) if path == view else None
            while got := file.readinto(buffer):
                total += got
        return total / (time.perf_counter() - begun) / 1e6

    read(view), read(beside)
    pairs = [(read(view), read(beside)) for _ in range(rounds)]
    made, plain = (statistics.median(side) for side in zip(*pairs, strict=True))
    opens = max(opened(view) for _ in range(rounds))
    if not (np.load(view, mmap_mode="r") == values).all():
        raise SystemExit("the view has other values")
    # It was mapped: from now on the kernel keeps what is read of it.
    read_again(view)
    kept = statistics.median(read_again(view) for _ in range(rounds))
    with dry.open(run, mode="r+") as c:
        c.publish("big", progress=False)
    time.sleep(1.1)
    shard = max((p for p in (run / "zarr/big").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    shown = at / "published" / shard.relative_to(run)
    read_again(shard)
    pairs = [(read_again(shown), read_again(shard)) for _ in range(rounds)]
    passed, stored = (statistics.median(side) for side in zip(*pairs, strict=True))
    through = f"{passed:.0f} MB/s, {passed / stored:.2f} of the same file without the mount"
    return [
        f"| views, of {mib} MiB | measured | bar |",
        "|---|---:|---:|",
        f"| first byte after the commit | {first * 1e3:.1f} ms | 20 ms |",
        f"| read in pieces of 1 MiB, made on the fly | {made:.0f} MB/s, {made / plain:.2f} of the file system | 0.5 |",
        f"| read again after it was mapped, kept by the kernel | {kept:.0f} MB/s, {kept / plain:.2f} of the file "
        "system | |",
        f"| a published shard of {shard.stat().st_size >> 20} MiB, read by the kernel itself | {through} | 0.9 |",
        f"| open, stat, close | {opens:.0f} a second | 20000 |",
    ]


def opened(path: Path) -> float:
    """How often a second a file is opened, asked for its length and closed."""
    begun, many = time.perf_counter(), 5000
    for _ in range(many):
        handle = os.open(path, os.O_RDONLY)
        os.fstat(handle)
        os.close(handle)
    return many / (time.perf_counter() - begun)


def read_again(path: Path) -> float:
    """Megabytes a second of a file that was read just now."""
    buffer, total, begun = bytearray(1 << 20), 0, time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(buffer):
            total += got
    return total / (time.perf_counter() - begun) / 1e6


def unlinked(files: Path, writes: int) -> str:
    """How long the end of a file of many writes takes."""
    path = files / "many"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    for number in range(writes):
        os.pwrite(handle, b"12345678", number * 16)
    os.close(handle)
    begun = time.perf_counter()
    path.open("rb").close()
    opened = time.perf_counter() - begun
    begun = time.perf_counter()
    path.unlink()
    gone = time.perf_counter() - begun
    return f"| a file of {writes} writes: open, unlink | {opened * 1e3:.1f} ms, {gone * 1e3:.1f} ms | 50 ms, 10 ms |"


def resident(process: int) -> float:
    """MiB of memory of a process."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) / 1024


def main() -> None:
    """Measure, print, and write the page if asked."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="small and once: whether it runs")
    options.add_argument("--document", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options.add_argument(
        "--note", default="", help="a sentence about the build and the machine, for the page"
    )
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = options.parse_args()
    rounds, blocks, mib, writes = (1, 64, 8, 2000) if given.quick else (3, 2048, 1024, 1_000_000)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        run, at = folder / "run.dry", folder / "at"
        dry.create(run).close()
        dry.create(folder / "collected.dry").close()
        bench = Bench(folder, blocks)
        with (
            mounted(run, at, "--write") as daemon,
            mounted(folder / "collected.dry", folder / "collected", "--writeback"),
        ):
            idle = resident(daemon)
            mounts = dict(zip(KINDS, (at / "files", folder / "collected" / "files"), strict=True))
            parts = [shared(bench, mounts, rounds), checkpoint(bench, mounts, rounds)]
            parts.append(counted(bench, at / "files", daemon))
            parts.append(views(bench, run, at, mib, rounds))
            parts[-1].append(unlinked(at / "files", writes))
            parts[-1].append(f"| memory of a mount that does nothing | {idle:.0f} MiB | 32 MiB |")
    tables = "\n\n".join("\n".join(part) for part in parts)
    print(tables)
    if given.document:
        machine = f"{date.today()}, {os.cpu_count()} cores, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}"
        head = (
            "# Ordinary files in a container\n\n`python bench/posix/run.py` measures unmodified programs that write "
            "and read files through\n[`drystone mount`](../guide/mount.md). Its text lists the bars.\n\n"
        )
        PAGE.write_text(f"{head}{machine}. {given.note}\n\n{tables}\n")


if __name__ == "__main__":
    main()
