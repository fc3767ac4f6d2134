"""The example of analyses with halos runs, and agrees with NumPy in all of them."""

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples/halos/analyses.py"


def test_three_analyses_are_those_of_numpy(tmp_path):
    command = [sys.executable, str(DEMO), "--cells", "18", "--blocks", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": as NumPy") == 4
