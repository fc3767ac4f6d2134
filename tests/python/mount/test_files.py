"""`drystone mount --write`: files in a container, by unmodified programs and against models."""

import errno
import fcntl
import mmap
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
from concurrent.futures import ThreadPoolExecutor
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


# Both kinds of mounts that write: past the kernel's cache, and through it.
KINDS = ["--write", "--writeback"]


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def kept(tmp_path_factory, kind):
    """A run with one mount that many tests share."""
    folder = tmp_path_factory.mktemp("kept")
    dry.create(folder / "run.dry").close()
    with mounted(folder / "run.dry", folder / "m", kind) as at:
        yield folder / "run.dry", at / "files"


@pytest.fixture
def files(kept, request):
    """A folder of files for one test."""
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
    """Two writers and a reader at once, round after round. Where both wrote, all bytes come from one of the two,
    before and after the commit. A concurrent reader sees the old or the new bytes of each range."""
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
    # A file removed while a folder is listed hides no other file.
    for n in range(300):
        (files / f"f{n}").touch()
    shutil.rmtree(files / "d")
    for entry in os.scandir(files):
        os.unlink(entry)
    assert os.listdir(files) == []


def test_a_renamed_file_replaces_another_at_once(files):
    """Symptom: programs that opened a name found no file, in every tenth attempt, while others replaced it. Cause: the
    kernel opens the inode that it found before, and that inode was gone."""
    (files / "r").write_bytes(b"0")

    def replace():
        for n in range(1500):
            (files / "t").write_bytes(b"%d" % n)
            os.rename(files / "t", files / "r")

    opened = 0
    with ThreadPoolExecutor() as pool:
        replacing = pool.submit(replace)
        while not replacing.done():
            assert (files / "r").read_bytes().isdigit()
            assert os.stat(files / "r").st_size > 0
            opened += 1
        replacing.result()
    assert opened > 100
    assert (files / "r").read_bytes() == b"1499"


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
    with mounted(kept[0], tmp_path / "again") as again:
        found = os.stat(again / "files" / files.name / "x")
        assert found.st_mode == 0o100640
        for name in ["st_mtime_ns", "st_atime_ns", "st_uid", "st_gid", "st_size", "st_ino"]:
            assert getattr(found, name) == getattr(before, name), name


def test_holes_are_zeros_and_take_no_room(files, kind):
    with open(files / "sparse", "w+b") as f:
        f.seek(1 << 40)
        f.write(b"end")
        f.flush()
        assert os.fstat(f.fileno()).st_blocks < 100
        if kind == "--write":
            assert os.lseek(f.fileno(), 0, os.SEEK_DATA) == 1 << 40
            assert os.lseek(f.fileno(), 0, os.SEEK_HOLE) == 0
        else:
            # The mount does not know what the kernel has collected: all is data.
            assert os.lseek(f.fileno(), 0, os.SEEK_DATA) == 0
            assert os.lseek(f.fileno(), 0, os.SEEK_HOLE) == (1 << 40) + 3
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


def test_without_write_nothing_is_written(run, tmp_path, kind):
    with mounted(run, tmp_path / "m", kind) as at:
        (at / "files" / "x").write_bytes(b"abc")
        fails(errno.EROFS, os.mkdir, at / "view" / "new")
        fails(errno.EROFS, os.mkdir, at / "new")
    with mounted(run, tmp_path / "m") as at:
        assert (at / "files" / "x").read_bytes() == b"abc"
        fails(errno.EROFS, os.unlink, at / "files" / "x")
        fails(errno.EROFS, (at / "files" / "y").touch)


def test_nothing_synced_is_lost_when_the_mount_is_killed(run, tmp_path, kind):
    """The mount is killed while a program appends numbers and syncs them. Every acknowledged number is there
    afterwards, callers get an error at once, and the next mount needs no repair."""
    at, draw, synced = tmp_path / "m", random.Random(9), []
    for round_number in range(1000 if LONG else 20):
        process = start(run, at, kind)
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


def test_a_signal_commits_what_is_open(run, tmp_path, kind):
    process = start(run, tmp_path / "m", kind)
    fd = os.open(tmp_path / "m" / "files" / "x", os.O_WRONLY | os.O_CREAT)
    large = random.Random(7).randbytes(40 << 20)
    os.write(fd, large)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    with mounted(run, tmp_path / "m2") as at:
        assert (at / "files" / "x").read_bytes() == large


