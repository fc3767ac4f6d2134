"""`drystone import` of ADIOS: steps, changing shapes, cells that were never put, and damaged files, on which adios2
may crash."""

import contextlib
import json
import os
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from command_line import drystone
from drystone.interchange.formats import Array, Contents, apart

adios2 = pytest.importorskip("adios2")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def as_json(*arguments):
    return json.loads(drystone(*arguments, "--json"))


def test_adios_steps_become_steps(tmp_path, path):
    with adios2.Stream(str(tmp_path / "a.bp"), "w") as s:
        s.write_attribute("title", "a run")
        for t in range(3):
            s.begin_step()
            s.write("T", np.arange(12.0).reshape(3, 4) + 100 * t, [3, 4], [0, 0], [3, 4])
            s.write_attribute("units", "K", "T")
            s.write("time", 0.5 * t)
            s.write("name", f"step {t}")
            if t == 0:
                s.write("mesh", np.arange(5, dtype="f4"), [5], [0], [5])
            if t < 2:
                s.write("now and then", np.arange(2.0), [2], [0], [2])
            s.end_step()
    said = as_json("import", tmp_path / "a.bp", path)
    assert said["lost"] == []
    with dry.open(path) as c:
        assert c.steps == [0, 1, 2]
        np.testing.assert_array_equal(c["T"][2], np.arange(12.0).reshape(3, 4) + 200)
        assert c["time"][...].tolist() == [0, 0.5, 1]
        assert c["name"][...].tolist() == ["step 0", "step 1", "step 2"]
        assert c["mesh"][...].tolist() == [0, 1, 2, 3, 4]
        assert (c["now and then"].steps, c["now and then"][1].tolist()) == ([0, 1], [0, 1])
        assert (c["T"].attrs["units"], c.attrs["title"]) == ("K", "a run")


@pytest.mark.parametrize("engine", ["BP3", "BP4", "BP5"])
def test_adios_shapes_and_steps_that_change_are_not_guessed(tmp_path, path, engine):
    """Symptom: the shape of the last step was taken for all: BP5 silently read too few cells, or invented zeros."""
    sync, whole = adios2.bindings.Mode.Sync, engine != "BP3"  # which has no joined arrays
    io = adios2.Adios().declare_io("out")
    io.set_engine(engine)
    out = io.open(str(tmp_path / "a.bp"), adios2.bindings.Mode.Write)
    grows = io.define_variable("grows", np.zeros(3), [3], [0], [3])
    odd = io.define_variable("odd/steps", np.zeros(2, "c8"), [2], [0], [2])
    one = io.define_variable("one", np.zeros(1, "c16"))
    below = io.define_variable("one/below", np.zeros(1))
    up = io.define_variable("..", np.zeros(1))
    lead = io.define_variable("/lead", np.zeros(1, "u1"))
    joined = (
        io.define_variable("joined", np.zeros((2, 3)), [adios2.JoinedDim, 3], [], [2, 3]) if whole else None
    )
    for step in range(4):
        out.begin_step()
        grows.set_shape([3 + step])
        grows.set_selection([[0], [3 + step]])
        out.put(grows, np.arange(3.0 + step), sync)
        out.put(one, np.array([step + 1j]), sync)
        for other in (below, up):
            out.put(other, np.array([1.0]), sync)
        out.put(lead, np.array([255], "u1"), sync)
        if step in (1, 3):
            out.put(odd, np.full(2, step + 2j, "c8"), sync)
        for part in range(2 - step % 2) if joined else ():
            out.put(joined, np.full((2, 3), 10.0 * step + part), sync)
        out.end_step()
    out.close()
    lost = as_json("import", tmp_path / "a.bp", path)["lost"]
    shapes = "grows: the shapes of its steps, such as [3], [4], [5], [6]: what is not there is nan"
    names = ["'..' (not a valid path)", "'one/below' (what would be its group is a variable)"]
    both = "joined: the shapes of its steps, such as [4, 3], [2, 3]: what is not there is nan"
    assert sorted(lost) == sorted([shapes, *names, *([both] if joined else [])])
    with dry.open(path) as c:
        np.testing.assert_array_equal(c["grows"][3], np.arange(6.0))
        np.testing.assert_array_equal(c["grows"][0], [0, 1, 2, np.nan, np.nan, np.nan])
        assert (c["odd/steps"].steps, c["odd/steps"][3].tolist()) == ([1, 3], [3 + 2j, 3 + 2j])
        assert c["one"][...].tolist() == [1j, 1 + 1j, 2 + 1j, 3 + 1j]
        assert c["lead"][...].tolist() == [255] * 4
        if joined:
            np.testing.assert_array_equal(c["joined"][2, :, 0], [20, 20, 21, 21])
            np.testing.assert_array_equal(c["joined"][3, :, 0], [30, 30, np.nan, np.nan])


