"""A rank fails where others wait for it: an error or an end on all, no hang, and nothing that was committed is lost."""

from __future__ import annotations

import drystone as dry
import numpy as np
import pytest
from mpi_programs import ROOT, stacks

SOURCE = ROOT / "crates" / "capi" / "tests" / "mpi" / "failing.c"
RANKS, CELLS = 3, 16

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def failing(compiled):
    """The program for a stack, compiled once each."""
    made = {}

    def program(stack):
        if stack not in made:
            made[stack] = compiled(SOURCE, mpicc=stack.mpicc)
        return made[stack]

    return program


# The points at which a step's aggregator talks to the others: it begins, ends, exchanges, has written, has committed;
# the next begins.
KILLS = [
    pytest.param(stack, writers, victim, when, id=f"{stack.name}-{writers}-{victim}-{when}")
    for stack in stacks()
    for writers, victim, when in (
        [(1, 0, when) for when in range(1, 7)] + [(2, 1, 4), (1, 2, 3)]
        if stack.name == "wheel"
        else [(1, 0, 4)]
    )
]


@pytest.mark.parametrize(("stack", "writers", "victim", "when"), KILLS)
def test_an_aggregator_that_is_killed_ends_all_and_loses_nothing(
    failing, tmp_path, stack, writers, victim, when
):
    path = tmp_path / "run.dry"
    ended = stack.run(RANKS, failing(stack), "killed", path, writers, victim, when, timeout=240)
    assert ended.returncode != 0
    found = dry.open(path)
    assert list(found.steps)[:2] == [0, 1]
    check(found)
    with dry.open(path, mode="r+") as c:
        c.recover(adopt=True)
        check(c)
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("u", np.arange(RANKS * CELLS) * 1.0)
        assert c.steps[-1] >= 2
        assert not c.verify().damage


def check(c):
    """Every step that is there is whole."""
    for step in c.steps:
        rank, cell = np.divmod(np.arange(RANKS * CELLS), CELLS)
        np.testing.assert_array_equal(c["u"][step], 1000.0 * step + 100.0 * rank + cell)


@pytest.mark.parametrize("stack", stacks(), ids=lambda stack: stack.name)
@pytest.mark.parametrize(("kind", "writers", "victim"), [("full", 1, 0), ("full", 3, 2), ("order", 1, 1)])
def test_what_one_rank_cannot_do_is_an_error_of_all_and_they_go_on(
    failing, tmp_path, stack, kind, writers, victim
):
    path = tmp_path / "run.dry"
    stack.succeed(RANKS, failing(stack), kind, path, writers, victim, timeout=240)
    found = dry.open(path)
    assert list(found.steps) == [0, 1, 2]
    check(found)
    assert not found.verify().damage
