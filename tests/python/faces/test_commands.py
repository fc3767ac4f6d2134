"""`drystone import`, `export`, `diff`, `plot` and `du` on files written by other packages."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
import xarray as xr
from command_line import drystone
from same_bits import commits_by_itself

h5py = pytest.importorskip("h5py")
netCDF4 = pytest.importorskip("netCDF4")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def as_json(*arguments, code=0):
    return json.loads(drystone(*arguments, "--json", code=code))


@pytest.fixture
def hdf5(tmp_path):
    path = tmp_path / "run.h5"
    with h5py.File(path, "w") as f:
        f.attrs["title"] = "a run"
        f.attrs["numbers"] = np.array([1.5, 2.5])
        g = f.create_group("fields/deep")
        g.attrs["kind"] = np.bytes_(b"scalar")
        T = g.create_dataset(
            "T",
            data=np.arange(3 * 70 * 80, dtype=">f4").reshape(3, 70, 80),
            chunks=(1, 64, 64),
            compression="gzip",
            maxshape=(None, 70, 80),
        )
        T.attrs["units"] = "K"
        for dim, name in zip(T.dims, ("time", "y", "x"), strict=True):
            dim.label = name
        f.create_dataset("names", data=["a", "größe", ""], dtype=h5py.string_dtype())
        f.create_dataset("flags", data=np.array([[True, False]]))
        f.create_dataset("z", data=np.array([1 + 2j, 3j], "c8"))
        f.create_dataset("p", data=np.array([(1, 2.5), (3, 4.5)], [("id", "i4"), ("w", "f8")]))
        f.create_dataset("sparse", (5, 6), "i2", fillvalue=-9)
        f["sparse"][1:3] = 7
        f.create_dataset("scalar", data=2.5)
        f.create_dataset("empty", (0, 4), "f8")
        f.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype("i4"))
        f.create_dataset("null", data=h5py.Empty("f4"))
    return path


def test_hdf5_is_imported_and_what_cannot_be_is_named(hdf5, path):
    said = as_json("import", hdf5, path)
    assert [what.split()[0] for what in said["lost"]] == ["null"]
    with dry.open(path) as c, h5py.File(hdf5) as f:
        assert c.attrs["title"] == "a run"
        assert list(c.attrs["numbers"]) == [1.5, 2.5]
        assert c["fields/deep"].attrs["kind"] == "scalar"
        T = c["fields/deep/T"]
        assert (T.dims, T.chunk_shape, T.dtype, T.growable) == (
            ("time", "y", "x"),
            (1, 64, 64),
            np.dtype("f4"),
            (True, False, False),
        )
        for name in ("fields/deep/T", "flags", "z", "p", "sparse", "scalar", "empty"):
            np.testing.assert_array_equal(c[name][...], f[name][()])
        assert c["names"][...].tolist() == ["a", "größe", ""]
        assert [one.tolist() for one in c["ragged"][...]] == [one.tolist() for one in f["ragged"][()]]
        assert c["sparse"].fill_value == -9
        assert len(c.snapshots) <= 3


def test_a_dimension_becomes_steps(hdf5, path):
    drystone(
        "import",
        hdf5,
        path,
        "--steps",
        "time",
        "--only",
        "fields",
        "--transform",
        "shuffle,zstd:1",
        "--group",
        "raw",
    )
    with dry.open(path) as c, h5py.File(hdf5) as f:
        T = c["raw/fields/deep/T"]
        assert (T.has_steps, T.dims, T.transform, c.steps) == (True, ("y", "x"), "shuffle,zstd:1", [0, 1, 2])
        np.testing.assert_array_equal(T[...], f["fields/deep/T"][()])
        assert list(c.variables) == ["raw/fields/deep/T"]
    with xr.open_dataset(path, engine="drystone", group="raw/fields/deep") as ds:
        assert ds.T.dims == ("time", "y", "x")


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"])
def test_netcdf_is_imported_as_xarray_sees_it(tmp_path, path, kind):
    ds = xr.Dataset(
        {
            "t": (
                ("time", "y", "x"),
                np.random.default_rng(1).normal(size=(4, 5, 6)).astype("f4"),
                {"units": "K"},
            ),
            "packed": (("y", "x"), np.arange(30.0).reshape(5, 6)),
            "label": (("y",), np.array(["a", "bb", "c", "", "e"], object)),
        },
        coords={
            "time": np.datetime64("2026-01-01", "ns") + np.arange(4) * np.timedelta64(1, "D"),
            "x": np.arange(6.0),
        },
        attrs={"title": "weather"},
    )
    encoding = {"packed": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}}
    if kind != "NETCDF4":
        ds["label"] = ds.label.astype("S")
    ds.to_netcdf(tmp_path / "w.nc", format=kind, engine="netcdf4", encoding=encoding, unlimited_dims=["time"])
    said = as_json("import", tmp_path / "w.nc", path)
    assert said["lost"] == []
    with (
        xr.open_dataset(path, engine="drystone") as back,
        xr.open_dataset(tmp_path / "w.nc", engine="netcdf4") as there,
    ):
        xr.testing.assert_identical(back.load(), there.load())
    drystone("export", path, tmp_path / "again.nc")
    with (
        xr.open_dataset(tmp_path / "again.nc", engine="netcdf4") as again,
        xr.open_dataset(tmp_path / "w.nc", engine="netcdf4") as there,
    ):
        xr.testing.assert_identical(again.load(), there.load())


SAMPLES = sorted(Path(xr.__file__).parent.glob("tests/data/*.nc"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: p.name)
def test_files_of_others_come_through_import_and_export(sample, path, tmp_path):
    drystone("import", sample, path)
    drystone("export", path, tmp_path / "back.nc")
    options = {"decode_times": False, "engine": "netcdf4"}
    with (
        xr.open_dataset(sample, **options) as there,
        xr.open_dataset(tmp_path / "back.nc", **options) as back,
    ):
        xr.testing.assert_identical(back.load(), there.load())


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_is_imported(tmp_path, path, version):
    zarr = pytest.importorskip("zarr")
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=version)
    root.attrs["title"] = "published"
    names = {"dimension_names": ("y", "x")} if version == 3 else {}
    T = root.create_array("g/T", shape=(90, 100), chunks=(64, 64), dtype="f4", fill_value=-1, **names)
    T.attrs["units"] = "m"
    if version == 2:
        T.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    T[:50] = np.arange(5000, dtype="f4").reshape(50, 100)
    drystone("import", tmp_path / "a.zarr", path)
    with dry.open(path) as c:
        np.testing.assert_array_equal(c["g/T"][...], T[...])
        assert (c["g/T"].dims, c["g/T"].fill_value, dict(c["g/T"].attrs)) == (("y", "x"), -1, {"units": "m"})
        assert c["g/T"].chunk_shape == (64, 64)
        assert c.attrs["title"] == "published"


def test_steps_are_one_run_in_hdf5_and_little_ones_share_chunks_where_there_are_some(tmp_path, path):
    """Symptom: with a chunk of one value per step, HDF5 needed more time and more file space than for the values."""
    with dry.create(path, durability="memory") as c:
        c.create_variable("t", "f8", (), steps=True)
        c.create_variable("line", "f4", (1000,), steps=True)
        c.create_variable("field", "f8", (100, 100), steps=True)
        c.create_variable("cut", "f8", (100, 100), steps=True, chunks=(10, 10))
        with c.writer() as w:
            for step in (*range(3000), 4000):
                with w.step(step):
                    w.put("t", step / 2)
                    if step < 6:
                        w.put("line", np.full(1000, step, "f4"))
                        w.put("field", np.full((100, 100), float(step)))
                        w.put("cut", np.full((100, 100), float(step)))
        c.commit()
        file = tmp_path / "a.h5"
        drystone("export", path, file, "t", "line", "cut")
        with h5py.File(file) as f:
            assert (f["t"].chunks, f["line"].chunks, f["cut"].chunks) == (None, None, (20, 10, 10))
            np.testing.assert_array_equal(f["t"], [s / 2 for s in c.steps])
            np.testing.assert_array_equal(f["line"][:, 7], [*range(6), *[0] * 2995])
            np.testing.assert_array_equal(f["cut"][:, 7, 99], [*range(6), *[0] * 2995])
        drystone("export", path, file, "field", "--overwrite")
        with h5py.File(file) as f:
            assert f["field"].chunks is None
            np.testing.assert_array_equal(f["field"][:, 7, 99], [*range(6), *[0] * 2995])


def test_little_variables_with_steps_and_empty_selections_go_into_npy(tmp_path, path):
    """Symptom: for a variable below 256 KiB, all steps were read as one: "say which"; an empty list was a traceback."""
    with dry.create(path, durability="memory") as c:
        c.create_variable("T", "f4", (4, 5), steps=True)
        with c.writer() as w:
            for step in range(3):
                with w.step(step):
                    w.put("T", np.full((4, 5), step, "f4"))
        c.commit()
        drystone("export", path, tmp_path / "a.npy", "T")
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), c["T"][...])
    for text, shape in (("[[]]", (0, 4, 5)), ("[:, [], 1]", (3, 0)), ("[0, 2:2]", (0, 5))):
        drystone("export", path, tmp_path / "a.npy", "T", "--select", text, "--overwrite")
        assert np.load(tmp_path / "a.npy").shape == shape


def test_whole_numbers_are_compared_as_such_within_tolerances(tmp_path):
    """Symptom: they were compared as float64, in which 2^53 and 2^53 + 1 are equal."""
    paths = [tmp_path / "a.dry", tmp_path / "b.dry"]
    for path, by in zip(paths, (0, 1), strict=True):
        with dry.create(path) as c:
            c.create_variable("u", "u8", (2,))[...] = np.array([2**64 - 1 - by, 5], "u8")
            c.create_variable("i", "i8", (2,))[...] = np.array([-(2**63) + by, 2**53 + by])
    assert as_json("diff", *paths, "--atol", "0.5", code=1)["differences"]
    drystone("diff", *paths, "--atol", "1")
    assert "a number of at least 0" in drystone("diff", *paths, "--atol", "-1", code=2)
    assert "a number of at least 0" in drystone("diff", *paths, "--rtol", "nan", code=2)


def test_unknown_names_get_an_error(tmp_path, path):
    dry.create(path).close()
    (tmp_path / "a.npy").write_bytes(b"no array")
    (tmp_path / "folder.h5").mkdir()
    assert "a container already" in drystone("import", path, tmp_path / "b.dry", code=2)
    assert "does not begin like" in drystone("import", tmp_path / "a.npy", tmp_path / "b.dry", code=2)
    assert "is a folder" in drystone("export", path, tmp_path / "folder.h5", "--overwrite", code=2)
    assert "is not KEY=VALUE" in drystone("hdf5-env", "=1", code=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npy", "folder.h5", path.name]


def test_npy_goes_in_and_out(tmp_path, path):
    array = np.asfortranarray(np.arange(2000, dtype="i8").reshape(40, 50))
    np.save(tmp_path / "a.npy", array)
    drystone("import", tmp_path / "a.npy", path)
    drystone("export", path, tmp_path / "b.npy", "a", "--select", "[::-2, 5:9]")
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), array[::-2, 5:9])
    assert "there already" in drystone("export", path, tmp_path / "b.npy", "a", code=5)
    drystone("export", path, tmp_path / "b.npy", "a", "--overwrite")


@pytest.mark.parametrize("kind", ["S5", "U5", [("name", "U5"), ("n", "i4")]])
def test_one_text_of_fixed_length_goes_into_npy(tmp_path, path, kind):
    """Symptom: a text was written without its padding, and the file was too short to be read."""
    values = np.zeros(3, kind)
    values[values.dtype.names[0] if values.dtype.names else ...] = ["ab", "", "cdefg"]
    with dry.create(path) as c:
        c.create_variable("three", kind, (3,))[...] = values
        c.create_variable("one", kind)[...] = values[0]
    drystone("export", path, tmp_path / "one.npy", "one")
    drystone("export", path, tmp_path / "first.npy", "three", "--select", "[0]")
    for name in ("one", "first"):
        assert np.load(tmp_path / f"{name}.npy").tobytes() == values[:1].tobytes()


def test_one_short_text_of_fixed_length_is_imported(tmp_path, path):
    """Symptom: the scalar lost its padding, so that the container had another type than the value."""
    zarr = pytest.importorskip("zarr")
    np.save(tmp_path / "a.npy", np.array(b"ab", "S5"))
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("b", data=np.array(b"ab", "S5"))
    zarr.create_array(tmp_path / "a.zarr", name="c", data=np.array("ab", "U5"), zarr_format=2)
    for name in ("a.npy", "a.h5", "a.zarr"):
        drystone("import", tmp_path / name, path)
    with dry.open(path) as c:
        found = [(v.dtype.str, v[...].tolist()) for v in c.variables.values()]
    assert found == [("|S5", b"ab"), ("|S5", b"ab"), ("<U5", "ab")]


@pytest.fixture
def run(path):
    with dry.create(path, durability="memory") as c:
        c.create_variable(
            "T", "f4", (20, 30), dims=("y", "x"), steps=True, attrs={"units": "K"}, fill_value=-1
        )
        c.create_variable("g/p", [("id", "i4"), ("w", "f8")], (3,))
        c.create_variable("names", str, (2,))
        c.create_variable("half", "f2", (4,))
        c.create_variable("own", "f4", local=True)
        with commits_by_itself(c) as w:
            w.put("g/p", np.array([(1, 0.5), (2, 1.5), (3, 2.5)], [("id", "i4"), ("w", "f8")]))
            w.put("names", ["a", "b,c"])
            w.put("half", np.arange(4, dtype="f2"))
            w.put("own", 3.0)
            for t in (0, 1, 4):
                with w.step(t):
                    w.put("T", np.full((10, 30), t, "f4"))
                    w.put("T", np.full((10, 30), t + 0.5, "f4"), offset=(10, 0))
    return path


def test_exported_hdf5_comes_back_the_same(run, tmp_path):
    said = as_json("export", run, tmp_path / "out.h5")
    assert said["lost"] == ["own (a local variable has no one array)"]
    with h5py.File(tmp_path / "out.h5") as f:
        assert [d.label for d in f["T"].dims] == ["step", "y", "x"]
        assert f["step"][...].tolist() == [0, 1, 4]
        assert f["T"][2, 15, 0] == 4.5
        assert f["g/p"][1]["w"] == 1.5
    drystone("import", tmp_path / "out.h5", tmp_path / "back.dry")
    with dry.open(tmp_path / "back.dry") as back, dry.open(run) as c:
        np.testing.assert_array_equal(back["T"][...], c["T"][[0, 1, 4]])
        np.testing.assert_array_equal(back["g/p"][...], c["g/p"][...])
        assert back["names"][...].tolist() == ["a", "b,c"]


def test_exported_netcdf_is_what_xarray_shows(run, tmp_path):
    said = as_json("export", run, tmp_path / "out.nc")
    assert [what.split()[0].rstrip(":") for what in said["lost"]] == ["half", "own"]
    with (
        xr.open_dataset(tmp_path / "out.nc", engine="netcdf4") as out,
        xr.open_dataset(run, engine="drystone") as ds,
    ):
        xr.testing.assert_equal(out["T"].load(), ds["T"].load())
        assert out.step.values.tolist() == [0, 1, 4]


def test_csv_has_a_row_per_cell(run, tmp_path):
    drystone("export", run, tmp_path / "p.csv", "g/p")
    drystone("export", run, tmp_path / "T.csv", "T", "--select", "-1, 9:11, 0")
    with (tmp_path / "p.csv").open() as file:
        assert list(csv.reader(file))[:2] == [["dim_0", "id", "w"], ["0", "1", "0.5"]]
    assert (tmp_path / "T.csv").read_text().split() == ["y,T", "9,4.0", "10,4.5"]


def test_selections_with_lists_are_exported(run, tmp_path):
    for selection in ("[-1, [3, 5], :]", "[[4, 0], [3, 5], 0]", "[[4, 0]]"):
        drystone("export", run, tmp_path / "T.npy", "T", "--select", selection, "--overwrite")
        with dry.open(run) as c:
            np.testing.assert_array_equal(np.load(tmp_path / "T.npy"), eval(f"T{selection}", {"T": c["T"]}))
    drystone("export", run, tmp_path / "T.csv", "T", "--select", "[[4, 0], 12:14, 7:8]")
    assert (tmp_path / "T.csv").read_text().split() == [
        "step,y,x,T",
        "4,12,7,4.5",
        "4,13,7,4.5",
        "0,12,7,0.5",
        "0,13,7,0.5",
    ]


def test_csv_gives_the_cells_of_the_variable_where_the_selection_has_its_axes(run, tmp_path):
    # Symptom: cells were counted from the start of the selection, though labelled with the variable's axes.
    drystone("export", run, tmp_path / "T.csv", "T", "--select", "[4:5, 19:17:-1, ::29]")
    assert (tmp_path / "T.csv").read_text().split() == [
        "step,y,x,T",
        "4,19,0,4.5",
        "4,19,29,4.5",
        "4,18,0,4.5",
        "4,18,29,4.5",
    ]


def test_hdf5_takes_texts_of_one_length_and_growing_variables_in_small_chunks(path, tmp_path):
    dtype = np.dtype([("a", "U3"), ("b", [("c", "U2", (2,)), ("d", "i2")])])
    records = np.array([("aü", (["x", "yy"], 3))] * 3, dtype)
    with dry.create(path) as c:
        c.create_variable("u", "U3", (2, 2))[...] = "äbc"
        c.create_variable("records", dtype, (3,))[...] = records
        c.create_variable("grows", "i4", (None, 2), chunks=(4, 2))[0:3, :] = np.arange(6, dtype="i4").reshape(
            3, 2
        )
    assert as_json("export", path, tmp_path / "a.h5")["lost"] == []
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["u"].asstr()[...].tolist() == [["äbc"] * 2] * 2
        assert f["records"][2]["a"].decode() == "aü"
        assert f["records"][1]["b"]["c"].tolist() == [b"x", b"yy"]
        assert f["grows"].maxshape == (None, 2)
        assert f["grows"][...].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_links_and_datasets_of_nine_dimensions_are_named_and_the_rest_is_copied(tmp_path, path):
    # Symptom: one dataset of nine dimensions ended the import; links were silently left out.
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["a"] = np.arange(3.0)
        f.create_dataset("nine", (1,) * 9, "f4")
        f["soft"] = h5py.SoftLink("/a")
        f["nowhere"] = h5py.SoftLink("/b")
        f["elsewhere"] = h5py.ExternalLink("other.h5", "/c")
        f["g/again"] = f["a"]
        f["g/up"] = f["/"]
    said = as_json("import", tmp_path / "a.h5", path)
    assert sorted(what.split()[0] for what in said["lost"]) == [
        "elsewhere",
        "g/again",
        "g/up",
        "nine",
        "nowhere",
        "soft",
    ]
    with dry.open(path) as c:
        assert list(c.variables) == ["a"]
        assert c["a"][...].tolist() == [0, 1, 2]


def test_an_empty_npy_file_is_a_mistake(tmp_path, path):
    (tmp_path / "a.npy").write_bytes(b"")
    assert "cannot be read" in drystone("import", tmp_path / "a.npy", path, code=2)


def test_dimensions_of_which_only_the_first_has_a_name_can_be_steps(tmp_path, path):
    # Symptom: all names were dropped if one was missing, and `--steps` did nothing.
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["T"] = np.arange(12.0).reshape(3, 4)
        f["T"].dims[0].label = "time"
    drystone("import", tmp_path / "a.h5", path, "--steps", "time")
    with dry.open(path) as c:
        assert (c["T"].dims, c["T"].has_steps, c.steps) == (("dim_1",), True, [0, 1, 2])


def test_a_dimension_of_steps_that_no_array_has_is_a_mistake(hdf5, path):
    assert '"tiem"' in drystone("import", hdf5, path, "--steps", "tiem", code=2)
    assert not path.exists()


def test_diff_finds_the_first_difference_and_says_how_much(run, tmp_path):
    drystone("export", run, tmp_path / "T.npy", "T", "--select", "0")
    assert drystone("diff", run, run) == "no difference\n"
    with dry.open(run, mode="r+") as c:
        before = int(c.snapshot)
        c["T"][1, 3, 4] = 9
        c["T"].attrs["units"] = "C"
    found = as_json("diff", run, run, "--at", before, before + 2, code=1)["differences"]
    assert [d["what"] for d in found] == [
        "attribute units: 'K' and 'C'",
        "1 of 3000 values, by up to 8, the first at (1, 3, 4)",
    ]
    assert "no difference" in drystone(
        "diff", run, run, "--at", before, before + 2, "--no-attrs", "--atol", 10
    )
    assert "only in the first" in drystone("diff", run, _empty(tmp_path), code=1)


def test_diff_compares_whatever_types_there_are(tmp_path):
    """Symptom: comparing numbers with texts or records was a traceback, and NaN of bfloat16 differed from itself."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    values = {
        "i8": [1, 2, 3], "u8": [1, 2, 1 << 63], "?": [True, False, True], "f2": [1, np.nan, 2], "c8": [1j, 2, np.nan],
        "S3": [b"a", b"b", b""], "U3": ["a", "b", ""], bfloat16: [1, np.nan, 2], str: ["a", "b", ""],
    }  # fmt: skip
    values = {kind: np.array(given, object if kind is str else kind) for kind, given in values.items()}
    for record in ([("x", "i4"), ("y", bfloat16)], [("x", "i4")]):
        values[str(record)] = np.array([(7, np.nan)[: len(record)]] * 3, record)
    for n, (kind, given) in enumerate(values.items()):
        with dry.create(tmp_path / f"{n}.dry") as c:
            c.create_variable("v", kind if kind is str else given.dtype, (3,))[...] = given
    for n in range(len(values)):
        for m in range(len(values)):
            for tolerance in ([], ["--atol", "0.5"]):
                both = tmp_path / f"{n}.dry", tmp_path / f"{m}.dry"
                said = drystone("diff", *both, *tolerance, code=int(n != m))
                assert said.startswith("v: dtype: " if n != m else "no difference")


