"""The command of the package."""

import subprocess
import sys

import drystone as dry


def test_the_module_runs_the_command(path):
    with dry.create(path) as c:
        c.create_variable("temperature", "f4", shape=(2,))
    done = subprocess.run(
        [sys.executable, "-m", "drystone", "ls", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "temperature" in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "drystone", "ls", f"{path}.no"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "nothing at" in done.stderr
