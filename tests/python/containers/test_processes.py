"""Many processes at once: writers, readers that follow them, committers, creators."""

import subprocess
import sys
import warnings

import actors
import drystone as dry
import numpy as np
import pytest
from actors import PROCESSES, PUTS, Actor
from same_bits import commits_by_itself, in_child, same

WRITERS = 8
READERS = 4
STEPS = 10
AHEAD = 2
CREATORS = 12


def test_readers_follow_eight_ranks_and_see_only_whole_steps(path):
    """Check that a snapshot, once seen, always reads the same."""
    actors.create(path)
    c, seen = follow(path, ranked=True)
    with c:
        assert c.steps == list(range(STEPS))
        for step in range(STEPS):
            same(c["T"][step], actors.expected(step, WRITERS))
            whole(c, step, range(WRITERS))
        assert all(steps == sorted(steps) for steps in seen)
        assert c.verify().ok


def test_readers_follow_eight_writers_without_ranks_and_see_what_each_closed_as_a_whole(path):
    actors.create(path)
    c, seen = follow(path, ranked=False)
    with c:
        assert c.steps == list(range(STEPS))
        for step in range(STEPS):
            whole(c, step, range(WRITERS))
        assert all(steps == sorted(steps) for steps in seen)
        assert c.verify().ok


def follow(path, ranked):
    """Eight writers, two committers and four readers at once. Returns the container after the last commit, and the
    number of process groups that each reader saw over time.

    Writers stay only a limited number of steps ahead of the first reader, so it sees the container grow.
    """
    ready, done = PROCESSES.Barrier(WRITERS + READERS + 2), PROCESSES.Event()
    pace = [PROCESSES.Semaphore(AHEAD) for _ in range(WRITERS)]
    nranks = WRITERS if ranked else None
    readers = [Actor(reader, path, ready, done, nranks, [] if i else pace) for i in range(READERS)]
    committers = [Actor(committer, path, ready, done) for _ in range(2)]
    writers = [Actor(writer, path, ready, pace, who, nranks) for who in range(WRITERS)]
    try:
        for actor in writers:
            actor.finish()
    finally:
        done.set()
    assert sum(sum(actor.finish()) for actor in committers) > 0
    c = dry.open(path, "r+")
    c.commit()
    seen = [actor.finish()[0] for actor in readers]
    assert len(set(seen[0])) >= STEPS // AHEAD
    return c, seen


def writer(pipe, path, ready, pace, who, nranks):
    ranks = {} if nranks is None else {"rank": who, "nranks": nranks}
    with dry.open(path, "r+") as c, c.writer(**ranks) as w:
        ready.wait(actors.WAIT)
        for step in range(STEPS):
            assert pace[who].acquire(timeout=actors.WAIT)
            with w.step(step):
                actors.put_all(w, step, who)


def committer(pipe, path, ready, done):
    warnings.simplefilter("ignore", dry.DrystoneWarning)
    made = 0
    with dry.open(path, "r+") as c:
        ready.wait(actors.WAIT)
        while not done.is_set():
            made += c.commit().changed
    pipe.send(made)


def reader(pipe, path, ready, done, nranks, pace):
    kept, groups = {}, []
    with dry.open(path) as c:
        ready.wait(actors.WAIT)
        last = False
        while not last:
            last = done.is_set()
            more = -len(c.steps)
            c.refresh()
            more += len(c.steps)
            before = int(c.snapshot)
            groups.append(check(c, nranks))
            assert int(c.snapshot) == before
            if before not in kept:
                kept[before] = c.at(before), c["T"][...].tobytes()
            for each in pace * more:
                each.release()
        for old, values in kept.values():
            assert old["T"][...].tobytes() == values
    pipe.send(groups)


def check(c, nranks):
    """Check that everything visible is complete and correct; returns the number of process groups."""
    groups = 0
    for step in c.steps:
        array, puts = actors.replay(c, step)
        assert all(found == list(range(PUTS)) for found in puts.values()), puts
        if nranks is not None:
            assert sorted(puts) == [(0, rank) for rank in range(nranks)]
            array = actors.expected(step, nranks)
        same(c["T"].read(step=step), array)
        groups += len(puts)
    return groups


