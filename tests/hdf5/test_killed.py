"""Killed at random, what was flushed is there."""

import os

import parallel
import pytest
from conftest import is_stub
from killed import kill, kill_ranks

KILLS = 30 if os.environ.get("DRYSTONE_LONG") else 3


def test_what_was_flushed_survives_a_kill(connector_environment, tmp_path):
    """Rows, an attribute and groups, at any moment after a flush that the program saw return."""
    for seed in range(KILLS):
        path = tmp_path / f"{seed}.h5"
        said, wrong = kill(connector_environment, path, seed)
        assert is_stub(path)
        assert wrong is None, (seed, said, wrong)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The compiled program of several ranks."""
    if why := parallel.missing():
        pytest.skip(why)
    return parallel.compiled(tmp_path_factory.mktemp("ranks"))


def test_what_all_ranks_flushed_survives_the_kill_of_one(connector_environment, program, tmp_path):
    """Rows of every rank, and nobody hangs."""
    for seed in range(KILLS):
        path = tmp_path / f"{seed}.h5"
        used, said, wrong = kill_ranks(connector_environment, program, path, seed)
        assert (used, is_stub(path)) == ("drystone", True)
        assert wrong is None, (seed, said, wrong)


def test_native_hdf5_is_put_to_the_same_test(native_environment, program, tmp_path):
    """What it finds is no promise of ours (docs/guide/hdf5.md says how native files fare); that it is really native is
    asserted."""
    used, said, _ = kill_ranks(native_environment, program, tmp_path / "x.h5", 0)
    assert used == "native"
    assert said >= 9
