"""A program of ranks on several nodes keeps parity through its communicator, and is restarted on other ranks after
nodes were lost."""

from __future__ import annotations

import shutil

import drystone as dry
import numpy as np
import pytest
from mpi_programs import BIN, ROOT, run, succeed

SOURCE = ROOT / "crates" / "capi" / "tests" / "mpi" / "parity.c"
CELLS, STEPS = 4800, 3

pytestmark = pytest.mark.slow


def step(number: int) -> np.ndarray:
    return 1e6 * number + np.arange(CELLS)


@pytest.mark.parametrize(
    ("scheme", "ranks", "lost", "then"),
    [("partner", 2, [1], 3), ("xor:4", 4, [2], 3), ("rs:2+2", 4, [0, 3], 5)],
)
def test_a_run_goes_on_after_its_nodes_are_lost(
    compiled, tmp_path, monkeypatch, scheme, ranks, lost, then
) -> None:
    """No rank ever sees the tier of another one: the folders are named only to the rank that has it."""
    program, home = compiled(SOURCE), tmp_path / "run.dry"
    died = run(BIN / "mpiexec", "-n", ranks, program, home, tmp_path, "write", scheme)
    assert "kept by partners" in died.stdout, died.stdout + died.stderr
    assert died.returncode != 0
    for rank in lost:
        shutil.rmtree(tmp_path / f"near{rank}")
    with dry.open(home, "r+") as c:
        report = c.recover(lost_nodes=[f"n{rank}" for rank in lost])
        assert report.rebuilt == tuple(range(STEPS)), str(report)
    # What the other nodes have is brought home there.
    for rank in set(range(ranks)) - set(lost):
        monkeypatch.setenv("DRYSTONE_NODE", f"n{rank}")
        with dry.open(home, "r+", tiers=[tmp_path / f"near{rank}"]) as c:
            c.drain()
    monkeypatch.setenv("DRYSTONE_NODE", "spare")
    with dry.open(home) as c:
        for number in range(STEPS):
            np.testing.assert_array_equal(c["p"][number], step(number))
    succeed(BIN / "mpiexec", "-n", then, program, home, tmp_path, "read")
    with dry.open(home) as c:
        assert c.steps == list(range(STEPS + 1))
        np.testing.assert_array_equal(c["p"][STEPS], step(STEPS))


def test_more_losses_than_the_scheme_allows_are_said_by_step(compiled, tmp_path) -> None:
    program, home = compiled(SOURCE), tmp_path / "run.dry"
    run(BIN / "mpiexec", "-n", 4, program, home, tmp_path, "write", "xor:4")
    for rank in (1, 2):
        shutil.rmtree(tmp_path / f"near{rank}")
    with dry.open(home, "r+") as c:
        report = c.recover(lost_nodes=["n1", "n2"])
        assert report.rebuilt == ()
        assert "n1" in str(report)
        assert "n2" in str(report)
        assert c.steps == []
