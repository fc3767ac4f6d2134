"""Processes killed while they pack manifests: every snapshot keeps its content, and few files are left.

`DRYSTONE_LONG=1` kills two hundred times instead of a few.
"""

import os
from random import Random
from time import sleep

import drystone as dry
import numpy as np
from actors import PROCESSES, WAIT

KILLS = 200 if os.environ.get("DRYSTONE_LONG") == "1" else 6


def assign(pipe, path, first):
    """Commits one number after another, until it is killed; reports each committed one."""
    with dry.open(path, "r+") as c:
        v = c["v"]
        for n in range(first, 1 << 30):
            v[...] = n
            pipe.send((n, int(c.commit())))
            if n % 40 == 0:
                c.gc()


def files(path):
    return [file for file in path.rglob("*") if file.is_file()]


def test_a_writer_killed_while_it_packs_loses_no_snapshot(tmp_path):
    random = Random(11)
    path = tmp_path / "run.dry"
    with dry.create(path, durability="durable") as c:
        c.create_variable("v", "i8", (16,))
    said = {}
    reader = dry.open(path)
    for _ in range(KILLS):
        mine, theirs = PROCESSES.Pipe()
        first = max(said, default=-1) + 1
        process = PROCESSES.Process(target=assign, args=(theirs, path, first))
        process.start()
        for _ in range(random.randint(30, 90)):
            assert mine.poll(WAIT)
            n, version = mine.recv()
            said[n] = version
        sleep(random.uniform(0, 0.02))
        process.kill()
        process.join(WAIT)
        theirs.close()
        try:
            while mine.poll():
                n, version = mine.recv()
                said[n] = version
        except EOFError:
            pass
        for lock in (path / "publish").glob("*.lock"):
            lock.unlink()
        with dry.open(path) as c:
            assert c.verify().ok
            newest = max(said)
            assert c["v"][0] in (newest, newest + 1), "the last one may have been killed before it told"
            for n in random.sample(sorted(said), min(20, len(said))):
                assert np.array_equal(c.at(said[n])["v"][...], np.full(16, n))
        reader.refresh()
        assert reader["v"][0] >= newest
    assert len(said) >= 30 * KILLS
    with dry.open(path, "r+") as c:
        c.gc()
        assert c.verify().ok
    assert len([file for file in files(path) if file.parent.name == "manifest"]) <= 24
    reader.close()
