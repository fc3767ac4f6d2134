"""The commands by which docs/guide/c.md compiles programs, as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
from mpi_programs import ROOT, stacks

EXAMPLE = ROOT / "examples" / "gray_scott"

pytestmark = pytest.mark.slow


def blocks(language):
    text = (ROOT / "docs" / "guide" / "c.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def place(prefix, tmp_path_factory):
    """A home folder with the library in it, programs beside it, and the environment of who types there."""
    if shutil.which("pkg-config") is None:
        pytest.skip("needs pkg-config")
    home = tmp_path_factory.mktemp("home")
    # What pkg-config says must hold here too: the prefix was installed under its own name.
    (home / "drystone").symlink_to(prefix)
    shutil.copy(EXAMPLE / "simulate.f90", home / "program.f90")
    environment = os.environ | {
        "HOME": str(home),
        "PKG_CONFIG_PATH": str(home / "drystone" / "lib" / "pkgconfig"),
        "LD_LIBRARY_PATH": str(home / "drystone" / "lib"),
    }
    return home, environment


def typed(place, block, **more):
    home, environment = place
    done = subprocess.run(
        ["bash", "-euc", block], cwd=home, env=environment | more, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr


def test_a_program_in_c_is_compiled_as_the_guide_says(place):
    home, _ = place
    (home / "program.c").write_text(blocks("c")[0])
    install, compile_it = blocks("sh")[0].strip().splitlines()
    assert install.startswith("make install PREFIX=$HOME/drystone")
    typed(place, compile_it + "\n./a.out\n")


FORTRAN = [stack for stack in stacks() if stack.mpifort]


@pytest.mark.parametrize("stack", FORTRAN or [None], ids=lambda stack: stack.name if stack else "none")
def test_programs_with_mpi_are_compiled_as_the_guide_says(place, tmp_path, stack):
    if stack is None:
        pytest.skip("neither mpifort.openmpi nor mpifort.mpich is installed")
    home, environment = place
    shutil.copy(EXAMPLE / "simulate.c", home / "program.c")
    for name in ("mpicc", "mpifort"):
        (tmp_path / name).symlink_to(shutil.which(getattr(stack, name)))
    path = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    in_c, in_fortran = blocks("sh")[1:]
    for block, run in ((in_c.rstrip() + " -lm\n", "c.dry"), (in_fortran, "f.dry")):
        typed(place, block, PATH=path)
        words = [
            stack.mpiexec,
            "-n",
            "2",
            str(home / "a.out"),
            str(tmp_path / run),
            "--grid",
            "8",
            "--outputs",
            "1",
        ]
        done = subprocess.run(
            words, env=stack.environment | {"LD_LIBRARY_PATH": environment["LD_LIBRARY_PATH"]}, capture_output=True, text=True,
            timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
