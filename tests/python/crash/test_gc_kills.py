"""Collections killed at any moment: data of retained snapshots stays, and the next collection completes the work.

`DRYSTONE_LONG=1` kills two hundred times instead of a few.
"""

import os
from random import Random
from time import perf_counter, sleep

import drystone as dry
import numpy as np
import pytest
from actors import PROCESSES, WAIT

KILLS = 200 if os.environ.get("DRYSTONE_LONG") == "1" else 6
SHAPE = (64, 64)
STEPS = 12


def write(path, generation):
    for step in range(STEPS):
        with dry.open(path, "r+") as c, c.writer() as w:
            with w.step(step):
                w.put("v", np.full(SHAPE, generation * 1000 + step, "i8"))
            c.commit()


def collector(pipe, path, keep):
    with dry.open(path, "r+") as c:
        pipe.send("begin")
        c.gc(keep=keep)
        pipe.send("end")


def test_a_collector_killed_anywhere_loses_nothing_and_the_next_completes_it(tmp_path):
    random = Random(5)
    path = tmp_path / "run.dry"
    with dry.create(path) as c:
        c.create_variable("v", "i8", shape=SHAPE, steps=True)
    duration, killed, generation = 0.05, 0, 0
    while killed < KILLS:
        generation += 1
        write(path, generation)
        with dry.open(path) as c:
            newest = int(c.snapshot)
            shown = {
                v: c.at(v)["v"][:, 0, 0].tolist()
                for v in map(int, c.snapshots[-4:])
                if "v" in c.at(v).variables
            }
        mine, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=collector, args=(theirs, path, 4))
        process.start()
        assert mine.poll(WAIT)
        assert mine.recv() == "begin"
        begin = perf_counter()
        sleep(random.uniform(0, 1.2 * duration))
        process.kill()
        process.join(WAIT)
        if mine.poll() and mine.recv() == "end":
            duration = duration / 2 + min(perf_counter() - begin, 1.0) / 2
        else:
            killed += 1
        with dry.open(path) as c:
            assert c.verify().ok
            assert np.array_equal(c["v"][:, 0, 0], [generation * 1000 + step for step in range(STEPS)])
            for version in [v for v in shown if v > newest - 3]:
                assert c.at(version)["v"][:, 0, 0].tolist() == shown[version]
    with dry.open(path, "r+") as c:
        report = c.gc(keep=1)
        assert len(report.kept) == 1
        assert c.verify().ok
        assert len(c.describe().writers) == STEPS, "the logs, in packs or not"
        with pytest.raises(dry.NotFoundError, match="expired"):
            c.at(newest)
        assert c.gc(dry_run=True).removed == {}


def begun(pipe, path, closed, committed):
    """An unranked writer that commits, closes and begins steps, then waits."""
    with dry.open(path, "r+") as c:
        w = c.writer()
        for step in range(committed):
            with w.step(step):
                w.put("v", np.full(SHAPE, 100 + step, "i8"))
            c.commit()
        if closed:
            with w.step(5):
                w.put("v", np.full(SHAPE, 105, "i8"))
        with w.step(6):
            w.put("v", np.full(SHAPE, 106, "i8"))
            w.put("v", np.full(SHAPE, 107, "i8"))
            w.flush()
            pipe.send("begun")
            assert pipe.poll(WAIT)
            pipe.recv()
        w.close()
        c.commit()
        pipe.send("done")


def start(path, closed, committed):
    before = set(log(path))
    mine, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=begun, args=(theirs, path, closed, committed))
    process.start()
    assert mine.poll(WAIT)
    assert mine.recv() == "begun"
    return mine, process, set(log(path)) - before


def log(path):
    return [p.name for p in sorted(path.glob("log/*"))]


def test_what_a_dead_writer_without_a_rank_had_begun_is_freed_and_live_ones_lose_nothing(tmp_path):
    path = tmp_path / "run.dry"
    with dry.create(path) as c:
        c.create_variable("v", "i8", shape=SHAPE, steps=True)
    pipe, alive, living = start(path, closed=False, committed=0)
    with dry.open(path, "r+") as c, c.writer() as own:
        with own.step(3):
            own.put("v", np.full(SHAPE, 3, "i8"))
            mine = set(log(path)) - living
            left = {}
            for name, closed, committed in [("nothing", False, 0), ("closed", True, 0), ("shown", False, 2)]:
                _, process, left[name] = start(path, closed, committed)
                process.kill()
                process.join(WAIT)
            assert all(left.values())
            planned = c.gc(dry_run=True)
            report = c.gc()
            gone = {key.removeprefix("log/") for key in report.removed if key.startswith("log/")}
            assert gone == left["nothing"]
            assert planned.removed == report.removed
            assert set(log(path)) == living | mine | left["closed"] | left["shown"]
            assert c.gc().removed == {}
        # Closed data waits for a commit, whichever writer closed it.
        c.commit()
        assert c.steps == [0, 1, 3, 5]
        assert int(c["v"][5, 0, 0]) == 105
        assert c.gc().removed == {}
        pipe.send("go on")
        assert pipe.poll(WAIT)
        assert pipe.recv() == "done"
        alive.join(WAIT)
        c.refresh()
        assert [int(c["v"][s, 0, 0]) for s in c.steps] == [100, 101, 3, 105, 107]
        # Once its blocks are no longer visible, the dead writer's files are removed, too.
        with c.writer() as w:
            for step in (0, 1):
                with w.step(step, replace=True):
                    w.put("v", np.zeros(SHAPE, "i8"))
        c.commit()
        gone = {key.removeprefix("log/") for key in c.gc(keep=1).removed}
        assert left["shown"] <= gone
        assert [int(c["v"][s, 0, 0]) for s in c.steps] == [0, 0, 3, 105, 107]
    assert dry.open(path).verify().ok
