"""Fast views: prefetched pieces, opening with one request, passthrough in the kernel; always the same bytes."""

import hashlib
import mmap
import os
import random
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from xml.etree import ElementTree

import drystone as dry
import numpy as np
import pytest
from mount_rig import command, end, mounted, needs_fuse, start

pytestmark = needs_fuse
MIB = 1 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A run with an array of 24 MiB, raw and compressed, and its values."""
    path = tmp_path_factory.mktemp("views") / "run.dry"
    values = np.random.default_rng(2).integers(0, 1000, (24, 64, 2048)).astype("f8")
    with dry.create(path) as c:
        for name, transform in [("raw", None), ("packed", "shuffle,zstd:1")]:
            c.create_variable(name, "f8", values.shape, transform=transform)
            with c.writer() as writer:
                for z in range(0, 24, 3):
                    writer.put(name, values[z : z + 3], offset=(z, 0, 0))
    return path, values


@pytest.fixture(scope="module")
def at(large, tmp_path_factory):
    with mounted(large[0], tmp_path_factory.mktemp("at") / "m") as place:
        yield place


def read_in_order(path, length, begin=0):
    """The bytes of a file, read in pieces by system calls only."""
    out, fd = [], os.open(path, os.O_RDONLY)
    os.lseek(fd, begin, os.SEEK_SET)
    while got := os.read(fd, length):
        out.append(got)
    os.close(fd)
    return b"".join(out)


@pytest.mark.parametrize("name", ["raw", "packed"])
@pytest.mark.parametrize("length", [MIB, 300_001, 10_000_000])
def test_reads_in_order_give_the_bytes_whatever_their_length(large, at, name, length):
    want = large[1].tobytes()
    assert read_in_order(at / "view/latest" / f"{name}.bin", length) == want
    found = read_in_order(at / "view/latest" / f"{name}.npy", length, begin=77)
    assert found[-len(want) :] == want
    assert len(found) == len(want) + 128 - 77


@pytest.mark.parametrize("name", ["raw", "packed"])
def test_readers_at_several_places_of_one_file_do_not_meet(large, at, name):
    """Each reader continues from its own position, with its own or a shared handle; their pieces overlap."""
    want, path, wrong = large[1].tobytes(), at / "view/latest" / f"{name}.bin", []
    shared = os.open(path, os.O_RDONLY)

    def reader(number):
        draw = random.Random(number)
        fd = shared if number % 2 else os.open(path, os.O_RDONLY)
        for _ in range(3):
            at, length = draw.randrange(len(want)), draw.choice([4000, 70_000, MIB])
            for _ in range(12):
                if os.pread(fd, length, at) != want[at : at + length]:
                    wrong.append((number, at, length))
                at += length
        if fd != shared:
            os.close(fd)

    threads = [threading.Thread(target=reader, args=(n,)) for n in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    os.close(shared)
    assert wrong == []


def test_bytes_between_members_of_records_are_zeros(tmp_path):
    """The daemon reuses the buffers of other reads, and must not leak them in the gaps of a record."""
    gaps = np.dtype({"names": ["a", "b"], "formats": ["<u2", "<f8"], "offsets": [0, 8], "itemsize": 24})
    values = np.zeros(300_000, gaps)
    values["a"], values["b"] = 7, np.arange(300_000)
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("P", dtype=gaps, shape=values.shape, transform=None)
        c.create_variable("full", dtype="u1", shape=(16 * MIB,), transform=None)
        with c.writer() as writer:
            writer.put("P", values)
            writer.put("full", np.full(16 * MIB, 255, "u1"))
    with mounted(tmp_path / "run.dry", tmp_path / "at") as at:
        for _ in range(2):
            assert read_in_order(at / "view/latest/full.bin", MIB) == b"\xff" * 16 * MIB
            assert read_in_order(at / "view/latest/P.bin", MIB) == values.tobytes()


def test_an_xdmf_file_finds_the_cells_in_a_view(large, at):
    """The example of the guide, with this array's extents: ParaView's reader depends on its wording."""
    page = (Path(__file__).parents[3] / "docs/guide/mount.md").read_text()
    example = ElementTree.fromstring(page.split("```xml\n")[1].split("```")[0])
    item = example.find(".//Attribute/DataItem")
    assert {k: item.get(k) for k in ("NumberType", "Precision", "Endian", "Format")} == {
        "NumberType": "Float",
        "Precision": "8",
        "Endian": "Little",
        "Format": "Binary",
    }
    shape = [int(n) for n in item.get("Dimensions").split()]
    assert item.text.strip().endswith("view/latest/fields/T.bin")
    cells = np.fromfile(at / "view/latest/raw.bin", "<f8", offset=int(item.get("Seek")))
    np.testing.assert_array_equal(cells[: np.prod(shape)], large[1].ravel()[: np.prod(shape)])


def test_mappings_and_reads_of_one_file_agree(large, at):
    """After a file was mapped, the kernel caches it from the next open on, even while the first handle is open."""
    want, path = large[1].tobytes(), at / "view/latest/raw.bin"
    for _ in range(2):
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as held:
            assert held[5 * MIB + 3 : 6 * MIB] == want[5 * MIB + 3 : 6 * MIB]
            assert read_in_order(path, MIB) == want
            assert hashlib.sha256(held).digest() == hashlib.sha256(want).digest()


def test_a_view_that_is_read_again_comes_from_the_kernels_cache_and_is_never_stale(tmp_path):
    """The second read fills the cache; the mount does not see the third. The next snapshot is another file."""
    run, at = tmp_path / "run.dry", tmp_path / "m"

    def write(factor):
        values = factor * np.arange(1 << 18, dtype="f8")
        with dry.open(run, "r+") as c:
            with c.writer() as w:
                w.put("T", values)
            c.commit()
        return values.tobytes()

    with dry.create(run) as c:
        c.create_variable("T", "f8", (1 << 18,), transform=None)
    want = write(1)
    process = start(run, at)
    try:
        path, sent = at / "view/latest/T.bin", []

        def answered():
            return int(re.search(r"^wchar: (\d+)", Path(f"/proc/{process.pid}/io").read_text(), re.M)[1])

        for _ in range(3):
            before = answered()
            assert read_in_order(path, MIB) == want
            sent.append(answered() - before)
        assert min(sent[:2]) >= len(want) > 10 * sent[2], sent
        for factor in (2, 3):
            want = write(factor)
            assert read_in_order(path, MIB) == want
    finally:
        end(process, at)


def test_an_open_behind_a_commit_shows_it_however_fast_commits_follow(tmp_path):
    """The kernel caches names below `latest`. Opening a file of an older snapshot fails as stale, and the kernel looks
    the name up again: programs see neither the failure nor the older snapshot."""
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("T", dtype="i4", shape=(10,), steps=True)
        done, stop, failed = [0], threading.Event(), []
        with c.writer(rank=0, nranks=1) as w, mounted(tmp_path / "run.dry", tmp_path / "at") as at:
            with w.step():
                w.put("T", np.zeros(10, "i4"))

            def reader():
                while not stop.is_set():
                    before = done[0]
                    try:
                        seen = np.load(at / "view/latest/T.npy")
                    except OSError as error:
                        failed.append(error)
                        return
                    if not (len(seen) > before and (seen == np.arange(len(seen))[:, None]).all()):
                        failed.append((before, len(seen)))

            readers = [threading.Thread(target=reader) for _ in range(2)]
            [t.start() for t in readers]
            for t in range(1, 60):
                with w.step():
                    w.put("T", np.full(10, t, "i4"))
                done[0] = t
            stop.set()
            [t.join() for t in readers]
            # Cached data without an open handle is at most a second old.
            time.sleep(1.1)
            assert (at / "view/latest/T.npy").stat().st_size == 128 + 60 * 40
    assert failed == []


def test_published_files_are_shown_as_they_are(tmp_path):
    run = tmp_path / "run.dry"
    with dry.create(run) as c:
        c.create_variable("f/T", dtype="f8", shape=(200, 100))
        c["f/T"][...] = np.arange(20_000.0).reshape(200, 100)
        with mounted(run, tmp_path / "at") as at:
            assert not (at / "published").exists()
            c.publish(progress=False)
            time.sleep(1.1)
            assert sorted(p.name for p in at.iterdir()) == ["fragments", "published", "view"]
            for round_number in range(2):
                stored = [p for p in (run / "zarr").rglob("*") if p.is_file()]
                assert len(stored) >= 3
                for path in stored:
                    shown = at / "published/zarr" / path.relative_to(run / "zarr")
                    assert shown.read_bytes() == path.read_bytes()
                    assert shown.stat().st_size == path.stat().st_size
                if round_number == 0:
                    c["f/T"][...] = np.arange(20_000.0).reshape(200, 100) * 3
                    c.publish(progress=False)
            for wrong in ["published/log", "published/zarr/none", "published/drystone.json"]:
                assert not (at / wrong).exists()
            with pytest.raises(OSError, match="Read-only"):
                (at / "published/zarr/zarr.json").unlink()


def kernel():
    return tuple(map(int, os.uname().release.split(".")[:2]))


@pytest.mark.skipif(os.geteuid() != 0 or kernel() < (6, 9), reason="needs root and Linux 6.9")
def test_the_kernel_reads_published_files_by_itself(tmp_path):
    """The daemon is stopped while the bytes of an open file are read: a request of the kernel would get no answer."""
    h5py = pytest.importorskip("h5py")
    run, at = tmp_path / "run.dry", tmp_path / "at"
    values = np.random.default_rng(7).random((300, 300))
    with dry.create(run) as c:
        c.create_variable("T", dtype="f8", shape=values.shape, transform=None)
        c["T"][...] = values
        c.publish(progress=False, format="zarr+hdf5")
    process = start(run, at)
    try:
        shards = [p for p in (at / "published/zarr/T/c").rglob("*") if p.is_file()]
        wanted = {p: (run / p.relative_to(at / "published")).read_bytes() for p in shards}
        held = {p: p.open("rb") for p in shards}
        process.send_signal(signal.SIGSTOP)
        found = {}
        reader = threading.Thread(
            target=lambda: found.update({p: f.read() for p, f in held.items()}), daemon=True
        )
        reader.start()
        reader.join(20)
        process.send_signal(signal.SIGCONT)
        assert found == wanted
        reader.join()
        [f.close() for f in held.values()]
        with h5py.File(shards[0]) as file:
            np.testing.assert_array_equal(file["T"][: len(values)], values)
    finally:
        process.send_signal(signal.SIGCONT)
        end(process, at)


def memory(process):
    """Memory of a process in MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def test_a_mount_that_does_nothing_has_little_memory(large, tmp_path):
    process = start(large[0], tmp_path / "at")
    try:
        assert (tmp_path / "at/view/latest").is_dir()
        assert memory(process) <= 32
        for name in ["raw", "packed"]:
            read_in_order(tmp_path / f"at/view/latest/{name}.bin", MIB)
        assert memory(process) <= 32 + 64
    finally:
        end(process, tmp_path / "at")


