"""The example of derived variables runs, and says that both runs have the same bits."""

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples/vorticity/vorticity.py"


def test_vorticity_has_the_same_bits_in_eight_blocks_and_in_one(tmp_path):
    command = [sys.executable, str(DEMO), "--folder", str(tmp_path / "v"), "--cells", "24", "--steps", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the same bits in 8 blocks and in 1, as NumPy") == 2
    assert "cells of the last step have an enstrophy above" in done.stdout
