"""Runs programs with the MPI of this environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from job import mpi_environment

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def run(*command, timeout=120, **more):
    """Runs a command to its end; what it said is in the assertion if it fails."""
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=mpi_environment(),
        **more,
    )


def succeed(*command, **more):
    done = run(*command, **more)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done