def test_damage_behind_what_is_read_does_no_harm(tmp_path):
    """Pieces are prefetched for a sequential reader; a damaged range gives an error when it is read, and not before."""
    run, many = tmp_path / "run.dry", 12 * MIB
    with dry.create(run) as c:
        c.create_variable("v", dtype="u1", shape=(many,), transform=None)
        c["v"][...] = np.full(many, ord("v"), "u1")
    log = max(run.glob("log/*.seg"), key=lambda path: path.stat().st_size)
    with log.open("r+b") as file:
        file.seek(log.read_bytes().find(b"v" * 4096) + 9 * MIB)
        file.write(b"!")
    process = start(run, tmp_path / "at")
    fd = os.open(tmp_path / "at/view/latest/v.bin", os.O_RDONLY)
    for place in range(8):
        assert os.pread(fd, MIB, place * MIB) == b"v" * MIB, place
    with pytest.raises(OSError, match="Input/output"):
        os.pread(fd, MIB, 9 * MIB - 4096)
    assert os.pread(fd, MIB, 10 * MIB + 4096) == b"v" * MIB
    os.close(fd)
    assert "checksum" in end(process, tmp_path / "at")


def test_the_mount_is_ready_for_other_commands(large):
    """The mount command restarts itself without the package; errors and exit codes stay the same."""
    done = subprocess.run(command("mount", large[0]), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "<FOLDER>" in done.stderr
    shown = subprocess.run(command("mount", "--help"), capture_output=True, text=True, check=False)
    assert shown.returncode == 0
    assert "--write" in shown.stdout
