"""`drystone top`: shows a running simulation: steps, rates, writers, and the ranks that a step waits for."""

from __future__ import annotations

import json as js
import sys
import time
from dataclasses import dataclass, field

from drystone.asked import opened
from drystone.commands.outcome import Outcome, shown
from drystone.container import Container
from drystone.counted import counted, size
from drystone.errors import InvalidArgumentError

_MOST = 10
"""The most writers and incomplete steps that are shown."""

_BACK, _CLEAR = "\x1b[H", "\x1b[2J\x1b[H"


@dataclass(frozen=True)
class Frame:
    """The state of a container at one moment."""

    at: float
    """Seconds of a monotonic clock."""
    snapshot: int
    steps: int
    last_step: int | None
    nbytes: int
    """Bytes of all files."""
    writers: dict[int, tuple[str, int]] = field(default_factory=dict)
    """State and log bytes of each writer, by number."""
    waits: str = ""
    incomplete: tuple[str, ...] = ()

    @classmethod
    def of(cls, c: Container, at: float) -> Frame:
        """The current state. Lists the store and reads the ends of logs."""
        c.refresh()
        found, steps = c.describe(), c.steps
        return cls(
            at,
            c.snapshot.version,
            len(steps),
            steps[-1] if steps else None,
            found.nbytes,
            {one.id: (one.state, one.nbytes) for one in found.writers},
            found.backlog,
            tuple(map(str, found.incomplete)),
        )

    def rates(self, before: Frame | None) -> tuple[float, float]:
        """Steps and bytes per second since another frame; 0 without one."""
        if before is None or self.at <= before.at:
            return 0.0, 0.0
        seconds = self.at - before.at
        return (self.steps - before.steps) / seconds, (self.nbytes - before.nbytes) / seconds


def text(name: str, now: Frame, before: Frame | None) -> str:
    """A frame for people."""
    steps, nbytes = now.rates(before)
    states = [state for state, _ in now.writers.values()]
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    last = "none" if now.last_step is None else str(now.last_step)
    lines = [
        f"{shown(name)}  snapshot {now.snapshot}",
        f"steps    {now.steps}, the last one {last}; {steps:.2f}/s",
        f"bytes    {size(now.nbytes)}; {size(max(0.0, nbytes))}/s",
        f"writers  {len(states)}" + (f" ({counts})" if counts else ""),
        f"waiting  {shown(now.waits)}",
    ]
    grown = _grown(now, before)
    if grown:
        lines.append("fastest writers")
        lines += [
            f"  {number:016x}  {now.writers[number][0]:7} {size(rate)}/s" for number, rate in grown[:_MOST]
        ]
        if len(grown) > _MOST:
            lines.append(f"  and {counted(len(grown) - _MOST, 'writer')} more")
    lines += [f"  {shown(one)}" for one in now.incomplete[:_MOST]]
    return "\n".join(lines)


def data(now: Frame, before: Frame | None) -> dict[str, object]:
    """A frame for programs."""
    steps, nbytes = now.rates(before)
    rates = {f"{number:016x}": rate for number, rate in _grown(now, before)}
    return {
        "snapshot": now.snapshot,
        "steps": now.steps,
        "last_step": now.last_step,
        "steps_per_second": steps,
        "bytes": now.nbytes,
        "bytes_per_second": nbytes,
        "writers": len(now.writers),
        "bytes_per_second_by_writer": rates,
        "incomplete": list(now.incomplete),
    }


def _grown(now: Frame, before: Frame | None) -> list[tuple[int, float]]:
    """Writers whose logs grew, with bytes per second, the fastest first."""
    if before is None or now.at <= before.at:
        return []
    seconds = now.at - before.at
    rates = {
        number: (nbytes - before.writers.get(number, ("", 0))[1]) / seconds
        for number, (_, nbytes) in now.writers.items()
    }
    return sorted(
        ((number, rate) for number, rate in rates.items() if rate > 0), key=lambda one: (-one[1], one[0])
    )


def run(*, container: str, at: int | None, damaged: bool, interval: float, once: bool, json: bool) -> Outcome:
    """Print frames at an interval; on a terminal until Ctrl-C."""
    if not 0.01 <= interval <= 86_400:
        raise InvalidArgumentError(f"--interval is 0.01 to 86400 seconds, not {interval:g}")
    if at is not None:
        raise InvalidArgumentError("--at is a snapshot, which does not change; drystone info shows it")
    with opened(container, None, damaged) as c:
        before = Frame.of(c, time.monotonic())
        live = not once and sys.stdout.isatty()
        if live and not json:
            print(_CLEAR, end="")
        while True:
            time.sleep(interval)
            now = Frame.of(c, time.monotonic())
            if not live:
                return Outcome(text(container, now, before), data(now, before))
            if json:
                print(js.dumps(data(now, before)), flush=True)
            else:
                lines = text(container, now, before).replace("\n", "\x1b[K\n")
                print(f"{_BACK}{lines}\x1b[K\x1b[J", flush=True)
            before = now
