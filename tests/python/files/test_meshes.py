"""Data for visualization programs: meshes, times, boxes; as XDMF beside HDF5, to VTK, and to ParaView."""

import os
import shutil
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from drystone.meshes import mesh_named, meshes, positions, times
from drystone.paraview import plugin_path
from drystone.paraview.reading import Reading

NZ, NY, NX = 4, 6, 9
STEPS = (0, 1, 3)


def field(step):
    z, y, x = np.meshgrid(np.arange(NZ), np.arange(NY), np.arange(NX), indexing="ij")
    return (1000 * step + 100 * z + 10 * y + x).astype("f4")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with descending latitudes and uneven depths; step 2 is missing, and for `q` also step 3."""
    path = tmp_path_factory.mktemp("meshes") / "run.dry"
    with dry.create(path) as c:
        dims = ("depth", "lat", "lon")
        c.create_variable(
            "T",
            "f4",
            (NZ, NY, NX),
            dims,
            steps=True,
            attrs={"_step_dim": "time", "_FillValue": np.float32(111)},
        )
        c.create_variable("q", "f8", (NZ, NY, NX), dims, steps=True)
        c.create_variable("mask", "i2", (NZ, NY, NX), dims)[...] = field(0).astype("i2")
        c.create_variable("depth", "f8", (NZ,), ("depth",))[...] = [0, 5, 20, 100]
        c.create_variable("lat", "f8", (NY,), ("lat",))[...] = np.linspace(50, -50, NY)
        c.create_variable("lon", "f8", (NX,), ("lon",))[...] = np.linspace(0, 80, NX)
        c.create_variable("time", "f8", (4,), ("time",))[...] = [0.0, 0.5, 1.0, 1.5]
        c.create_variable("plane", "f4", (7, 5), ("i", "j"), steps=True)
        c.create_variable("wind", [("u", "f4"), ("v", "f8", (3,)), ("name", "S3")], (7, 5), ("i", "j"))
        c.create_variable("wave", "c8", (7, 5), ("i", "j"))[...] = 1 + 2j
        c.create_variable("names", str, (3,))
        c.create_variable("deep", "f4", (2, 2, 2, 2))
        c.create_variable("each", "f4", local=True)
        record = np.zeros((7, 5), c["wind"].dtype)
        record["u"] = np.arange(35).reshape(7, 5)
        record["v"] = np.arange(105).reshape(7, 5, 3)
        c["wind"][...] = record
        with c.writer() as w:
            for step in STEPS:
                with w.step(step):
                    w.put("T", field(step))
                    w.put("plane", np.full((7, 5), step, "f4"))
                    if step < 3:
                        w.put("q", field(step) / 3.0)
        c.commit()
    return path


def test_variables_with_the_same_axes_are_one_mesh(run):
    with dry.open(run) as c:
        found, left_out = meshes(c)
        assert [mesh.name for mesh in found] == [
            "depth, lat, lon: 4 x 6 x 9",
            "dim_1, dim_2, dim_3: 2 x 2 x 2",
            "i, j: 7 x 5",
        ]
        (deep,) = found.pop(1).fields
        assert (deep.name, deep.outer) == ("deep", (("dim_0", 2),))
        assert [one.name for one in found[0].fields] == ["T", "mask", "q"]
        assert [(one.name, one.components) for one in found[1].fields] == [
            ("plane", 1),
            ("wave", 2),
            ("wind.u", 1),
            ("wind.v", 3),
        ]
        assert found[0].spacing() is None
        assert found[1].spacing() == [(0.0, 1.0), (0.0, 1.0)]
        assert times(c, found[0].fields) == ([0, 1, 3], [0.0, 0.5, 1.5])
        assert times(c, found[1].fields) == ([0, 1, 3], [0.0, 1.0, 3.0])
        reasons = dict(one.rstrip(")").split(" (", 1) for one in left_out)
        assert reasons["names"] == "it holds no numbers"
        assert reasons["each"] == "a local variable has no one array"
        assert reasons["lat"] == "it is a coordinate"
        with pytest.raises(
            dry.InvalidArgumentError, match="there is no mesh 'x'; there are: depth, lat, lon"
        ):
            mesh_named(found, "x")


def test_boxes_are_read_in_the_order_of_vtk(run):
    reading = Reading(run)
    assert reading.extent == (0, NX - 1, 0, NY - 1, 0, NZ - 1)
    T = next(one for one in reading.mesh.fields if one.name == "T")
    expected = field(3)[:, ::-1]  # latitudes ascend
    expected[expected == 111] = np.nan
    np.testing.assert_array_equal(reading.read(T, 3, reading.extent), expected.ravel())
    box = (2, 6, 1, 4, 1, 2)
    np.testing.assert_array_equal(reading.read(T, 3, box), expected[1:3, 1:5, 2:7].ravel())
    assert np.isnan(reading.read(T, 0, reading.extent)).sum() == 1  # the missing value
    np.testing.assert_array_equal(reading.along(1), np.linspace(-50, 50, NY))
    q = next(one for one in reading.mesh.fields if one.name == "q")
    assert np.isnan(reading.read(q, 3, box)).all()
    assert [reading.step_at(time) for time in (None, -1, 0.5, 0.7, 1.5, 9)] == [0, 0, 1, 1, 3, 3]
    with pytest.raises(dry.InvalidArgumentError, match="outside"):
        reading.read(T, 0, (0, NX, 0, 0, 0, 0))
    reading.close()
    coarse = Reading(run / "drystone.json", every=2)
    assert coarse.extent == (0, 4, 0, 2, 0, 1)
    np.testing.assert_array_equal(coarse.read(T, 1, coarse.extent), field(1)[::2, ::2][:, ::-1, ::2].ravel())
    np.testing.assert_array_equal(coarse.along(1), np.linspace(50, -50, NY)[::2][::-1])
    coarse.close()
    plane = Reading(run, "i, j: 7 x 5")
    by_name = {one.name: one for one in plane.mesh.fields}
    np.testing.assert_array_equal(
        plane.read(by_name["wind.v"], None, plane.extent), np.arange(105).reshape(35, 3)
    )
    assert plane.read(by_name["wave"], 1, plane.extent).tolist() == [[1.0, 2.0]] * 35
    plane.close()
    for wrong in ({"every": 0}, {"max_error": -1.0}, {"mesh": "none"}):
        with pytest.raises(dry.InvalidArgumentError):
            Reading(run, **wrong)
    with pytest.raises(dry.NotFoundError):
        Reading("")


@pytest.fixture(scope="module")
def gas(tmp_path_factory):
    """Particles that move, one without a position in step 1; and concentrations of five species on a grid."""
    path = tmp_path_factory.mktemp("gas") / "gas.dry"
    rng = np.random.default_rng(3)
    where = rng.normal(size=(2, 100, 3))
    where[1, 7, 2] = np.nan
    species = rng.random((5, NZ, NY, NX)).astype("f4")
    with dry.create(path) as c:
        for n, letter in enumerate("xyz"):
            c.create_variable(f"gas/{letter}", "f8", (100,), ("particle",), steps=True)[0] = where[0, :, n]
            c[f"gas/{letter}"][1] = where[1, :, n]
        c.create_variable("gas/id", "i8", (100,), ("particle",))[...] = np.arange(100)
        c.create_variable("stars", [("pos", "f4", (3,)), ("mass", "f8")], (10,), ("star",))
        c.create_variable("share", "f4", species.shape, ("species", "z", "y", "x"))[...] = species
        c.create_variable("T", "f4", (NZ, NY, NX), ("z", "y", "x"))[...] = field(0)
        record = np.zeros(10, c["stars"].dtype)
        record["pos"] = rng.random((10, 3))
        c["stars"][...] = record
        c.commit()
    return path, where, species, record


def test_particles_lie_where_their_positions_are(gas):
    path, where, _, record = gas
    reading = Reading(path, "particle: 100")
    assert [one.name for one in reading.points] == ["gas/x", "gas/y", "gas/z"]
    ids = [one for one in reading.mesh.fields if one.name == "gas/id"]
    found, (numbers,) = reading.read_particles(ids, 0, reading.particles(0, 1))
    np.testing.assert_array_equal(found, where[0])
    np.testing.assert_array_equal(numbers, np.arange(100))
    # A particle without a position is left out, with its values. Together the pieces are all particles, each once.
    parts = [reading.read_particles(ids, 1, reading.particles(piece, 3)) for piece in range(3)]
    assert [len(found) for found, _ in parts] == [32, 33, 34]
    np.testing.assert_array_equal(np.concatenate([found for found, _ in parts]), np.delete(where[1], 7, 0))
    np.testing.assert_array_equal(np.concatenate([one for _, (one,) in parts]), np.delete(np.arange(100), 7))
    reading.close()
    thinned = Reading(path, "particle: 100", every=7)
    pieces = [thinned.read_particles([], 0, thinned.particles(piece, 4))[0] for piece in range(4)]
    np.testing.assert_array_equal(np.concatenate(pieces), where[0, ::7])
    thinned.close()
    stars = Reading(path, "star: 10")
    assert [one.name for one in stars.points] == ["stars.pos"]
    np.testing.assert_array_equal(
        stars.read_particles([], None, slice(0, 10, 1))[0], record["pos"].astype("f8")
    )
    stars.close()
    flat = Reading(path, "particle: 100", points="gas/y, gas/id")
    found, _ = flat.read_particles([], 0, flat.particles(0, 1))
    np.testing.assert_array_equal(found, np.stack([where[0, :, 1], np.arange(100), np.zeros(100)], axis=1))
    flat.close()
    assert Reading(path, "particle: 100", points="none").points is None
    for wrong, why in (
        ("gas/u", "it has no gas/u"),
        ("gas/x", "have 1"),
        ("gas/x,gas/y,gas/z,gas/id", "have 4"),
    ):
        with pytest.raises(dry.InvalidArgumentError, match=why):
            Reading(path, "particle: 100", points=wrong)
    with pytest.raises(dry.InvalidArgumentError, match="several axes"):
        Reading(path, points="T")


def test_axes_in_front_of_the_last_three_are_chosen_cells(gas):
    path, _, species, _ = gas
    with dry.open(path) as c:
        found, _ = meshes(c)
        assert found[0].name == "z, y, x: 4 x 6 x 9"
        assert [(one.name, one.outer) for one in found[0].fields] == [("T", ()), ("share", (("species", 5),))]
        assert positions(found[0]) is None
    for at, cell in ((None, 0), ("species=3", 3), (" species = 4 ,", 4)):
        reading = Reading(path, at=at)
        by_name = {one.name: one for one in reading.mesh.fields}
        np.testing.assert_array_equal(
            reading.read(by_name["share"], None, reading.extent), species[cell].ravel()
        )
        np.testing.assert_array_equal(reading.read(by_name["T"], None, reading.extent), field(0).ravel())
        reading.close()
    for wrong, why in (
        ("level=1", "not an outer axis"),
        ("species=5", "0 to 4"),
        ("species", "names no cell"),
    ):
        with pytest.raises(dry.InvalidArgumentError, match=why):
            Reading(path, at=wrong)


def test_a_lower_precision_reads_fewer_bytes_and_keeps_its_bound(tmp_path):
    values = np.random.default_rng(7).normal(300, 5, (64, 64, 64))
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("T", "f8", values.shape, transform="aplod")[...] = values
    taken = {}
    for error in (0.0, 0.5):
        reading = Reading(tmp_path / "c.dry", max_error=error)
        before = reading.container.metrics()["read_bytes"]
        found = reading.read(reading.mesh.fields[0], None, reading.extent)
        taken[error] = reading.container.metrics()["read_bytes"] - before
        assert np.abs(found.reshape(values.shape) - values).max() <= error
        reading.close()
    assert taken[0.5] < 0.5 * taken[0.0]


def selected(item, folder):
    """The content of a DataItem, by the rules of XDMF and with h5py only."""
    import h5py

    dims = tuple(map(int, item.get("Dimensions").split()))
    if item.get("ItemType") == "HyperSlab":
        rows, source = item.findall("DataItem")
        begin, stride, count = np.array(rows.text.split(), int).reshape(3, -1)
        box = tuple(slice(b, b + n * s, s) for b, s, n in zip(begin, stride, count, strict=True))
        return selected(source, folder)[box].reshape(dims)
    if item.get("Format") == "XML":
        return np.array(item.text.split(), "f8").reshape(dims)
    name, place = item.text.split(":")
    with h5py.File(folder / name) as file:
        found = file[place][...]
    assert found.shape == dims or found.size == np.prod(dims)
    kinds = {"Float": "f", "Int": "i", "UInt": "u"}
    assert found.dtype == np.dtype(f"{kinds[item.get('NumberType')]}{item.get('Precision')}")
    return found.reshape(dims)


def test_xdmf_names_every_value_of_every_step(run, tmp_path):
    with pytest.warns(dry.DrystoneWarning) as told:
        done = dry.export(run, tmp_path / "run.xdmf")
    assert done.format == "xdmf"
    assert {path.name for path in tmp_path.iterdir()} == {"run.xdmf", "run.h5"}
    said = " ".join(str(one.message) for one in told)
    for lost in ("wave in the XDMF", "wind in the XDMF: members of records", "deep in the XDMF"):
        assert lost in said
    root = ET.parse(tmp_path / "run.xdmf").getroot()
    cubes, planes = root.find("Domain").findall("Grid")
    assert cubes.get("CollectionType") == "Temporal"
    grids = cubes.findall("Grid")
    assert [float(grid.find("Time").get("Value")) for grid in grids] == [0.0, 0.5, 1.5]
    for step, grid in zip(STEPS, grids, strict=True):
        assert grid.find("Topology").get("TopologyType") == "3DRectMesh"
        assert grid.find("Topology").get("Dimensions") == "4 6 9"
        x, y, z = (selected(item, tmp_path) for item in grid.find("Geometry"))
        np.testing.assert_array_equal(x, np.linspace(0, 80, NX))
        np.testing.assert_array_equal(y, np.linspace(50, -50, NY))
        np.testing.assert_array_equal(z, [0, 5, 20, 100])
        found = {
            one.get("Name"): selected(one.find("DataItem"), tmp_path) for one in grid.findall("Attribute")
        }
        assert set(found) == {"T", "mask", "q"} - ({"q"} if step == 3 else set())
        np.testing.assert_array_equal(found["T"], field(step))
        np.testing.assert_array_equal(found["mask"], field(0).astype("i2"))
    plane = planes.findall("Grid")[-1]
    origin, distance = (selected(item, tmp_path) for item in plane.find("Geometry"))
    assert (origin.tolist(), distance.tolist()) == ([0, 0, 0], [1, 1, 1])
    assert plane.find("Topology").get("Dimensions") == "1 7 5"
    (attribute,) = plane.findall("Attribute")
    np.testing.assert_array_equal(selected(attribute.find("DataItem"), tmp_path), np.full((1, 7, 5), 3))


def test_members_that_are_named_are_arrays_of_xdmf(run, tmp_path):
    dry.export(run, tmp_path / "w.xmf", ["wind.v", "wind.u"], compression=1, chunks=(7, 5))
    grid = ET.parse(tmp_path / "w.xmf").getroot().find("Domain/Grid")
    found = {one.get("Name"): one for one in grid.findall("Attribute")}
    assert found["wind.v"].get("AttributeType") == "Vector"
    np.testing.assert_array_equal(
        selected(found["wind.v"].find("DataItem"), tmp_path), np.arange(105).reshape(1, 7, 5, 3)
    )
    np.testing.assert_array_equal(
        selected(found["wind.u"].find("DataItem"), tmp_path), np.arange(35).reshape(1, 7, 5)
    )


def test_no_file_is_replaced_without_overwrite(run, tmp_path):
    (tmp_path / "t.h5").write_text("mine")
    with pytest.raises(dry.ConflictError, match=r"t\.h5 is there already"):
        dry.export(run, tmp_path / "t.xdmf", ["T"])
    assert (tmp_path / "t.h5").read_text() == "mine"
    assert not (tmp_path / "t.xdmf").exists()
    dry.export(run, tmp_path / "t.xdmf", ["T"], overwrite=True)
    assert ET.parse(tmp_path / "t.xdmf").getroot().find("Domain/Grid") is not None
    with pytest.raises(dry.InvalidArgumentError, match=r"select is for"):
        dry.export(run, tmp_path / "u.xdmf", ["T"], select="[0]")


VTK = f"{sys.executable} has no VTK (pip install vtk): only its reader is left out"


def test_the_reader_of_vtk_gives_times_pieces_and_precision(run):
    pytest.importorskip("vtkmodules.util.vtkAlgorithm", reason=VTK)
    from drystone.paraview.algorithm import ContainerReader
    from vtkmodules.util.numpy_support import vtk_to_numpy

    reader = ContainerReader()
    reader.SetFileName(str(run))
    reader.UpdateInformation()
    assert reader.GetTimes() == [0.0, 0.5, 1.5]
    assert reader.UpdateTimeStep(1.5)
    grid = reader.GetOutputDataObject(0)
    assert grid.IsA("vtkRectilinearGrid")
    assert grid.GetDimensions() == (NX, NY, NZ)
    np.testing.assert_array_equal(vtk_to_numpy(grid.GetZCoordinates()), [0, 5, 20, 100])
    values = vtk_to_numpy(grid.GetPointData().GetArray("T"))
    expected = np.where(field(3) == 111, np.nan, field(3))[:, ::-1].ravel()
    np.testing.assert_array_equal(values, expected)
    # Pieces: together they are the whole, and each has only its own extent.
    cells, seen = 0, []
    for piece in range(3):
        reader.UpdateTimeStep(0.0, piece, 3, 0)
        part = reader.GetOutputDataObject(0)
        x0, x1, y0, y1, z0, z1 = part.GetExtent()
        box = np.where(field(0) == 111, np.nan, field(0))[:, ::-1][z0 : z1 + 1, y0 : y1 + 1, x0 : x1 + 1]
        np.testing.assert_array_equal(vtk_to_numpy(part.GetPointData().GetArray("T")), box.ravel())
        cells += part.GetNumberOfCells()
        seen.append(part.GetExtent())
    assert cells == (NX - 1) * (NY - 1) * (NZ - 1)
    assert len(set(seen)) == 3
    reader.GetArrays().DisableArray("q")
    reader.SetEvery(2)
    reader.UpdateTimeStep(0.5)
    coarse = reader.GetOutputDataObject(0)
    assert coarse.GetDimensions() == (5, 3, 2)
    assert coarse.GetPointData().GetArray("q") is None
    reader.SetMesh("i, j: 7 x 5")
    reader.SetEvery(1)
    reader.UpdateTimeStep(3.0)
    image = reader.GetOutputDataObject(0)
    assert image.IsA("vtkImageData")
    assert image.GetDimensions() == (5, 7, 1)
    assert image.GetPointData().GetArray("wind.v").GetNumberOfComponents() == 3


def test_an_error_of_the_reader_is_a_line_of_vtk(tmp_path):
    pytest.importorskip("vtkmodules.util.vtkAlgorithm", reason=VTK)
    from drystone.paraview.algorithm import ContainerReader
    from vtkmodules.vtkCommonCore import vtkOutputWindow, vtkStringOutputWindow

    before = vtkOutputWindow.GetInstance()
    window = vtkStringOutputWindow()
    vtkOutputWindow.SetInstance(window)
    try:
        reader = ContainerReader()
        reader.SetFileName(str(tmp_path / "none.dry"))
        reader.Update()
        assert "drystone: " in window.GetOutput()
        assert "none.dry" in window.GetOutput()
        assert "Traceback" not in window.GetOutput()
    finally:
        vtkOutputWindow.SetInstance(before)


def pvbatch():
    return os.environ.get("DRYSTONE_PVBATCH") or shutil.which("pvbatch")


@pytest.mark.slow
@pytest.mark.skipif(
    pvbatch() is None,
    reason="no ParaView: apt-get install python3-paraview, or name pvbatch in DRYSTONE_PVBATCH",
)
def test_paraview_loads_the_plugin_and_reads_steps_meshes_particles_and_xdmf(run, gas, tmp_path):
    dry.export(run, tmp_path / "run.xdmf", ["T", "mask"])
    script = tmp_path / "look.py"
    script.write_text(
        textwrap.dedent(f"""
        import inspect

        # ParaView 5.11 asks for what Python 3.11 no longer has, whichever plug-in in Python is loaded.
        inspect.getargspec = getattr(inspect, "getargspec", inspect.getfullargspec)
        from paraview.simple import *
        from vtkmodules.util.numpy_support import vtk_to_numpy

        LoadPlugin({plugin_path()!r}, remote=False, ns=globals())
        run = DrystoneReader(FileName={str(run / "drystone.json")!r})
        run.UpdatePipeline(1.5)
        print("times", list(run.TimestepValues))
        print("arrays", sorted(run.PointData.keys()))

        def shown(source):
            return source.GetClientSideObject().GetOutputDataObject(0)

        grid = shown(run)
        print("kind", grid.GetClassName(), grid.GetDimensions())
        print("sum", float(vtk_to_numpy(grid.GetPointData().GetArray("mask")).sum()))
        run.Variables = ["T"]
        run.Everynthpoint = 2
        run.UpdatePipeline(0.5)
        print("coarse", shown(run).GetDimensions(), sorted(run.PointData.keys()))
        run.Everynthpoint = 1
        run.Mesh = "i, j: 7 x 5"
        run.UpdatePipeline(3.0)
        print("plane", shown(run).GetClassName())
        gas = DrystoneReader(FileName={str(gas[0])!r}, Mesh="particle: 100")
        gas.UpdatePipeline(1.0)
        points = shown(gas)
        print("particles", points.GetClassName(), points.GetNumberOfPoints(), points.GetNumberOfVerts())
        print("ids", int(vtk_to_numpy(points.GetPointData().GetArray("gas/id")).sum()))
        print("lies", vtk_to_numpy(points.GetPoints().GetData())[3].tolist())
        species = DrystoneReader(FileName={str(gas[0])!r}, Furtheraxes="species=3")
        species.UpdatePipeline()
        print("share", float(vtk_to_numpy(shown(species).GetPointData().GetArray("share")).max()))
        other = XDMFReader(FileNames=[{str(tmp_path / "run.xdmf")!r}])
        other.UpdatePipeline(1.5)
        print("xdmf", list(other.TimestepValues))
        found = shown(other)
        print("xdmf", found.GetDimensions(), float(vtk_to_numpy(found.GetPointData().GetArray("T")).sum()))
        """)
    )
    done = subprocess.run(
        [pvbatch(), str(script)],
        capture_output=True,
        text=True,
        timeout=170,
        env=paraviews_environment(),
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    for line in (
        "times [0.0, 0.5, 1.5]",
        "arrays ['T', 'mask', 'q']",
        "kind vtkRectilinearGrid (9, 6, 4)",
        f"sum {field(0).sum()}",
        "coarse (5, 3, 2) ['T']",
        "plane vtkImageData",
        "particles vtkPolyData 99 99",
        f"ids {4950 - 7}",
        f"lies {gas[1][1, 3].tolist()}",
        f"share {float(gas[2][3].max())}",
        "xdmf [0.0, 0.5, 1.5]",
        f"xdmf (9, 6, 4) {field(3).sum()}",
    ):
        assert line in said, said


def paraviews_environment():
    """Make ParaView's Python find the package and NumPy of this one."""
    numpy_folder = Path(np.__file__).parents[1]
    package = Path(dry.__file__).parents[1]
    return {**os.environ, "PYTHONPATH": f"{package}:{numpy_folder}", "QT_QPA_PLATFORM": "offscreen"}
