"""What the tests of the HDF5 connector share: native and connected processes, and the plug-in's whereabouts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from worker import Worker


@pytest.fixture(scope="session")
def native_environment():
    """This process's, without a connector."""
    return {k: v for k, v in os.environ.items() if k not in ("HDF5_VOL_CONNECTOR", "HDF5_PLUGIN_PATH")}


STUB = b"\x89HDF\r\n\x1a\nDRYSTONE"


def is_stub(path):
    """Whether a file was really made through the connector, and not published."""
    return Path(path).read_bytes()[:16] == STUB


def program(environment, code, *words, ok=True, **more):
    """Run Python code in a process of its own; gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env=environment, capture_output=True, text=True, errors="replace", timeout=280, **more,
    )  # fmt: skip
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="session")
def native(native_environment):
    """A process in which h5py uses HDF5 as it is."""
    worker = Worker(native_environment)
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def connector_environment(native_environment):
    """What `drystone hdf5-env` sets; skips where the plug-in was not built."""
    from drystone import hdf5

    if not hdf5.plugin().exists():
        pytest.skip("the plug-in for HDF5 is not built: make plugin")
    return native_environment | hdf5.environment(base=native_environment)


@pytest.fixture(scope="session")
def connected(connector_environment):
    """A process in which h5py uses the connector."""
    worker = Worker(connector_environment)
    yield worker
    worker.close()
