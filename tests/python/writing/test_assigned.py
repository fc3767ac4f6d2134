"""When assigned values become visible to others.

Symptom of the first two tests: `T[...] = array` at the end of a program that closes nothing silently stored nothing.
Of the third: `publish` and declared fragments showed the state before the assignment. Cause: assigned blocks wait in
writers until the container commits them, which only reads, `commit` and `close` did.
"""

import contextlib
import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

OPEN = Path("/proc/self/fd")


def program(path, *lines):
    code = "\n".join(["import os, sys, drystone as dry", f"c = dry.open({str(path)!r}, 'r+')", *lines])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.fixture
def three(path):
    with dry.create(path) as c:
        c.create_variable("v", "i4", (3,))
        c.create_variable("s", "i4", (3,), steps=True)
    return path


@pytest.mark.parametrize("end", ["", "raise SystemExit(1)", "del c; import gc; gc.collect(); os._exit(0)"])
def test_assignments_outlive_a_program_that_closes_nothing(three, end):
    done = program(three, "c['v'][...] = [1, 2, 3]", "c['s'][4] = [4, 5, 6]", end)
    assert done.stderr == ""
    with dry.open(three) as c:
        assert c["v"][...].tolist() == [1, 2, 3]
        assert c["s"][4].tolist() == [4, 5, 6]


def test_a_forked_child_that_ends_does_not_settle_what_its_parent_assigned(three):
    done = program(
        three,
        "c['v'][...] = [1, 2, 3]",
        "child = os.fork()",
        "if not child: sys.exit(0)",
        "assert os.waitpid(child, 0)[1] == 0",
        f"assert dry.open({str(three)!r})['v'][...].tolist() == [0, 0, 0]",
        "c['v'][0] = 9",
    )
    assert done.stderr == ""
    with dry.open(three) as c:
        assert c["v"][...].tolist() == [9, 2, 3]


def test_failures_at_the_end_are_not_silent(three):
    if os.getuid() == 0:
        lines = ["os.chdir('/')", f"import shutil; shutil.rmtree({str(three)!r})"]
    else:
        lines = [f"os.chmod({str(three / 'manifest')!r}, 0o500)"]
    done = program(three, "c['v'][...] = [1, 2, 3]", *lines)
    assert "IoError" in done.stderr or "NotFoundError" in done.stderr or "ConflictError" in done.stderr


def test_all_that_looks_at_values_sees_what_was_assigned(path):
    with dry.create(path) as c:
        c.declare("dataset { var u[4] float64 }\nfragment f { var a[i:4] = u[i] }")
        c["u"][0:2] = [1, 2]
        f = c.fragment("f")
        assert f.coverage().missing == 2
        c["u"][2:4] = [3, 4]
        assert f.read().tolist() == [1, 2, 3, 4]
        c["u"][0] = 5
        assert c.usage()["u"].blocks == 3
        c["u"][1] = 6
        c.publish(progress=None)
        c["u"][2] = 7
        assert c.verify().entries == 5
        c["u"][3] = 8
        c.flush()
        with dry.open(path) as other:
            assert other["u"][...].tolist() == [5, 6, 7, 8]
    zarr = pytest.importorskip("zarr")
    np.testing.assert_array_equal(zarr.open_group(path / "zarr", mode="r")["u"][...], [5, 6, 3, 4])


@pytest.mark.skipif(not OPEN.is_dir(), reason="this system does not list open files")
def test_an_unreferenced_container_has_no_files_open(path):
    """Symptom: they stayed open until Python's garbage collection: a disk could not be unmounted, and a loop over
    containers ran out of file descriptors."""

    def in_use():
        found = []
        for file in OPEN.iterdir():
            with contextlib.suppress(OSError):
                found.append(str(file.readlink()))
        return [name for name in found if str(path) in name]

    def use():
        with dry.create(path) as c:
            c.create_variable("v", "f8", (4,), steps=True)[0] = 1
            with c.writer(rank=0, nranks=1) as w, w.step(1):
                w.put("v", np.arange(4.0))
        c = dry.open(path)
        assert c["v"][1].tolist() == [0, 1, 2, 3]

    gc.collect()
    gc.disable()
    try:
        use()
        assert in_use() == []
    finally:
        gc.enable()


