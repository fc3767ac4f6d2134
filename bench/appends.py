"""What does a small durable append cost? 2,000 appends of 4 KiB, each on stable storage before the next begins.

The bar: the syncs asked for. A raw append is a write and one fsync, to a file whose reader must know what it holds.
What Drystone syncs more is counted below by strace, in runs of their own: nothing else here is slowed by it.

*Committed each*: a step, visible to every reader and durable when it is left. *Committed at the end*: a step of a
writer without ranks is durable when it is left, and all become visible by one commit, which is timed with them. h5py: a
dataset grows, is flushed and synced, each time.

The engines append 400 each in turn, five times, into what they hold open.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import drystone as dry
import h5py
import numpy as np
import raw
from checkpoint import VARIABLES
from measure import CHECKED, Cost, Settings, alternate, discard, measured, size_of
from report import Listing, Table

CELLS = 512
ENGINES = ("raw", "drystone, committed each", "drystone, committed at the end", "h5py")
SYNCS = ("fsync", "fdatasync", "sync_file_range", "openat", "rename", "renameat2", "link", "linkat", "unlink")


class Appender:
    """An engine with something open to append to."""

    def __init__(self, engine: str, folder: Path, variables: list[str], shape: tuple[int, ...]) -> None:
        self.engine, self.path, self.names = engine, folder / engine, variables
        self.shape = shape
        if engine == "raw":
            self.raw = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        elif engine == "h5py":
            self.h5 = h5py.File(self.path, "w", libver="latest")
            # Chunks of 64 appends would be rewritten by each sync; contiguous data cannot grow.
            self.datasets = [
                self.h5.create_dataset(name, (0, *shape), "f8", maxshape=(None, *shape), chunks=(1, *shape))
                for name in variables
            ]
        else:
            self.container = dry.create(self.path, "durable")
            with self.container.batch():
                for name in variables:
                    self.container.create_variable(name, "f8", shape, steps=True)
            each = engine == "drystone, committed each"
            self.writer = self.container.writer(rank=0, nranks=1) if each else self.container.writer()

    def append(self, first: int, blocks: raw.Array) -> None:
        """Append blocks, one by one; each of them to every variable."""
        for number, block in enumerate(blocks, first):
            if self.engine == "raw":
                for _ in self.names:
                    raw.write_all(self.raw, block)
                os.fsync(self.raw)
            elif self.engine == "h5py":
                for dataset in self.datasets:
                    dataset.resize(number + 1, 0)
                    dataset[number] = block
                self.h5.flush()
                os.fsync(self.h5.id.get_vfd_handle())
            else:
                with self.writer.step(number):
                    for name in self.names:
                        self.writer.put(name, block)
        if self.engine == "drystone, committed at the end":
            self.container.commit()

    def close(self) -> None:
        """Close."""
        if self.engine == "raw":
            os.close(self.raw)
        elif self.engine == "h5py":
            self.h5.close()
        else:
            self.writer.close()
            self.container.close()

    def stored(self) -> raw.Array:
        """Everything that was appended to the first variable, read from what lies on disk."""
        if self.engine == "raw":
            return np.fromfile(self.path, "f8").reshape(-1, len(self.names), *self.shape)[:, 0]
        if self.engine == "h5py":
            with h5py.File(self.path, "r") as file:
                return np.asarray(file[self.names[0]])
        with dry.open(self.path) as container:
            return np.asarray(container[self.names[0]][...])


def run(settings: Settings) -> list[Table | Listing]:
    """Times, and what was asked of the system."""
    folder = settings.folder / "appends"
    folder.mkdir(parents=True)
    batch = 10 if settings.quick else 400
    rounds = settings.rounds(5)
    values = np.random.default_rng(1).random((batch * rounds, CELLS))
    appenders = {engine: Appender(engine, folder, ["t"], (CELLS,)) for engine in ENGINES}
    done = dict.fromkeys(ENGINES, 0)
    settings.say(f"{batch * rounds:,} durable appends")

    def act(engine: str) -> Cost:
        first = done[engine]
        done[engine] += batch
        return measured(lambda: appenders[engine].append(first, values[first : first + batch]))

    found = alternate({engine: partial(act, engine) for engine in ENGINES}, rounds, warm_up=False)
    case = f"{batch} appends of 4 KiB"
    table = Table(f"{batch * rounds:,} durable appends of 4 KiB", baseline="raw")
    table.add(case, found, bytes_each=batch * CELLS * 8, writes=True)
    table.stored_means = f"stored by {batch}"
    for engine, appender in appenders.items():
        appender.close()
        CHECKED.same(engine, appender.stored(), values)
        table.stored(case, engine, size_of(appender.path) / rounds)
    discard(folder)
    return [table, *_syncs(settings)]


def _syncs(settings: Settings) -> list[Listing]:
    """What an append and a checkpoint ask of the system, where strace is there to count it."""
    listing = Listing(
        "System calls that wait for the device or make files, per durable append or checkpoint",
        ["", "engine", "fsync", "fdatasync", "sync_file_range", "open", "rename, link, unlink"],
        remarks=[
            "Counted by strace: what 11 do, less what 1 does, by 10. The checkpoint is 8 variables of 256 KiB."
        ],
    )
    if shutil.which("strace") is None:
        listing.remarks = ["strace is not installed: not counted."]
        return [listing]
    for case in ("append",) if settings.quick else ("append", "checkpoint"):
        for engine in ENGINES:
            settings.say(f"syncs of a durable {case}: {engine}")
            few, many = (_counted(settings.folder, case, engine, count) for count in (1, 11))
            if few is None or many is None:
                listing.remarks = ["strace could not count here."]
                return [listing]
            each = {name: (many.get(name, 0) - few.get(name, 0)) / 10 for name in SYNCS}
            moved = sum(each[name] for name in SYNCS[4:])
            shown = [*(each[name] for name in SYNCS[:4]), moved]
            listing.rows.append([case, engine, *(f"{count:g}" for count in shown)])
    return [listing]


def _counted(folder: Path, case: str, engine: str, count: int) -> dict[str, int] | None:
    work = folder / "syncs"
    work.mkdir()
    summary = folder / "strace"
    command = ["strace", "-f", "-c", "-o", str(summary), "-e", f"trace={','.join(SYNCS)}"]
    command += [sys.executable, __file__, case, engine, str(count), str(work)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    discard(work)
    if ran.returncode != 0:
        return None
    counts = {}
    for line in summary.read_text().splitlines():
        words = line.split()
        if words and words[-1] in SYNCS:
            counts[words[-1]] = int(words[3])
    return counts


def _for_strace() -> None:
    """`appends.py CASE ENGINE COUNT FOLDER`: so many appends or checkpoints, and nothing else."""
    case, engine, count, folder = sys.argv[1:]
    names, shape = (["t"], (CELLS,)) if case == "append" else (VARIABLES, (32, 32, 32))
    appender = Appender(engine, Path(folder), names, shape)
    appender.append(0, np.ones((int(count), *shape)))
    appender.close()


if __name__ == "__main__":
    _for_strace()
