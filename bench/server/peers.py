"""Compares reads of the same boxes from Drystone's server, HSDS with h5pyd, and xpublish.

    python3 -m venv build/server && build/server/bin/pip install -r bench/server/requirements.txt
    PYTHONPATH=python build/server/bin/python bench/server/peers.py [--quick] [--document]

The bar: 10 times as fast as HSDS with h5pyd and as xpublish. The extension must be built (`make setup`).

One float32 variable of random values, which no engine compresses, lies in each server, on loopback, without TLS:

- Drystone: `drystone serve`, one block as one write leaves it, and the same in chunks;
- HSDS: one service node and two data nodes, POSIX storage, caches that hold the variable, read by h5pyd;
- xpublish with xpublish-zarr: uvicorn with two workers, uvloop and httptools; chunks lie in memory as they are sent;
  read by Zarr-Python over obstore, its faster HTTP store.

Each engine has the variable in two layouts. A round asks every engine for the same box, in another order each
round, and the next round for a box elsewhere. Nothing is cold. Processor time is that of client and server together;
on a busy machine it is more reliable than time. Relays count bytes, requests and round trips in a separate pass, whose
times do not count. Values are compared with NumPy's outside the clock. A peer's failure stands in its column.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import sys
import tempfile
import textwrap
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "tests" / "python"))
from peer_servers import Array, Drystone, Hsds, Read, Xpublish  # noqa: E402
from server_rig import Proxy  # noqa: E402

DOCUMENT = ROOT / "docs" / "benchmarks" / "server.md"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
OURS, PEERS = "Drystone", ("HSDS", "xpublish")
BAR = 10
DELAY = 0.1
"""Seconds by which the relay delays replies: requests that are sent together then count as one round trip."""


def selections(edge: int, turn: int) -> dict[str, Any]:
    """What is asked for in a round: the same for all engines, elsewhere in each round."""
    noise = np.random.default_rng(turn)
    side = edge // 4
    corner = [int(n) for n in noise.integers(0, edge - side, 3)]
    at = int(noise.integers(0, edge))
    points = np.unique(noise.integers(0, edge, (100, 3)), axis=0)
    every = slice(None)
    return {
        "the whole variable": (every, every, every),
        f"a box of {side}^3": tuple(slice(n, n + side) for n in corner),
        "a plane, first axis": (at, every, every),
        "a plane, second axis": (every, at, every),
        "a plane, third axis": (every, every, at),
        "every eighth plane": (slice(turn % 8, None, 8), every, every),
        "100 points": points,
    }


def expected(values: Array, selection: Any) -> Array:
    """The values by NumPy."""
    return values[selection] if isinstance(selection, tuple) else values[tuple(selection.T)]


def processor_seconds(pids: list[int]) -> float:
    """Processor time of this process and others, all threads."""
    # The kernel's clock of another process: its number inverted, shifted past three bits that select the clock.
    return time.process_time() + sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


@dataclass
class Cell:
    """The figures of one engine for one box."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """Seconds of client and server together."""
    moved: int = 0
    requests: int = 0
    rounds: int = 0
    failure: str | None = None

    def medians(self) -> tuple[float, float] | None:
        """Time and processor time, unless it failed."""
        if self.failure is not None or not self.seconds:
            return None
        return median(self.seconds), median(self.processor)

    def times(self) -> str:
        """Both medians, or the failure."""
        found = self.medians()
        if found is None:
            return self.failure or "-"
        return " / ".join(f"{one * 1e3:.{0 if one >= 0.1 else 1}f}" for one in found)

    def counts(self, wanted: int) -> str:
        """Requests, round trips, and bytes moved over bytes wanted."""
        if self.failure is not None:
            return "-"
        ratio = self.moved / wanted
        return f"{self.requests} in {self.rounds}, {ratio:.{3 if ratio < 100 else 0}f} x"


def reason(error: BaseException) -> str:
    """An error in a cell of a table."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).replace("|", "/")
    return text if len(text) <= 120 else f"{text[:117]}..."


