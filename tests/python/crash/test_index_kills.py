"""Processes killed while they index and sort values: every query equals NumPy's answer, before and after.

`DRYSTONE_LONG=1` kills two hundred times instead of a few.
"""

import os
from random import Random
from time import sleep

import drystone as dry
import numpy as np
from actors import PROCESSES, WAIT

KILLS = 200 if os.environ.get("DRYSTONE_LONG") == "1" else 8
N = 1 << 17
NAMES = ("energy", "x", "id")


def particles(seed):
    """Arrays of that many particles, with NaN and equal values."""
    rng = np.random.default_rng(seed)
    energy = rng.gamma(1.5, 1.0, N).astype("f4")
    energy[::1000] = np.nan
    energy[5::777] = 3.0
    return {"energy": energy, "x": rng.random(N).astype("f4"), "id": rng.permutation(N).astype("i8")}


def index_and_sort(pipe, path, seed):
    """Writes all members, indexes, sorts and drops them, until it is killed; reports each committed seed."""
    with dry.open(path, "r+") as c:
        while True:
            pipe.send(("writes", seed))
            with c.writer() as w:
                for name, values in particles(seed).items():
                    w.put(f"p/{name}", values)
            pipe.send(("wrote", seed))
            c.index("p/energy")
            c.sort("p", by="energy")
            pipe.send(("sorted", seed))
            if seed % 3 == 0:
                c.drop_index("p/energy")
                c.drop_sort("p", by="energy")
            if seed % 4 == 0:
                c.gc()
            seed += 1


def answers(c, data):
    """Compare counts, positions and values of some ranges with NumPy's."""
    for low, high in ((0.9999, 1.0), (0.4, 0.41), (0.0, 1.0)):
        least, most = np.nanquantile(data["energy"], (low, high)).astype("f4")
        with np.errstate(invalid="ignore"):
            hits = (data["energy"] >= least) & (data["energy"] <= most)
        q = c.query(f"p/energy >= {float(least)!r} & p/energy <= {float(most)!r}")
        assert q.count() == np.count_nonzero(hits)
        assert np.array_equal(q.coords()[:, 0], np.flatnonzero(hits))
        for name, found in zip(NAMES, q.values(*(f"p/{name}" for name in NAMES)), strict=True):
            assert np.array_equal(found, data[name][hits]), name


def test_killed_while_it_indexes_or_sorts_no_answer_changes(tmp_path):
    random = Random(7)
    path = tmp_path / "run.dry"
    with dry.create(path) as c:
        for name, values in particles(0).items():
            c.create_variable(f"p/{name}", values.dtype, values.shape, chunks=(1 << 15,))
            c[f"p/{name}"][:] = values
    seed = 0
    seen = set()
    for _ in range(KILLS):
        mine, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=index_and_sort, args=(theirs, path, seed + 1))
        process.start()
        theirs.close()
        for _ in range(random.randint(1, 7)):
            assert mine.poll(WAIT)
            act, number = mine.recv()
        sleep(random.uniform(0, 0.03))
        process.kill()
        process.join(WAIT)
        try:
            while True:
                act, number = mine.recv()
        except EOFError:
            pass
        seen.add(act)
        for lock in (path / "publish").glob("*.lock"):
            lock.unlink()
        with dry.open(path) as c:
            assert c.verify().ok
            energy = c["p/energy"][:]
            # If it was killed while writing, it may have committed or not; all members come from one commit.
            possible = {number} if act != "writes" else {number - 1, number}
            seed = next(
                (s for s in possible if np.array_equal(energy, particles(s)["energy"], equal_nan=True)), None
            )
            assert seed is not None, f"killed after {act} {number}"
            answers(c, particles(seed))
    assert len(seen) > 1, seen
    with dry.open(path, "r+") as c:
        c.index("p/energy")
        c.sort("p", by="energy")
        answers(c, particles(seed))
        c.gc(keep=1)
        answers(c, particles(seed))
        assert c.verify().ok
