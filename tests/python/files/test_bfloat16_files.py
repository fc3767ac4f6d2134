"""bfloat16 in files: HDF5 supports it; netCDF and .npy do not, and a warning says so."""

import warnings
from ctypes import CDLL, c_int64
from pathlib import Path

import drystone as dry
import h5py
import netCDF4
import numpy as np
import pytest
from drystone.interchange.formats.bfloat16 import in_hdf5
from same_bits import commits_by_itself, same

bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1 / 3, 1e-40, 3.3e38]


def losing(call, *arguments, **named):
    """The losses that a call warned about."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        lost = call(*arguments, **named).lost
    assert [str(one.message) for one in told] == [f"not preserved: {what}" for what in lost]
    return lost


@pytest.fixture
def stored(path):
    """A container with bfloat16 in every place, and its values by name."""
    rng = np.random.default_rng(8)
    values = {
        "rows": rng.normal(0, 1e5, (200, 700)).astype(bfloat16),  # more than is written at once
        "cut": rng.normal(0, 1, (50, 40)).astype(bfloat16),
        "one": np.asarray(np.pi, bfloat16),
        "special": np.array(SPECIAL, bfloat16),
        "steps": rng.normal(0, 1, (3, 5)).astype(bfloat16),
        "none": np.empty((0, 3), bfloat16),
    }
    with dry.create(path) as c:
        for name in ("rows", "one", "special", "none"):
            c.create_variable(name, "bfloat16", values[name].shape)[...] = values[name]
        c.create_variable("cut", "bfloat16", (50, 40), chunks=(7, 40), dims=("y", "x"))[...] = values["cut"]
        c.create_variable("never", "bfloat16", (4,), fill_value=1.5)
        values["never"] = np.full(4, 1.5, bfloat16)
        c.create_variable("steps", "bfloat16", (5,), steps=True, dims=("n",))
        with commits_by_itself(c) as w:
            for step in range(3):
                with w.step(step):
                    w.put("steps", values["steps"][step])
    return values


def test_hdf5_holds_them_as_floats_that_h5py_reads_and_import_takes_back(stored, path, tmp_path):
    assert dry.export(path, tmp_path / "out.h5").lost == []
    with h5py.File(tmp_path / "out.h5") as f:
        for name, values in stored.items():
            assert f[name].dtype == np.float32
            assert f[name].id.get_type().get_size() == 2
            np.testing.assert_array_equal(f[name][...], values.astype("f4"))
        assert f["cut"].chunks == (7, 40)
        assert f["cut"].dims[0].label == "y"
    dry.import_file(tmp_path / "out.h5", tmp_path / "back.dry", steps="step")
    assert dry.diff(path, tmp_path / "back.dry") == []
    with dry.open(tmp_path / "back.dry") as c:
        for name, values in stored.items():
            same(c[name][...], values)
        assert c["never"].fill_value == 1.5


def test_the_type_is_that_of_hdf5():
    """HDF5 has a name for it from 2.0 on, which h5py does not show: files of other programs that use it are read as
    bfloat16."""
    for library in Path(h5py.__file__).parents[1].glob("h5py.libs/libhdf5-*"):
        kind = h5py.h5t.TypeFloatID(c_int64.in_dll(CDLL(str(library)), "H5T_FLOAT_BFLOAT16LE_g").value)
        assert kind.equal(in_hdf5())
        return
    pytest.skip("h5py has no library of its own")


@pytest.mark.parametrize("fields", [((15, 8, 7, 0, 8), 63), ((15, 7, 8, 0, 7), 128)])
def test_other_short_floats_stay_what_they_are(path, tmp_path, fields):
    """One type has one bit less of exponent and one more of mantissa, another has a different bias."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(*fields[0])
    kind.set_size(2)
    kind.set_ebias(fields[1])
    values = np.array([0.5, 3, -1.5], "f4")
    with h5py.File(tmp_path / "in.h5", "w") as f:
        made = h5py.h5d.create(f.id, b"short", kind, h5py.h5s.create_simple((3,)))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    dry.import_file(tmp_path / "in.h5", path)
    with dry.open(path) as c:
        assert c["short"].dtype in (np.float32, np.float64)
        np.testing.assert_array_equal(c["short"][...], values)


def test_those_of_other_machines_are_turned_round(path, tmp_path):
    values = np.array(SPECIAL, bfloat16)
    kind = in_hdf5()
    kind.set_order(h5py.h5t.ORDER_BE)
    with h5py.File(tmp_path / "in.h5", "w") as f:
        made = h5py.h5d.create(f.id, b"v", kind, h5py.h5s.create_simple(values.shape))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values, in_hdf5())
    dry.import_file(tmp_path / "in.h5", path)
    with dry.open(path) as c:
        same(c["v"][...], values)


def test_records_widen_them_and_say_so(path, tmp_path):
    pairs = np.array(
        [(1, 0.5, [1, 2]), (2, 3, [4, 5])], [("n", "i4"), ("x", bfloat16), ("v", bfloat16, (2,))]
    )
    with dry.create(path) as c:
        c.create_variable("p", pairs.dtype, (2,))[...] = pairs
    (lost,) = losing(dry.export, path, tmp_path / "out.h5")
    assert "bfloat16 of x, v" in lost
    with h5py.File(tmp_path / "out.h5") as f:
        for name in pairs.dtype.names:
            np.testing.assert_array_equal(f["p"][name], pairs[name].astype(f["p"].dtype[name].base))


def test_netcdf_has_them_as_float32_and_npy_as_bytes_of_which_both_say_so(stored, path, tmp_path):
    lost = losing(dry.export, path, tmp_path / "out.nc")
    assert len(lost) == len(stored)
    assert all("bfloat16 (the values are kept as float32)" in what for what in lost)
    with netCDF4.Dataset(tmp_path / "out.nc") as f:
        f.set_auto_maskandscale(False)
        for name, values in stored.items():
            same(np.asarray(f[name][...]), values.astype("f4"))
        assert f["never"]._FillValue == np.float32(1.5)
    (lost,) = losing(dry.export, path, tmp_path / "out.npy", "special")
    assert "special: its type bfloat16" in lost
    same(np.load(tmp_path / "out.npy").view(bfloat16), stored["special"])
