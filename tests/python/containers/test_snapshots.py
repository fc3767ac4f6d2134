"""Snapshots never change; handles survive pickling, forks and threads."""

import copy
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import drystone as dry
import numpy as np
import pytest
from same_bits import commits_by_itself, in_child, same


@pytest.fixture
def filled(path):
    """A container with ten steps, each a commit."""
    with dry.create(path) as c:
        c.create_variable("T", "i4", shape=(100,), steps=True)
        with commits_by_itself(c) as w:
            for t in range(10):
                with w.step():
                    w.put("T", np.full(100, t, "i4"))
    return path


def test_every_commit_is_a_snapshot_that_reads_the_same_for_ever(filled):
    with dry.open(filled, "r+") as c:
        snapshots = c.snapshots
        assert snapshots == list(range(1, 12))
        assert c.snapshot == snapshots[-1]
        now = datetime.now(UTC)
        assert all(
            isinstance(s, int) and timedelta(0) <= now - s.time < timedelta(minutes=5) for s in snapshots
        )
        assert [s.time for s in snapshots] == sorted(s.time for s in snapshots)
        assert snapshots[0].version == 1
        assert str(snapshots[0]) == "1"
        old = c.at(snapshots[4])
        with c.writer(rank=0, nranks=1) as w, w.step(0):
            w.put("T", np.full(100, -1, "i4"))
        assert len(old["T"]) == 4
        assert old["T"][0, 0] == 0
        assert c["T"][0, 0] == -1
        assert old.refresh() is False
        assert old.steps == [0, 1, 2, 3]
        assert c.at(0).steps == []
        for act in (lambda: old.commit(), lambda: old.writer(), lambda: old.create_group("g")):
            with pytest.raises(dry.InvalidArgumentError, match="snapshot"):
                act()


@pytest.mark.parametrize("version", [99, 2**62])
def test_a_snapshot_that_is_not_there_is_not_found(filled, version):
    with dry.open(filled) as c, pytest.raises(dry.NotFoundError):
        c.at(version)


@pytest.mark.parametrize("version", [-1, 2**80, "1", 1.0])
def test_an_invalid_snapshot_is_refused(filled, version):
    with dry.open(filled) as c, pytest.raises(dry.InvalidArgumentError):
        c.at(version)


def test_a_reader_sees_what_is_new_when_it_refreshes(filled):
    with dry.open(filled) as reader, dry.open(filled, "r+") as c:
        T = reader["T"]
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("T", np.zeros(100, "i4"))
        assert len(T) == 10
        assert reader.refresh() is True
        assert len(T) == 11
        assert reader.refresh() is False


def test_variables_and_containers_pickle_at_their_snapshot(filled):
    with dry.open(filled, "r+") as c:
        kept = pickle.dumps((c["T"], c, c.snapshot, c.at(3)))
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("T", np.zeros(100, "i4"))
    T, again, snapshot, third = pickle.loads(kept)
    assert T.shape == (10, 100)
    same(T[:, 3], np.arange(10, dtype="i4"))
    assert again.mode == "r"
    assert again.snapshot == snapshot == 11
    assert snapshot.time is not None
    assert third.steps == [0, 1]
    assert T.container is again
    assert copy.copy(T)[2, 2] == 2


def test_a_pickle_of_a_replaced_container_is_refused(filled):
    with dry.open(filled) as c:
        kept = pickle.dumps(c)
    dry.create(filled, overwrite=True).close()
    with pytest.raises(dry.NotFoundError, match="replaced"):
        pickle.loads(kept)


def test_a_member_pickles(container):
    V = container.create_variable("p", [("x", "f4")], shape=(2,))
    assert pickle.loads(pickle.dumps(V["x"])).member == "x"


