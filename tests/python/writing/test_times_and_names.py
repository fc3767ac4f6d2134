"""Times and enumerations: stored as integers with a meaning, and equal through every interface."""

import datetime as dt
import enum
import json
import subprocess
import sys

import drystone as dry
import numpy as np
import pytest
from drystone.errors import InvalidArgumentError

UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s", "2D"]
COLOURS = {"red": 0, "dark green": 3, "blue": 7}


def times(unit, kind="M"):
    rng = np.random.default_rng(5)
    values = rng.integers(-(2**40), 2**40, (4, 3)) // (10**9 if unit in "YMWD" else 1)
    values[1, 2] = np.iinfo("i8").min
    return values.astype(f"{kind}8[{unit}]")


def drystone(*arguments):
    run = subprocess.run(
        [sys.executable, "-m", "drystone", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["M", "m"])
def test_times_of_every_unit_come_back_bit_for_bit(tmp_path, unit, kind):
    array = times(unit, kind)
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("t", array.dtype, (4, 3), transform="zstd:1")
        with c.writer() as w:
            w.put("t", array)
        c.create_variable("r", [("t", array.dtype), ("x", "f4"), ("many", array.dtype, (2,))], (4,))
        c["r"][...] = np.array([(one, 1, (one, one)) for one in array[:, 0]], c["r"].dtype)
        c.attrs["when"] = array[0, 0]
        c.attrs["all"] = array
    with dry.open(tmp_path / "a.dry") as c:
        assert c["t"].dtype == array.dtype
        np.testing.assert_array_equal(c["t"][...].view("i8"), array.view("i8"))
        assert c["r"].dtype["t"] == array.dtype
        assert c["r"].dtype["many"].base == array.dtype
        np.testing.assert_array_equal(c["r"]["many"][:, 1].view("i8"), array[:, 0].view("i8"))
        assert c["r"]["t"].dtype == array.dtype
        assert c.attrs["when"] == array[0, 0]
        assert c.attrs["when"].dtype == array.dtype
        np.testing.assert_array_equal(c.attrs["all"].view("i8"), array.view("i8"))


def test_unwritten_cells_are_not_times(container):
    # Symptom that this prevents: a missing step reads as midnight of 1970-01-01, which is a valid time.
    T = container.create_variable("t", "datetime64[s]", (3,))
    R = container.create_variable("r", [("n", "i4"), ("t", "m8[ms]", (2,))], (1,))
    given = container.create_variable("g", "M8[s]", (1,), fill_value="2000-01-01")
    assert np.isnat(T[...]).all()
    assert np.isnat(T.fill_value)
    assert np.isnat(R[0]["t"]).all()
    assert R[0]["n"] == 0
    assert given[0] == np.datetime64("2000-01-01", "s")


def test_units_convert_where_every_instant_stays(container):
    T = container.create_variable("t", "datetime64[s]", (3,))
    T[0] = "2026-01-31T12:30"
    T[1] = dt.datetime(2026, 2, 1, 1, 2, 3)
    T[2] = np.datetime64("2026-02-02", "D")
    assert [str(one) for one in T[...]] == [
        "2026-01-31T12:30:00",
        "2026-02-01T01:02:03",
        "2026-02-02T00:00:00",
    ]
    T[...] = np.array(["2026-01-01T00:00:01.000", "NaT", "1900-01-01"], "M8[ms]")
    assert np.isnat(T[1])
    T[0:2] = ["2027-01-01", "2028-01-01"]
    assert T[1] == np.datetime64("2028-01-01")
    with container.writer() as w:
        w.put("t", np.array(["2030", "2031", "2032"], "M8[Y]"))
    assert T[2] == np.datetime64("2032-01-01")


@pytest.mark.parametrize(
    ("dtype", "value", "why"),
    [
        ("M8[s]", np.array(["2026-01-01T00:00:00.5"], "M8[ms]"), "does not fit"),
        ("M8[ns]", np.array(["2300-01-01"], "M8[s]"), "does not fit"),
        ("M8[s]", np.array([1]), "another kind"),
        ("m8[s]", np.array([1]), "another kind"),
        ("m8[s]", np.array([1], "M8[s]"), "another kind"),
        ("M8[s]", "no time", "does not fit"),
        ("M8[s]", 5, "does not fit|another kind"),
        ("i8", np.array([1], "M8[s]"), "another kind"),
    ],
)
def test_what_would_be_another_time_is_refused(container, dtype, value, why):
    T = container.create_variable("t", dtype, (1,))
    with pytest.raises(InvalidArgumentError, match=why):
        T[...] = value
    if isinstance(value, np.ndarray):
        with container.writer() as w, pytest.raises(InvalidArgumentError, match=why):
            w.put("t", value)


def test_a_time_without_a_unit_is_refused(container):
    with pytest.raises(InvalidArgumentError, match="no unit"):
        container.create_variable("t", "M8", (1,))


def test_the_meaning_is_part_of_a_variables_type(container):
    container.create_variable("t", "M8[s]", (1,))
    container.create_variable("t", "M8[s]", (1,))
    for other in ("M8[ms]", "m8[s]", "i8"):
        with pytest.raises(dry.ConflictError, match=r"datetime64\[s\]"):
            container.create_variable("t", other, (1,))


def test_extremes_of_times_are_times(container):
    T = container.create_variable("t", "M8[D]", (2,))
    T[...] = np.array(["2026-01-01", "2027-01-01"], "M8[D]")
    container.commit()
    (block,) = T.blocks()
    assert (block.min, block.max) == (np.datetime64("2026-01-01"), np.datetime64("2027-01-01"))
    assert T.value_range("2026-06-01", "2028-01-01").values.tolist() == [dt.date(2027, 1, 1)]


# Enumerations


@pytest.mark.parametrize("base", ["u1", "i1", "u2", "i4", "u8", "i8"])
def test_an_enumeration_keeps_names_and_numbers(tmp_path, base):
    h5py = pytest.importorskip("h5py")
    kind = dry.enum(COLOURS, base)
    assert h5py.check_enum_dtype(kind) == COLOURS
    assert kind == h5py.enum_dtype(COLOURS, base)
    with dry.create(tmp_path / "a.dry") as c:
        V = c.create_variable("v", kind, (4,))
        V[...] = ["red", "blue", "dark green", "red"]
        V[3] = 7
        c.create_variable("r", [("v", kind), ("w", kind, (2,))], (1,))
        c.attrs["colour"] = np.array([3], kind)
    with dry.open(tmp_path / "a.dry", mode="r+") as c:
        V = c["v"]
        assert V.dtype == base
        assert dry.enum_names(V.dtype) == COLOURS
        assert V[...].tolist() == [0, 7, 3, 7]
        assert dry.enum_names(V[...].dtype) == COLOURS
        assert dry.enum_names(c["r"].dtype["w"].base) == COLOURS
        assert dry.enum_names(c.attrs["colour"].dtype) == COLOURS
        V[0] = 5  # as in HDF5, integers need no name
        assert V[0] == 5


def test_enumerations_are_made_of_many_things():
    class Phase(enum.IntEnum):
        SOLID = 1
        FLUID = 300

    assert dry.enum(Phase) == np.dtype("u2")
    assert dry.enum_names(dry.enum(Phase)) == {"SOLID": 1, "FLUID": 300}
    assert dry.enum_names(dry.enum(["a", "b"])) == {"a": 0, "b": 1}
    assert dry.enum({"a": -1}) == np.dtype("i1")
    assert dry.enum_names("u1") is None
    for wrong in ({}, {"a": 1.5}, ["a", "a"], {"a": 2**70}):
        with pytest.raises(InvalidArgumentError):
            dry.enum(wrong)
    with pytest.raises(InvalidArgumentError, match="one integer type"):
        dry.enum({"a": 256}, "u1")


@pytest.mark.parametrize(
    "value", ["green", ["red", "green"], np.array([1], np.dtype("u1", metadata={"enum": {"x": 1}}))]
)
def test_what_has_no_name_there_is_refused(container, value):
    V = container.create_variable("v", dry.enum(COLOURS), (2,))
    with pytest.raises(InvalidArgumentError, match=r"named|names"):
        V[...] = value
    with container.writer() as w, pytest.raises(InvalidArgumentError, match=r"named|names"):
        w.put("v", value)


def test_names_twice_or_of_wrong_numbers_are_refused(container):
    twice = np.dtype("u1", metadata={"enum": {"a": 1, "b": 1}})
    with pytest.raises(InvalidArgumentError, match="has a name"):
        container.create_variable("v", twice, (2,))
    beyond = np.dtype("u1", metadata={"enum": {"a": 300}})
    with pytest.raises(InvalidArgumentError, match="no uint8"):
        container.create_variable("v", beyond, (2,))


# Conditions


@pytest.fixture
def measured(container):
    container.create_variable("t", "M8[D]", (5,), dims=("x",))[...] = np.array(
        ["2026-01-01", "2026-01-02", "NaT", "2026-01-03", "1960-05-05"], "M8[D]"
    )
    container.create_variable("d", "m8[s]", (5,), dims=("x",))[...] = np.array([1, 90, 3600, 7, -5], "m8[s]")
    container.create_variable("v", dry.enum(COLOURS), (5,), dims=("x",))[...] = [0, 3, 7, 7, 1]
    container.commit()
    return container


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t > '2026-01-01'", [1, 3]),
        ("t >= '2026-01-01T12'", [1, 3]),
        ("t < '2026-01-01T12'", [0, 4]),
        ("t <= '2026-01-02'", [0, 1, 4]),
        ("t == '2026-01-02'", [1]),
        ("t == '2026-01-02T01'", []),
        ("t != '2026-01-02'", [0, 2, 3, 4]),
        ("'2026-01-01' < t", [1, 3]),
        ("'2026-01-01' <= t < '2026-01-03'", [0, 1]),
        ("d >= '1.5 m'", [1, 2]),
        ("d < '0 s'", [4]),
        ("v == 'blue' & t > '2000-01-01'", [3]),
        ("v != 'red'", [1, 2, 3, 4]),
    ],
)
def test_conditions_compare_with_texts(measured, text, expected):
    assert measured.query(text).coords().ravel().tolist() == expected
    found = drystone("query", measured.path, text, "--coords", "--json")
    assert [row[0] for row in json.loads(found)["coords"]] == expected


