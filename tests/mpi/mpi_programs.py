"""Runs programs with the MPI of this environment."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from job import mpi_environment

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def run(*command, timeout=280, **more):
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


@dataclass(frozen=True)
class Stack:
    """An MPI: its compilers and its mpiexec."""

    name: str
    mpicc: str
    mpiexec: str
    mpifort: str | None

    @property
    def environment(self) -> dict[str, str]:
        """In which it runs more ranks than cores, as any user."""
        # Debian's Open MPI 4 and the wheel's Open MPI 5 ask for it in different words.
        return mpi_environment() | {
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_btl_base_warn_component_unused": "0",
        }

    def run(self, ranks, *command, timeout=280):
        """Runs a program on so many ranks."""
        words = [self.mpiexec, "-n", str(ranks), *(str(word) for word in command)]
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout, env=self.environment)

    def succeed(self, ranks, *command, **more):
        done = self.run(ranks, *command, **more)
        assert done.returncode == 0, f"{self.name}: {command}:\n{done.stdout}{done.stderr}"
        return done


@functools.cache
def _compiles(mpicc: str) -> bool:
    """Has it its headers? Debian has them in a package of their own, beside the compilers'."""
    words = [mpicc, "-E", "-x", "c", "-"]
    return not subprocess.run(
        words, input="#include <mpi.h>", text=True, capture_output=True, check=False
    ).returncode


def stacks() -> list[Stack]:
    """The wheel of this environment, and Open MPI and MPICH as distributions install them side by side."""
    found = []
    if (BIN / "mpicc").exists():
        found.append(Stack("wheel", str(BIN / "mpicc"), str(BIN / "mpiexec"), None))
    for name in ("openmpi", "mpich"):
        commands = [shutil.which(f"{command}.{name}") for command in ("mpicc", "mpiexec", "mpifort")]
        if commands[0] and commands[1] and _compiles(commands[0]):
            found.append(Stack(name, commands[0], commands[1], commands[2]))
    folder = os.environ.get("DRYSTONE_MPI")  # the bin folder of another one
    if folder:
        fortran = Path(folder, "mpifort")
        found.append(
            Stack("other", f"{folder}/mpicc", f"{folder}/mpiexec", str(fortran) if fortran.exists() else None)
        )
    return found
