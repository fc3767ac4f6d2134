"""Shards that are both Zarr and HDF5: zarr-python, TensorStore, h5py, netCDF4 and ncdump read one file, with the same
values."""

import shutil
import signal
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import drystone as dry
import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from published import by_tensorstore, by_zarr, files, publish, shards
from same_bits import commits_by_itself, random_array, same

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")

SCALARS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
# netCDF has no float16.
NOT_NETCDF = ["f2"]


def shard_files(c, path):
    return sorted(f for f in (Path(c.path) / "zarr" / path / "c").rglob("*") if f.is_file())


def by_h5py(file, name):
    with h5py.File(file, "r") as f:
        return f[name][...]


def by_zarrs(c, path):
    """zarr-python with the chunks decoded by zarrs, in Rust."""
    pytest.importorskip("zarrs")
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if it leaves a codec to zarr-python
        return np.asarray(by_zarr(c, path))


def by_netcdf(file, name):
    with netCDF4.Dataset(file, auto_complex=True) as f:
        f.set_auto_maskandscale(False)
        return np.asarray(f[name][...])


@pytest.mark.parametrize("transform", [None, "zstd:1"])
@pytest.mark.parametrize("dtype", SCALARS)
def test_all_readers_give_every_dtype_from_one_file(container, dtype, transform):
    rng = np.random.default_rng(7)
    array = random_array(rng, np.dtype(dtype), (2, 17, 40))
    fill = random_array(rng, np.dtype(dtype), ())[()]
    container.create_variable("v", dtype, shape=(17, 40), steps=True, transform=transform, fill_value=fill)
    with commits_by_itself(container) as w, w.step():
        w.put("v", array[0, 3:9], offset=(3, 0))
    with commits_by_itself(container) as w, w.step():
        w.put("v", array[1])
    publish(container, format="zarr+hdf5", chunks={"v": (1, 5, 40)})
    expected = np.full((2, 17, 40), fill, dtype)
    expected[0, 3:9] = array[0, 3:9]
    expected[1] = array[1]
    same(np.asarray(by_zarr(container, "v")), expected)
    same(by_zarrs(container, "v"), expected)
    if transform is None:
        same(by_tensorstore(container, "v"), expected)
    (file,) = shard_files(container, "v")
    stored = expected.view("u1") if dtype == "?" else expected
    same(by_h5py(file, "v").astype(stored.dtype, copy=False), stored)
    if dtype not in NOT_NETCDF:
        same(by_netcdf(file, "v").astype(stored.dtype, copy=False), stored)


def fields(c, transform="zlib:4"):
    """A grid with coordinates, attributes of every kind and steps."""
    c.attrs.update({"title": "größe", "Conventions": "CF-1.11"})
    c.create_variable("lat", "f8", shape=(30,), dims=("lat",), attrs={"units": "degrees_north"})
    c.create_variable("lon", "f4", shape=(50,), dims=("lon",), attrs={"units": "degrees_east"})
    c.create_variable(
        "g/T",
        "f4",
        shape=(30, 50),
        dims=("lat", "lon"),
        steps=True,
        transform=transform,
        attrs={
            "units": "K",
            "_FillValue": -1.0,
            "flag": True,
            "count": 3,
            "range": [1.5, 2.5],
            "levels": np.array([1, 2], "i2"),
            "names": ["a", "größe"],
            "note": {"a": [1, None]},
        },
    )
    T = np.random.default_rng(0).random((3, 30, 50)).astype("f4")
    T[:, 4] = -1
    with commits_by_itself(c) as w:
        w.put("lat", np.linspace(-90, 90, 30))
        w.put("lon", np.linspace(0, 359, 50).astype("f4"))
        for t in range(3):
            with w.step():
                w.put("g/T", T[t])
    return T


def test_dimensions_coordinates_and_attributes_are_there_on_both_sides(container):
    T = fields(container)
    publish(container, format="zarr+hdf5")
    (file,) = shard_files(container, "g/T")
    with h5py.File(file, "r") as f:
        same(f["T"][...], T)
        assert [f["T"].dims[d][0].name for d in range(3)] == ["/step", "/lat", "/lon"]
        same(f["T"].dims[1][0][...], np.linspace(-90, 90, 30))
        assert f["T"].attrs["units"] == b"K"
        assert f["T"].attrs["names"].tolist() == ["a", "größe"]
        assert f["T"].attrs["levels"].tolist() == [1, 2]
        assert f["T"].attrs["_FillValue"].dtype == np.dtype("f4")
        assert f["T"].compression == "gzip"
        assert f["T"].shuffle
    with netCDF4.Dataset(file) as f:
        assert f["T"].dimensions == ("step", "lat", "lon")
        assert f.title == "größe"
        assert (f["T"].units, f["T"].flag, f["T"].count) == ("K", 1, 3)
        assert f["T"].range.tolist() == [1.5, 2.5]
        assert f["T"].note == '{"a":[1,null]}'
        assert f["lat"].units == "degrees_north"
        assert f["T"][:].mask[:, 4].all()
        same(f["lat"][...].data, np.linspace(-90, 90, 30))
    with (
        xr.open_dataset(file, engine="netcdf4") as ds,
        xr.open_zarr(f"{container.path}/zarr", group="g") as zs,
    ):
        assert ds["T"].dims == zs["T"].dims == ("step", "lat", "lon")
        np.testing.assert_array_equal(ds["T"].values, zs["T"].values)
        assert np.isnan(ds["T"].values[:, 4]).all()
    (lat,) = shard_files(container, "lat")
    with netCDF4.Dataset(lat) as f:
        assert f["lat"].dimensions == ("lat",)