def test_a_thousand_assignments_fill_one_log(tmp_path):
    """Symptom: 1,000 times `v[i] = x; v[i]` left 3,004 files. Cause: each read closed the writer of the assignment
    before it, so each assignment had a log of two files. Now one log takes all; a snapshot is still one file."""
    path = tmp_path / "a.dry"
    with dry.create(path) as c:
        v = c.create_variable("v", "f8", (100,))
        for i in range(100):
            v[i] = i
            assert v[i] == i
        other = dry.open(path)
        assert (other["v"][...] == np.arange(100)).all()
        assert len(list((path / "log").iterdir())) == 2
    assert len(list((path / "log").iterdir())) == 2
    assert dry.open(path).verify().damage == []
    with dry.open(path, "r+") as c:
        c["v"][...] = 7
        c.commit()
        c.gc(keep=1)
        assert len(list((path / "log").iterdir())) == 2
        assert (c["v"][...] == 7).all()


def test_threads_and_a_fork_that_assign_have_logs_of_their_own(tmp_path):
    path = tmp_path / "t.dry"
    with dry.create(path) as c:
        v = c.create_variable("v", "i8", (80,))
        v[0] = 1
        assert v[0] == 1
        pid = os.fork()
        if pid == 0:
            try:
                v[1] = 2
                os._exit(0 if v[1] == 2 else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        threads = [threading.Thread(target=lambda i=i: v.__setitem__(i, i)) for i in range(2, 80)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert v[...].tolist() == [1, 2, *range(2, 80)]
    assert dry.open(path)["v"][...].tolist() == [1, 2, *range(2, 80)]
    assert dry.open(path).verify().damage == []


def test_a_commit_waits_for_another_thread_that_commits_what_this_one_assigned(path):
    """Symptom: commit() and reads returned before values were visible that another thread was committing."""
    stop = threading.Event()
    with dry.create(path) as c:
        c.create_variable("A", "i8", (600,))
        c.create_variable("B", "i8", (600,))

        def other():
            while not stop.is_set():
                c["B"][...] = np.zeros(600, "i8")
                c.commit()

        threads = [threading.Thread(target=other) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for number in range(400):
                c["A"][...] = np.full(600, number)
                assert c["A"][0] == number
                c["A"][...] = np.full(600, -number)
                c.commit()
                with dry.open(path) as seen:
                    assert seen["A"][0] == -number
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def test_what_could_not_be_committed_stays_pending(path, monkeypatch):
    with dry.create(path) as c:
        c.create_variable("A", "i8", (4,))
        c["A"][...] = np.arange(4)
        (writer,) = c._assigned._idle

        class Failing:
            def __init__(self, handle):
                self.handle, self.left = handle, 1

            def commit(self):
                if self.left:
                    self.left -= 1
                    raise dry.IoError("no space is left")
                return self.handle.commit()

            def __getattr__(self, name):
                return getattr(self.handle, name)

        monkeypatch.setattr(writer, "_handle", Failing(writer._handle))
        with pytest.raises(dry.IoError, match="no space"):
            c.commit()
        with dry.open(path) as seen:
            assert not seen["A"][...].any()
        c.commit()
        with dry.open(path) as seen:
            np.testing.assert_array_equal(seen["A"][...], np.arange(4))


def test_a_commit_that_a_flush_of_another_thread_overtakes_is_tried_again(path):
    """Symptom: UnsupportedError, "version 48 knows of the later mark 49 ... commit more often"."""
    stop = threading.Event()
    with dry.create(path) as c:

        def flush():
            while not stop.is_set():
                c.flush()

        def change(name):
            for number in range(500):
                c.attrs[name] = number

        flusher = threading.Thread(target=flush)
        flusher.start()
        try:
            with ThreadPoolExecutor(3) as pool:
                for done in [pool.submit(change, name) for name in "xyz"]:
                    done.result()
        finally:
            stop.set()
            flusher.join()
        assert all(c.attrs[name] == 499 for name in "xyz")


def test_the_later_of_two_assignments_wins_whatever_other_threads_assign_meanwhile(path):
    """Symptom: a value came back. Its writer was taken by another thread's assignment, and committed after the newer
    value, for which another writer had been taken."""
    with dry.create(path) as c:
        c.create_variable("A", "i8", (4,))
        c.create_variable("B", "i8", (4,))
        c["A"][...] = np.full(4, 1)
        with c._assigned.writer(False) as of_another_thread:
            c["A"][...] = np.full(4, 2)
            of_another_thread.put("B", np.full(4, 3))
        np.testing.assert_array_equal(c["A"][...], np.full(4, 2))
        np.testing.assert_array_equal(c["B"][...], np.full(4, 3))
