"""Collections killed at any moment: what a retained snapshot needs stays, and the next collection completes what is missing.

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
        assert len(list((path / "log").glob("*.seg"))) == STEPS
        with pytest.raises(dry.NotFoundError, match="expired"):
            c.at(newest)
        assert c.gc(dry_run=True).removed == {}