@pytest.mark.skipif(shutil.which("ncdump") is None, reason="ncdump is not there: apt-get install netcdf-bin")
def test_ncdump_reads_shards_and_files(container):
    fields(container)
    publish(container, format="zarr+hdf5")
    (shard,) = shard_files(container, "g/T")
    for file in (shard, publish(container, format="netcdf").path):
        text = subprocess.run(["ncdump", file], check=True, capture_output=True, text=True).stdout
        assert "float T(step, lat, lon)" in text
        assert 'T:units = "K"' in text
        assert 'lat:units = "degrees_north"' in text


@pytest.mark.skipif(shutil.which("h5dump") is None, reason="h5dump is not there: apt-get install hdf5-tools")
def test_h5dump_reads_shards_and_files(container):
    fields(container)
    publish(container, format="zarr+hdf5")
    (shard,) = shard_files(container, "g/T")
    for file in (shard, publish(container, format="netcdf").path):
        text = subprocess.run(["h5dump", "-p", file], check=True, capture_output=True, text=True).stdout
        assert "DIMENSION_LIST" in text


def test_a_rerun_follows_values_attributes_coordinates_and_shapes(container):
    T = fields(container)
    publish(container, format="zarr+hdf5")
    before = files(container)
    again = publish(container)
    assert files(container) == before, "the format stays, and nothing is written again"
    assert all(a.written == 0 for a in again.arrays)
    container["g/T"].attrs["units"] = "C"
    publish(container)
    (file,) = shard_files(container, "g/T")
    assert h5py.File(file, "r")["T"].attrs["units"] == b"C"
    assert shards(container)["lon/c/0"] == before["lon/c/0"], "others are left as they are"
    with container.writer() as w:
        w.put("lat", np.arange(30.0))
    container.commit()
    publish(container)
    same(by_h5py(file, "lat"), np.arange(30.0))
    with commits_by_itself(container) as w, w.step():
        w.put("g/T", T[0] + 1)
    publish(container)
    same(by_h5py(file, "T"), np.concatenate([T, T[:1] + 1]))
    same(np.asarray(by_zarr(container, "g/T")), np.concatenate([T, T[:1] + 1]))
    container["g/T"].resize((20, 50))
    publish(container)
    same(by_h5py(file, "T"), container["g/T"][...])
    publish(container, format="zarr")
    with pytest.raises(OSError, match="signature"):
        h5py.File(shard_files(container, "g/T")[0], "r")
    same(np.asarray(by_zarr(container, "g/T")), container["g/T"][...])


def test_each_of_many_shards_is_a_file_with_its_part_and_many_chunks_are_found(container):
    array = np.random.default_rng(1).integers(0, 1000, (6, 300, 70)).astype("i4")
    container.create_variable("x", "f8", shape=(70,), dims=("x",))
    container.create_variable("v", "i4", shape=(300, 70), dims=("y", "x"), steps=True)
    with commits_by_itself(container) as w:
        w.put("x", np.arange(70.0))
        for t in range(6):
            with w.step():
                w.put("v", array[t])
    # 300 chunks per step: the tree of chunks has several nodes and levels.
    publish(container, format="zarr+hdf5", chunks={"v": (1, 2, 35)})
    same(np.asarray(by_zarr(container, "v")), array)
    parts = shard_files(container, "v")
    seen = np.full_like(array, -1)
    for file in parts:
        with h5py.File(file, "r") as f:
            at = tuple(f["v"].attrs.get("drystone_offset", [0, 0, 0]))
            part = f["v"][...]
            assert f["v"].id.get_num_chunks() > 64
            for number in range(0, f["v"].id.get_num_chunks(), 97):
                info = f["v"].id.get_chunk_info(number)
                assert info.byte_offset + info.size <= file.stat().st_size
        seen[tuple(slice(o, o + n) for o, n in zip(at, part.shape, strict=True))] = part
        same(by_netcdf(file, "v"), part)
    same(seen, array)


