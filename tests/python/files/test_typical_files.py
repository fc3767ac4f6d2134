"""Files as other programs write them, imported and exported: nothing is lost but what is reported.

Each file is made (or found: real climatologies, where Debian's ferret-datasets is installed), imported, compared with
what its own package reads, exported to the corresponding format, imported again, and compared with the first
container. docs/guide/import.md lists the files and the losses of each; the list and this test agree.
"""

import contextlib
import io
import json
import os
import re
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from drystone import commands

h5py = pytest.importorskip("h5py")
netCDF4 = pytest.importorskip("netCDF4")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DOCUMENT = Path(__file__).parents[3] / "docs/guide/import.md"
REAL = sorted(Path("/usr/share/ferret-vis/data").glob("*.*"))
rng = np.random.default_rng(42)


def command(*arguments, code=0):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        got = commands.main([*map(str, arguments), "--json"])
    assert got in (code, 0), err.getvalue()
    return json.loads(out.getvalue())


CASES = {}


def case(name, suffix, lost=()):
    """A file: its name, its suffix, and its losses on import."""

    def keep(make):
        CASES[name] = (make, suffix, tuple(lost))
        return make

    return keep


# HDF5


def hdf5(make):
    def made(path):
        with h5py.File(path, "w") as f:
            make(f)

    return made


@case("HDF5: nested groups and attributes", "h5")
@hdf5
def _(f):
    f.attrs.update(title="a run", version=3, ratio=0.5, list=np.arange(4), words=["a", "größe"])
    g = f.create_group("mesh/level 0")
    g.attrs["spacing"] = np.float32(0.25)
    f.create_group("nothing in it")
    d = g.create_dataset("points", data=rng.random((50, 3)))
    d.attrs["units"] = "m"
    f["top"] = np.arange(10, dtype="i4")


@case("HDF5: chunked, shuffled, compressed, checksummed", "h5")
@hdf5
def _(f):
    f.create_dataset("a", data=rng.random((130, 70), "f4"), chunks=(64, 64), compression="gzip", shuffle=True)
    f.create_dataset(
        "b", data=rng.integers(0, 9, (40, 50)), chunks=(7, 9), compression="lzf", fletcher32=True
    )


@case("HDF5: every number, both byte orders", "h5")
@hdf5
def _(f):
    for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
        for order in "<>":
            f[f"{code}{'le' if order == '<' else 'be'}"] = rng.normal(60, 20, 33).astype(order + code)


@case("HDF5: compound types", "h5")
@hdf5
def _(f):
    dtype = np.dtype(
        [("id", "<i8"), ("place", [("x", "<f4"), ("y", "<f4")]), ("tensor", "<f8", (3, 3)), ("name", "S6")]
    )
    particles = np.zeros(20, dtype)
    particles["id"], particles["place"]["x"], particles["name"] = np.arange(20), rng.random(20), b"proton"
    particles["tensor"] = rng.random((20, 3, 3))
    f["particles"] = particles


@case("HDF5: complex numbers and booleans", "h5")
@hdf5
def _(f):
    f["wave"] = (rng.random((9, 8)) + 1j * rng.random((9, 8))).astype("c8")
    f["wave of two"] = rng.random(5) + 1j
    f["mask"] = rng.random((9, 8)) > 0.5


@case("HDF5: texts, of any length and fixed", "h5")
@hdf5
def _(f):
    f.create_dataset("any", data=["", "a", "größer als"], dtype=h5py.string_dtype())
    f["fixed"] = np.array([b"ab", b"cde"])
    f.create_dataset("one", data="a sentence", dtype=h5py.string_dtype())


@case("HDF5: extendible, fill values, parts never written", "h5")
@hdf5
def _(f):
    d = f.create_dataset(
        "grows", (5, 40, 40), "f4", maxshape=(None, 40, 40), chunks=(1, 40, 40), fillvalue=-999
    )
    d[2] = rng.random((40, 40))
    f.create_dataset("never", (6, 7), "i2", fillvalue=-1)
    f.create_dataset("empty", (0, 3), "f8")
    f.create_dataset("scalar", data=np.pi)


@case("HDF5: dimension scales and labels", "h5")
@hdf5
def _(f):
    f["x"], f["y"] = np.arange(6.0), np.arange(4.0)
    f["field"] = rng.random((4, 6))
    for n, name in enumerate("yx"):
        f[name].make_scale(name)
        f["field"].dims[n].attach_scale(f[name])
    f["labelled"] = rng.random((4, 6))
    f["labelled"].dims[0].label, f["labelled"].dims[1].label = "row", "column"


@case(
    "HDF5: two axes of one name", "h5", ["matrix: that two of its dimensions are called n (one is now n_2)"]
)
@hdf5
def _(f):
    f["matrix"] = rng.random((5, 5))
    for dim in f["matrix"].dims:
        dim.label = "n"


