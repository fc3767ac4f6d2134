"""Tables of figures, for people (Markdown) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from measure import Anchors, Figure


@dataclass
class Row:
    """One engine in one case."""

    case: str
    engine: str
    figure: Figure
    ratio: float | None
    """How many times as long as the baseline; None for a case without one."""
    bytes_each: int
    writes: bool
    stored: float | None = None
    note: str = ""


@dataclass
class Table:
    """Cases of one question."""

    title: str
    baseline: str
    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    stored_means: str = "stored"
    """What the column of stored bytes shows."""

    def add(
        self, case: str, found: Mapping[str, Figure], *, bytes_each: int, writes: bool, note: str = ""
    ) -> None:
        """The engines' figures of one case, which moves `bytes_each` bytes of values."""
        base = found.get(self.baseline)
        for engine, figure in found.items():
            ratio = figure.times(base) if base is not None else None
            self.rows.append(Row(case, engine, figure, ratio, bytes_each, writes, None, note))

    def stored(self, case: str, engine: str, count: float) -> None:
        """What an engine stored for a case."""
        for row in self.rows:
            if (row.case, row.engine) == (case, engine):
                row.stored = count

    def markdown(self) -> str:
        """With a line per engine and case."""
        head = ["", "", "time", f"x {self.baseline}", "values/s", "calls", "bytes", "device"]
        with_stored = any(row.stored is not None for row in self.rows)
        if with_stored:
            head.append(self.stored_means)
        lines = [f"### {self.title}", "", _line(head), _line(["---", "---"] + ["---:"] * (len(head) - 2))]
        last = None
        for row in self.rows:
            cost = row.figure.typical
            calls, moved = (
                (cost.write_calls, cost.written_bytes) if row.writes else (cost.read_calls, cost.read_bytes)
            )
            device = cost.device_written if row.writes else cost.device_read
            cells = [
                row.case if row.case != last else "",
                row.engine,
                duration(row.figure.seconds),
                f"{row.ratio:.2f}" if row.ratio is not None else "",
                f"{size(row.bytes_each / row.figure.seconds)}/s" if row.bytes_each else "",
                f"{calls:,.0f}",
                f"{moved:,.0f}",
                size(device),
            ]
            if with_stored:
                cells.append(f"{row.stored:,.0f}" if row.stored is not None else "")
            lines.append(_line(cells))
            last = row.case
        return "\n".join([*lines, "", *(remark + "\n" for remark in self.remarks)])

    def values(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        rows = []
        for row in self.rows:
            told = asdict(row)
            told["seconds"] = row.figure.seconds
            rows.append(told)
        return {"title": self.title, "baseline": self.baseline, "rows": rows, "remarks": self.remarks}


@dataclass
class Listing:
    """A plain table, where what is told is not a time of engines in turn."""

    title: str
    head: list[str]
    rows: list[list[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """As Markdown."""
        alignment = ["---"] + ["---:"] * (len(self.head) - 1)
        lines = [f"### {self.title}", "", *(_line(cells) for cells in (self.head, alignment, *self.rows)), ""]
        return "\n".join([*lines, *(remark + "\n" for remark in self.remarks)])

    def values(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def anchors_table(measured: Mapping[str, Anchors]) -> Listing:
    """The machine's limits, each time they were measured."""
    head = ["limit", *measured]
    rows = [
        ["memcpy of 256 MiB", *(f"{size(a.copy)}/s" for a in measured.values())],
        ["write 256 MiB, no sync", *(f"{size(a.write)}/s" for a in measured.values())],
        ["write 256 MiB and fsync", *(f"{size(a.write_synced)}/s" for a in measured.values())],
        ["read 256 MiB, warm", *(f"{size(a.read_warm)}/s" for a in measured.values())],
        ["read 256 MiB, cold", *(f"{size(a.read_cold)}/s" for a in measured.values())],
        ["append 4 KiB and fsync", *(duration(a.append_synced) for a in measured.values())],
        ["load (1 minute)", *(f"{a.load:.2f}" for a in measured.values())],
    ]
    return Listing("Limits of the machine", head, rows)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def size(count: float) -> str:
    """Bytes for people: three digits."""
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def duration(seconds: float) -> str:
    """A time for people: three digits."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
