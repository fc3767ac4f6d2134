"""Tiers that are lost: recovery gives up what was only there, and nothing else."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from node_rig import CELLS, PROLOGUE, check, data, environment, leave, parts, ran, run, shell, write


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


OVERWRITES = """
rank, ranks, value = map(int, sys.argv[3:6])
c = dry.open(home, "r+", tiers=[tier + str(rank)])
cells = 4096 // ranks
with c.writer(rank=rank, nranks=ranks) as w, w.step(0):
    w.put("T", np.full(cells, value, "f4"), offset=rank * cells)
if rank == ranks - 1:
    c.commit()
if value == 1:
    c.close()
else:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_step_has_its_older_values_again_if_all_that_overwrote_them_is_lost(
    home: Path, tier: Path, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    """Recovery removed the step, though its older values were stable."""
    with dry.create(home, tiers=[]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
    for value, drain in ((1, "now"), (2, "hold")):
        for rank in range(ranks):
            run(OVERWRITES, home, tier, rank, ranks, value, DRYSTONE_NODE=f"n{rank}", DRYSTONE_DRAIN=drain)
        if value == 1:
            with dry.open(home, "r+") as c:
                c.derive("D", "T * 2", kind="stored")
                assert np.array_equal(c["D"][0], np.full(CELLS, 2, "f4"))
    last = ranks - 1
    monkeypatch.setenv("DRYSTONE_NODE", f"n{last}")
    shutil.rmtree(f"{tier}{last}")
    with dry.open(home, "r+") as c:
        assert c.levels() == {0: "lost"}
        assert "step 0 has older values again" in "\n".join(c.recover().notes)
        assert np.array_equal(c["T"][0], np.ones(CELLS, "f4"))
        assert np.array_equal(c["D"][0], np.full(CELLS, 2, "f4"))
    if ranks == 1:
        with dry.open(home, "r+") as c:
            c.flush()
            c.gc(keep=1)
            assert c.verify()
            assert np.array_equal(c["T"][0], np.ones(CELLS, "f4"))


def test_a_step_with_cells_that_were_not_there_before_is_removed(
    home: Path, tier: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older values of some of the cells alone would read as fill in the others."""
    monkeypatch.setenv("DRYSTONE_DRAIN", "hold")
    with dry.create(home, tiers=[tier]) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        with c.writer(rank=0, nranks=1) as w, w.step(0):
            w.put("T", data(7)[:100], offset=0)
        c.drain()
        with c.writer(rank=0, nranks=1) as w, w.step(0):
            w.put("T", data(0))
        c.close(drain=False)
    shutil.rmtree(tier)
    with dry.open(home, "r+") as c:
        assert "step 0 was committed and is given up" in "\n".join(c.recover().notes)
        assert c.steps == []


@pytest.mark.parametrize("how", ["open", "command"])
def test_another_node_with_the_same_folder_removes_nothing(home: Path, tier: Path, how: str) -> None:
    """It removed all parts that its own registrations did not name."""
    leave(home, tier, 0, 1, node="a")
    if how == "open":
        ran("c = dry.open(home, 'r+', tiers=[tier]); c.drain(); c.close()", home, tier, DRYSTONE_NODE="b")
    else:
        shell("drain", home, "--tiers", tier, DRYSTONE_NODE="b")
    assert parts(tier) or parts(home)
    ran("c = dry.open(home, 'r+', tiers=[tier]); c.drain(); c.close()", home, tier, DRYSTONE_NODE="a")
    with dry.open(home) as c:
        check(c, 0, 1)
        assert set(c.levels().values()) == {"stable"}


WRITES = """
c = dry.open(home, "r+", tiers=[tier + os.environ["DRYSTONE_NODE"]])
name, step, value, drained = sys.argv[3], *map(int, sys.argv[4:7])
with c.writer() as w, w.step(step):
    w.put(name, np.full(4096, value, "f4"))
c.commit()
if drained:
    c.drain()
    c.close()
else:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.filterwarnings("ignore:snapshot .* is not whole")
@pytest.mark.parametrize("again", ["a", "c", None])
def test_a_second_recovery_undoes_nothing_that_is_home(
    home: Path, tier: Path, monkeypatch: pytest.MonkeyPatch, again: str | None
) -> None:
    """While parts waited on a third node, it took what the first one had given up for the effect of a power cut."""
    with dry.create(home, tiers=[]) as c:
        for name in ("T", "U"):
            c.create_variable(name, dtype="f4", shape=(CELLS,), steps=True)
    for node, name, step, value, drained in (
        ("b", "U", 0, 1, 1),
        ("a", "T", 0, 2, 0),
        ("b", "U", 0, 3, 1),
        ("c", "U", 1, 4, 0),
    ):
        run(WRITES, home, tier, name, step, value, drained, DRYSTONE_NODE=node, DRYSTONE_DRAIN="hold")
    monkeypatch.setenv("DRYSTONE_NODE", "b")
    with dry.open(home, "r+", tiers=[]) as c:
        c["V"] = np.full(3, 9.0)
        c.attrs["note"] = "kept"
        c.commit()
        c.close(drain=False)
    shutil.rmtree(f"{tier}a")
    for lost in (["a"], [again] if again else []):
        if lost == ["c"]:
            shutil.rmtree(f"{tier}c")
        with dry.open(home, "r+", tiers=[]) as c:
            assert "undone" not in "\n".join(c.recover(lost_nodes=lost).notes)
            c.close(drain=False)
        with dry.open(home) as c:
            assert c.attrs["note"] == "kept"
            assert np.array_equal(c["V"][...], np.full(3, 9.0))
            assert c.steps == ([0] if lost == ["c"] else [0, 1])
            assert np.array_equal(c["U"][0], np.full(CELLS, 3, "f4"))
            with pytest.raises(dry.CorruptError):
                c["T"][0]
            assert not c.verify()
            if lost != ["c"]:
                with pytest.raises(dry.NotYetHome):
                    c["U"][1]
