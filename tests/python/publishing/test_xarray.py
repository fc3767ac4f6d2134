"""Containers as datasets: steps, groups, lazy reads, appends, regions, Dask."""

import pickle
import re
import threading
import warnings

import cftime
import dask
import dask.array as da
import drystone as dry
import drystone.xarray  # registers ds.drystone
import numpy as np
import pytest
import xarray as xr
from same_bits import commits_by_itself
from xarray.testing import assert_equal, assert_identical


@pytest.fixture
def run(path):
    """The output of a simulation: steps with a gap, a record, a group, a variable without steps."""
    with dry.create(path, durability="memory") as c:
        c.create_variable("T", "f4", (4, 6), dims=("y", "x"), steps=True, chunks=(2, 6), attrs={"units": "K"})
        c.create_variable("p", [("x", "f8"), ("id", "i4")], (3,), dims=("n",), steps=True)
        c.create_variable("flags", "i2", (4, 6), dims=("y", "x"), fill_value=-1)
        c.create_variable("mesh/lon", "f8", (6,), dims=("x",))
        c.create_variable("names", str, (4,), dims=("y",))
        c.create_variable("load", "f4", local=True, steps=True)
        c.attrs["title"] = "a run"
        with commits_by_itself(c) as w:
            w.put("mesh/lon", np.arange(6.0))
            w.put("names", ["a", "bb", "", "dé"])
            w.put("flags", np.ones((2, 6), "i2"))
            for t in (0, 1, 5, 7):
                with w.step(t):
                    w.put("T", np.full((4, 6), t, "f4") + np.arange(6, dtype="f4"))
                    w.put("load", 3.0)
                    if t != 1:
                        w.put("p", np.array([(t, 1), (t, 2), (t, 3)], [("x", "f8"), ("id", "i4")]))
    return path


def test_steps_are_a_dimension_that_shows_those_that_are_there(run):
    with xr.open_dataset(run, engine="drystone") as ds:
        assert ds.T.dims == ("step", "y", "x")
        assert ds.step.values.tolist() == [0, 1, 5, 7]
        assert ds.sel(step=5).T.values[0].tolist() == [5, 6, 7, 8, 9, 10]
        assert ds.T.isel(step=[3, 0], x=2).values[:, 0].tolist() == [9, 2]
        assert ds.T.isel(step=slice(None, None, -2), y=0, x=0).values.tolist() == [7, 1]
        assert ds["p.x"].sel(step=7).values.tolist() == [7, 7, 7]
        assert ds["p.id"].sel(step=1).values.tolist() == [0, 0, 0]
        assert ds.names.values.tolist() == ["a", "bb", "", "dé"]
        assert ds.attrs == {"title": "a run"}
        assert ds.T.attrs == {"units": "K"}
        assert "load" not in ds
        assert ds.T.encoding["preferred_chunks"] == {"step": 4, "y": 2, "x": 6}
        points = ds.T.isel(step=xr.DataArray([3, 1], dims="k"), x=xr.DataArray([5, 0], dims="k"))
        assert points.values[:, 0].tolist() == [12, 1]


def test_unwritten_cells_are_missing_if_there_is_a_fill_value(run):
    with xr.open_dataset(run, engine="drystone") as ds:
        assert np.isnan(ds.flags.values[2:]).all()
        assert (ds.flags.values[:2] == 1).all()
    with xr.open_dataset(run, engine="drystone", mask_and_scale=False) as ds:
        assert ds.flags.dtype == np.int16
        assert (ds.flags.values[2:] == -1).all()


def test_groups_are_datasets_and_a_tree(run):
    with xr.open_dataset(run, engine="drystone", group="mesh") as ds:
        assert ds.lon.values.tolist() == [0, 1, 2, 3, 4, 5]
    with xr.open_datatree(run, engine="drystone") as tree:
        assert tree["mesh/lon"].values[5] == 5
        assert tree["T"].shape == (4, 4, 6)
    assert set(xr.open_groups(run, engine="drystone")) == {"/", "/mesh"}
    with pytest.raises(dry.NotFoundError):
        xr.open_dataset(run, engine="drystone", group="nothing")


def test_nothing_is_read_before_it_is_asked_for(run, monkeypatch):
    from drystone import views

    reads = []
    read = views.read
    monkeypatch.setattr(views, "read", lambda *a: reads.append(1) or read(*a))
    # For arrays of objects, xarray examines the first item.
    with xr.open_dataset(run, engine="drystone", chunks={}, drop_variables="names") as ds:
        ds.T.mean(), ds.T[0, 1:3]
        assert not reads
        assert ds.T.chunks == ((4,), (2, 2), (6,))
        assert ds.T[0, 0, 0].compute() == 0
        assert len(reads) == 1


