"""Tiers: steps are written to a near folder and drained in the background; nothing is lost or looks damaged."""

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
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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


def test_a_closed_container_leaves_its_parts_to_others_while_a_writer_exists(home: Path, tier: Path) -> None:
    """Symptom: `drain()` of a second handle returned while the parts stayed in the tier, since the closed handle's
    writer still existed and kept their locks. Then the tier's folder was removed, and the steps were lost."""
    with dry.create(home, tiers=[tier]) as c:
        c.create_variable("T", dtype="i4", shape=(4,), steps=True)
        w = c.writer(rank=0, nranks=1)
        for step in range(3):
            with w.step(step):
                w.put("T", np.full(4, step + 1, "i4"))
        w.close()
        pinned = c.at(c.snapshot)
        c.close(drain=False)
    with dry.open(home, "r+", tiers=[tier]) as again:
        again.drain()
    assert pinned["T"][:, 0].tolist() == [1, 2, 3]
    with dry.open(home, "r+", tiers=[tier]) as again:
        assert again.staged == []
        assert set(again.levels().values()) == {"stable"}
    del w
    shutil.rmtree(tier)
    with dry.open(home) as c:
        assert c["T"][:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("first", [0, 1])
def test_a_handle_with_some_of_the_tiers_forgets_none_of_the_others(
    home: Path, tmp_path: Path, first: int
) -> None:
    """Symptom: the registration named only the tiers of the newest handle. Steps in an intact folder were called lost,
    and recover() gave them up."""
    tiers = [tmp_path / "near", tmp_path / "far"]
    program = """
    near, far = sys.argv[2:4]
    c = dry.create(home, tiers=[(near, 100_000), far])
    c.create_variable("T", dtype="f8", shape=(10_000,), steps=True)
    with c.writer(rank=0, nranks=1) as w:
        for step in range(3):
            with w.step(step):
                w.put("T", np.full(10_000, step + 1.0))
        os._exit(0)
    """
    ran(program, home, *tiers, DRYSTONE_DRAIN="hold")
    with dry.open(home, "r+", tiers=[tiers[first]]) as c:
        c.drain()
    with dry.open(home, "r+") as c:
        assert "lost" not in c.levels().values()
        assert not any("given up" in note for note in c.recover().notes)
        assert c["T"][:, 0].tolist() == [1, 2, 3]
    with dry.open(home, "r+", tiers=tiers) as c:
        c.drain()
        assert c.staged == []
        assert c["T"][:, 0].tolist() == [1, 2, 3]


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


def test_a_step_whose_tier_is_gone_is_lost_at_every_face(home: Path, tier: Path, node: str) -> None:
    """Levels and waits said "node" for ever, although nothing of the step existed any more."""
    leave(home, tier, 0, 1)
    hidden = tier.rename(tier.with_name("hidden"))
    with dry.open(home) as c:
        assert c.levels() == {0: "lost", 1: "lost"}
        assert [part.missing for part in c.staged] == [True, True]
        for level in ("node", "home", "stable"):
            with pytest.raises(dry.NotYetHome, match=rf"step 1 .*{tier}.*recover\(\)") as told:
                c.wait(1, level, timeout=60)
            assert told.value.node == "a"
    rows = json.loads(shell("tiers", home, "--json").stdout)
    assert rows["levels"] == [{"level": "lost", "steps": [0, 1]}]
    assert all(row["missing"] == row["bytes"] > 0 for row in rows["staged"])
    text = shell("tiers", home, "--every", "1").stdout
    assert "x lost" in text
    assert "drystone recover" in text
    assert text.splitlines()[-1].endswith("xx"), "it does not wait for what is lost"
    # Another node cannot know.
    assert "nn" in shell("tiers", home, DRYSTONE_NODE="b").stdout
    hidden.rename(tier)
    with dry.open(home, "r+", tiers=[tier]) as c:
        c.drain()
        check(c, 0, 1)


def test_what_a_living_writer_lost_delays_no_other_step_and_is_given_up(
    home: Path, tier: Path, tmp_path: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest part was tried first for ever, so a lost one kept all younger ones from their home."""
    monkeypatch.setenv("DRYSTONE_DRAIN", "hold")
    with dry.create(home, tiers=[tier]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        for step in range(20):
            write(c, step)
        for part in parts(tier)[:17]:
            part.unlink()
        found = c.levels()
        lost = [step for step, level in found.items() if level == "lost"]
        assert len(lost) == 17
        kept = sorted(set(range(20)) - set(lost))
        assert {found[step] for step in kept} == {"node"}
        with pytest.raises(dry.NotYetHome, match="does not have them"):
            c.drain()
        assert all(c.levels()[step] in ("home", "stable") for step in kept)
        with pytest.raises(dry.NotYetHome, match="do not have them any more"):
            c.wait(lost[0], "home", timeout=60)
        report = c.recover()
        assert all(f"step {step}: " in "\n".join(report.notes) for step in lost)
        check(c, *kept)
        assert set(c.levels().values()) == {"stable"}
        write(c, 30)
        c.drain()
        assert c.verify()


def test_a_tier_that_fails_keeps_no_step_of_another_tier_from_its_home(
    home: Path, tmp_path: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYSTONE_DRAIN", "hold")
    small, large = tmp_path / "small", tmp_path / "large"
    with dry.create(home, tiers=[(small, 50_000), large]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        write(c, *range(8))
        early = len(parts(small))
        assert 0 < early < 8
        (folder,) = small.glob("*/parts")
        hidden = (folder / "log").rename(folder / "hidden")
        (folder / "log").symlink_to(folder / "log")  # every look fails, as a sick device does
        with pytest.raises(dry.DrystoneError, match=str(small)):
            c.drain()
        found = c.levels()
        assert sorted(found.values()).count("node") == early
        assert all(level in ("node", "home", "stable") for level in found.values())
        c.close(drain=False)
    (folder / "log").unlink()
    hidden.rename(folder / "log")
    with dry.open(home, "r+", tiers=[small, large]) as c:
        c.drain()
        check(c, *range(8))


def test_recover_gives_up_nothing_that_a_failing_tier_may_have(home: Path, tier: Path, node: str) -> None:
    """A tier that did not answer counted as lost, so that recover() gave its steps up."""
    leave(home, tier, 0, 1)
    (folder,) = tier.glob("*/parts")
    log = folder / "log"
    hidden = log.rename(folder / "hidden")
    log.symlink_to(log)  # every look fails with ELOOP, as a sick device fails with EIO
    with dry.open(home, "r+") as c:
        assert c.levels() == {0: "node", 1: "node"}
        with pytest.raises(dry.NotYetHome, match="fails or does not answer"):
            c["T"][0]
        c.recover()
        assert c.steps == [0, 1]
    log.unlink()
    hidden.rename(log)
    with dry.open(home, "r+", tiers=[tier]) as c:
        c.drain()
        check(c, 0, 1)


def test_the_tiers_of_a_node_are_given_up_only_when_it_is_declared_lost(
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
    """Rank 0 commits steps that ranks of other nodes closed: their records are home, their blocks are not."""
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
    # On that node itself, there is no drain to wait for.
    lost = shell("verify", home, DRYSTONE_NODE="a")
    assert lost.returncode == 1
    assert "do not have them any more" in lost.stdout + lost.stderr
    hidden.rename(tier)
    assert shell("verify", home, DRYSTONE_NODE="a").returncode == 0
    drained = shell("drain", home, "--tiers", tier, DRYSTONE_NODE="a")
    assert drained.returncode == 0
    assert "everything is home" in drained.stdout
    watched = shell("tiers", home, "--every", "1").stdout.splitlines()
    assert watched == ["everything is home", "     0 s  ss"]
    with dry.open(home) as c:
        check(c, 0, 1)


RANK = """
rank, commits = int(sys.argv[3]), sys.argv[4] == "committed"
c = dry.open(home, "r+", tiers=[tier])
w = c.writer(rank=rank, nranks=2)
for step in range(6):
    with w.step(step):
        w.put("T", data(step)[2048 * rank:2048 * (rank + 1)], offset=2048 * rank)
print("ready", flush=True)
sys.stdin.readline()
if commits and rank == 0:
    c.commit()
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("state", ["committed", "closed"])
def test_only_the_lost_steps_of_a_writer_are_given_up(home: Path, tier: Path, node: str, state: str) -> None:
    """Recovery cut the log of a writer at its first lost part, so that the steps behind it went too."""
    with dry.create(home, tiers=[]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
    ranks = []
    for rank in range(2):
        command = [sys.executable, "-c", PROLOGUE + RANK, str(home), str(tier), str(rank), state]
        ranks.append(
            subprocess.Popen(
                command,
                env=environment(DRYSTONE_NODE=node, DRYSTONE_DRAIN="hold"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    for process in ranks:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in reversed(ranks):
        process.communicate("\n", timeout=60)
        assert process.returncode == -signal.SIGKILL
    held = parts(tier)
    assert len(held) == 12
    for part in held[:6:2]:  # of one rank, sorted by part
        part.unlink()
    with dry.open(home, "r+", tiers=[tier]) as c:
        report = c.recover()
        assert report.adopted == (() if state == "committed" else (1, 3, 5))
        said = "\n".join(report.notes)
        assert ("steps 0, 2, 4 were committed and are given up" in said) == (state == "committed"), said
        check(c, 1, 3, 5)
        assert c.verify()
        with c.writer(rank=0, nranks=1) as w, w.step(0):
            w.put("T", data(0))
        check(c, 0, 1, 3, 5)
        c.gc(keep=1)
        check(c, 0, 1, 3, 5)
        assert c.verify()
        assert set(c.levels().values()) == {"stable"}
    with dry.open(home, "r+") as c:
        assert c.recover().adopted == ()
        check(c, 0, 1, 3, 5)


LOSES = """
c = dry.open(home, "r+", tiers=[tier])
c["V"] = np.arange(4096, dtype="f4")
c.commit()
write(c, 0, 1)
c.close(drain=False)
"""


def test_a_lost_tier_undoes_nothing_that_is_home(
    home: Path, tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery fell back to the snapshot before the lost step, and took variables, names and attributes with it."""
    with dry.create(home, tiers=[]) as c:
        for name in ("T", "U"):
            c.create_variable(name, dtype="f4", shape=(CELLS,), steps=True)
        c["A"] = np.zeros(10)
    ran(LOSES, home, tier, DRYSTONE_NODE="a", DRYSTONE_DRAIN="hold")
    monkeypatch.setenv("DRYSTONE_NODE", "b")
    with dry.open(home, "r+") as c:
        write(c, 2, 3)
        with c.writer() as w, w.step(1):
            w.put("U", data(1))
        c["A"][...] = np.arange(10.0)
        c.commit()
        c["B"] = np.full(3, 7.0)
        c.attrs["note"] = "kept"
        c["T"].attrs["units"] = "K"
        c.rename("A", "g/A")
    shutil.rmtree(tier)
    with dry.open(home, "r+") as c:
        report = c.recover(lost_nodes=["a"])
        said = "\n".join(report.notes)
        assert "undone" not in said
        assert "step 0 was committed and is given up: its bytes are not there" in said
        assert "values of step 1 cannot be read until they are written again" in said, said
        assert "values of variables without steps cannot be read until they are written again" in said
        assert not c.staged
        c.flush()
    with pytest.warns(dry.DrystoneWarning, match="reads that need it fail"):
        c = dry.open(home, "r+")
    with c:
        assert sorted(c.variables) == ["B", "T", "U", "V", "g/A"]
        assert (c.attrs["note"], c["T"].attrs["units"]) == ("kept", "K")
        assert np.array_equal(c["g/A"][...], np.arange(10.0))
        assert np.array_equal(c["B"][...], np.full(3, 7.0))
        # Another writer's blocks of step 1 are home, so the step stays, and reads of the lost blocks fail.
        assert c.steps == [1, 2, 3]
        assert np.array_equal(c["U"][1], data(1))
        with pytest.raises(dry.CorruptError, match=r"no object 'log/"):
            c["T"][1]
        with pytest.raises(dry.CorruptError, match=r"no object 'log/"):
            c["V"][...]
        assert not c.verify()
        c["V"][...] = data(5)
        with c.writer() as w, w.step(1):
            w.put("T", data(1))
        c.commit()
        c.gc(keep=1)
    with dry.open(home) as c:
        assert c.verify()
        for step in (1, 2, 3):
            assert np.array_equal(c["T"][step], data(step))
        assert np.array_equal(c["V"][...], data(5))


def test_a_damaged_part_in_a_tier_undoes_nothing_else(home: Path, tier: Path, node: str) -> None:
    leave(home, tier, 0)
    (part,) = parts(tier)
    held = bytearray(part.read_bytes())
    held[len(held) // 2] ^= 4
    part.write_bytes(held)
    with dry.open(home, "r+") as c:
        write(c, 1)
        c.attrs["note"] = "kept"
        report = c.recover()
        said = "\n".join(report.notes)
        assert "fails its checksum" in said
        assert "undone" not in said
        assert c.attrs["note"] == "kept"
        check(c, 1)
        assert c.verify()


LEAVES = """
if not os.path.exists(home + "/drystone.json"):
    with dry.create(home, tiers=[tier]) as c:
        for name in "ab":
            c.create_variable(name, "f4", (4096,), steps=True)
name = sys.argv[3]
c = dry.open(home, "r+", tiers=[tier])
w = c.writer()
for step in range(2):
    with w.step(step):
        w.put(name, data(step))
    c.commit()
os.kill(os.getpid(), 9)
"""


def test_after_a_recovery_beside_waiting_nodes_others_drain_and_flush(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Symptom: a node was lost while parts waited on another one. After `recover(lost_nodes=)`, every drain, flush, gc
    and close of all later handles failed, since the lost parts of steps that stayed could not be synced.
    """
    for node, name in (("n1", "a"), ("n0", "b")):
        died = run(LEAVES, home, tmp_path / node, name, DRYSTONE_NODE=node, DRYSTONE_DRAIN="hold")
        assert died.returncode == -signal.SIGKILL, died.stderr
    shutil.rmtree(tmp_path / "n1")
    monkeypatch.setenv("DRYSTONE_NODE", "n2")
    with dry.open(home, "r+") as c:
        report = c.recover(lost_nodes=["n1"])
        assert any("cannot be read until they are written again" in note for note in report.notes)
    monkeypatch.setenv("DRYSTONE_NODE", "n0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dry.errors.DrystoneWarning)  # the snapshot is not whole, as reported
        with dry.open(home, "r+", tiers=[tmp_path / "n0"]) as c:
            c.drain()
            version = c.flush()
            assert [np.array_equal(c["b"][step], data(step)) for step in range(2)] == [True, True]
            with pytest.raises(dry.errors.CorruptError):
                c["a"][0]
            c.gc(keep=1)
        with dry.open(home, "r+") as c:
            assert c.flush() >= version
            assert not c.verify().ok
            with c.writer() as w:
                for step in range(2):
                    with w.step(step):
                        w.put("a", data(step))
            c.commit()
            assert [np.array_equal(c["a"][step], data(step)) for step in range(2)] == [True, True]


SECOND_RUN = """
import sys
import numpy as np
import drystone as dry
c = dry.open(sys.argv[1], "r+", tiers=[sys.argv[2]])
with c.writer(rank=0, nranks=1) as w, w.step(int(sys.argv[3])):
    w.put("T", np.full(4096, 7, "f4"))
print("put", flush=True)
sys.stdin.readline()
c.close()
"""


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_handle_finds_the_tier_of_a_later_run(tmp_path, monkeypatch, mode):
    """Symptom: the step of a second run was said to be lost, and `recover` gave it up. Cause: the first run had removed
    its empty folder in the tier, and the handle looked into the removed one."""
    home, tier = str(tmp_path / "run.dry"), str(tmp_path / "tier")

    @contextmanager
    def running(step):
        command = [sys.executable, "-c", SECOND_RUN, home, tier, str(step)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout.readline() == "put\n"
            yield
            run.stdin.close()
            assert run.wait(60) == 0

    with dry.create(home, tiers=[tier]) as c:
        c.create_variable("T", dtype="f4", shape=(4096,), steps=True)
    with running(0):
        reader = dry.open(home, mode)
        assert (reader["T"][0] == 7).all()
    assert not list(Path(tier).iterdir())
    monkeypatch.setenv("DRYSTONE_DRAIN", "hold")
    with reader, running(1):
        reader.refresh()
        assert (reader["T"][1] == 7).all()
        assert reader.levels()[1] == "node"
        assert not any(part.missing for part in reader.staged)
        assert not reader.verify().damage
        if mode == "r+":
            reader.recover()
        assert list(reader.steps) == [0, 1]
    monkeypatch.delenv("DRYSTONE_DRAIN")
    with dry.open(home, "r+", tiers=[tier]) as c:
        c.drain()
        assert (c["T"][1] == 7).all()
