"""Exports as Zarr hierarchies: values, types, chunks and compression, read by zarr and xarray, and imported again."""

import drystone as dry
import numpy as np
import pytest
from same_bits import commits_by_itself

zarr = pytest.importorskip("zarr")
xr = pytest.importorskip("xarray")

SMOOTH = np.add.outer(np.arange(64), np.arange(48)).astype("f4")
ARRAYS = {
    "floats": SMOOTH,
    "integers": np.arange(12, dtype="u2").reshape(3, 4),
    "flags": np.array([True, False, True]),
    "complex": np.array([1 + 2j, -3j]),
    "codes": np.array([b"ab", b"c"], "S2"),
    "letters": np.array(["ä", "bcd"], "U3"),
    "texts": np.array(["one", "", "drei ß"], object),
    "days": np.array(["2026-01-01", "NaT"], "M8[D]"),
    "waits": np.array([1, -5], "m8[ms]"),
    "records": np.array([(1, 2.5), (3, -1)], [("a", "i4"), ("b", "f8")]),
    "scalar": np.array(7.5),
}


@pytest.fixture
def filled(container):
    container.attrs["title"] = "all kinds"
    for name, array in ARRAYS.items():
        if name == "texts":
            container.create_variable(name, "str", array.shape)[...] = array
        else:
            container[name] = array
    container.create_group("fields").attrs["units"] = "K"
    phase = dry.enum({"solid": 0, "fluid": 5})
    container.create_variable("fields/phase", phase, (2,), attrs={"n": np.arange(2)})[...] = [5, 0]
    T = container.create_variable("T", "f4", SMOOTH.shape, dims=("y", "x"), steps=True, fill_value=-1)
    T.attrs["units"] = "K"
    with commits_by_itself(container) as w:
        for step in (0, 1, 4):
            with w.step(step):
                w.put("T", SMOOTH + step)
    container.commit()
    return container


def test_zarr_reads_every_type_as_it_was(filled, tmp_path, recwarn):
    written = dry.export(filled, tmp_path / "a.zarr")
    assert written.lost == []
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="r")
    assert root.attrs["title"] == "all kinds"
    assert root["fields"].attrs["units"] == "K"
    for name, array in ARRAYS.items():
        found = np.asarray(root[name][...])
        assert found.tolist() == array.tolist(), name
        if name != "texts":
            assert found.dtype == array.dtype, name
    phase = root["fields/phase"]
    assert phase[...].tolist() == [5, 0]
    assert phase.attrs["flag_values"] == [0, 5]
    assert phase.attrs["flag_meanings"] == "solid fluid"
    assert phase.attrs["n"] == [0, 1]
    assert root["step"][...].tolist() == [0, 1, 4]
    assert not [w for w in recwarn if "pecification" in str(w.message)]


def test_xarray_opens_it_with_names_and_steps(filled, tmp_path):
    dry.export(filled, tmp_path / "a.zarr", ["T", "letters"])
    with xr.open_zarr(tmp_path / "a.zarr", consolidated=True) as ds:
        assert ds["T"].dims == ("step", "y", "x")
        assert ds["T"].attrs["units"] == "K"
        assert ds["T"].sel(step=4).values.tolist() == (SMOOTH + 4).tolist()


def test_chunks_and_compression_are_those_asked_for(filled, tmp_path):
    dry.export(filled, tmp_path / "plain.zarr", ["floats", "T", "texts"])
    dry.export(
        filled, tmp_path / "packed.zarr", ["floats", "T", "texts"], compression=5, chunks={"floats": (16, 48)}
    )
    plain = zarr.open_group(str(tmp_path / "plain.zarr"), mode="r")
    packed = zarr.open_group(str(tmp_path / "packed.zarr"), mode="r")
    assert packed["floats"].chunks == (16, 48)
    for name in ("floats", "T"):
        assert packed[name].nbytes_stored() < plain[name].nbytes_stored() / 2
        assert packed[name][...].tolist() == plain[name][...].tolist()
    assert packed["texts"][...].tolist() == list(ARRAYS["texts"])


