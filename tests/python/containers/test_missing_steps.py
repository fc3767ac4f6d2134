"""Missing steps, in every interface (the table of docs/guide/reading.md).

Selected by step number, they are unwritten cells: fill. Selected by a coordinate of step numbers, they are left out.
"""

import json
import subprocess
import sys

import drystone as dry
import drystone.xarray  # registers the engine
import numpy as np
import pytest
import xarray as xr
import zarr
from same_bits import commits_by_itself

FILL = -1.0


@pytest.fixture
def gaps(container):
    """Steps 2 and 5 of `T`, and 5 of `U`."""
    for name in ("T", "U"):
        container.create_variable(name, "f8", (3,), dims=("x",), steps=True, fill_value=FILL)
    with commits_by_itself(container) as w:
        for step in (2, 5):
            with w.step(step):
                w.put("T", np.full(3, float(step)))
                if step == 5:
                    w.put("U", np.zeros(3))
    return container


FILLED = [[FILL] * 3, [FILL] * 3, [2.0] * 3, [FILL] * 3, [FILL] * 3, [5.0] * 3]


def test_by_the_number_of_the_step_missing_ones_are_fill(gaps):
    T = gaps["T"]
    assert (T.shape, T.steps, gaps.steps, gaps["U"].steps) == ((6, 3), [2, 5], [2, 5], [5])
    assert T[...].tolist() == FILLED
    assert T.read(step=3).tolist() == [FILL] * 3
    assert T.oindex[[0, 5]].tolist() == [[FILL] * 3, [5.0] * 3]
    assert T.read_points([[4, 0], [5, 0]]).tolist() == [FILL, 5.0]
    with pytest.raises(IndexError):
        T[6]
    with pytest.raises(dry.NotFoundError):
        T.blocks(3)


def test_dask_and_zarr_count_steps_by_their_numbers_too(gaps):
    da = pytest.importorskip("dask.array")
    assert da.from_array(gaps["T"], chunks=(1, 3)).compute().tolist() == FILLED
    assert zarr.open_group(gaps.zarr_store(), mode="r")["T"][...].tolist() == FILLED
    gaps.publish(progress=None)
    assert zarr.open_group(f"{gaps.path}/zarr", mode="r")["T"][...].tolist() == FILLED


def test_xarray_leaves_missing_steps_out_and_the_coordinate_names_those_that_are_there(gaps):
    with xr.open_dataset(gaps.path, engine="drystone") as ds:
        assert ds.step.values.tolist() == [2, 5]
        assert ds["T"].values.tolist() == [[2.0] * 3, [5.0] * 3]
        assert np.isnan(ds["U"].sel(step=2)).all()
        with pytest.raises(KeyError):
            ds["T"].sel(step=3)


@pytest.mark.parametrize("suffix", ["nc", "h5"])
def test_files_with_a_coordinate_leave_missing_steps_out(gaps, tmp_path, suffix):
    h5py = pytest.importorskip("h5py")
    file = tmp_path / f"a.{suffix}"
    drystone_command("export", gaps.path, file)
    with h5py.File(file) as f:
        assert f["step"][...].tolist() == [2, 5]
        assert f["T"][...].tolist() == [[2.0] * 3, [5.0] * 3]


def test_an_array_alone_has_fill_for_missing_steps(gaps, tmp_path):
    file = tmp_path / "a.npy"
    said = drystone_command("export", gaps.path, file, "T")
    assert np.load(file).tolist() == FILLED
    assert "never written, whose cells are the fill value: 0, 1, 3, 4" in said
    file = tmp_path / "b.npy"
    assert "never written" not in drystone_command("export", gaps.path, file, "T", "--select", "[2::3]")
    assert "fill value: 3\n" in drystone_command(
        "export", gaps.path, tmp_path / "c.csv", "T", "--select", "[3]"
    )


def test_dump_and_plot_read_fill_and_name_the_missing_steps(gaps, tmp_path):
    assert "steps 0..1, 3..4 were never written: those cells are the fill value" in drystone_command(
        "dump", gaps.path, "T"
    )
    assert "step 3 was never written" in drystone_command("dump", gaps.path, "T", "[3]")
    assert "never written" not in drystone_command("dump", gaps.path, "T", "[2::3]")
    told = json.loads(drystone_command("dump", gaps.path, "T", "[1:3]", "--json"))
    assert (told["missing_steps"], told["values"]) == ([1], FILLED[1:3])
    pytest.importorskip("matplotlib")
    file = tmp_path / "t.png"
    said = drystone_command("plot", gaps.path, "T", "-o", file)
    assert "never written, whose cells are the fill value: 0, 1, 3, 4" in said
    assert "never written" not in drystone_command("plot", gaps.path, "T", "[5]", "-o", file)


def drystone_command(*words):
    done = subprocess.run(
        [sys.executable, "-m", "drystone", *map(str, words)], check=True, capture_output=True, text=True
    )
    return done.stdout + done.stderr
