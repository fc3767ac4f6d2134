"""What every question does: engines in turn, what one of them cannot do said in its place, costs into one table.

Invariants
- engines are compared within rounds, first in another order each round (`measure.alternate`);
- an engine that fails leaves its reason in the table and takes no part in later rounds of that case;
- values are compared outside the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines import Engine, available
from measure import Cost, Figure, Settings, discard
from report import duration, size
from team import Team

OURS = "drystone"
LIMIT = 0.95
"""A peer that takes less than this of our time is ahead: what lies between is noise."""


@dataclass
class Case:
    """One row: what each engine took."""

    name: str
    figures: dict[str, Figure]
    bytes_each: int
    writes: bool
    failures: dict[str, str] = field(default_factory=dict)
    stored: dict[str, float] = field(default_factory=dict)

    def ratio(self, engine: str) -> float | None:
        """How many times as long as Drystone: above 1 it is slower."""
        ours, theirs = self.figures.get(OURS), self.figures.get(engine)
        return theirs.times(ours) if ours and theirs else None


@dataclass
class Question:
    """A table of cases, engines side by side."""

    key: str
    title: str
    remarks: list[str] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    counts: bool = True
    """Whether calls and bytes are shown below the times."""

    def engines(self) -> list[str]:
        """Those of any case, in order."""
        return list(dict.fromkeys(name for case in self.cases for name in (*case.figures, *case.failures)))

    def markdown(self) -> str:
        """Times with ratios; below them, calls and bytes."""
        names = self.engines()
        lines = [f"### {self.title}", "", _line(["", *names]), _line(["---", *["---:"] * len(names)])]
        for case in self.cases:
            cells = []
            for name in names:
                if name in case.failures:
                    cells.append(case.failures[name])
                    continue
                if name not in case.figures:
                    cells.append("")
                    continue
                text, ratio = duration(case.figures[name].seconds), case.ratio(name)
                if name == OURS or ratio is None:
                    cells.append(text)
                else:
                    bold = "**" if ratio < LIMIT else ""
                    cells.append(f"{text} ({bold}{ratio:.2f}{bold})")
            lines.append(_line([case.name, *cells]))
        lines += ["", *(remark + "\n" for remark in self.remarks)]
        if self.counts:
            lines += ["<details><summary>Calls and bytes</summary>", "", _line(["", *names])]
            lines.append(_line(["---", *["---:"] * len(names)]))
            for case in self.cases:
                cells = [self._counted(case, name) for name in names]
                lines.append(_line([f"{case.name}: {size(case.bytes_each)} of values", *cells]))
            lines += ["", "</details>", ""]
        return "\n".join(lines)

    def _counted(self, case: Case, name: str) -> str:
        if name not in case.figures:
            return ""
        cost = case.figures[name].typical
        calls, moved = (
            (cost.write_calls, cost.written_bytes) if case.writes else (cost.read_calls, cost.read_bytes)
        )
        text = f"{calls:,.0f}; {size(moved)}"
        return f"{text}; stored {size(case.stored[name])}" if name in case.stored else text

    def values(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        cases = []
        for case in self.cases:
            rows = {
                name: {"seconds": f.seconds, "ratio": case.ratio(name), "costs": [vars(c) for c in f.costs]}
                for name, f in case.figures.items()
            }
            cases.append(
                {
                    "name": case.name,
                    "bytes": case.bytes_each,
                    "engines": rows,
                    "failures": case.failures,
                    "stored": case.stored,
                }
            )
        return {"key": self.key, "title": self.title, "cases": cases, "remarks": self.remarks}


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


class Bench:
    """What questions share: settings, engines, teams of processes that stay for the whole run."""

    def __init__(self, settings: Settings, only: list[str] | None = None) -> None:
        self.settings = settings
        found = available()
        self.engines: dict[str, Engine] = {n: e for n, e in found.items() if not only or n in only}
        self._teams: dict[int, Team] = {}

    def team(self, count: int) -> Team:
        """Processes that can be given any member: `team.call("start", Member, ...)`, then `do`."""
        if count not in self._teams:
            self._teams[count] = Team(count, Host)
        return self._teams[count]

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """A folder for a case, emptied afterwards."""
        folder = self.settings.folder / name
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            discard(folder)

    def alternate(
        self,
        name: str,
        acts: Mapping[str, Callable[[], Cost]],
        rounds: int,
        *,
        bytes_each: int,
        writes: bool,
        warm_up: bool = True,
    ) -> Case:
        """Let engines act in turn; who fails is left out, with the reason."""
        self.settings.say(name)
        failures: dict[str, str] = {}
        costs: dict[str, list[Cost]] = {engine: [] for engine in acts}
        total = self.settings.rounds(rounds)
        for turn in range(-1 if warm_up else 0, total):
            names = [n for n in acts if n not in failures]
            first = max(turn, 0) % max(1, len(names))
            for engine in names[first:] + names[:first]:
                try:
                    cost = acts[engine]()
                except Mistake:
                    raise
                except Exception as error:
                    failures[engine] = f"fails: {type(error).__name__}"
                    self.settings.say(f"{engine} in {name}: {str(error)[-1500:]}")
                    continue
                if turn >= 0:
                    costs[engine].append(cost)
        figures = {n: Figure(tuple(c)) for n, c in costs.items() if n not in failures}
        return Case(name, figures, bytes_each, writes, failures)

    def close(self) -> None:
        """Let the processes go."""
        for team in self._teams.values():
            team.close()
        self._teams.clear()


class Mistake(ValueError):
    """A wrong value: the run ends."""


class Host:
    """One process of a team, which can be given another member for each case."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count
        self.member: Any = None

    def start(self, make: Callable[..., Any], *arguments: object) -> None:
        """Take another member."""
        self.member = make(self.rank, self.count, *arguments)

    def do(self, method: str, *arguments: object) -> Any:
        """What a member's method returns."""
        return getattr(self.member, method)(*arguments)
