"""HDF5 and netCDF files are imported without HDF5 where possible.

Our codecs decode the chunks, and contiguous rows are read directly. The values are those that HDF5 itself reads."""

import drystone as dry
import numpy as np
import pytest
from drystone import commands
from drystone.interchange import formats
from drystone.interchange.formats import chunks, hdf5, netcdf, npy

h5py = pytest.importorskip("h5py")
SHAPE, CHUNKS = (13, 21, 34), (4, 8, 16)


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    monkeypatch.setattr("drystone.interchange.formats.SMALL", -1)


def values(dtype):
    return (np.arange(np.prod(SHAPE)).reshape(SHAPE) % 251).astype(dtype)


@pytest.mark.parametrize("dtype", ["f8", ">f4", "i2", "u1", "c16"])
@pytest.mark.parametrize("how", [{"compression": "gzip"}, {"compression": "gzip", "shuffle": True}])
def test_values_are_those_that_hdf5_reads(tmp_path, dtype, how):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("a", data=values(dtype), chunks=CHUNKS, **how)
    with h5py.File(tmp_path / "a.h5") as f, chunks.pool() as threads:
        read = chunks.reader(f["a"], threads, chunks.Buffers())
        assert read is not None
        for box in [tuple(slice(0, n) for n in SHAPE), (slice(3, 9), slice(8, 9), slice(15, 33))]:
            found = read(box)
            assert found.dtype == formats.native(np.dtype(dtype))
            np.testing.assert_array_equal(found, f["a"][box])


def test_chunks_that_are_not_there_or_not_filtered_are_left_to_hdf5(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        a = f.create_dataset("a", SHAPE, "f8", chunks=CHUNKS, compression="gzip", shuffle=True, fillvalue=7)
        a[:4, :8, :16] = 1
        a.id.write_direct_chunk((4, 0, 0), np.full(CHUNKS, 2.0).tobytes(), filter_mask=3)
        expected = a[...]
    assert set(np.unique(expected)) == {1, 2, 7}
    with hdf5.opened(tmp_path / "a.h5") as contents:
        np.testing.assert_array_equal(contents.arrays[0].read(tuple(slice(0, n) for n in SHAPE)), expected)


@pytest.mark.parametrize("dtype", ["f8", ">f4", "i2", "u1", "c16"])
def test_chunks_without_filters_are_read_where_they_lie(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(chunks, "_SMALLEST", 0)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        a = f.create_dataset(
            "a",
            SHAPE,
            dtype,
            chunks=CHUNKS,
            maxshape=(None, None, 40),
            fillvalue=None if dtype == "c16" else 7,
        )
        a[:9, :, 3:] = values(dtype)[:9, :, 3:]
        a.resize((16, 21, 34))
    with h5py.File(tmp_path / "a.h5") as f, chunks.pool() as threads:
        read = chunks.reader(f["a"], threads, chunks.Buffers())
        assert read is not None
        for box in [tuple(slice(0, n) for n in (16, 21, 34)), (slice(3, 9), slice(8, 9), slice(15, 33))]:
            found = read(box)
            assert found.dtype == formats.native(np.dtype(dtype))
            np.testing.assert_array_equal(found, f["a"][box])
    assert commands.main(["import", str(tmp_path / "a.h5"), str(tmp_path / "a.dry")]) == 0
    with dry.open(tmp_path / "a.dry") as c, h5py.File(tmp_path / "a.h5") as f:
        np.testing.assert_array_equal(c["a"].read(), f["a"][...])


def test_chunks_that_lie_elsewhere_than_hdf5_may_say_are_left_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "_SMALLEST", 0)
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=1024) as f:
        f.create_dataset("a", data=values("f8"), chunks=CHUNKS)
    with h5py.File(tmp_path / "a.h5") as f, chunks.pool() as threads:
        assert chunks.reader(f["a"], threads, chunks.Buffers()) is None


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_numbers_with_bits_to_spare_are_left_to_hdf5(tmp_path, monkeypatch, compression):
    """Symptom: what NumPy calls int16 may be 12 bits from the third bit on; decoded directly, they were wrong."""
    monkeypatch.setattr(chunks, "_SMALLEST", 0)
    kind = h5py.h5t.STD_I16LE.copy()
    kind.set_precision(12)
    kind.set_offset(2)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        how.set_chunk((400,))
        if compression:
            how.set_deflate(1)
        space = h5py.h5s.create_simple((1000,))
        numbers = (np.arange(1000) % 9 - 4).astype("i2")
        h5py.h5d.create(f.id, b"a", kind, space, how).write(space, space, numbers)
    with h5py.File(tmp_path / "a.h5") as f, chunks.pool() as threads:
        assert chunks.reader(f["a"], threads, chunks.Buffers()) is None
    with hdf5.opened(tmp_path / "a.h5") as contents:
        np.testing.assert_array_equal(contents.arrays[0].read((slice(0, 1000),)), numbers)


