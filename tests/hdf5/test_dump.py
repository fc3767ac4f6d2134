"""What tools that know nothing of HDF5 see of a file written through the connector."""

import json
import subprocess
import sys
from pathlib import Path

import drystone
import pytest
from conftest import is_stub, program

WRITE = """
import sys, h5py, numpy as np
kind = np.dtype([("id", "<i4"), ("big", ">f4"), ("at", "<f8", (3,)), ("name", "S4"), ("of", [("mass", "<f4"), ("on", "?")])])
rows = np.zeros(3, kind)
rows["id"] = [7, 8, 9]
rows["big"] = [0.5, 1.5, 2.5]
rows["at"] = np.arange(9).reshape(3, 3) / 4
rows["name"] = [b"one", b"two", b"six"]
rows["of"]["mass"] = [0.5, 1.5, 2.5]
rows["of"]["on"] = [True, False, True]
with h5py.File(sys.argv[1], "w") as f:
    f["rows"] = rows
with h5py.File(sys.argv[1]) as f:
    assert np.array_equal(f["rows"][:], rows) and f["rows"].dtype == kind
    assert f["rows"]["id"].tolist() == [7, 8, 9]
"""


def test_members_of_compounds_are_shown_by_name(connector_environment, tmp_path):
    """h5py names a dataset after it has made it, so its variable has a number in place of a name."""
    path = tmp_path / "x.h5"
    program(connector_environment, WRITE, path)
    assert is_stub(path)

    def dump(*words):
        command = [
            Path(sys.executable).parent / "drystone",
            "dump",
            f"{path}.drystone",
            ".hdf5/data/104",
            *words,
        ]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)[
            "values"
        ]

    first = dump("--json")[0]
    assert (first["id"], first["at"], first["name"]) == (7, [0.0, 0.25, 0.5], "one")
    assert first["of"]["mass"] == 0.5
    assert dump("--json", "--field", "of.mass") == [0.5, 1.5, 2.5]


def test_the_name_that_the_program_gave_leads_to_the_container_for_readers(connector_environment, tmp_path):
    for block in ("0", "512"):
        path = tmp_path / f"x{block}.h5"
        code = "import h5py, sys\nwith h5py.File(sys.argv[1], 'w', userblock_size=int(sys.argv[2])) as f: f['d'] = [1, 2]"
        program(connector_environment, code, path, block)
        listed = subprocess.run(
            [sys.executable, "-m", "drystone", "ls", path], capture_output=True, text=True
        )
        assert ".hdf5/" in listed.stdout, listed.stderr
        with drystone.open(path) as found:
            assert found[".hdf5/data/104"][:].tolist() == [1, 2]
        with pytest.raises(
            drystone.errors.InvalidArgumentError, match="whose catalogue other writers would not keep"
        ):
            drystone.open(path, "r+")
    other = tmp_path / "other.h5"
    other.write_bytes(path.read_bytes().replace(b"x512.h5.drystone", b"x51.h5.drystone "))
    with pytest.raises(drystone.errors.NotFoundError, match="is not a container"):
        drystone.open(other)
    (tmp_path / "x0.h5.drystone").rename(tmp_path / "kept")
    (tmp_path / "x512.h5.drystone").rename(tmp_path / "x0.h5.drystone")
    with pytest.raises(drystone.errors.InvalidArgumentError, match="another container"):
        drystone.open(tmp_path / "x0.h5")


ENUMERATIONS = """
import sys, h5py, numpy as np
phase = h5py.enum_dtype({"solid": 0, "dark matter": 300}, "i2")
kind = np.dtype([("x", "f4"), ("phase", phase), ("both", phase, (2,))])
with h5py.File(sys.argv[1], "w") as f:
    f.create_dataset("phase", 3, phase)[:] = [0, 300, 0]
    f.create_dataset("rows", 2, kind)["phase"] = np.array([300, 0], "i2")
    f["on"] = np.array([True, False])
with h5py.File(sys.argv[1]) as f:
    assert h5py.check_enum_dtype(f["phase"].dtype) == {"solid": 0, "dark matter": 300}
    assert h5py.check_enum_dtype(f["rows"].dtype["phase"]) == {"solid": 0, "dark matter": 300}
    assert f["phase"][:].tolist() == [0, 300, 0] and f["on"].dtype == bool
"""


def test_enumerations_of_a_program_keep_their_names(connector_environment, tmp_path):
    """The integers were there, and the names only for HDF5 programs."""
    path = tmp_path / "x.h5"
    program(connector_environment, ENUMERATIONS, path)
    assert is_stub(path)
    names = {"solid": 0, "dark matter": 300}
    with drystone.open(f"{path}.drystone") as c:
        found = {
            v.shape: v
            for v in c.variables.values()
            if v.dtype.names or drystone.enum_names(v.dtype) is not None
        }
        phases, rows = found[(3,)], next(v for v in found.values() if v.dtype.names)
        assert drystone.enum_names(phases.dtype) == names
        assert phases[...].tolist() == [0, 300, 0]
        assert c.query(f"`{phases.name}` == 'dark matter'").count() == 1
        assert drystone.enum_names(rows.dtype["phase"]) == names
        assert drystone.enum_names(rows.dtype["both"].base) == names
        (booleans,) = (
            v for v in c.variables.values() if drystone.enum_names(v.dtype) == {"FALSE": 0, "TRUE": 1}
        )
        assert booleans[...].tolist() == [1, 0]
