"""The demonstration on real data runs to its end, and says what is missing where it is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples/ocean/climatology.py"
SOURCE = Path("/usr/share/ferret-vis/data/coads_climatology.cdf")


def run(*arguments):
    words = [sys.executable, DEMO, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=280)


@pytest.mark.slow
@pytest.mark.skipif(not SOURCE.exists(), reason="no real file: apt-get install ferret-datasets")
def test_a_climatology_goes_in_and_comes_out_as_it_was(tmp_path):
    done = run("--folder", tmp_path / "ocean")
    assert done.returncode == 0, done.stderr
    assert "drystone diff says: no difference" in done.stdout
    for picture in ("january.png", "year.png", "layout.png"):
        assert (tmp_path / "ocean" / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_where_the_climatology_cannot_be_had_the_floor_of_the_ocean_takes_its_place(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("netCDF4")
    done = run("--folder", tmp_path / "ocean", "--relief")
    assert done.returncode == 0, done.stderr
    assert "drystone diff says: no difference" in done.stdout
    for picture in ("relief.png", "circle.png", "layout.png"):
        assert (tmp_path / "ocean" / picture).read_bytes().startswith(b"\x89PNG")


def test_what_is_missing_is_said(tmp_path):
    done = run("--folder", tmp_path / "ocean", "--source", tmp_path / "no.nc")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get install ferret-datasets" in done.stderr
