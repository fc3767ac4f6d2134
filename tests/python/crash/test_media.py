"""Failing media: a full disk, a medium that became read-only, a file where a folder should be."""

import os
import subprocess
import sys
from contextlib import suppress

import actors
import drystone as dry
import numpy as np
import pytest
from same_bits import commits_by_itself, same

BIG = np.arange(1 << 16, dtype="i8")


@pytest.fixture
def disk(tmp_path):
    """A file system of 2 MiB; a ballast file takes a quarter."""
    where = tmp_path / "disk"
    where.mkdir()
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("mounting a small tmpfs needs Linux and root")
    mounted = mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(where))
    if mounted.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted: {mounted.stderr.strip()}")
    try:
        (where / "ballast").write_bytes(bytes(1 << 19))
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def mount(*arguments):
    return subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)


def filled(path, durability):
    """A container with three steps."""
    actors.create(path, durability)
    with dry.open(path, "r+") as c:
        c.create_variable("big", "i8", shape=BIG.shape, steps=True)
        with commits_by_itself(c) as w:
            for step in range(3):
                with w.step(step):
                    actors.put_all(w, step, 0)


def fill_up(disk):
    """Fill the disk to the last byte."""
    with (disk / "filling").open("wb", buffering=0) as file:
        size = 1 << 16
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


def three_steps_read_back(path):
    with dry.open(path) as c:
        assert c.steps == [0, 1, 2]
        for step in range(3):
            same(c["T"][step], actors.expected(step, 1))
        assert c.verify().ok


def goes_on(path, first):
    """After space was freed, a new writer writes the data that did not fit."""
    with dry.open(path, "r+") as c:
        with c.writer(rank=0, nranks=1) as w:
            for step in range(first, first + 2):
                with w.step(step):
                    actors.put_all(w, step, 0, salt=1)
        for step in range(3):
            same(c["T"][step], actors.expected(step, 1))
        for step in range(first, first + 2):
            same(c["T"][step], actors.expected(step, 1, salt=1))
        assert c.verify().ok


@pytest.mark.parametrize("durability", ["async", "durable"])
def test_a_disk_that_fills_up_while_steps_are_written_loses_no_committed_step(disk, durability):
    path = disk / "run.dry"
    filled(path, durability)
    c = dry.open(path, "r+")
    w = c.writer(rank=0, nranks=1)
    with pytest.raises(dry.IoError, match="free space"):  # noqa: PT012
        for step in range(3, 20):
            with w.step(step):
                w.put("big", BIG)
    close(w, c)
    with dry.open(path) as c:
        done = len(c.steps)
        assert 3 <= done < 20
        for step in range(done):
            same(c["big"][step], BIG if step >= 3 else np.zeros_like(BIG))
        for step in range(3):
            same(c["T"][step], actors.expected(step, 1))
        assert c.verify().ok
    (disk / "ballast").unlink()
    goes_on(path, done)


@pytest.mark.parametrize("act", ["create_variable", "attribute", "writer", "step"])
def test_a_full_disk_refuses_what_needs_space_and_says_what_to_do(disk, act):
    path = disk / "run.dry"
    filled(path, "async")
    fill_up(disk)
    c = dry.open(path, "r+")
    w = None
    with pytest.raises(dry.IoError, match="free space") as refused:  # noqa: PT012
        if act == "create_variable":
            c.create_variable("more", "f4", shape=(3,))
        elif act == "attribute":
            c.attrs["more"] = "x" * 100
        else:
            w = c.writer(rank=0, nranks=1)
            with w.step(3):
                actors.put_all(w, 3, 0)
    assert isinstance(refused.value, OSError)
    assert "run.dry" in str(refused.value)
    close(w, c)
    three_steps_read_back(path)
    (disk / "ballast").unlink()
    goes_on(path, 3)


@pytest.mark.parametrize("durability", ["async", "durable"])
def test_a_commit_that_finds_the_disk_full_can_be_made_again(disk, durability):
    path = disk / "run.dry"
    filled(path, durability)
    with dry.open(path, "r+") as c:
        with c.writer() as w, w.step(3):
            actors.put_all(w, 3, 0)
        fill_up(disk)
        with pytest.raises(dry.IoError, match="free space"):
            c.commit()
        three_steps_read_back(path)
        (disk / "ballast").unlink()
        assert c.commit().changed
        assert c.steps == [0, 1, 2, 3]
        for step in range(4):
            same(c["T"][step], actors.expected(step, 1))
        assert c.verify().ok


