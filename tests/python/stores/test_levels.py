"""Levels: the safety of a step, and waiting for it."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Literal

import drystone as dry
import numpy as np
import pytest

DATA = np.arange(16, dtype="f4")


def made(path: Path, durability: Literal["async", "durable"] = "async") -> dry.Container:
    c = dry.create(path, durability=durability)
    c.create_variable("T", dtype="f4", shape=(16,), steps=True)
    return c


def write(c: dry.Container, steps: int, level: str | None = None) -> None:
    with c.writer(rank=0, nranks=1) as w:
        for _ in range(steps):
            with w.step(level=level):
                w.put("T", DATA)


def test_steps_are_home_until_they_are_flushed(tmp_path: Path) -> None:
    c = made(tmp_path / "a.dry")
    assert c.levels() == {}
    write(c, 2)
    assert c.levels() == {0: "home", 1: "home"}
    c.flush()
    assert c.levels() == {0: "stable", 1: "stable"}
    write(c, 1)
    assert c.levels() == {0: "stable", 1: "stable", 2: "home"}
    with c.writer(rank=0, nranks=1) as w, w.step(0):
        w.put("T", DATA + 1)
    assert c.levels() == {0: "home", 1: "stable", 2: "home"}, "what was written again is not flushed"


def test_a_durable_container_has_stable_steps(tmp_path: Path) -> None:
    c = made(tmp_path / "a.dry", "durable")
    write(c, 2)
    assert c.levels() == {0: "stable", 1: "stable"}
    c.wait(1, "stable", timeout=0)


@pytest.mark.parametrize("level", ["received", "node", "partner", "home", "stable"])
def test_a_step_has_its_level_when_it_is_left(tmp_path: Path, level: str) -> None:
    c = made(tmp_path / "a.dry")
    write(c, 1, level)
    assert c.levels()[0] == ("stable" if level == "stable" else "home")
    c.wait(0, level, timeout=0)


def test_writers_without_ranks_sync_what_others_commit(tmp_path: Path) -> None:
    c = made(tmp_path / "a.dry")
    with c.writer() as w, w.step(level="stable"):
        w.put("T", DATA)
    c.commit()
    assert c.levels() == {0: "home"}, "the manifest is not flushed yet"
    c.wait(0, "stable", timeout=0)
    assert c.levels() == {0: "stable"}


def test_a_wait_that_is_too_long_names_step_and_level(tmp_path: Path) -> None:
    c = made(tmp_path / "a.dry")
    write(c, 1)
    reader = dry.open(tmp_path / "a.dry")
    with pytest.raises(dry.DeadlineError, match=r'step 0 .* "stable".*"home"') as raised:
        reader.wait(0, "stable", timeout=0.01)
    assert isinstance(raised.value, TimeoutError)
    with pytest.raises(dry.DeadlineError, match=r"step 7 .*not committed"):
        reader.wait(7, timeout=0)
    assert reader.levels() == {0: "home"}, "asking changes nothing"


def test_a_reader_waits_for_another_process(tmp_path: Path) -> None:
    path = tmp_path / "a.dry"
    made(path).close()
    reader = dry.open(path)
    done: list[int] = []

    def wait() -> None:
        reader.wait(0, "stable", timeout=60)
        done.append(1)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.05)
    assert not done
    program = (
        "import sys, numpy as np, drystone as dry\n"
        "c = dry.open(sys.argv[1], mode='r+')\n"
        "with c.writer(rank=0, nranks=1) as w:\n"
        "    with w.step(level='stable'):\n"
        "        w.put('T', np.zeros(16, 'f4'))\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    waiting.join(60)
    assert done


def test_an_unknown_level_is_refused_before_the_step_begins(tmp_path: Path) -> None:
    c = made(tmp_path / "a.dry")
    with c.writer(rank=0, nranks=1) as w:
        with pytest.raises(dry.InvalidArgumentError, match='"received", "node", "partner", "home", "stable"'):
            w.step(level="safe")
        assert w.current_step is None
    with pytest.raises(dry.InvalidArgumentError, match="safe"):
        c.wait(0, "safe")
    with pytest.raises(dry.InvalidArgumentError, match="timeout"):
        c.wait(0, timeout=-1)
    c.close()
    with pytest.raises(dry.InvalidArgumentError, match="closed"):
        c.levels()