def test_diff_compares_attributes_item_by_item(tmp_path):
    """Symptom: as arrays, 1 and "1" were equal in a list with a text, and lists of several lengths differed from
    themselves."""
    lists = {"ragged": [[1], [2, 3]], "named": {"a": [np.nan, "b"]}, "mixed": [1, "a"], "new\nline": 1}
    for name, attrs in (("a", lists), ("b", {**lists, "mixed": ["1", "a"], "new\nline": 1.5})):
        with dry.create(tmp_path / f"{name}.dry") as c:
            c.attrs.update(attrs)
    assert drystone("diff", tmp_path / "a.dry", tmp_path / "a.dry") == "no difference\n"
    assert drystone("diff", tmp_path / "a.dry", tmp_path / "b.dry", code=1).splitlines() == [
        "/: attribute mixed: [1, 'a'] and ['1', 'a']",
        r"/: attribute new\nline: 1 and 1.5",
    ]


def test_integers_are_apart_by_what_they_are(tmp_path):
    for name, value in (("a", 1 << 62), ("b", (1 << 62) + 1)):
        with dry.create(tmp_path / f"{name}.dry") as c:
            c.create_variable("v", "i8", (1,))[...] = value
    assert "by up to 1," in drystone("diff", tmp_path / "a.dry", tmp_path / "b.dry", code=1)