def test_a_forked_child_reads_and_writes_for_itself(filled):
    with dry.open(filled, "r+") as c:
        T = c["T"]
        same(T[3], np.full(100, 3, "i4"))
        w = c.writer(rank=0, nranks=1)

        def child():
            same(T[:, 5], np.arange(10, dtype="i4"))
            with pytest.raises(dry.InvalidArgumentError, match="parent process"):
                w.put("T", np.zeros(100, "i4"))
            with dry.open(filled, "r+") as mine, mine.writer() as own, own.step(20):
                own.put("T", np.ones(100, "i4"))

        in_child(child)
        c.commit()
        assert c.steps[-1] == 20
        same(T[20], np.ones(100, "i4"))
        with w.step():
            w.put("T", np.zeros(100, "i4"))
        w.close()


def test_large_parallel_reads_work_in_a_forked_child(path):
    whole = np.random.default_rng(0).random((8, 1 << 17))
    with dry.create(path, durability="memory") as c:
        V = c.create_variable("v", "f8", shape=whole.shape, transform="zstd:1")
        with c.writer() as w:
            w.put("v", whole)
        same(V[...], whole)
        in_child(lambda: same(V[...], whole))
        same(V[...], whole)


def test_threads_share_containers_and_writers(path):
    with dry.create(path, durability="memory") as c:
        V = c.create_variable("v", "i8", shape=(64, 1000), transform="shuffle,zstd:1")
        with c.writer() as w, ThreadPoolExecutor(8) as pool:
            rows = [np.full((1, 1000), i) for i in range(64)]
            list(pool.map(lambda i: w.put("v", rows[i], offset=(i, 0)), range(64)))
        with ThreadPoolExecutor(8) as pool:
            for i, row in enumerate(pool.map(lambda i: V[i], range(64))):
                same(row, rows[i][0])


def test_threads_with_writers_of_their_own_need_no_locks(path):
    with dry.create(path, durability="memory") as c:
        T = c.create_variable("T", "i8", shape=(4, 50), steps=True)

        def rank(r):
            with c.writer(rank=r, nranks=4) as w:
                for t in range(20):
                    with w.step():
                        w.put("T", np.full((1, 50), r * 100 + t), offset=(r, 0))

        stop = threading.Event()

        def commit():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", dry.DrystoneWarning)
                while not stop.is_set():
                    c.commit()

        committer = threading.Thread(target=commit)
        committer.start()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(rank, range(4)))
        stop.set()
        committer.join()
        c.commit()
        assert T.steps == list(range(20))
        same(T[:, :, 7], np.arange(20)[:, None] + np.arange(4)[None] * 100)


def test_other_threads_run_while_the_engine_works(path):
    ticks = 0
    done = threading.Event()

    def count():
        nonlocal ticks
        while not done.is_set():
            ticks += 1

    with dry.create(path, durability="memory") as c:
        V = c.create_variable("v", "f8", shape=(1 << 21,), transform="zstd:9")
        values = np.random.default_rng(0).random(1 << 21).round(3)
        with c.writer() as w:
            counter = threading.Thread(target=count)
            counter.start()
            before = ticks
            w.put("v", values)
            during = ticks - before
        before = ticks
        V[...]
        reading = ticks - before
        done.set()
        counter.join()
    assert during > 100
    assert reading > 10


def test_flush_marks_what_is_on_stable_storage(filled):
    with dry.open(filled, "r+") as c:
        assert c.flush() == int(c.snapshot)
        assert c.durability == "async"


def test_what_close_means(path):
    c = dry.create(path)
    V = c.create_variable("v", "f4", shape=(1,))
    w = c.writer()
    w.put("v", [1.0])
    c.close()
    c.close()
    assert c.closed
    assert w.closed
    with dry.open(path) as other:
        assert other["v"][0] == 1
    for act in (lambda: c.steps, lambda: c["v"], lambda: V[...], lambda: V.shape, lambda: c.attrs["a"], lambda: c.refresh(), lambda: c.writer(),
                lambda: c.snapshots, lambda: c.at(1), lambda: list(c.variables), lambda: c.verify(), lambda: c.recover(), lambda: "v" in c):  # fmt: skip
        with pytest.raises(dry.InvalidArgumentError, match="closed"):
            act()
    with pytest.raises(dry.InvalidArgumentError, match="closed"):
        w.put("v", [1.0])
    w.close()
    assert "closed" in repr(c)
    assert "closed" in repr(w)
