"""Killed at random, what was flushed is there."""

import os

from conftest import is_stub
from killed import kill

KILLS = 30 if os.environ.get("DRYSTONE_LONG") else 3


def test_what_was_flushed_survives_a_kill(connector_environment, tmp_path):
    """Rows, an attribute and groups, at any moment after a flush that the program saw return."""
    for seed in range(KILLS):
        path = tmp_path / f"{seed}.h5"
        said, wrong = kill(connector_environment, path, seed)
        assert is_stub(path)
        assert wrong is None, (seed, said, wrong)
