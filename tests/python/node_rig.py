"""Nodes with tiers: processes on them write steps, and are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import drystone as dry
import numpy as np

CELLS = 4096
PROLOGUE = """
import os, sys, time
import numpy as np
import drystone as dry
home, tier = sys.argv[1:3]
def data(step):
    return np.arange(4096, dtype="f4") + step
def write(c, *steps, level=None):
    with c.writer(rank=0, nranks=1) as w:
        for step in steps:
            with w.step(step, level=level):
                w.put("T", data(step))
"""


def data(step: int) -> np.ndarray:
    return np.arange(CELLS, dtype="f4") + step


def write(c: dry.Container, *steps: int, level: str | None = None) -> None:
    with c.writer(rank=0, nranks=1) as w:
        for step in steps:
            with w.step(step, level=level):
                w.put("T", data(step))


def check(c: dry.Container, *steps: int) -> None:
    assert c.steps == list(steps)
    for step in steps:
        assert np.array_equal(c["T"][step], data(step)), f"step {step}"


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


def run(program: str, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program in another process."""
    text = PROLOGUE + textwrap.dedent(program)
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, timeout=120, check=False
    )


def ran(program: str, *arguments: object, **more: str) -> str:
    done = run(program, *arguments, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


DIES = """
c = dry.open(home, "r+", tiers=[tier]) if os.path.exists(home + "/drystone.json") else dry.create(home, tiers=[tier])
if "T" not in c:
    c.create_variable("T", dtype="f4", shape=(4096,), steps=True)
write(c, *map(int, sys.argv[3:]))
os.kill(os.getpid(), 9)
"""


def leave(home: Path, tier: Path, *steps: int, node: str = "a") -> None:
    """A process on a node writes steps to its tier, and is killed before any drain."""
    done = run(DIES, home, tier, *steps, DRYSTONE_NODE=node, DRYSTONE_DRAIN="hold")
    assert done.returncode == -signal.SIGKILL, done.stderr


def parts(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.seg"))


def shell(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drystone", *map(str, words)]
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, timeout=120, check=False
    )
