"""zarr-python, zarrs, tensorstore and xarray read every published value, over dtypes and compressors.

They run with this interpreter's packages, and, if `DRYSTONE_ZARR_PYTHON` names another interpreter (a newer Python
with a newer zarr: `python3.13 -m venv V && V/bin/pip install zarr zarrs xarray tensorstore`), with that one's.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import drystone as dry
import foreign_reader
import numpy as np
import pytest
from same_bits import commits_by_itself, random_array

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
COMPRESSORS = {"none": None, "zstd": "zstd:3"}
OTHER = os.environ.get("DRYSTONE_ZARR_PYTHON")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A hierarchy with every dtype and compressor, with and without steps, and extents that no chunk divides; and its
    content."""
    path = tmp_path_factory.mktemp("readers") / "run.dry"
    rng, expected = np.random.default_rng(3), {}
    with dry.create(path) as c:
        for how in COMPRESSORS:
            for dtype in DTYPES:
                name = f"{how}_{np.dtype(dtype).name}"
                c.create_variable(name, dtype, shape=(13, 30), steps=True)
                c.create_variable(f"{name}_still", dtype, shape=(57,))
        with commits_by_itself(c) as w:
            for step in range(3):
                with w.step(step):
                    for how in COMPRESSORS:
                        for dtype in DTYPES:
                            name = f"{how}_{np.dtype(dtype).name}"
                            block = random_array(rng, np.dtype(dtype), (13, 29))
                            w.put(name, block, offset=(0, 1))
                            whole = expected.setdefault(name, np.zeros((3, 13, 30), dtype))
                            whole[step, :, 1:] = block
            for how in COMPRESSORS:
                for dtype in DTYPES:
                    name = f"{how}_{np.dtype(dtype).name}_still"
                    expected[name] = random_array(rng, np.dtype(dtype), (57,))
                    w.put(name, expected[name])
        for how, compressor in COMPRESSORS.items():
            names = [name for name in c.variables if name.startswith(how)]
            chunks = {name: (10,) if name.endswith("_still") else (2, 4, 9) for name in names}
            c.publish(names, progress=None, compressor=compressor, chunks=chunks)
    np.savez(path.parent / "expected.npz", **expected)
    return path / "zarr", path.parent / "expected.npz", len(expected)


@pytest.mark.parametrize("reader", foreign_reader.READERS)
def test_a_reader_gives_every_value(published, reader):
    if importlib.util.find_spec(reader) is None:
        pytest.skip(f"{reader} is not installed")
    path, expected, many = published
    script = Path(foreign_reader.__file__)
    done = subprocess.run(
        [sys.executable, script, reader, path, expected], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == many


@pytest.mark.parametrize("reader", foreign_reader.READERS)
def test_a_reader_of_another_python_gives_every_value(published, reader):
    if OTHER is None:
        pytest.skip("DRYSTONE_ZARR_PYTHON names no other interpreter")
    path, expected, many = published
    script = Path(foreign_reader.__file__)
    done = subprocess.run(
        [OTHER, script, reader, path, expected], capture_output=True, text=True, check=False
    )
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"{OTHER} has no {reader}")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == many
