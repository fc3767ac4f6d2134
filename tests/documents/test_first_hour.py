"""What a new user met in the first hour, each as it must not be again; other tests hold the rest of that list."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MPIEXEC = Path(sys.executable).parent / "mpiexec"


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "drystone", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_install_comes_first_and_says_what_a_checkout_does():
    """README had no heading for it, and the tutorial's first line failed."""
    text = (ROOT / "README.md").read_text()
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert headings[0] == "Install"
    install = text.split("## Install\n")[1].split("\n## ")[0]
    lines = install.split("```")[1].strip().splitlines()[1:]
    assert [line.split()[0:2] for line in lines] == [["pip", "install"], ["make", "wheel"]]
    assert "make demo" in install


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_the_demo_installs_nothing_and_needs_no_plug_in():
    """`make demo` built the plug-in for HDF5 for minutes in silence, and ran apt-get as root without being asked to."""
    # `make test` asks for apt-get, and exports that and its own arguments to what it runs.
    asked = {
        name: value for name, value in os.environ.items() if name not in ("INSTALL", "MAKEFLAGS", "MFLAGS")
    }
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", "demo"],
        cwd=ROOT,
        env=asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "examples/gray_scott/demo.py" in planned.stdout
    for unwanted in ("hdf5_plugin", "test_programs", "apt-get", 'INSTALL="apt"'):
        assert unwanted not in planned.stdout


def test_warnings_of_commands_are_lines_of_the_command(tmp_path):
    """Commands in Python printed `bin/drystone:8: DrystoneWarning: ...` with a line of source."""
    with dry.create(tmp_path / "c.dry") as c:
        c["T"] = np.arange(1000.0)
    for log in (tmp_path / "c.dry" / "log").glob("*.seg"):
        os.truncate(log, 10)
    for arguments in (("du", tmp_path / "c.dry"), ("export", tmp_path / "c.dry", tmp_path / "c.h5")):
        done = command(*arguments, "--damaged")
        assert done.stderr.startswith("drystone: warning: "), arguments
        for line in done.stderr.splitlines():
            assert line.startswith("drystone: "), line
        assert ".py" not in done.stderr
        assert "sys.exit" not in done.stderr


def test_the_list_shows_what_auto_chose_and_transforms_as_they_are_typed(tmp_path):
    """It showed `auto` and `blosc:"lz4",5,"shuffle"`, never the codecs that the values are stored with."""
    values = np.linspace(0, 1, 10_000, dtype="f4").reshape(100, 100)
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("v", "f4", (100, 100), transform="auto:size", data=values)
        c.create_variable("w", "f4", (10,), transform='blosc:"lz4",5,"shuffle"')
    lines = command("ls", tmp_path / "c.dry").stdout.splitlines()
    assert re.search(r"zstd:\d+ \(auto:size\)", lines[1]), lines[1]
    assert '"' not in lines[2]


@pytest.mark.slow
@pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside Python")
def test_four_ranks_run_what_the_readme_shows_without_a_warning(tmp_path):
    """Ranks that run ahead are normal; each commit warned that their steps are not visible yet."""
    pytest.importorskip("mpi4py")
    shown = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (function,) = [block for block in shown if "def write_steps" in block]
    (tmp_path / "program.py").write_text(
        function
        + textwrap.dedent("""
        import numpy as np
        import drystone as dry
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank == 0:
            with dry.create("run42.dry") as c:
                c.create_variable("temperature", "f4", (8, 4), steps=True)
        comm.barrier()
        with dry.open("run42.dry", mode="r+") as c:
            write_steps(c, comm, lambda t: np.full((2, 4), 10 * t + comm.rank, "f4"), (2 * comm.rank, 0), range(20))
        """)
    )
    done = subprocess.run(
        [MPIEXEC, "-n", "4", sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ
        | {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stdout + done.stderr
    with dry.open(tmp_path / "run42.dry") as c:
        assert c.steps == list(range(20))
        expected = np.repeat(np.arange(4, dtype="f4"), 2)[:, None] + np.zeros(4, "f4")
        np.testing.assert_array_equal(c["temperature"][7], 70 + expected)