Table = dict[str, dict[str, Cell]]
"""Cells by box and column."""


class Bench:
    """All servers, their readers, and what they took."""

    def __init__(self, folder: Path, edge: int) -> None:
        self.folder, self.edge = folder, edge
        self.values = np.random.default_rng(3).random((edge, edge, edge), "f4")
        np.save(folder / "values.npy", self.values)
        self.missing: dict[str, str] = {}
        self._servers: dict[str, Any] = {}  # by column
        self._started: list[Any] = []
        for name, kind in ((OURS, Drystone), ("HSDS", Hsds), ("xpublish", Xpublish)):
            try:
                server: Any = kind(folder, edge)
            except Exception as error:
                self.missing[name] = reason(error)
                continue
            self._started.append(server)
            self._servers |= dict.fromkeys(server.columns, server)
        self.columns = list(self._servers)
        self.table: Table = {
            name: {column: Cell() for column in self.columns} for name in selections(edge, 0)
        }

    def close(self) -> None:
        """Ends the servers."""
        for server in self._started:
            server.close()

    def _ask(self, name: str, column: str, read: Read, turn: int) -> tuple[float, float]:
        """Reads a box once and compares it; a failure stays in its cell. Returns time and processor time."""
        cell, selection = self.table[name][column], selections(self.edge, turn)[name]
        pids = self._servers[column].pids
        try:
            used, began = processor_seconds(pids), time.perf_counter()
            found = read(selection)
            seconds = time.perf_counter() - began
            used = processor_seconds(pids) - used
        except Exception as error:
            cell.failure = cell.failure or reason(error)
            return 0.0, 0.0
        if not np.array_equal(found, expected(self.values, selection)):
            cell.failure = cell.failure or "wrong values"
        return seconds, used

    def _readers(self, ports: dict[str, int]) -> dict[str, Read]:
        """A reader for each column; one that cannot be made fails in all boxes."""
        readers = {}
        for column, port in ports.items():
            try:
                readers[column] = self._servers[column].open(column, port)
            except Exception as error:
                for row in self.table.values():
                    row[column].failure = reason(error)
        return readers

    def time(self, rounds: int) -> None:
        """Times of all boxes; the first round warms up and is left out."""
        readers = self._readers({column: self._servers[column].port for column in self.columns})
        for turn in range(rounds + 1):
            first = turn % len(self.columns)
            for name, row in self.table.items():
                for column in self.columns[first:] + self.columns[:first]:
                    if column in readers and row[column].failure is None:
                        seconds, used = self._ask(name, column, readers[column], turn)
                        if turn:
                            row[column].seconds.append(seconds)
                            row[column].processor.append(used)
            print(f"  round {turn} of {rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)

    def count(self) -> None:
        """Bytes, requests and round trips of all boxes through relays, after one read of each box elsewhere.

        Only the relay for round trips delays replies, since an engine may read otherwise on a link with a delay.
        """
        for column in self.columns:
            for delay in (0.0, DELAY):
                proxy = Proxy(self._servers[column].port, delay=delay)
                for read in self._readers({column: proxy.port}).values():
                    for name, row in self.table.items():
                        self._ask(name, column, read, 1001)
                        moved, requests, rounds = proxy.bytes, proxy.requests, proxy.rounds
                        self._ask(name, column, read, 1002)
                        if delay:
                            row[column].rounds = proxy.rounds - rounds
                        else:
                            row[column].moved = proxy.bytes - moved
                            row[column].requests = proxy.requests - requests
                proxy.close()

    def ours(self) -> list[str]:
        """Drystone's columns."""
        return [column for column in self.columns if column.startswith(OURS)]

    def ratios(self, name: str, peer: str, own: str) -> tuple[float, float] | None:
        """Time and processor time of a peer over those of a column of ours, each in the peer's better layout."""
        row = self.table[name]
        ours = row[own].medians()
        theirs = [cell.medians() for column, cell in row.items() if column.startswith(peer)]
        found = [one for one in theirs if one is not None]
        if ours is None or not found:
            return None
        return min(one[0] for one in found) / ours[0], min(one[1] for one in found) / ours[1]

    def verdict(self, peer: str, own: str) -> str:
        """Whether the bar holds, and where a peer is faster."""
        ratios = {name: found for name in self.table if (found := self.ratios(name, peer, own)) is not None}
        if not ratios:
            return f"- {peer} gave no figures: {self.missing.get(peer, 'see its columns')}."
        held = sum(ratio >= BAR for ratio, _ in ratios.values())
        low, high = (of(ratios, key=lambda name: ratios[name][0]) for of in (min, max))
        faster = [name for name, (ratio, _) in ratios.items() if ratio < 1]
        less = [name for name, (_, ratio) in ratios.items() if ratio < 1]
        _, _, chunks = own.partition(", ")
        layout = f"{OURS} in chunks of {chunks}" if chunks else f"{OURS} in one block"
        return (
            f"- {layout} is {ratios[low][0]:.2g} times ({low}) to {ratios[high][0]:.2g} times ({high}) as fast as "
            f"{peer}. "
            f"The bar of {BAR} holds for {held} of {len(ratios)} boxes. "
            + (f"**{peer} is faster** for {', '.join(faster)}." if faster else f"{peer} is faster for none.")
            + (f" {peer} takes less processor time for {', '.join(less)}." if less else "")
        )

    def markdown(self) -> str:
        """Tables of times, of ratios and of counts, and what they say."""
        pairs = [(peer, own) for peer in PEERS for own in self.ours()]
        times = [["box", "KiB", *self.columns]]
        ratios = [["box", *(f"{peer} over {own}" for peer, own in pairs)]]
        counts = [["box", *self.columns]]
        for name, row in self.table.items():
            wanted = expected(self.values, selections(self.edge, 1002)[name]).nbytes
            size = f"{wanted / 1024:.{0 if wanted >= 1024 else 1}f}"
            times.append([name, size, *(row[column].times() for column in self.columns)])
            found = [self.ratios(name, *pair) for pair in pairs]
            ratios.append([name, *("-" if one is None else f"{one[0]:.2g} / {one[1]:.2g}" for one in found)])
            counts.append([name, *(row[column].counts(wanted) for column in self.columns)])
        return "\n\n".join(
            [
                "Milliseconds, and milliseconds of processor time of client and server:",
                lines(times),
                "Both figures of a peer, in its better layout, over those of Drystone:",
                lines(ratios),
                "Requests in round trips, and bytes moved over bytes wanted:",
                lines(counts),
                *[f"{name} did not start: {text}" for name, text in self.missing.items()],
                "\n".join(textwrap.fill(self.verdict(*pair), 120, subsequent_indent="  ") for pair in pairs),
            ]
        )


def lines(rows: list[list[str]]) -> str:
    """Rows as a table of Markdown."""
    rule = ["---"] * len(rows[0])
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])


def main() -> None:
    """Measures, prints, and writes the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a smaller variable, fewer rounds")
    parser.add_argument("--document", action="store_true", help=f"write the table to {DOCUMENT.name}")
    parser.add_argument("--build", default="not said", help="how the library was built")
    options = parser.parse_args()
    edge, rounds = (128, 2) if options.quick else (256, 21)
    warnings.simplefilter("ignore")
    logging.getLogger("h5pyd").setLevel(logging.ERROR)
    loads = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), edge)
        try:
            bench.time(rounds)
            loads.append(os.getloadavg()[0])
            bench.count()
        finally:
            bench.close()
    head = (
        f"{platform.machine()}, {os.cpu_count()} processors, shared by client, servers and other work: load "
        f"{loads[0]:.1f} before, {loads[1]:.1f} after; build: {options.build}; variable of {edge}^3 `f4`; medians of "
        f"{rounds} rounds."
    )
    page = f"{textwrap.fill(head, 120)}\n\n{bench.markdown()}"
    print(page)
    if options.document:
        before, rest = DOCUMENT.read_text().split(BEGIN, 1)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{page}\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main()
