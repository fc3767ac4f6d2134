"""Packages over HDF5, unchanged, through the connector: what one process wrote, another reads."""

import pytest
from conftest import is_stub, program

NETCDF4 = (
    """
import sys, netCDF4, numpy as np
with netCDF4.Dataset(sys.argv[1], "w") as d:
    d.createDimension("t", None); d.createDimension("x", 5)
    v = d.createVariable("u", "f4", ("t", "x"), zlib=True, fill_value=-1)
    v.units = "m s-1"
    v[0:3] = np.arange(15).reshape(3, 5)
    v[5] = 7
    g = d.createGroup("inner"); g.createDimension("n", 2)
    g.createVariable("names", str, ("n",))[:] = np.array(["one", "zwölf"], dtype=object)
    d.title = "through the connector"
""",
    """
import sys, netCDF4, numpy as np
with netCDF4.Dataset(sys.argv[1]) as d:
    v = d["u"]
    assert v.shape == (6, 5) and v.units == "m s-1" and v.dimensions == ("t", "x")
    assert np.array_equal(v[0:3].data, np.arange(15).reshape(3, 5)) and (v[5] == 7).all() and v[4].mask.all()
    assert d.dimensions["t"].isunlimited() and list(d["inner/names"][:]) == ["one", "zwölf"]
    assert d.title == "through the connector"
""",
)
H5NETCDF = (
    """
import sys, h5netcdf, numpy as np
with h5netcdf.File(sys.argv[1], "w") as f:
    f.dimensions = {"x": 4, "y": None}
    v = f.create_variable("v", ("x",), "i4", data=np.arange(4))
    v.attrs["unit"] = "K"
    w = f.create_variable("g/w", ("y", "x"), "f8")
    f.resize_dimension("y", 3)
    w[...] = 2.5
""",
    """
import sys, h5netcdf, numpy as np
with h5netcdf.File(sys.argv[1], "r") as f:
    assert np.array_equal(f["v"][...], np.arange(4)) and f["v"].attrs["unit"] == "K"
    assert f["g/w"].dimensions == ("y", "x") and f["g/w"].shape == (3, 4) and (f["g/w"][...] == 2.5).all()
""",
)
XARRAY = (
    """
import sys, xarray as xr, numpy as np
ds = xr.Dataset({"t": (("time", "x"), np.arange(12.0).reshape(3, 4), {"units": "K"})},
                coords={"time": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[ns]"), "x": [1, 2, 3, 4]})
ds.to_netcdf(sys.argv[1], engine=ENGINE)
""",
    """
import sys, xarray as xr, numpy as np
with xr.open_dataset(sys.argv[1], engine=ENGINE) as ds:
    assert np.array_equal(ds["t"].values, np.arange(12.0).reshape(3, 4)) and ds["t"].attrs["units"] == "K"
    assert ds["time"].values[2] == np.datetime64("2020-01-03") and list(ds["x"].values) == [1, 2, 3, 4]
""",
)
PYTABLES = (
    """
import sys, tables, numpy as np
class Particle(tables.IsDescription):
    name = tables.StringCol(8); mass = tables.Float64Col(); place = tables.Float32Col(shape=(3,))
with tables.open_file(sys.argv[1], "w", title="particles") as f:
    t = f.create_table("/detector", "readout", Particle, createparents=True)
    for i in range(100):
        r = t.row; r["name"] = f"p{i}"; r["mass"] = i * 0.5; r["place"] = (i, 0, 1); r.append()
    t.flush()
    f.create_array("/", "plain", np.arange(7))
    e = f.create_earray("/", "grown", tables.Int32Atom(), (0, 3)); e.append(np.ones((4, 3), "i4"))
    v = f.create_vlarray("/", "lists", tables.Int64Atom()); v.append([1, 2]); v.append([3])
    t.attrs.note = "hello"
""",
    """
import sys, tables, numpy as np
with tables.open_file(sys.argv[1]) as f:
    t = f.root.detector.readout
    assert t.nrows == 100 and t[99]["name"] == b"p99" and t.attrs.note == "hello"
    assert [r["mass"] for r in t.where("mass > 48")] == [48.5, 49.0, 49.5]
    assert np.array_equal(f.root.plain[:], np.arange(7)) and f.root.grown.shape == (4, 3)
    assert [list(x) for x in f.root.lists] == [[1, 2], [3]]
""",
)
CASES = {
    "netCDF4": ("netCDF4", *NETCDF4),
    "h5netcdf": ("h5netcdf", *H5NETCDF),
    "xarray with netCDF4": ("netCDF4", *(code.replace("ENGINE", '"netcdf4"') for code in XARRAY)),
    "xarray with h5netcdf": ("h5netcdf", *(code.replace("ENGINE", '"h5netcdf"') for code in XARRAY)),
    "PyTables": ("tables", *PYTABLES),
}


@pytest.mark.parametrize("case", CASES)
def test_a_package_reads_what_it_wrote(connector_environment, native_environment, tmp_path, case):
    """In another process; the same programs pass on native HDF5."""
    package, write, read = CASES[case]
    pytest.importorskip(package)
    path = tmp_path / "file.nc"
    for environment in (native_environment, connector_environment):
        program(environment, write, path)
        program(environment, read, path)
    assert is_stub(path)


def test_a_process_may_have_several_hdf5_libraries(connector_environment, tmp_path):
    """h5py, netCDF4 and PyTables bring one each; all write through the connector, and read what another wrote."""
    for package in ("netCDF4", "tables"):
        pytest.importorskip(package)
    code = """
import sys, h5py, netCDF4, tables, numpy as np
folder = sys.argv[1]
with h5py.File(folder + "/a.h5", "w") as f: f["x"] = np.arange(5)
with netCDF4.Dataset(folder + "/b.nc", "w") as d:
    d.createDimension("x", 5); d.createVariable("x", "i8", ("x",))[:] = np.arange(5)
with tables.open_file(folder + "/c.h5", "w") as f: f.create_array("/", "x", np.arange(5))
for name in ("a.h5", "b.nc", "c.h5"):
    with h5py.File(f"{folder}/{name}") as f: assert list(f["x"][...]) == [0, 1, 2, 3, 4], name
    with tables.open_file(f"{folder}/{name}") as f: assert list(f.root.x[:]) == [0, 1, 2, 3, 4], name
with netCDF4.Dataset(folder + "/b.nc") as d: assert list(d["x"][:]) == [0, 1, 2, 3, 4]
versions = {h5py.version.hdf5_version, netCDF4.__hdf5libversion__, tables.hdf5_version}
assert len(versions) > 1, versions
"""
    program(connector_environment, code, tmp_path)
    assert all(is_stub(tmp_path / name) for name in ("a.h5", "b.nc", "c.h5"))
