"""Processes that act together: spawned, started by a barrier, each timed and counted by itself."""

from __future__ import annotations

import multiprocessing as mp
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

from measure import Cost, Meter


class Team:
    """`count` processes, each holding a `member(rank, count, *details)`, whose methods they call together."""

    def __init__(self, count: int, member: Callable[..., object], *details: object) -> None:
        context = mp.get_context("spawn")
        self._barrier = context.Barrier(count)
        self._ends: list[Connection] = []
        self._processes = []
        for rank in range(count):
            mine, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, self._barrier, member, rank, count, details), daemon=True
            )
            process.start()
            theirs.close()
            self._ends.append(mine)
            self._processes.append(process)
        self._answers()

    def call(self, method: str, *arguments: object) -> list[Any]:
        """Let every member do something; what each returned."""
        self._ask("call", method, arguments)
        return self._answers()

    def timed(self, method: str, *arguments: object, after: Callable[[], object] | None = None) -> Cost:
        """Let all begin at once: the cost of all, from the first that begins to the last that is done.

        `after` is what one process does when all are done (a commit); it counts.
        """
        self._ask("timed", method, arguments)
        meters: list[Meter] = self._answers()
        total = sum((meter.cost for meter in meters), Cost())
        begin, end = min(meter.begin for meter in meters), max(meter.end for meter in meters)
        if after is not None:
            with Meter() as last:
                after()
            total, end = total + last.cost, last.end
        return total.within(end - begin)

    def close(self) -> None:
        """Let them go."""
        for end in self._ends:
            with suppress(OSError):
                end.send(None)
        for process in self._processes:
            process.join(timeout=30)

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, *what: object) -> None:
        for end in self._ends:
            end.send(what)

    def _answers(self) -> list[Any]:
        answers = [end.recv() for end in self._ends]
        failures = [(rank, value) for rank, (good, value) in enumerate(answers) if not good]
        if failures:
            # Those that waited for the one that failed say so; the one that failed says why.
            rank, reason = next((f for f in failures if "BrokenBarrierError" not in f[1]), failures[0])
            raise RuntimeError(f"process {rank} failed:\n{reason}")
        return [value for _, value in answers]


def _serve(
    end: Connection, barrier: Barrier, make: Callable[..., object], rank: int, count: int, details: Any
) -> None:
    try:
        member = make(rank, count, *details)
        end.send((True, None))
        while (what := end.recv()) is not None:
            kind, method, arguments = what
            act = getattr(member, method)
            if kind == "call":
                end.send((True, act(*arguments)))
                continue
            barrier.wait()
            with Meter() as meter:
                act(*arguments)
            end.send((True, meter))
    except (EOFError, KeyboardInterrupt):
        pass
    except BaseException:
        barrier.abort()
        end.send((False, traceback.format_exc()))


def alone(act: Callable[..., Any], *arguments: object) -> Any:
    """What `act` returns in a process of its own."""
    with Team(1, _Alone) as team:
        return team.call("run", act, arguments)[0]


class _Alone:
    def __init__(self, rank: int, count: int) -> None:
        pass

    def run(self, act: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return act(*arguments)
