"""Values that overlap within one commit: those that the program wrote later are the newer ones."""

import itertools
import subprocess
import sys
import time

import drystone as dry
import numpy as np
import pytest

ROUNDS = 6  # the order of writers without ranks was random


def by_writer(c, values, **ranks):
    with c.writer(**ranks) as w:
        if c["T"].has_steps:
            with w.step(2):
                w.put("T", values)
        else:
            w.put("T", values)


def ranked(c, values):
    by_writer(c, values, rank=0, nranks=1)


def replaced(c, values):
    with c.writer() as w, w.step(2, replace=True):
        w.put("T", values)


def assigned(c, values):
    if c["T"].has_steps:
        c["T"][2] = values
    else:
        c["T"][:] = values


def released(c, values):
    region = c["T"].map(step=2 if c["T"].has_steps else None, offset=(0,), count=(4,), mode="w")
    region.array[...] = values
    region.release()


WAYS = {
    "writer": by_writer,
    "ranked": ranked,
    "assigned": assigned,
    "released": released,
    "replaced": replaced,
}
PAIRS = [(a, b, steps) for a, b in itertools.product(WAYS, WAYS) for steps in (True, False)]


@pytest.mark.parametrize(("first", "second", "steps"), [p for p in PAIRS if p[2] or "replaced" not in p])
def test_what_is_written_later_is_newer(tmp_path, first, second, steps):
    for number in range(ROUNDS):
        with dry.create(tmp_path / f"{number}.dry", durability="memory") as c:
            c.create_variable("T", "i8", (4,), steps=steps)
            WAYS[first](c, np.full(4, 1))
            WAYS[second](c, np.full(4, 2))
            c.commit()
            shown = c["T"][2] if steps else c["T"][...]
            assert np.array_equal(shown, np.full(4, 2))


