"""`import`, `export`, `plot`, `diff` and `du`, called from Python: the same arguments, and results as values."""

import inspect
import json
from contextlib import nullcontext

import drystone as dry
import numpy as np
import pytest
from command_line import drystone
from drystone.commands import grammar

h5py = pytest.importorskip("h5py")


@pytest.fixture
def run(path):
    """Three steps of a temperature, and names."""
    with dry.create(path) as c:
        c.create_variable("T", "f4", (4, 6), dims=("y", "x"), steps=True)
        c.create_variable("names", str, (2,))[...] = ["a", "b"]
        with c.writer(rank=0, nranks=1) as w:
            for step in range(3):
                with w.step():
                    w.put("T", np.arange(24.0, dtype="f4").reshape(4, 6) + 100 * step)
    return path


def test_a_file_comes_in_and_goes_out(tmp_path, run):
    written = dry.export(run, tmp_path / "out.h5", "T", compression=4, chunks=(2, 3))
    assert (written.format, written.lost) == ("hdf5", [])
    assert [(v.name, v.shape, v.bytes) for v in written.variables] == [("T", (3, 4, 6), 288)]
    with h5py.File(tmp_path / "out.h5") as f:
        assert f["T"].compression == "gzip"
    copied = dry.import_file(
        tmp_path / "out.h5", tmp_path / "in.dry", only=["T"], steps="step", group="back", transform="zstd:1"
    )
    assert (copied.format, copied.lost) == ("hdf5", [])
    assert [(v.name, v.dtype, v.shape) for v in copied.variables] == [("back/T", np.dtype("f4"), (3, 4, 6))]
    with dry.open(run) as c, dry.open(tmp_path / "in.dry") as again:
        assert again["back/T"].transform == "zstd:1"
        np.testing.assert_array_equal(again["back/T"][...], c["T"][...])


def test_what_cannot_be_taken_over_is_warned_of_and_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = 1
        f["kind"] = np.dtype("f4")
    with pytest.warns(dry.DrystoneWarning, match="not preserved: kind"):
        copied = dry.import_file(tmp_path / "a.h5", tmp_path / "a.dry")
    assert [what.split()[0] for what in copied.lost] == ["kind"]


@pytest.mark.parametrize("select", ["[-1, 1:3, [0, -1]]", "-1, 1:3, [0, 5]", (-1, slice(1, 3), [0, 5])])
def test_a_selection_is_an_index_or_its_text(tmp_path, run, select):
    dry.export(run, tmp_path / "out.npy", "T", select=select)
    with dry.open(run) as c:
        np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), c["T"][-1, 1:3, [0, 5]])


@pytest.mark.parametrize(
    ("text", "says"),
    [("[1, x]", "at character 5"), ("[0:1:0]", "cannot be 0"), ("[0, [1, ", "expected a number of a cell"), ("]", "expected")],
)  # fmt: skip
def test_a_text_that_is_no_selection_is_refused_with_its_place(tmp_path, run, text, says):
    with pytest.raises(dry.InvalidArgumentError, match=says):
        dry.export(run, tmp_path / "out.npy", "T", select=text)


def test_two_containers_are_compared(tmp_path, run):
    with dry.open(run) as c:
        c.copy(tmp_path / "other.dry").close()
    assert dry.diff(run, tmp_path / "other.dry") == []
    with dry.open(tmp_path / "other.dry", "r+") as other:
        other["T"][1, 2, 3] += 4
    (found,) = dry.diff(run, tmp_path / "other.dry")
    assert (found.name, found.cells, found.largest, found.first) == ("T", 1, 4.0, (1, 2, 3))
    assert dry.diff(run, tmp_path / "other.dry", atol=4) == []
    with pytest.raises(dry.InvalidArgumentError, match="atol"):
        dry.diff(run, run, atol=-1)


def test_instants_that_are_no_time_are_equal(tmp_path):
    for name, more in (("a", "NaT"), ("b", "NaT"), ("c", "2020-01-02")):
        with dry.create(tmp_path / f"{name}.dry") as c:
            c["t"] = np.array(["2020-01-01", more], "M8[s]")
    assert dry.diff(tmp_path / "a.dry", tmp_path / "b.dry") == []
    assert dry.diff(tmp_path / "a.dry", tmp_path / "b.dry", atol=1) == []
    assert [one.cells for one in dry.diff(tmp_path / "a.dry", tmp_path / "c.dry")] == [1]


