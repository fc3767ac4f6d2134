"""Published texts: of any length and of fixed length, in Zarr, HDF5 and netCDF, by each reader that supports them."""

import warnings

import drystone as dry
import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from drystone.errors import UnsupportedError

TEXTS = ["", "a", "größer als", "日本", "x" * 3000, ""]
FIXED = ["", "ab", "größ", "日本", "z", "end"]
BYTES = [b"", b"ab", b"cdef", b"z", b"\xff", b"end"]


@pytest.fixture
def run(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("any", str, (6,), dims=("name",), attrs={"long_name": "names"})[...] = TEXTS
        c.create_variable("fixed", "U4", (6,), dims=("name",))[...] = FIXED
        c.create_variable("bytes", "S4", (6,), dims=("name",))[...] = np.array(BYTES, "S4")
        c.create_variable("one", str)[...] = "a sentence"
        c.create_variable("one_fixed", "U4")[...] = "word"
        steps = c.create_variable("grid", str, (2, 3), dims=("y", "x"), steps=True, transform="zstd:3")
        for t in (0, 2):
            steps[t] = np.array([[f"{t}{y}{x}" for x in range(3)] for y in range(2)], object)
        c.create_variable("part", str, (4,), steps=True)[1, 2:3] = ["only"]
        c.create_variable("T", "f4", (6,), dims=("name",))[...] = np.arange(6)
        record = np.zeros(3, [("id", "i4"), ("name", "U5"), ("tags", "S2", (2,))])
        record["id"], record["name"], record["tags"] = range(3), ["a", "bc", "ä"], [[b"x", b"yy"]] * 3
        c.create_variable("P", record.dtype, (3,))[...] = record
        c.commit()
        yield c


def opened(run, fmt=None, **more):
    run.publish(format=fmt, **more)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="zarr")
        warnings.filterwarnings("ignore", message=".*Zarr (format 3|V3) specification.*")
        return zarr.open_group(f"{run.path}/zarr", mode="r")


def quiet(act):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return act()


@pytest.mark.parametrize("fmt", ["zarr", "zarr+hdf5"])
def test_zarr_python_reads_every_text(run, fmt):
    group = opened(run, fmt)
    assert run.publish().skipped == {}

    def read(name):
        return quiet(lambda: np.asarray(group[name][...]))

    assert read("any").tolist() == TEXTS
    assert read("one").tolist() == "a sentence"
    assert read("fixed").tolist() == FIXED
    assert read("bytes").tolist() == BYTES
    assert str(read("one_fixed")) == "word"
    assert read("grid").tolist() == [[["000", "001", "002"], ["010", "011", "012"]],
                                     [[""] * 3] * 2,
                                     [["200", "201", "202"], ["210", "211", "212"]]]  # fmt: skip
    assert read("part")[1].tolist() == ["", "", "only", ""]
    assert read("P/name").tolist() == ["a", "bc", "ä"]
    assert read("P/tags").tolist() == [[b"x", b"yy"]] * 3
    assert group["any"].attrs["long_name"] == "names"


def test_xarray_shows_texts_as_texts(run):
    run.publish()
    with quiet(lambda: xr.open_zarr(f"{run.path}/zarr")) as ds:
        assert ds["any"].values.tolist() == TEXTS
        assert ds["any"].dims == ("name",)
        assert ds["fixed"].values.tolist() == FIXED
        assert ds["bytes"].values.tolist() == BYTES
        assert ds["grid"].sel(x=slice(None)).isel(step=2).values.tolist()[1] == ["210", "211", "212"]


def test_tensorstore_reads_the_numbers_and_refuses_texts_by_name(run):
    ts = pytest.importorskip("tensorstore")
    run.publish()

    def read(name):
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{run.path}/zarr/{name}/"}}
        return ts.open(spec, read=True).result().read().result()

    assert read("T").tolist() == list(range(6))
    assert read("P/id").tolist() == [0, 1, 2]
    for name, said in [
        ("any", "string"),
        ("fixed", "fixed_length_utf32"),
        ("bytes", "null_terminated_bytes"),
    ]:
        with pytest.raises(ValueError, match=said):
            read(name)