@pytest.mark.parametrize("kind", [str, "U3", [("t", "U3")]])
@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("text", ["a\0b", "\udc80"])
def test_texts_that_a_file_cannot_hold_are_no_others_in_it(tmp_path, path, kind, shape, text):
    """Symptom: netCDF silently stored only the text before the NUL; HDF5 and CSV ended with a traceback."""
    if kind is str and text != "a\0b":
        return  # containers do not accept it either
    values = np.full(shape, text, object) if kind is str else np.full(shape, text, "U3").astype(kind)
    with dry.create(path) as c:
        c.create_variable("other", "i4")[...] = 1
        c.create_variable("v", kind, shape)[...] = values[()]
    for suffix in ("nc", "h5", "csv"):
        out = tmp_path / f"out.{suffix}"
        name = ["v"] if suffix == "csv" else []
        if text == "a\0b" and (suffix == "csv" or (suffix == "h5" and isinstance(kind, list))):
            drystone("export", path, out, *name)  # unchanged there
            continue
        said = drystone("export", path, out, *name, code=2)
        assert '"v' in said
        assert "cannot be written there" in said
        assert not out.exists()


def test_names_that_netcdf_has_not_are_named_and_the_rest_is_written(tmp_path, path):
    """Symptom: one of them ended the export; in an attribute, with a traceback."""
    with dry.create(path) as c:
        for name in ("good", "$bad", "no/end ", "+group/v"):
            c.create_variable(name, "i4", (2,), dims=("a/b",))[...] = [1, 2]
        c.attrs.update({"x/y": 1, "nul": "a\0b", "nuls": ["a\0b"], "mixed": [1, "a"], "kept": "k"})
    lost = as_json("export", path, tmp_path / "out.nc")["lost"]
    assert sorted(what.split(" (")[0] for what in lost) == sorted(
        [
            *("attribute mixed of /", "attribute nul of /", "attribute nuls of /", "attribute x/y of /"),
            *("+group", "$bad", "+group/v", "good: that a dimension is called a/b", "no/end "),
        ]
    )
    with netCDF4.Dataset(tmp_path / "out.nc") as f:
        assert (f["good"][...].tolist(), f.kept) == ([1, 2], "k")


