"""Every MPI that is installed: one library serves them all, and the simulation is the same in C, Fortran and Python."""

from __future__ import annotations

import sys

import drystone as dry
import pytest
from mpi_programs import BIN, ROOT, stacks, succeed

COLLECTIVE = ROOT / "crates" / "capi" / "tests" / "mpi" / "collective.c"
EXAMPLE = ROOT / "examples" / "gray_scott"

pytestmark = pytest.mark.slow

OTHERS = [stack for stack in stacks() if stack.name != "wheel"]
FORTRAN = [stack for stack in OTHERS if stack.mpifort]


@pytest.mark.parametrize("stack", OTHERS or [None], ids=lambda stack: stack.name if stack else "none")
def test_one_library_serves_every_mpi(compiled, tmp_path, stack):
    if stack is None:
        pytest.skip("neither mpicc.openmpi nor mpicc.mpich is installed")
    program = compiled(COLLECTIVE, mpicc=stack.mpicc)
    path = tmp_path / "run.dry"
    stack.succeed(3, program, path, 0)
    assert not dry.open(path).verify().damage


@pytest.mark.parametrize("stack", FORTRAN or [None], ids=lambda stack: stack.name if stack else "none")
def test_c_fortran_and_python_go_on_from_each_other_bit_for_bit(compiled, compiled_fortran, tmp_path, stack):
    if stack is None:
        pytest.skip("neither mpifort.openmpi nor mpifort.mpich is installed")
    in_c = compiled(EXAMPLE / "simulate.c", "-ffp-contract=off", mpicc=stack.mpicc)
    in_fortran = compiled_fortran(EXAMPLE / "simulate.f90", stack)
    mixed, whole = tmp_path / "mixed.dry", tmp_path / "whole.dry"
    shape = ["--grid", 10, "--interval", 2]
    stack.succeed(1, in_c, whole, *shape, "--outputs", 6)
    stack.succeed(2, in_fortran, mixed, *shape, "--outputs", 1)
    # Each language reads what each other one wrote last.
    stack.succeed(3, in_c, mixed, "--restart", "--outputs", 2)
    python(mixed, "--restart", "--outputs", 3)
    stack.succeed(2, in_fortran, mixed, "--restart", "--outputs", 4)
    python(mixed, "--restart", "--outputs", 5)
    stack.succeed(1, in_c, mixed, "--restart", "--outputs", 5)
    stack.succeed(3, in_fortran, mixed, "--restart", "--outputs", 6)
    a, b = dry.open(mixed), dry.open(whole)
    assert list(a.steps) == list(b.steps) == [0, 1, 2, 3, 4, 5, 6]
    for name in ("U", "V"):
        assert a[name].dims == ("z", "y", "x")
        assert dict(a[name].attrs) == dict(b[name].attrs)
        assert a[name][:].tobytes() == b[name][:].tobytes()


def python(*arguments):
    succeed(BIN / "mpiexec", "-n", 2, sys.executable, EXAMPLE / "simulate.py", *arguments)


@pytest.mark.parametrize("stack", FORTRAN[:1] or [None], ids=lambda stack: stack.name if stack else "none")
def test_a_fortran_program_tells_what_is_wrong(compiled_fortran, tmp_path, stack):
    if stack is None:
        pytest.skip("neither mpifort.openmpi nor mpifort.mpich is installed")
    program = compiled_fortran(EXAMPLE / "simulate.f90", stack)
    assert stack.run(2, program, tmp_path / "x.dry", "--nonsense").returncode != 0
    gone = stack.run(2, program, tmp_path / "gone.dry", "--restart")
    assert gone.returncode != 0
    assert "nothing at" in gone.stderr
