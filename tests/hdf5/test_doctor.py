"""`drystone hdf5-env` and `drystone doctor`: what a user whose connector does not load is told."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from drystone import hdf5

LIBRARY = next(Path(h5py.__file__).parent.with_name("h5py.libs").glob("libhdf5-*.so*"), None)


def run(*words, environment, code=None):
    done = subprocess.run(
        [sys.executable, "-m", "drystone", *map(str, words)],
        env={**environment, "NO_COLOR": "1"}, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def findings(environment, *words):
    """What the doctor finds wrong."""
    told = json.loads(run("doctor", "--json", *words, environment=environment).stdout)
    return [f"{one['what']} -> {one['remedy']}" for one in told if one["state"] == "BAD"]


def test_a_shell_can_evaluate_the_variables(connector_environment, native_environment):
    """Also where the folder's name has a space, and other plug-ins stay reachable."""
    environment = native_environment | {"HDF5_PLUGIN_PATH": "/opt/my filters"}
    script = f'eval "$({sys.executable} -m drystone hdf5-env publish=1)" && env'
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "HDF5_VOL_CONNECTOR=drystone publish=1" in lines
    assert f"HDF5_PLUGIN_PATH={hdf5.plugin().parent}:/opt/my filters" in lines


def test_the_doctor_is_content_where_all_is_well(connector_environment):
    """Each library of this Python made a file through the connector."""
    done = run("doctor", environment=connector_environment, code=0)
    assert "made a file through drystone" in done.stdout
    assert "BAD" not in done.stdout


def test_the_doctor_says_that_nothing_asks_for_the_connector(connector_environment, native_environment):
    """With the remedy, which works."""
    wrong = findings(native_environment)
    assert any("HDF5_VOL_CONNECTOR is not set" in line for line in wrong)
    assert any("with eval" in line and "it uses drystone" in line for line in wrong)


def test_the_doctor_sees_a_path_without_the_plug_in(connector_environment, tmp_path):
    """The false green: HDF5 1.14 would go on with its own format, 2.0 fails."""
    wrong = findings(connector_environment | {"HDF5_PLUGIN_PATH": str(tmp_path)})
    assert any("no folder of HDF5_PLUGIN_PATH holds" in line for line in wrong)
    assert any("of h5py" in line for line in wrong)


def test_the_doctor_sees_a_wrong_name(connector_environment):
    """HDF5 knows connectors by name."""
    wrong = findings(connector_environment | {"HDF5_VOL_CONNECTOR": "dryston"})
    assert any("names 'dryston'" in line for line in wrong)


def test_the_doctor_sees_another_connector(connector_environment):
    """Two cannot be chosen at once."""
    wrong = findings(connector_environment | {"HDF5_VOL_CONNECTOR": "pass_through under_vol=0;under_info={}"})
    assert any("names 'pass_through'" in line for line in wrong)


def test_the_doctor_sees_that_plug_ins_are_off(connector_environment):
    """The one word by which HDF5 loads none."""
    wrong = findings(connector_environment | {"HDF5_PLUGIN_PRELOAD": "::"})
    assert any("HDF5_PLUGIN_PRELOAD" in line for line in wrong)


def test_the_doctor_says_what_the_connector_says_of_its_configuration(connector_environment):
    """A word that is misspelt."""
    wrong = findings(connector_environment | {"HDF5_VOL_CONNECTOR": "drystone publsh=1"})
    assert any("of h5py" in line for line in wrong)


def test_the_doctor_sees_a_damaged_plug_in(connector_environment, tmp_path, monkeypatch):
    """A file that is none of the loader's."""
    package = tmp_path / "drystone"
    shutil.copytree(hdf5.plugin().parents[2], package, ignore=shutil.ignore_patterns("__pycache__"))
    plugin = package / "hdf5" / "plugin" / hdf5.plugin().name
    plugin.write_bytes(plugin.read_bytes()[:4096])
    wrong = findings(connector_environment | {"PYTHONPATH": str(tmp_path)})
    assert any("cannot be loaded" in line for line in wrong)
    plugin.unlink()
    environment = connector_environment | {"PYTHONPATH": str(tmp_path)}
    assert any("the plug-in is not at" in line for line in findings(environment))
    assert "built without it" in run("hdf5-env", environment=environment, code=3).stderr


def test_the_doctor_sees_an_hdf5_that_is_too_old(connector_environment):
    """Debian 12 has 1.10: programs with it go on, with their own files."""
    old = next(Path("/usr/lib").glob("*/libhdf5_serial.so.*"), None)
    if old is None:
        pytest.skip("no old HDF5 here")
    wrong = findings(connector_environment, "--library", old)
    assert any("too old" in line and "1.14.0 or newer" in line for line in wrong)


def test_the_doctor_asks_the_library_of_a_program(connector_environment, tmp_path):
    """One that is linked with it, and one that is not."""
    wrong = findings(connector_environment, "--program", "/bin/sh")
    assert any("not linked with a libhdf5" in line for line in wrong)
    if LIBRARY is None or shutil.which("cc") is None:
        pytest.skip("no HDF5 to link with")
    (tmp_path / "one.c").write_text("int H5open(void); int main(void) { return H5open() < 0; }")
    program = tmp_path / "one"
    link = ["cc", tmp_path / "one.c", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-o", program]
    subprocess.run(list(map(str, [*link, "-Wl,--allow-shlib-undefined"])), check=True)
    done = run("doctor", "--program", program, environment=connector_environment, code=0)
    assert "of one made a file through drystone" in done.stdout
    assert os.environ.get("HDF5_VOL_CONNECTOR") is None
