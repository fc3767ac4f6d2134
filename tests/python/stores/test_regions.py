"""Regions that are mapped, locked and released, in one process and on a server: which values are visible when."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from server_rig import Server, served

LONG = os.environ.get("DRYSTONE_LONG") == "1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("server"), more='[limits]\nlease = "1s"\n') as server:
        yield server


@pytest.fixture(params=["local", "server"])
def place(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> str:
    """A new container with two variables: in a folder, or on a server."""
    name = f"{request.node.name.replace('[', '-').replace(']', '')}.dry"
    url = str(tmp_path / name) if request.param == "local" else f"{server.unix}/scratch/{name}"
    with dry.create(url) as c:
        c.create_variable("T", "f8", shape=(8, 8), steps=True, fill_value=-1)
        c.create_variable("mask", "i4", shape=(6,))
    return url


def test_a_released_region_is_what_a_commit_makes_visible(place: str) -> None:
    with dry.open(place, "r+") as c:
        T = c["T"]
        r = T.map(step=0, offset=(2, 0), count=(4, 8), mode="w")
        assert r.array.shape == (4, 8)
        with r.lock("w"):
            assert r.fence is not None
            r.array[...] = np.arange(32.0).reshape(4, 8)
        assert r.fence is None
        r.lock("w")
        r.array[0] = 7
        transfer = r.release(level="node")
        assert transfer.done
        assert transfer.level == "node"
        c.commit()
        got = T[0]
        assert (got[2] == 7).all()
        assert np.array_equal(got[3:6], np.arange(32.0).reshape(4, 8)[1:])
        assert (got[:2] == -1).all()
        with c["mask"].map(mode="rw") as m:
            m.array[...] = range(6)
        m.release().wait(30)
        c.commit()
        c.refresh()
        assert list(c["mask"][...]) == list(range(6))
    with dry.open(place) as c:
        assert (c["T"][0, 2] == 7).all()


def test_a_read_lock_is_a_snapshot_and_never_waits(place: str) -> None:
    with dry.open(place, "r+") as c:
        T = c["T"]
        w = T.map(step=0, mode="w")
        with w.lock("w"):
            w.array[...] = 1
        c.commit()
        w.lock("w")
        w.array[...] = 2
        r = T.map(step=0, offset=(0, 0), count=(2, 2), mode="r")
        begun = time.monotonic()
        with r.lock("r"):
            assert (r.array == 1).all()
            w.release(level="node")
            c.commit()
            assert (r.array == 1).all(), "a snapshot does not change"
        assert time.monotonic() - begun < 5
        with r.lock("r"):
            assert (r.array == 2).all()
        with pytest.raises(dry.InvalidArgumentError):
            r.lock("w")


def test_write_locks_exclude_each_other_where_they_meet(place: str) -> None:
    with dry.open(place, "r+") as c, dry.open(place, "r+") as other:
        held = c["T"].map(step=0, offset=(0, 0), count=(4, 8), mode="w").lock("w")
        beside = other["T"].map(step=0, offset=(4, 0), count=(4, 8), mode="w")
        beside.lock("w", timeout=0)
        assert beside.fence > held.fence
        beside.unlock()
        meets = other["T"].map(step=0, offset=(3, 7), count=(1, 1), mode="rw")
        with pytest.raises(
            dry.DeadlineError, match=r"no lock within 0\.2 s: .*another lock holds cells"
        ) as error:
            meets.lock("w", timeout=0.2)
        assert isinstance(error.value, TimeoutError)
        assert isinstance(error.value, dry.IoError)
        elsewhere = (
            other["T"].map(step=1, offset=(0, 0), count=(8, 8), mode="w") if other["T"].shape[0] > 1 else None
        )
        assert elsewhere is None
        releasing = threading.Timer(0.3, held.release)
        releasing.start()
        with meets.lock("w", timeout=20):
            meets.array[...] = 5
        releasing.join()  # it may still commit when the lock is free, and the container is closed next


def test_releases_under_successive_locks_are_ordered_by_their_fences(place: str) -> None:
    """Whatever the handle, and within one commit, the value of the last lock wins."""
    with dry.open(place, "r+") as a, dry.open(place, "r+") as b:
        for n in range(20):
            container = (a, b)[n % 2]
            region = container["T"].map(step=0, offset=(1, 1), count=(2, 2), mode="w")
            with region.lock("w", timeout=20):
                region.array[...] = n
        a._drain()
        b._drain()
        a.commit()
        b.refresh()
        assert (b["T"][0, 1:3, 1:3] == 19).all()


def test_a_lease_that_was_not_renewed_writes_nothing(place: str) -> None:
    with dry.open(place, "r+") as c:
        region = c["T"].map(step=0, mode="w").lock("w", lease=0.3, renew=False)
        region.array[...] = 1
        time.sleep(0.5)
        second = c["T"].map(step=0, mode="w").lock("w", timeout=5)
        second.array[...] = 2
        with pytest.raises(dry.LeaseExpired) as error:
            region.release()
        assert isinstance(error.value, dry.ConflictError)
        second.release()
        c.commit()
        assert (c["T"][0] == 2).all()


def test_a_lock_of_a_dead_process_ends_with_its_lease_and_what_it_wrote_is_discarded(server: Server) -> None:
    url = f"{server.unix}/scratch/dead.dry"
    with dry.create(url) as c:
        c.create_variable("T", "f8", shape=(8,), steps=True)
    program = textwrap.dedent("""
        import sys, time
        import drystone as dry
        c = dry.open(sys.argv[1], "r+")
        r = c["T"].map(step=0, mode="w").lock("w")
        r.array[...] = 13
        print("locked", flush=True)
        time.sleep(60)
    """)
    holder = subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    with dry.open(url, "r+") as c:
        mine = c["T"].map(step=0, mode="w")
        time.sleep(1.5)
        with pytest.raises(dry.DeadlineError):
            mine.lock("w", timeout=0)  # renewed while its holder lives
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
        begun = time.monotonic()
        with mine.lock("w", timeout=10):
            mine.array[...] = 1
        assert time.monotonic() - begun < 5
        c.commit()
        assert (c["T"][0] == 1).all()


def test_what_was_acknowledged_at_node_survives_a_killed_server(tmp_path: Path) -> None:
    server = Server(tmp_path)
    url = f"{server.unix}/scratch/killed.dry"
    with dry.create(url) as c:
        c.create_variable("T", "f8", shape=(8,), steps=True)
    with dry.open(url, "r+") as c:
        for step in range(3):
            region = c["T"].map(step=step, mode="w")
            with region.lock("w"):
                region.array[...] = step
            transfer = c._transfers[-1]
            transfer.wait(20, "node")
        c._transfers = []
        server.kill()
        server.start()
        with pytest.raises(dry.NotFoundError):
            c._regions.wait(99, False, 0.0)
        c.commit()
        assert list(c["T"][:, 0]) == [0, 1, 2]
    del c, region, transfer
    assert server.stop() == 0


def test_locking_is_optional_and_the_newest_release_wins(place: str) -> None:
    with dry.open(place, "r+") as c:
        for n in range(3):
            region = c["T"].map(step=0, mode="w")
            region.array[...] = n
            region.release()
        c.commit()
        assert (c["T"][0] == 2).all()


def test_stable_is_committed_and_synced(place: str) -> None:
    with dry.open(place, "r+") as c:
        region = c["T"].map(step=0, mode="w")
        region.array[...] = 4
        assert region.release(level="stable").level == "stable"
    with dry.open(place) as c:
        assert (c["T"][0] == 4).all()


def test_wrong_calls_say_what_is_wrong(place: str) -> None:
    with dry.open(place, "r+") as c:
        T = c["T"]
        for wrong, error in [
            (lambda: T.map(), dry.InvalidArgumentError),
            (lambda: c["mask"].map(step=0), dry.InvalidArgumentError),
            (lambda: T.map(step=0, offset=(7, 7), count=(2, 2)), dry.OutOfRangeError),
            (lambda: T.map(step=0, count=(1,)), dry.InvalidArgumentError),
            (lambda: T.map(step=0, mode="x"), dry.InvalidArgumentError),
            (lambda: T.map(step=0, mode="w").lock("r"), dry.InvalidArgumentError),
            (lambda: T.map(step=0, mode="w").release(level="sure"), dry.InvalidArgumentError),
            (lambda: T.map(step=0, mode="w").release(level="partner"), dry.UnsupportedError),
        ]:
            with pytest.raises(error):
                wrong()
        region = T.map(step=0, mode="w")
        region.close()
        region.close()
        with pytest.raises(dry.InvalidArgumentError):
            region.lock("w")
    with dry.open(place) as c, pytest.raises(dry.DrystoneError):
        c["T"].map(step=0, mode="w").lock("w")
    with pytest.raises(dry.InvalidArgumentError, match="consistency"):
        dry.open(place, consistency="sure")


# Visibility: docs/guide/regions.md has the table. Outcomes after each event, for a handle opened then, and for an open
# one.
Seen = tuple[bool, bool]


def outcomes(url: str, level: str) -> dict[str, Seen]:
    """What others see after the release (or the step), after the writer's close, and after a commit."""
    with dry.open(url, "r+", consistency=level) as c, dry.open(url, consistency=level) as open_before:

        def seen() -> Seen:
            with dry.open(url, consistency=level) as later:
                return later["T"].shape[0] > 0, open_before["T"].shape[0] > 0

        found = {}
        w = c.writer()
        with w.step(0):
            w.put("T", np.ones((8, 8)))
        found["release"] = seen()
        w.close()
        found["close"] = seen()
        c.commit()
        found["commit"] = seen()
        return found