def test_a_damaged_chunk_is_an_error(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        a = f.create_dataset("a", data=values("f8"), chunks=CHUNKS, compression="gzip")
        a.id.write_direct_chunk((0, 0, 0), b"no zlib stream")
    with hdf5.opened(tmp_path / "a.h5") as contents, pytest.raises(OSError, match="filter"):
        contents.arrays[0].read((slice(0, 4),) * 3)


def test_other_filters_texts_and_records_are_left_to_hdf5(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("sum", data=values("f8"), chunks=CHUNKS, compression="gzip", fletcher32=True)
        f.create_dataset("shuffled", data=values("f8"), chunks=CHUNKS, shuffle=True)
        f.create_dataset("plain", data=values("f8"), chunks=CHUNKS)
        f.create_dataset("record", data=np.zeros(9, [("x", "f4")]), chunks=(4,), compression="gzip")
        f.create_dataset("text", data=np.array([b"ab"] * 9), chunks=(4,), compression="gzip")
        f.create_dataset("cell", data=1.0)
    with h5py.File(tmp_path / "a.h5") as f, chunks.pool() as threads:
        assert [name for name in f if chunks.reader(f[name], threads, chunks.Buffers()) is not None] == []


def test_netcdf_is_decoded_the_same_way(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        for name, n in zip("zyx", SHAPE, strict=True):
            f.createDimension(name, n)
        group = f.createGroup("g")
        a = group.createVariable(
            "a", "i2", tuple("zyx"), zlib=True, shuffle=True, chunksizes=CHUNKS, fill_value=-1
        )
        a[:9] = values("i2")[:9]
    with netcdf.opened(tmp_path / "a.nc") as contents:
        (array,) = contents.arrays
        assert array.read.__module__ == chunks.__name__
        found = array.read(tuple(slice(0, n) for n in SHAPE))
    np.testing.assert_array_equal(found[:9], values("i2")[:9])
    assert (found[9:] == -1).all()


@pytest.mark.parametrize(
    ("dtype", "shape", "cut"),
    [("f8", (7, 33, 65), (3, 5, 16)), ("c16", (300,), (7,)), ("?", (), None), ("S3", (5, 4), (2, 2)),
     ([("x", "f4"), ("y", "i8")], (40, 3), (8, 3))],
)  # fmt: skip
def test_npy_is_written_in_place_whatever_the_pieces(tmp_path, monkeypatch, dtype, shape, cut):
    monkeypatch.setattr("drystone.interchange.exports.cells.MOST", 1000)
    array = np.random.default_rng(5).integers(0, 256, (*shape, np.dtype(dtype).itemsize), "u1")
    array = np.array(True) if dtype == "?" else array.view(dtype).reshape(shape)
    if np.dtype(dtype).kind in "fc":
        array = np.nan_to_num(array)
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("a", array.dtype, array.shape, chunks=cut)
        with c.writer() as w:
            w.put("a", array)
    assert commands.main(["export", str(tmp_path / "a.dry"), str(tmp_path / "a.npy")]) == 0
    found = np.load(tmp_path / "a.npy")
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


def flat_file(path):
    """Datasets with contiguous numbers, after a user block, and others."""
    with h5py.File(path, "w", userblock_size=1024) as f:
        f["little"], f["big"], f["unsigned"] = values("f8"), values(">i4"), values("u2")
        f["flags"], f["complex"] = values("i2") > 100, values("c8")
        f["enum"] = np.zeros(5, h5py.enum_dtype({"a": 0, "b": 1}, "i1"))
        f.create_dataset("never", SHAPE, "f8", fillvalue=3)
        f.create_dataset("none", (0, 4), "f8")
        f.create_dataset("outside", SHAPE, "f4", external=[(path.with_suffix(".raw"), 0, h5py.h5f.UNLIMITED)])
        f["outside"][...] = values("f4")
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((5,))
        h5py.h5d.create(f.id, b"compact", h5py.h5t.NATIVE_DOUBLE, space, compact).write(
            space, space, np.ones(5)
        )


def test_numbers_that_lie_row_by_row_are_read_where_they_are(tmp_path):
    flat_file(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as f, chunks.pool() as threads:
        ways = hdf5.Ways(tmp_path / "a.h5", threads)
        assert {name for name in f if ways.of(f[name])} == {"little", "big", "unsigned"}
        assert {name: ways.of(f[name]).lies for name in ("little", "big")} == {"little": True, "big": False}
        for name in ("little", "big", "unsigned"):
            for box in [tuple(slice(0, n) for n in SHAPE), (slice(3, 9), slice(8, 9), slice(15, 33))]:
                found = ways.of(f[name]).read(box)
                assert found.dtype == formats.native(f[name].dtype)
                np.testing.assert_array_equal(found, f[name][box])


def test_a_flat_file_is_imported_whole(tmp_path):
    flat_file(tmp_path / "a.h5")
    assert commands.main(["import", str(tmp_path / "a.h5"), str(tmp_path / "a.dry")]) == 0
    with dry.open(tmp_path / "a.dry") as c, h5py.File(tmp_path / "a.h5") as f:
        assert set(c.variables) == set(f)
        for name in f:
            np.testing.assert_array_equal(c[name].read(), f[name][...])


def test_cells_of_a_dataset_without_chunks_are_written_once(tmp_path):
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("flat", "f8", SHAPE, fill_value=7)
        c.create_variable("cut", "f8", SHAPE, fill_value=7, chunks=CHUNKS)
        with c.writer() as w:
            for name in ("flat", "cut"):
                w.put(name, values("f8")[3:], offset=(3, 0, 0))
    for suffix in ("h5", "nc"):
        assert commands.main(["export", str(tmp_path / "a.dry"), str(tmp_path / f"a.{suffix}")]) == 0
        with h5py.File(tmp_path / f"a.{suffix}") as f:
            for name in ("flat", "cut"):
                assert (f[name].attrs["_FillValue"] if suffix == "nc" else f[name].fillvalue) == 7
                np.testing.assert_array_equal(f[name][3:], values("f8")[3:])
                assert (f[name][:3] == 7).all()
            assert f["flat"].id.get_create_plist().get_fill_time() == h5py.h5d.FILL_TIME_NEVER
        if suffix == "h5":
            with h5py.File(tmp_path / "a.h5") as f:
                assert f["cut"].id.get_create_plist().get_fill_time() != h5py.h5d.FILL_TIME_NEVER


def test_variables_named_like_other_dimensions_are_not_taken_for_these(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as f:
        for name, n in (("y", 4), ("x", 5), ("t", None)):
            f.createDimension(name, n)
        for name, dims in (("x", ("y", "x")), ("y", ("x", "y")), ("t", ("y", "t")), ("u", ("y",))):
            shape = tuple(3 if d == "t" else len(f.dimensions[d]) for d in dims)
            f.createVariable(name, "f4", dims, zlib=name == "t")[:] = np.arange(np.prod(shape)).reshape(shape)
    with h5py.File(tmp_path / "a.nc", "r+") as f:
        f["x"][...] = f["y"][...] = 9  # the dataset of a dimension has cells, too
    with netcdf.opened(tmp_path / "a.nc") as contents, netCDF4.Dataset(tmp_path / "a.nc") as f:
        assert {a.path: a.read.__module__ for a in contents.arrays} == {
            **dict.fromkeys("xyt", netcdf.__name__), "u": hdf5.__name__
        }  # fmt: skip
        for array in contents.arrays:
            found = array.read(tuple(slice(0, n) for n in array.shape))
            np.testing.assert_array_equal(found, f[array.path][...])


@pytest.mark.parametrize(
    ("dtype", "shape", "order", "lies"),
    [("f8", (7, 33, 65), "C", True), (">f8", (7, 33, 65), "C", False), ("i2", (7, 33, 65), "F", False),
     ("u1", (), "C", True), ("f4", (0, 3), "C", True), ([("x", "f4"), ("y", "i8")], (40, 3), "C", True)],
)  # fmt: skip
def test_npy_is_put_in_place_whatever_the_boxes(tmp_path, monkeypatch, dtype, shape, order, lies):
    monkeypatch.setattr("drystone.interchange.importing._MOST", 1000)
    monkeypatch.setattr("drystone.interchange.importing._MOST_LYING", 5000)
    array = np.random.default_rng(5).integers(0, 100, shape).astype(dtype, order)
    np.save(tmp_path / "a.npy", array)
    with npy.opened(tmp_path / "a.npy") as contents:
        assert contents.arrays[0].lies == lies
    assert commands.main(["import", str(tmp_path / "a.npy"), str(tmp_path / "a.dry")]) == 0
    with dry.open(tmp_path / "a.dry") as c:
        np.testing.assert_array_equal(c["a"][...], array)