def _empty(tmp_path):
    with dry.create(tmp_path / "empty.dry"):
        return tmp_path / "empty.dry"


def test_pictures_are_drawn(run, tmp_path):
    for arguments in (["T", "[-1]"], ["T", "[:, 3, 4]"], ["T", "--layout"], ["half", "--layout"], ["g/p.w"]):
        out = tmp_path / "p.png"
        said = as_json("plot", run, *arguments, "-o", out)
        assert out.read_bytes().startswith(b"\x89PNG")
        assert said["shows"]
        out.unlink()
    assert "2 blocks by 1 writer," in as_json("plot", run, "T", "--layout", "-o", tmp_path / "l.png")["shows"]


def test_a_layout_shows_the_files_that_a_read_is_spread_over(tmp_path):
    with dry.create(tmp_path / "spread.dry") as c:
        c.create_variable("T", "f4", shape=(4, 64))
        for rank in range(4):
            with c.writer(rank=rank, nranks=4, layout="log") as w:
                w.put("T", np.ones((1, 64), "f4"), offset=(rank, 0))
        c.commit()

    def shown(*more):
        return as_json("plot", tmp_path / "spread.dry", "T", *more, "--layout", "-o", tmp_path / "p.png")[
            "shows"
        ]

    assert shown("--by", "file").startswith("4 blocks in 4 files, ")
    assert shown("[1:3, 8:20]", "--by", "file").startswith("2 blocks in 2 files, ")
    assert shown("[3]").startswith("1 block by 1 writer, ")
    with pytest.raises(dry.InvalidArgumentError, match="has no storage targets"):
        dry.plot(tmp_path / "spread.dry", "T", layout=True, by="target", output=tmp_path / "p.png")


