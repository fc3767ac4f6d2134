"""What tools that know nothing of HDF5 see of a file written through the connector."""

import json
import subprocess
import sys
from pathlib import Path

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
