"""Redundancy: data in a node's tiers is rebuilt from other nodes, as far as the scheme allows; losses are reported by
step.

Processes with different DRYSTONE_NODE names stand for nodes. A deleted folder stands for a lost node.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

CELLS = 4800
RANK = """
import os, sys
import numpy as np
import drystone as dry
home, near, rank, nranks, steps, level = sys.argv[1:7]
rank, nranks = int(rank), int(nranks)
def data(step):
    return np.arange(4800, dtype="f4") + step
c = dry.open(home, "r+", tiers=[near])
"""
WRITES = """
share = 4800 // nranks
w = c.writer(rank=rank, nranks=nranks)
for step in map(int, steps.split(",")):
    with w.step(step, level=level or None):
        w.put("T", data(step)[rank * share:(rank + 1) * share], offset=rank * share)
print("ready", flush=True)
sys.stdin.readline()
if rank == 0:
    c.commit()
    for step in map(int, steps.split(",")):
        c.wait(step, "partner", timeout=60)
    print(sorted(set(c.levels().values())), flush=True)
os.kill(os.getpid(), 9)
"""


def data(step: int) -> np.ndarray:
    return np.arange(CELLS, dtype="f4") + step


def node(rank: int) -> str:
    return f"n{rank}"


def create(home: Path, redundancy: str) -> None:
    with dry.create(home, tiers=[], redundancy=redundancy) as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)


def near(home: Path, rank: int) -> Path:
    return home.parent / f"near{rank}"


def start(
    home: Path, rank: int, nranks: int, steps: str, level: str = "", program: str = WRITES, **more: str
) -> subprocess.Popen[str]:
    text = RANK + textwrap.dedent(program)
    arguments = [str(home), str(near(home, rank)), str(rank), str(nranks), steps, level]
    environment = {**os.environ, "DRYSTONE_NODE": node(rank), "DRYSTONE_DRAIN": "hold", **more}
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(rank: subprocess.Popen[str]) -> None:
    """Wait until the rank has ended its steps."""
    assert rank.stdout is not None
    assert rank.stderr is not None
    assert rank.stdout.readline() == "ready\n", rank.stderr.read()


def run_ranks(home: Path, nranks: int, steps: str, level: str = "", **more: str) -> str:
    """Ranks of as many nodes write steps, keep parity of each other, and are all killed. Returns rank 0's report of
    the levels."""
    ranks = [start(home, rank, nranks, steps, level, **more) for rank in range(nranks)]
    for rank in ranks:
        wait_for(rank)
    out, error = ranks[0].communicate("\n", timeout=120)
    assert ranks[0].returncode == -signal.SIGKILL, error
    for other in ranks[1:]:
        _, error = other.communicate("\n", timeout=120)
        assert other.returncode == -signal.SIGKILL, error
    return out.strip().splitlines()[-1]


def lose(home: Path, *ranks: int) -> None:
    for rank in ranks:
        shutil.rmtree(near(home, rank))


def check(c: dry.Container, *steps: int) -> None:
    assert c.steps == list(steps)
    for step in steps:
        assert np.array_equal(c["T"][step], data(step)), f"step {step}"


def parity(home: Path) -> list[Path]:
    return sorted(home.parent.rglob("*.red"))


def parts(home: Path) -> list[Path]:
    return sorted(home.parent.glob("near*/*/parts/log/*.seg"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "run.dry"


CASES = [("partner", 3, [1]), ("xor:8", 4, [2]), ("rs:2+2", 4, [0, 3])]


@pytest.mark.parametrize(("redundancy", "nranks", "lost"), CASES)
def test_steps_come_back_after_nodes_are_lost(
    home: Path, redundancy: str, nranks: int, lost: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    create(home, redundancy)
    assert run_ranks(home, nranks, "0,1") == "['partner']"
    assert len(parts(home)) == 2 * nranks
    assert not list(home.rglob("*.seg")), "nothing is home"
    lose(home, *lost)
    monkeypatch.setenv("DRYSTONE_NODE", "spare")
    with dry.open(home) as c:
        assert c.redundancy == redundancy
        assert set(c.levels().values()) == {"partner"}
    with dry.open(home, "r+") as c:
        report = c.recover(lost_nodes=[node(rank) for rank in lost])
        assert report.rebuilt == (0, 1)
        assert "steps rebuilt: 0, 1" in str(report)
        assert not any("lost" in note and "rebuilt" not in note for note in report.notes)
        assert c.steps == [0, 1]
        assert c.levels() == {0: "node", 1: "node"}, "what the lost nodes kept of others is gone"
    # The run continues with another number of ranks; the surviving nodes drain their data.
    for rank in set(range(nranks)) - set(lost):
        monkeypatch.setenv("DRYSTONE_NODE", node(rank))
        with dry.open(home, "r+", tiers=[near(home, rank)]) as c:
            c.drain()
    with dry.open(home, "r+", tiers=[near(home, 9)]) as c:
        check(c, 0, 1)
        with c.writer(rank=0, nranks=1) as w, w.step(2):
            w.put("T", data(2))
        c.drain()
        check(c, 0, 1, 2)
        assert set(c.levels().values()) == {"stable"}
        assert c.verify()
    assert not parity(home), "what is home needs no parity"
    assert not list((home / "parity").glob("*"))


@pytest.mark.parametrize(("redundancy", "nranks", "most"), [("xor:8", 3, 1), ("rs:2+2", 4, 2)])
def test_losses_beyond_the_scheme_are_reported_by_step(
    home: Path, redundancy: str, nranks: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(home, redundancy)
    run_ranks(home, nranks, "0")
    lost = list(range(most + 1)) if nranks > most + 1 else list(range(nranks))
    lose(home, *lost)
    monkeypatch.setenv("DRYSTONE_NODE", "spare")
    with dry.open(home, "r+") as c:
        report = c.recover(lost_nodes=[node(rank) for rank in lost])
        assert report.rebuilt == ()
        said = "\n".join(report.notes)
        assert "step 0: " in said
        assert "cannot be rebuilt" in said
        assert "lost with the tiers of node" in said
        assert c.steps == []
        assert c.verify()


def test_space_is_that_of_the_scheme(home: Path) -> None:
    """Parity of N equal members with P chunks takes N / (N - P) of their bytes in total, plus headers."""
    for redundancy, nranks, chunks in [("partner", 2, 1), ("xor:4", 4, 3), ("rs:2+2", 4, 2)]:
        run = home.parent / redundancy.replace(":", "") / "run.dry"
        run.parent.mkdir()
        create(run, redundancy)
        run_ranks(run, nranks, "0")
        lengths = [part.stat().st_size for part in parts(run)]
        assert len(lengths) == nranks
        objects = [path.read_bytes() for path in parity(run)]
        assert len(objects) == nranks
        payloads = [int.from_bytes(data[16:24], "little") for data in objects]
        heads = [28 + int.from_bytes(data[8:12], "little") + 4 for data in objects]
        assert [len(data) for data in objects] == [a + b for a, b in zip(payloads, heads, strict=True)]
        if redundancy == "partner":
            assert sorted(payloads) == sorted(lengths), "2 B"
        else:
            unit = 64 if nranks - chunks > 1 else 1
            chunk = -(-max(lengths) // chunks)
            chunk = -(-chunk // unit) * unit
            assert payloads == [(nranks - chunks) * chunk] * nranks, "B N / (N - P)"


@pytest.mark.parametrize("where", ["payload", "cut"])
def test_damaged_parity_is_found_and_other_parity_is_used(
    home: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(home, "rs:2+2")
    run_ranks(home, 4, "0")
    lose(home, 0)
    damaged = next(path for path in parity(home) if "near1" in str(path))
    held = bytearray(damaged.read_bytes())
    held[-40] ^= 0x10
    damaged.write_bytes(held[:-5] if where == "cut" else held)
    monkeypatch.setenv("DRYSTONE_NODE", "spare")
    with dry.open(home, "r+") as c:
        report = c.recover(lost_nodes=["n0"])
        assert report.rebuilt == (0,)
        assert any('parity on node "n1" is not used' in note for note in report.notes), report.notes
        assert c.steps == [0]


def test_a_damaged_part_of_another_node_is_found_and_left_out(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(home, "rs:2+2")
    run_ranks(home, 4, "0")
    lose(home, 0)
    # Its second chunk is in one stripe with the first lost one.
    damaged = next(part for part in parts(home) if "near1" in str(part))
    held = bytearray(damaged.read_bytes())
    held[len(held) * 3 // 4] ^= 1
    damaged.write_bytes(held)
    monkeypatch.setenv("DRYSTONE_NODE", "spare")
    with dry.open(home, "r+") as c:
        report = c.recover(lost_nodes=["n0"])
        assert report.rebuilt == (0,)
        assert any('parts on node "n1" are damaged' in note for note in report.notes), report.notes


def test_a_node_that_lost_its_folder_recovers_by_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(home, "xor:8")
    run_ranks(home, 3, "0")
    lose(home, 1)
    monkeypatch.setenv("DRYSTONE_NODE", "n1")
    with dry.open(home) as c:
        assert c.levels() == {0: "node"}, "other nodes have it, and a second loss ends it"
        with pytest.raises(dry.NotYetHome, match=r"recover\(\) rebuilds them"):
            c.wait(0, "home", timeout=60)
    with dry.open(home, "r+", tiers=[near(home, 1)]) as c:
        report = c.recover()
        assert report.rebuilt == (0,)
        assert c.steps == [0]
    for rank in (0, 2):
        monkeypatch.setenv("DRYSTONE_NODE", node(rank))
        with dry.open(home, "r+", tiers=[near(home, rank)]) as c:
            c.drain()
    with dry.open(home) as c:
        check(c, 0)


def test_a_step_is_partner_when_it_is_left_at_that_level(home: Path) -> None:
    """No rank waits for the commit: all of them have ended the step."""
    create(home, "xor:8")
    assert run_ranks(home, 3, "0,1,2", "partner") == "['partner']"
    assert not list(home.rglob("*.seg")), "nothing went home for it"


def test_parity_is_made_in_the_background(home: Path) -> None:
    create(home, "partner")
    program = WRITES.replace(
        '        c.wait(step, "partner", timeout=60)', "        time.sleep(0.01)\n        looks = 0"
    ).replace(
        "    print(sorted(set(c.levels().values())), flush=True)",
        "    end = time.monotonic() + 60\n"
        '    while set(c.levels().values()) != {"partner"} and time.monotonic() < end:\n'
        "        time.sleep(0.05)\n"
        "    print(sorted(set(c.levels().values())), flush=True)",
    )
    ranks = [start(home, rank, 2, "0", program="import time\n" + program) for rank in range(2)]
    for rank in ranks:
        wait_for(rank)
    out, error = ranks[0].communicate("\n", timeout=120)
    assert out.strip() == "['partner']", error
    ranks[1].communicate("\n", timeout=60)


def test_where_no_other_node_can_keep_a_step_it_goes_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYSTONE_NODE", "alone")
    monkeypatch.setenv("DRYSTONE_DRAIN", "hold")
    with dry.create(home, tiers=[near(home, 0)], redundancy="partner") as c:
        c.create_variable("T", dtype="f4", shape=(CELLS,), steps=True)
        with c.writer(rank=0, nranks=1) as w:
            with w.step(0, level="partner"):
                w.put("T", data(0))
            assert c.levels() == {0: "home"}
            with w.step(1):
                w.put("T", data(1))
            assert c.levels()[1] == "node"
            with pytest.raises(dry.DeadlineError):
                c.wait(1, "partner", timeout=0.5)
    assert not parity(home)


def test_nodes_of_one_failure_group_do_not_keep_each_other(home: Path) -> None:
    create(home, "partner")
    ranks = [start(home, rank, 2, "0", "partner", DRYSTONE_FAILURE_GROUP="rack") for rank in range(2)]
    for rank in ranks:
        wait_for(rank)
    out, error = ranks[0].communicate("\n", timeout=120)
    assert out.strip() in ("['home']", "['stable']"), error
    ranks[1].communicate("\n", timeout=60)
    assert not parity(home)


def test_wrong_schemes_are_refused(home: Path) -> None:
    for wrong in ("xor", "xor:1", "rs:8", "rs:8+9", "mirror", ""):
        with pytest.raises(dry.InvalidArgumentError, match=r"xor:N.*not "):
            dry.create(home, tiers=[], redundancy=wrong)
    with pytest.raises(dry.InvalidArgumentError, match="tiers="):
        dry.create(home, redundancy="partner")
    assert not home.exists() or not list(home.iterdir())


KILLED = """
import random, signal, threading
chance = random.Random(int(steps))
if rank == 0:
    threading.Timer(chance.uniform(0.0, 0.15), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
first = int(steps) * 100
w = c.writer(rank=rank, nranks=nranks, run=int(steps) + 1)
share = 4800 // nranks
for step in range(first, first + 100):
    with w.step(step, level="partner"):
        w.put("T", data(step)[rank * share:(rank + 1) * share], offset=rank * share)
    print(step, flush=True)
os.kill(os.getpid(), 9)
"""


def test_kills_and_a_lost_node_lose_no_step_that_was_partner(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes write steps at level "partner", one is killed at any time; then the folder of either node is lost."""
    lives = 2000 if os.environ.get("DRYSTONE_LONG") else 4
    for seed in range(lives):
        run = home.parent / f"life{seed}" / "run.dry"
        run.parent.mkdir()
        create(run, "partner")
        ranks = [start(run, rank, 2, str(seed), program=KILLED) for rank in range(2)]
        ranks[0].wait(timeout=60)
        ranks[1].kill()
        said = [rank.communicate(timeout=60) for rank in ranks]
        ended = [{int(line) for line in out.split("\n")[:-1]} for out, _ in said]
        assert all(rank.returncode == -signal.SIGKILL for rank in ranks), said
        promised = ended[0] & ended[1]
        lost = random.Random(seed).randrange(2)
        shutil.rmtree(near(run, lost), ignore_errors=True)
        monkeypatch.setenv("DRYSTONE_NODE", node(1 - lost))
        with dry.open(run, "r+", tiers=[near(run, 1 - lost)]) as c:
            c.recover(lost_nodes=[node(lost)])
            assert promised <= set(c.steps)
            c.drain()
        shutil.rmtree(near(run, 1 - lost), ignore_errors=True)
        with dry.open(run) as c:
            for step in promised:
                assert np.array_equal(c["T"][step], data(step)), f"step {step}"
        shutil.rmtree(run.parent)
