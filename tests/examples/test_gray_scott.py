"""The main job keeps its promises: the same bits on any ranks, through a kill and a restart, or a clear failure."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import analyse
import drystone as dry
import numpy as np
import pytest
from decomposition import box_at
from ground_truth import load
from job import mpi_environment
from reaction import Field, Model, initial_state

EXAMPLE = Path(__file__).parents[2] / "examples" / "gray_scott"
GRID = (13, 10, 11)


def run_in_parts(ranks, dtype, steps):
    """The simulation on a grid of `ranks` in this process: paddings are filled from the assembled fields."""
    model = Model()
    boxes = [box_at(place, ranks, GRID) for place in itertools.product(*(range(p) for p in ranks))]
    fields = [Field(*initial_state(box, GRID, model, dtype), model) for box in boxes]
    whole = np.empty((2, *GRID), dtype)
    for _ in range(steps):
        for box, field in zip(boxes, fields, strict=True):
            whole[0][box.slices], whole[1][box.slices] = field.interior
        around = np.pad(whole, [(0, 0), (1, 1), (1, 1), (1, 1)], mode="wrap")
        for box, field in zip(boxes, fields, strict=True):
            z, y, x = (slice(a, a + n + 2) for a, n in zip(box.offset, box.shape, strict=True))
            field.u[...], field.v[...] = around[:, z, y, x]
            field.advance()
    for box, field in zip(boxes, fields, strict=True):
        whole[0][box.slices], whole[1][box.slices] = field.interior
    return whole


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("ranks", [(2, 2, 2), (3, 2, 1), (1, 5, 1), (13, 1, 11)])
def test_any_decomposition_gives_the_same_bits(ranks, dtype):
    expected = run_in_parts((1, 1, 1), dtype, steps=9)
    assert expected.dtype == dtype
    assert np.isfinite(expected).all()
    assert run_in_parts(ranks, dtype, steps=9).tobytes() == expected.tobytes()


def test_the_solver_computes_the_equations_it_states():
    model = Model()
    u, v = run_in_parts((1, 1, 1), "float64", steps=0)
    after = run_in_parts((1, 1, 1), "float64", steps=1)

    def lap(a):
        return sum(np.roll(a, shift, axis) for axis in range(3) for shift in (1, -1)) / 6 - a

    expected_u = u + model.dt * (model.Du * lap(u) - u * v * v + model.F * (1 - u))
    expected_v = v + model.dt * (model.Dv * lap(v) + u * v * v - (model.F + model.k) * v)
    np.testing.assert_allclose(after[0], expected_u, rtol=1e-13)
    np.testing.assert_allclose(after[1], expected_v, rtol=1e-13)


def test_boxes_tile_the_grid():
    for ranks in [(2, 2, 2), (3, 2, 1), (5, 1, 7)]:
        times_covered = np.zeros(GRID, int)
        for place in itertools.product(*(range(p) for p in ranks)):
            times_covered[box_at(place, ranks, GRID).slices] += 1
        assert (times_covered == 1).all()


def test_too_many_ranks_are_refused_by_name():
    with pytest.raises(ValueError, match="axis 1 of the grid has 10 cells, too few for 11 ranks"):
        box_at((0, 0, 0), (1, 11, 1), GRID)


@pytest.mark.parametrize("wrong", [{"Du": 1.5}, {"Dv": -0.1}, {"dt": 0.0}])
def test_an_unstable_model_is_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        Model(**wrong)


def simulate(ranks, *arguments):
    mpiexec = Path(sys.executable).parent / "mpiexec"
    command = [mpiexec, "-n", ranks, sys.executable, EXAMPLE / "simulate.py", *arguments]
    return subprocess.run(
        [str(word) for word in command], env=mpi_environment(), capture_output=True, text=True, timeout=280
    )


def demo(*arguments):
    command = [sys.executable, EXAMPLE / "demo.py", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=280)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small demo that ran to its end."""
    folder = tmp_path_factory.mktemp("gray_scott") / "demo"
    ran = demo("--folder", folder, "--grid", "12", "14", "10", "--outputs", "4", "--interval", "3")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder, ran.stdout


@pytest.mark.slow
def test_a_killed_run_restarts_on_other_ranks_and_equals_an_uninterrupted_one(finished):
    folder, said = finished
    assert "killed all 8 ranks" in said
    assert "on 6 ranks" in said
    assert "all bits agree" in said
    assert (folder / "gray_scott.png").read_bytes().startswith(b"\x89PNG")
    assert load(folder / "truth", "V").shape == (5, 12, 14, 10)


