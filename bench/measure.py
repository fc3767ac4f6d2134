"""How everything here is measured: exact costs of one act, engines in turn, the limits of the machine beside them.

Invariants
- an act is timed and counted by the same code for every engine: the clock, and what the system says the process did
  (`/proc/self/io`), so calls and bytes through mapped memory would not show and are not used;
- buffers are touched before, values are checked after: neither is in the figures;
- engines act in turn, in another order each round, and are compared within rounds.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
import raw

MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """How a run is made."""

    folder: Path
    """Where data is written, and removed."""
    quick: bool = False
    """Small sizes and few rounds: shows that everything works, measures nothing."""
    drop_caches: bool = False
    """Before cold reads, drop the caches of the whole system too (needs root)."""
    say: Callable[[str], None] = print
    """Told what is being measured."""

    def rounds(self, wanted: int) -> int:
        """How often each engine acts."""
        return 2 if self.quick else wanted


@dataclass(frozen=True)
class Cost:
    """What an act cost: time, calls and bytes between the process and the system, bytes between system and device."""

    seconds: float = 0.0
    read_calls: int = 0
    read_bytes: int = 0
    write_calls: int = 0
    written_bytes: int = 0
    device_read: int = 0
    device_written: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def within(self, seconds: float) -> Cost:
        """The same costs, with the time that passed on the wall."""
        return Cost(seconds, *(getattr(self, f.name) for f in fields(self)[1:]))


_FIELDS = ("syscr", "rchar", "syscw", "wchar", "read_bytes", "write_bytes")


def _system_says() -> list[int]:
    text = Path("/proc/self/io").read_text()
    told = dict(line.split(": ") for line in text.splitlines())
    return [int(told[name]) for name in _FIELDS]


def _cost_of_asking() -> list[int]:
    """What reading the counters adds to them: constant but for the digits in them."""
    first = _system_says()
    return [b - a for a, b in zip(first, _system_says(), strict=True)]


class Meter:
    """Times and counts the body of `with`; `cost` afterwards, `begin` and `end` on the clock of all processes."""

    cost: Cost
    begin: float
    end: float

    def __enter__(self) -> Meter:
        self._asking = _cost_of_asking()
        self._before = _system_says()
        self.begin = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.end = time.perf_counter()
        counts = [
            max(0, b - a - ask) for a, b, ask in zip(self._before, _system_says(), self._asking, strict=True)
        ]
        self.cost = Cost(self.end - self.begin, *counts)


def measured(act: Callable[[], object]) -> Cost:
    """What an act in this process costs."""
    with Meter() as meter:
        act()
    return meter.cost


@dataclass(frozen=True)
class Figure:
    """An engine's costs of the same act, over the rounds."""

    costs: tuple[Cost, ...]

    @property
    def seconds(self) -> float:
        """The median."""
        return median(cost.seconds for cost in self.costs)

    @property
    def typical(self) -> Cost:
        """Every count's median."""
        return Cost(*(median(getattr(cost, f.name) for cost in self.costs) for f in fields(Cost)))

    def times(self, other: Figure) -> float:
        """How many times as long as the other: the median over rounds, each compared within itself."""
        pairs = zip(self.costs, other.costs, strict=True)
        return median(mine.seconds / theirs.seconds for mine, theirs in pairs)


def alternate(
    acts: Mapping[str, Callable[[], Cost]], rounds: int, *, warm_up: bool = True
) -> dict[str, Figure]:
    """Let engines act in turn, `rounds` times each, first in another order each round."""
    names = list(acts)
    if warm_up:
        for name in names:
            acts[name]()
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            costs[name].append(acts[name]())
    return {name: Figure(tuple(found)) for name, found in costs.items()}


def touched(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """An array whose pages are touched, since the first write to an untouched page costs a page fault."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[...] = 0xA5
    return array


@dataclass
class Checked:
    """Counts the values that were compared."""

    values: int = 0
    by_engine: dict[str, int] = field(default_factory=dict)

    def same(self, engine: str, found: npt.NDArray[np.generic], expected: npt.NDArray[np.generic]) -> None:
        """Every value must be what was written."""
        if (
            found.shape != expected.shape
            or found.dtype != expected.dtype
            or not np.array_equal(found, expected)
        ):
            raise ValueError(f"{engine} read back something else than was written: the benchmark is void")
        self.count(engine, found.size)

    def count(self, engine: str, values: int) -> None:
        """Add values compared elsewhere."""
        self.values += values
        self.by_engine[engine] = self.by_engine.get(engine, 0) + values


CHECKED = Checked()
"""What this process has checked."""


def files_of(path: Path) -> list[Path]:
    """A file, or all files below a folder."""
    return [found for found in path.rglob("*") if found.is_file()] if path.is_dir() else [path]


def size_of(path: Path) -> int:
    """Bytes of a file or of all files below a folder."""
    return sum(found.stat().st_size for found in files_of(path))


def settle(paths: Iterable[Path], *, forget: bool) -> None:
    """Bring files to the device, so that no act pays for an earlier one; `forget` them from memory too."""
    for path in paths:
        for file in files_of(path):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                if forget:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def discard(path: Path) -> None:
    """Give the space of a file or folder back and put it out of the way; the files themselves go when the run ends.

    ext4 does not take the inode of a file that was removed in the last minutes, and looks past every one of them each
    time a file is made: removing thousands of files here would slow whatever makes files next.
    """
    if not path.exists():
        return
    for file in files_of(path):
        if file.stat().st_size > MIB // 16:
            os.truncate(file, 0)
    number = itertools.count()
    while (away := path.with_name(f"gone.{next(number)}")).exists():
        pass
    path.rename(away)


def make_cold(path: Path, settings: Settings) -> None:
    """Forget a container or file, so that the next read comes from the device."""
    settle([path], forget=True)
    if settings.drop_caches:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")


@dataclass(frozen=True)
class Anchors:
    """What the machine gives at best, bytes per second and seconds, measured beside everything else."""

    copy: float
    write: float
    write_synced: float
    read_warm: float
    read_cold: float
    append_synced: float
    """Seconds for 4 KiB appended and fsynced."""
    load: float
    """Processes that wanted to run, over the last minute."""

    @staticmethod
    def measure(settings: Settings) -> Anchors:
        """A few seconds: 256 MiB through memcpy and through a file, 200 synced appends."""
        size = (8 if settings.quick else 256) * MIB
        load = os.getloadavg()[0]
        source, target = touched((size,), "u1"), touched((size,), "u1")
        path = settings.folder / "anchor"
        rounds = settings.rounds(5)

        def write(sync: bool) -> Cost:
            discard(path)
            cost = measured(lambda: raw.write_file(path, [source], sync=sync))
            settle([path], forget=False)
            return cost

        def read(cold: bool) -> Cost:
            if cold:
                make_cold(path, settings)
            else:
                raw.read_file(path, [target])
            return measured(lambda: raw.read_file(path, [target]))

        found = alternate(
            {
                "copy": lambda: measured(lambda: np.copyto(target, source)),
                "write": lambda: write(False),
                "write synced": lambda: write(True),
                "read warm": lambda: read(False),
                "read cold": lambda: read(True),
            },
            rounds,
        )
        path.unlink()
        block = source[:4096]
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        appends = []
        for _ in range(20 if settings.quick else 200):
            begin = time.perf_counter()
            raw.write_all(descriptor, block)
            os.fsync(descriptor)
            appends.append(time.perf_counter() - begin)
        os.close(descriptor)
        path.unlink()
        rates = [size / found[name].seconds for name in found]
        return Anchors(*rates, append_synced=median(appends), load=load)