def test_conditions_compare_with_objects(measured):
    t, d, v = measured["t"], measured["d"], measured["v"]
    for condition, expected in [
        (t > np.datetime64("2026-01-01"), [1, 3]),
        (t <= dt.date(2026, 1, 2), [0, 1, 4]),
        (t == np.datetime64("2026-01-02"), [1]),
        (d > np.timedelta64(2, "m"), [2]),
        (d == dt.timedelta(seconds=90), [1]),
        ((v == "blue") & (t > "2000"), [3]),
        (dry.expr.ne(v, "red"), [1, 2, 3, 4]),
    ]:
        assert measured.query(condition).coords().ravel().tolist() == expected, condition


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("t > 'tomorrow'", "not an instant"),
        ("v == 'green'", "no value is named"),
        ("v > 'red'", "equal or not"),
        ("d > '2026-01-01'", "not a duration"),
        ("d > '1 M'", "not a duration"),
        ("t + '1' > 3", "compared with a variable"),
        ("t * 2 > '2026'", "computed"),
    ],
)
def test_a_text_that_means_nothing_is_refused(measured, text, why):
    with pytest.raises(InvalidArgumentError, match=why):
        measured.query(text).count()


def test_nat_and_texts_elsewhere_are_refused(measured):
    with pytest.raises(InvalidArgumentError, match="NaT"):
        _ = measured["t"] > np.datetime64("NaT")
    with pytest.raises(InvalidArgumentError, match="quer"):
        _ = dry.expr.parse("t > '2026'", measured).dtype


