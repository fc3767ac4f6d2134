"""The C library as it is installed, and programs compiled with the MPI of this environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

# What the tests share lies beside them.
sys.path.insert(0, str(Path(__file__).parent))

from mpi_programs import BIN, ROOT, succeed


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """The library of the development build, installed; or one that is installed already, named by DRYSTONE_PREFIX."""
    if "DRYSTONE_PREFIX" in os.environ:
        return Path(os.environ["DRYSTONE_PREFIX"])
    if not (BIN / "mpicc").exists() or shutil.which("cargo") is None:
        pytest.skip("needs mpicc in the environment and cargo")
    folder = tmp_path_factory.mktemp("prefix")
    succeed(ROOT / "tools" / "test_builds.sh", timeout=1500)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    succeed("bash", ROOT / "tools" / "install_c.sh", target / "debug", folder)
    return folder


def _c(prefix, mpicc, source, program, *flags):
    share = prefix / "share" / "drystone"
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
    # What MPICH gives for "no statuses" is an address that gcc takes for memory.
    warnings.append("-Wno-stringop-overflow")
    include = [f"-I{prefix}/include", "-isystem", share]
    sources = [source, share / "drystone_mpi.c"]
    succeed(mpicc, "-O1", *warnings, *flags, *include, *sources, *_link(prefix), "-lm", "-o", program)
    return program


def _fortran(prefix, mpifort, source, folder, program):
    share = prefix / "share" / "drystone"
    succeed("cc", "-c", share / "drystone_fortran.c", f"-I{prefix}/include", "-o", folder / "fortran.o")
    mpicc = mpifort.replace("mpifort", "mpicc")
    succeed(mpicc, "-c", share / "drystone_mpi.c", f"-I{prefix}/include", "-o", folder / "mpi.o")
    modules = [share / f"{name}.f90" for name in ("drystone", "drystone_mpi")]
    flags = [
        "-O1",
        "-std=f2018",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-ffp-contract=off",
        "-fwrapv",
        f"-J{folder}",
    ]
    objects = [folder / "fortran.o", folder / "mpi.o"]
    succeed(mpifort, *flags, *modules, source, *objects, *_link(prefix), "-o", program)
    return program


def _link(prefix):
    return [f"-L{prefix}/lib", "-ldrystone", f"-Wl,-rpath,{prefix}/lib"]


@pytest.fixture(scope="session")
def compiled(prefix, tmp_path_factory):
    """Compiles a C program with the MPI shim; the program. `mpicc` is the environment's, or a stack's."""
    folder = tmp_path_factory.mktemp("programs")

    def build(source, *flags, mpicc=BIN / "mpicc"):
        program = folder / f"{source.stem}{len(list(folder.iterdir()))}"
        return _c(prefix, mpicc, source, program, *flags)

    return build


@pytest.fixture(scope="session")
def compiled_fortran(prefix, tmp_path_factory):
    """Compiles a Fortran program with the modules of the library, by the mpifort of a stack; the program."""

    def build(source, stack):
        folder = tmp_path_factory.mktemp(f"fortran_{stack.name}")
        return _fortran(prefix, stack.mpifort, source, folder, folder / source.stem)

    return build