def test_a_layout_shows_the_storage_targets_that_hold_blocks(tmp_path):
    folders = [
        tmp_path / ("long" * 30) / name for name in "ab"
    ]  # names that would leave no space for the picture
    for folder in folders:
        folder.mkdir(parents=True)
    with dry.create(tmp_path / "spread.dry", targets=folders) as c:
        c.create_variable("T", "f4", shape=(4, 64))
        for rank in range(4):
            with c.writer(rank=rank, nranks=4, layout="log") as w:
                w.put("T", np.full((1, 64), rank, "f4"), offset=(rank, 0))
        c.commit()
        on = {
            block.offset[0]: (tmp_path / "spread.dry" / block.place[0]).readlink()
            for block in c["T"].blocks()
        }
    first = sum(file.is_relative_to(folders[0]) for file in on.values())
    assert 0 < first < 4
    shown = dry.plot(tmp_path / "spread.dry", "T", layout=True, by="target", output=tmp_path / "p.png").shows
    assert shown.startswith("4 blocks on 2 storage targets, ")
    assert (
        f"{256 * min(first, 4 - first)} B to {256 * max(first, 4 - first)} B of each storage target" in shown
    )


def test_numbers_below_zero_are_no_options(run, tmp_path):
    """Symptom: argparse recognises -1, but took -1e5, and the selection -1,:, for unknown options."""
    out = tmp_path / "p.png"
    assert as_json("plot", run, "T", "-1,:,:", "--range", "-1e5", "-.5", "-o", out)["file"] == str(out)


def test_missing_values_are_not_drawn(tmp_path, path):
    """Symptom: a float fill value matched only if all digits of the attribute did; `missing_value` was ignored."""
    stands = {"_FillValue": np.float64(-0.1), "missing_value": [7.0]}
    with dry.create(path) as c:
        c.create_variable("v", "f4", (4,), attrs=stands)[...] = [-0.1, 1, 7, 2]
    shown = as_json("plot", path, "v", "-o", tmp_path / "p.png")["shows"]
    assert shown == "4 values, from 1 to 2"


def test_options_may_stand_between_names(run, tmp_path):
    """Symptom: optional arguments counted as left out if an option came first: "unrecognized arguments"."""
    out = tmp_path / "T.npy"
    drystone("export", run, out, "--select", "[0]", "T")
    drystone("export", run, "--overwrite", out, "--select", "[0]", "--json", "T")
    assert np.load(out).shape == (20, 30)
    assert [v["name"] for v in json.loads(drystone("du", run, "--json", "T"))["variables"]] == ["T"]
    shown = json.loads(drystone("plot", run, "T", "-o", tmp_path / "p.png", "[0]", "--json"))["shows"]
    assert shown.startswith("20 x 30 values")
    with dry.open(run, "r+") as c:
        c.create_variable("-x", "f4", (2,))[...] = 1
    drystone("export", "--overwrite", "--", run, out, "-x")
    assert np.load(out).tolist() == [1, 1]


