"""Compound types of HDF5 with members of any length: taken over from files, given to them, and compared."""

import json

import drystone as dry
import h5py
import numpy as np
import pytest
import xarray as xr
import zarr
from command_line import drystone
from drystone.errors import CorruptError, DrystoneWarning, InvalidArgumentError

TEXT = h5py.string_dtype()
PART = np.dtype([("unit", h5py.string_dtype("ascii")), ("n", "i2")])
ROW = np.dtype(
    [
        ("id", ">i4"),
        ("name", TEXT),
        ("hits", h5py.vlen_dtype("f4")),
        ("of", h5py.ref_dtype),
        ("where", h5py.regionref_dtype),
        ("tags", TEXT, (2,)),
        ("part", PART),
        ("kind", h5py.enum_dtype({"a": 1, "b": 2}, "i1")),
        ("ok", "?"),
    ]
)


def rows(file):
    target = file["grid/T"]
    out = np.empty(4, ROW)
    for n in range(4):
        names = ["", "石垣", "x" * 300, "plain"]
        out[n] = (
            n,
            names[n],
            np.arange(n, dtype="f4"),
            target.ref if n else h5py.Reference(),
            target.regionref[n : n + 1, 0:2] if n else h5py.RegionReference(),
            [f"t{n}", ""],
            (f"m{n}", n),
            1 + n % 2,
            n > 1,
        )
    return out


def made(path):
    with h5py.File(path, "w") as file:
        file["grid/T"] = np.arange(20.0).reshape(5, 4)
        file.create_dataset("rows", data=rows(file), chunks=(3,), maxshape=(None,))
        file.create_dataset("one", data=rows(file)[2])
        file["rows"].attrs["title"] = "a table"


def plain(value):
    """Records as lists, with all that NumPy and h5py wrap in their own types unwrapped."""
    if isinstance(value, np.void):
        return [plain(value[name]) for name in value.dtype.names]
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value] if value.ndim else plain(value[()])
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value


def expected(n):
    names = ["", "石垣", "x" * 300, "plain"]
    of, where = ("grid/T", f"grid/T[{n}:{n + 1}, 0:2]") if n else ("", "")
    return [
        n,
        names[n],
        [float(k) for k in range(n)],
        of,
        where,
        [f"t{n}", ""],
        [f"m{n}", n],
        1 + n % 2,
        n > 1,
    ]


@pytest.fixture
def imported(tmp_path):
    made(tmp_path / "in.h5")
    drystone("import", tmp_path / "in.h5", tmp_path / "run.dry")
    with dry.open(tmp_path / "run.dry") as c:
        yield c


def test_a_compound_of_any_length_is_taken_over_with_all_of_its_members(imported):
    v = imported["rows"]
    assert [plain(row) for row in v[...]] == [expected(n) for n in range(4)]
    assert v.growable == (True,)
    assert v.attrs["title"] == "a table"
    assert dry.enum_names(v["kind"].dtype) == {"a": 1, "b": 2}
    assert dry.reference_kind(v["of"].dtype) == "object"
    assert dry.reference_kind(v["where"].dtype) == "region"
    assert plain(imported["one"][()]) == expected(2)
    assert plain(v["part.unit"][...]) == [f"m{n}" for n in range(4)]


