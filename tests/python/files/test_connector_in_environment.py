"""Imports and exports in a shell that has the variables of `drystone hdf5-env`.

Symptom: h5py wrote a stub and a hidden folder in place of the exported file, or the command failed.
"""

import os
import subprocess
import sys
from contextlib import contextmanager

import drystone as dry
import numpy as np
import pytest
from drystone import hdf5
from drystone.errors import InvalidArgumentError, UnsupportedError
from drystone.interchange.formats import Contents, apart

h5py = pytest.importorskip("h5py")
netCDF4 = pytest.importorskip("netCDF4")

# Here is no plug-in, so HDF5 fails if it asks for one.
SET = {**os.environ, hdf5.CONNECTOR_VARIABLE: "drystone buffer=64", hdf5.PATH_VARIABLE: "/nowhere"}


def drystone_with_it(*arguments):
    command = [sys.executable, "-m", "drystone", *map(str, arguments)]
    ended = subprocess.run(command, env=SET, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("suffix", ["h5", "nc", "xdmf"])
def test_the_exported_file_is_hdf5s_own(tmp_path, path, suffix):
    with dry.create(path) as c:
        c.create_variable("x", "f8", (3,), dims=("t",))[...] = 1
    drystone_with_it("export", path, tmp_path / f"a.{suffix}")
    assert [file.name for file in tmp_path.iterdir() if file.is_dir()] == [path.name]
    with h5py.File(tmp_path / f"a.{'h5' if suffix == 'xdmf' else suffix}") as f:
        assert f["x"][...].tolist() == [1, 1, 1]


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_a_genuine_file_is_imported(tmp_path, path, suffix):
    with h5py.File(tmp_path / f"a.{suffix}", "w") as f:
        f["x"] = np.arange(3)
    drystone_with_it("import", tmp_path / f"a.{suffix}", path)
    with dry.open(path) as c:
        assert c["x"][...].tolist() == [0, 1, 2]


def test_a_process_that_has_loaded_hdf5_is_told_to_use_another(tmp_path, path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(3)
    dry.import_file(tmp_path / "a.h5", path)
    monkeypatch.setenv(hdf5.CONNECTOR_VARIABLE, "drystone")
    with pytest.raises(UnsupportedError, match="in a process without the variable"):
        dry.export(path, tmp_path / "b.h5")
    with pytest.raises(UnsupportedError, match="in a process without the variable"):
        dry.import_file(tmp_path / "a.h5", tmp_path / "again.dry")
    monkeypatch.setenv(hdf5.CONNECTOR_VARIABLE, "native")
    dry.export(path, tmp_path / "b.h5")


def test_a_reader_in_another_process_does_not_get_it(tmp_path, monkeypatch):
    @contextmanager
    def told(path, asker):
        yield Contents(groups={"": {"connector": os.environ.get(hdf5.CONNECTOR_VARIABLE)}})

    monkeypatch.setenv(hdf5.CONNECTOR_VARIABLE, "drystone")
    with apart.opened(told, tmp_path, "a package") as contents:
        assert contents.groups[""] == {"connector": None}
    assert os.environ[hdf5.CONNECTOR_VARIABLE] == "drystone"


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_a_stub_is_not_imported_but_published(tmp_path, path, suffix):
    stub = tmp_path / f"a.{suffix}"
    stub.write_bytes(b"\x89HDF\r\n\x1a\nDRYSTONE" + bytes(4096))
    with pytest.raises(InvalidArgumentError, match=f"drystone publish --hdf5 .*a.{suffix}"):
        dry.import_file(stub, path)


def test_what_an_hdf5_program_wrote_is_not_exported_but_published(tmp_path, path):
    """Symptom: the export had the connector's own variables (`.hdf5/catalogue`), and not those of the program."""
    with dry.create(path) as c:
        c.create_variable(".hdf5/catalogue", "u1", (3,))[...] = 1
        c.create_variable("x", "u1", (3,))[...] = 1
    for chosen in (None, ".hdf5/catalogue"):
        with pytest.raises(InvalidArgumentError, match="drystone publish --hdf5 "):
            dry.export(path, tmp_path / "a.zarr", chosen)
    assert not (tmp_path / "a.zarr").exists()
    dry.export(path, tmp_path / "x.npy", "x")
    assert np.load(tmp_path / "x.npy").tolist() == [1, 1, 1]
