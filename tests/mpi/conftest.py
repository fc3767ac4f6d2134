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
    """The library of the development build, installed."""
    if not (BIN / "mpicc").exists() or shutil.which("cargo") is None:
        pytest.skip("needs mpicc in the environment and cargo")
    folder = tmp_path_factory.mktemp("prefix")
    succeed("cargo", "build", "--quiet", "--package", "drystone-capi", cwd=ROOT, timeout=1500)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    succeed("bash", ROOT / "tools" / "install_c.sh", target / "debug", folder)
    return folder


@pytest.fixture(scope="session")
def compiled(prefix, tmp_path_factory):
    """Compiles a C program with the MPI shim; the program."""
    folder = tmp_path_factory.mktemp("programs")
    share = prefix / "share" / "drystone"

    def build(source, *flags):
        program = folder / f"{source.stem}{len(list(folder.iterdir()))}"
        warnings = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
        include = [f"-I{prefix}/include", f"-I{share}"]
        link = [f"-L{prefix}/lib", "-ldrystone", f"-Wl,-rpath,{prefix}/lib"]
        succeed(
            BIN / "mpicc",
            "-O1",
            *warnings,
            *flags,
            *include,
            source,
            share / "drystone_mpi.c",
            *link,
            "-o",
            program,
        )
        return program

    return build