def test_interleaved_steps_of_two_writers_keep_the_order_of_closing(tmp_path):
    for number in range(ROUNDS):
        with dry.create(tmp_path / f"{number}.dry", durability="memory") as c:
            c.create_variable("T", "i8", (4,), steps=True)
            with c.writer() as a, c.writer() as b:
                for value, w in enumerate((a, b, a, b, b, a)):
                    with w.step(0):
                        w.put("T", np.full(4 - value // 2, value), offset=(0,))
            c.commit()
            assert c["T"][0].tolist() == [5, 5, 3, 1]


def test_a_step_that_an_earlier_program_left_is_older(tmp_path):
    for number in range(ROUNDS):
        path = tmp_path / f"{number}.dry"
        with dry.create(path, durability="memory") as c:
            c.create_variable("T", "i8", (4,), steps=True)
            by_writer(c, np.full(4, 1))
        with dry.open(path, "r+") as c:
            by_writer(c, np.full(4, 2))
            c.commit()
            assert np.array_equal(c["T"][2], np.full(4, 2))


def test_a_step_that_ranks_close_again_does_not_date_their_first_values_anew(tmp_path):
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("T", "i4", (4,), steps=True, fill_value=-1)
        ranks = [c.writer(rank=rank, nranks=2) for rank in range(2)]
        free = c.writer()

        def put(w, value, offset, count):
            with w.step(0):
                w.put("T", np.full(count, value, "i4"), offset=offset)

        put(ranks[0], 1, 0, 2)
        put(ranks[1], 1, 2, 2)
        put(free, 2, 0, 4)
        put(ranks[0], 3, 0, 1)
        with ranks[1].step(0):
            pass
        for w in (*ranks, free):
            w.close()
        c.commit()
        assert c["T"][0].tolist() == [3, 2, 2, 2]


def test_the_end_of_a_batch_commits_what_was_assigned_in_it(tmp_path):
    """Symptom: assigned values waited for the next read, behind attributes that were set after them."""
    with dry.create(tmp_path / "c.dry") as c, dry.open(tmp_path / "c.dry") as reader:
        c.create_variable("x", "i4", (4,), fill_value=-1)
        reader.refresh()
        before = len(reader.snapshots)
        with c.batch():
            c["x"][0:2] = 1
            c["x"][2:4] = 2
        reader.refresh()
        assert reader["x"][...].tolist() == [1, 1, 2, 2]
        assert len(reader.snapshots) == before + 1
        with c.batch():
            c["x"][0:2] = 3
            c["x"].attrs["k"] = 1
        reader.refresh()
        assert reader["x"][...].tolist() == [3, 3, 2, 2]
        assert reader["x"].attrs["k"] == 1
        with pytest.raises(ZeroDivisionError), c.batch():
            c["x"].attrs["k"] = 2 // 0
        reader.refresh()
        assert reader["x"].attrs["k"] == 1


# Its commit fails after the values are closed, and it dies.
CLOSES_AND_DIES = """
import os, sys, drystone as dry, numpy as np
path = sys.argv[1]
c = dry.open(path, "r+")
w = c.writer()
w.put("T", np.full(4, 10))
os.rename(path + "/manifest", path + "/away")
open(path + "/manifest", "x").close()
try:
    w.close()
except dry.errors.DrystoneError:
    os.remove(path + "/manifest")
    os.rename(path + "/away", path + "/manifest")
    os._exit(7)
"""


@pytest.mark.parametrize("later", ["commit", "recover", "assign", "step"])
@pytest.mark.parametrize("shown_by", ["read", "commit", "flush", "writer", "assigned before"])
def test_values_without_step_that_a_dead_program_left_are_older(tmp_path, shown_by, later):
    """Symptom: the next commit of all writers took them, and the newer values that were committed before were gone."""
    path = tmp_path / "run.dry"
    with dry.create(path) as c:
        c.create_variable("T", "i8", (4,))
        c.create_variable("S", "i8", (4,), steps=True)
    with dry.open(path, "r+") as c:
        if shown_by == "assigned before":
            c["T"][...] = 5
            assert (c["T"][...] == 5).all()
        died = subprocess.run([sys.executable, "-c", CLOSES_AND_DIES, str(path)], check=False)
        assert died.returncode == 7
        if shown_by == "assigned before":
            time.sleep(1.1)
        if shown_by == "writer":
            with c.writer() as w:
                w.put("T", np.full(4, 20))
            c.commit()
        else:
            c["T"][...] = 20
        if shown_by == "commit":
            c.commit()
        if shown_by == "flush":
            c.flush()
        assert (c["T"][...] == 20).all()
    with dry.open(path, "r+") as c:
        if later == "commit":
            c.commit()
        elif later == "recover":
            c.recover(adopt=True)
        elif later == "assign":
            c["S"][0] = 1
        else:
            with c.writer(rank=0, nranks=1) as w, w.step(0):
                w.put("S", np.full(4, 1))
        assert (c["T"][...] == 20).all()
    with dry.open(path) as c:
        assert (c["T"][...] == 20).all()


def test_assignments_know_the_steps_that_wait_of_other_variables(tmp_path):
    """Symptom: `b[-1]` was an earlier step, and `b[...]` only some steps, while steps of `a` waited."""
    with dry.create(tmp_path / "run.dry") as c:
        a, b = (c.create_variable(name, "f8", (2,), steps=True) for name in "ab")
        a[0:3] = 1
        b[0:3] = 1
        c.commit()
        a[3:5] = 2
        b[...] = 7
        b[-1] = 9
        assert b[...][:, 0].tolist() == [7, 7, 7, 7, 9]
        a.append(np.full(2, 5.0))
        b[-1] = 4
        assert b[...][:, 0].tolist() == [7, 7, 7, 7, 9, 4]
        assert a[...][:, 0].tolist() == [1, 1, 1, 2, 2, 5]


def test_what_a_batch_would_cut_is_refused(tmp_path):
    """Symptom: values that were put after a `resize` of the batch were cut by it."""
    with dry.create(tmp_path / "run.dry") as c:
        a = c.create_variable("a", "f8", (None,))
        a[0:4] = [1, 2, 3, 4]
        c.commit()
        with c.batch():
            a[0] = 5
            a.resize([1])
            with pytest.raises(dry.InvalidArgumentError, match="the open batch cuts"):
                a.append([7.0, 8.0])
            with pytest.raises(dry.InvalidArgumentError, match="the open batch cuts"):
                a[0:2] = 8
        assert a[...].tolist() == [5]
        a.append([7.0, 8.0])
        assert a[...].tolist() == [5, 7, 8]


def test_texts_and_lists_in_members_of_single_records_with_steps(tmp_path):
    """Symptom: "'str' object has no attribute 'shape'"."""
    record = np.dtype([("n", "i4"), ("name", str), ("hits", dry.ragged("f4"))])
    with dry.create(tmp_path / "run.dry") as c:
        v = c.create_variable("v", record, (), steps=True)
        v["n"][0:3] = [1, 2, 3]
        v["name"][0] = "q"
        v["name"][1:3] = np.array(["r", "s"], object)
        v["hits"][2] = np.array([1, 2], "f4")
        assert list(v["name"][...]) == ["q", "r", "s"]
        assert v["n"][...].tolist() == [1, 2, 3]
        assert [list(one) for one in v["hits"][...]] == [[], [], [1, 2]]
