"""What publishing does, tried on native HDF5: a copy through the library's own functions holds what the source
holds."""

import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from content import native_programs
from describe import described, differences
from hypothesis import HealthCheck, Phase, given, settings
from perform import perform

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = 200 if os.environ.get("DRYSTONE_LONG") else 20


@pytest.fixture(scope="session")
def copy(native_environment):
    """The program `copy` over the HDF5 of h5py."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    build = ["cargo", "build", "--quiet", "--package", "drystone-hdf5-copy", "--example", "copy"]
    subprocess.run(build, cwd=ROOT, check=True)
    libraries = Path(h5py.__file__).parent.with_name("h5py.libs").glob("libhdf5-*.so*")
    library = next(libraries, None)
    if library is None:
        pytest.skip("h5py has no HDF5 of its own")
    program = target / "debug" / "examples" / "copy"

    def run(source, to):
        words = [program, library, source, to]
        return subprocess.run(words, env=native_environment, capture_output=True, text=True, timeout=280)

    return run


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="DRYSTONE_LONG" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(program=native_programs)
def test_a_copy_holds_what_its_source_holds(copy, tmp_path, program):
    """Random content."""
    source, target = tmp_path / "source.h5", tmp_path / "target.h5"
    perform(program, source)
    done = copy(source, target)
    assert done.returncode == 0, done.stderr
    assert differences(described(source), described(target)) == []


def test_a_sparse_dataset_stays_sparse(copy, tmp_path):
    """What nobody wrote is not written in the copy: blocks of nothing but the fill value are left out."""
    source, target = tmp_path / "source.h5", tmp_path / "target.h5"
    with h5py.File(source, "w") as f:
        d = f.create_dataset("sparse", (1 << 13, 1 << 13), "<i4", chunks=(1024, 1024), fillvalue=5)
        d[1000:1010, 3] = 7
    done = copy(source, target)
    assert done.returncode == 0, done.stderr
    assert target.stat().st_size < 20 << 20  # one block of 256 MiB
    with h5py.File(target) as f:
        assert f["sparse"][1005, 3] == 7
        assert f["sparse"][8000, 8000] == 5


def test_values_of_several_blocks_are_all_copied(copy, tmp_path):
    """More than one block in both directions."""
    source, target = tmp_path / "source.h5", tmp_path / "target.h5"
    values = np.random.default_rng(1).integers(0, 1 << 30, (3, 2_000_003))
    with h5py.File(source, "w") as f:
        f["contiguous"] = values
        f.create_dataset("chunked", data=values, chunks=(2, 70_000))
    done = copy(source, target)
    assert done.returncode == 0, done.stderr
    with h5py.File(target) as f:
        assert np.array_equal(f["contiguous"], values)
        assert np.array_equal(f["chunked"], values)


def test_an_object_in_the_way_is_named(copy, tmp_path):
    """A link of a kind that a program made cannot be copied; the message says which."""
    source, target = tmp_path / "source.h5", tmp_path / "target.h5"
    with h5py.File(source, "w") as f:
        f.create_group("a/b")
    assert copy(source, tmp_path / "nowhere" / "target.h5").returncode == 1
    assert "cannot be made" in copy(source, tmp_path / "nowhere" / "target.h5").stderr
    assert copy(source, target).returncode == 0
