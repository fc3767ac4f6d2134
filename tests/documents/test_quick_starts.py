"""The quick starts of other packages, as the tutorial rewrites them: they run, and take no more statements."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MPIEXEC = Path(sys.executable).parent / "mpiexec"
PAGE = "docs/tutorial/quick-starts.md"
sys.path.insert(0, str(ROOT / "tests" / "python"))


def parts():
    """The page's blocks of Python by the package of which they rewrite the quick start."""
    text = (ROOT / PAGE).read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    named = zip(("h5py", "zarr", "ADIOS2"), sections, strict=False)
    return {
        name: re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
        for name, section in named
    }


def statements(code):
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(code)))


def run(blocks, capsys):
    names = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, PAGE, "exec"), names)
    said = capsys.readouterr().out
    for line in re.findall(r"print\(.*\)\s+# (.*)", "\n".join(blocks)):
        assert line in said
    return names, said


def test_they_take_no_more_statements_than_the_originals():
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \|$", (ROOT / PAGE).read_text(), flags=re.MULTILINE)
    counted = {name: sum(map(statements, blocks)) for name, blocks in parts().items()}
    assert {name: int(here) for name, _, here in rows} == counted
    assert all(int(here) <= int(original) for _, original, here in rows)
    assert statements("if a:\n    b = 1\nelse:\n    c()") == 3


def test_the_one_of_h5py_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, said = run(parts()["h5py"], capsys)
    below = ["heights", "summer", "summer/rain", "winter", "winter/snow"]
    assert said.splitlines()[-7:-2] == below  # what `visit` prints, ahead of the attribute


def test_the_one_of_zarr_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("h5py")
    from far_rig import Rig

    rig = Rig()
    try:
        for name, value in rig.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.chdir(tmp_path)
        run(parts()["zarr"], capsys)
        with dry.open("s3://bucket/fifth.dry") as far:
            assert 0.4 < far["z"][:].mean() < 0.6
    finally:
        rig.close()


def check_flow(ranks):
    with dry.open("flow.dry") as c:
        assert c.attrs["nproc"] == ranks
        assert c.steps == [0, 1, 2, 3, 4]
        np.testing.assert_array_equal(c["temperature"][:], np.zeros((5, 10 * ranks)))
        np.testing.assert_array_equal(c["pressure"][:], np.ones((5, 10 * ranks)))
        np.testing.assert_allclose(c["physical_time"][:], 0.01 * np.arange(5))


def test_the_one_of_adios2_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mpi4py")
    monkeypatch.chdir(tmp_path)
    _, said = run(parts()["ADIOS2"], capsys)
    check_flow(1)
    assert said.count("nproc is 1") == 2
    assert [line for line in said.splitlines() if line.startswith("step ")] == [f"step {n}" for n in range(5)]


@pytest.mark.slow
@pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside Python")
def test_the_one_of_adios2_writes_with_four_ranks(tmp_path, monkeypatch):
    pytest.importorskip("mpi4py")
    monkeypatch.chdir(tmp_path)
    Path("write.py").write_text(parts()["ADIOS2"][0])
    environment = os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        [MPIEXEC, "-n", "4", sys.executable, "write.py"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check_flow(4)