@pytest.mark.slow
def test_one_wrong_bit_fails_the_analysis(finished, tmp_path):
    folder, _ = finished
    shutil.copytree(folder / "truth", tmp_path / "truth")
    wrong = np.load(tmp_path / "truth" / "U.npy", mmap_mode="r+")
    wrong.view("u8")[3, 5, 6, 7] ^= 1
    wrong.flush()
    command = [EXAMPLE / "analyse.py", folder / "restarted.dry", "--reference", folder / "reference.dry"]
    command += ["--truth", tmp_path / "truth", "--figure", tmp_path / "out.png"]
    ran = subprocess.run(
        [sys.executable, *(str(word) for word in command)], capture_output=True, text=True, timeout=280
    )
    assert ran.returncode == 1
    assert "MISMATCH: step 3 of U" in ran.stderr
    assert "1 of 1680 values differ, first at (5, 6, 7)" in ran.stderr


def test_what_is_called_warm_is_timed_before_the_page_cache_is_emptied(tmp_path, monkeypatch):
    # Symptom: "all steps, warm" was six times slower than a second call: the read before it evicted the container.
    told = []
    for name in ("restarted", "reference"):
        with dry.create(tmp_path / f"{name}.dry") as c:
            for variable in "UV":
                c.create_variable(variable, "f4", (2, 2, 2), steps=True)
            with c.writer(rank=0, nranks=1) as w, w.step():
                for variable in "UV":
                    w.put(variable, np.ones((2, 2, 2), "f4"))
    truth = {"U": np.ones((1, 2, 2, 2), "f4"), "V": np.ones((1, 2, 2, 2), "f4")}
    warm = analyse.whole_steps
    row = analyse.Figure("", 1, 1.0, 1.0, 1.0)
    monkeypatch.setattr(analyse.ground_truth, "load", lambda _, name: truth[name])
    monkeypatch.setattr(analyse, "whole_steps", lambda *said: told.append("warm") or warm(*said))
    monkeypatch.setattr(analyse, "cold_read", lambda *_: told.append("cold") or row)
    monkeypatch.setattr(analyse, "compare", lambda *_: row)
    monkeypatch.setattr(analyse, "print_table", lambda figures: told.append(figures[0].access))
    monkeypatch.setattr(analyse.figure, "draw", lambda *_: None)
    monkeypatch.setattr(analyse.raw_limit, "evict", lambda *_: told.append("emptied"))
    arguments = ["analyse", tmp_path / "restarted.dry", "--reference", tmp_path / "reference.dry"]
    arguments += ["--truth", tmp_path, "--figure", tmp_path / "out.png"]
    monkeypatch.setattr(sys, "argv", [str(word) for word in arguments])
    assert analyse.main() == 0
    assert told == ["warm", "cold", "all steps, warm"]


@pytest.mark.slow
def test_mistakes_are_named_before_anything_is_made(tmp_path):
    path = tmp_path / "run.dry"
    for wrong, said in [
        (["--grid", "4", "4"], "--grid takes one or three"),
        (["--outputs", "0"], "at least 1"),
        (["--grid", "1"], "use fewer ranks"),
        (["--dtype", "float16"], "invalid choice"),
        (["--Du", "3"], "Du * dt must lie in"),
    ]:
        ran = simulate(2, path, *wrong)
        assert ran.returncode != 0
        assert said in ran.stderr
        assert not path.exists()


@pytest.mark.slow
def test_a_restart_from_nothing_says_so(tmp_path):
    ran = simulate(2, tmp_path / "nothing.dry", "--restart")
    assert ran.returncode != 0
    assert "nothing.dry" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_demo_names_what_is_wrong_with_its_arguments(tmp_path):
    for wrong, said in [
        (["--outputs", "2"], "at least 3 --outputs"),
        (["--kill-step", "12"], "--kill-step must lie between 1 and 11"),
        (["--mpiexec", "no-such-launcher"], "cannot find no-such-launcher"),
        (["--grid", "100000"], "use a smaller --grid"),
        (["--folder", str(EXAMPLE)], "is not empty and not of an earlier demo"),
    ]:
        ran = demo("--folder", tmp_path / "demo", *wrong)
        assert ran.returncode == 1
        assert said in ran.stderr
        assert not (tmp_path / "demo").exists()


@pytest.mark.slow
def test_one_line_of_configuration_swaps_the_transform_of_the_program_as_it_is(tmp_path):
    arguments = ["--grid", "16", "--outputs", "2", "--interval", "3"]
    assert simulate(2, tmp_path / "plain.dry", *arguments).returncode == 0
    (tmp_path / "drystone.toml").write_text('variables."**".transform = "lorenzo,shuffle,zstd:1"\n')
    ran = simulate(2, tmp_path / "swapped.dry", *arguments)
    assert ran.returncode == 0, ran.stderr
    plain, swapped = dry.open(tmp_path / "plain.dry"), dry.open(tmp_path / "swapped.dry")
    for name in ("U", "V"):
        assert {block.transform for block in plain[name].blocks()} == {None}
        assert {block.transform for block in swapped[name].blocks()} == {"lorenzo,shuffle,zstd:1"}
        assert swapped[name][:].tobytes() == plain[name][:].tobytes()
