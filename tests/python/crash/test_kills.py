"""Processes killed at any moment: promised data is visible, other data is invisible or complete, and work can
continue.

`DRYSTONE_LONG=1` kills hundreds of times instead of some.
"""

import os
import warnings
from random import Random
from time import sleep

import actors
import drystone as dry
import pytest
from actors import PUTS, Actor
from same_bits import same

LONG = os.environ.get("DRYSTONE_LONG") == "1"
ROUNDS = 84 if LONG else 3
COMMITTERS = 100 if LONG else 6
NRANKS = 3


def alone(pipe, path):
    """A closed step is a promise, and so is the result of a flush."""
    with dry.open(path, "r+") as c, c.writer(rank=0, nranks=1) as w:
        while True:
            with w.step() as step:
                actors.put_all(w, step, 0)
            pipe.send(("committed", step))
            if step % 4 == 3:
                c.flush()
                pipe.send(("committed", step))


def without_ranks(pipe, path):
    with dry.open(path, "r+") as c, c.writer() as w:
        for step in range(100_000):
            with w.step(step):
                actors.put_all(w, step, 0)
            pipe.send(("closed", step))
            if step % 2:
                c.commit()
                pipe.send(("committed", step))


def one_rank(pipe, path, rank):
    with dry.open(path, "r+") as c, c.writer(rank=rank, nranks=NRANKS) as w:
        for step in range(100_000):
            with w.step(step):
                actors.put_all(w, step, rank)
            pipe.send(("closed", step))


def committer(pipe, path):
    warnings.simplefilter("ignore", dry.DrystoneWarning)
    last = -1
    with dry.open(path, "r+") as c:
        while True:
            c.commit()
            if c.steps and c.steps[-1] != last:
                last = c.steps[-1]
                pipe.send(("committed", last))


CREWS = {
    "alone": [(alone,)],
    "without ranks": [(without_ranks,)],
    "ranks": [(committer,), *((one_rank, rank) for rank in range(NRANKS))],
}


@pytest.mark.parametrize("durability", ["async", "durable"])
@pytest.mark.parametrize("crew", CREWS)
def test_what_was_promised_survives_kills_and_another_number_of_ranks_goes_on(tmp_path, crew, durability):
    killed = promised = 0
    # On a busy machine the first few may all be killed before their first promise.
    for number in range(20 * ROUNDS):
        if number >= ROUNDS and promised:
            break
        random = Random(f"{crew} {durability} {number}")
        path = tmp_path / f"{number}.dry"
        actors.create(path, durability)
        reports = killed_at_random(path, CREWS[crew], random)
        nranks = NRANKS if crew == "ranks" else 1
        promised += what_is_visible_is_right(path, reports, nranks)
        go_on(path, reports, nranks, random.choice([True, None, "discard"]))
        killed += len(reports)
    print(f"{killed} processes killed, {promised} steps promised")
    assert promised > 0


def killed_at_random(path, crew, random):
    """The messages of each process until it was killed."""
    crew = [Actor(role, path, *arguments) for role, *arguments in crew]
    random.choice(crew).pipe.poll(actors.WAIT)
    sleep(random.random() * 0.08)
    random.shuffle(crew)
    for actor in crew:
        actor.process.kill()
    return [actor.reports() for actor in crew]


def last(reports, kind):
    return max((step for found in reports for what, step in found if what == kind), default=-1)


def what_is_visible_is_right(path, reports, nranks):
    """A reader after the crash sees all that was promised, and only complete steps."""
    with dry.open(path) as c:
        count = len(c.steps)
        assert c.steps == list(range(count))
        promised = last(reports, "committed") + 1
        assert count >= promised
        for step in c.steps:
            same(c["T"][step], actors.expected(step, nranks))
        report = c.verify()
        assert report.ok, str(report)
    return promised


def go_on(path, reports, nranks, how):
    """Recover from the dead run; a new run with another number of ranks overwrites its region."""
    with dry.open(path, "r+") as c:
        before = len(c.steps)
        report = c.recover(discard=True) if how == "discard" else c.recover(adopt=how)
        if how == "discard":
            assert report.adopted == ()
            assert len(c.steps) == before
        else:
            # A step closed by every rank counts as committed.
            closed = [last([found], "closed") for found in reports if any(w == "closed" for w, _ in found)]
            if len(closed) == nranks:
                assert len(c.steps) > min(closed)
        dead = len(c.steps)
        assert c.steps == list(range(dead))
        writers = [c.writer(rank=rank, nranks=nranks + 1) for rank in range(nranks + 1)]
        for step in range(dead, dead + 2):
            for rank, w in enumerate(writers):
                with w.step(step):
                    actors.put_all(w, step, rank, salt=1)
        for w in writers:
            w.close()
        assert c.commit().incomplete == ()
    with dry.open(path, "r+") as c:
        assert not c.commit().changed
        assert c.steps == list(range(dead + 2))
        for step in range(dead):
            same(c["T"][step], actors.expected(step, nranks))
        for step in range(dead, dead + 2):
            same(c["T"][step], actors.expected(step, nranks + 1, salt=1))
            assert set(actors.replay(c, step)[1]) == {(1, rank) for rank in range(nranks + 1)}
        assert c.verify().ok


@pytest.mark.parametrize("durability", ["async", "durable"])
def test_committers_are_killed_one_after_another_and_nothing_is_lost(path, durability):
    actors.create(path, durability)
    random = Random(durability)
    steps = 0
    with dry.open(path, "r+") as c, c.writer() as w:
        for _ in range(COMMITTERS):
            actor = Actor(committer, path)
            for _ in range(random.randint(5, 60)):
                with w.step(steps):
                    actors.put_all(w, steps, 0)
                steps += 1
            actor.pipe.poll(actors.WAIT)
            sleep(random.random() * 0.02)
            promised = last([actor.kill()], "committed")
            c.refresh()
            assert c.steps == list(range(len(c.steps)))
            assert len(c.steps) > promised >= 0
        c.commit()
        assert c.steps == list(range(steps))
        for step in range(steps):
            same(c["T"][step], actors.expected(step, 1))
            assert actors.replay(c, step)[1] == {(0, 0): list(range(PUTS))}
        assert c.verify().ok
    print(f"{COMMITTERS} committers killed in {steps} steps")