def test_it_is_given_back_as_it_was(imported, tmp_path):
    drystone("export", imported.path, tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        found = file["rows"]
        assert found.dtype["name"].metadata == {"vlen": str}
        assert h5py.check_vlen_dtype(found.dtype["hits"]) == np.dtype("f4")
        assert h5py.check_enum_dtype(found.dtype["kind"]) == {"a": 1, "b": 2}
        for n, row in enumerate(found[...]):
            names = ["id", "name", "hits", "tags", "part", "kind", "ok"]
            assert [plain(row[name]) for name in names] == [
                one for name, one in zip(ROW.names, expected(n), strict=True) if name in names
            ]
            assert bool(row["of"]) == bool(n)
            if n:
                assert file[row["of"]].name == "/grid/T"
                assert np.array_equal(file[row["where"]][row["where"]], file["grid/T"][n : n + 1, 0:2])
    drystone("import", tmp_path / "out.h5", tmp_path / "again.dry")
    drystone("diff", imported.path, tmp_path / "again.dry")


def test_what_has_no_type_is_named_and_left_out(tmp_path):
    of_lists = np.dtype([("a", "i4"), ("b", h5py.vlen_dtype(TEXT))])
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("lists", (2,), of_lists)
        file["T"] = np.arange(3)
    with pytest.warns(DrystoneWarning, match="not preserved: lists"):
        dry.import_file(tmp_path / "in.h5", tmp_path / "run.dry")
    with dry.open(tmp_path / "run.dry") as c:
        assert list(c.variables) == ["T"]


def test_records_are_shown_copied_compared_and_checked(imported, tmp_path):
    path = imported.path
    shown = drystone("ls", path)
    assert "name: string" in shown
    assert "hits: ragged(float32)" in shown
    dumped = json.loads(drystone("dump", path, "rows", "--json"))
    assert dumped["values"][2] == {
        "id": 2,
        "name": "x" * 300,
        "hits": [0.0, 1.0],
        "of": "grid/T",
        "where": "grid/T[2:3, 0:2]",
        "tags": ["t2", ""],
        "part": {"unit": "m2", "n": 2},
        "kind": 1,
        "ok": True,
    }
    tags = json.loads(drystone("dump", path, "rows", "--field", "tags", "--json"))
    assert tags["values"] == [[f"t{n}", ""] for n in range(4)]
    assert "raw form" in drystone("dump", path, "rows", "--raw", "-o", tmp_path / "raw", code=2)
    drystone("verify", path)
    drystone("copy", path, tmp_path / "copy.dry")
    drystone("diff", path, tmp_path / "copy.dry")
    with dry.open(tmp_path / "copy.dry", "r+") as c:
        c["rows"]["name"][1] = "another"
    assert "1 of 4 values" in drystone("diff", path, tmp_path / "copy.dry", code=1)


def test_formats_without_such_records_get_the_members_that_they_can_have(imported, tmp_path):
    with pytest.warns(DrystoneWarning, match=r"rows\.hits"):
        dry.export(imported.path, tmp_path / "out.zarr", "rows")
    seen = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert seen["rows.name"][...].tolist() == [expected(n)[1] for n in range(4)]
    assert seen["rows.id"][...].tolist() == [0, 1, 2, 3]
    assert "rows.hits" not in seen
    dry.export(imported.path, tmp_path / "out.nc", "rows")
    with h5py.File(tmp_path / "out.nc") as file:
        assert file["rows.part.unit"].asstr()[...].tolist() == [f"m{n}" for n in range(4)]
        assert [one.tolist() for one in file["rows.hits"]] == [expected(n)[2] for n in range(4)]
    with pytest.raises(InvalidArgumentError, match="texts of any length"):
        dry.export(imported.path, tmp_path / "out.npy", "rows")


def test_a_text_that_was_damaged_fails_its_own_reads(imported, tmp_path):
    segment = next(p for p in (tmp_path / "run.dry" / "log").glob("*.seg") if b"x" * 300 in p.read_bytes())
    segment.write_bytes(segment.read_bytes().replace(b"x" * 300, b"x" * 299 + b"y"))
    with dry.open(imported.path) as c:
        assert plain(c["rows"]["id"][...]) == [0, 1, 2, 3]
        assert c["rows"]["name"][1] == "石垣"
        for damaged in (lambda: c["rows"][...], lambda: c["rows"]["name"][2]):
            with pytest.raises(CorruptError, match="checksum"):
                damaged()
    assert "checksum" in drystone("verify", imported.path, code=1)


def test_a_reader_of_zarr_and_the_tables_get_the_members_that_they_can_have(tmp_path):
    members = [("id", "i4"), ("name", TEXT)]
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("events", members, (3,))[...] = [(1, "a"), (2, "bb"), (3, "")]
        c.commit()
        group = zarr.open_group(c.zarr_store(), mode="r")
        assert group["events/name"][...].tolist() == ["a", "bb", ""]
        assert group["events/id"][...].tolist() == [1, 2, 3]
        table = c.table(columns=["events"], where="events.id > 1")
        assert [column.name for column in table.columns] == ["events.id", "events.name"]
        ((_, found),) = table.arrays()
        assert found[1][0].tolist() == ["bb", ""]
        c.create_variable("lists", [("id", "i4"), ("hits", dry.ragged("f4"))], (3,))
        c.create_variable("words", [("id", "i4"), ("two", TEXT, (2,))], (3,))
        skipped = dict(c.publish().skipped)
        assert sorted(skipped) == ["lists", "words"]
        assert "array of strings" in skipped["words"]
        assert not c.verify(values=True).damage
    with pytest.warns(DrystoneWarning, match="lists.hits"):
        ds = xr.open_dataset(tmp_path / "run.dry", engine="drystone")
    with ds:
        assert ds["events.name"].values.tolist() == ["a", "bb", ""]
        assert "lists.id" in ds
        assert "lists.hits" not in ds
    seen = zarr.open_group(tmp_path / "run.dry" / "zarr", mode="r")
    assert seen["events/name"][...].tolist() == ["a", "bb", ""]