@pytest.mark.parametrize("engine", ["BP3", "BP4", "BP5"])
def test_adios_cells_that_were_never_put_are_not_invented(tmp_path, path, engine):
    """Symptom: such cells had values of earlier reads: adios2 leaves memory unchanged where there is no block."""
    io = adios2.Adios().declare_io("out")
    io.set_engine(engine)
    out = io.open(str(tmp_path / "a.bp"), adios2.bindings.Mode.Write)
    full = [io.define_variable(f"full{n}", np.zeros(100), [100], [0], [100]) for n in range(2)]
    some = [io.define_variable(f"some{n}", np.zeros(40), [100], [0], [40]) for n in range(3)]
    grid = io.define_variable("grid", np.zeros((3, 4), "i4"), [6, 8], [0, 0], [3, 4])
    for step in range(2):
        out.begin_step()
        for variable in full:
            out.put(variable, np.arange(100.0) + 1, adios2.bindings.Mode.Sync)
        for variable in some:
            variable.set_selection([[10 + step], [40]])
            out.put(variable, np.arange(40.0) + 1000, adios2.bindings.Mode.Sync)
        for at in [(0, 0), (0, 4), (3, 0), (3, 4)][: 4 - step]:
            grid.set_selection([list(at), [3, 4]])
            out.put(grid, np.full((3, 4), 1 + sum(at), "i4"), adios2.bindings.Mode.Sync)
        out.end_step()
    out.close()
    lost = as_json("import", tmp_path / "a.bp", path)["lost"]
    some = [f"some{n}: cells that are in no block: what is not there is nan" for n in range(3)]
    assert sorted(lost) == ["grid: cells that are in no block: what is not there is 0", *some]
    with dry.open(path) as c:
        for n in range(3):
            for step in range(2):
                expected = np.full(100, np.nan)
                expected[10 + step : 50 + step] = np.arange(40.0) + 1000
                np.testing.assert_array_equal(c[f"some{n}"][step], expected)
        expected = np.repeat(np.repeat([[1, 5], [4, 0]], 3, 0), 4, 1)
        np.testing.assert_array_equal(c["grid"][1], expected)
        assert np.isnan(c["some0"].fill_value)
        assert c["full0"].fill_value == 0


def test_adios_whose_index_is_gone_is_not_an_empty_file(tmp_path, path):
    with adios2.Stream(str(tmp_path / "a.bp"), "w") as s:
        s.begin_step()
        s.write("T", np.arange(12.0), [12], [0], [12])
        s.end_step()
    index = tmp_path / "a.bp/md.idx"
    index.write_bytes(index.read_bytes()[:100])
    assert "its index is damaged" in drystone("import", tmp_path / "a.bp", path, code=4)


DAMAGED = [
    ("BP3", "a.bp.dir/a.bp.0", 70_000, "cut off"),
    ("BP4", "a.bp/data.0", 70_000, "cut off"),
    ("BP5", "a.bp/data.0", 70_000, "cut off"),
    ("BP4", "a.bp/md.0", 700, "cannot be read"),
    ("BP5", "a.bp/md.idx", 0, "crashed"),
    ("BP5", "a.bp/mmd.0", 723, "crashed"),
]


@pytest.mark.parametrize(("engine", "file", "cut", "says"), DAMAGED)
def test_damaged_adios_is_a_message_and_leaves_nothing(tmp_path, path, monkeypatch, engine, file, cut, says):
    """Symptom: adios2 ended the process of `drystone import`, or waited for ever for more of a file, and half a
    container stayed."""
    monkeypatch.setattr(apart, "_STARVED_S", 1)
    io = adios2.Adios().declare_io("out")
    io.set_engine(engine)
    with adios2.Stream(io, str(tmp_path / "a.bp"), "w") as s:
        for t in range(3):
            s.begin_step()
            s.write("T", np.arange(6000.0).reshape(200, 30) + t, [200, 30], [0, 0], [200, 30])
            s.write("n", np.arange(7, dtype="i4"), [7], [0], [7])
            s.end_step()
    damaged = tmp_path / file
    damaged.write_bytes(damaged.read_bytes()[:cut])
    before = sorted(tmp_path.iterdir())
    said = drystone("import", tmp_path / "a.bp", path, code=4)
    assert says in said
    assert str(tmp_path / "a.bp") in said
    assert said.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_reader_process_ends_with_the_block(tmp_path, monkeypatch):
    """Also while it works silently for long; its errors are those of the reader."""

    @contextlib.contextmanager
    def reading(path, asker):
        def read(box):
            if box == (slice(0, 2),):
                out = asker.room((2,), np.dtype("i4"))
                out[:] = pids
                return out
            if box == ():
                return np.array(["text"], object)
            if box == (slice(0, 0),):
                raise KeyError("nothing there")
            while True:
                pass

        pids = os.getpid(), os.getppid()
        yield Contents(arrays=[Array("pids", np.dtype("i4"), (2,), read)])

    with apart.opened(reading, tmp_path, "a package") as contents:
        read = contents.arrays[0].read
        pid, parent = read((slice(0, 2),))
        assert (parent, read(()).tolist()) == (os.getpid(), ["text"])
        with pytest.raises(KeyError, match="nothing there"):
            read((slice(0, 0),))
        monkeypatch.setattr(apart, "_SILENT_S", 0.5)
        with pytest.raises(dry.CorruptError, match="does not come back"):
            read((slice(0, 1),))
    assert not Path(f"/proc/{pid}").exists()