@case("HDF5: enumerations", "h5", [])
@hdf5
def _(f):
    f.create_dataset(
        "state", data=[0, 2, 1, 1], dtype=h5py.enum_dtype({"solid": 0, "liquid": 1, "gas": 2}, "u1")
    )


@case("HDF5: lists of any length, references, empty dataspaces, named types", "h5",
      ["kind (a named type)", "nothing (an empty dataspace)"])  # fmt: skip
@hdf5
def _(f):
    f["kept"] = np.arange(3)
    ragged = f.create_dataset("ragged", (2,), h5py.vlen_dtype("i4"))
    ragged[0] = [1, 2, 3]
    f.create_dataset("pointers", data=[f["kept"].ref], dtype=h5py.ref_dtype)
    f.create_dataset("nothing", data=h5py.Empty("f4"))
    f["kind"] = np.dtype("f4")


# NetCDF


def weather(path, kind, extra=None):
    with netCDF4.Dataset(path, "w", format=kind) as f:
        f.title = "weather"
        f.history = "made for a test"
        f.createDimension("time", None)
        f.createDimension("lat", 9)
        f.createDimension("lon", 12)
        t = f.createVariable("time", "f8", ("time",))
        t.units, t.calendar = "hours since 1950-01-01", "standard"
        t[:] = np.arange(4) * 6
        for name, n in (("lat", 9), ("lon", 12)):
            f.createVariable(name, "f4", (name,))[:] = np.linspace(-40, 40, n)
        T = f.createVariable("T", "f4", ("time", "lat", "lon"), fill_value=np.float32(1e20))
        T.units, T.valid_range = "K", np.array([200, 330], "f4")
        T[:] = np.ma.masked_less(rng.normal(280, 20, (4, 9, 12)), 260)
        f.createVariable("count", "i2", ("lat", "lon"))[:] = rng.integers(0, 99, (9, 12))
        f.createVariable("crs", "i4", ()).grid_mapping_name = "latitude_longitude"
        if extra:
            extra(f)


@case("netCDF-3 classic", "nc")
def _(path):
    weather(path, "NETCDF3_CLASSIC")


@case("netCDF-3 with 64-bit offsets", "nc")
def _(path):
    weather(path, "NETCDF3_64BIT_OFFSET")


@case("netCDF-3 with 64-bit data (CDF-5)", "nc")
def _(path):
    def extra(f):
        f.createVariable("big", "i8", ("lat",))[:] = np.arange(9) + 2**60
        f.createVariable("u", "u4", ("lat",))[:] = np.arange(9, dtype="u4") + 2**31

    weather(path, "NETCDF3_64BIT_DATA", extra)


@case("netCDF-3: names in character arrays", "nc")
def _(path):
    def extra(f):
        f.createDimension("strlen", 8)
        names = netCDF4.stringtochar(np.array(["Kiel", "Bergen", "Reading"] * 3, "S8"))
        f.createVariable("station", "S1", ("lat", "strlen"))[:] = names

    weather(path, "NETCDF3_CLASSIC", extra)


@case("netCDF-4 classic model, compressed", "nc")
def _(path):
    weather(path, "NETCDF4_CLASSIC")


@case("netCDF-4: groups that share dimensions", "nc")
def _(path):
    def extra(f):
        g = f.createGroup("model/member_1")
        g.note = "a group"
        g.createDimension("level", 3)
        g.createVariable("u", "f8", ("level", "lat"), zlib=True)[:] = rng.random((3, 9))

    weather(path, "NETCDF4", extra)


@case("netCDF-4: packed by the CF conventions", "nc")
def _(path):
    def extra(f):
        p = f.createVariable("packed", "i2", ("lat", "lon"), fill_value=-32768, zlib=True, chunksizes=(9, 6))
        p.set_auto_maskandscale(False)
        p.scale_factor, p.add_offset, p.units = 0.01, 273.15, "K"
        p[:] = rng.integers(-3000, 3000, (9, 12))

    weather(path, "NETCDF4", extra)


@case("netCDF-4: two dimensions that grow, texts", "nc")
def _(path):
    def extra(f):
        f.createDimension("event", None)
        f.createVariable("log", "f4", ("time", "event"))[:] = rng.random((4, 5))
        names = f.createVariable("names", str, ("event",))
        for n in range(5):
            names[n] = ["", "ä", "three", "4", "five words in one cell"][n]

    weather(path, "NETCDF4", extra)


@case(
    "netCDF-4: user types",
    "nc",
)
def _(path):
    def extra(f):
        kind = f.createEnumType("u1", "phase_t", {"ice": 0, "water": 1})
        f.createVariable("phase", kind, ("lat",), fill_value=0)[:] = np.arange(9, dtype="u1") % 2
        vlen = f.createVLType("i4", "list_t")
        ragged = f.createVariable("ragged", vlen, ("lat",))
        ragged[0] = np.arange(3, dtype="i4")

    weather(path, "NETCDF4", extra)


