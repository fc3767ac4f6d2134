"""The wheel alone, in a new environment with h5py, is enough: `make wheel`, then DRYSTONE_LONG=1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import is_stub

ROOT = Path(__file__).resolve().parents[2]
WHEELS = Path(os.environ.get("DRYSTONE_WHEELS", ROOT / "build" / "wheels"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A new environment with the newest wheel and h5py: its folder of programs."""
    if os.environ.get("DRYSTONE_LONG") != "1":
        pytest.skip("a new environment takes half a minute: DRYSTONE_LONG=1")
    wheels = sorted(WHEELS.glob("drystone-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        pytest.skip("no wheel in build/wheels: make wheel")
    home = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    install = [home / "bin" / "python", "-m", "pip", "install", "--quiet", wheels[-1], "h5py==3.16.0"]
    subprocess.run(install, check=True)
    return home / "bin"


def test_the_wheel_makes_h5py_write_containers_and_publishes_them(fresh, native_environment, tmp_path):
    """As the documentation says it, in a shell, away from the sources."""
    script = """
        set -euo pipefail
        eval "$(drystone hdf5-env)"
        drystone doctor
        python -c 'import h5py, numpy; h5py.File("x.h5", "w").create_dataset("x", data=numpy.arange(100000.0))'
        head -c 16 x.h5 | tail -c 8
        python -c 'import h5py; assert h5py.File("x.h5")["x"][99999] == 99999'
        drystone publish --hdf5 x.h5
        eval "$(drystone hdf5-env --off)"
        python -c 'import h5py; assert h5py.File("x.h5")["x"][99999] == 99999; print("published")'
    """
    environment = {k: v for k, v in native_environment.items() if not k.startswith("PYTHON")}
    environment["PATH"] = f"{fresh}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DRYSTONE" in done.stdout
    assert done.stdout.endswith("published\n")
    assert not is_stub(tmp_path / "x.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["x.h5"]