ALLOWED: dict[str, dict[str, set[Seen]]] = {
    "eventual": {
        "release": {(False, False), (True, False)},
        "close": {(False, False), (True, False)},
        "commit": {(True, False)},
    },
    "commit": {"release": {(False, False)}, "close": {(False, False)}, "commit": {(True, False)}},
    "session": {"release": {(False, False)}, "close": {(True, False)}, "commit": {(True, False)}},
    "strong": {"release": {(True, True)}, "close": {(True, True)}, "commit": {(True, True)}},
}


@pytest.mark.parametrize("level", ALLOWED)
def test_each_level_shows_what_its_table_allows(server: Server, tmp_path: Path, level: str) -> None:
    for n in range(1000 if LONG else 3):
        name = f"litmus-{level}-{n}.dry"
        for url, folder in (
            (str(tmp_path / name), tmp_path),
            (f"{server.unix}/scratch/{name}", server.folder / "scratch"),
        ):
            with dry.create(url) as c:
                c.create_variable("T", "f8", shape=(8, 8), steps=True)
            found = outcomes(url, level)
            for event, allowed in ALLOWED[level].items():
                assert found[event] in allowed, (level, event, found)
            # A log is allocated in advance: a thousand of them would fill a disk.
            shutil.rmtree(folder / name)


