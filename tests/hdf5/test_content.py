"""Random HDF5 content through the connector: the same as native HDF5 makes, read by a fresh process, and published."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import is_stub
from content import programs
from describe import differences
from hypothesis import HealthCheck, Phase, given, settings

EXAMPLES = 300 if os.environ.get("DRYSTONE_LONG") else 15
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="DRYSTONE_LONG" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def clear(*paths):
    for path in paths:
        path.unlink(missing_ok=True)
        for container in path.parent.glob(f"{path.name}.drystone*"):
            shutil.rmtree(container)


@pytest.fixture(scope="session")
def publish(native_environment):
    def run(path):
        done = subprocess.run(
            [sys.executable, "-m", "drystone", "publish", "--hdf5", path],
            env=native_environment, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    return run


@SETTINGS
@given(program=programs)
def test_a_file_through_the_connector_holds_what_native_hdf5_writes(native, connected, tmp_path, program):
    """What an action gave or refused, and everything in the file."""
    plain, ours = tmp_path / "plain.h5", tmp_path / "ours.h5"
    clear(plain, ours)
    expected = native.ask("perform", program, str(plain))
    found = connected.ask("perform", program, str(ours))
    assert is_stub(ours)
    refused = [
        (act, a, b)
        for act, a, b in zip(program, expected, found, strict=True)
        if (a == "done") != (b == "done")
    ]
    assert refused == []
    assert differences(native.ask("describe", str(plain)), connected.ask("describe", str(ours))) == []


@SETTINGS
@given(program=programs)
def test_a_published_file_reads_the_same_natively(native, connected, publish, tmp_path, program):
    """Without the plug-in, in a process that never had it."""
    ours = tmp_path / "ours.h5"
    clear(ours)
    connected.ask("perform", program, str(ours))
    assert is_stub(ours)
    before = connected.ask("describe", str(ours))
    publish(ours)
    assert not is_stub(ours)
    assert list(Path(tmp_path).glob("ours.h5.drystone*")) == []
    assert native.ask("connector", str(ours)) == "native"
    assert differences(before, native.ask("describe", str(ours))) == []
