"""Dimensions of netCDF files on import and export: unlimited, in groups, without cells, without variables."""

import drystone as dry
import numpy as np
import pytest
from drystone import commands

netCDF4 = pytest.importorskip("netCDF4")


def there_and_back(tmp_path):
    """Import `a.nc` and export it as `b.nc`."""
    container = str(tmp_path / "a.dry")
    assert commands.main(["import", str(tmp_path / "a.nc"), container]) == 0
    assert commands.main(["export", container, str(tmp_path / "b.nc")]) == 0


def dimensions(path):
    def below(group, name):
        yield name, {dim: (d.size, d.isunlimited()) for dim, d in group.dimensions.items()}
        for inner, found in group.groups.items():
            yield from below(found, f"{name}/{inner}")

    with netCDF4.Dataset(path) as file:
        return dict(below(file, ""))


def test_dimensions_come_back_as_they_were(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        for name, n in (("time", None), ("x", 3), ("text", 4)):
            f.createDimension(name, n)
        inner = f.createGroup("inner")
        inner.createDimension("x", 5)
        deep = inner.createGroup("deep")
        deep.createDimension("level", None)
        f.createVariable("a", "f4", ("time", "x"))[:] = np.arange(6).reshape(2, 3)
        f.createVariable("b", "f4", ("x", "time"))[:] = np.arange(6).reshape(3, 2)
        f.createVariable("c", "S1", ("x", "text"))[:] = np.full((3, 4), b"q")
        inner.createVariable("a", "i2", ("time", "x"))[:] = np.arange(10).reshape(2, 5)
        deep.createVariable("a", "i2", ("level", "x"))[:] = np.arange(20).reshape(4, 5)
        deep.createVariable("b", "i2", ("time",))[:] = [7, 8]
    there_and_back(tmp_path)
    assert dimensions(tmp_path / "b.nc") == dimensions(tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as a, netCDF4.Dataset(tmp_path / "b.nc") as b:
        for name in ("a", "b", "c", "inner/a", "inner/deep/a", "inner/deep/b"):
            assert a[name].dimensions == b[name].dimensions
            np.testing.assert_array_equal(a[name][...], b[name][...])


def test_dimensions_without_cells_keep_their_lengths(tmp_path):
    # Symptom: the extents beside a growable one without cells also became 0, and two variables of an empty dimension
    # got one each.
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        for name, n in (("none", None), ("x", 3), ("time", None)):
            f.createDimension(name, n)
        f.createVariable("a", "f4", ("x", "none"))
        f.createVariable("b", "f4", ("none", "x"))
        f.createVariable("c", "f4", ("time", "none"))
        f.createVariable("d", "f4", ("time",))[:] = [1, 2]
    there_and_back(tmp_path)
    assert dimensions(tmp_path / "b.nc") == dimensions(tmp_path / "a.nc")
    with dry.open(tmp_path / "a.dry") as c:
        assert {name: v.shape for name, v in c.variables.items()} == {
            "a": (3, 0), "b": (0, 3), "c": (2, 0), "d": (2,)
        }  # fmt: skip


def test_dimensions_of_no_variable_are_named(tmp_path, capsys):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        f.createDimension("x", 3)
        f.createDimension("nv", 2)
        f.createGroup("g").createDimension("w", 9)
        f.createVariable("a", "f4", ("x",))[:] = [1, 2, 3]
        f.createDimension("ragged", 4)
        f.createVariable("lists", f.createVLType("i4", "list_of_i4"), ("ragged",))
    there_and_back(tmp_path)
    told = capsys.readouterr().err
    assert "nv (a dimension of 2, which no variable has)" in told
    assert "g/w (a dimension of 9" in told
    assert "x (a dimension" not in told
    assert "lists" not in told
    assert "ragged (a dimension" not in told


@pytest.mark.parametrize("compressed", [False, True])
def test_cells_that_were_not_written_since_dimensions_grew_are_fill_values(tmp_path, compressed):
    # Symptom: such a file could not be imported if the variable is compressed; with two growing dimensions, or texts,
    # netCDF (4.10) returned uninitialised memory.
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        f.createDimension("y", None)
        f.createDimension("x", None)
        f.createVariable("a", "i4", ("y", "x"), zlib=compressed, fill_value=-7)[:] = np.arange(6).reshape(
            3, 2
        )
        f.createVariable("b", "f8", ("y", "x"), zlib=compressed)[:1, :4] = [[1, 2, 3, 4]]
        f.createVariable("c", str, ("y",))[:] = np.array(["one"], object)
        f.createVariable("d", str, ("y",))
        f.createVariable("e", "f4", ("x",), zlib=compressed)
    assert commands.main(["import", str(tmp_path / "a.nc"), str(tmp_path / "a.dry")]) == 0
    with dry.open(tmp_path / "a.dry") as c:
        nothing = netCDF4.default_fillvals["f8"]
        assert c["a"][...].tolist() == [[0, 1, -7, -7], [2, 3, -7, -7], [4, 5, -7, -7]]
        assert c["b"][...].tolist() == [[1, 2, 3, 4], [nothing] * 4, [nothing] * 4]
        assert c["c"][...].tolist() == ["one", "", ""]
        assert c["d"][...].tolist() == ["", "", ""]
        assert (c["e"][...] == np.float32(netCDF4.default_fillvals["f4"])).all()
        assert c["e"].shape == (4,)


def test_a_compressed_dataset_without_any_chunk_is_imported(tmp_path):
    # Symptom: MemoryError, which h5py (3.16) raises for a chunk of a dataset without chunks.
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        for n, grows in enumerate([(9, 7), (None, 7), (None, None)]):
            f.create_dataset(
                f"v{n}", (9, 7), "f4", chunks=(4, 4), maxshape=grows, compression="gzip", fillvalue=3
            )
    assert commands.main(["import", str(tmp_path / "a.h5"), str(tmp_path / "a.dry")]) == 0
    with dry.open(tmp_path / "a.dry") as c:
        for n in range(3):
            assert (c[f"v{n}"][...] == np.full((9, 7), 3)).all()


def test_growing_extents_of_hdf5_without_cells_keep_their_lengths(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", (3, 0, 11), "f4", maxshape=(None, None, None), chunks=(1, 1, 1))
    assert commands.main(["import", str(tmp_path / "a.h5"), str(tmp_path / "a.dry")]) == 0
    assert commands.main(["export", str(tmp_path / "a.dry"), str(tmp_path / "b.h5")]) == 0
    with h5py.File(tmp_path / "b.h5") as f:
        assert (f["v"].shape, f["v"].maxshape) == ((3, 0, 11), (None, None, None))
