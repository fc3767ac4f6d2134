"""`drystone mount --write`: files in a container, by unmodified programs and against models."""

import errno
import fcntl
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import drystone as dry
import h5py
import numpy as np
import pytest
from file_model import Model
from mount_rig import LONG, command, end, mounted, needs_fuse, start

pytestmark = needs_fuse
MODEL = Path(__file__).parents[1] / "file_model.py"


@pytest.fixture
def run(tmp_path):
    dry.create(tmp_path / "run.dry").close()
    return tmp_path / "run.dry"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run with one mount for many tests."""
    folder = tmp_path_factory.mktemp("kept")
    dry.create(folder / "run.dry").close()
    with mounted(folder / "run.dry", folder / "m", "--write") as at:
        yield folder / "run.dry", at / "files"


@pytest.fixture
def files(kept, request):
    """A folder of files for a test of its own."""
    folder = kept[1] / re.sub(r"\W", "_", request.node.name)
    folder.mkdir()
    return folder


@pytest.fixture
def two(run, tmp_path):
    """The same files on two mounts."""
    with mounted(run, tmp_path / "m1", "--write") as one, mounted(run, tmp_path / "m2", "--write") as other:
        yield one / "files", other / "files"


def fails(number, act, *arguments):
    try:
        act(*arguments)
    except OSError as error:
        assert error.errno == number, error
    else:
        pytest.fail(f"it succeeded in place of {errno.errorcode[number]}")


@pytest.mark.parametrize("mapped", [False, True])
def test_random_operations_show_what_an_array_of_bytes_shows(files, mapped):
    model = Model(str(files / "x"), seed=1, mapped=mapped)
    model.run(1_000_000 if LONG else 10_000)
    model.close()


def test_two_programs_at_once_each_find_their_own_bytes(files):
    count = 200_000 if LONG else 1200
    words = [
        [sys.executable, MODEL, files / name, str(seed), str(count), "mmap"] for seed, name in enumerate("ab")
    ]
    both = [subprocess.Popen(list(map(str, w)), stderr=subprocess.PIPE, text=True) for w in words]
    for one in both:
        _, said = one.communicate(timeout=3600)
        assert one.returncode == 0, said


def test_overlapping_writes_of_two_handles_are_seen_in_their_order(files):
    draw, model = random.Random(5), bytearray(100_000)
    handles = [os.open(files / "x", os.O_RDWR | os.O_CREAT) for _ in range(4)]
    os.ftruncate(handles[0], len(model))
    for _ in range(100_000 if LONG else 1500):
        at, count = draw.randrange(90_000), draw.randrange(1, 10_000)
        if draw.random() < 0.5:
            data = draw.randbytes(count)
            os.pwrite(draw.choice(handles), data, at)
            model[at : at + count] = data
        else:
            assert os.pread(draw.choice(handles), count, at) == model[at : at + count]
    for handle in handles:
        os.close(handle)
    assert (files / "x").read_bytes() == model


def test_writes_that_overlap_and_happen_at_once_each_win_whole(files):
    """Two writers and a reader at once, round after round: where both wrote, the bytes are all of the one or all of the other, before
    and after; a reader meanwhile sees of each range the old bytes or the new."""
    draw, model = random.Random(11), np.zeros(200_000, "u1")
    (files / "x").write_bytes(model.tobytes())
    handles = [os.open(files / "x", os.O_RDWR) for _ in range(3)]
    barrier, jobs, seen = threading.Barrier(4), [None] * 3, []

    def work(number):
        while True:
            barrier.wait(60)
            if jobs[number] is None:
                return
            at, data = jobs[number]
            if isinstance(data, int):
                seen[:] = [np.frombuffer(os.pread(handles[number], data, at), "u1")]
            else:
                os.pwrite(handles[number], data, at)
            barrier.wait(60)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    [t.start() for t in threads]
    for round_number in range(100_000 if LONG else 1000):
        values = [1 + round_number % 120, 121 + round_number % 120]
        ranges = []
        for number, value in enumerate(values):
            at, count = draw.randrange(130_000), draw.randrange(1, 65_000)
            ranges.append(slice(at, at + count))
            jobs[number] = at, bytes([value]) * count
        jobs[2] = min(r.start for r in ranges), 60_000
        barrier.wait(60)
        barrier.wait(60)
        found = np.frombuffer(os.pread(handles[0], len(model) + 1, 0), "u1")
        read = slice(jobs[2][0], jobs[2][0] + len(seen[0]))
        allowed = seen[0] == model[read]
        before = model.copy()
        for value, where in zip(values, ranges, strict=True):
            model[where] = value
            written = np.zeros(len(model), bool)
            written[where] = True
            allowed |= written[read] & (seen[0] == value)
        both = slice(max(r.start for r in ranges), min(r.stop for r in ranges))
        if both.start < both.stop:
            winner = int(found[both.start])
            assert winner in values, (round_number, before[both.start])
            model[both] = winner
        assert (found == model).all(), round_number
        assert allowed.all(), round_number
    jobs[:] = [None] * 3
    barrier.wait(60)
    [t.join() for t in threads]
    [os.close(handle) for handle in handles]


def test_ranks_write_one_shared_file_in_stripes(files):
    ranks, blocks, size = 4, 30, 47 * 1024

    def rank(number):
        fd = os.open(files / "shared", os.O_WRONLY | os.O_CREAT)
        for block in range(blocks):
            os.pwrite(fd, bytes([number * 50 + block % 50 + 1]) * size, (block * ranks + number) * size)
        os.close(fd)

    threads = [threading.Thread(target=rank, args=(n,)) for n in range(ranks)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    found = np.fromfile(files / "shared", "u1").reshape(blocks, ranks, size)
    wanted = np.arange(ranks) * 50 + np.arange(blocks)[:, None] % 50 + 1
    assert (found == wanted[..., None]).all()


def test_names_behave_as_posix_says(files):
    (files / "a").write_bytes(b"one")
    (files / "d" / "e").mkdir(parents=True)
    os.rename(files / "a", files / "d" / "b")
    assert (files / "d" / "b").read_bytes() == b"one"
    fails(errno.ENOTEMPTY, os.rmdir, files / "d")
    fails(errno.EINVAL, os.rename, files / "d", files / "d" / "e" / "f")
    fails(errno.EPERM, os.link, files / "d" / "b", files / "c")
    fails(errno.EPERM, os.mkfifo, files / "fifo")
    fails(errno.ENAMETOOLONG, os.mkdir, files / ("x" * 256))
    os.symlink("d/b", files / "link")
    assert (files / "link").read_bytes() == b"one"
    assert os.stat(files).st_nlink == 3
    (files / "c").write_bytes(b"two")
    os.rename(files / "c", files / "d" / "b")
    assert (files / "link").read_bytes() == b"two"
    os.setxattr(files / "d" / "b", "user.note", b"kept")
    assert os.getxattr(files / "d" / "b", "user.note") == b"kept"
    assert os.listxattr(files / "d" / "b") == ["user.note"]
    assert sorted(os.listdir(files)) == ["d", "link"]
    # What is removed while a folder is listed hides nothing else.
    for n in range(300):
        (files / f"f{n}").touch()
    shutil.rmtree(files / "d")
    for entry in os.scandir(files):
        os.unlink(entry)
    assert os.listdir(files) == []


def test_a_file_without_a_name_stays_for_those_that_have_it_open(files):
    with open(files / "x", "w+b") as held:
        held.write(b"before")
        held.flush()
        os.unlink(files / "x")
        (files / "x").write_bytes(b"another")
        held.write(b" after")
        held.seek(0)
        assert held.read() == b"before after"
        assert os.fstat(held.fileno()).st_nlink == 0
    assert (files / "x").read_bytes() == b"another"


def test_attributes_are_kept(files, kept, tmp_path):
    path = files / "x"
    with open(path, "wb") as f:
        f.write(b"abc")
        f.flush()
        os.utime(f.fileno(), ns=(-5_000_000_001, 1_234_567_890_123_456_789))
    os.chmod(path, 0o640)
    os.chown(path, 12, 34)
    before = os.stat(path)
    assert (before.st_mtime_ns, before.st_atime_ns) == (1_234_567_890_123_456_789, -5_000_000_001)
    with mounted(kept[0], tmp_path / "again", "--write") as again:
        found = os.stat(again / "files" / files.name / "x")
        assert found.st_mode == 0o100640
        for name in ["st_mtime_ns", "st_atime_ns", "st_uid", "st_gid", "st_size", "st_ino"]:
            assert getattr(found, name) == getattr(before, name), name


def test_holes_are_zeros_and_take_no_room(files):
    with open(files / "sparse", "w+b") as f:
        f.seek(1 << 40)
        f.write(b"end")
        f.flush()
        assert os.fstat(f.fileno()).st_blocks < 100
        assert os.lseek(f.fileno(), 0, os.SEEK_DATA) == 1 << 40
        assert os.lseek(f.fileno(), 0, os.SEEK_HOLE) == 0
        assert os.pread(f.fileno(), 10, 1 << 30) == bytes(10)
    assert (files / "sparse").stat().st_size == (1 << 40) + 3


def test_unmodified_programs_give_right_bytes(files, tmp_path):
    source = tmp_path / "source"
    draw = random.Random(3)
    for n in range(60):
        path = source / f"d{n % 7}" / f"f{n}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.randbytes(draw.choice([0, 1, 100, 5000, 70_000])))

    def sh(text):
        subprocess.run(["bash", "-ec", text], check=True, cwd=files, timeout=120, capture_output=True)

    sh(f"mkdir t; tar -C {source} -cf - . | tar -xf - -C t; diff -r {source} t")
    sh(f"dd if={source}/d3/f3 of=dd bs=777; cmp dd {source}/d3/f3")
    if shutil.which("rsync"):
        sh(f'rsync -a {source}/ r/; diff -r {source} r; test -z "$(rsync -ai --checksum {source}/ r/)"')
    who = "git -c user.name=a -c user.email=a@b -c gc.auto=0"
    sh(
        f"git init -q t; cd t; git add -A; {who} commit -qm one; rm -r d1; {who} commit -qam two; git gc -q; git fsck --strict"
    )
    sh("git clone -q t c; cd c; git checkout -q HEAD~1; test -d d1")
    for mode in ["delete", "wal"]:
        base = sqlite3.connect(files / f"{mode}.db")
        assert base.execute(f"pragma journal_mode={mode}").fetchone() == (mode,)
        base.execute("create table t(a)")
        for n in range(20):
            with base:
                base.executemany("insert into t values(?)", [(n,)] * 10)
        assert base.execute("select count(*), sum(a) from t").fetchone() == (200, 1900)
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)
        base.close()
    values = np.arange(200_000.0).reshape(200, 1000)
    with h5py.File(files / "x.h5", "w") as f:
        f["a"] = values
        f.create_dataset("c", data=values, chunks=(50, 100), compression="gzip")
    with h5py.File(files / "x.h5", "r+") as f:
        f["a"][3] = 1
    with h5py.File(files / "x.h5", "r") as f:
        assert (f["c"][:] == values).all()
        assert (f["a"][3] == 1).all()
    mapped = np.lib.format.open_memmap(files / "m.npy", "w+", "f8", (300, 300))
    mapped[:] = 2
    mapped.flush()
    assert (np.load(files / "m.npy") == 2).all()


def test_another_mount_sees_a_file_when_it_is_closed(two):
    one, other = two
    with open(one / "x", "wb") as f:
        f.write(b"first")
        f.flush()
        assert (other / "x").read_bytes() == b""
    assert (other / "x").read_bytes() == b"first"
    for n in range(20):
        (other if n % 2 else one).joinpath("x").write_bytes(b"%d" % n * (n + 1))
        assert (one if n % 2 else other).joinpath("x").read_bytes() == b"%d" % n * (n + 1)
    os.rename(one / "x", one / "y")
    assert os.listdir(other) == ["y"]
    fails(errno.EEXIST, os.open, other / "y", os.O_CREAT | os.O_EXCL | os.O_WRONLY)


def test_what_mounts_cannot_agree_on_is_refused(two):
    one, other = two
    (one / "x").write_bytes(bytes(10))
    with open(one / "x", "r+b") as first, open(other / "x", "r+b") as second:
        fcntl.lockf(first, fcntl.LOCK_EX)
        fails(errno.ENOLCK, fcntl.lockf, second, fcntl.LOCK_EX)
        fails(errno.ENOLCK, fcntl.flock, second, fcntl.LOCK_SH)
    fails(errno.EOPNOTSUPP, os.open, other / "x", os.O_WRONLY | os.O_APPEND)
    fails(errno.EOPNOTSUPP, os.open, one / "x", os.O_WRONLY | os.O_APPEND)


def test_without_write_nothing_is_written(run, tmp_path):
    with mounted(run, tmp_path / "m", "--write") as at:
        (at / "files" / "x").write_bytes(b"abc")
        fails(errno.EROFS, os.mkdir, at / "view" / "new")
        fails(errno.EROFS, os.mkdir, at / "new")
    with mounted(run, tmp_path / "m") as at:
        assert (at / "files" / "x").read_bytes() == b"abc"
        fails(errno.EROFS, os.unlink, at / "files" / "x")
        fails(errno.EROFS, (at / "files" / "y").touch)


def test_nothing_synced_is_lost_when_the_mount_is_killed(run, tmp_path):
    """The mount is killed while a program appends numbers and syncs them: all that it was told of is there afterwards, callers get
    an error at once, and the next mount needs no repair."""
    at, draw, synced = tmp_path / "m", random.Random(9), []
    for round_number in range(1000 if LONG else 20):
        process = start(run, at, "--write")
        path = at / "files" / "log"
        found = np.fromfile(path, "<u4") if path.exists() else np.zeros(0, "u4")
        assert found[: len(synced)].tolist() == synced, round_number
        assert len(found) <= len(synced) + 1
        synced = found.tolist()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        killed = []

        def kill(process=process, killed=killed):
            process.send_signal(signal.SIGKILL)
            killed.append(time.monotonic())

        killer = threading.Timer(draw.random() * 0.05, kill)
        killer.start()
        try:
            while True:
                os.pwrite(fd, np.uint32(round_number * 1000 + len(synced)).tobytes(), 4 * len(synced))
                os.fsync(fd)
                synced.append(round_number * 1000 + len(synced))
        except OSError as error:
            assert error.errno in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO), error
            failed = time.monotonic()
        killer.join()
        assert failed - killed[0] < 1
        process.communicate()
        subprocess.run(["umount", "-l", str(at)], check=False, capture_output=True)
        with suppress(OSError):
            os.close(fd)
    report = subprocess.run(command("verify", run), capture_output=True, text=True, check=False)
    assert report.returncode == 0, report.stdout


def test_the_room_that_is_left_is_that_of_the_container(kept):
    mount, below = os.statvfs(kept[1]), os.statvfs(kept[0])
    assert (mount.f_blocks, mount.f_bsize) == (below.f_blocks, below.f_bsize)
    assert mount.f_bavail > 0


def test_a_signal_commits_what_is_open(run, tmp_path):
    process = start(run, tmp_path / "m", "--write")
    fd = os.open(tmp_path / "m" / "files" / "x", os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"kept")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    with mounted(run, tmp_path / "m2") as at:
        assert (at / "files" / "x").read_bytes() == b"kept"


def test_damage_is_an_error_and_verify_names_it(run, tmp_path):
    with mounted(run, tmp_path / "m", "--write") as at:
        (at / "files" / "x").write_bytes(bytes(100_000))
    log = next((run / "files").glob("*.dat"))
    with open(log, "r+b") as f:
        f.seek(40_000)
        f.write(b"!")
    process = start(run, tmp_path / "m")
    with open(tmp_path / "m" / "files" / "x", "rb") as f:
        assert os.pread(f.fileno(), 100, 0) == bytes(100)
        fails(errno.EIO, os.pread, f.fileno(), 100, 40_000)
    assert "checksum" in end(process, tmp_path / "m")
    found = subprocess.run(command("verify", run), capture_output=True, text=True, check=False)
    assert found.returncode != 0
    assert "/files/x" in found.stdout


def test_room_is_given_back(run, tmp_path):
    with mounted(run, tmp_path / "m", "--write") as at:
        (at / "files" / "big").write_bytes(bytes(3_000_000))
        os.unlink(at / "files" / "big")
        (at / "files" / "x").write_bytes(b"stays")
    with dry.open(run, mode="r+") as c:
        c.gc()
    assert sum(f.stat().st_size for f in (run / "files").glob("*.dat")) < 4_000_000
    with mounted(run, tmp_path / "m") as at:
        assert (at / "files" / "x").read_bytes() == b"stays"


def test_unlinking_a_file_of_many_writes_adds_one_record(files, kept):
    run = kept[0]
    count = 1_000_000 if LONG else 20_000
    fd = os.open(files / "x", os.O_WRONLY | os.O_CREAT)
    for n in range(count):
        os.pwrite(fd, b"%08d" % n, n * 16)
    os.close(fd)
    assert (files / "x").read_bytes()[16 * 777 : 16 * 777 + 8] == b"00000777"
    before = sum(f.stat().st_size for f in (run / "files").glob("*.jnl"))
    os.unlink(files / "x")
    after = sum(f.stat().st_size for f in (run / "files").glob("*.jnl"))
    assert after - before < 200