def test_zstd_is_the_registered_filter(container):
    hdf5plugin = pytest.importorskip("hdf5plugin")
    container.create_variable("v", "f8", shape=(64, 64))
    array = np.arange(64 * 64.0).reshape(64, 64)
    with container.writer() as w:
        w.put("v", array)
    container.commit()
    publish(container, format="zarr+hdf5", compressor="zstd:5")
    (file,) = shard_files(container, "v")
    with h5py.File(file, "r") as f:
        assert f["v"].id.get_create_plist().get_filter(0)[0] == hdf5plugin.Zstd.filter_id
        same(f["v"][...], array)
    same(by_tensorstore(container, "v"), array)


def test_records_names_that_collide_and_arrays_without_axes(container):
    dtype = np.dtype([("x", "f4"), ("t", "i2", (2,)), ("s", "S3")])
    records = random_array(np.random.default_rng(2), dtype, (6, 4))
    container.create_variable("P", dtype, shape=(6, 4), dims=("y", "x"))
    container.create_variable("one", "i8", shape=())
    with container.writer() as w:
        w.put("P", records)
        w.put("one", np.int64(-7))
    container.commit()
    publish(container, format="zarr+hdf5")
    (file,) = shard_files(container, "P/x")
    with netCDF4.Dataset(file) as f:
        same(np.asarray(f["x"][...]), records["x"])
        assert f["x"].dimensions == ("y", "x")
    (file,) = shard_files(container, "P/t")
    same(by_netcdf(file, "t"), records["t"])
    assert by_zarr(container, "one") == -7


@pytest.mark.parametrize("first", ["zarr", "zarr+hdf5"])
@pytest.mark.parametrize("second", ["zarr", "zarr+hdf5"])
def test_a_snapshot_before_another_publication_is_read_without_a_warning(container, first, second):
    """Symptom: "the published replica is damaged" after shards of another format had replaced those of the snapshot."""
    T = fields(container)
    publish(container, format=first)
    with dry.open(container.path) as before, warnings.catch_warnings():
        warnings.simplefilter("error")
        pinned = before.at(before.snapshot)
        publish(container, format=second)
        same(pinned["g/T"][...], T)
        assert pinned.query("`g/T` > 0").count() == np.count_nonzero(T > 0)


def test_edits_by_hdf5_or_netcdf_leave_zarr_unchanged(container):
    T = fields(container)
    publish(container, format="zarr+hdf5")
    (file,) = shard_files(container, "g/T")
    with h5py.File(file, "r+") as f:
        f["T"].attrs["history"] = "edited " * 2000
        f.create_dataset("more", data=np.arange(10))
    same(by_h5py(file, "T"), T)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(np.asarray(by_zarr(container, "g/T")), T)
    with pytest.raises(dry.InvalidArgumentError, match="format"):
        publish(container, format="grib")


def test_one_netcdf_file_holds_the_container(container, tmp_path):
    T = fields(container)
    rng = np.random.default_rng(4)
    dtype = np.dtype([("x", "f4"), ("n", "i8", (3,))])
    records = random_array(rng, dtype, (9,))
    pairs = random_array(rng, np.dtype("c16"), (30,))
    container.create_variable("P", dtype, shape=(9,))
    container.create_variable("one", "i8", shape=(), attrs={"units": "1"})
    container.create_variable("g/z", "c16", shape=(30,), dims=("lat",))
    container.create_variable("g/h/flag", "?", shape=(50,), dims=("lon",))
    container.create_variable("never", "f4", shape=(5,), fill_value=7)
    container.create_variable("text", "str", shape=(2,))
    with container.writer() as w:
        w.put("P", records)
        w.put("one", np.int64(-7))
        w.put("g/z", pairs)
        w.put("g/h/flag", np.arange(50) % 3 == 0)
    container.commit()
    report = publish(container, format="netcdf")
    assert report.path == str(Path(container.path) / "netcdf/run.nc")
    assert not report.skipped
    with netCDF4.Dataset(report.path, auto_complex=True) as f:
        f.set_auto_maskandscale(False)
        assert f.title == "größe"
        assert f["g/T"].dimensions == ("step", "lat", "lon")
        same(np.asarray(f["g/T"][...]), T)
        same(np.asarray(f["lat"][...]), np.linspace(-90, 90, 30))
        same(np.asarray(f["P/n"][...]), records["n"])
        same(np.asarray(f["g/z"][...]), pairs)
        assert f["g/z"].dimensions == ("lat",)
        assert (f["g/h/flag"][...] == (np.arange(50) % 3 == 0)).all()
        assert int(f["one"][...]) == -7
        assert (f["never"][...] == 7).all()
        assert set(f.dimensions) >= {"lat", "lon"}
    with h5py.File(report.path, "r") as f:
        same(f["g/T"][...], T)
        assert f["g/T"].dims[1][0].name == "/lat"
        assert len(f["lat"].attrs["REFERENCE_LIST"]) == 2
        same(f["g/z"][...], pairs)
    elsewhere = publish(container, format="netcdf", path=tmp_path / "a/b.nc", variables=["g/T"])
    same(by_netcdf(elsewhere.path, "g/T"), T)
    with pytest.raises(dry.InvalidArgumentError, match="path"):
        publish(container, path=tmp_path / "c.nc")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, and files without a name are Linux's")