def test_a_container_is_recognised_and_opens_at_a_snapshot(run):
    with dry.open(run, mode="r+") as c:
        before = int(c.snapshot)
        c["T"][7, :, :] = 0
    with xr.open_dataset(run) as ds, xr.open_dataset(run, snapshot=before, engine="drystone") as old:
        assert (ds.T.values[-1] == 0).all()
        assert old.T.values[-1, 0, 0] == 7
    with dry.open(run) as c:
        assert xr.open_dataset(c, engine="drystone").T.shape == (4, 4, 6)


def test_lazy_arrays_are_pickled_as_path_and_snapshot(run):
    with xr.open_dataset(run, engine="drystone") as ds:
        again = pickle.loads(pickle.dumps(ds))
        assert_identical(again.load(), ds.load())


def weather(first=0, times=3):
    time = np.datetime64("2026-01-01", "ns") + np.arange(first, first + times) * np.timedelta64(6, "h")
    t = np.random.default_rng(first).normal(size=(times, 5, 7)).astype("f4")
    return xr.Dataset(
        {"t": (("time", "y", "x"), t, {"units": "K"}), "mask": (("y", "x"), np.eye(5, 7, dtype=bool))},
        coords={"time": time, "x": np.arange(7) * 0.5, "area": (("y",), np.arange(5.0))},
        attrs={"title": "weather", "levels": [1, 2]},
    )


def test_what_is_written_comes_back_identical(path):
    ds = weather()
    ds.drystone.to_container(path, encoding={"t": {"transform": "shuffle,zstd:1", "chunks": (1, 5, 7)}})
    with xr.open_dataset(path, engine="drystone") as back:
        assert_identical(back.load(), ds)
        assert back.t.encoding["transform"] == "shuffle,zstd:1"
    with pytest.raises(dry.ConflictError):
        ds.drystone.to_container(path)
    ds.drystone.to_container(path, mode="w")


def test_steps_are_appended_and_become_visible_together(path):
    weather(0, 3).drystone.to_container(path, step_dim="time")
    with dry.open(path) as reader:
        assert reader["t"].has_steps
        assert reader["t"].dims == ("y", "x")
        before = len(reader.snapshots)
        weather(3, 4).drop_vars(["mask", "area", "x"]).drystone.to_container(path, append_dim="time")
        reader.refresh()
        assert len(reader["t"]) == len(reader["time"]) == 7
        steps = [len(reader.at(s).steps) for s in reader.snapshots[before - 1 :]]
        assert set(steps) == {3, 7}
    with xr.open_dataset(path, engine="drystone") as ds:
        both = xr.concat(
            [weather(0, 3), weather(3, 4)],
            dim="time",
            data_vars="minimal",
            coords="minimal",
            compat="override",
        )
        assert_identical(ds.load(), both)
        assert ds.encoding["unlimited_dims"] == {"time"}


def test_appending_to_nothing_creates_and_other_dimensions_are_refused(path):
    weather(0, 2).drystone.to_container(path, append_dim="time")
    with xr.open_dataset(path, engine="drystone") as ds:
        assert_identical(ds.load(), weather(0, 2))
    with pytest.raises(dry.InvalidArgumentError, match="steps come first"):
        weather(2, 1).transpose("y", "x", "time").drystone.to_container(path, append_dim="time")
    with pytest.raises(ValueError, match="size for existing"):
        weather(2, 1).isel(y=slice(3)).drystone.to_container(path, append_dim="time")
    with pytest.raises(dry.InvalidArgumentError, match="no dimension"):
        weather().drystone.to_container(path, append_dim="when")


