"""The benchmarks run, compare every value they move, and tell their figures. Nothing here asserts a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a quick run tells."""
    out = tmp_path_factory.mktemp("bench")
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--quick", "--out", str(out)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert not (out / "data").exists()
    return json.loads((out / "figures.json").read_text()), (out / "figures.md").read_text()


@pytest.mark.slow
def test_every_question_gets_a_table_with_every_engine(told):
    figures, text = told
    titles = [table["title"] for table in figures["tables"]]
    for word in (
        "Limits",
        "Checkpoint",
        "Restart",
        "Planes",
        "blocks of",
        "steps of",
        "appends",
        "System calls",
        "memory",
    ):
        assert any(word in title for title in titles), word
    for table in figures["tables"]:
        assert f"### {table['title']}" in text
        assert table["rows"] or table["remarks"]
        if "baseline" in table:
            for case in {row["case"] for row in table["rows"]}:
                rows = [row for row in table["rows"] if row["case"] == case]
                assert any(row["engine"].startswith("drystone") for row in rows)
                assert any(row["engine"].startswith("h5py") for row in rows)
                assert all(row["seconds"] > 0 and row["ratio"] is not None for row in rows)


@pytest.mark.slow
def test_values_of_every_engine_are_compared(told):
    checked = told[0]["checked"]
    assert checked["drystone"] > 100_000
    assert checked["raw"] > 100_000
    assert checked["h5py"] > 100_000


@pytest.mark.slow
def test_what_is_moved_is_at_least_what_was_asked_for(told):
    for table in told[0]["tables"]:
        if "Checkpoint" in table.get("title", "") or "Restart" in table["title"]:
            for row in table["rows"]:
                for cost in row["figure"]["costs"]:
                    moved = cost["written_bytes"] if row["writes"] else cost["read_bytes"]
                    assert moved >= row["bytes_each"], row["case"]


def test_a_wrong_value_ends_the_run():
    code = (
        "import sys, numpy as np; sys.path.insert(0, 'bench'); from measure import Checked; "
        "Checked().same('raw', np.zeros(3), np.array([0, 0, 1.0]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode != 0
    assert "raw read back something else than was written" in ran.stderr


@pytest.mark.slow
def test_one_command_writes_the_page_about_transforms(tmp_path):
    page = tmp_path / "page.md"
    command = [sys.executable, str(ROOT / "bench/transforms/run.py"), "--quick", "--out", str(page)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    text = page.read_text()
    for title in (
        "pattern, chunking",
        "tipping point",
        "checkpoint",
        "Points and small boxes",
        "other compressors",
    ):
        assert title in text, title
    assert "| drystone blosc lz4 |" in text
    assert "<polyline" in (tmp_path / "tipping.svg").read_text()


def test_the_kernels_leave_what_numpy_leaves():
    ran = subprocess.run(
        [sys.executable, str(ROOT / "bench/kernels/run.py"), "--quick"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    for row in ("| 4096 bytes |", "| strided |", "| transpose |", "| records |", "cases below NumPy"):
        assert row in ran.stdout, row
    assert "beside the limit" in ran.stderr or "No C compiler" in ran.stdout


@pytest.mark.slow
def test_the_benchmark_of_tiers_runs():
    """Values and counts are compared by the benchmark itself."""
    command = [sys.executable, str(ROOT / "bench" / "tiers" / "run.py"), "--quick"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    for word in (
        "checkpoint of",
        "beside a drain",
        "steps promised",
        "of the scheme",
        "a tier that is failing",
    ):
        assert word in ran.stdout, word


@pytest.mark.slow
def test_cold_reads_have_a_row_each_with_calls_and_right_values():
    (ROOT / "build").mkdir(exist_ok=True)
    command = [sys.executable, str(ROOT / "bench" / "local_window.py"), "--quick"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    rows = ran.stdout.splitlines()[2:]
    assert len(rows) == 4
    assert all(" ms; " in row for row in rows)
