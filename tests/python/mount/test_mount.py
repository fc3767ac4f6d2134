"""`drystone mount`: the content of a container, as files that any program reads."""

import errno
import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse, which this machine does not give"
)

RECORD = np.dtype([("x", "<f4"), ("n", "<i8"), ("name", "S3"), ("v", "<f8", (2,))])
PADDED = np.dtype({"names": ["a", "b"], "formats": ["<u2", "<f8"], "offsets": [0, 8], "itemsize": 24})


def names_of(folder):
    return sorted(path.name for path in folder.iterdir())


def command(*words):
    return [sys.executable, "-m", "drystone", *map(str, words)]


def start(run, at):
    """Wait until a mount is ready."""
    process = subprocess.Popen(
        command("mount", run, at), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    line = process.stdout.readline()
    assert line == f"mounted {run} at {at}\n", process.stderr.read()
    return process


def ended(process):
    """The exit code of a mount, after it ends."""
    process.communicate(timeout=20)
    return process.returncode


@contextmanager
def mounted(run, at):
    at.mkdir(exist_ok=True)
    process = start(run, at)
    try:
        yield at
    finally:
        subprocess.run(command("umount", at), check=False, capture_output=True)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        ended(process)


def arrays():
    """An array of every element type."""
    random = np.random.default_rng(1)
    out = {
        f"numbers/{t}": random.integers(0, 100, (5, 7)).astype(t)
        for t in ["i1", "u2", "i4", "u8", "f2", "f4", "f8"]
    }
    record = np.zeros(11, RECORD)
    record["x"], record["n"], record["name"] = np.arange(11), -7, b"abc"
    record["v"] = np.arange(22).reshape(11, 2)
    padded = np.zeros((2, 3), PADDED)
    padded["a"], padded["b"] = 7, np.arange(6).reshape(2, 3) / 3
    out |= {
        "P": record,
        "padded": padded,
        "flag": np.array([True, False, True]),
        "z": np.arange(4) * (1 + 2j),
    }
    return out | {
        "bytes": np.array([b"ab", b"cdef", b""], "S4"),
        "text": np.array(["né", "x"], "U3"),
        "one": np.float64(2.5),
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("mount") / "run.dry"
    with dry.create(path) as c:
        for name, array in arrays().items():
            c.create_variable(name, dtype=np.asarray(array).dtype, shape=np.shape(array))
        c.create_variable("y", dtype="f8", shape=(5,), dims=("y",), attrs={"units": "m"})
        c.create_variable(
            "fields/T",
            dtype="f4",
            shape=(5, 7),
            dims=("y", "x"),
            steps=True,
            attrs={"units": "K"},
            transform="zstd:1",
        )
        c.create_variable("words", dtype=str, shape=(2,))
        with c.writer(rank=0, nranks=1) as w:
            for name, array in arrays().items():
                w.put(name, np.asarray(array))
            w.put("y", np.linspace(0, 1, 5))
            for t in range(3):
                with w.step():
                    w.put("fields/T", np.arange(35, dtype="f4").reshape(5, 7) + 100 * t)
    return path


@pytest.fixture(scope="module")
def at(run, tmp_path_factory):
    with mounted(run, tmp_path_factory.mktemp("at")) as place:
        yield place


def test_numpy_maps_every_array(run, at):
    c = dry.open(run)
    for name in [*arrays(), "y", "fields/T"]:
        want = np.asarray(c[name][...])
        mode = "r" if want.ndim else None
        seen = np.load(at / "view/latest" / f"{name}.npy", mmap_mode=mode)
        assert (seen.dtype, seen.shape) == (want.dtype, want.shape), name
        np.testing.assert_array_equal(seen, want, err_msg=name)
        if want.dtype.names is None:
            assert (at / "view/latest" / f"{name}.bin").read_bytes() == np.ascontiguousarray(
                want
            ).tobytes(), name


def test_members_of_a_record_are_files_each(run, at):
    record = dry.open(run)["P"]
    for member in RECORD.names:
        np.testing.assert_array_equal(np.load(at / f"view/latest/P/{member}.npy"), record[member][...])
    assert names_of(at / "view/latest/P")[:4] == ["n.bin", "n.h5", "n.nc", "n.npy"]


def test_hdf5_and_netcdf_programs_read_arrays_with_their_axes(run, at):
    h5py, xarray = pytest.importorskip("h5py"), pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    c = dry.open(run)
    with h5py.File(at / "view/latest/fields/T.h5") as file:
        np.testing.assert_array_equal(file["T"], c["fields/T"][...])
        assert file["T"].dims[1][0].name == "/y"
    for name in ["numbers/i4", "numbers/f8", "z", "flag", "one"]:
        with h5py.File(at / f"view/latest/{name}.h5") as file:
            np.testing.assert_array_equal(file[name.rsplit("/", maxsplit=1)[-1]][()], c[name][...])
    with xarray.open_dataset(at / "view/latest/fields/T.nc") as data:
        np.testing.assert_array_equal(data["T"], c["fields/T"][...])
        np.testing.assert_array_equal(data["y"], c["y"][...])
        assert data["T"].attrs["units"] == "K"


def test_zarr_programs_read_every_array_of_a_snapshot(run, at):
    zarr = pytest.importorskip("zarr")
    c = dry.open(run)
    for place in ["latest", c.snapshots[-1]]:
        group = zarr.open_group(at / f"view/{place}/zarr", mode="r")
        assert group["fields/T"].attrs["units"] == "K"
        for name in [*arrays(), "y", "fields/T"]:
            members = RECORD.names if name == "P" else PADDED.names if name == "padded" else [None]
            for member in members:
                want = c[name][...] if member is None else c[name][member][...]
                found = group[name if member is None else f"{name}/{member}"]
                if want.dtype.kind in "SU":
                    # Fixed-length strings have an axis of characters, as in the published replica.
                    assert np.asarray(found[...]).tobytes() == np.ascontiguousarray(want).tobytes()
                    continue
                assert found.dtype == want.dtype
                np.testing.assert_array_equal(found[...], want, err_msg=name)
    assert names_of(at / "view/latest/zarr/fields") == ["T", "zarr.json"]
    assert names_of(at / "view/latest/zarr/fields/T") == ["c", "zarr.json"]
    assert names_of(at / "view/latest/zarr/fields/T/c") == ["0", "1", "2"]
    for wrong in ["zarr/nothing", "zarr/fields/T/c/7", "zarr/fields/T/c/0/0/0/0", "zarr/fields/c"]:
        assert not (at / "view/latest" / wrong).exists()


def test_chunks_of_later_snapshots_are_cut_as_the_first_document_said(tmp_path):
    """A program reads the document of a growing array once, and chunks as the run continues; meanwhile blocks of other
    shapes are written. If the chunk shape followed the newest blocks, the program would read wrong cells."""
    zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")
    run = tmp_path / "run.dry"
    values = np.random.default_rng(5).random((4, 256, 256))
    with dry.create(run) as c:
        c.create_variable("T", dtype="f8", shape=(256, 256), steps=True, dims=("y", "x"))
        c.create_variable("never", dtype="i4", shape=(10,), fill_value=-1)
        with c.writer(rank=0, nranks=1) as w, mounted(run, tmp_path / "at") as at:
            with w.step():
                for y in range(0, 256, 128):
                    w.put("T", values[0, y : y + 128], offset=(y, 0))
            held = zarr.open_array(at / "view/latest/zarr/T", mode="r")
            np.testing.assert_array_equal(held[...], values[:1])
            for plane in values[1:]:
                with w.step():
                    for x in range(0, 256, 128):
                        w.put("T", plane[:, x : x + 128].copy(), offset=(0, x))
            np.testing.assert_array_equal(held[0], values[0])
            with xarray.open_dataset(at / "view/latest/zarr", engine="zarr", mask_and_scale=False) as data:
                np.testing.assert_array_equal(data["T"], values)
                assert (data["never"] == -1).all()
            assert zarr.open_array(at / "view/latest/zarr/T", mode="r").chunks == held.chunks
            assert names_of(at / "view/latest/zarr/never") == ["c", "zarr.json"]
            assert names_of(at / "view/latest/zarr/never/c") == []


def test_a_group_called_zarr_is_shown_as_any_other(tmp_path):
    run = tmp_path / "run.dry"
    with dry.create(run) as c:
        c.create_variable("zarr/T", dtype="i4", shape=(4,))
        with c.writer() as w:
            w.put("zarr/T", np.arange(4, dtype="i4"))
    with mounted(run, tmp_path / "at") as at:
        assert np.load(at / "view/latest/zarr/T.npy").tolist() == [0, 1, 2, 3]


def test_folders_show_groups_snapshots_and_no_strings_of_any_length(run, at):
    snapshots = [str(n) for n in dry.open(run).snapshots]
    assert names_of(at / "view") == sorted([*snapshots, "latest"])
    assert names_of(at) == ["fragments", "view"]
    names = names_of(at / "view/latest")
    assert "fields" in names
    assert "fields" not in names_of(at / "view" / snapshots[0])
    assert not any(name.startswith("words") for name in names)
    for wrong in ["view/9999", "view/01", "view/latest/nothing.npy", "view/latest/P.h5", "fragments/none"]:
        assert not (at / wrong).exists()


def test_nothing_can_be_written(at):
    for act in [
        lambda: (at / "view/latest/new").write_bytes(b""),
        lambda: os.open(at / "view/latest/y.npy", os.O_RDWR),
        lambda: (at / "view/latest/y.npy").unlink(),
        lambda: (at / "view/new").mkdir(),
    ]:
        with pytest.raises(OSError) as refused:
            act()
        assert refused.value.errno == errno.EROFS


def test_files_say_their_snapshot_type_and_shape(run, at):
    name = at / "view/latest/fields/T.npy"
    assert os.getxattr(name, "user.drystone.snapshot") == str(dry.open(run).snapshots[-1]).encode()
    assert os.getxattr(name, "user.drystone.shape") == b"3,5,7"
    assert os.getxattr(name, "user.drystone.dtype") == b"<f4"
    assert "user.drystone.dtype" in os.listxattr(name)
    assert name.stat().st_size == np.load(name).nbytes + 128


def test_an_open_file_keeps_its_snapshot_and_the_next_open_sees_the_newest(tmp_path):
    run = tmp_path / "run.dry"
    with dry.create(run) as c:
        c.create_variable("T", dtype="i4", shape=(1000,), steps=True)
        with c.writer(rank=0, nranks=1) as w, mounted(run, tmp_path / "at") as at:
            path = at / "view/latest/T.npy"
            for t in range(4):
                with w.step():
                    w.put("T", np.full(1000, t, "i4"))
                if t == 1:
                    early = np.load(path, mmap_mode="r")
                seen = np.load(path)
                assert seen.shape == (t + 1, 1000)
                assert (seen == np.arange(t + 1)[:, None]).all()
            assert early.shape == (2, 1000)
            assert (early == [[0], [1]]).all()
            version = c.snapshots[-2]
            assert np.load(at / f"view/{version}/T.npy").shape[0] == 3


def test_any_range_of_a_large_file_has_the_right_bytes(tmp_path):
    """Compressed, with chunks across the axes: ranges start and end inside cells, and large sequential reads are
    prefetched."""
    run = tmp_path / "run.dry"
    values = np.random.default_rng(3).integers(0, 50, (40, 300, 250)).astype("f8")
    with dry.create(run) as c:
        c.create_variable("T", dtype="f8", shape=values.shape, transform="shuffle,zstd:1")
        with c.writer() as w:
            for z in range(0, 40, 10):
                w.put("T", values[z : z + 10], offset=(z, 0, 0))
    want = values.tobytes()
    with mounted(run, tmp_path / "at") as at:
        path = at / "view/latest/T.bin"
        assert path.read_bytes() == want
        random = np.random.default_rng(4)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as held:
            for _ in range(200):
                begin, length = int(random.integers(len(want))), int(random.integers(1, 20000))
                assert os.pread(file.fileno(), length, begin) == want[begin : begin + length]
                assert held[begin : begin + length] == want[begin : begin + length]
            assert os.pread(file.fileno(), 100, len(want) - 10) == want[-10:]
            assert os.pread(file.fileno(), 100, len(want) + 5) == b""
        whole = (at / "view/latest/T.h5").read_bytes()
        assert whole[4096 : 4096 + len(want)] == want
        assert whole == (at / "view/latest/T.nc").read_bytes()


FRAGMENTS = """
const H = 6
const W = 5
dataset { var u[H, W] float32 steps; var once[H] int32 }
fragment turned { var u[j:W, i:H] = u[i, j] }
fragment column { var c[i:H] = u[i, 2] }
fragment reversed { var o[i:H] = once[H - 1 - i] }
fragment row(r) { var c[j:W] = u[r, j] }
"""


def test_fragments_are_flat_files(tmp_path):
    run = tmp_path / "run.dry"
    values = np.arange(3 * 6 * 5, dtype="f4").reshape(3, 6, 5)
    with dry.create(run) as c:
        c.declare(FRAGMENTS)
        with c.writer(rank=0, nranks=1) as w:
            w.put("once", np.arange(6, dtype="i4"))
            for plane in values:
                with w.step():
                    w.put("u", plane)
    with mounted(run, tmp_path / "at") as at:
        assert names_of(at / "fragments") == ["column", "reversed", "turned"]
        column = np.fromfile(at / "fragments/column", "f4").reshape(3, 6)
        np.testing.assert_array_equal(column, values[:, :, 2])
        turned = np.memmap(at / "fragments/turned", "f4", "r", shape=(3, 5, 6))
        np.testing.assert_array_equal(turned, values.transpose(0, 2, 1))
        np.testing.assert_array_equal(np.fromfile(at / "fragments/reversed", "i4"), np.arange(6)[::-1])


def test_a_damaged_range_is_an_error_and_the_rest_reads(tmp_path):
    run = tmp_path / "run.dry"
    with dry.create(run) as c:
        for name in ["a", "b"]:
            c.create_variable(name, dtype="u1", shape=(1 << 20,), transform=None)
            with c.writer() as w:
                w.put(name, np.full(1 << 20, ord(name), "u1"))
    for log in Path(run).glob("log/*.seg"):
        data = log.read_bytes()
        place = data.find(b"b" * 4096)
        if place >= 0:
            log.write_bytes(data[: place + 5000] + b"!" + data[place + 5001 :])
    with mounted(run, tmp_path / "at") as at:
        assert (np.load(at / "view/latest/a.npy") == ord("a")).all()
        with pytest.raises(OSError) as refused:
            (at / "view/latest/b.bin").read_bytes()
        assert refused.value.errno == errno.EIO


def test_a_killed_mount_fails_at_once_and_is_mounted_again(run, tmp_path):
    at = tmp_path / "at"
    at.mkdir()
    first = start(run, at)
    os.kill(first.pid, signal.SIGKILL)
    ended(first)
    begin = time.monotonic()
    with pytest.raises(OSError) as refused:
        names_of(at)
    assert refused.value.errno == errno.ENOTCONN
    assert time.monotonic() - begin < 30  # it does not hang
    second = start(run, at)
    assert np.load(at / "view/latest/y.npy").shape == (5,)
    second.terminate()
    assert ended(second) == 0
    assert names_of(at) == []


def test_an_open_file_does_not_keep_the_folder(run, tmp_path):
    at = tmp_path / "at"
    at.mkdir()
    process = start(run, at)
    with (at / "view/latest/y.npy").open("rb") as file:
        assert file.read(6) == b"\x93NUMPY"
        process.terminate()
        assert ended(process) == 0
        assert names_of(at) == []


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_mount_and_frees_the_folder(run, tmp_path, ending):
    at = tmp_path / "at"
    at.mkdir()
    process = start(run, at)
    process.send_signal(ending)
    assert ended(process) == 0
    assert names_of(at) == []


def test_wrong_places_are_errors(run, tmp_path):
    for words, code, said in [
        (["mount", tmp_path / "none.dry", tmp_path], 3, "none.dry"),
        (["mount", run, tmp_path / "nowhere"], 3, "there is no folder"),
        (["umount", tmp_path], 6, "unmounting"),
    ]:
        done = subprocess.run(command(*words), capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (code, "")
        assert said in done.stderr
        assert done.stderr.startswith("drystone: ")


def test_a_float16_has_no_netcdf_file(tmp_path):
    """netCDF has no float of 2 bytes: netCDF4-python and xarray ended by SIGSEGV."""
    with dry.create(tmp_path / "run.dry") as c:
        c["h"] = np.arange(5, dtype="f2")
        c["r"] = np.zeros(3, [("half", "f2"), ("whole", "f4")])
    with mounted(tmp_path / "run.dry", tmp_path / "at") as at:
        seen = at / "view/latest"
        assert names_of(seen) == ["h.bin", "h.h5", "h.npy", "r", "r.bin", "r.npy", "zarr"]
        assert [name for name in names_of(seen / "r") if name.endswith(".nc")] == ["whole.nc"]
        assert not (seen / "h.nc").exists()
        assert np.load(seen / "h.npy").tolist() == [0, 1, 2, 3, 4]


def test_a_derived_variable_whose_input_was_deleted_is_not_shown(tmp_path):
    """It was listed, and opening it failed with ENOENT, so `cp -r` and `tar` failed."""
    with dry.create(tmp_path / "run.dry") as c:
        c["u"], c["p"] = np.arange(4.0), np.arange(3.0)
        c.derive("v", "u*2")
        c.derive("w", "v + 1")
        c.derive("q", "p*2")
        c.rename("u", "uu")
        c.delete("uu")
        c["u"] = np.ones(4)
        with pytest.raises(
            dry.NotFoundError, match=r'called "u", was deleted \("u" is another variable now\)'
        ):
            c["v"][...]
        c.delete("u")
        with pytest.raises(dry.NotFoundError, match='its input "u" was deleted'):
            c["v"][...]
    with mounted(tmp_path / "run.dry", tmp_path / "at") as at:
        files = [name for name in names_of(at / "view/latest") if name != "zarr"]
        assert files == [f"{name}.{form}" for name in "pq" for form in ("bin", "h5", "nc", "npy")]
        assert np.load(at / "view/latest/q.npy").tolist() == [0, 2, 4]


def test_times_have_the_types_of_numpy(tmp_path):
    times = np.array(["2026-01-31T12:30:00.125", "NaT"], "M8[ms]")
    record = np.zeros(2, [("n", "i4"), ("at", "M8[25s]"), ("span", "m8[us]", (2,))])
    record["at"], record["span"] = times, np.timedelta64(3, "us")
    with dry.create(tmp_path / "run.dry") as c:
        c["when"], c["span"], c["r"] = times, np.array([1, 2], "m8[ns]"), record
    with mounted(tmp_path / "run.dry", tmp_path / "at") as at:
        seen = at / "view/latest"
        for name, want in [("when", times), ("span", np.array([1, 2], "m8[ns]")), ("r", record)]:
            found = np.load(seen / f"{name}.npy")
            assert found.dtype == want.dtype
            assert found.tobytes() == want.tobytes()
        assert np.load(seen / "r/at.npy").dtype == "M8[25s]"
        assert os.getxattr(seen / "when.npy", "user.drystone.dtype") == b"<M8[ms]"