# Zarr


def hierarchy(path, version, **more):
    zarr = pytest.importorskip("zarr")
    root = zarr.open_group(str(path), mode="w", zarr_format=version)
    root.attrs.update(title="published", numbers=[1, 2, 3], nested={"a": 1})
    names = {"dimension_names": ("y", "x")} if version == 3 else {}
    T = root.create_array(
        "fields/T", shape=(70, 90), chunks=(32, 32), dtype="f4", fill_value=-1, **names, **more
    )
    T.attrs["units"] = "K"
    if version == 2:
        T.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    T[:40] = rng.random((40, 90))
    root.create_array("mask", shape=(9,), chunks=(4,), dtype="bool")[:] = np.arange(9) % 2 == 0
    root.create_array("wave", shape=(9,), chunks=(9,), dtype="c16")[:] = np.arange(9) * (1 + 1j)


@case("Zarr 2", "zarr")
def _(path):
    hierarchy(path, 2)


@case("Zarr 3", "zarr")
def _(path):
    hierarchy(path, 3)


@case("Zarr 3 with shards", "zarr")
def _(path):
    hierarchy(path, 3, shards=(64, 64))


# NumPy and ADIOS


@case(".npy", "npy")
def _(path):
    np.save(path, rng.random((40, 50, 3)))


@case(".npy in Fortran's order, big-endian", "npy")
def _(path):
    np.save(path, np.asfortranarray(rng.integers(0, 99, (12, 9)).astype(">i4")))


@case(".npy of records", "npy")
def _(path):
    np.save(path, np.array([(1, 2.5, b"x"), (2, 3.5, b"yz")], [("n", "i4"), ("v", "f8"), ("s", "S3")]))


def stream(path, engine):
    adios2 = pytest.importorskip("adios2")
    io_ = adios2.Adios().declare_io("out")
    io_.set_engine(engine)
    with adios2.Stream(io_, str(path), "w") as s:
        s.write_attribute("title", "a run")
        for t in range(3):
            s.begin_step()
            s.write("T", np.arange(600.0).reshape(20, 30) + t, [20, 30], [0, 0], [20, 30])
            s.write("n", np.arange(7, dtype="i4") * t, [7], [0], [7])
            s.end_step()


@case("ADIOS BP3", "bp")
def _(path):
    stream(path, "BP3")


@case("ADIOS BP4", "bp")
def _(path):
    stream(path, "BP4")


@case("ADIOS BP5", "bp")
def _(path):
    stream(path, "BP5")


# What the file's own package reads, compared with the container


def same(found, expected):
    expected = np.asarray(expected)
    if expected.dtype.names:
        for name in expected.dtype.names:
            same(found[name], expected[name])
    elif expected.dtype == object and expected.size and isinstance(expected.flat[0], h5py.Reference):
        assert [bool(name) for name in found.flat] == [bool(one) for one in expected.flat]
    elif expected.dtype == object and expected.size and isinstance(expected.flat[0], np.ndarray):
        assert [one.tolist() for one in found.flat] == [one.tolist() for one in expected.flat]
    else:
        np.testing.assert_array_equal(np.asarray(found), expected)


def same_attrs(found, expected):
    for name, value in expected.items():
        if isinstance(value, bytes):
            value = value.decode()
        if isinstance(value, np.ndarray | list | tuple):
            assert list(found[name]) == [v.decode() if isinstance(v, bytes) else v for v in value], name
        else:
            assert found[name] == value, name