def test_values_at_hits_have_their_dtype(measured):
    q = measured.query("v == 'blue'")
    assert q.values("t").dtype == np.dtype("M8[D]")
    assert dry.enum_names(q.values("v").dtype) == COLOURS


# Commands


def test_commands_show_times_and_names(measured, tmp_path):
    assert "datetime64[D]" in drystone("ls", measured.path)
    shown = drystone("dump", measured.path, "t")
    assert "2026-01-02" in shown
    assert "NaT" in shown
    assert json.loads(drystone("dump", measured.path, "t", "--json"))["values"][:3] == [
        "2026-01-01",
        "2026-01-02",
        None,
    ]
    assert "dark green" in drystone("dump", measured.path, "v")
    assert json.loads(drystone("dump", measured.path, "v", "--json"))["values"] == [0, 3, 7, 7, 1]
    assert "90 s" in drystone("dump", measured.path, "d")


# Other formats


def test_npy_and_csv_hold_times(measured, tmp_path):
    dry.export(measured.path, tmp_path / "t.npy", "t")
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), measured["t"][...])
    assert dry.import_file(tmp_path / "t.npy", tmp_path / "c.dry").lost == []
    with dry.open(tmp_path / "c.dry") as c:
        np.testing.assert_array_equal(c["t"][...], measured["t"][...])
    dry.export(measured.path, tmp_path / "t.csv", "t")
    assert "2026-01-02" in (tmp_path / "t.csv").read_text()


