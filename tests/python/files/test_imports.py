"""`drystone import` of unusual contents: what is kept, what is reported as lost, and what a failed import leaves."""

import contextlib
import io
import json

import drystone as dry
import numpy as np
import pytest
import xarray as xr
from command_line import drystone
from drystone import commands
from drystone.errors import InvalidArgumentError
from drystone.undoing import Addition

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

pytestmark = pytest.mark.filterwarnings("ignore")


def imported(*arguments):
    return json.loads(drystone("import", *arguments, "--json"))["lost"]


def write_npy(path, times):
    np.save(path, times)


def write_zarr(path, times):
    array = zarr.create_array(str(path), shape=times.shape, dtype=times.dtype, chunks=(2,))
    array[...] = times


def write_hdf5(path, times):
    with h5py.File(path, "w") as f:
        f.create_dataset("times", data=times.astype(h5py.opaque_dtype(times.dtype)))


WRITERS = {"npy": write_npy, "zarr": write_zarr, "h5": write_hdf5}
TEXTS = ["2000-01-01", "NaT", "1969-07-20", "1500-03-01"]


@pytest.mark.parametrize(
    "dtype", ["M8[s]", "M8[ns]", ">M8[D]", "M8[W]", "M8[M]", "M8[25m]", "m8[10us]", "m8[h]"]
)
@pytest.mark.parametrize("suffix", WRITERS)
def test_times_are_taken_over_as_they_are(tmp_path, path, suffix, dtype):
    """Symptom: times became integers; the ten of `10us` was lost, and .npy and HDF5 lost the array."""
    kind = np.dtype(dtype)
    texts = [text for text in TEXTS if "ns" not in dtype or text[:2] != "15"]
    times = np.array(texts, kind) if kind.kind == "M" else np.array([0, "NaT", -3, 7], kind)
    WRITERS[suffix](tmp_path / f"times.{suffix}", times)
    assert imported(tmp_path / f"times.{suffix}", path) == []
    with dry.open(path) as c:
        assert c["times"].dtype == kind.newbyteorder("=")
        np.testing.assert_array_equal(c["times"][...], times)
    with xr.open_dataset(path, engine="drystone", decode_timedelta=True) as ds:
        found = ds["times"].to_numpy()
        assert found.dtype.kind == kind.kind
        np.testing.assert_array_equal(found, times.astype(found.dtype))


def test_times_without_a_unit_stay_numbers(tmp_path, path):
    times = np.array([0, 5, -3], "i8").view("m8")
    np.save(tmp_path / "times.npy", times)
    assert imported(tmp_path / "times.npy", path) == [
        f"times: its type {times.dtype} (the numbers are kept, without a unit)"
    ]
    with dry.open(path) as c:
        assert c["times"][...].tolist() == [0, 5, -3]
        assert "units" not in c["times"].attrs


def test_times_too_far_away_for_their_unit_in_cf_are_refused_elsewhere(tmp_path, path):
    np.save(tmp_path / "times.npy", np.array([1 << 62], "i8").view("m8[10us]"))
    assert imported(tmp_path / "times.npy", path) == []
    with (
        xr.open_dataset(path, engine="drystone") as ds,
        pytest.raises(dry.InvalidArgumentError, match="cannot be"),
    ):
        ds["times"].load()


def test_attributes_of_any_depth_are_kept_and_what_is_not_is_named(tmp_path, path):
    """Symptom: lists with null in dictionaries were silently left out; an integer above 64 bits ended the import."""
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    root.attrs["deep"] = deep = {"a": [1, 2, None, True], "b": None, "c": {"d": [{"e": "f"}]}, "g": []}
    root.attrs["nothing"] = None
    root.attrs["huge"] = 2**70
    root.attrs["deep and huge"] = {"x": [2**70]}
    assert imported(tmp_path / "a.zarr", path) == [
        "attribute huge of / (int)",
        "attribute deep and huge of / (dict)",
    ]
    with dry.open(path) as c:
        assert dict(c.attrs) == {"deep": deep, "nothing": None}


@pytest.fixture
def broken(tmp_path):
    """A hierarchy with an array that cannot be decoded, after one that can."""
    root = zarr.open_group(str(tmp_path / "broken.zarr"), mode="w")
    root.create_array("g/a", shape=(4,), chunks=(4,), dtype="f8")[:] = [1, 2, 3, 4]
    root.create_array("g/deep/b", shape=(4,), chunks=(4,), dtype="f8")[:] = [1, 2, 3, 4]
    (tmp_path / "broken.zarr/g/deep/b/c/0").write_bytes(b"nonsense")
    return tmp_path / "broken.zarr"


def fail_to_import(*arguments):
    assert "deep/b cannot be read" in drystone("import", *arguments, code=4)


def test_a_failed_import_leaves_nothing_that_it_made(tmp_path, path, broken):
    """Symptom: a container without values stayed behind, and the next import wrote into it."""
    fail_to_import(broken, path)
    assert not path.exists()
    path.mkdir()
    fail_to_import(broken, path)
    assert path.is_dir()
    assert not [*path.iterdir()]
    (path / "mine.txt").write_text("kept")
    fail_to_import(broken, path, "--into-existing")
    assert [file.name for file in path.iterdir()] == ["mine.txt"]
    assert (path / "mine.txt").read_text() == "kept"