def test_each_weaker_level_shows_what_a_stronger_one_forbids() -> None:
    for weaker, stronger in [("commit", "session"), ("session", "strong")]:
        assert any(ALLOWED[weaker][event] - ALLOWED[stronger][event] for event in ALLOWED[weaker])


def test_a_strong_release_is_seen_by_handles_that_are_open(place: str) -> None:
    with dry.open(place, "r+", consistency="strong") as c, dry.open(place, consistency="strong") as reader:
        region = c["T"].map(step=0, mode="w")
        for n in range(3):
            with region.lock("w"):
                region.array[...] = n
            assert (reader["T"][0] == n).all()


@pytest.mark.parametrize(
    ("level", "consistency"), [("received", "commit"), ("received", "strong"), ("stable", "session")]
)
def test_what_is_added_under_locks_is_never_lost(
    server: Server, tmp_path: Path, level: str, consistency: str
) -> None:
    """Two holders alternately read, add and release. Symptom: a lock returned the values of the last commit, without
    those released since."""
    for url in (str(tmp_path / "run.dry"), f"{server.unix}/scratch/added-{level}-{consistency}.dry"):
        with dry.create(url) as c:
            c.create_variable("T", "f8", shape=(8,), steps=True)
            with c.writer(rank=0, nranks=1) as w, w.step(0):
                w.put("T", np.zeros(8))

        def add(c: dry.Container) -> None:
            region = c["T"].map(step=0, offset=(2,), count=(4,), mode="rw")
            for _ in range(6):
                region.lock("w", timeout=60)
                region.array[...] += 1
                region.release(level=level)
            region.close()

        with (
            dry.open(url, "r+", consistency=consistency) as a,
            dry.open(url, "r+", consistency=consistency) as b,
        ):
            adding = [threading.Thread(target=add, args=(c,)) for c in (a, b)]
            for one in adding:
                one.start()
            for one in adding:
                one.join()
            a.commit()
            b.commit()
        with dry.open(url) as c:
            assert c["T"][0].tolist() == [0, 0, 12, 12, 12, 12, 0, 0]