def test_a_netcdf_file_has_texts_and_characters(run, tmp_path):
    report = run.publish(format="netcdf", path=tmp_path / "out.nc")
    assert report.skipped == {}
    with netCDF4.Dataset(tmp_path / "out.nc") as f:
        f.set_auto_chartostring(False)
        for name in ("any", "fixed"):
            assert f[name].dtype is str
            assert f[name].dimensions == ("name",)
        assert f["any"][:].tolist() == TEXTS
        assert f["fixed"][:].tolist() == FIXED
        assert f["bytes"].dtype == "S1"
        assert f["bytes"].dimensions == ("name", "string4")
        joined = [row.tobytes().rstrip(b"\0") for row in np.ma.filled(f["bytes"][:], b"\0")]
        assert joined == BYTES
        assert str(f["one"][...]) == "a sentence"
        assert str(f["one_fixed"][...]) == "word"
        assert f["grid"][2].tolist() == [["200", "201", "202"], ["210", "211", "212"]]
        assert f["part"][1].tolist() == ["", "", "only", ""]
        assert f["any"].long_name == "names"
        assert f["P/name"][:].tolist() == ["a", "bc", "ä"]
    with h5py.File(tmp_path / "out.nc") as f:
        assert f["any"].asstr()[()].tolist() == TEXTS
        assert f["grid"].asstr()[2, 1].tolist() == ["210", "211", "212"]
    with xr.open_dataset(tmp_path / "out.nc") as ds:
        assert ds["bytes"].values.tolist() == BYTES
        assert ds["any"].values.tolist() == TEXTS


def test_shards_that_are_hdf5_files_have_characters(run):
    run.publish(format="zarr+hdf5")
    with h5py.File(f"{run.path}/zarr/bytes/c/0") as f:
        assert f["bytes"].dtype == "S1"
        assert f["bytes"].shape == (6, 4)
        assert [row.tobytes().rstrip(b"\0") for row in f["bytes"][()]] == BYTES
    with pytest.raises(OSError):
        h5py.File(f"{run.path}/zarr/any/c/0")


def test_more_texts_than_a_chunk_a_shard_and_a_heap_hold(run, tmp_path):
    texts = [f"{n:07}" * (n % 5) for n in range(40_000)]
    run.create_variable("many", str, (200, 200))[...] = np.array(texts, object).reshape(200, 200)
    run.commit()
    group = opened(run, chunks={"many": (64, 30)}, variables=["many"])
    assert np.ravel(quiet(lambda: group["many"][...])).tolist() == texts
    run.publish(variables=["many"], format="netcdf", path=tmp_path / "out.nc", chunks={"many": (64, 30)})
    with netCDF4.Dataset(tmp_path / "out.nc") as f:
        assert np.ravel(f["many"][:]).tolist() == texts


def test_only_changed_texts_are_published_again(run):
    first = run.publish()
    assert {a.variable for a in first.arrays if a.written} >= {"any", "fixed", "bytes", "grid"}
    again = run.publish()
    assert all(not a.written for a in again.arrays if a.variable not in ("one", "one_fixed"))
    run["any"][1:2] = ["changed"]
    run.commit()
    third = run.publish()
    assert [a.variable for a in third.arrays if a.written] == ["any"]
    assert quiet(lambda: opened(run)["any"][1]) == "changed"
    # The container reads its log for these.
    assert run["any"][1] == "changed"
    assert run.verify(values=True).ok


def test_fixed_texts_are_read_from_the_replica_and_verified(run):
    run.publish()
    run.refresh()
    assert run.verify(values=True).ok
    assert run["fixed"][...].tolist() == FIXED
    assert run["bytes"][...].tolist() == BYTES


def test_fill_values_of_texts(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("same", "S3", (4,), fill_value=b"zzz")[1:2] = [b"a"]
        c.create_variable("other", "S3", (4,), fill_value=b"abc")[1:2] = [b"x"]
        c.create_variable("wide", "U2", (4,), fill_value="éé")[1:2] = ["y"]
        c.commit()
        group = opened(c)
        for name, filled in [("same", b"zzz"), ("other", b"abc"), ("wide", "éé")]:
            expected = c[name][...].tolist()
            assert expected[0] == filled
            assert quiet(lambda name=name: group[name][...].tolist()) == expected


def test_a_text_that_is_no_unicode_names_its_variable(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("bad", "U1", (1,))[...] = np.array([0xD800], "u4").view("U1")
        c.commit()
        with pytest.raises((UnsupportedError, dry.DrystoneError), match="bad"):
            c.publish(format="netcdf", path=tmp_path / "out.nc")
