"""h5py's own tests through the connector: some of its files always, all of it for two versions if DRYSTONE_LONG=1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOME = ["test_attrs.py", "test_group.py", "test_dimension_scales.py"]


def suite(*words):
    done = subprocess.run(
        [sys.executable, HERE / "h5py_suite.py", *words],
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_some_of_h5py_s_tests_end_as_expected(connector_environment):
    """Groups, links, attributes, dimension scales."""
    assert "by drystone" in suite(*SOME)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("DRYSTONE_LONG"), reason="minutes: DRYSTONE_LONG=1")
@pytest.mark.parametrize("version", ["3.16.0", "3.15.1"])
def test_all_of_h5py_s_tests_end_as_expected(connector_environment, version):
    """The whole suite; 3.15.1 (HDF5 1.14.6) is installed into build/ at its first use."""
    assert "by drystone" in suite("--h5py", version)