def whole(c, step, who):
    """Check that every put of these is there once, and that the newest one shows where they overlap."""
    array, puts = actors.replay(c, step)
    assert puts == {(0, each): list(range(PUTS)) for each in who}
    same(c["T"].read(step=step), array)


def test_two_committers_at_once_lose_nothing_and_repeat_nothing(path):
    actors.create(path, durability="memory")
    ready, rounds = PROCESSES.Barrier(2), 40
    pair = [Actor(writes_and_commits, path, ready, who, rounds) for who in range(2)]
    versions = [actor.finish() for actor in pair]
    with dry.open(path) as c:
        assert c.steps == list(range(rounds))
        for step in range(rounds):
            whole(c, step, range(2))
        last = int(c.snapshot)
        # Commits are history: their numbers rise without a gap, and each snapshot keeps its content.
        assert [int(s) for s in c.snapshots] == list(range(1, last + 1))
        assert last <= 1 + 2 * rounds
        for who, of_one in enumerate(versions):
            assert of_one == sorted(of_one)
            for step, version in enumerate(of_one):
                assert actors.replay(c.at(version), step)[1][0, who] == list(range(PUTS))


def writes_and_commits(pipe, path, ready, who, rounds):
    with dry.open(path, "r+") as c, c.writer() as w:
        for step in range(rounds):
            with w.step(step):
                actors.put_all(w, step, who)
            ready.wait(actors.WAIT)
            pipe.send(int(c.commit()))


def test_a_forked_process_writes_with_a_writer_of_its_own_and_not_with_its_parents(path):
    actors.create(path)
    with dry.open(path, "r+") as c:
        parents = c.writer()
        step = parents.step(0)
        step.__enter__()
        actors.put_all(parents, 0, 0)

        def child(who):
            for act in (
                lambda: parents.put("T", np.zeros(actors.SHAPE, "i8")), lambda: parents.flush(),
                lambda: step.__exit__(None, None, None), lambda: parents.step(1).__enter__(),
            ):  # fmt: skip
                with pytest.raises(dry.InvalidArgumentError, match="parent process"):
                    act()
            own = c.writer()
            with own.step(0):
                actors.put_all(own, 0, who)
            own.close()

        for who in (1, 2, 3):
            in_child(lambda who=who: child(who))
        step.__exit__(None, None, None)
        parents.close()
        c.commit()
        whole(c, 0, range(4))


def test_many_processes_create_the_same_variable_and_all_succeed(path):
    dry.create(path).close()
    assert created(path, [("v/same", (3, 4))] * CREATORS) == ["created"] * CREATORS
    with dry.open(path) as c:
        assert list(c.variables) == ["v/same"]
        assert c["v/same"].shape == (3, 4)


def test_of_many_processes_that_create_different_variables_of_one_name_one_wins(path):
    dry.create(path).close()
    outcomes = created(path, [("v", (number + 1,)) for number in range(CREATORS)])
    assert sorted(set(outcomes)) == ["ConflictError", "created"]
    assert outcomes.count("created") == 1
    with dry.open(path, "r+") as c:
        assert c["v"].shape == (outcomes.index("created") + 1,)
        with commits_by_itself(c) as w:
            w.put("v", np.ones(c["v"].shape, "f4"))
        same(c["v"][...], np.ones(c["v"].shape, "f4"))


def test_many_processes_create_variables_of_their_own_and_all_are_there(path):
    dry.create(path).close()
    names = [f"group/v{number:02}" for number in range(CREATORS)]
    assert created(path, [(name, (2,)) for name in names]) == ["created"] * CREATORS
    with dry.open(path) as c:
        assert list(c.variables) == names


def created(path, wanted):
    """The results of creating all of these at the same time, each in its own process."""
    ready = PROCESSES.Barrier(len(wanted))
    crowd = [Actor(creator, path, ready, name, shape) for name, shape in wanted]
    return [actor.finish()[0] for actor in crowd]


def creator(pipe, path, ready, name, shape):
    with dry.open(path, "r+") as c:
        ready.wait(actors.WAIT)
        try:
            c.create_variable(name, "f4", shape=shape)
        except dry.ConflictError:
            pipe.send("ConflictError")
        else:
            pipe.send("created")


