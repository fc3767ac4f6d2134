"""Programs of several ranks: where the parallel HDF5 and its MPI are, and how tests compile and start the program
`ranks.c`.

A parallel HDF5 >= 1.14 is made by bench/hdf5/build_hdf5.sh build/hdf5-1.14.5; DRYSTONE_HDF5_MPI names another.
DRYSTONE_MPI is the folder with mpicc and mpiexec of that HDF5's MPI, DRYSTONE_MPI_SUFFIX what follows those names (such
as .mpich).
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
HDF5 = Path(os.environ.get("DRYSTONE_HDF5_MPI", ROOT / "build" / "hdf5-1.14.5"))
MPI = Path(os.environ.get("DRYSTONE_MPI", BIN))
SUFFIX = os.environ.get("DRYSTONE_MPI_SUFFIX", "")
sys.path.insert(0, str(ROOT / "examples" / "gray_scott"))

from job import mpi_environment  # noqa: E402


def missing():
    """Why no program of several ranks can be compiled here; None if one can."""
    if not (HDF5 / "include" / "hdf5.h").exists():
        return f"no parallel HDF5 in {HDF5}: bench/hdf5/build_hdf5.sh {HDF5}"
    if not (MPI / f"mpicc{SUFFIX}").exists():
        return f"no mpicc{SUFFIX} in {MPI}"
    return None


def compiled(folder):
    """The program."""
    made = folder / "ranks"
    flags = ["-O1", "-std=c99", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
    flags += ["-isystem", f"{HDF5}/include", f"-L{HDF5}/lib", f"-Wl,-rpath,{HDF5}/lib"]
    words = [MPI / f"mpicc{SUFFIX}", *flags, HERE / "ranks.c", "-lhdf5", "-o", made]
    subprocess.run([str(word) for word in words], check=True)
    return made


def command(program, count, *words):
    """Under mpiexec."""
    return [str(MPI / f"mpiexec{SUFFIX}"), "-n", str(count), str(program), *map(str, words)]


def on_few_cores(environment):
    """The environment, for more ranks than cores."""
    return environment | {k: v for k, v in mpi_environment().items() if "MPI" in k or "PRTE" in k}
