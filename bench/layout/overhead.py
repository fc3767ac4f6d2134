"""What cutting blocks costs those who write: the same blocks cut by the model and left whole, in turn.

Timed is from the first process that begins to the commit; with `durable` what is committed is on the disk by then.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import drystone as dry
import numpy as np
from measure import Cost, Settings, alternate, discard, settle
from team import Team

LAYOUTS = ("log", "model")
CASES = ((1, "async"), (8, "async"), (1, "durable"), (8, "durable"))


class Member:
    """One of the processes, with its share of eight blocks."""

    def __init__(self, rank: int, count: int, folder: Path, edge: int) -> None:
        half = edge // 2
        self.blocks = [[(n >> shift & 1) * half for shift in (2, 1, 0)] for n in range(rank, 8, count)]
        rng = np.random.default_rng(rank)
        self.data = rng.random((half,) * 3, dtype=np.float32)
        self.folder, self.rank, self.count = folder, rank, count

    def open(self, layout: str) -> None:
        """Be ready to write."""
        self.container = dry.open(self.folder / layout, "r+")
        self.writer = self.container.writer(rank=self.rank, nranks=self.count, layout=layout)  # type: ignore[arg-type]

    def write(self) -> None:
        """Write the blocks."""
        with self.writer.step(0):
            for offset in self.blocks:
                self.writer.put("t", self.data, offset=offset)

    def check(self) -> None:
        """Compare what is stored with what was written."""
        with dry.open(self.container.path) as stored:
            for offset in self.blocks:
                found = stored["t"].read(0, offset, self.data.shape)
                if not np.array_equal(found, self.data):
                    raise ValueError(f"block at {offset}: not what was written")

    def close(self) -> None:
        """End the run."""
        self.writer.close()
        self.container.close()


def overhead(settings: Settings, edge: int) -> str:
    """The lines of the page."""
    lines = [
        "| written by | cut / whole, time | cut, GB/s | whole, GB/s |",
        "|---|---|---|---|",
    ]
    for count, durability in CASES:
        settings.say(f"cut and whole: {count} processes, {durability}")
        lines.append(_case(settings, edge, count, durability))
    return "\n".join(lines)


def _case(settings: Settings, edge: int, count: int, durability: str) -> str:
    folder = settings.folder / "overhead"
    with Team(count, Member, folder, edge) as team:

        def write(layout: str) -> Cost:
            discard(folder)
            folder.mkdir()
            with dry.create(folder / layout, durability) as c:  # type: ignore[arg-type]
                c.create_variable("t", "f4", (edge,) * 3, steps=True)
                team.call("open", layout)
                cost = team.timed("write", after=c.commit if count > 1 else None)
                team.call("check")
                team.call("close")
            settle([folder], forget=True)
            return cost

        figures = alternate({name: partial(write, name) for name in LAYOUTS}, settings.rounds(9))
    discard(folder)
    ratio = figures["model"].times(figures["log"])
    cut, whole = (edge**3 * 4 / figures[name].seconds / 1e9 for name in ("model", "log"))
    who = "1 process" if count == 1 else f"{count} processes"
    return f"| {who}, {durability} | {ratio:.2f} | {cut:.2f} | {whole:.2f} |"
