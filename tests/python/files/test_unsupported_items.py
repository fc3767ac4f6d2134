"""One item that a container cannot hold is named as lost, and the rest of the file is imported.

Symptom: each of these items made the whole import fail, or was changed without a word.
"""

import json

import drystone as dry
import numpy as np
import pytest

h5py = pytest.importorskip("h5py")
netCDF4 = pytest.importorskip("netCDF4")
numcodecs = pytest.importorskip("numcodecs")
zarr = pytest.importorskip("zarr")

pytestmark = pytest.mark.filterwarnings("ignore")

REPLACED = "bytes that are not UTF-8 (each is replaced by U+FFFD)"


def lost_of(file, path):
    """The losses of an import that must take the numbers of x over."""
    lost = dry.import_file(file, path).lost
    with dry.open(path) as c:
        assert c["x"][...].tolist() == [1, 2]
    return lost


def with_time_dataset(f):
    h5py.h5d.create(f.id, b"t", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((3,)))


def with_time_attribute(f):
    h5py.h5a.create(f["x"].id, b"t", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((3,)))


def with_long_double(f):
    f["x"].attrs["t"] = np.longdouble(3)


def with_lists_of_long_double(f):
    f.create_dataset("t", (2,), h5py.vlen_dtype(np.longdouble))


def with_records_of_lists_of_long_double(f):
    f.create_dataset("t", (2,), np.dtype([("a", h5py.vlen_dtype(np.longdouble))]))


@pytest.mark.parametrize(
    ("add", "says"),
    [
        (with_time_dataset, "t (No NumPy equivalent for TypeTimeID exists)"),
        (with_time_attribute, "attribute t of x (TypeError)"),
        (with_long_double, "attribute t of x (longdouble)"),
        (with_lists_of_long_double, "t (dtype float128 is not stored"),
        (with_records_of_lists_of_long_double, "t (dtype float128 is not stored"),
    ],
)
def test_a_type_of_hdf5(tmp_path, path, add, says):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = [1, 2]
        add(f)
    (loss,) = lost_of(tmp_path / "a.h5", path)
    assert loss.startswith(says)


