"""Publishers killed at any moment: readers see each array in its old or new state, and the next publication completes
it.

`DRYSTONE_LONG=1` kills two hundred times instead of a few.
"""

import os
import shutil
from pathlib import Path
from random import Random
from time import perf_counter, sleep

import drystone as dry
import h5py
import numpy as np
import pytest
import zarr
from actors import PROCESSES, WAIT

KILLS = 200 if os.environ.get("DRYSTONE_LONG") == "1" else 6
ROUND = 20
VARIABLES = [f"v{i:02}" for i in range(24)]
SHAPE = (96, 96)


def value(variable, step, generation):
    return VARIABLES.index(variable) * 1_000_000 + step * 1000 + generation


def write(path, variable, step, generation):
    with dry.open(path, "r+") as c, c.writer() as w:
        with w.step(step):
            w.put(variable, np.full(SHAPE, value(variable, step, generation), "i8"))
        c.commit()


def write_all(path, step, generation):
    with dry.open(path, "r+") as c, c.writer() as w:
        with w.step(step):
            for variable in VARIABLES:
                w.put(variable, np.full(SHAPE, value(variable, step, generation), "i8"))
        c.commit()


def publisher(pipe, path, form):
    with dry.open(path, "r+") as c:
        pipe.send("begin")
        c.publish(progress=None, format=form)
        pipe.send("end")


def published(path, variable, consolidated):
    root = zarr.open_group(path / "zarr", mode="r", use_consolidated=consolidated)
    return root[variable][...]


def shards(path, variable):
    """The first step of each existing shard, and its file."""
    steps = zarr.open_array(path / "zarr" / variable, mode="r").shards[0]
    return [(int(f.parts[-3]) * steps, f) for f in path.glob(f"zarr/{variable}/c/*/0/0")]


def leftovers(path):
    return [f for f in path.rglob("*") if f.name.startswith("~") or f.suffix == ".lock"]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")
@pytest.mark.parametrize(("form", "kills"), [("zarr", KILLS), ("zarr+hdf5", KILLS // 2)])
def test_a_publisher_killed_anywhere_shows_old_or_new_and_the_next_completes(tmp_path, form, kills):
    random = Random(11)
    for begun in range(0, kills, ROUND):
        # Every kill adds a step, and all steps are read after each: many short histories cost less than a long one.
        kill_publishers(tmp_path / f"run{begun}.dry", random, form, min(ROUND, kills - begun))
        shutil.rmtree(tmp_path / f"run{begun}.dry")


def kill_publishers(path, random, form, kills):
    """One container, whose publishers are killed this many times."""
    with dry.create(path) as c:
        for variable in VARIABLES:
            c.create_variable(variable, "i8", shape=SHAPE, steps=True, transform="zstd:1")
    # The content of each variable, step by step: now, and at every publication since the last one that completed. A
    # killed one may have written any of its shards.
    states = [{variable: [] for variable in VARIABLES}]
    now = {variable: [] for variable in VARIABLES}
    duration, killed, generation = 0.2, 0, 0
    while killed < kills:
        generation += 1
        for variable in VARIABLES:
            now[variable].append(generation)
        write_all(path, len(now["v00"]) - 1, generation)
        changed = random.choice(VARIABLES)
        step = random.randrange(len(now[changed]))
        now[changed][step] = generation
        write(path, changed, step, generation)

        mine, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=publisher, args=(theirs, path, form))
        process.start()
        assert mine.poll(WAIT)
        assert mine.recv() == "begin"
        begin = perf_counter()
        if generation > 1:
            sleep(random.uniform(0, 1.2 * duration))
            process.kill()
        process.join(WAIT)
        ended = mine.poll() and mine.recv() == "end"
        if ended:
            duration = duration / 2 + min(perf_counter() - begin, 1.0) / 2
            states = []
        else:
            killed += 1
        states.append({variable: list(steps) for variable, steps in now.items()})
        for consolidated in (True, False):
            for variable in VARIABLES:
                seen = published(path, variable, consolidated)
                before, after = states[0][variable], now[variable]
                assert len(before) <= len(seen) <= len(after)
                steps = [int(seen[t].flat[0]) for t in range(len(seen))]
                assert (seen == seen[:, :1, :1]).all()
                known = [[value(variable, t, g) for t, g in enumerate(state[variable])] for state in states]
                assert steps in [k[: len(seen)] for k in known], (variable, consolidated)
                for begin, shard in shards(path, variable) if form == "zarr+hdf5" else ():
                    with h5py.File(shard, "r") as f:
                        part = [int(step.flat[0]) for step in f[variable][...]]
                    assert part in [k[begin : begin + len(part)] for k in known], (variable, begin)
        if random.random() < 0.3:
            with dry.open(path, "r+") as c:
                c.publish(progress=None)
                assert all(a.written == 0 for a in c.publish(progress=None).arrays)
            states = [{variable: list(steps) for variable, steps in now.items()}]
            assert leftovers(path) == []
            for variable in VARIABLES:
                seen = published(path, variable, True)
                assert [int(s.flat[0]) for s in seen] == [
                    value(variable, t, g) for t, g in enumerate(now[variable])
                ]
    with dry.open(path, "r+") as c:
        c.publish(progress=None)
    assert leftovers(path) == []
    objects = {str(f.relative_to(path / "zarr")) for f in Path(path / "zarr").rglob("*") if f.is_file()}
    arrays = {variable: zarr.open_array(path / "zarr" / variable, mode="r") for variable in VARIABLES}
    shards_of = [(v, n) for v, a in arrays.items() for n in range(-(-len(now[v]) // a.shards[0]))]
    assert objects == {"zarr.json"} | {f"{v}/zarr.json" for v in VARIABLES} | {
        name for v, n in shards_of for name in (f"{v}/c/{n}/0/0", f"{v}/.drystone/statistics/{n}.0.0")
    }