def test_only_the_fill_value_is_left_out_of_a_picture(tmp_path, path):
    """Symptom: integers beyond 2^53 were compared with it as floats, so several matched."""
    fill = 1 << 62
    with dry.create(path) as c:
        c.create_variable("n", "i8", (3,), fill_value=fill)[...] = [fill, fill + 1, 5]
    shown = as_json("plot", path, "n", "-o", tmp_path / "p.png")["shows"]
    assert shown == f"3 values, from 5 to {float(fill):g}"


@pytest.mark.parametrize("given", [np.nan, 1.5, "hi", [1, 2], 1 << 40])
def test_a_fill_value_that_netcdf_cannot_have_is_named(tmp_path, path, given):
    """Symptom: for integers, a fill value that is not one ended the export with a traceback, or was rounded: then
    valid values were missing."""
    with dry.create(path) as c:
        c.create_variable("g/n", "i4", (3,), fill_value=7, attrs={"_FillValue": given})[...] = [1, 2, 3]
    out = tmp_path / "x.nc"
    said = as_json("export", path, out)
    assert said["lost"] == [f"attribute _FillValue of g/n ({given!r} is not a value of its type)"]
    with netCDF4.Dataset(out) as f:
        assert f["g/n"][:].tolist() == [1, 2, 3]
        assert f["g/n"].getncattr("_FillValue") == 7


@pytest.fixture
def globe(path):
    """Values that grow northwards, with coordinates; the first cell is in the south."""
    with dry.create(path) as c:
        for name, units, values in (
            ("lat", "degrees_north", np.linspace(-75, 75, 6)),
            ("lon", "degrees_east", np.arange(0, 360, 60.0)),
            ("time", "days since 2000-01-01", np.array([0, 31.0])),
            ("depth", "m", np.array([0, 10, 50.0])),
        ):
            c.create_variable(name, dtype="f8", shape=values.shape, dims=(name,), attrs={"units": units})
            c[name][...] = values
        c.create_variable("T", dtype="f4", shape=(2, 6, 6), dims=("time", "lat", "lon"), attrs={"units": "K"})
        c["T"][...] = np.broadcast_to(np.linspace(-75, 75, 6, dtype="f4")[:, None], (2, 6, 6))
        c.create_variable("S", dtype="f4", shape=(3, 6), dims=("depth", "lat"))
        c["S"][...] = np.repeat(np.arange(3, dtype="f4"), 6).reshape(3, 6)
    return path


def _shades(picture, column=0.4):
    """Brightness along a column of a picture, where it is drawn."""
    from matplotlib.image import imread

    pixels = imread(picture)[:, :, :3].sum(axis=2)
    return pixels[pixels.shape[0] // 5 : -pixels.shape[0] // 5, int(pixels.shape[1] * column)]


def test_maps_are_drawn_with_north_at_the_top(globe, tmp_path):
    """Symptom: a map with ascending latitudes was drawn upside down, since row 0 was always at the top; that is right
    for depths."""
    drystone("plot", globe, "T", "[0]", "-o", tmp_path / "map.png", "--colours", "gray")
    drystone("plot", globe, "S", "-o", tmp_path / "section.png", "--colours", "gray")
    shades, depths = _shades(tmp_path / "map.png"), _shades(tmp_path / "section.png")
    assert shades[0] > shades[-1] + 1
    assert depths[0] < depths[-1] - 1


def test_axes_of_plots_have_names_units_and_times(globe, tmp_path, monkeypatch):
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    drystone("plot", globe, "T", "[0]", "-o", tmp_path / "map.svg")
    drystone("plot", globe, "T", "[:, 2, 3]", "-o", tmp_path / "series.svg")
    drystone("plot", globe, "S", "-o", tmp_path / "uneven.svg")
    drystone("plot", globe, "T", "--layout", "-o", tmp_path / "layout.svg")
    said = {kind: (tmp_path / f"{kind}.svg").read_text() for kind in ("map", "series", "uneven", "layout")}
    assert "lat [degrees_north]" in said["map"]
    assert "lon [degrees_east]" in said["map"]
    assert "2000-02-01" in said["series"]
    assert "depth [m]" in said["uneven"]
    assert "lat (cell)" in said["layout"]


def test_csv_has_coordinates_where_axes_have_them(globe, tmp_path):
    """Symptom: the header was `axis_0,T` and cells were counted, though the dimension has a name and values."""
    drystone("export", globe, tmp_path / "a.csv", "T", "--select", "[0, 2, 1:3]")
    drystone("export", globe, tmp_path / "b.csv", "T", "--select", "[:, 5, 0]")
    assert (tmp_path / "a.csv").read_text().split() == ["lon,T", "60.0,-15.0", "120.0,-15.0"]
    lines = (tmp_path / "b.csv").read_text().splitlines()
    assert lines == ["time,T", "2000-01-01 00:00:00,75.0", "2000-02-01 00:00:00,75.0"]


def test_plot_of_no_cells_is_a_message(tmp_path, path):
    """An error, instead of an empty picture and a Matplotlib warning."""
    with dry.create(path) as c:
        c.create_variable("none", "f4", (0, 3))
    for arguments in (["none"], ["none", "[:, 0]"]):
        assert "no cells to draw" in drystone("plot", path, *arguments, "-o", tmp_path / "p.png", code=2)
    assert not (tmp_path / "p.png").exists()


def test_du_adds_up_blocks(run):
    said = as_json("du", run)
    assert said["variables"][0] == {"name": "T", "blocks": 6, "stored": 7200, "decoded": 7200, "ratio": 1.0}
    assert said["files"]["log"] > 7200


def test_du_counts_what_has_two_names_once(run):
    names = [v["name"] for v in as_json("du", run)["variables"]]
    with dry.open(run, "r+") as c:
        c.create_variable("nothing yet", "f4", (3,))
        c.link("other", "T")
    assert sorted(v["name"] for v in as_json("du", run)["variables"]) == sorted([*names, "nothing yet"])
    one = as_json("du", run, "other")["variables"][0]
    assert (one["name"], one["stored"], one["blocks"]) == ("other", 7200, 6)


def test_tables_have_one_line_per_name(path):
    with dry.create(path) as c:
        for name in ("new\nline", "red\x1b[31m", "grün 数"):
            c.create_variable(name, "f4", (3,))[...] = 1
    said = drystone("du", path).splitlines()
    assert sorted(line.split("  ")[0] for line in said[1:4]) == ["grün 数", "new\\nline", "red\\x1b[31m"]


def test_du_says_what_the_index_says(run):
    """Symptom: the command summed up blocks in a separate walk, and took a record's blocks of one member for whole
    ones."""
    with dry.open(run, "r+") as c:
        c["g/p"]["w"][1:] = [7.0, 8.0]
        found = c.usage()
    said = {v["name"]: v for v in as_json("du", run)["variables"]}
    assert {n: (u.blocks, u.stored, u.decoded) for n, u in found.items()} == {
        n: (v["blocks"], v["stored"], v["decoded"]) for n, v in said.items()
    }
    assert said["g/p"]["decoded"] == 3 * 12 + 2 * 8
    assert "there is no variable" in drystone("du", run, "nothing", code=3)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["import", "nothing.h5", "x.dry"], 3, "there is nothing at nothing.h5"),
        (["import"], 2, "required"),
        (["import", __file__, "x.dry"], 2, "unknown format"),
        (["export", "nothing.dry", "x.h5"], 3, "nothing"),
        (["export", "RUN", "x.what"], 2, "format is one of"),
        (["export", "RUN", "x.npy"], 2, "takes one variable; name it"),
        (["export", "RUN", "x.npy", "U"], 3, "U"),
        (
            ["export", "RUN", "x.npy", "T", "--select", "[1, x]"],
            2,
            "expected a number, ':' or '...' at character 5",
        ),
        (["export", "RUN", "x.npy", "T", "--select", "[9]"], 2, "out of bounds"),
        (["plot", "RUN", "T"], 2, "one or two axes"),
        (["plot", "RUN", "names"], 2, "is not drawn"),
        (["plot", "RUN", "T", "[0]", "--colours", "nope"], 2, "no colour map"),
        (["plot", "RUN", "T", "[0]", "--range", "nan", "nan"], 2, "a finite number is expected"),
        (["plot", "RUN", "T", "[0]", "--range", "0", "inf"], 2, "a finite number is expected"),
        (["plot", "RUN", "T", "[0]", "--range", "5", "1"], 2, "the lower one first"),
        (["plot", "RUN", "T", "[0]", "--range", "1", "1"], 2, "the lower one first"),
        (["diff", "RUN", "RUN", "--at", "1", "99"], 3, "99"),
    ],
)
def test_wrong_input_gives_one_line_that_helps(run, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    said = drystone(*[run if a == "RUN" else a for a in arguments], code=code)
    assert said.startswith("drystone: ")
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "x.dry").exists()