def ahead(pipe, path, rank, nranks, steps, commits):
    """README's loop: every rank reports that it has closed the step; rank 0 commits after all have. The others do not
    wait for the commit."""
    warnings.simplefilter("error", dry.DrystoneWarning)
    with dry.open(path, "r+") as c, c.writer(rank=rank, nranks=nranks) as w:
        for step in range(steps):
            with w.step(step):
                actors.put_all(w, step, rank)
            if not commits:
                pipe.send(step)
                continue
            for _ in range(nranks - 1):
                commits.get(timeout=actors.WAIT)
            c.commit()
            assert c.steps[-1] == step


def test_ranks_that_run_ahead_of_the_one_that_commits_are_no_reason_to_warn(path):
    """Symptom: README's loop for MPI warned in every run that rank 0 had not closed steps, though all went well.
    Cause: each commit warned about every step that some rank had not closed, and ranks that do not commit are ahead
    of the one that does. Here they have closed all steps before it commits the first, and a warning is an error in
    each process."""
    actors.create(path)
    others = [Actor(ahead, path, rank, 4, STEPS, None) for rank in (1, 2, 3)]
    left = [step for actor in others for step in actor.finish()]
    with PROCESSES.Manager() as manager:
        queue = manager.Queue()
        for step in sorted(left):
            queue.put(step)
        Actor(ahead, path, 0, 4, STEPS, queue).finish()
    with dry.open(path) as c:
        assert c.steps == list(range(STEPS))
        same(c["T"][STEPS - 1], actors.expected(STEPS - 1, 4))


def test_a_step_that_the_committing_process_has_left_and_others_have_not_is_warned_of(path):
    """Also if earlier steps become visible at the same time: a caller that does not wait for the other ranks would
    miss the step."""
    actors.create(path)
    Actor(ahead, path, 1, 2, 2, None).finish()
    with dry.open(path, "r+") as c, c.writer(rank=0, nranks=2) as w:
        for step in range(3):
            with w.step(step):
                actors.put_all(w, step, 0)
        with pytest.warns(dry.DrystoneWarning, match="step 2 of run 0 is not visible: rank 1 has not"):
            done = c.commit()
        assert done.changed
        assert c.steps == [0, 1]
    # Another process, without a writer: either nothing becomes visible, or a later step does.
    with dry.open(path, "r+") as c, pytest.warns(dry.DrystoneWarning, match=r"step 2 .* rank 1 has not"):
        c.commit()


def test_a_step_that_later_ones_have_overtaken_is_warned_of(container):
    container.create_variable("v", "i4", (2,), steps=True)
    with dry.open(container.path, "r+") as other:
        ranks = [other.writer(rank=r, nranks=2) for r in range(2)]
        for rank, steps in enumerate([(0, 1, 2, 3), (0, 2)]):
            for step in steps:
                with ranks[rank].step(step):
                    ranks[rank].put("v", [rank], offset=rank)
        with pytest.warns(dry.DrystoneWarning) as warned:
            done = container.commit()
        assert [one.step for one in done.incomplete] == [1, 3]
        assert [str(w.message).partition(" of run")[0] for w in warned] == ["step 1"]
        for writer in ranks:
            writer.close()


def test_a_child_of_a_fork_beside_an_assignment_reads(tmp_path):
    """Symptom: the child waited for ever for the thread that assigned, which it does not have."""
    program = """
import os, sys, threading, time, numpy as np, drystone as dry
c = dry.create(sys.argv[1])
small = c.create_variable("small", data=np.arange(4))
large = c.create_variable("large", "i8", (1 << 22,))
c.commit()
values, begun = np.arange(1 << 22), threading.Event()
def assign():
    begun.set()
    large[...] = values
thread = threading.Thread(target=assign)
thread.start()
begun.wait()
time.sleep(0.002)
child = os.fork()
if child == 0:
    os._exit(0 if small[3] == 3 else 1)
thread.join()
assert large[5] == 5
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    for number in range(3):
        arguments = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / f"{number}.dry")]
        done = subprocess.run(arguments, timeout=60, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
