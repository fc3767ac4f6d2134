"""The papers' checkpoint kernels run, in every way that is there, and give back what they wrote; the figures are for
bench/."""

from __future__ import annotations

import shutil
import sys

import pytest
from mpi_programs import ROOT, succeed

pytestmark = pytest.mark.slow


def test_the_kernels_write_and_read_in_every_way(prefix, tmp_path):
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    run = ROOT / "bench" / "checkpoint" / "run.py"
    options = ["--quick", "--prefix", prefix, "--folder", tmp_path]
    said = succeed(sys.executable, run, *options, timeout=300).stdout
    rows = [line for line in said.splitlines() if line.startswith(("| 256 KiB", "| 2 ranks"))]
    assert len(rows) == 6
    assert said.count("from the device") == 2
    assert "| drystone ms | mpiio ms |" in said