def against_hdf5(c, path, lost):
    def visit(name, item):
        if isinstance(item, h5py.Group):
            same_attrs(c.groups[name].attrs, dict(item.attrs))
        elif isinstance(item, h5py.Dataset) and not any(what.startswith(f"{name} (") for what in lost):
            seen.append(name)
            v = c.variables[name]
            same(
                v[...],
                item.asstr()[()]
                if h5py.check_string_dtype(item.dtype) and item.dtype.kind == "O"
                else item[()],
            )
            assert v.shape == item.shape
            if item.dtype.kind in "biufc":
                assert v.dtype == item.dtype.newbyteorder("=")
                assert v.fill_value == item.fillvalue
            labels = [d.label or (d[0].name[1:] if len(d) else "") for d in item.dims]
            if labels and all(labels) and len(set(labels)) == len(labels):
                assert list(v.dims) == labels
            hidden = ("CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "DIMENSION_LABELS")
            same_attrs(v.attrs, {k: a for k, a in item.attrs.items() if k not in hidden})

    seen = []
    with h5py.File(path) as f:
        same_attrs(c.attrs, dict(f.attrs))
        f.visititems(visit)
    assert set(seen) == set(c.variables)


def against_netcdf(c, path, lost):
    def group(there, prefix):
        same_attrs(
            c.groups[prefix[:-1]].attrs if prefix else c.attrs,
            {k: there.getncattr(k) for k in there.ncattrs()},
        )
        for name, variable in there.variables.items():
            if any(what.startswith(f"{prefix}{name} (") for what in lost):
                continue
            seen.append(prefix + name)
            v = c.variables[prefix + name]
            same(v[...], variable[...])
            assert v.dims == (tuple(variable.dimensions) or None) or not variable.dimensions
            same_attrs(v.attrs, {k: variable.getncattr(k) for k in variable.ncattrs()})
        for name, below in there.groups.items():
            group(below, f"{prefix}{name}/")

    seen = []
    with netCDF4.Dataset(path) as f:
        f.set_auto_maskandscale(False)
        f.set_auto_chartostring(False)
        group(f, "")
    assert set(seen) == set(c.variables)


def against_zarr(c, path, lost):
    import zarr

    root = zarr.open_group(str(path), mode="r")
    same_attrs(c.attrs, {k: v for k, v in root.attrs.items() if k != "nested"})
    assert c.attrs["nested"] == root.attrs["nested"]
    for name in ("fields/T", "mask", "wave"):
        same(c[name][...], root[name][...])
    assert (c["fields/T"].dims, c["fields/T"].fill_value, dict(c["fields/T"].attrs)) == (
        ("y", "x"),
        -1,
        {"units": "K"},
    )


def against_npy(c, path, lost):
    (name,) = c.variables
    same(c[name][...], np.load(path))


def against_adios(c, path, lost):
    assert c.attrs["title"] == "a run"
    assert c.steps == [0, 1, 2]
    for t in range(3):
        same(c["T"][t], np.arange(600.0).reshape(20, 30) + t)
        same(c["n"][t], np.arange(7) * t)


AGAINST = {
    "h5": against_hdf5,
    "nc": against_netcdf,
    "zarr": against_zarr,
    "npy": against_npy,
    "bp": against_adios,
}
BACK = {"zarr": "h5", "bp": "h5"}


def there_and_back(source, suffix, lost, tmp_path):
    said = command("import", source, tmp_path / "in.dry", "--transform", "shuffle,zstd:1")
    assert sorted(said["lost"]) == sorted(lost)
    with dry.open(tmp_path / "in.dry") as c:
        AGAINST[suffix](c, source, lost)
        steps = ["--steps", "step"] if c.steps else []
    back = BACK.get(suffix, suffix)
    said = command("export", tmp_path / "in.dry", tmp_path / f"back.{back}")
    # HDF5 has no dictionaries as attributes; apart from that, exporting to the corresponding format loses nothing.
    assert all(what.startswith("attribute nested of /") for what in said["lost"])
    command("import", tmp_path / f"back.{back}", tmp_path / "again.dry", *steps)
    found = command("diff", tmp_path / "in.dry", tmp_path / "again.dry", code=1)["differences"]
    # Unnamed axes come back with names, and the array of a .npy file is named after the file.
    known = ("dims: None", "only in the", "attribute nested")
    kept = [d for d in found if not d["what"].startswith(known)]
    assert kept == []
    if suffix == "npy":
        with dry.open(tmp_path / "again.dry") as c:
            same(c[next(iter(c.variables))][...], np.load(source))
    else:
        assert not [d for d in found if d["what"].startswith("only in the")]


@pytest.mark.parametrize("name", CASES)
def test_a_typical_file_comes_through(name, tmp_path):
    make, suffix, lost = CASES[name]
    source = tmp_path / f"source.{suffix}"
    make(source)
    there_and_back(source, suffix, lost, tmp_path)


@pytest.mark.parametrize("path", REAL or [None], ids=lambda path: path.name if path else "none")
def test_a_real_file_comes_through(path, tmp_path):
    if path is None:
        pytest.skip("no real files: apt-get install ferret-datasets")
    if path.name == "etopo5.cdf" and "DRYSTONE_LONG" not in os.environ:
        pytest.skip("the same grid as etopo20.cdf with 16 times the cells: with DRYSTONE_LONG=1")
    there_and_back(path, "nc", (), tmp_path)


def test_the_list_in_the_document_is_this_one():
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", DOCUMENT.read_text(), flags=re.MULTILINE)[1:]
    listed = dict(rows)
    for name, (_, _, lost) in CASES.items():
        assert name in listed, f"docs/guide/import.md lacks the row | {name} | ... |"
        assert (listed[name] == "nothing") == (not lost), name
    assert len(CASES) + 10 >= 20
    assert any("ferret-datasets" in name for name in listed)
