"""Exports that write directly to an array's position in the file equal those by the library of the format."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import drystone as dry
import numpy as np
import pytest
from command_line import drystone
from drystone.interchange import formats
from drystone.interchange.exports import placed

h5py = pytest.importorskip("h5py")
netCDF4 = pytest.importorskip("netCDF4")

SHAPE = (37, 31, 53)


def values(dtype, number):
    return (np.random.default_rng(number).random(SHAPE) * 250).astype(dtype)


@pytest.fixture
def arrays(tmp_path):
    """The content of the container; a part of `part` was never written."""
    kinds = {"a": "f8", "b": "i2", "group/c": "f4", "group/deep/d": "u1", "e": "i8"}
    found = {name: values(dtype, i) for i, (name, dtype) in enumerate(kinds.items())}
    found["part"] = np.full(SHAPE, -7, "i4")
    found["part"][5:30, :, 7:] = values("i4", 9)[5:30, :, 7:]
    with dry.create(tmp_path / "whole.dry") as c:
        for name, array in found.items():
            c.create_variable(
                name, array.dtype, SHAPE, dims=("z", "a", "x"), fill_value=-7 if name == "part" else None
            )
        with c.writer(rank=0, nranks=1) as w:
            for name, array in found.items():
                if name == "part":
                    w.put(name, array[5:30, :, 7:], offset=(5, 0, 7))
                    continue
                for z in range(0, SHAPE[0], 10):
                    w.put(name, array[z : z + 10], offset=(z, 0, 0))
    return found


@pytest.mark.parametrize("least", [1, 10_000, 2 << 20])
@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_every_value_is_where_the_library_reads_it(tmp_path, arrays, monkeypatch, suffix, least):
    monkeypatch.setattr(formats, "SMALL", 1000)
    monkeypatch.setattr(placed, "LEAST", least)
    made = []
    own = placed.Rows.__init__
    monkeypatch.setattr(placed.Rows, "__init__", lambda self, *a: (made.append(a), own(self, *a))[1])
    target = tmp_path / f"out.{suffix}"
    drystone("export", tmp_path / "whole.dry", target)
    # netCDF stores "a" under another name, since it is also a dimension of another variable
    assert len(made) == len(arrays) - (suffix == "nc")
    with h5py.File(target) as file:
        for name, array in arrays.items():
            stored = name if name in file and file[name].shape == SHAPE else f"_nc4_non_coord_{name}"
            np.testing.assert_array_equal(file[stored][...], array, strict=True)
    if suffix == "nc":
        with netCDF4.Dataset(target) as file:
            file.set_auto_mask(False)
            for name, array in arrays.items():
                np.testing.assert_array_equal(file[name][...], array, strict=True)
    drystone("import", target, tmp_path / "again.dry")
    with dry.open(tmp_path / "again.dry") as c:
        for name, array in arrays.items():
            np.testing.assert_array_equal(c[name][...], array, strict=True)


def test_steps_are_packed_in_one_run(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "SMALL", 1000)
    monkeypatch.setattr(placed, "LEAST", 5000)
    steps = [0, 1, 2, 5, 9, 10]
    expected = np.stack([values("f4", step) for step in steps])
    expected[3, :, 4:] = 9
    with dry.create(tmp_path / "whole.dry") as c:
        c.create_variable("a", "f4", SHAPE, steps=True, fill_value=9)
        with c.writer(rank=0, nranks=1) as w:
            for step, array in zip(steps, expected, strict=True):
                with w.step(step):
                    w.put("a", array[:, :4] if step == 5 else array)
    drystone("export", tmp_path / "whole.dry", tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["a"].chunks is None
        assert file["a"].dims[0].label == "step"
        np.testing.assert_array_equal(file["a"][...], expected, strict=True)
        np.testing.assert_array_equal(file["step"], steps)


def test_members_of_records_and_other_byte_orders(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "SMALL", 100)
    record = np.zeros((40, 30), [("p", "f8"), ("q", "i2"), ("r", "f4", (3,))])
    record["p"], record["q"] = np.arange(1200.0).reshape(40, 30), np.arange(1200).reshape(40, 30) % 99
    record["r"] = np.arange(3600.0).reshape(40, 30, 3)
    with dry.create(tmp_path / "whole.dry") as c:
        c.create_variable("records", record.dtype, (40, 30))
        c.create_variable("flags", "bool", (40, 30))
        c.create_variable("pairs", "c16", (40, 30))
        with c.writer(rank=0, nranks=1) as w:
            w.put("records", record)
            w.put("flags", record["q"] % 2 == 0)
            w.put("pairs", record["p"] * 1j)
    drystone("export", tmp_path / "whole.dry", tmp_path / "out.nc")
    with netCDF4.Dataset(tmp_path / "out.nc") as file:
        for name in ("p", "q", "r"):
            np.testing.assert_array_equal(file[f"records.{name}"][...], record[name])
        np.testing.assert_array_equal(file["flags"][...], record["q"] % 2 == 0)
    drystone("export", tmp_path / "whole.dry", tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        np.testing.assert_array_equal(file["records"][...], record)
        np.testing.assert_array_equal(file["flags"][...], record["q"] % 2 == 0)
        np.testing.assert_array_equal(file["pairs"][...], record["p"] * 1j)
    drystone("export", tmp_path / "whole.dry", tmp_path / "member.h5", "records.p")
    with h5py.File(tmp_path / "member.h5") as file:
        np.testing.assert_array_equal(file["records.p"][...], record["p"])


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_the_library_of_the_system_reads_it(tmp_path, arrays, suffix):
    drystone("export", tmp_path / "whole.dry", tmp_path / f"out.{suffix}", "e")
    try:
        shown = subprocess.run(
            ["h5dump", "-d", "/e", "-b", "LE", "-o", tmp_path / "raw", tmp_path / f"out.{suffix}"],
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("h5dump is not installed")
    assert shown.returncode == 0, shown.stderr
    np.testing.assert_array_equal(np.fromfile(tmp_path / "raw", "i8").reshape(SHAPE), arrays["e"])


@pytest.mark.parametrize("text", [b"", b"ab", b"abcde"])
def test_a_text_alone_has_all_its_bytes(tmp_path, text):
    with dry.create(tmp_path / "whole.dry") as c:
        c.create_variable("text", "S5", ())
        with c.writer(rank=0, nranks=1) as w:
            w.put("text", np.array(text, "S5"))
    drystone("export", tmp_path / "whole.dry", tmp_path / "out.npy")
    found = np.load(tmp_path / "out.npy")
    assert (found.dtype, found.shape, found[()]) == (np.dtype("S5"), (), text)


def test_threads_that_export_to_one_name_write_files_of_their_own(tmp_path):
    """Symptom: an export failed, or left a mixture, because two threads wrote the same temporary file."""
    with dry.create(tmp_path / "t.dry") as c:
        c["a"] = np.arange(200_000.0)
        c.commit()
        target = tmp_path / "a.npy"
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(dry.export, c, target, "a", overwrite=True) for _ in range(20)]:
                done.result()
    np.testing.assert_array_equal(np.load(target), np.arange(200_000.0))
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
