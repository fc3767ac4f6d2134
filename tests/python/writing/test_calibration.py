"""Calibration: a store's costs are measured, stored per device, and used; a missing or bad one causes no failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DRYSTONE_CACHE", str(folder))
    return folder


def test_a_calibration_is_kept_for_other_containers_on_the_device(path: Path, cache: Path):
    with dry.create(path) as c:
        assert c.calibration is None
        before = {p.name for p in path.iterdir()}
        found = c.calibrate(seconds=0.3, max_bytes=16 << 20)
        assert {p.name for p in path.iterdir()} == before
        assert found.kept is not None
        assert Path(found.kept).parent == cache / "devices"
        assert [read.depth for read in found.reads] == [1, 2, 4, 8, 16]
        assert found.spread >= 1
        assert found.moved >= 1
        assert found.load is None or found.load >= 0
        assert ("NOISY" in str(found)) == found.noisy
        assert found.write > 0
        assert found.sync > 0
        assert found.time is not None
        assert "under way" in str(found)
        assert c.calibration is not None
        assert c.calibration.reads == found.reads
    with dry.create(path.with_name("other.dry")) as other:
        assert other.calibration is not None
        assert other.calibration.reads == found.reads
    Path(found.kept).write_text("damaged")
    with dry.open(path) as c:
        assert c.calibration is None


def test_auto_reckons_with_the_measured_bandwidth_of_writes(path: Path, cache: Path):
    values = np.arange(1 << 16, dtype="f4")
    with dry.create(path) as c:
        c.create_variable("x", "f4", values.shape, transform="auto")
        c.create_variable("given", "f4", values.shape, transform="auto:bandwidth=50")
        with c.writer() as w:
            w.put("x", values)
            assert "store 200 MB/s" in str(w.choices()["x"])
        measured = int(c.calibrate(seconds=0.2, max_bytes=16 << 20).write / 1e6)
        with c.writer() as w:
            w.put("x", values)
            w.put("given", values)
            assert f"store {measured} MB/s" in str(w.choices()["x"])
            assert "store 50 MB/s" in str(w.choices()["given"])


def test_a_cache_folder_that_cannot_be_written_is_said_and_fails_nothing(path: Path, cache: Path):
    cache.write_text("a file where the folder should be")
    with dry.create(path) as c:
        found = c.calibrate(seconds=0.1, max_bytes=16 << 20)
        assert found.kept is None
        assert "cannot be written" in (found.not_kept or "")
        assert c.calibration is not None, "this handle knows it"


def test_what_was_measured_in_a_noise_is_said_where_layouts_are_explained(path: Path, cache: Path):
    with dry.create(path) as c:
        c.create_variable("x", "f4", (64, 64))
        found = c.calibrate(seconds=0.1, max_bytes=16 << 20)
        assert ("NOISY" in c["x"].why((64, 64))) == found.noisy
    assert found.kept is not None
    kept = Path(found.kept)
    document = json.loads(kept.read_text())
    for load, noisy in ((9.5, True), (0.1, False)):
        kept.write_text(json.dumps(document | {"load": load, "spread": 1.0, "moved": 1.0}))
        with dry.open(path) as c:
            assert c.calibration is not None
            assert c.calibration.noisy == noisy
            assert ("NOISY" in c["x"].why((64, 64))) == noisy


def test_blocks_are_cut_for_readers_that_tell_the_store_ahead(path: Path, cache: Path):
    with dry.create(path) as c:
        c.create_variable("x", "f4", (64, 64))
        kept = c.calibrate(seconds=0.1, max_bytes=16 << 20).kept
    assert kept is not None
    document = json.loads(Path(kept).read_text())
    reads = [
        {"depth": depth, "bandwidth": 1e9, "request": request}
        for depth, request in ((1, 1e-3), (2, 5e-4), (4, 2.5e-4), (8, 1.25e-4), (16, 1e-4))
    ]
    Path(kept).write_text(json.dumps(document | {"reads": reads}))
    with dry.open(path) as c:
        assert "0.125 ms per request" in c["x"].why((64, 64)), (
            "eight are under way, however many threads read"
        )


def test_a_reader_cannot_calibrate_and_limits_are_checked(path: Path, cache: Path):
    with dry.create(path) as c, pytest.raises(dry.InvalidArgumentError):
        c.calibrate(max_bytes=1000)
    with dry.open(path) as c, pytest.raises(dry.DrystoneError):
        c.calibrate()


def test_the_command_measures_any_folder_and_shows_what_is_known(tmp_path: Path, cache: Path):
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "drystone", "calibrate", str(tmp_path), *args]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("--show").returncode == 3
    measured = run("--seconds", "0.2", "--most", "16")
    assert measured.returncode == 0, measured.stderr
    assert (
        "kept for 30 days" in measured.stdout or "kept for a day" in measured.stdout
    )  # as busy as the machine is
    assert "turns of the same reads differed" in measured.stdout
    assert "per sync" in measured.stdout
    assert "16 under way" in run("--show").stdout
    assert run("--seconds", "-1").returncode == 2
