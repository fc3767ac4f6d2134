"""Parallel HDF5 programs, unchanged: a C program of several ranks through the connector (parallel.py says what it
needs); that ranks' work becomes one file is tried without one too, in connectors/hdf5-vol/tests/several_ranks.rs, and
that it survives kills in test_killed.py."""

import subprocess

import h5py
import parallel
import pytest
from conftest import is_stub
from parallel import BIN, command


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The compiled program."""
    if why := parallel.missing():
        pytest.skip(why)
    return parallel.compiled(tmp_path_factory.mktemp("ranks"))


def run(environment, program, count, *words, ok=True):
    """One run, which must really have used the connector."""
    done = subprocess.run(
        command(program, count, *words), env=environment, capture_output=True, text=True, errors="replace", timeout=280
    )  # fmt: skip
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    assert "connector drystone\n" in done.stdout, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def environment(connector_environment):
    """With the connector, and more ranks than cores."""
    return parallel.on_few_cores(connector_environment)


@pytest.mark.parametrize("transfer", ["independent", "collective"])
def test_what_ranks_write_is_one_file_which_any_number_of_ranks_reads(
    ranks, environment, connector_environment, tmp_path, transfer
):
    path = tmp_path / "x.h5"
    run(environment, ranks, 4, "write", path, transfer)
    assert is_stub(path)
    assert "rows 12\n" in run(environment, ranks, 3, "read", path, transfer).stdout
    run(environment, ranks, 2, "append", path, transfer)
    assert "rows 18\n" in run(environment, ranks, 1, "read", path, transfer).stdout
    published = subprocess.run(
        [BIN / "drystone", "publish", "--hdf5", path],
        env=connector_environment,
        capture_output=True,
        text=True,
    )
    assert published.returncode == 0, published.stdout + published.stderr
    with h5py.File(path) as file:
        assert not is_stub(path)
        assert file["g"].attrs["ranks"] == 4
        assert file["copy"][:].tolist() == [[r * 1000 + c * 10 + 1 for c in range(10)] for r in range(18)]


def test_a_collective_read_sees_the_collective_write_before_it(ranks, environment, tmp_path):
    """Symptom: ranks that overwrote each other's rows in turns read old values after a barrier, where native HDF5 shows
    the new ones. Cause: what a rank wrote was shown to the others by a flush only. Each rank here reads rows that
    another has just overwritten."""
    run(environment, ranks, 3, "overwrite", tmp_path / "x.h5", "collective")


@pytest.mark.parametrize(
    ("act", "what"), [("differ", "/mine is not there on rank 0"), ("value", 'the attribute "a"')]
)
def test_a_rank_that_does_something_else_is_an_error_of_all(ranks, environment, tmp_path, act, what):
    said = run(environment, ranks, 3, act, tmp_path / "x.h5", "independent", ok=False)
    assert "refused\n" in said.stdout, said.stdout + said.stderr
    assert said.stderr.count(what) >= 3, said.stderr


def test_values_of_variable_length_are_for_attributes(ranks, environment, tmp_path):
    said = run(environment, ranks, 2, "strings", tmp_path / "x.h5", "independent")
    assert "refused\n" in said.stdout
    assert "variable length cannot be written by several ranks together" in said.stderr


def test_ranks_that_publish_at_the_end_leave_a_genuine_file(ranks, environment, tmp_path):
    path = tmp_path / "x.h5"
    run(environment | {"HDF5_VOL_CONNECTOR": "drystone publish=1"}, ranks, 3, "write", path, "collective")
    assert not is_stub(path)
    with h5py.File(path) as file:
        assert file["g/turns"][5, 3] == 5032
    assert [found.name for found in tmp_path.iterdir()] == ["x.h5"]