def refused(run, at, *options):
    """What a mount says that does not begin."""
    at.mkdir(exist_ok=True)
    done = subprocess.run(
        command("mount", run, at, *options), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_a_signal_keeps_what_was_stored_into_a_mapping(run, tmp_path, kind):
    """With --write, stores without a msync were dropped."""
    at = tmp_path / "mnt"
    process = start(run, at, kind)
    program = """
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 8192)
os.fsync(fd)
mapped = mmap.mmap(fd, 8192)
mapped[:5] = b"hello"
print("stored", flush=True)
time.sleep(60)
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", program, at / "files" / "kept"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "stored\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    finally:
        holder.kill()
        holder.communicate()
    with mounted(run, at, kind):
        assert (at / "files" / "kept").read_bytes()[:6] == b"hello\0"


def test_a_mount_covers_no_other_files(run, tmp_path):
    at = tmp_path / "mnt"
    at.mkdir()
    (at / "mine").write_text("here")
    said = subprocess.run(command("mount", run, at), capture_output=True, text=True, timeout=20, check=False)
    assert said.returncode != 0
    assert "is not empty" in said.stderr
    (at / "mine").unlink()
    with mounted(run, at, "--write"):
        said = subprocess.run(
            command("mount", run, at), capture_output=True, text=True, timeout=20, check=False
        )
        assert "is not empty" in said.stderr


def test_a_copy_says_that_it_lacks_files(run, tmp_path):
    """They were left out silently."""
    with mounted(run, tmp_path / "mnt", "--write") as at:
        (at / "files" / "restart").write_bytes(b"precious")
    said = r"1 files of a mount \(8 bytes\) are not copied"
    with dry.open(run) as c, pytest.warns(dry.DrystoneWarning, match=said):
        c.copy(tmp_path / "copy.dry").close()


@pytest.mark.parametrize("first", KINDS)
def test_a_mount_with_writeback_is_the_only_one_that_writes(run, tmp_path, first):
    process = start(run, tmp_path / "m1", first)
    (tmp_path / "m1" / "files" / "x").write_bytes(b"first")
    for second in [kind for kind in KINDS if "--writeback" in (first, kind)]:
        said = refused(run, tmp_path / "m2", second)
        assert f"process {process.pid} on " in said, said
        assert "--writeback" in said
        assert ("unmount it there" if first == "--writeback" else "wait for its end") in said
    with dry.open(run, mode="r+") as c:
        c.gc()  # removes nothing meanwhile, and is no error
    with mounted(run, tmp_path / "m2") as reader:
        assert (reader / "files" / "x").read_bytes() == b"first"
        fails(errno.EROFS, (reader / "files" / "y").touch)
        (tmp_path / "m1" / "files" / "x").write_bytes(b"second")
        assert (reader / "files" / "x").read_bytes() == b"second"
    end(process, tmp_path / "m1")
    with mounted(run, tmp_path / "m2", "--writeback") as at:
        assert (at / "files" / "x").read_bytes() == b"second"


def test_after_a_killed_mount_with_writeback_the_next_begins_at_once(run, tmp_path):
    at = tmp_path / "m"
    for second in KINDS:
        process = start(run, at, "--writeback")
        (at / "files" / "x").write_bytes(second.encode())
        process.kill()
        process.communicate()
        begun = time.monotonic()
        with mounted(run, at, second) as again:
            assert time.monotonic() - begun < 5
            assert (again / "files" / "x").read_bytes() == second.encode()


def test_small_writes_are_collected(run, tmp_path):
    """10,000 writes of 384 bytes reach the mount as few large ones, and are read back meanwhile."""
    with mounted(run, tmp_path / "m", "--writeback") as at:
        fd = os.open(at / "files" / "x", os.O_RDWR | os.O_CREAT)
        for n in range(10_000):
            os.pwrite(fd, bytes([n % 251]) * 384, n * 384)
        assert os.pread(fd, 384, 777 * 384) == bytes([777 % 251]) * 384
        os.close(fd)
        # One by one they take 400,000 bytes. How many requests they become depends on when the kernel writes back.
        assert sum(f.stat().st_size for f in (run / "files").glob("*.jnl")) < 100_000
        content = (at / "files" / "x").read_bytes()
    assert content == b"".join(bytes([n % 251]) * 384 for n in range(10_000))


def test_a_handle_for_writing_only_changes_parts_of_pages(files):
    (files / "x").write_bytes(bytes(range(256)) * 100)
    model = bytearray(bytes(range(256)) * 100)
    fd, draw = os.open(files / "x", os.O_WRONLY), random.Random(1)
    for _ in range(300):
        at, count = draw.randrange(25_000), draw.randrange(1, 600)
        data = draw.randbytes(count)
        os.pwrite(fd, data, at)
        model[at : at + count] = data
    os.close(fd)
    model = model[: (files / "x").stat().st_size]
    assert (files / "x").read_bytes() == model


def test_one_handle_past_the_cache_and_one_through_it_agree(files):
    """Direct, synchronous, cached and mapped writes of one file."""
    path, draw, model = files / "x", random.Random(2), bytearray(1 << 20)
    path.write_bytes(model)
    direct = os.open(path, os.O_RDWR | os.O_DIRECT)
    handles = [os.open(path, os.O_RDWR | flag) for flag in (0, os.O_SYNC)]
    page = mmap.mmap(-1, 1 << 16)
    with mmap.mmap(handles[0], len(model)) as mapped:
        for _ in range(300):
            at, data = draw.randrange(240) * 4096, draw.randbytes(4096 * draw.randrange(1, 16))
            way = draw.randrange(5)
            if way == 0:
                page[: len(data)] = data
                os.pwrite(direct, memoryview(page)[: len(data)], at)
            elif way == 1:
                mapped[at : at + len(data)] = data
            elif way == 2:
                read = os.preadv(direct, [memoryview(page)[: len(data)]], at)
                assert page[:read] == model[at : at + len(data)]
                continue
            else:
                at += draw.randrange(2)
                os.pwrite(handles[way - 3], data, at)
            model[at : at + len(data)] = data
    for handle in [direct, *handles]:
        os.close(handle)
    assert path.read_bytes() == model


def test_copies_of_a_file_that_is_still_open_have_its_bytes(files, tmp_path):
    """`cp` skips what it takes for holes, and asks the mount where they are."""
    data = random.Random(4).randbytes(3 << 20)
    with open(files / "x", "wb") as f:
        f.write(data)
        f.flush()
        for how in ["auto", "always"]:
            subprocess.run(["cp", f"--sparse={how}", files / "x", files / how], check=True)
            assert (files / how).read_bytes() == data
        subprocess.run(["tar", "-cSf", tmp_path / "a.tar", "-C", files, "x"], check=True)
    subprocess.run(["tar", "-xf", tmp_path / "a.tar", "-C", tmp_path], check=True)
    assert (tmp_path / "x").read_bytes() == data


def test_copying_within_a_file_and_allocating_ranges(files):
    (files / "x").write_bytes(bytes(100) + b"abc" * 3000)
    with open(files / "x", "r+b") as f:
        f.write(b"z" * 50)
        f.flush()
        assert os.copy_file_range(f.fileno(), f.fileno(), 200, 0, 20_000) == 200
        os.posix_fallocate(f.fileno(), 0, 40_000)
    found = (files / "x").read_bytes()
    assert len(found) == 40_000
    assert found[20_000:20_200] == b"z" * 50 + bytes(50) + (b"abc" * 34)[:100]
    assert found[9100:20_000] == bytes(20_000 - 9100)


def test_times_survive_as_the_kernel_showed_them(run, tmp_path, kind):
    with mounted(run, tmp_path / "m", kind) as at:
        for name in ["closed", "synced", "cut", "appended", "mapped"]:
            (at / "files" / name).write_bytes(b"abc" * 3000)
        os.truncate(at / "files" / "cut", 1000)
        with open(at / "files" / "appended", "ab") as f:
            f.write(b"more")
        with open(at / "files" / "synced", "r+b") as f:
            f.write(b"x")
            os.fsync(f.fileno())
        with open(at / "files" / "mapped", "r+b") as f, mmap.mmap(f.fileno(), 100) as mapped:
            mapped[:5] = b"12345"
        before = {path.name: path.stat() for path in (at / "files").iterdir()}
    with mounted(run, tmp_path / "m") as at:
        for path in (at / "files").iterdir():
            now, then = path.stat(), before[path.name]
            assert (now.st_mtime_ns, now.st_size) == (then.st_mtime_ns, then.st_size), path.name


def test_writing_removes_the_bits_that_run_a_file_as_its_owner(files):
    for change in ["write", "cut", "owner"]:
        path = files / change
        path.write_bytes(b"abc")
        os.chmod(path, 0o6755)
        # The superuser's own writes may keep them.
        text = {"write": "open(p, 'r+b').write(b'x')", "cut": "os.truncate(p, 1)", "owner": ""}[change]
        os.chown(path, 1234, 1234)
        os.chmod(path, 0o6755)
        if change == "owner":
            os.chown(path, 1235, 1235)
        else:
            program = f"import os, sys; os.setgid(1234); os.setuid(1234); p = sys.argv[1]; {text}"
            done = subprocess.run(
                ["python3", "-c", program, path], capture_output=True, text=True, check=False
            )
            if "PermissionError" in done.stderr:
                pytest.skip("another user does not reach the folder")
            assert done.returncode == 0, done.stderr
        assert path.stat().st_mode & 0o6000 == 0, change


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


def test_a_program_that_appends_overwrites_nothing_of_a_later_mount(run, tmp_path):
    """Symptom: a handle that was open before the second mount began wrote at the end that it knew."""
    with mounted(run, tmp_path / "m1", "--write") as one:
        log = os.open(one / "files" / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, b"first\n")
        os.fsync(log)
        with mounted(run, tmp_path / "m2", "--write") as other:
            with (other / "files" / "log").open("r+b") as file:
                file.seek(6)
                file.write(b"important\n")
            time.sleep(0.2)
            fails(errno.EOPNOTSUPP, os.write, log, b"second\n")
            assert (other / "files" / "log").read_bytes() == b"first\nimportant\n"
        os.close(log)


@pytest.mark.parametrize("kind", KINDS)
def test_unmounting_leaves_open_files_to_their_programs(run, tmp_path, kind):
    process = start(run, tmp_path / "m", kind)
    with (tmp_path / "m" / "files" / "x").open("w+b", buffering=0) as file:
        file.write(b"first")
        subprocess.run(command("umount", tmp_path / "m"), check=True)
        assert not os.path.ismount(tmp_path / "m")
        file.write(b", second")
        file.seek(0)
        assert file.read() == b"first, second"
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    with mounted(run, tmp_path / "m", kind) as at:
        assert (at / "files" / "x").read_bytes() == b"first, second"
