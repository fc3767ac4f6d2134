"""The comparison with other stores runs with whichever are installed, compares every value, and tells its figures.
Nothing here asserts a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = ROOT / "bench" / "peers" / "run.py"


def quick(out, *arguments):
    command = [sys.executable, str(RUN), "--here", "--quick", "--out", str(out), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert not (out / "data").exists()
    return json.loads((out / "figures.json").read_text()), (out / "figures.md").read_text()


@pytest.mark.slow
def test_engines_in_this_environment_store_and_give_back_the_same_values(tmp_path):
    questions = [f"--only={name}" for name in ("blocks", "records")]
    figures, text = quick(
        tmp_path,
        *questions,
        *(f"--engine={n}" for n in ("raw", "h5py", "netCDF4", "ADIOS2", "zarr", "tensorstore")),
    )
    for name in ("drystone", "raw", "h5py", "zarr", "tensorstore"):
        assert figures["checked"][name] > 10_000, name
    for table in figures["tables"]:
        assert f"### {table['title']}" in text
        for case in table["cases"]:
            assert not case["failures"], case
            assert case["engines"]["drystone"]["ratio"] == 1


@pytest.mark.slow
def test_processes_write_and_restart_and_lose_nothing_of_unaligned_boxes(tmp_path):
    questions = [f"--only={name}" for name in ("checkpoint", "restart", "unaligned")]
    figures, _ = quick(tmp_path, *questions, "--engine=raw", "--engine=h5py")
    tables = {table["title"].split(":")[0]: table for table in figures["tables"]}
    assert {case["name"].split(",")[0] for case in tables["Checkpoint"]["cases"]} == {
        "1 process",
        "2 processes",
    }
    assert all(not case["failures"] for case in tables["Restart"]["cases"])
    counts = {row[0]: row[1] for row in tables["Unaligned parallel writers"]["rows"]}
    assert counts["drystone"].startswith("0 ")


@pytest.mark.slow
def test_damage_is_never_silent(tmp_path):
    figures, _ = quick(tmp_path, "--only=damage", "--engine=raw")
    rows = {row[0]: row[1:] for row in figures["tables"][0]["rows"]}
    values, metadata, cut, killed = rows["drystone"]
    assert "detected" in values
    assert "detected" in cut
    assert not any("silent" in cell or "died" in cell for cell in (values, metadata, cut))
    assert killed == "5 of 5"
    assert "silent" in rows["raw"][0]  # the trial can tell


@pytest.mark.slow
def test_counts_of_bytes_memory_and_imports_are_told(tmp_path):
    questions = [f"--only={name}" for name in ("amplification", "imports")]
    figures, _ = quick(tmp_path, *questions, "--engine=h5py")
    titles = [table["title"] for table in figures["tables"]]
    for word in ("Read amplification", "Write amplification", "Import", "Export"):
        assert any(word in title for title in titles), word


def test_every_peer_says_how_it_is_driven_and_has_a_pinned_version():
    requirements = (ROOT / "bench" / "peers" / "requirements.txt").read_text()
    lines = [line for line in requirements.splitlines() if not line.startswith("#")]
    assert all("==" in line for line in lines)
    for module in (ROOT / "bench" / "peers" / "engines").glob("*.py"):
        first = module.read_text().split('"""')[1]
        assert len(first) > 60, module
