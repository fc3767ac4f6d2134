"""One shared file on a mount: programs that know only MPI-IO write it and restart from it, with every MPI and MPI-IO
that is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from mpi_programs import BIN, ROOT, stacks, succeed

sys.path.insert(0, str(ROOT / "tests" / "python"))

from mount_rig import mounted, needs_fuse

pytestmark = needs_fuse

SOURCE = Path(__file__).with_name("shared_file.c")
# In blocks of 47 KiB, and in blocks so small that MPI-IO reads, changes and writes back what lies between (data
# sieving).
LARGE, SMALL = (48, 47 * 1024), (2048, 512)
CUBE = (3, 20)
# By the name of the stack: its implementations of MPI-IO.
MPI_IO = {"wheel": ["romio341", "ompio"], "openmpi": ["romio321", "ompio"], "mpich": ["romio"]}
HERE = [(stack, io) for stack in stacks() for io in MPI_IO.get(stack.name, [])]
# The others take minutes together.
QUICK = [(stack, io) for stack, io in HERE if (stack.name, io) == ("wheel", "romio341")]
ROMIO = [(stack, io) for stack, io in HERE if io != "ompio"]
NONE = pytest.param(None, marks=pytest.mark.skip(reason="no MPI is installed"))


def parameters(some):
    marks = {True: [], False: [pytest.mark.slow]}
    named = [
        pytest.param(each, id="-".join((each[0].name, each[1])), marks=marks[each in QUICK]) for each in some
    ]
    return pytest.mark.parametrize("mpi", named or [NONE])


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The program, compiled by each MPI."""
    folder, made = tmp_path_factory.mktemp("programs"), {}
    for stack in {stack.name: stack for stack, _ in HERE}.values():
        made[stack.name] = folder / stack.name
        flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
        succeed(stack.mpicc, *flags, SOURCE, "-o", made[stack.name])
    return made


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The same files on two mounts, as on two nodes."""
    folder = tmp_path_factory.mktemp("two")
    dry.create(folder / "run.dry").close()
    with (
        mounted(folder / "run.dry", folder / "m1", "--write") as one,
        mounted(folder / "run.dry", folder / "m2", "--write") as other,
    ):
        yield one / "files", other / "files"


@pytest.fixture
def start(programs, request):
    """Runs the program."""

    def run(mpi, ranks, act, kernel, how, *words, hints=""):
        stack, io = mpi
        command = [stack.mpiexec, "-n", ranks, programs[stack.name], act, kernel, how, *words]
        environment = stack.environment | {"OMPI_MCA_io": io, "HINTS": hints}
        return subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
            check=False,
        )

    def must(*words, **more):
        done = run(*words, **more)
        assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"

    run.must = must
    return run


def name(request):
    return "".join(letter if letter.isalnum() else "_" for letter in request.node.name)


@parameters(HERE)
@pytest.mark.parametrize(
    ("kernel", "how", "size"),
    [
        ("strided", "at", LARGE),
        ("strided", "at_all", LARGE),
        ("strided", "view", SMALL),
        ("strided", "view_all", SMALL),
        ("cube", "view_all", CUBE),
        pytest.param("cube", "view", CUBE, marks=pytest.mark.slow),
        pytest.param("strided", "async", LARGE, marks=pytest.mark.slow),
        pytest.param("strided", "atomic", SMALL, marks=pytest.mark.slow),
        pytest.param("strided", "ordered", LARGE, marks=pytest.mark.slow),
        pytest.param("strided", "posix", LARGE, marks=pytest.mark.slow),
    ],
)
def test_ranks_write_one_file_and_restart_on_as_many_and_half_as_many(
    start, two, tmp_path, request, mpi, kernel, how, size
):
    path, beside = two[0] / name(request), tmp_path / "beside"
    # Written twice: the second time over what is there.
    for seed in (1, 2):
        start.must(mpi, 4, "write", kernel, how, *size, seed, path)
    start.must(mpi, 4, "write", kernel, how, *size, 2, beside)
    assert path.read_bytes() == beside.read_bytes()
    for ranks in (4, 2):
        start.must(mpi, ranks, "read", kernel, how, *size, 2, path)
    assert start(mpi, 2, "read", kernel, how, *size, 1, path).returncode != 0  # the program does compare


@parameters(HERE)
@pytest.mark.parametrize(
    ("kernel", "how", "size"), [("strided", "at", LARGE), ("strided", "view_all", SMALL)]
)
def test_ranks_on_two_mounts_write_one_file(start, two, request, mpi, kernel, how, size):
    paths = [files / name(request) for files in two]
    # Each rank writes what it has collected, not one rank of each node.
    hints = "romio_cb_write=enable,cb_nodes=4,cb_config_list=*:*"
    start.must(mpi, 4, "write", kernel, how, *size, 1, *paths, hints=hints)
    for ranks in (4, 2):
        start.must(mpi, ranks, "read", kernel, how, *size, 1, *reversed(paths))
    assert paths[0].read_bytes() == paths[1].read_bytes()


@parameters(HERE)
def test_what_a_rank_syncs_another_mount_reads_with_the_file_open(start, two, request, mpi):
    paths = [files / name(request) for files in two]
    start.must(mpi, 4, "exchange", "strided", "at", 80, 4096, 1, *paths)


@parameters(ROMIO)
def test_data_sieving_between_mounts_stops_the_program(start, two, request, mpi):
    """Two ranks that read, change and write back the same range would undo each other's writes. They need locks that
    two mounts cannot grant: the program ends with an error. With the hint it needs none, and writes the right bytes."""
    paths = [files / name(request) for files in two]
    done = start(mpi, 4, "write", "strided", "view", *SMALL, 1, *paths)
    assert done.returncode != 0
    start.must(mpi, 4, "write", "strided", "view", *SMALL, 2, *paths, hints="romio_ds_write=disable")
    start.must(mpi, 2, "read", "strided", "view", *SMALL, 2, *paths)


@parameters(HERE[:1])
def test_mpi4py_and_parallel_programs_in_python_write_one_file(two, request, mpi):
    stack, io = mpi
    path = two[0] / name(request)
    text = f"""
import numpy as np
from mpi4py import MPI
ranks, rank = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank
file = MPI.File.Open(MPI.COMM_WORLD, {str(path)!r}, MPI.MODE_RDWR | MPI.MODE_CREATE)
plane = MPI.DOUBLE.Create_subarray([64, 64], [64, 64 // ranks], [0, rank * (64 // ranks)]).Commit()
file.Set_view(0, MPI.DOUBLE, plane)
mine = np.arange(4096.0).reshape(64, 64)[:, rank * (64 // ranks) :][:, : 64 // ranks].copy()
file.Write_all(mine)
back = np.zeros_like(mine)
file.Seek(0)
file.Read_all(back)
assert (back == mine).all()
file.Close()
"""
    environment = stack.environment | {"OMPI_MCA_io": io}
    words = [BIN / "mpiexec", "-n", "4", sys.executable, "-c", text]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size == 8 * 4096
    assert np.fromfile(path).tolist() == list(range(4096))