@pytest.mark.parametrize(
    "arguments", [["du", "RUN", "\udcff"], ["du", "\udcff.dry"], ["import", "\udcff.npy", "x.dry"]]
)
def test_names_that_are_not_unicode_get_an_error(run, tmp_path, monkeypatch, arguments):
    """Symptom: a traceback. The system returns such names for files that were created with other encodings."""
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "\udcff.npy", np.arange(3))
    said = drystone(*[run if a == "RUN" else a for a in arguments], code=2)
    assert said.startswith("drystone: ")
    assert said.count("\n") == 1
    assert "UTF-8" in said
    assert not (tmp_path / "x.dry").exists()


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_what_is_named_twice_is_exported_once(run, tmp_path, suffix):
    """Symptom: HDF5 refused the second one with a traceback."""
    said = as_json("export", run, tmp_path / f"x.{suffix}", "half", "half", "/half", "g/p.w", "g/p.w")
    assert [v["name"] for v in said["variables"]] == ["half", "g/p.w"]


def test_each_name_to_import_must_exist(hdf5, path):
    """Symptom: a wrong one among others was silently ignored."""
    said = drystone("import", hdf5, path, "--only", "scalar", "--only", "flag", code=2)
    assert 'nothing named "flag"; it has: ' in said
    assert not path.exists()


def test_a_missing_file_or_a_folder_is_not_published_as_hdf5(tmp_path):
    assert "there is nothing at" in drystone("publish", "--hdf5", tmp_path / "no.h5", code=3)
    assert "is a folder" in drystone("publish", "--hdf5", tmp_path, code=2)