def test_a_failed_import_leaves_what_was_there_before(tmp_path, path, broken):
    with dry.create(path) as c:
        c.create_variable("g/a", "f8", (4,))[...] = 7
        c.create_variable("mine", "f8", (4,))[...] = 8
    fail_to_import(broken, path, "--only", "g/deep")
    fail_to_import(broken, path, "--group", "new/place")
    with dry.open(path) as c:
        assert [*c.variables] == ["g/a", "mine"]
        assert [*c.groups] == ["g"]
        assert c["g/a"][...].tolist() == [7, 7, 7, 7]


def test_a_failed_import_leaves_what_others_wrote_meanwhile(tmp_path, path, broken, monkeypatch):
    from drystone.interchange import importing

    def copy(c, *others):
        copied(c, *others)
        with dry.open(path, "r+") as other:
            other.create_variable("other", "f8", (4,))[...] = 5
        raise MemoryError

    copied = importing._copy
    monkeypatch.setattr(importing, "_copy", copy)
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(MemoryError), contextlib.redirect_stdout(io.StringIO()):
        commands.main(["import", str(tmp_path / "a.npy"), str(path)])
    with dry.open(path) as c:
        assert c["other"][...].tolist() == [5, 5, 5, 5]
        assert "a" in c, "the other may have written to it, too"


def test_a_failed_import_keeps_what_another_made_of_the_same_name(tmp_path, path):
    """Two imports of one file at the same time; one of them fails."""
    dry.create(path).close()
    adding = Addition.to(path)
    adding.begin(["a"])
    with dry.open(path, "r+") as other:
        other.create_variable("a", "f8", (4,))[...] = 5
    adding.container.create_variable("a", "f8", (4,))
    adding.undo()
    with dry.open(path) as c:
        assert c["a"][...].tolist() == [5, 5, 5, 5]


@pytest.mark.parametrize("text", ["{", '{"zarr_format": 3, "node_type": "array"}', ""])
def test_a_damaged_file_is_a_message_with_its_name(tmp_path, path, text):
    """Any error of the format's package. Symptom: those of zarr were raised unchanged, with a traceback."""
    (tmp_path / "bad.zarr").mkdir()
    (tmp_path / "bad.zarr/zarr.json").write_text(text)
    assert "bad.zarr cannot be read" in drystone("import", tmp_path / "bad.zarr", path, code=4)
    (tmp_path / "bad.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + text.encode())
    assert "bad.h5 cannot be read" in drystone("import", tmp_path / "bad.h5", path, code=6)
    assert not path.exists()


def test_an_attribute_without_a_name_is_lost(tmp_path, path):
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=(2,), dtype="i4")
    array.attrs.update({"": 1, "two\0names": 2, "units": "K"})
    assert imported(tmp_path / "a.zarr", path) == [
        "an attribute of a without a name",
        "attribute 'two\\x00names' of a (NUL in its name)",
    ]
    with dry.open(path) as c:
        assert dict(c["a"].attrs) == {"units": "K"}


def test_an_import_is_compressed_where_that_pays(tmp_path):
    """The default, as in most netCDF and Zarr files. Symptom: an imported packed file took ten times its bytes."""
    smooth = np.add.outer(np.arange(200), np.arange(300)).astype("f4")
    noise = np.random.default_rng(3).integers(0, 1 << 32, (200, 300), dtype="u4")
    np.save(tmp_path / "smooth.npy", smooth)
    np.save(tmp_path / "noise.npy", noise)
    np.save(tmp_path / "small.npy", np.arange(10))
    for name in ("smooth", "noise", "small"):
        dry.import_file(tmp_path / f"{name}.npy", tmp_path / "a.dry")
    with dry.open(tmp_path / "a.dry") as c:
        assert c["smooth"].transform == "auto"
        assert c["small"].transform is None
        assert np.array_equal(c["smooth"][...], smooth)
        assert np.array_equal(c["noise"][...], noise)
    plain = tmp_path / "plain.dry"
    dry.import_file(tmp_path / "smooth.npy", plain, transform=None)
    with dry.open(plain) as c:
        assert c["smooth"].transform is None

    def size(path):
        return sum(file.stat().st_size for file in (path / "log").iterdir())

    packed = tmp_path / "packed.dry"
    dry.import_file(tmp_path / "smooth.npy", packed)
    assert size(packed) < size(plain) / 4
    drystone("import", tmp_path / "smooth.npy", tmp_path / "none.dry", "--transform", "none")
    with dry.open(tmp_path / "none.dry") as c:
        assert c["smooth"].transform is None


def test_truth_values_come_back_from_netcdf(tmp_path):
    """NetCDF has none: bytes stand for them, marked as by xarray. Other values under the mark are refused."""
    netCDF4 = pytest.importorskip("netCDF4")
    values = np.array([[True, False, True], [False, False, True]])
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("flag", data=values, dims=("y", "x"))
        c.commit()
        dry.export(c, tmp_path / "c.nc")
    dry.import_file(tmp_path / "c.nc", tmp_path / "back.dry")
    with dry.open(tmp_path / "back.dry") as c:
        assert c["flag"].dtype == np.dtype(bool)
        assert "dtype" not in c["flag"].attrs
        np.testing.assert_array_equal(c["flag"][...], values)
    with netCDF4.Dataset(tmp_path / "c.nc", "a") as file:
        file["flag"][0, 1] = 5
    with pytest.raises(InvalidArgumentError, match="other values than 0 and 1"):
        dry.import_file(tmp_path / "c.nc", tmp_path / "other.dry")
    assert not (tmp_path / "other.dry").exists()
