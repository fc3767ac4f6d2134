"""Lists of numbers of any length, and references: written, read, copied, imported and exported."""

import json
from pathlib import Path

import drystone as dry
import h5py
import netCDF4
import numpy as np
import pytest
from command_line import drystone
from drystone.errors import ConflictError, DrystoneWarning, InvalidArgumentError

LISTS = [[1.5, 2.5], [], [3.0, 4.0, 5.0], [6.0]]


def listed(values):
    """Convert any representation to nested lists."""
    return [np.asarray(one).tolist() for one in np.ravel(np.asarray(values, object))]


@pytest.fixture
def run(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        yield c


def arrays(values, dtype="f4"):
    out = np.empty(len(values), object)
    out[:] = [np.array(one, dtype) for one in values]
    return out


def test_lists_of_every_type_of_number_come_back_bit_for_bit(run):
    for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"):
        v = run.create_variable(f"v_{name[0] if name != '?' else 'b'}{name[1:]}", dry.ragged(name), (3,))
        given = [np.arange(n).astype(name) for n in (0, 5, 2)]
        v[...] = arrays([one.tolist() for one in given], name)
        run.commit()
        for n, one in enumerate(given):
            found = v[n]
            assert found.dtype == np.dtype(name)
            assert np.array_equal(found, one)
        assert dry.ragged_element(v.dtype) == np.dtype(name)
        assert v.dtype.kind == "O"


@pytest.mark.parametrize(
    "given",
    [LISTS, tuple(LISTS), arrays(LISTS), [np.array(one) for one in LISTS]],
    ids=["lists", "tuple", "object array", "arrays in a list"],
)
def test_lists_are_taken_in_the_forms_that_people_have(run, given):
    v = run.create_variable("v", dry.ragged("f8"), (4,))
    v[...] = given
    run.commit()
    with run.writer() as w:
        w.put("v", given[:2] if not isinstance(given, tuple) else list(given[:2]), offset=2)
    assert listed(v[...]) == LISTS[:2] + LISTS[:2]
    assert listed(v[1:3]) == [[], [1.5, 2.5]]
    assert listed(v.oindex[[3, 0]]) == [[], [1.5, 2.5]]
    assert v[3].shape == (0,)


def test_awkward_arrays_are_taken_and_given(run):
    ak = pytest.importorskip("awkward")
    v = run.create_variable("v", dry.ragged("f8"), (4,))
    v[...] = ak.Array(LISTS)
    assert ak.unflatten(*dry.flattened(v[...])).tolist() == LISTS
    v[1:3] = ak.Array([[7], []])
    assert listed(v[...]) == [LISTS[0], [7], [], LISTS[3]]
    deep = run.create_variable("deep", dry.ragged("i4"), (2, 2))
    deep[...] = ak.to_regular(ak.Array([[[1], []], [[2, 3], [4]]]), axis=1)
    assert [listed(row) for row in deep[...]] == [[[1], []], [[2, 3], [4]]]
    for wrong in (
        ak.Array([[1.5], None, [], [2]]),
        ak.Array([[[1]], [], [[2], [3]], []]),
        ak.Array(["a"] * 4),
    ):
        with pytest.raises((InvalidArgumentError, TypeError)):
            v[...] = wrong


def test_lists_are_numbers_in_a_row_and_lengths():
    lists = np.empty((2, 2), object)
    lists[:] = [
        [np.array([1, 2], "i4"), np.array([], "i4")],
        [np.array([3], "i4"), np.array([4, 5, 6], "i4")],
    ]
    values, counts = dry.flattened(lists)
    assert values.dtype == np.int32
    assert values.tolist() == [1, 2, 3, 4, 5, 6]
    assert counts.tolist() == [[2, 0], [1, 3]]
    back = dry.unflattened(values, counts)
    assert back.shape == (2, 2)
    assert listed(back.ravel()) == listed(lists.ravel())
    values, counts = dry.flattened(np.empty(0, object), dry.ragged("u2"))
    assert (values.dtype, values.shape, counts.shape) == (np.uint16, (0,), (0,))
    assert [one.tolist() for one in dry.flattened([[1.5], [2, 3]])] == [[1.5, 2, 3], [1, 2]]
    assert [np.asarray(one).tolist() for one in dry.flattened(np.array([1.5, 2]))] == [[1.5, 2], 2]
    for counts in ([1, 2], [4, -1], [1.5, 1.5], [[3]] * 2):
        with pytest.raises(InvalidArgumentError, match="add up"):
            dry.unflattened(np.arange(4)[:3] if counts[0] == 4 else np.arange(2), counts)


def test_xarray_has_lists_as_ragged_arrays_of_cf(run, tmp_path):
    import xarray as xr

    hits = run.create_variable("hits", dry.ragged("f4"), (3,), dims=("event",), attrs={"units": "keV"})
    hits[...] = [[1.5, 2.5], [], [3]]
    moved = run.create_variable("moved", dry.ragged("i8"), (2,), dims=("cell",), steps=True)
    for step, block in {0: [[1], [2, 3]], 2: [[], [4]]}.items():
        moved[step] = block
    run.create_variable("weight", "f8", (3,), dims=("event",))[...] = [1, 2, 3]
    run.commit()
    ds = xr.open_dataset(run.path, engine="drystone", lists=True)
    assert ds.hits.dims == ("hits_sample",)
    assert ds.hits.attrs == {"units": "keV"}
    assert ds.hits_count.attrs["sample_dimension"] == "hits_sample"
    assert ds.hits_count.dims == ("event",)
    assert ds.hits_count.values.tolist() == [2, 0, 1]
    assert ds.step.values.tolist() == [0, 2]
    assert ds.moved_count.dims == ("step", "cell")
    assert ds.moved.values.tolist() == [1, 2, 3, 4]
    ds.drystone.to_container(tmp_path / "back.dry", step_dim="step", lists=True)
    with dry.open(tmp_path / "back.dry") as c:
        assert list(c.keys()) == ["hits", "moved", "step", "weight"]
        assert listed(c["hits"][...]) == [[1.5, 2.5], [], [3]]
        assert c["hits"].dtype.metadata == {"vlen": np.dtype("f4")}
        assert (c["hits"].dims, dict(c["hits"].attrs)) == (("event",), {"units": "keV"})
        assert [listed(c["moved"][step]) for step in (0, 1)] == [[[1], [2, 3]], [[], [4]]]
        again = xr.open_dataset(c, engine="drystone", lists=True)
        assert again.identical(ds)
    # An indexed ragged array of CF, and one with an array along another axis too, which stays unchanged.
    index = xr.Dataset(
        {
            "t": ("obs", np.array([5.0, 6, 7])),
            "station": ("obs", np.array([1, 0, 1]), {"instance_dimension": "place"}),
            "name": ("place", ["a", "b"]),
        }
    )
    index.drystone.to_container(tmp_path / "index.dry", lists=True)
    with dry.open(tmp_path / "index.dry") as c:
        assert list(c.keys()) == ["name", "t"]
        assert listed(c["t"][...]) == [[6], [5, 7]]
    index["u"] = (("obs", "level"), np.zeros((3, 2)))
    index.drystone.to_container(tmp_path / "plain.dry", lists=True)
    with dry.open(tmp_path / "plain.dry") as c:
        assert c["t"].dtype == np.float64
    with pytest.raises(InvalidArgumentError, match="does not go with"):
        ds.drystone.to_container(tmp_path / "no.dry", lists=True, compute=False)
    wrong = ds.copy()
    wrong["hits_count"] = ds.hits_count + 1
    wrong["hits_count"].attrs = ds.hits_count.attrs
    with pytest.raises(InvalidArgumentError, match="add up"):
        wrong.drystone.to_container(tmp_path / "no.dry", lists=True)
    assert not (tmp_path / "no.dry").exists()


def test_zarr_holds_lists_as_ragged_arrays_of_cf(run, tmp_path):
    zarr = pytest.importorskip("zarr")
    import xarray as xr

    run.create_variable("deep/v", dry.ragged("i4"), (2, 2), dims=("x", "y"))[...] = [[[1], []], [[2, 3], [4]]]
    w = run.create_variable("w", dry.ragged("f8"), (1,), dims=("z",), steps=True)
    w[0] = [[1.5]]
    w[1] = [[]]
    run.create_variable("none", dry.ragged("f8"), (2,))
    run.commit()
    done = dry.export(run, tmp_path / "out.zarr", compression=3)
    assert done.lost == []
    root = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert root["deep/v"][:].tolist() == [1, 2, 3, 4]
    assert root["deep/v_count"][:].tolist() == [[1, 0], [2, 1]]
    with xr.open_zarr(tmp_path / "out.zarr", group="deep") as ds:
        assert ds.v.dims == ("v_sample",)
        assert ds.v_count.attrs["sample_dimension"] == "v_sample"
    assert dry.import_file(tmp_path / "out.zarr", tmp_path / "back.dry", steps="step").lost == []
    with dry.open(tmp_path / "back.dry") as c:
        assert [listed(row) for row in c["deep/v"][...]] == [[[1], []], [[2, 3], [4]]]
        assert [listed(c["w"][step]) for step in (0, 1)] == [[[1.5]], [[]]]
        assert listed(c["none"][...]) == [[], []]
        assert sorted(c.variables) == ["deep/v", "none", "w"]
    # Two variables of another program stay two: they are not marked as lists.
    two = xr.Dataset({"t": ("obs", [1.5, 2.5]), "n": ("place", [2, 0], {"sample_dimension": "obs"})})
    two.to_zarr(tmp_path / "two.zarr", zarr_format=3, consolidated=False)
    dry.import_file(tmp_path / "two.zarr", tmp_path / "plain.dry")
    with dry.open(tmp_path / "plain.dry") as c:
        assert (c["t"].dtype, c["n"].shape) == (np.float64, (2,))


def test_lists_of_equal_length_stay_lists(run):
    v = run.create_variable("v", dry.ragged("i4"), (2, 3), steps=True)
    v[0] = np.arange(24).reshape(2, 3, 4)
    assert v[0].shape == (2, 3)
    assert v[0, 1, 2].tolist() == [20, 21, 22, 23]
    assert v.shape == (1, 2, 3)
    assert v[0, :, 1].shape == (2,)


def test_an_unwritten_cell_is_an_empty_list(run):
    v = run.create_variable("v", dry.ragged("f4"), (3,), steps=True)
    v[1, 0:1] = [[7]]
    assert listed(v[1]) == [[7], [], []]
    assert listed(v[0]) == [[], [], []]
    assert v[0, 0].dtype == np.float32
    assert v.fill_value.shape == (0,)


def test_data_and_growing_axes(run):
    data = arrays(LISTS)
    v = run.create_variable("v", dry.ragged("f4"), data=data)
    assert listed(v[...]) == LISTS
    grows = run.create_variable("g", h5py.vlen_dtype("f4"), (None,))
    grows.append(data)
    grows.append(arrays([[9]]))
    assert listed(grows[...]) == [*LISTS, [9]]


def test_values_that_do_not_fit_are_refused(run):
    v = run.create_variable("v", dry.ragged("i2"), (2,))
    for wrong, said in [
        ([[1], [1 << 20]], "does not fit"),
        ([[1.5], [2]], "does not fit|of another kind"),
        ([["a"], [1]], "does not fit|of another kind"),
        ([[1], 2], "nested|is not a list"),
        ([[[1]], [2]], "is not a list"),
        (7, "holds lists"),
        ([[1], [2], [3]], "does not fit into"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            v[...] = wrong
    assert listed(v[...]) == [[], []]
    with pytest.raises(InvalidArgumentError, match="plain numbers"):
        dry.ragged("S3")
    with pytest.raises(InvalidArgumentError, match="no fill value"):
        run.create_variable("w", dry.ragged("i2"), (2,), fill_value=3)
    with pytest.raises(InvalidArgumentError, match="dtype object"):
        run.create_variable("w", object, (2,))


def test_the_same_variable_again_is_the_same_and_another_is_a_conflict(run):
    run.create_variable("v", dry.ragged("i4"), (2,))
    run.create_variable("v", h5py.vlen_dtype("i4"), (2,))
    for other in (dry.ragged("f4"), str, dry.reference(), "i4"):
        with pytest.raises(ConflictError):
            run.create_variable("v", other, (2,))
    run.create_variable("r", dry.reference(), (2,))
    for other in (str, dry.reference("region")):
        with pytest.raises(ConflictError):
            run.create_variable("r", other, (2,))


def test_lists_are_copied_shown_and_survive_their_writer(run, tmp_path):
    run.create_variable("v", dry.ragged("f4"), (4,), dims=("event",), transform="zstd:1")[...] = LISTS
    run.create_variable("r", dry.reference(), (2,))[...] = ["v", ""]
    run.commit()
    with run.copy(tmp_path / "copy.dry") as c:
        assert listed(c["v"][...]) == LISTS
        assert dry.ragged_element(c["v"].dtype) == np.float32
        assert dry.reference_kind(c["r"].dtype) == "object"
        assert c["r"][...].tolist() == ["v", ""]
        assert c.verify().ok
        assert dry.diff(run, c) == []
        c["v"][1:2] = [[9.0]]
        c.commit()
        assert "1 of 4 values" in str(dry.diff(run, c)[0])
    assert "ragged(float32)" in repr(run["v"])
    assert "ragged(float32)" in drystone("ls", run.path)
    dumped = drystone("dump", run.path, "v")
    assert "[1.5, 2.5]" in dumped
    assert "[]" in dumped
    assert json.loads(drystone("dump", run.path, "v", "--json"))["values"] == LISTS


def test_hdf5_files_keep_lists_references_and_their_attributes(run, tmp_path):
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as f:
        f["fields/T"] = np.arange(24.0).reshape(4, 6)
        hits = f.create_dataset("hits", (2, 2), h5py.vlen_dtype("i4"))
        hits[0, 0], hits[1, 1] = [1, 2, 3], [4]
        same = f.create_dataset("same", (3,), h5py.vlen_dtype("f8"))
        for n in range(3):
            same[n] = [n, n + 0.5]
        f.create_dataset("one", (), h5py.vlen_dtype("u2"))[()] = np.array([7, 8], "u2")
        f.create_dataset("to", data=[f["fields/T"].ref, f["fields"].ref, f.ref], dtype=h5py.ref_dtype)
        parts = f.create_dataset("parts", (2,), h5py.regionref_dtype)
        parts[0] = f["fields/T"].regionref[1:3, 2:5]
        f["hits"].attrs["about"] = f["fields/T"].ref
        ragged = np.empty(2, object)
        ragged[:] = [np.array([1.0, 2.0]), np.array([3.0])]
        f["hits"].attrs.create("edges", ragged, dtype=h5py.vlen_dtype("f8"))
    imported = dry.import_file(path, tmp_path / "in.dry")
    assert imported.lost == []
    with dry.open(tmp_path / "in.dry") as c:
        assert listed(c["hits"][...]) == [[1, 2, 3], [], [], [4]]
        assert c["hits"].shape == (2, 2)
        assert listed(c["same"][...]) == [[0, 0.5], [1, 1.5], [2, 2.5]]
        assert c["one"][()].tolist() == [7, 8]
        assert c["to"][...].tolist() == ["fields/T", "fields", "/"]
        assert dry.reference_kind(c["parts"].dtype) == "region"
        assert c["parts"][...].tolist() == ["fields/T[1:3, 2:5]", ""]
        assert c["hits"].attrs["about"] == "fields/T"
        assert [one.tolist() for one in c["hits"].attrs["edges"]] == [[1.0, 2.0], [3.0]]
        exported = dry.export(c, tmp_path / "out.h5")
    assert exported.lost == []
    with h5py.File(tmp_path / "out.h5") as f, h5py.File(path) as before:
        assert listed(f["hits"].attrs["edges"]) == [[1.0, 2.0], [3.0]]
        for name in ("hits", "same", "one"):
            assert h5py.check_vlen_dtype(f[name].dtype) == h5py.check_vlen_dtype(before[name].dtype)
            assert listed(f[name][()]) == listed(before[name][()])
        assert [f[ref].name for ref in f["to"]] == ["/fields/T", "/fields", "/"]
        assert f["fields/T"][f["parts"][0]].tolist() == before["fields/T"][before["parts"][0]].tolist()
        assert not f["parts"][1]


def test_a_reference_to_what_is_not_exported_is_named(run, tmp_path):
    run.create_variable("r", dry.reference(), (2,))[...] = ["gone", "r"]
    run.create_variable("p", dry.reference("region"), (3,))[...] = ["r[0:9]", "r[0:1]", "nonsense"]
    run.commit()
    with pytest.warns(DrystoneWarning, match="not in the file"):
        exported = dry.export(run, tmp_path / "out.h5")
    assert len(exported.lost) == 3
    assert all("is not in the file" in what for what in exported.lost)
    with h5py.File(tmp_path / "out.h5") as f:
        assert not f["r"][0]
        assert f[f["r"][1]].name == "/r"
        assert not f["p"][0]
        assert not f["p"][2]
        assert f["p"][1]


def test_netcdf_files_keep_lists(run, tmp_path):
    run.create_variable("v", dry.ragged("i4"), (2, 2), dims=("y", "x"))[...] = [[[1], []], [[2, 3], [4, 5]]]
    run.create_variable("w", dry.ragged("f4"), (2,), dims=("x",), steps=True)[0] = [[1.5], [2.5, 3.5]]
    run.create_variable("c", dry.ragged("c8"), (1,))[...] = [[1j]]
    run.create_variable("r", dry.reference(), (1,))[...] = ["v"]
    run.commit()
    with pytest.warns(DrystoneWarning):
        exported = dry.export(run, tmp_path / "out.nc")
    assert exported.lost == ["c (netCDF-4 has no lists of complex64)"]
    with netCDF4.Dataset(tmp_path / "out.nc") as f:
        assert isinstance(f["v"].datatype, netCDF4.VLType)
        assert f["v"].datatype.dtype == np.int32
        assert listed(f["v"][:]) == [[1], [], [2, 3], [4, 5]]
    imported = dry.import_file(tmp_path / "out.nc", tmp_path / "back.dry")
    assert not [what for what in imported.lost if "step" not in what]
    with dry.open(tmp_path / "back.dry") as c:
        assert listed(c["v"][...]) == [[1], [], [2, 3], [4, 5]]
        assert listed(c["w"][...]) == [[1.5], [2.5, 3.5]]


def test_what_has_no_lists_says_so(run, tmp_path):
    run.create_variable("v", dry.ragged("i4"), (2,), dims=("x",))[...] = [[1], [2, 3]]
    run.create_variable("t", "f4", (2,), dims=("x",))[...] = 1
    run.commit()
    for suffix in ("npy", "csv"):
        with pytest.raises(InvalidArgumentError, match=r"take \.h5 or \.nc"):
            dry.export(run, tmp_path / f"out.{suffix}", "v")
    with dry.open(run.path, "r+") as c:
        report = c.publish()
        assert list(report.skipped) == ["v"]
        assert "lists of numbers" in report.skipped["v"]
    import xarray as xr

    with (
        pytest.warns(DrystoneWarning, match="lists of numbers"),
        xr.open_dataset(run.path, engine="drystone") as ds,
    ):
        assert list(ds.data_vars) == ["t"]
    with pytest.raises(InvalidArgumentError, match="lists of numbers"):
        run.query("v > 1").count()


def test_references_are_texts_that_keep_their_kind(run):
    r = run.create_variable("r", dry.reference("region"), (2,), steps=True)
    r[0] = ["fields/T[0:2, 4:8]", ""]
    run.create_variable("h", h5py.ref_dtype, (1,))[...] = ["r"]
    run.commit()
    assert r[0].tolist() == ["fields/T[0:2, 4:8]", ""]
    assert dry.reference_kind(r.dtype) == "region"
    assert dry.reference_kind(run["h"].dtype) == "object"
    assert dry.reference_kind("f4") is None
    assert "reference(region)" in repr(r)
    with pytest.raises(InvalidArgumentError, match="object"):
        dry.reference("group")
    with pytest.raises(InvalidArgumentError, match="holds strings"):
        r[0] = [1, 2]


@pytest.mark.parametrize("suffix", ["zarr", "nc", "h5"])
def test_references_go_into_files_and_come_back(run, tmp_path, suffix):
    run.create_variable("d", "f4", (4,), dims=("x",))[...] = 1
    run.create_variable("r", dry.reference("region"), (2,), dims=("n",))[...] = ["d[0:2]", "d[1:4]"]
    run.create_variable("o", dry.reference(), (2,), dims=("n",))[...] = ["d", ""]
    run.commit()
    exported = dry.export(run, tmp_path / f"out.{suffix}")
    assert exported.lost == []
    assert dry.import_file(tmp_path / f"out.{suffix}", tmp_path / "back.dry").lost == []
    with dry.open(tmp_path / "back.dry") as c:
        assert dry.reference_kind(c["r"].dtype) == "region"
        assert dry.reference_kind(c["o"].dtype) == "object"
        assert c["r"][...].tolist() == ["d[0:2]", "d[1:4]"]
        assert c["o"][...].tolist() == ["d", ""]
        assert "drystone_reference" not in c["r"].attrs


def test_references_go_through_xarray(run, tmp_path):
    import xarray as xr

    run.create_variable("r", dry.reference("region"), (2,), dims=("n",))[...] = ["d[0:2]", ""]
    run.commit()
    with xr.open_dataset(run.path, engine="drystone") as ds:
        assert ds.r.values.tolist() == ["d[0:2]", ""]
        ds.drystone.to_container(tmp_path / "back.dry")
        ds.to_netcdf(tmp_path / "texts.nc")
    with dry.open(tmp_path / "back.dry") as c:
        assert dry.reference_kind(c["r"].dtype) == "region"
        assert c["r"][...].tolist() == ["d[0:2]", ""]
    texts = xr.Dataset({"r": ("n", np.array(["a"], object))})
    with pytest.raises(InvalidArgumentError, match="group"):
        texts.drystone.to_container(tmp_path / "no.dry", encoding={"r": {"reference": "group"}})


def test_a_damaged_list_is_an_error_and_no_number(run):
    run.create_variable("v", dry.ragged("f8"), (2,))[...] = [[1.0, 2.0], [3.0]]
    run.flush()
    stored = np.array([1.0, 2.0]).tobytes()
    (segment,) = [file for file in Path(run.path).glob("log/*.seg") if stored in file.read_bytes()]
    data = bytearray(segment.read_bytes())
    data[data.index(stored)] ^= 1
    segment.write_bytes(bytes(data))
    with dry.open(run.path) as c:
        with pytest.raises(dry.CorruptError):
            c["v"][0]
        assert c["v"][1].tolist() == [3.0]


@pytest.mark.parametrize("suffix", ["h5", "nc", "zarr"])
@pytest.mark.parametrize("values", [[], [1.5], [1.5, 2.5]])
def test_one_list_without_axes_comes_back(tmp_path, suffix, values):
    """Symptom: netCDF4 returns a list of one number as that number, and the import failed."""
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("r", dry.ragged("f4"), ())[...] = np.array(values, "f4")
        dry.export(c, tmp_path / f"r.{suffix}")
    dry.import_file(tmp_path / f"r.{suffix}", tmp_path / "b.dry")
    with dry.open(tmp_path / "b.dry") as c:
        assert c["r"][...].item().tolist() == values