@pytest.mark.parametrize(
    "wrong", [{"step": 1.5}, {"step": True}, {"step": 0, "offset": (1.5,)}, {"step": 0, "count": (2.5,)}]
)
def test_places_of_a_region_are_whole_numbers(tmp_path, wrong):
    """Symptom: `map(step=1.5)` mapped step 1, whose values the release overwrote."""
    with dry.create(tmp_path / "c.dry") as c:
        T = c.create_variable("T", "f8", (4,), steps=True)
        T.append(np.zeros((2, 4)))
        with pytest.raises(dry.InvalidArgumentError, match="is a whole number"):
            T.map(mode="w", **wrong)
        assert T.map(step=np.int64(1), offset=(np.int8(1),), count=(2,)).array.shape == (2,)


@pytest.mark.parametrize("cells", [4, 90_000])
def test_values_go_to_a_variable_that_was_created_anew(tmp_path, cells):
    """Symptom: they were put to the deleted variable, and the transfer reported level `node`."""
    with dry.create(tmp_path / "c.dry") as c, dry.open(tmp_path / "c.dry", "r+") as other:
        c.create_variable("T", "f8", (cells,), steps=True)
        r = c["T"].map(step=0, mode="w")
        r.array[...] = 1
        r.release()
        c.commit()
        c.create_variable("D", "f8", (cells,))
        other.refresh()
        for handle in (c, other):
            r = handle["D"].map(mode="w")
            r.array[...] = 2
            r.release(level="node").wait(30)
            handle.commit()
        other.refresh()
        r = other["D"].map(mode="w")
        r.array[...] = 4
        c.delete("D")
        c.create_variable("D", "f8", (cells,), fill_value=-1)
        r.release(level="node").wait(30)
        other.commit()
        c.refresh()
        assert np.unique(c["D"][...]).tolist() == [4]


@pytest.mark.parametrize(
    ("dtype", "steps"), [("i4", True), ([("a", "i2"), ("b", "i2")], True), ("f4", False), ("f8", True)]
)
def test_a_region_does_not_write_to_a_variable_of_another_type(place, dtype, steps):
    """Symptom: only the size of elements was compared, so the bits of floats were stored as integers; and where the new
    variable had no steps, a release was acknowledged whose values no commit showed."""
    with dry.open(place, "r+") as c, dry.open(place, "r+") as other:
        c.create_variable("K", "f4", shape=(4,), steps=True)
        other.refresh()
        region = other["K"].map(step=0, mode="rw")
        region.array[...] = 2.5
        c.delete("K")
        c.create_variable("K", dtype, shape=(4,), steps=steps)
        with pytest.raises(
            dry.ConflictError if steps else dry.InvalidArgumentError, match=r"created anew|no steps"
        ):
            region.release("node").wait(30)
        c.commit()
        c.refresh()
        assert c["K"].blocks() == []
        if steps:
            with pytest.raises(dry.ConflictError, match="created anew"), region.lock("w"):
                pass


@pytest.mark.parametrize(
    ("before", "after"),
    [(("f8", (4,), True), ("f4", (4,), True)), (("f4", (4,), True), ("u1", (4,), True)),
     (("f8", (10,), True), ("f8", (12,), True)), (("f8", (10,), True), ("f8", (5, 2), True)),
     (("f4", (4,), True), ("f4", (4,), False))],
)  # fmt: skip
def test_a_variable_that_is_created_anew_with_another_type_takes_releases(place, before, after):
    """Symptom: each release was refused with the size of the elements of the variable before."""
    with dry.open(place, "r+") as c:
        for n, (dtype, shape, steps) in enumerate((before, after)):
            c.create_variable("A", dtype, shape=shape, steps=steps)
            with c["A"].map(**({"step": 0} if steps else {}), mode="w") as region:
                region.array[...] = 3 + n
                region.release("node").wait(30)
            c.commit()
            c.refresh()
            assert np.unique(c["A"][0] if steps else c["A"][...]).tolist() == [3 + n]
            if n == 0:
                c.delete("A")
