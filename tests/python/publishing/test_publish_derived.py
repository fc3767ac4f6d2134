"""Published derived variables: arrays of the values that Python reads, written again when an input changed."""

import warnings

import drystone as dry
import netCDF4
import numpy as np
import pytest
import zarr
from drystone.errors import DrystoneWarning, InvalidArgumentError, UnsupportedError

SHAPE = (12, 16)


@pytest.fixture
def run(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("x", "f8", (16,), dims=("x",))[...] = np.arange(16) ** 1.5
        for name in "uv":
            c.create_variable(name, "f4", SHAPE, dims=("y", "x"), steps=True)
        rng = np.random.default_rng(3)
        with c.writer(rank=0, nranks=1) as w:
            for t in (0, 1, 3):
                with w.step(t):
                    for name in "uv":
                        w.put(name, rng.standard_normal(SHAPE).astype("f4"))
        c.refresh()
        for kind in ("virtual", "bounds", "stored"):
            c.derive(f"speed_{kind}", "sqrt(u*u + v*v)", kind=kind, attrs={"units": "m/s"})
        c.derive("slope", "diff(u, x)")
        c.derive("twice", "2*slope")
        c.derive("mean", "mean(u, x)", kind="stored")
        c.derive("count", "i8(u > 0) + i8(v > 0)")
        c.derive("coordinate", "2*x")
        c.store_derived()
        c.refresh()
        yield c


NAMES = ("speed_virtual", "speed_bounds", "speed_stored", "slope", "twice", "mean", "count", "coordinate")


def same(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("fmt", ["zarr", "zarr+hdf5"])
def test_every_kind_is_an_array_with_the_values_that_python_reads(run, fmt):
    report = run.publish(format=fmt)
    assert report.skipped == {}
    group = zarr.open_group(f"{run.path}/zarr", mode="r")
    for name in NAMES:
        expected = run[name][...]
        found = group[name][...]
        # A step that no input has is the fill value in both.
        same(found, expected)
    assert group["speed_virtual"].attrs["units"] == "m/s"
    assert group["speed_stored"].metadata.dimension_names == ("step", "y", "x")


def test_a_netcdf_file_has_them(run, tmp_path):
    assert run.publish(format="netcdf", path=tmp_path / "out.nc").skipped == {}
    with netCDF4.Dataset(tmp_path / "out.nc") as f:
        f.set_auto_mask(False)
        for name in NAMES:
            same(f[name][:], run[name][...])


def test_what_changed_is_published_again_and_nothing_else(run):
    chunks = dict.fromkeys(("speed_virtual", "speed_bounds", "speed_stored", "slope", "twice"), (1, 12, 16))
    run.publish(chunks=chunks)
    again = {a.variable: a for a in run.publish().arrays}
    assert not any(again[name].written for name in NAMES)
    run["v"][1, 3:5, 2:7] = 50
    run.commit()
    written = {a.variable: a.written for a in run.publish().arrays if a.variable in NAMES}
    assert all(written[name] for name in ("speed_virtual", "speed_bounds", "speed_stored", "count"))
    assert not any(written[name] for name in ("slope", "twice", "mean", "coordinate"))
    group = zarr.open_group(f"{run.path}/zarr", mode="r")
    for name in NAMES:
        same(group[name][...], run[name][...])
    run["x"][...] = np.arange(16)
    run.commit()
    written = {a.variable for a in run.publish().arrays if a.written and a.variable in NAMES}
    assert written == {"slope", "twice", "coordinate", "mean"}, "those whose definitions name x"
    group = zarr.open_group(f"{run.path}/zarr", mode="r")
    for name in NAMES:
        same(group[name][...], run[name][...])


def test_a_new_step_and_a_replaced_one_are_followed(run):
    run.publish()
    with run.writer(rank=0, nranks=1) as w:
        with w.step(4):
            for name in "uv":
                w.put(name, np.full(SHAPE, 2, "f4"))
        with w.step(0, replace=True):
            w.put("u", np.full(SHAPE, 3, "f4"))
    run.refresh()
    run.publish()
    group = zarr.open_group(f"{run.path}/zarr", mode="r")
    for name in NAMES:
        same(group[name][...], run[name][...])
    assert np.isnan(group["speed_virtual"][0]).all(), "step 0 has no v any more"
    assert run.verify(values=True).ok


def test_one_whose_input_was_deleted_is_named_with_the_reason(run):
    run.delete("v")
    report = run.publish()
    assert set(report.skipped) == {"speed_virtual", "speed_bounds", "speed_stored", "count"}
    assert '"v" was deleted' in report.skipped["speed_stored"]
    assert "slope" in {a.variable for a in report.arrays}
    with pytest.raises(UnsupportedError, match='"v" was deleted'):
        run.publish(variables=["speed_virtual"])


def test_reads_of_the_container_compute_and_do_not_take_the_replica(run):
    run.publish()
    run.refresh()
    before = run["speed_virtual"][1]
    run["u"][1, 0, 0] = 1000
    run.commit()
    after = run["speed_virtual"][1]
    assert after[0, 0] > 999
    assert np.array_equal(after[1:], before[1:])


def test_a_lost_input_leaves_out_all_that_stands_on_it_and_nothing_else(tmp_path):
    """Symptom: nothing could be published, copied or exported, because one variable could not be computed."""
    pytest.importorskip("h5py")
    xr = pytest.importorskip("xarray")
    with dry.create(tmp_path / "c.dry") as c:
        for name in ("s", "keep"):
            c.create_variable(name, "f4", (8,), steps=True)
            c[name].append(np.ones(8, "f4"))
        c.derive("d", "s + 1")
        c.derive("e", "d + 1")
        c.delete("s")
        with pytest.warns(dry.DrystoneWarning, match='"s"'):
            copy = c.copy(tmp_path / "copy.dry")
        assert list(copy.variables) == ["keep"]
        copy.close()
        with pytest.warns(dry.DrystoneWarning, match='"s"'):
            assert len(dry.export(c, tmp_path / "c.h5").lost) == 2
        assert c.table().names == ["step", "dim_0", "keep"]
        assert set(c.publish().skipped) == {"d", "e"}
    with pytest.warns(dry.DrystoneWarning, match="left out"):
        found = xr.open_dataset(tmp_path / "c.dry", engine="drystone")
    assert list(found.data_vars) == ["keep"]


@pytest.mark.parametrize(
    "text", ["where(u > 2, u, v)", "f8(u > 2 | v > 2)", "f8(count(u > 2 | v > 2, x)) + u"]
)
@pytest.mark.parametrize("kind", ["virtual", "stored"])
def test_a_step_without_a_block_of_an_input_has_no_values_anywhere(tmp_path, text, kind):
    """Symptom: reads, queries and exports had values in such a step, the replica and the Zarr store had none."""
    with dry.create(tmp_path / "run.dry") as c:
        for name in "uv":
            c.create_variable(name, "f8", (4,), dims=("x",), steps=True)
        c.derive("d", text, kind=kind)
        for step in range(2):
            with c.writer() as w, w.step(step):
                w.put("u", np.array([1.0, 2, 3, 4]))
                if step == 0:
                    w.put("v", np.full(4, 9.0))
        c.commit()
        c.publish()
        read = c["d"][...]
        assert np.isfinite(read[0]).all()
        assert np.isnan(read[1]).all()
        assert c["d"].steps == [0]
        for found in (
            zarr.open_group(f"{c.path}/zarr", mode="r"),
            zarr.open_group(store=c.zarr_store(), mode="r"),
        ):
            same(found["d"][...], read)
        # The unknown cells of an input of a query are unknown, whichever variable they come from.
        assert c.query("d >= 0").count() == 4
        assert c.query("d >= 0 | u >= 0").count() == 8
        if "count" not in text:
            assert c.query(f"({text}) * 0 + d >= 0").count() == 4


@pytest.mark.parametrize("kind", ["virtual", "stored"])
def test_a_variable_whose_input_became_too_small_is_left_out_and_stops_nothing(tmp_path, kind):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("h", "f8", (None, 8), dims=("y", "x"))
        c["h"].resize((5, 8))
        c["h"][...] = np.ones((5, 8))
        c.derive("d", "h[y+4]", kind=kind)
        c["h"].resize((2, 8))
        c.derive("good", "h * 2", kind="stored")
        if kind == "stored":
            with pytest.raises(InvalidArgumentError, match="a neighbour needs 5 cells along dimension 0"):
                c.store_derived()
        else:
            c.store_derived()
        # The failure of one variable does not keep another one from being stored.
        assert c.usage()["good"].blocks == 1
        report = c.publish()
        assert "a neighbour needs 5 cells" in report.skipped["d"]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            c.copy(tmp_path / "copy.dry")
        assert any("d is not copied: " in str(one.message) and "5 cells" in str(one.message) for one in said)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DrystoneWarning)
            dry.export(c, tmp_path / "out.nc")
        with netCDF4.Dataset(tmp_path / "out.nc") as f:
            assert set(f.variables) >= {"h", "good"}
            assert "d" not in f.variables
