"""Parallel HDF5 programs, unchanged: a C program of several ranks through the connector. Needs a parallel HDF5 >= 1.14
(bench/hdf5/build_hdf5.sh build/hdf5-1.14.5, or another in DRYSTONE_HDF5_MPI); that ranks' work becomes one file is tried without one too, in
connectors/hdf5-vol/tests/several_ranks.rs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from conftest import is_stub

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
sys.path.insert(0, str(ROOT / "examples" / "gray_scott"))

from job import mpi_environment  # noqa: E402

HDF5 = Path(os.environ.get("DRYSTONE_HDF5_MPI", ROOT / "build" / "hdf5-1.14.5"))
MPI = Path(os.environ["DRYSTONE_MPI"]) if "DRYSTONE_MPI" in os.environ else BIN
"""Where mpicc and mpiexec of that HDF5's MPI are; a suffix such as .mpich may be in DRYSTONE_MPI_SUFFIX."""
SUFFIX = os.environ.get("DRYSTONE_MPI_SUFFIX", "")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The compiled program."""
    if not (HDF5 / "include" / "hdf5.h").exists():
        pytest.skip(f"no parallel HDF5 in {HDF5}: bench/hdf5/build_hdf5.sh {HDF5}")
    if not (MPI / f"mpicc{SUFFIX}").exists():
        pytest.skip(f"no mpicc{SUFFIX} in {MPI}")
    made = tmp_path_factory.mktemp("ranks") / "ranks"
    flags = ["-O1", "-std=c99", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
    flags += ["-isystem", f"{HDF5}/include", f"-L{HDF5}/lib", f"-Wl,-rpath,{HDF5}/lib"]
    words = [MPI / f"mpicc{SUFFIX}", *flags, HERE / "ranks.c", "-lhdf5", "-o", made]
    subprocess.run([str(word) for word in words], check=True)
    return made


def command(program, count, *words):
    """Under mpiexec."""
    return [str(MPI / f"mpiexec{SUFFIX}"), "-n", str(count), str(program), *map(str, words)]


def run(environment, program, count, *words, ok=True):
    """One run, which must really have used the connector."""
    done = subprocess.run(
        command(program, count, *words), env=environment, capture_output=True, text=True, errors="replace", timeout=100
    )  # fmt: skip
    assert not ok or done.returncode == 0, done.stdout + done.stderr
    assert "connector drystone\n" in done.stdout, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def environment(connector_environment):
    """With the connector, and more ranks than cores."""
    return connector_environment | {k: v for k, v in mpi_environment().items() if "MPI" in k or "PRTE" in k}


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


def test_when_a_rank_is_killed_nobody_hangs_and_what_was_flushed_is_there(ranks, environment, tmp_path):
    path = tmp_path / "x.h5"
    processes, flushed = {}, 0
    with subprocess.Popen(
        command(ranks, 3, "forever", path, "independent"),
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as started:  # fmt: skip
        try:
            assert started.stdout is not None
            for line in started.stdout:  # to the end: what was flushed until the others were ended
                word, *numbers = line.split() or [""]
                if word == "process":
                    processes[int(numbers[0])] = int(numbers[1])
                if word == "flushed":
                    flushed = int(numbers[0])
                    if flushed >= 45 and 1 in processes:
                        os.kill(processes.pop(1), signal.SIGKILL)
            assert started.wait(timeout=60) != 0
        finally:
            for process in processes.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            started.kill()
    connected = "import sys, h5py; print(h5py.File(sys.argv[1])['steps'][:].tolist())"
    found = subprocess.run(
        [sys.executable, "-c", connected, path], env=environment, capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stderr
    rows = json.loads(found.stdout)
    assert len(rows) >= flushed
    assert rows[:flushed] == [[r * 1000 + c * 10 + 3 for c in range(10)] for r in range(flushed)]