def test_hdf5_holds_enumerations_and_times_with_units(measured, tmp_path):
    h5py = pytest.importorskip("h5py")
    measured.create_variable("p", "M8[ps]", (1,))[0] = np.datetime64(5, "ps")
    measured.commit()
    dry.export(measured.path, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as f:
        assert h5py.check_enum_dtype(f["v"].dtype) == COLOURS
        assert f["v"][...].tolist() == [0, 3, 7, 7, 1]
        assert f["t"].attrs["units"] == "days since 1970-01-01"
        np.testing.assert_array_equal(f["t"][...], measured["t"][...].view("i8"))
        assert f["d"].attrs["units"] == "seconds"
        assert f["p"].attrs["numpy_dtype"] == "datetime64[ps]"
        assert f["p"][0] == 5
    assert dry.import_file(tmp_path / "a.h5", tmp_path / "b.dry").lost == []
    with dry.open(tmp_path / "b.dry") as c:
        assert dry.enum_names(c["v"].dtype) == COLOURS
        assert c["v"][...].tolist() == [0, 3, 7, 7, 1]


def test_netcdf_holds_enumerations_where_every_value_has_a_name(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    with dry.create(tmp_path / "a.dry") as c:
        c["v"] = np.array([0, 3, 7], dry.enum(COLOURS, "i2"))
        c["w"] = np.array([0, 3, 5], dry.enum(COLOURS, "i2"))
        c["t"] = np.array(["2026-01-01", "NaT"], "M8[h]")
    with pytest.warns(dry.DrystoneWarning, match="enumeration"):
        lost = dry.export(tmp_path / "a.dry", tmp_path / "a.nc").lost
    assert len(lost) == 1
    assert lost[0].startswith("w: its type of an enumeration")
    with netCDF4.Dataset(tmp_path / "a.nc") as f:
        assert f["v"].datatype.enum_dict == COLOURS
        assert f["v"][...].tolist() == [0, 3, 7]
        assert f["w"].flag_meanings == "red dark_green blue"
        assert f["t"].units == "hours since 1970-01-01"
    assert dry.import_file(tmp_path / "a.nc", tmp_path / "b.dry").lost == []
    with dry.open(tmp_path / "b.dry") as c:
        assert dry.enum_names(c["v"].dtype) == COLOURS


def test_xarray_gets_times_without_decoding(tmp_path):
    xr = pytest.importorskip("xarray")
    with dry.create(tmp_path / "a.dry") as c:
        for unit in ("Y", "D", "h", "s", "ns", "ps"):
            c.create_variable(unit, f"M8[{unit}]", (2,), dims=("x",))[...] = np.array(
                [3, "NaT"], f"M8[{unit}]"
            )
        c.create_variable("d", "m8[h]", (2,), dims=("x",))[...] = np.array([3, "NaT"], "m8[h]")
        c.create_variable("v", dry.enum(COLOURS), (2,), dims=("x",))[...] = [0, 7]
        c.commit()
    for decode in (True, False):
        with xr.open_dataset(tmp_path / "a.dry", engine="drystone", decode_times=decode) as ds:
            assert ds["ns"].dtype == "M8[ns]"
            assert ds["s"].dtype == ds["D"].dtype == ds["Y"].dtype == "M8[s]"
            assert ds["D"].values[0] == np.datetime64("1970-01-04")
            assert np.isnat(ds["D"].values[1])
            assert ds["d"].values[0] == np.timedelta64(3, "h")
            assert ds["ps"].dtype == "i8"
            assert ds["ps"].attrs["numpy_dtype"] == "datetime64[ps]"
            assert dry.enum_names(ds["v"].encoding["dtype"]) == COLOURS
            ds = ds.load()
    ds.to_netcdf(tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", decode_timedelta=True) as back:
        assert dry.enum_names(back["v"].encoding["dtype"]) == COLOURS
        assert back["s"].values[0] == ds["s"].values[0]
        import drystone.xarray  # noqa: F401

        back.drystone.to_container(tmp_path / "b.dry")
    with dry.open(tmp_path / "b.dry") as c:
        assert dry.enum_names(c["v"].dtype) == COLOURS


def test_xarray_appends_to_stored_times(tmp_path):
    xr = pytest.importorskip("xarray")
    import drystone.xarray  # noqa: F401

    first = np.datetime64("2026-01-01T06", "ns")
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("t", "M8[ms]", (), steps=True)
        c.create_variable("d", "m8[s]", (), steps=True)
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("t", first)
            w.put("d", np.timedelta64(1, "h"))
    more = xr.Dataset(
        {
            "t": ("step", np.array(["2026-01-01T12", "2026-01-01T18"], "M8[ns]")),
            "d": ("step", np.array([2, 3], "m8[h]").astype("m8[ns]")),
        }
    )
    more.drystone.to_container(tmp_path / "a.dry", append_dim="step")
    with dry.open(tmp_path / "a.dry") as c:
        assert c["t"].dtype == "M8[ms]"
        assert c["t"][2] == np.datetime64("2026-01-01T18")
        assert c["d"][...].tolist() == [dt.timedelta(hours=n) for n in (1, 2, 3)]


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.filterwarnings("ignore:.*[Zz]arr.*")
def test_the_replica_and_the_store_show_times(tmp_path):
    zarr = pytest.importorskip("zarr")
    xr = pytest.importorskip("xarray")
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("t", "M8[25s]", (3,), dims=("x",))[...] = np.array([1, "NaT", 3], "M8[25s]")
        c.create_variable("n", "M8[ns]", (3,), dims=("x",))[...] = np.array([1, "NaT", 3], "M8[ns]")
        c.create_variable("v", dry.enum(COLOURS), (3,), dims=("x",))[...] = [0, 3, 7]
        c.create_variable("r", [("t", "m8[s]"), ("v", dry.enum(COLOURS))], (1,))[...] = (5, 3)
        c.commit()
        c.publish()
        expected = {name: c[name][...] for name in ("t", "n", "v")}
        from drystone.zarr_store import DrystoneStore

        for root in (
            zarr.open_group(tmp_path / "a.dry" / "zarr", mode="r"),
            zarr.open_group(DrystoneStore(c), mode="r"),
        ):
            for name, values in expected.items():
                assert root[name].dtype == values.dtype
                np.testing.assert_array_equal(root[name][...], values)
            assert root["v"].attrs["flag_values"] == [0, 3, 7]
            assert root["v"].attrs["flag_meanings"] == "red dark_green blue"
            assert root["r/t"].dtype == "m8[s]"
            assert root["r/v"].attrs["flag_values"] == [0, 3, 7]
    with xr.open_zarr(tmp_path / "a.dry" / "zarr", consolidated=False) as ds:
        np.testing.assert_array_equal(ds["n"].values, expected["n"])


@pytest.mark.filterwarnings("ignore:.*[Zz]arr.*")
def test_arrays_made_through_zarr_are_times(tmp_path):
    zarr = pytest.importorskip("zarr")
    from drystone.zarr_store import DrystoneStore

    values = np.array(["2026-01-01", "NaT", "2027-01-01", "2028-01-01"], "M8[s]")
    with dry.create(tmp_path / "a.dry") as c:
        root = zarr.open_group(DrystoneStore(c), mode="a")
        root.create_array("t", data=values, chunks=(3,))
        c.refresh()
        assert c["t"].dtype == "M8[s]"
        np.testing.assert_array_equal(c["t"][...], values)
        np.testing.assert_array_equal(root["t"][...], values)


def test_published_hdf5_and_netcdf_have_cf_times(tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    values = np.array(["2026-01-01", "NaT", "2027-01-01"], "M8[s]")
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("t", "M8[s]", (3,), dims=("x",))[...] = values
        c.create_variable("v", dry.enum(COLOURS), (3,), dims=("x",))[...] = [0, 3, 7]
        c.commit()
        c.publish(format="netcdf", path=tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc") as ds:
        np.testing.assert_array_equal(ds["t"].values.astype("M8[s]"), values)
        assert ds["v"].attrs["flag_meanings"] == "red dark_green blue"
        assert ds["v"].values.tolist() == [
            0,
            3,
            7,
        ]


def test_tables_have_times(measured):
    pa = pytest.importorskip("pyarrow")
    table = pa.table(measured.table(columns=["t", "d", "v"]))
    assert str(table.schema.field("t").type) == "timestamp[s]"
    assert str(table.schema.field("d").type) == "duration[s]"
    assert table.column("t").to_pylist()[1:3] == [dt.datetime(2026, 1, 2), None]
    assert table.column("d").to_pylist()[1] == dt.timedelta(seconds=90)
    assert table.column("v").to_pylist() == [0, 3, 7, 7, 1]
    import pyarrow.compute as pc

    late = measured.dataset().to_table(filter=pc.field("t") > dt.datetime(2026, 1, 1), columns=["t"])
    assert late.column("t").to_pylist() == [dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 3)]


def test_times_are_coordinates(container, tmp_path):
    container.create_variable("time", "M8[D]", (3,), dims=("time",))[...] = np.array([0, 1, 2], "M8[D]")
    container.create_variable("x", "f4", (3,), dims=("time",))[...] = [1, 2, 3]
    container.commit()
    dry.export(container.path, tmp_path / "x.csv", "x")
    assert "1970-01-02" in (tmp_path / "x.csv").read_text()
    assert dry.plot(container.path, "x", output=tmp_path / "x.png")
    assert (tmp_path / "x.png").exists()


def test_csv_has_texts_of_bytes_and_times(tmp_path):
    """Symptom: CSV had Python's `b'abc'` and `-1 day, 23:59:55`, and a bare integer for a time after the year 9999."""
    with dry.create(tmp_path / "c.dry") as c:
        c["s"] = np.array([b"abc", b"a\xff\\"])
        c["d"] = np.array([90, -5], "m8[s]")
        c["f"] = np.array([2**60, "NaT"], "M8[ms]")
        c["r"] = np.array([(b"x", -5, [1, 2])], [("a", "S2"), ("t", "m8[s]"), ("v", "i2", (2,))])
        for name, lines in {
            "s": ["abc", r"a\xff\\"],
            "d": ["90 seconds", "-5 seconds"],
            "f": ["36536598-01-28T21:54:06.976", "NaT"],
            "r": ['x,-5 seconds,"[1, 2]"'],
        }.items():
            dry.export(c, tmp_path / "x.csv", name, overwrite=True)
            found = (tmp_path / "x.csv").read_text().splitlines()[1:]
            assert found == [f"{n},{line}" for n, line in enumerate(lines)]