def test_open_containers_are_taken_and_stay_open(tmp_path, run):
    with dry.open(run) as c:
        assert dry.diff(c, run) == []
        assert [v.name for v in dry.du(c).variables] == ["T", "names"]
        dry.export(c, tmp_path / "out.npy", "T")
        assert c["T"].shape == (3, 4, 6)


def test_sizes_of_variables_come_from_the_index(run):
    found = dry.du(run, "T")
    (use,) = found.variables
    assert (use.name, use.decoded) == ("T", 288)
    assert use.ratio == use.decoded / use.stored
    assert found.files.keys() == {"log", "index", "manifest"}
    assert sum(found.files.values()) > use.stored
    assert json.loads(drystone("du", run, "T", "--json"))["variables"][0]["stored"] == use.stored


def test_a_plane_is_drawn(tmp_path, run):
    pytest.importorskip("matplotlib")
    drawn = dry.plot(run, "T", "[-1]", tmp_path / "plane.png", range=(0, 300))
    assert (drawn.shows.split(",")[0], drawn.missing_steps) == ("4 x 6 values", [])
    assert (tmp_path / "plane.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(dry.InvalidArgumentError, match="both finite"):
        dry.plot(run, "T", "[-1]", tmp_path / "x.png", range=(0, np.inf))
    with pytest.raises(dry.ConflictError):
        dry.export(run, tmp_path / "plane.png", "T", format="npy")


def test_progress_is_reported_and_can_stop(tmp_path, run):
    told = []
    dry.export(run, tmp_path / "out.npy", "T", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (288, 288)
    with pytest.raises(dry.CancelledError):
        dry.export(run, tmp_path / "no.npy", "T", progress=lambda *_: False)
    assert not (tmp_path / "no.npy").exists()


NAMES = {"no_attrs": "attrs", "json": None, "help": None}


@pytest.mark.parametrize(
    ("command", "function"),
    [("import", dry.import_file), ("export", dry.export), ("plot", dry.plot), ("diff", dry.diff), ("du", dry.du)],
)  # fmt: skip
def test_commands_and_functions_use_the_same_words(command, function):
    (found,) = (one for one in grammar.commands() if one.name == command)
    words = {NAMES.get(one.name, one.name) for one in found.arguments} - {None}
    assert words == set(inspect.signature(function).parameters) - {"progress"}


@pytest.mark.parametrize("ending", ["h5", "nc", "zarr"])
def test_attributes_that_are_truth_values_stay_so_or_are_named(tmp_path, ending):
    """They became integers in each of the formats, and nothing said so."""
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("v", "f4", (3,), attrs={"flag": True, "n": 3})[...] = 1
        c.attrs["off"] = False
    warned = pytest.warns(dry.DrystoneWarning, match="its type bool") if ending == "nc" else nullcontext()
    with warned:
        written = dry.export(tmp_path / "a.dry", tmp_path / f"a.{ending}")
    dry.import_file(tmp_path / f"a.{ending}", tmp_path / "b.dry")
    with dry.open(tmp_path / "b.dry") as c:
        if ending == "nc":
            assert [what for what in written.lost if "bool" in what] == [
                "attribute off of /: its type bool (it is an i1 there)",
                "attribute flag of v: its type bool (it is an i1 there)",
            ]
            assert (c["v"].attrs["flag"], c.attrs["off"]) == (1, 0)
        else:
            assert written.lost == []
            assert (c["v"].attrs["flag"], c.attrs["off"]) == (True, False)
            assert all(isinstance(one, bool | np.bool_) for one in (c["v"].attrs["flag"], c.attrs["off"]))
        assert c["v"].attrs["n"] == 3


@pytest.mark.parametrize("ending", ["h5", "nc"])
@pytest.mark.parametrize("name", ["v", "g/v", "g/h/v"])
def test_numbers_of_steps_are_kept_in_groups_too(tmp_path, ending, name):
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable(name, "f4", (3,), steps=True)
        with c.writer() as w:
            for step in (2, 8):
                with w.step(step):
                    w.put(name, np.full(3, step, "f4"))
        c.commit()
    dry.export(tmp_path / "a.dry", tmp_path / f"a.{ending}")
    dry.import_file(tmp_path / f"a.{ending}", tmp_path / "b.dry")
    with dry.open(tmp_path / "b.dry") as c:
        (coordinate,) = (other for other in c.variables if other.rpartition("/")[2] == "step")
        assert c[coordinate][...].tolist() == [2, 8]
        assert np.array_equal(c[name][...], [[2] * 3, [8] * 3])