@pytest.mark.parametrize("free", [0, 4, 64, 300])
@pytest.mark.parametrize("suffix", ["h5", "nc", "npy", "csv"])
def test_an_export_to_a_full_disk_is_one_line_and_leaves_nothing(disk, tmp_path, suffix, free):
    """HDF5 writes once more when the process ends, after its file could not be closed: therefore a separate process."""
    pytest.importorskip({"h5": "h5py", "nc": "netCDF4"}.get(suffix, "numpy"))
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("whole", "i8", (2, *BIG.shape))[...] = BIG
        c.create_variable("cut", "i8", BIG.shape, chunks=(1 << 12,))[...] = BIG
        c.create_variable("texts", str, (50,))[...] = "text"
    (disk / "hold").write_bytes(bytes(free << 10))
    fill_up(disk)
    (disk / "hold").unlink()
    words = [sys.executable, "-m", "drystone", "export", tmp_path / "run.dry", disk / f"out.{suffix}"]
    words += ["whole"] if suffix in ("npy", "csv") else []
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 6, done.stderr
    (line,) = done.stderr.splitlines()
    assert f"out.{suffix}" in line
    assert "free space" in line
    assert sorted(file.name for file in disk.iterdir()) == ["ballast", "filling"]


@pytest.mark.parametrize("kind", ["raw", "netcdf"])
def test_what_a_command_writes_to_a_full_disk_leaves_what_was_there(disk, tmp_path, kind):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("whole", "i8", (4, *BIG.shape))[...] = BIG
    out = disk / "out"
    out.write_bytes(b"before")
    fill_up(disk)
    words = {
        "raw": ["dump", tmp_path / "run.dry", "whole", "--raw", "-o", out],
        "netcdf": ["publish", tmp_path / "run.dry", "--format", "netcdf", "--output", out],
    }[kind]
    words = [sys.executable, "-m", "drystone", *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 6, done.stderr
    assert f"{out}: " in done.stderr
    assert out.read_bytes() == b"before"
    assert sorted(file.name for file in disk.iterdir()) == ["ballast", "filling", "out"]


def test_a_container_that_finds_no_room_leaves_no_folder(disk):
    fill_up(disk)
    with pytest.raises(dry.IoError, match="free space"):
        dry.create(disk / "run.dry")
    (disk / "own").mkdir()
    with pytest.raises(dry.IoError, match="free space"):
        dry.create(disk / "own")
    assert (disk / "own").is_dir(), "it was there before"
    assert not (disk / "run.dry").exists()


def close(w, c):
    """Close handles after the disk was full; further write errors are expected."""
    for each in (w, c):
        if each is not None:
            with suppress(dry.DrystoneError):
                each.close()


def test_a_medium_that_became_read_only_is_read_and_refuses_the_rest(disk):
    path = disk / "run.dry"
    filled(path, "async")
    remounted = mount("-o", "remount,ro", str(disk))
    if remounted.returncode:
        pytest.skip(f"the tmpfs cannot be remounted: {remounted.stderr.strip()}")
    three_steps_read_back(path)
    refused = 0
    for act in (lambda c: c.create_variable("more", "f4"), lambda c: c.attrs.update(a=1), lambda c: step_of(c, 3), lambda c: c.recover()):  # fmt: skip
        with pytest.raises((dry.IoError, dry.InvalidArgumentError), match=r"for reading; remount|reading only"), dry.open(path, "r+") as c:  # fmt: skip
            act(c)
        refused += 1
    assert refused == 4
    with pytest.raises(dry.IoError, match=r"other\.dry.*for reading; remount it or choose another place"):
        dry.create(disk / "other.dry")
    three_steps_read_back(path)
    assert mount("-o", "remount,rw", str(disk)).returncode == 0
    goes_on(path, 3)


def step_of(c, step):
    with c.writer(rank=0, nranks=1) as w, w.step(step):
        actors.put_all(w, step, 0)


def test_a_file_in_place_of_the_log_is_an_error_that_names_it(path):
    actors.create(path, "durable")
    with dry.open(path, "r+") as c:
        step_of(c, 0)
    (path / "log").rename(path.parent / "aside")
    (path / "log").write_bytes(b"in the way")
    for act in (lambda c: c["T"][0], lambda c: step_of(c, 1)):
        with pytest.raises(dry.DrystoneError, match="log"), dry.open(path, "r+") as c:
            act(c)
    (path / "log").unlink()
    (path.parent / "aside").rename(path / "log")
    with dry.open(path, "r+") as c:
        same(c["T"][0], actors.expected(0, 1))
        step_of(c, 1)
        same(c["T"][1], actors.expected(1, 1))


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() == 0, reason="root may read and write everywhere")
def test_a_folder_without_permission_is_an_io_error_and_loses_nothing(path):
    actors.create(path)
    (path / "log").chmod(0)
    try:
        with pytest.raises(dry.IoError, match="log"), dry.open(path, "r+") as c:
            step_of(c, 0)
    finally:
        (path / "log").chmod(0o700)
    with dry.open(path, "r+") as c:
        step_of(c, 0)
        same(c["T"][0], actors.expected(0, 1))


def test_few_files_are_open_however_many_commits_a_flush_makes_durable(path):
    code = """
import resource, sys
import drystone as dry
resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150))
with dry.create(sys.argv[1], "async") as c:
    for i in range(300):
        c.attrs["i"] = i
    c.flush()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with dry.open(path) as c:
        assert c.attrs["i"] == 299
        assert c.verify().ok