def test_regions_that_are_not_aligned_with_anything_are_written_at_the_same_time(path):
    whole = xr.Dataset({"f": (("y", "x"), np.arange(60 * 70.0).reshape(60, 70))})
    empty = xr.zeros_like(whole)
    empty.drystone.to_container(path, encoding={"f": {"chunks": (16, 16)}})
    parts = [
        (slice(y, min(y + 13, 60)), slice(x, min(x + 11, 70)))
        for y in range(0, 60, 13)
        for x in range(0, 70, 11)
    ]

    def write(mine):
        for y, x in mine:
            whole.isel(y=y, x=x).drystone.to_container(path, region={"y": y, "x": x})

    threads = [threading.Thread(target=write, args=(parts[k::4],)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with xr.open_dataset(path, engine="drystone") as ds:
        assert_identical(ds.load(), whole)
    with pytest.raises(dry.ConflictError, match="do not fit"):
        whole.drystone.to_container(path, region={"y": slice(1, 61)})


@pytest.mark.parametrize("part", [slice(1, 3), slice(-2, None), slice(1, None)])
def test_a_region_of_steps_counts_those_that_are_there(path, part):
    # Steps 0, 10, 20 are shown as three cells. Symptom: a region of the last two was written to steps 10 and 11.
    with dry.create(path) as c:
        c.create_variable("T", "f4", (3,), dims=("x",), steps=True)
        c.create_variable("other", "f4", (3,), dims=("x",), steps=True)
        with c.writer(rank=0, nranks=1) as w:
            for step in (0, 10, 20):
                with w.step(step):
                    w.put("other", np.zeros(3, "f4"))
                    if step != 10:
                        w.put("T", np.full(3, step, "f4"))
    with xr.open_dataset(path, engine="drystone") as ds:
        expected = ds.T.values
    values = np.arange(6, dtype="f4").reshape(2, 3)
    for dataset in (xr.Dataset({"T": (("step", "x"), values)}),) * 2:
        dataset.chunk().drystone.to_container(path, region={"step": part})
    expected[part] = values
    with xr.open_dataset(path, engine="drystone") as ds:
        assert ds.step.values.tolist() == [0, 10, 20]
        np.testing.assert_array_equal(ds.T.values, expected)


@pytest.mark.parametrize(
    "region",
    [
        {"step": slice(0, 3)},
        {"step": slice(2, 4)},
        {"step": slice(3, 5)},
        {"x": slice(1, 4)},
        {"x": slice(0, 4)},
    ],
)
def test_a_region_that_does_not_fit_writes_nothing(path, region):
    with dry.create(path) as c:
        T = c.create_variable("T", "f4", (3,), dims=("x",), steps=True)
        T[0], T[1], T[2] = np.zeros((3, 3), "f4")
    with pytest.raises(dry.ConflictError, match="do not fit"):
        xr.Dataset({"T": (("step", "x"), np.ones((2, 3), "f4"))}).drystone.to_container(path, region=region)
    with dry.open(path) as c:
        assert c["T"].shape == (3, 3)
        assert not c["T"][...].any()


@pytest.mark.parametrize("mode", ["w", "w-", "x", "append"])
def test_a_region_keeps_the_container_whatever_mode_is_named(path, mode):
    weather(0, 2).drystone.to_container(path)
    with pytest.raises(dry.InvalidArgumentError, match="mode"):
        weather(0, 2).drystone.to_container(path, mode, region={"y": slice(0, 5)})
    if mode not in ("w", "w-"):
        with pytest.raises(dry.InvalidArgumentError, match="mode is one of"):
            weather(0, 2).drystone.to_container(path, mode)
    with xr.open_dataset(path, engine="drystone") as ds:
        assert_identical(ds.load(), weather(0, 2))


@pytest.mark.parametrize("region", [{"y": 1}, {"y": slice(0, 4, 2)}, "auto"])
def test_an_invalid_region_is_refused(path, region):
    weather(0, 2).drystone.to_container(path)
    with pytest.raises(dry.InvalidArgumentError, match="region"):
        weather(0, 2).drystone.to_container(path, region=region)


def test_times_that_the_stored_units_do_not_hold_are_not_appended(path):
    # xarray encodes them in finer units, with a warning. Symptom: numbers of milliseconds were stored among those of
    # days.
    days = xr.Dataset({"t": ("time", [1.0, 2.0])}, {"time": np.array(["2000-01-01", "2000-01-02"], "M8[ns]")})
    days.time.encoding = {"units": "days since 2000-01-01"}
    days.drystone.to_container(path, step_dim="time")
    late = days.isel(time=[1]).assign_coords(time=np.array(["2000-01-03T00:00:00.5"], "M8[ns]"))
    with (
        pytest.warns(UserWarning, match="serialized"),
        pytest.raises(dry.ConflictError, match="not whole numbers"),
    ):
        late.drystone.to_container(path, append_dim="time")
    with xr.open_dataset(path, engine="drystone") as ds:
        assert_identical(ds.load(), days)


def _times(kind):
    """Four of them, six hours apart, the first at midnight."""
    hours = np.arange(4) * 6
    if kind == "noleap":
        return np.array([cftime.DatetimeNoLeap(2000, 2, 28 if h < 24 else 1, h % 24) for h in hours], object)
    if kind.startswith("m8"):
        return (hours * 3600 * np.timedelta64(1, "s")).astype(kind)
    return (np.datetime64("2000-01-01", "s") + hours * np.timedelta64(3600, "s")).astype(kind)


@pytest.mark.parametrize("kind", ["M8[s]", "M8[ms]", "M8[us]", "M8[ns]", "m8[s]", "m8[ns]", "noleap"])
@pytest.mark.parametrize("lazy", [False, True])
def test_steps_are_appended_one_by_one_whatever_the_unit_of_the_first(path, kind, lazy):
    # Symptom: a first step at midnight was stored in days, and the next, at six o'clock, was refused. Times in seconds
    # with finer units silently became NaT, in xarray 2026.9.
    times = _times(kind)
    whole = xr.Dataset({"t": ("time", np.arange(4.0)), "at": ("time", times)}, {"time": times})
    for step in range(4):
        one = whole.isel(time=[step])
        (one.chunk() if lazy else one).drystone.to_container(path, append_dim="time")
    with xr.open_dataset(path, engine="drystone", decode_timedelta=True) as ds:
        assert_equal(ds.load(), whole)


@pytest.mark.parametrize("kind", ["M8[ns]", "M8[us]"])
def test_times_more_than_292_years_apart_are_stored_as_they_are(path, kind):
    """Symptom: xarray counted from the first time, in fractional hours: microseconds were silently lost, or the time
    became NaT."""
    times = np.array(["2119-09-09T08:00:00.000001", "1689-08-15T09:25:26.290448384", "NaT"], kind)
    xr.Dataset({"at": ("n", times), "both": ("n", times)}).isel(n=[0, 1]).drystone.to_container(path)
    xr.Dataset({"at": ("n", times)}).drystone.to_container(path, mode="a", group="with/none")
    for group in (None, "with/none"):
        with xr.open_dataset(path, engine="drystone", group=group) as ds:
            np.testing.assert_array_equal(ds["at"], times[: ds.sizes["n"]])


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_texts_are_warned_of(path, missing):
    """xarray silently converts them to empty texts."""
    texts = xr.Dataset({"name": ("n", np.array(["a", missing], object))})
    with pytest.warns(dry.DrystoneWarning, match='"name" has texts that are missing'):
        texts.drystone.to_container(path)
    assert xr.open_dataset(path, engine="drystone").name.values.tolist() == ["a", ""]


def test_dtypes_of_pandas_and_names_other_than_texts_are_refused(path):
    pd = pytest.importorskip("pandas")
    for values in (
        pd.Categorical(["a", "b"]),
        pd.array([1, None], dtype="Int64"),
        pd.date_range("2000", periods=2, tz="UTC"),
    ):
        with pytest.raises(dry.InvalidArgumentError, match=r'"v" has dtype .*only pandas has'):
            xr.Dataset({"v": ("x", values)}).drystone.to_container(path)
    with pytest.raises(TypeError, match="name of a dimension must be a string"):
        xr.Dataset({"v": ((0, 1), [[1]])}).drystone.to_container(path)
    with pytest.raises(dry.InvalidArgumentError, match="would be in a group"):
        xr.Dataset({"g/v": ("x", [1])}).drystone.to_container(path)  # created after the dataset was opened
    assert not path.exists()


def test_times_too_far_away_for_the_stored_units_are_refused(path):
    first = xr.Dataset(
        {"t": ("time", [1.0])}, {"time": np.array(["2000-01-01T00:00:00.000000001"], "M8[ns]")}
    )
    first.drystone.to_container(path, append_dim="time")
    late = xr.Dataset({"t": ("time", [2.0])}, {"time": np.array(["9000-01-01"], "M8[s]")})
    with pytest.raises(dry.InvalidArgumentError, match=r"9000-01-01.* nanoseconds"):
        late.drystone.to_container(path, append_dim="time")
    with xr.open_dataset(path, engine="drystone") as ds:
        assert_identical(ds.load(), first)


_PACKED = {"scale_factor": 0.5, "add_offset": 1.0, "dtype": "i1", "_FillValue": np.int8(-128)}


@pytest.mark.parametrize(
    ("stored", "encoding", "appended", "told"),
    [
        (np.array([1], "i4"), {}, np.array([1.5]), "int32, which does not hold 1.5"),
        (np.array([1], "i4"), {}, np.array([2**40]), "int32, which does not hold 1099511627776"),
        (np.array([1], "i8"), {}, np.array([2.0**63]), "int64, which does not hold 9.223372036854776e"),
        (np.array([1], "u1"), {}, np.array([-1], "i2"), "uint8, which does not hold -1"),
        (np.array([1], "i4"), {}, np.array([np.nan]), "int32 without a _FillValue, which does not hold nan"),
        (np.array([True]), {}, np.array([3]), "bool, which does not hold 3"),
        (np.array([b"ab"]), {}, np.array([b"abc"]), "S2, which does not hold b'abc'"),
        (np.array(["ab"]), {}, np.array(["abc"]), "U2, which does not hold 'abc'"),
        (np.array([1.0]), {}, np.array([1j]), "float64, which does not hold 1j"),
        (np.array([1.0]), {}, np.array(["a"], object), "float64, which does not hold 'a'"),
        (np.array([1.0], "f4"), {}, np.array([1e300]), "float32, which does not hold 1e"),
        (np.array([1.0]), _PACKED, np.array([65.0]), "add_offset=1, which does not hold 65.0"),
        (np.array([1.0]), _PACKED, np.array([-63.0]), "add_offset=1, which does not hold -63.0"),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")
def test_values_beyond_the_stored_dtype_are_not_appended(path, stored, encoding, appended, told, lazy):
    # Symptom: NumPy's casts silently truncated texts, dropped imaginary parts and let integers overflow.
    first = xr.Dataset({"v": ("time", stored)})
    first.drystone.to_container(path, append_dim="time", encoding={"v": encoding})
    more = xr.Dataset({"v": ("time", appended)})
    with pytest.raises(dry.ConflictError, match=re.escape(told)):
        (more.chunk() if lazy and appended.dtype != object else more).drystone.to_container(
            path, append_dim="time"
        )
    with xr.open_dataset(path, engine="drystone") as ds:
        assert (ds.v.load().values == stored).all()


@pytest.mark.parametrize(
    ("stored", "encoding", "appended"),
    [
        (np.array([1], "i4"), {}, np.array([2.0])),
        (np.array([1], "u1"), {}, np.array([255])),
        (np.array([1], "i8"), {}, np.array([-(2**63)])),
        (np.array([1.5], "f4"), {}, np.array([0.1])),
        (np.array([1j], "c8"), {}, np.array([np.inf])),
        (np.array([b"abc"]), {}, np.array([b"a"])),
        (np.array(["a"], object), {}, np.array(["abc"], object)),
        (np.array([1.0]), _PACKED, np.array([64.5])),
        (np.array([1.0]), _PACKED, np.array([np.nan])),
        (np.array([1.0]), {"dtype": "i2", "_FillValue": -1}, np.array([np.nan])),
    ],
)
@pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")
def test_what_the_stored_dtype_holds_is_appended(path, stored, encoding, appended):
    first, more = (xr.Dataset({"v": ("time", v)}) for v in (stored, appended))
    first.drystone.to_container(path, append_dim="time", encoding={"v": encoding})
    more.drystone.to_container(path, append_dim="time")
    with xr.open_dataset(path, engine="drystone") as ds:
        (found,) = ds.v.load().values[1:]
        (expected,) = appended.astype(stored.dtype)
        assert found == expected or (found != found and expected != expected)


@pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")
def test_an_encoding_that_does_not_hold_the_values_is_refused(path):
    ds = xr.Dataset({"v": ("x", [1.0, 300.0])})
    with pytest.raises(
        dry.InvalidArgumentError, match=r"cannot be stored as uint8, which does not hold 300\.0"
    ):
        ds.drystone.to_container(path, encoding={"v": {"dtype": "u1"}})
    ds.drystone.to_container(path, encoding={"v": {"dtype": "u1", "scale_factor": 2.0}})
    with xr.open_dataset(path, engine="drystone") as back:
        assert back.v.values.tolist() == [0.0, 300.0]  # rounded to even, as asked for


@pytest.mark.parametrize("where", ["attrs", "encoding"])
@pytest.mark.parametrize("fill", [np.nan, 1.5, 1 << 40, "x", [1, 2]])
def test_a_fill_value_that_the_dtype_does_not_hold_is_refused_by_name(path, where, fill):
    """Symptom: 1.5 became 1, and the ones were missing; for NaN the message contained no name, and as an attribute it
    became -2**31."""
    ds = xr.Dataset({"a": ("x", np.arange(3, dtype="i4"))})
    getattr(ds.a, where)["_FillValue"] = fill
    with pytest.raises(dry.InvalidArgumentError, match='_FillValue of "a"'):
        ds.drystone.to_container(path)
    assert not path.exists()


def test_what_is_added_in_other_units_is_warned_of(path):
    weather(0, 2).drystone.to_container(path, step_dim="time")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weather(2, 2).drystone.to_container(path, append_dim="time")
    other = weather(4, 1)
    other.t.attrs["units"] = "degC"
    with pytest.warns(dry.DrystoneWarning, match="\"t\" is stored in units of 'K'.* 'degC'"):
        other.drystone.to_container(path, append_dim="time")


@pytest.mark.parametrize(
    ("encoding", "other"),
    [({"dtype": "i8"}, "dtype"), ({"scale_factor": 0.5}, "scale_factor"), ({"_FillValue": 1}, "_FillValue")],
)
def test_the_encoding_of_an_existing_variable_cannot_be_changed(path, encoding, other):
    # Symptom: values were encoded as requested, and silently cast to the stored dtype.
    first = xr.Dataset({"v": ("time", np.array([1], "i4")), "w": ("x", [1])})
    first.drystone.to_container(path, append_dim="time")
    more = xr.Dataset({"v": ("time", [2]), "w": ("x", [2])})
    for where in ({"append_dim": "time"}, {"region": {"time": slice(0, 1)}}):
        with pytest.raises(dry.InvalidArgumentError, match=f'"v", which is stored already, another {other}'):
            more.drystone.to_container(path, encoding={"v": encoding}, **where)
    with xr.open_dataset(path, engine="drystone") as ds:
        assert_identical(ds.load(), first)
    more.drystone.to_container(path, append_dim="time", encoding={"w": {"dtype": "i2"}})
    with xr.open_dataset(path, engine="drystone") as ds:
        assert (ds.v.values.tolist(), ds.w.dtype) == ([1, 2], "i2")


def test_the_same_encoding_may_be_named_at_each_step(path):
    encoding = {
        "v": {**_PACKED, "transform": "shuffle,zstd:1"},
        "time": {"transform": "zlib:1"},
        "n": {"dtype": str},
    }
    for step, value in enumerate([1.0, np.nan, 64.5]):
        one = xr.Dataset({"v": ("time", [value]), "n": ("time", np.array([str(value)], object))})
        at = np.datetime64("2000-01-01", "ns") + np.timedelta64(6 * step, "h")
        one.assign_coords(time=[at]).drystone.to_container(path, append_dim="time", encoding=encoding)
    with xr.open_dataset(path, engine="drystone") as ds:
        np.testing.assert_array_equal(ds.v.values, [1.0, np.nan, 64.5])
        assert ds.n.values.tolist() == ["1.0", "nan", "64.5"]
        assert (np.diff(ds.time.values) == np.timedelta64(6, "h")).all()
    big = xr.Dataset({"v": ("time", [65.0])}, {"time": np.array(["2000-01-03"], "M8[ns]")})
    with pytest.raises(dry.ConflictError, match=r"does not hold 65\.0"):
        big.drystone.to_container(path, append_dim="time", encoding={"v": _PACKED})


def test_what_was_written_without_steps_says_how_it_could_be_appended_to(path):
    weather(0, 2).drystone.to_container(path)
    with pytest.raises(dry.ConflictError, match='step_dim="time"'):
        weather(2, 2).drystone.to_container(path, append_dim="time")


@pytest.mark.parametrize("compute", [True, False])
def test_dask_arrays_are_written_chunk_by_chunk(path, compute):
    ds = weather(0, 8).chunk({"time": 3, "y": 2, "x": 4})
    done = ds.drystone.to_container(path, step_dim="time", compute=compute)
    if not compute:
        dask.compute(done)
    with xr.open_dataset(path, engine="drystone") as back:
        assert_identical(back.load(), weather(0, 8))


def test_a_tree_is_written_group_by_group(path):
    tree = xr.DataTree.from_dict(
        {"/fine": weather(), "/coarse": weather().isel(y=[0, 2]), "/other/deep": weather(5, 2)}
    )
    tree.drystone.to_container(path)
    with xr.open_datatree(path, engine="drystone") as back:
        xr.testing.assert_identical(back.load(), tree)


def test_dask_reads_and_stores_variables_without_locks(path):
    source = np.random.default_rng(5).normal(size=(50, 60))
    with dry.create(path, durability="memory") as c:
        V = c.create_variable("v", "f8", source.shape, chunks=(16, 16))
        T = c.create_variable("t", "f8", source.shape, steps=True)
        da.store(da.from_array(source, chunks=(7, 13)), V, lock=False)
        assert (V[...] == source).all()
        stack = da.stack([da.from_array(source * k, chunks=(30, 60)) for k in range(4)])
        da.store(stack, T, lock=False)
        assert T.shape == (4, 50, 60)
        lazy = da.from_array(T, chunks=(1, 25, 30))
        assert np.allclose(lazy.sum(axis=0).compute(), source * 6)


def test_assignment_is_numpys_and_visible_with_the_next_read(path):
    with dry.create(path, durability="memory") as c:
        V = c.create_variable("v", "f4", (6, 5))
        expected = np.zeros((6, 5), "f4")
        for key, value in [
            (..., 3),
            ((slice(1, 4), slice(None)), np.arange(5)),
            ((slice(4, 1, -1), 2), np.arange(3.0)),
            ((-1, slice(2, 4)), [7, 8]),
            ((0, 0), np.float32(9)),
            ((slice(2, 2), slice(None)), 1),
            ([0, 5], 4),
            (slice(None, None, 2), np.arange(5)),
        ]:
            V[key] = value
            expected[key] = value
            np.testing.assert_array_equal(V[...], expected)
        for key, value, message in [
            ([0, 1], np.zeros(4), "does not fit"),
            (slice(None, None, 2), np.zeros((2, 5)), "does not fit"),
            (9, 1, "out of bounds"),
            (0, np.zeros(4), "does not fit"),
            (0, "text", "does not fit"),
            (0, np.zeros(5, "c8"), "convert it first"),
        ]:
            with pytest.raises(dry.DrystoneError, match=message):
                V[key] = value
        S = c.create_variable("s", str, (3,))
        S[1:] = ["a", "b"]
        assert S[...].tolist() == ["", "a", "b"]
        P = c.create_variable("p", [("x", "f8"), ("y", "f8")], (3,))
        P["x"][:] = [1, 2, 3]
        assert P["x"][...].tolist() == [1, 2, 3]
        G = c.create_variable("g", "i4", ("*",), steps=True)
        G[3, 0:4] = [1, 2, 3, 4]
        assert (G.shape, c.steps) == ((4, 4), [3])
    with dry.open(path) as c:
        np.testing.assert_array_equal(c["v"][...], expected)
        with pytest.raises(dry.ConflictError, match="open for reading"):
            c["v"][0] = 1


def test_a_pickled_variable_of_a_writable_container_is_assigned_to_by_its_path(path):
    with dry.create(path, durability="memory") as c:
        V = c.create_variable("v", "i8", (4,))
        far = pickle.loads(pickle.dumps(V))
        far[1:3] = [5, 6]
        c.refresh()
        assert V[...].tolist() == [0, 5, 6, 0]


def test_a_dataset_that_cannot_be_written_leaves_nothing_that_it_made(tmp_path):
    """Symptom: an empty container stayed behind, so the next attempt failed because one existed already."""
    bad = xr.Dataset({"a": ("x", np.arange(3.0)), "z": ("x", np.array([1, "text", None], object))})
    with pytest.raises((TypeError, ValueError)):
        bad.drystone.to_container(tmp_path / "new.dry")
    assert not (tmp_path / "new.dry").exists()
    tree = xr.DataTree.from_dict({"/": bad[["a"]], "/below": bad})
    with pytest.raises((TypeError, ValueError)):
        tree.drystone.to_container(tmp_path / "new.dry")
    assert not (tmp_path / "new.dry").exists()
    bad[["a"]].drystone.to_container(tmp_path / "new.dry")
    with pytest.raises((TypeError, ValueError)):
        bad.drystone.to_container(tmp_path / "new.dry", "a", group="more")
    with dry.open(tmp_path / "new.dry") as c:
        assert [*c.variables] == ["a"]
        assert not [*c.groups]


@pytest.fixture
def forest():
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset({"a": ("x", [1.0, 2.0])}, {"x": [10, 20]}, {"title": "run"}),
            "/g": xr.Dataset({"b": ("x", [3.0, 4.0])}),
            "/g/h": xr.Dataset({"c": ("z", [4])}),
        }
    )


def test_a_tree_is_written_into_a_group_and_a_part_of_one_as_its_own_root(forest, tmp_path):
    """Its paths are relative, and it includes the coordinates that it inherits."""
    forest.drystone.to_container(tmp_path / "all.dry", group="runs/first")
    with dry.open(tmp_path / "all.dry") as c:
        assert sorted(c.variables) == ["runs/first/a", "runs/first/g/b", "runs/first/g/h/c", "runs/first/x"]
    forest["g"].drystone.to_container(tmp_path / "part.dry")
    with xr.open_datatree(tmp_path / "part.dry", engine="drystone") as part:
        xr.testing.assert_identical(part["/"].to_dataset(), forest["g"].to_dataset())
        xr.testing.assert_identical(part["h"].to_dataset(), forest["g/h"].to_dataset())


def test_a_tree_takes_encodings_by_path_and_is_computed_later(forest, tmp_path):
    path = tmp_path / "later.dry"
    later = forest.chunk({"x": 1}).drystone.to_container(
        path, encoding={"/": {"a": {"transform": "zstd:1"}}, "g/h": {"c": {"dtype": "i2"}}}, compute=False
    )
    later.compute()
    with dry.open(path) as c:
        assert c["a"].transform.startswith("zstd")
        assert c["g/h/c"].dtype == np.int16
    with xr.open_datatree(path, engine="drystone") as back:
        assert back.equals(forest)
    with pytest.raises(dry.NotFoundError, match="/other"):
        forest.drystone.to_container(tmp_path / "no.dry", encoding={"/other": {}})
    assert not (tmp_path / "no.dry").exists()


@pytest.mark.parametrize(
    ("dtype", "texts", "fits"),
    [
        ("U3", ["ab", "größe"], False),
        ("U5", ["ab", "größe"], True),
        ("S10", ["ab", "größe"], False),
        ("S3", ["ab", "abcd"], False),
        ("S3", ["ab", "abc"], True),
        ("S1", ["ab", "größe"], True),
        ("S1", [1.5, 2.5], False),
    ],
)
@pytest.mark.parametrize("kind", [object, None])
def test_texts_that_a_fixed_width_would_cut_are_refused(path, dtype, texts, fits, kind):
    ds = xr.Dataset({"s": ("x", np.array(texts, None if isinstance(texts[0], float) else kind))})
    if not fits:
        with pytest.raises(dry.InvalidArgumentError, match=rf'"s" cannot be stored as .?{dtype}, which does'):
            ds.drystone.to_container(path, encoding={"s": {"dtype": dtype}})
        return
    ds.drystone.to_container(path, encoding={"s": {"dtype": dtype}})
    with xr.open_dataset(path, engine="drystone") as back:
        found = [t.decode() if isinstance(t, bytes) else t for t in back.s.values.tolist()]
        assert found == texts


def test_attributes_of_bytes_are_text_if_they_are_utf_8_and_else_bytes(path):
    ds = xr.Dataset(
        {"v": ("x", [1.0], {"raw": b"\xff\xfe", "text": "größe".encode()})}, attrs={"raw": b"\xff"}
    )
    ds.drystone.to_container(path)
    with xr.open_dataset(path, engine="drystone") as back:
        assert back.attrs == {"raw": b"\xff"}
        assert (back.v.attrs["raw"], back.v.attrs["text"]) == (b"\xff\xfe", "größe")


@pytest.mark.parametrize(
    "encoding", [{"zlib": True}, {"compression": "gzip"}, {"compressors": [1]}, {"shuffle": True}]
)
def test_compression_of_other_formats_is_refused_with_a_hint_to_transforms(path, encoding):
    ds = xr.Dataset({"v": ("x", [1.0])})
    with pytest.raises(ValueError, match=r'unexpected encoding.*"transform"'):
        ds.drystone.to_container(path, encoding={"v": encoding})
    assert not path.exists()
    ds.v.encoding = encoding  # Left by another format, not requested by the caller.
    ds.drystone.to_container(path)


@pytest.mark.parametrize("how", [{"append_dim": "t"}, {"region": {"t": slice(0, 2)}}])
def test_integers_that_a_stored_float_does_not_hold_are_refused(tmp_path, how):
    """Symptom: 2^24 + 1 became 2^24 in a float32 variable; `put` and assignment refused it."""
    xr.Dataset({"v": ("t", np.array([1, 2], "f4"))}).drystone.to_container(tmp_path / "a", step_dim="t")
    exact = xr.Dataset({"v": ("t", np.array([2**24, -(2**24)]))})
    exact.drystone.to_container(tmp_path / "a", **how)
    for value in (2**24 + 1, -(2**24) - 1, np.iinfo(np.int64).max):
        wrong = xr.Dataset({"v": ("t", np.array([value, 2]))})
        with pytest.raises(dry.ConflictError, match=str(value)):
            wrong.drystone.to_container(tmp_path / "a", **how)
    with xr.open_dataset(tmp_path / "a", engine="drystone") as found:
        assert found.v.values[-2:].tolist() == [2**24, -(2**24)]
