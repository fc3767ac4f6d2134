"""A whole run: one question after another beside the limits of the machine; figures as JSON, Markdown and plots."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import reasons
from measure import CHECKED, Anchors, Settings
from report import anchors_table
from rounds import Bench, Question

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "benchmarks" / "peers.md"
PLOTS = ROOT / "docs" / "benchmarks" / "peers"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def run(arguments: argparse.Namespace, names: Sequence[str]) -> int:
    """Measure, write, say."""
    begin = time.perf_counter()
    folder = arguments.out / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def say(text: str) -> None:
        print(f"  {time.perf_counter() - begin:6.1f} s  {text}", file=sys.stderr, flush=True)

    settings = Settings(folder, arguments.quick, False, say)
    bench = Bench(settings, ["drystone", *arguments.engine] if arguments.engine else None)
    tables: list[Any] = []
    took: dict[str, float] = {}
    try:
        say("limits of the machine")
        limits = {"before": Anchors.measure(settings)}
        for name in names:
            since = time.perf_counter()
            tables += importlib.import_module(f"questions.{name}").run(bench)
            took[name] = round(time.perf_counter() - since, 1)
            # A run that is cut short leaves what it had.
            (arguments.out / "so_far.md").write_text("\n".join(table.markdown() for table in tables))
        limits["after"] = Anchors.measure(settings)
    finally:
        bench.close()
        shutil.rmtree(folder, ignore_errors=True)
    questions = [table for table in tables if isinstance(table, Question)]
    head = _machine(arguments, bench, time.perf_counter() - begin)
    parts = [head, anchors_table(limits).markdown(), *(table.markdown() for table in tables)]
    ahead = reasons.where_ahead(questions)
    parts.insert(1, ahead.markdown())
    text = "\n".join(parts)
    (arguments.out / "figures.md").write_text(text)
    told = {
        "machine": head,
        "quick": arguments.quick,
        "seconds": took,
        "checked": {"values": CHECKED.values, **CHECKED.by_engine},
        "limits": {when: vars(a) for when, a in limits.items()},
        "tables": [table.values() for table in tables],
    }
    (arguments.out / "figures.json").write_text(json.dumps(told, indent=1))
    print(text)
    plots = PLOTS if arguments.document else arguments.out / "plots"
    drawn = _plots(questions, plots)
    if arguments.document:
        shown = "\n".join(f"![{title}](peers/{path.name})" for title, path in drawn)
        page = DOCUMENT.read_text()
        before, rest = page.split(BEGIN)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{shown}\n{END}{rest.split(END)[1]}")
    say(
        f"{CHECKED.values:,} values compared, all as written; {took}; figures in {arguments.out / 'figures.md'}"
    )
    return 0


def _machine(arguments: argparse.Namespace, bench: Bench, seconds: float) -> str:
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    versions = "; ".join(e.versions for e in bench.engines.values() if e.name != "raw")
    return "\n".join(
        [
            f"{time.strftime('%Y-%m-%d')}; {cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, "
            f"{int(memory[1]) / 2**20 if memory else 0:.0f} GiB memory; Linux {platform.release().split('-')[0]}.",
            f"{versions}; Python {platform.python_version()}.",
            f"{'A quick run, which measures nothing. ' if arguments.quick else ''}"
            f"{seconds / 60:.1f} minutes; {CHECKED.values:,} values compared with what was written.",
            "",
        ]
    )


def _plots(questions: list[Question], folder: Path) -> list[tuple[str, Path]]:
    """One picture per question: how many times as long as Drystone each engine takes, per case."""
    try:
        import matplotlib as mpl
    except ImportError:
        return []
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for question in questions:
        names = [name for name in question.engines() if name != "drystone"]
        if not question.cases or not names:
            continue
        figure, axes = plt.subplots(figsize=(8, 1 + 0.34 * len(question.cases)))
        for n, name in enumerate(names):
            points = [(c.ratio(name), len(question.cases) - i) for i, c in enumerate(question.cases)]
            shown = [(x, y) for x, y in points if x is not None]
            axes.scatter([x for x, _ in shown], [y for _, y in shown], s=18, label=name, color=f"C{n}",
                         marker="x" if name == "raw" else "o")  # fmt: skip
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        axes.set_yticks(range(len(question.cases), 0, -1), [c.name for c in question.cases], fontsize=7)
        axes.set_xlabel("times as long as Drystone (right of the line: slower)", fontsize=8)
        axes.grid(axis="x", alpha=0.3)
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        axes.set_title(question.title, fontsize=9)
        path = folder / f"{question.key}.png"
        figure.savefig(path, dpi=80, bbox_inches="tight", pil_kwargs={"optimize": True})
        plt.close(figure)
        drawn.append((question.title, path))
    return drawn
