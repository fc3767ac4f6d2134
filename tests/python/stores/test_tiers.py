"""Tiers: steps are written to a near folder and drained in the background; nothing is lost or looks damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from far_rig import Rig
from node_rig import CELLS, check, data, leave, parts, ran, run, shell, write


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


def test_a_stable_step_ends_after_earlier_parts_of_its_writer_were_collected(
    home: Path, tier: Path, node: str
) -> None:
    """The step records of all earlier parts were synced again, and those that gc had removed are not there."""
    with dry.create(home, tiers=[tier]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        with c.writer() as w:
            for value in range(12):
                with w.step(0, level="stable"):
                    w.put("T", data(value))
                c.commit()
                if value % 3 == 2:
                    c.drain()
                    with dry.open(home, "r+") as other:
                        other.gc(keep=1)
        assert np.array_equal(c["T"][0], data(11))