def test_names_that_are_not_utf8(tmp_path, path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = [1, 2]
        bad = h5py.h5g.create(f.id, b"bad\xff")
        h5py.h5g.create(bad, b"below")
        f.id.links.create_soft(b"soft\xff", b"/x")
        h5py.h5a.create(f["x"].id, b"a\xff", h5py.h5t.STD_I8LE, h5py.h5s.create_simple((3,)))
        odd = h5py.h5t.create(h5py.h5t.COMPOUND, 1)
        odd.insert(b"m\xff", 0, h5py.h5t.STD_I8LE)
        h5py.h5d.create(f.id, b"odd", odd, h5py.h5s.create_simple((3,)))
    lost = lost_of(tmp_path / "a.h5", path)
    for name in (r"b'bad\xff'", r"b'bad\xff/below'", r"b'soft\xff'", r"attribute b'a\xff' of x"):
        assert f"{name} (its name is not UTF-8)" in lost
    assert any(loss.startswith("odd (") for loss in lost)
    assert len(lost) == 5


@pytest.mark.parametrize("value", [np.bytes_(b"\xb0C"), b"\xb0C", np.array([b"\xb0C", b"K"])])
def test_an_attribute_of_hdf5_in_latin1(tmp_path, path, value):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = [1, 2]
        f["x"].attrs["units"] = value
        f["x"].attrs["honest"] = "\ufffd"
    assert lost_of(tmp_path / "a.h5", path) == [f"attribute units of x: {REPLACED}"]
    with dry.open(path) as c:
        assert c["x"].attrs["units"] == (["\ufffdC", "K"] if np.ndim(value) else "\ufffdC")
        assert c["x"].attrs["honest"] == "\ufffd"


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_values_in_latin1(tmp_path, path, suffix):
    with h5py.File(tmp_path / f"a.{suffix}", "w") as f:
        f["x"] = [1, 2]
        f.create_dataset("t", data=[b"\xb0C", b"K"], dtype=h5py.string_dtype())
    assert lost_of(tmp_path / f"a.{suffix}", path) == [f"t: {REPLACED}"]
    with dry.open(path) as c:
        assert c["t"][...].tolist() == ["\ufffdC", "K"]


def test_texts_of_records_in_latin1(tmp_path, path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = [1, 2]
        records = f.create_dataset("t", (2,), np.dtype([("a", h5py.string_dtype())]))
        records[...] = np.array([(b"\xb0C",), (b"K",)], records.dtype)
    assert lost_of(tmp_path / "a.h5", path) == [f"t: {REPLACED}"]
    with dry.open(path) as c:
        assert c["t"][...]["a"].tolist() == ["\ufffdC", "K"]


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_an_attribute_of_netcdf_in_latin1(tmp_path, path, kind):
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=kind) as f:
        f.createDimension("n", 2)
        variable = f.createVariable("x", "i4", ("n",))
        variable[:] = [1, 2]
        variable.setncattr("units", "unknown")
        variable.setncattr("honest", "\ufffd")
    if kind == "NETCDF4":
        with h5py.File(tmp_path / "a.nc", "r+") as f:
            f["x"].attrs["units"] = b"\xb0C area"
    else:
        stored = (tmp_path / "a.nc").read_bytes()
        (tmp_path / "a.nc").write_bytes(stored.replace(b"unknown", b"\xb0C area"))
    assert lost_of(tmp_path / "a.nc", path) == [f"attribute units of x: {REPLACED}"]
    with dry.open(path) as c:
        assert dict(c["x"].attrs) == {"units": "\ufffdC area", "honest": "\ufffd"}


def test_texts_of_attributes_that_change_their_shape(tmp_path, path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = [1, 2]
        f.attrs["fixed"] = np.array([[b"a", b"b"], [b"c", b"d"]])
        f.attrs.create("any", [["a", "b"], ["c", "d"]], dtype=h5py.string_dtype())
        f.attrs["none"] = np.zeros((0, 3), "S4")
    assert lost_of(tmp_path / "a.h5", path) == [
        "attribute any of /: its shape (2, 2) (it is one list)",
        "attribute fixed of /: its shape (2, 2) (it is one list)",
        "attribute none of /: that its elements are texts (it has none)",
    ]


def write_array(folder, codec, dtype="|O"):
    folder.mkdir(parents=True)
    metadata = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": dtype, "compressor": None}
    metadata |= {"fill_value": None, "order": "C", "filters": [codec] if codec else None}
    (folder / ".zarray").write_text(json.dumps(metadata))


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize(
    "codec",
    [
        {"id": "pickle", "protocol": 5},
        numcodecs.JSON().get_config(),
        numcodecs.MsgPack().get_config(),
        numcodecs.VLenArray("<i4").get_config(),
    ],
)
def test_objects_of_zarr(tmp_path, path, codec, consolidated):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=2)
    root.create_array("g/x", shape=(2,), dtype="i4", chunks=(1,))[...] = [1, 2]
    root.create_array("x", shape=(2,), dtype="i4", chunks=(1,))[...] = [1, 2]
    root.attrs["title"] = "kept"
    if consolidated:
        zarr.consolidate_metadata(str(tmp_path / "a.zarr"))
        metadata = json.loads((tmp_path / "a.zarr/.zmetadata").read_text())
    write_array(tmp_path / "a.zarr/g/t", codec)
    if consolidated:
        metadata["metadata"]["g/t/.zarray"] = json.loads((tmp_path / "a.zarr/g/t/.zarray").read_text())
        (tmp_path / "a.zarr/.zmetadata").write_text(json.dumps(metadata))
    (loss,) = lost_of(tmp_path / "a.zarr", path)
    assert loss.startswith("g/t (No Zarr data type found")
    with dry.open(path) as c:
        assert c["g/x"][...].tolist() == [1, 2]
        assert dict(c.attrs) == {"title": "kept"}


@pytest.mark.parametrize("version", [2, 3])
def test_bytes_of_any_length_of_zarr(tmp_path, path, version):
    types = pytest.importorskip("zarr.core.dtype")
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=version)
    root.create_array("x", shape=(2,), dtype="i4", chunks=(2,))[...] = [1, 2]
    array = root.create_array("t", shape=(2,), chunks=(2,), dtype=types.VariableLengthBytes())
    array[...] = np.array([b"a", b"\xff"], object)
    assert lost_of(tmp_path / "a.zarr", path) == ["t (bytes of any length)"]


def test_a_type_of_zarr_3_that_is_not_known(tmp_path, path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=3)
    root.create_array("x", shape=(2,), dtype="i4", chunks=(2,))[...] = [1, 2]
    root.create_array("t", shape=(2,), dtype="i4", chunks=(2,))
    said = tmp_path / "a.zarr/t/zarr.json"
    said.write_text(said.read_text().replace('"int32"', '"int33"'))
    (loss,) = lost_of(tmp_path / "a.zarr", path)
    assert loss.startswith("t (No Zarr data type found")