def test_a_killed_publication_leaves_no_file(path, tmp_path):
    with dry.create(path) as c:
        values = np.random.default_rng(0).random((1 << 22,))
        c.create_variable("v", "f8", values.shape, chunks=(1 << 16,))[...] = values
    out = tmp_path / "out"
    out.mkdir()
    words = ["publish", path, "--format", "netcdf", "--compressor", "zlib:9", "--output", out / "v.nc"]
    with subprocess.Popen([sys.executable, "-m", "drystone", *words], stderr=subprocess.DEVNULL) as going:
        while not has_open(going.pid, out):
            assert going.poll() is None, "it was to be killed while it writes"
        going.send_signal(signal.SIGINT)
    assert going.returncode != 0
    assert list(out.iterdir()) == []


def has_open(pid, folder):
    """Whether a process has a file in a folder open, linked or unlinked."""
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if str(folder) in str(file.readlink()):
                return True
    return False


def test_a_netcdf_file_takes_the_chunks_that_were_published(container):
    T = fields(container)
    publish(container, format="zarr+hdf5", chunks={"g/T": (1, 7, 50)})
    report = publish(container, format="netcdf")
    assert [(a.written, a.kept) for a in report.arrays] == [(0, 1)] * 3, "nothing is compressed again"
    (shard,) = shard_files(container, "g/T")
    with h5py.File(report.path, "r") as one, h5py.File(shard, "r") as other:
        assert one["g/T"].chunks == (1, 7, 50)
        for number in range(one["g/T"].id.get_num_chunks()):
            offset = one["g/T"].id.get_chunk_info(number).chunk_offset
            assert one["g/T"].id.read_direct_chunk(offset) == other["T"].id.read_direct_chunk(offset)
    same(by_netcdf(report.path, "g/T"), T)
    shard.write_bytes(shard.read_bytes()[:-300])
    damaged = bytearray(shard.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    shard.write_bytes(damaged)
    report = publish(container, format="netcdf")
    same(by_netcdf(report.path, "g/T"), T)


def test_a_stopped_publication_leaves_the_former_file(container):
    fields(container)
    report = publish(container, format="netcdf")
    before = Path(report.path).read_bytes()
    with container.writer() as w:
        w.put("lat", np.zeros(30))
    container.commit()
    with pytest.raises(dry.CancelledError):
        container.publish(format="netcdf", progress=lambda done, total: False)
    assert Path(report.path).read_bytes() == before
    assert len(list(Path(report.path).parent.iterdir())) == 1


def test_the_command_makes_files(container, tmp_path):
    T = fields(container)
    command = [sys.executable, "-m", "drystone", "publish", container.path]
    subprocess.run([*command, "--format", "zarr+hdf5"], check=True, capture_output=True)
    same(by_h5py(shard_files(container, "g/T")[0], "T"), T)
    file = tmp_path / "out.nc"
    subprocess.run([*command, "--format", "netcdf", "--output", file], check=True, capture_output=True)
    same(by_netcdf(file, "g/T"), T)
    wrong = subprocess.run([*command, "--output", file], capture_output=True, text=True)
    assert wrong.returncode != 0
    assert "--format netcdf" in wrong.stderr


def test_netcdf_leaves_out_float16(tmp_path):
    """Symptom: the file had half floats, on which netCDF libraries crash."""
    record = np.dtype([("a", "f2"), ("b", "i4")])
    with dry.create(tmp_path / "c.dry") as c:
        c["half"] = np.arange(20, dtype="f2").reshape(4, 5)
        c["r"] = np.zeros(3, record)
        c["a"] = np.arange(3.0)
        report = c.publish(format="netcdf", path=tmp_path / "o.nc")
        assert set(report.skipped) == {"half", "r.a"}
        assert all("float16" in reason for reason in report.skipped.values())
        with pytest.raises(dry.UnsupportedError, match="float16"):
            c.publish(format="netcdf", path=tmp_path / "o.nc", variables=["half"])
    with netCDF4.Dataset(tmp_path / "o.nc") as file:
        assert set(file.variables) == {"a"}
        assert set(file.groups["r"].variables) == {"b"}
