"""Tiers: steps lie in a near folder first, and go home in the background; nothing is lost on the way, and nobody takes it for damage."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from far_rig import Rig

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
    """Runs a program as another process."""
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
    """A process on a node writes steps into its tier, and is killed before anything goes home."""
    done = run(DIES, home, tier, *steps, DRYSTONE_NODE=node, DRYSTONE_DRAIN="hold")
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DRYSTONE_NODE", "a")
    return "a"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "run.dry"


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return tmp_path / "near"


def parts(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.seg"))


def test_levels_climb(home: Path, tier: Path, node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRYSTONE_DRAIN", "hold")
    with dry.create(home, tiers=[tier]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        write(c, 0, 1)
        assert c.levels() == {0: "node", 1: "node"}
        assert len(parts(tier)) == 2
        assert not parts(home)
        assert [part.node for part in c.staged] == [node, node]
        check(c, 0, 1)
        (row,) = c.tiers
        assert row.undrained == row.nbytes > 2 * 4 * CELLS
        assert row.oldest == 0
        with pytest.raises(dry.DeadlineError):
            c.wait(0, "home", timeout=0)
        c.drain()
        assert c.levels() == {0: "stable", 1: "stable"}
        assert len(parts(home)) == 2
        assert not c.staged
        assert not list((home / "tiers").rglob("*.json"))
        write(c, 2, level="home")
        assert c.levels()[2] in ("home", "stable")
        write(c, 3, level="stable")
        assert c.levels()[3] == "stable"
        assert c.verify()
    check(dry.open(home), 0, 1, 2, 3)


def test_the_drain_goes_on_by_itself_and_close_ends_it(home: Path, tier: Path, node: str) -> None:
    with dry.create(home, tiers=[tier]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        write(c, 0)
        c.wait(0, "stable", timeout=60)
        with c.computing():
            write(c, *range(1, 20))
        check(c, *range(20))
    assert not parts(tier), "a closed container leaves nothing in its tiers"
    with dry.open(home) as c:
        check(c, *range(20))
        assert set(c.levels().values()) == {"stable"}
        assert c.verify()


def test_close_may_leave_the_drain_to_the_next(home: Path, tier: Path, node: str) -> None:
    c = dry.create(home, tiers=[tier])
    c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
    monkey = c.tiers
    assert monkey[0].undrained == 0
    write(c, 0)
    c.close(drain=False)
    with dry.open(home, "r+", tiers=[tier]) as c:
        check(c, 0)
        c.drain()
        assert c.levels() == {0: "stable"}


def test_a_container_without_tiers_says_that_it_has_none(home: Path, tier: Path) -> None:
    with dry.create(home) as c:
        assert c.tiers == ()
        assert c.staged == []
        c.drain()
    with pytest.raises(dry.UnsupportedError, match="tiers="):
        dry.open(home, "r+", tiers=[tier])
    with pytest.raises(dry.InvalidArgumentError, match="list of folders"):
        dry.open(home, "r+", tiers=str(tier))


def test_a_killed_writer_leaves_steps_that_the_node_reads_and_drains(
    home: Path, tier: Path, node: str
) -> None:
    leave(home, tier, 0, 1)
    assert len(parts(tier)) == 2
    assert not parts(home)
    with dry.open(home) as c:
        check(c, 0, 1)
        assert c.levels() == {0: "node", 1: "node"}
        report = c.verify()
        assert report
        assert list(report.away) == [node]
        assert "not home yet on a" in str(report)
    with dry.open(home, "r+", tiers=[tier]) as c:
        check(c, 0, 1)
        c.drain(timeout=60)
        assert c.levels() == {0: "stable", 1: "stable"}
        write(c, 2)
    shutil.rmtree(tier)
    with dry.open(home) as c:
        check(c, 0, 1, 2)
        assert c.verify()


def test_another_node_never_reads_fill_and_loses_nothing_that_it_commits_on(
    home: Path, tier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(home, tier, 0, 1)
    away = tmp_path / "elsewhere"
    tier.rename(away)
    monkeypatch.setenv("DRYSTONE_NODE", "b")
    with dry.open(home, "r+") as c:
        assert c.steps == [0, 1]
        with pytest.raises(dry.NotYetHome, match=r'step 0 .*node "a".*wait\(0, "home"\)') as raised:
            c["T"][0]
        assert raised.value.node == "a"
        assert raised.value.bytes_left > 8 * CELLS
        write(c, 2)
        assert np.array_equal(c["T"][2], data(2))
        assert c.levels() == {0: "node", 1: "node", 2: "home"}
        report = c.verify()
        assert report
        assert report.away["a"] == raised.value.bytes_left
        with pytest.raises(dry.NotYetHome, match='"a"'):
            c.flush()
        with pytest.raises(dry.NotYetHome, match=r'collecting garbage.*"a"'):
            c.gc(keep=1)
        c.gc(keep=1, dry_run=True)
        c.commit()
        report = c.recover()
        assert c.steps == [0, 1, 2]
        assert not any("lost" in note for note in report.notes)
        c.close()
    with dry.open(home, "r+", tiers=[tmp_path / "b"]) as c:
        write(c, 3)
        assert c.steps == [0, 1, 2, 3]
    away.rename(tier)
    monkeypatch.setenv("DRYSTONE_NODE", "a")
    with dry.open(home, "r+", tiers=[tier]) as c:
        check(c, 0, 1, 2, 3)
        c.drain()
        assert set(c.levels().values()) == {"stable"}
    monkeypatch.setenv("DRYSTONE_NODE", "b")
    with dry.open(home) as c:
        check(c, 0, 1, 2, 3)
        assert c.verify()
        assert not c.staged


def test_a_deleted_tier_is_named_and_only_recover_gives_its_steps_up(
    home: Path, tier: Path, node: str, tmp_path: Path
) -> None:
    leave(home, tier, 0)
    with dry.open(home, "r+", tiers=[tier]) as c:
        c.drain()
    leave(home, tier, 1, 2)
    shutil.rmtree(tier)
    with dry.open(home, "r+") as c:
        assert c.steps == [0, 1, 2]
        assert np.array_equal(c["T"][0], data(0))
        with pytest.raises(dry.NotYetHome, match=r'step 2 .*node "a".*recover\(\)'):
            c["T"][2]
        write(c, 3)
        assert c.steps == [0, 1, 2, 3]
    with dry.open(home, "r+") as c:
        report = c.recover()
        said = "\n".join(report.notes)
        for step in (1, 2):
            assert f"step {step}: " in said
            assert 'lost with the tiers of node "a"' in said
        assert "steps 1..2 were committed and are given up" in said
        assert c.steps == [0, 3]
        assert np.array_equal(c["T"][3], data(3))
        assert c.verify()
        assert not c.staged
    assert not list((home / "tiers").rglob("*.json"))


def test_the_tiers_of_a_lost_node_are_given_up_when_somebody_says_that_it_is_lost(
    home: Path, tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(home, tier, 0, 1)
    monkeypatch.setenv("DRYSTONE_NODE", "b")
    with dry.open(home, "r+") as c:
        c.recover()
        assert c.steps == [0, 1]
        c.recover(lost_nodes=["a"])
        assert c.steps == []
        assert not c.staged
        write(c, 5)
        check(c, 5)


def test_a_full_tier_spills_to_the_next_and_then_home(home: Path, tmp_path: Path, node: str) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    with dry.create(home, tiers=[(small, 40_000), (large, 100_000)]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        write(c, *range(30))
        check(c, *range(30))
        for row, most in zip(c.tiers, (40_000, 100_000), strict=True):
            assert row.nbytes <= most + 5 * CELLS, row
        c.drain()
        assert set(c.levels().values()) == {"stable"}
    with dry.open(home) as c:
        check(c, *range(30))


def test_two_containers_share_a_tier(tmp_path: Path, tier: Path, node: str) -> None:
    one, other = tmp_path / "one.dry", tmp_path / "other.dry"
    leave(one, tier, 0)
    leave(other, tier, 0, 1)
    with dry.open(one, "r+", tiers=[tier]) as c:
        check(c, 0)
        c.drain()
    with dry.open(other) as c:
        check(c, 0, 1)
    with dry.open(other, "r+", tiers=[tier]) as c:
        c.drain()
        check(c, 0, 1)
        assert c.verify()


def test_a_durable_step_is_stable_when_it_is_committed(
    home: Path, tier: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYSTONE_DRAIN", "hold")
    with dry.create(home, "durable", tiers=[tier]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        write(c, 0, 1)
        assert c.levels() == {0: "stable", 1: "stable"}
        assert len(parts(home)) == 2
        assert not c.staged
        shutil.rmtree(tier)
    with dry.open(home) as c:
        check(c, 0, 1)


def test_collection_keeps_what_waits_for_its_drain(
    home: Path, tier: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYSTONE_DRAIN", "hold")
    with dry.create(home, tiers=[tier]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        write(c, 0, 1)
        with c.writer(rank=0, nranks=1) as w, w.step(0, replace=True):
            w.put("T", data(7))
        c.gc(keep=1)
        assert np.array_equal(c["T"][0], data(7))
        assert np.array_equal(c["T"][1], data(1))
    with dry.open(home) as c:
        assert np.array_equal(c["T"][0], data(7))
        assert c.verify()


def test_ranks_of_several_nodes_commit_together(home: Path, tmp_path: Path) -> None:
    """Rank 0 commits what the ranks of other nodes closed: their records are home, their blocks are not."""
    ranks = """
    rank = int(sys.argv[3])
    c = dry.open(home, "r+", tiers=[tier])
    w = c.writer(rank=rank, nranks=2)
    with w.step(0):
        w.put("T", data(0)[rank * 2048:(rank + 1) * 2048], offset=rank * 2048)
    if rank == 0:
        c.commit()
    os.kill(os.getpid(), 9)
    """
    with dry.create(home, tiers=[]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
    for rank in (1, 0):
        near = tmp_path / f"near{rank}"
        done = run(ranks, home, near, rank, DRYSTONE_NODE=f"n{rank}", DRYSTONE_DRAIN="hold")
        assert done.returncode == -signal.SIGKILL, done.stderr
    drain = """
    with dry.open(home, "r+", tiers=[tier]) as c:
        c.drain()
        print(c.levels()[0], sorted({part.node for part in c.staged}))
    """
    assert ran(drain, home, tmp_path / "near1", DRYSTONE_NODE="n1").split() == ["node", "['n0']"]
    assert ran(drain, home, tmp_path / "near0", DRYSTONE_NODE="n0").split() == ["stable", "[]"]
    with dry.open(home) as c:
        check(c, 0)


KILLED = """
import random, signal, threading
seed = int(sys.argv[3])
chance = random.Random(seed)
threading.Timer(chance.uniform(0.0, 0.25), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
c = dry.open(home, "r+", tiers=[(tier, 200_000), tier + "2"])
c.recover()
with c.writer(rank=0, nranks=1) as w:
    for step in range(seed * 1000, seed * 1000 + 1000):
        with w.step(step, level=chance.choice([None, None, None, "home", "stable"])):
            w.put("T", data(step))
        print(step, flush=True)
"""


def test_kills_lose_no_step_that_was_committed(home: Path, tier: Path, node: str) -> None:
    kills = 2000 if os.environ.get("DRYSTONE_LONG") else 50
    with dry.create(home, tiers=[]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
    promised: list[int] = []
    for seed in range(kills):
        done = run(KILLED, home, tier, seed)
        assert done.returncode == -signal.SIGKILL, done.stderr
        promised += [int(line) for line in done.stdout.split("\n")[:-1]]
        if seed % 10 == 9:
            with dry.open(home, "r+") as c:
                c.recover()
                assert set(promised) <= set(c.steps)
    with dry.open(home, "r+", tiers=[tier, f"{tier}2"]) as c:
        c.recover()
        assert set(promised) <= set(c.steps)
        c.drain()
        assert set(c.levels().values()) <= {"stable"}
        assert not c.staged
    shutil.rmtree(tier)
    shutil.rmtree(f"{tier}2")
    with dry.open(home) as c:
        assert set(promised) <= set(c.steps)
        for step in random.Random(1).sample(c.steps, min(200, len(c.steps))):
            assert np.array_equal(c["T"][step], data(step)), f"step {step}"
        assert c.verify()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def test_a_far_home_gets_steps_in_the_background(
    rig: Rig, tier: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "s3://bucket/run.dry"
    monkeypatch.setenv("DRYSTONE_DRAIN", "hold")
    c = dry.create(url, tiers=[tier], storage_options=rig.options)
    c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
    write(c, 0, 1, 2)
    assert set(c.levels().values()) == {"node"}
    check(c, 0, 1, 2)
    monkeypatch.setenv("DRYSTONE_NODE", "b")
    hidden = tier.rename(tier.with_name("hidden"))
    with dry.open(url, storage_options=rig.options) as there, pytest.raises(dry.NotYetHome, match='"a"'):
        there["T"][1]
    hidden.rename(tier)
    c.drain()
    assert set(c.levels().values()) == {"stable"}
    c.close()
    with dry.open(url, storage_options=rig.options) as there:
        check(there, 0, 1, 2)
        assert there.verify()


def test_the_drain_yields_and_a_wait_speeds_it_up(home: Path, tier: Path, node: str) -> None:
    with dry.create(home, tiers=[tier]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        begun = time.monotonic()
        write(c, *range(10))
        c.wait(9, "home", timeout=60)
        assert time.monotonic() - begun < 60
        assert c.tiers[0].rate > 0


def shell(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drystone", *map(str, words)]
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, timeout=120, check=False
    )


def test_the_commands_say_what_is_away_and_bring_it_home(home: Path, tier: Path) -> None:
    leave(home, tier, 0, 1)
    shown = shell("tiers", home, "--json", DRYSTONE_NODE="b")
    rows = json.loads(shown.stdout)["staged"]
    assert [(row["node"], row["step"], row["parts"]) for row in rows] == [("a", 0, 1), ("a", 1, 1)]
    assert json.loads(shown.stdout)["levels"] == [{"level": "node", "steps": [0, 1]}]
    text = shell("tiers", home).stdout
    assert "2 parts not home yet" in text
    assert text.splitlines()[-1] == "nn"
    hidden = tier.rename(tier.with_name("hidden"))
    read = shell("dump", home, "T", "[0]", DRYSTONE_NODE="b")
    assert read.returncode == 9
    assert 'node "a"' in read.stderr
    sound = shell("verify", home, DRYSTONE_NODE="b")
    assert sound.returncode == 0
    assert "not home yet on a" in sound.stdout
    # On that very node nobody can wait for them.
    lost = shell("verify", home, DRYSTONE_NODE="a")
    assert lost.returncode == 1
    assert "does not have them" in lost.stdout + lost.stderr
    hidden.rename(tier)
    assert shell("verify", home, DRYSTONE_NODE="a").returncode == 0
    drained = shell("drain", home, "--tiers", tier, DRYSTONE_NODE="a")
    assert drained.returncode == 0
    assert "everything is home" in drained.stdout
    watched = shell("tiers", home, "--every", "1").stdout.splitlines()
    assert watched == ["everything is home", "     0 s  ss"]
    with dry.open(home) as c:
        check(c, 0, 1)