def test_it_is_imported_again_as_it_was(filled, tmp_path):
    names = [
        "floats",
        "integers",
        "flags",
        "complex",
        "codes",
        "letters",
        "texts",
        "days",
        "records",
        "scalar",
    ]
    dry.export(filled, tmp_path / "a.zarr", names, compression=1)
    dry.import_file(tmp_path / "a.zarr", tmp_path / "back.dry")
    with dry.open(tmp_path / "back.dry") as back:
        for name in names:
            assert back[name].dtype == filled[name].dtype, name
            assert np.asarray(back[name][...]).tolist() == ARRAYS[name].tolist(), name


def test_a_hierarchy_is_there_whole_or_not_at_all(filled, tmp_path):
    target = tmp_path / "a.zarr"
    dry.export(filled, target, "floats")
    with pytest.raises(dry.ConflictError):
        dry.export(filled, target, "integers")
    with pytest.raises(dry.InvalidArgumentError, match="select"):
        dry.export(filled, tmp_path / "b.zarr", "floats", select="[0]")

    def stop(done, total):
        return False

    with pytest.raises(dry.DrystoneError):
        dry.export(filled, target, "integers", overwrite=True, progress=stop)
    assert list(zarr.open_group(str(target), mode="r").array_keys()) == ["floats"]
    dry.export(filled, target, "integers", overwrite=True)
    assert list(zarr.open_group(str(target), mode="r").array_keys()) == ["integers"]
    assert sorted(p.name for p in tmp_path.iterdir() if "zarr" in p.name) == ["a.zarr"]


def test_fill_values_that_xarray_says_in_base64_are_values(tmp_path):
    """Symptom: after the import of a hierarchy of xarray (format 3), missing floats were numbers; and `xr.open_zarr`
    could not read an export with the attribute."""
    data = {"f8": [1.0, np.nan, 3.0], "f4": np.array([np.nan, 2, 3], "f4")}
    written = xr.Dataset({name: ("x", values) for name, values in data.items()})
    encoding = {"f8": {"_FillValue": -9.0}, "f4": {"_FillValue": np.float32(-2.5)}}
    written.to_zarr(tmp_path / "a.zarr", encoding=encoding, zarr_format=3, consolidated=False)
    assert dry.import_file(tmp_path / "a.zarr", tmp_path / "run.dry").lost == []
    with dry.open(tmp_path / "run.dry") as c:
        assert (c["f8"].attrs["_FillValue"], c["f4"].attrs["_FillValue"]) == (-9.0, -2.5)
    dry.export(tmp_path / "run.dry", tmp_path / "b.zarr")
    dry.export(tmp_path / "run.dry", tmp_path / "b.nc")
    for found in (
        xr.open_dataset(tmp_path / "run.dry", engine="drystone"),
        xr.open_zarr(tmp_path / "b.zarr"),
        xr.open_dataset(tmp_path / "b.nc"),
    ):
        with found:
            for name, values in data.items():
                np.testing.assert_array_equal(found[name].values, values)


def test_names_with_a_backslash_are_named_as_lost(path, tmp_path):
    """Symptom: zarr took the backslash for a slash, so `a\\b` became `b` in a group `a`, or the export failed."""
    with dry.create(path) as c:
        for name in ("a/b", "a\\b", "x\\", "\\x", "x"):
            c.create_variable(name, "i4", (2,))[...] = len(name)
        c.create_variable("r", np.dtype([("k\\l", "i4", (2,)), ("m", "i4")]), (2,))
        c.create_group("g\\h", {"units": "K"})
    with pytest.warns(dry.DrystoneWarning, match="backslash"):
        lost = dry.export(path, tmp_path / "out.zarr").lost
    why = "(zarr takes the backslash in the name for a slash)"
    assert sorted(lost) == sorted(f"{name} {why}" for name in ("a\\b", "x\\", "\\x", "g\\h", "r.k\\l"))
    root = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert sorted(name for name, _ in root.members(max_depth=None)) == ["a", "a/b", "r.m", "x"]
    assert root["a/b"][...].tolist() == [3, 3]