def test_hdf5_fills_chunks_only_where_they_reach_beyond_the_edge(path, tmp_path):
    """A program that extends a dataset with partly filled chunks would find uninitialised memory there."""
    values = np.arange(3 * 64 * 48, dtype="f4").reshape(3, 64, 48)
    with dry.create(path) as c:
        c.create_variable("whole", "f4", (64, 48), chunks=(32, 16), fill_value=7)
        c.create_variable("beyond", "f4", (64, 48), chunks=(24, 16), fill_value=7)
        c.create_variable("grows", "f4", (None, 48), fill_value=7)
        c.create_variable("steps", "f4", (64, 48), steps=True, fill_value=7)
        with c.writer() as w:
            for name in ("whole", "beyond", "grows"):
                w.put(name, values[0])
            for n in range(3):
                with w.step(n):
                    w.put("steps", values[n])
        c.commit()
    drystone("export", path, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as f:
        times = {name: f[name].id.get_create_plist().get_fill_time() for name in f}
        for name in ("whole", "beyond", "grows"):
            np.testing.assert_array_equal(f[name], values[0])
        np.testing.assert_array_equal(f["steps"], values)
    never = h5py.h5d.FILL_TIME_NEVER
    assert {name for name, time in times.items() if time == never} == {"whole", "steps"}


@pytest.mark.parametrize("shape", [(), (11,), (3, 4, 5)])
def test_lines_of_csv_are_cells_in_order_whatever_is_written_together(path, tmp_path, monkeypatch, shape):
    monkeypatch.setattr("drystone.interchange.exports.single._LINES", 7)
    values = np.zeros(shape, [("x", "f8"), ("n", [("i", "i4"), ("s", "S2")])])
    values["x"] = np.random.default_rng(3).random(shape)
    values["n"]["i"] = np.arange(values.size).reshape(shape)
    values["n"]["s"] = "ab"
    with dry.create(path) as c, c.writer() as w:
        for name, array in (("r", values), ("x", values["x"].copy())):
            c.create_variable(name, array.dtype, shape)
            w.put(name, array)
    for name, array in (("r", values), ("x", values["x"])):
        drystone("export", path, tmp_path / f"{name}.csv", name)
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            _, *lines = csv.reader(file)
        # Bytes are written as text, in a record within the record too.
        whole = [(x, (i, text.decode())) for x, (i, text) in values.reshape(-1).tolist()]
        members = whole if name == "r" else [(value,) for value in array.reshape(-1).tolist()]
        places = list(np.ndindex(shape))
        expected = [[*map(str, at), *map(str, m)] for at, m in zip(places, members, strict=True)]
        assert lines == expected


def test_an_export_that_fails_leaves_what_was_there(run, tmp_path, monkeypatch):
    """Half a file under the name of a whole one would be taken for it."""
    out = tmp_path / "out.h5"
    out.write_text("what was there")

    def fails(*_, **__):
        raise OSError("the device is full")

    monkeypatch.setattr("drystone.interchange.exports.cells.fill", fails)
    said = drystone("export", str(run), str(out), "--overwrite", code=6)
    assert "the device is full" in said
    assert out.read_text() == "what was there"
    assert [path.name for path in tmp_path.iterdir() if "out.h5" in path.name] == ["out.h5"]


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_texts_are_not_written_to_a_disk_that_has_no_room_for_them(path, tmp_path, suffix):
    """HDF5 crashes there; symptom: the unfinished file stayed."""
    with dry.create(path) as c:
        c.create_variable("t", str, (100_000,))[...] = np.full(100_000, "a text of some bytes", object)
    out = tmp_path / f"out.{suffix}"
    script = f"""
import os, sys
from drystone import commands
class Full:
    f_bavail, f_frsize, f_blocks = 100, 4096, 1000
os.statvfs = lambda where: Full
sys.exit(commands.main(["export", {str(path)!r}, {str(out)!r}]))
"""
    got = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    said = f"drystone: cannot write {out}: no free space is left there; free some, or choose another place\n"
    assert (got.returncode, got.stderr) == (6, said)
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("arguments", [["export", "x.npy", "half"], ["export", "x.h5"], ["export", "x.nc"]])
def test_an_unwritable_path_is_named_without_its_temporary_file(run, arguments):
    command, name, *names = arguments
    said = drystone(command, run, f"/proc/{name}", *names, code=6)
    assert said.startswith(f"drystone: cannot write /proc/{name}: ")
    assert ".part" not in said
    assert "free space" not in said  # /proc never has these
    said = drystone("plot", run, "half", "-o", "/proc/x.png", code=6)
    assert said.startswith("drystone: cannot write /proc/x.png: ")


def test_the_program_finds_both_kinds_of_commands(run):
    for arguments in (["du", str(run)], ["ls", str(run)], ["--json", "du", str(run)]):
        done = subprocess.run(
            [sys.executable, "-m", "drystone", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "T" in done.stdout


def test_groups_of_netcdf_have_dimensions_of_their_own(tmp_path, path):
    """Symptom: the dimension x of a group was exported as x_2 if another group, or the root, has an x of another
    length."""
    with dry.create(path) as c:
        for name, n in (("a", 5), ("g/a", 7), ("g/deep/a", 7), ("h/a", 5), ("h/b", 3)):
            c.create_variable(name, "f8", (n,), dims=("x",))
            with c.writer() as w:
                w.put(name, np.arange(float(n)))
    drystone("export", path, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as f:
        for name, n in (("a", 5), ("g/a", 7), ("g/deep/a", 7), ("h/a", 5)):
            assert (f[name].dimensions, f[name].shape) == (("x",), (n,))
        assert f["h/b"].dimensions == ("x_2",)  # a variable beside it has the other
        assert list(f["g"].dimensions) == ["x"]
        assert list(f["g/deep"].dimensions) == []
    drystone("import", tmp_path / "a.nc", tmp_path / "b.dry")
    with dry.open(tmp_path / "b.dry") as c:
        assert [c[name].dims for name in ("a", "g/a", "g/deep/a", "h/b")] == [("x",)] * 3 + [("x_2",)]


def test_the_table_of_an_import_tells_records_in_short(tmp_path, path):
    np.save(tmp_path / "few.npy", np.zeros(3, [("x", "f4"), ("y", "f4")]))
    np.save(tmp_path / "many.npy", np.zeros(3, [(f"member_{n}", "f4") for n in range(20)]))
    assert "record(x, y)" in drystone("import", tmp_path / "few.npy", path)
    assert "record of 20 members" in drystone("import", tmp_path / "many.npy", path)


def test_a_place_that_takes_no_folders_is_called_one(tmp_path):
    if not Path("/proc/self").exists():
        pytest.skip("needs /proc")
    np.save(tmp_path / "a.npy", np.zeros(3))
    assert "choose another place" in drystone("import", tmp_path / "a.npy", "/proc/a.dry", code=6)
    assert "holds other files" in drystone("import", tmp_path / "a.npy", "/proc", code=5)


def test_a_selection_of_one_piece_is_read_without_a_thread(path, monkeypatch):
    """Symptom: `drystone diff` started two threads per variable, which took most of its time for many small ones."""

    def none(*_, **__):
        raise AssertionError("a thread for one piece")

    monkeypatch.setattr("drystone.views.ThreadPoolExecutor", none)
    with dry.create(path) as c:
        c.create_variable("v", "f4", (3,))[...] = 1
        c.create_variable("none", "f4", (0, 3))
        assert [values.tolist() for _, values in c["v"].pieces()] == [[1, 1, 1]]
        assert list(c["none"].pieces()) == []
        with pytest.raises(AssertionError):
            list(c["v"].pieces(max_bytes=4))
