"""Attributes named as those of HDF5's dimension scales or of netCDF-4, with another type.

Symptom: HDF5's calls for dimension scales ended the process by a signal when they read such an attribute. An export
wrote it if a variable had one of that name.
"""

import subprocess
import sys

import drystone as dry
import numpy as np
import pytest
from drystone.interchange.formats.scales import RESERVED

h5py = pytest.importorskip("h5py")
netCDF4 = pytest.importorskip("netCDF4")

pytestmark = pytest.mark.filterwarnings("ignore:not preserved")

UNUSUAL = [
    ("DIMENSION_LIST", 3),
    ("DIMENSION_LIST", np.array([b"a" * 16] * 100)),
    ("DIMENSION_LABELS", 3),
    ("DIMENSION_LABELS", [1.5]),
    ("DIMENSION_LABELS", ["one", "two"]),
    ("REFERENCE_LIST", 3),
    ("CLASS", 3),
    ("CLASS", np.array([b"a" * 16] * 100)),
    ("NAME", np.array([b"a" * 16] * 100)),
]


def in_another_process(file, path):
    """Import by a process of its own, which may crash."""
    code = f"import drystone as dry; print(dry.import_file({str(file)!r}, {str(path)!r}).lost)"
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("suffix", ["h5", "nc"])
@pytest.mark.parametrize(("name", "value"), UNUSUAL)
def test_an_attribute_of_another_type_is_named_and_the_rest_imported(tmp_path, path, name, value, suffix):
    file = tmp_path / f"a.{suffix}"
    with h5py.File(file, "w") as f:
        f["t"], f["x"] = [1, 2], [3, 4]
        f["t"].make_scale("t")
        if name != "DIMENSION_LIST":
            f["x"].dims[0].attach_scale(f["t"])
        f["x"].attrs[name] = value
        f["x"].attrs["units"] = "K"
    assert f"attribute {name} of x (HDF5's dimension scales use this name" in in_another_process(file, path)
    with dry.open(path) as c:
        assert c["x"][...].tolist() == [3, 4]
        assert dict(c["x"].attrs) == {"units": "K"}


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_reserved_names_are_not_exported(tmp_path, path, suffix):
    with dry.create(path) as c:
        variable = c.create_variable("x", "i4", (3,), dims=("t",))
        group = c.create_group("g")
        for name in RESERVED:
            c.attrs[name] = variable.attrs[name] = group.attrs[name] = 3
        c.attrs["title"] = "kept"
    lost = dry.export(path, tmp_path / f"a.{suffix}").lost
    for name in RESERVED:
        for where in ("/", "x", "g"):
            assert f"attribute {name} of {where} (HDF5 and netCDF reserve the name)" in lost
    assert in_another_process(tmp_path / f"a.{suffix}", tmp_path / "again.dry") == "[]\n"
    with dry.open(tmp_path / "again.dry") as c:
        assert dict(c.attrs) == {"title": "kept"}
        assert c["x"].dims == ("t",)
