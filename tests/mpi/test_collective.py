"""Programs of many ranks in C: they write and read together, and fail together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from job import mpi_environment
from mpi_programs import BIN, ROOT, run, succeed

SOURCE = ROOT / "crates" / "capi" / "tests" / "mpi" / "collective.c"
EXAMPLE = ROOT / "examples" / "gray_scott"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("ranks", "writers"), [(1, 0), (5, 0), (5, 2), (4, 4)])
def test_ranks_write_and_read_together(compiled, tmp_path, ranks, writers):
    # Messages in pieces of 1000 bytes, which otherwise only gigabytes are cut into.
    program = compiled(SOURCE, "-DDRY_MPI_PIECE=1000u")
    path = tmp_path / "run.dry"
    succeed(BIN / "mpiexec", "-n", ranks, program, path, writers)
    c = dry.open(path)
    columns = sum(1 + r % 3 for r in range(ranks))
    row, column = np.ogrid[:6, :columns]
    for step in range(3):
        np.testing.assert_array_equal(c["u"][step], 1000.0 * step + 100 * row + column)
    expected = writers or 1
    assert len(list((path / "log").glob("*.seg"))) == expected
    assert not c.verify().damage


@pytest.fixture(scope="module")
def simulate(compiled):
    """The simulation in C, which computes the bits of the one in Python."""
    return compiled(EXAMPLE / "simulate.c", "-ffp-contract=off")


def python(*arguments, ranks):
    return succeed(BIN / "mpiexec", "-n", ranks, sys.executable, EXAMPLE / "simulate.py", *arguments)


def test_a_simulation_goes_on_in_another_language_bit_for_bit(simulate, tmp_path):
    mixed, whole = tmp_path / "mixed.dry", tmp_path / "whole.dry"
    shape = ["--grid", 12, 14, 10, "--interval", 3]
    python(whole, *shape, "--outputs", 4, ranks=2)
    python(mixed, *shape, "--outputs", 1, ranks=3)
    succeed(BIN / "mpiexec", "-n", 2, simulate, mixed, "--restart", "--outputs", 3)
    python(mixed, "--restart", "--outputs", 4, ranks=2)
    a, b = dry.open(mixed), dry.open(whole)
    assert list(a.steps) == list(b.steps) == [0, 1, 2, 3, 4]
    for name in ("U", "V"):
        assert a[name][:].tobytes() == b[name][:].tobytes()


def test_a_simulation_begun_in_c_is_the_same_on_any_ranks_and_goes_on_in_python(simulate, tmp_path):
    found = []
    for ranks in (1, 4):
        path = tmp_path / f"{ranks}.dry"
        succeed(BIN / "mpiexec", "-n", ranks, simulate, path, "--grid", 9, "--outputs", 2, "--interval", 2)
        python(path, "--restart", "--outputs", 3, ranks=2)
        c = dry.open(path)
        assert c["U"].attrs["interval"] == 2
        found.append(c["U"][:].tobytes() + c["V"][:].tobytes())
    assert found[0] == found[1]


def test_a_rank_that_is_killed_ends_the_program_and_nothing_committed_is_lost(simulate, tmp_path):
    path = tmp_path / "killed.dry"
    command = [BIN / "mpiexec", "-n", 3, simulate, path, "--grid", 24, "--outputs", 100000, "--interval", 1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    program = subprocess.Popen([str(word) for word in command], env=mpi_environment(), **quiet)
    try:
        wait_for_steps(path, 3)
        victim = next(
            pid for pid in children(program.pid) if str(path) in command_line(pid) and "simulate" in name(pid)
        )
        subprocess.run(["kill", "-KILL", str(victim)], check=True)
        assert program.wait(timeout=240) != 0
    finally:
        program.kill()
        program.wait()
    before = list(dry.open(path).steps)
    assert len(before) >= 3
    succeed(BIN / "mpiexec", "-n", 2, simulate, path, "--restart", "--outputs", before[-1] + 3)
    c = dry.open(path)
    assert list(c.steps)[: len(before)] == before
    assert c.steps[-1] >= before[-1] + 3
    assert not c.verify().damage


def wait_for_steps(path, count):
    for _ in range(4000):
        try:
            if len(dry.open(path).steps) >= count:
                return
        except dry.NotFoundError:
            pass
        subprocess.run(["sleep", "0.05"], check=True)
    raise AssertionError("the simulation wrote no steps")


def children(pid):
    """All processes below one."""
    below = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return below + [deeper for child in below for deeper in children(child)]


def command_line(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def name(pid):
    return Path(f"/proc/{pid}/comm").read_text()


def test_wrong_arguments_end_all_ranks(simulate, tmp_path):
    assert run(BIN / "mpiexec", "-n", 2, simulate, tmp_path / "x.dry", "--nonsense").returncode == 2
    gone = run(BIN / "mpiexec", "-n", 2, simulate, tmp_path / "gone.dry", "--restart")
    assert gone.returncode != 0
    assert "nothing at" in gone.stderr
