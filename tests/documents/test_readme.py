"""What the README and the pages on Python show runs as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
import xarray as xr

ROOT = Path(__file__).parents[2]


def blocks(document, language):
    """The code of a document's blocks in `language`, in order."""
    text = (ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "docs/guide/reading.md",
        "docs/guide/writing.md",
        "docs/guide/metrics.md",
        "docs/guide/times-and-names.md",
        "docs/guide/lists.md",
        "docs/guide/transforms.md",
        "docs/guide/xarray.md",
        "docs/guide/view.md",
    ],
)
def test_what_a_document_shows_runs(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = blocks(document, "python")
    assert code
    names = {"__name__": "tour"}
    for block in code:
        exec(compile(block, document, "exec"), names)
    said = capsys.readouterr().out
    for line in re.findall(r"print\(.*\)\s+# (.*)", "\n".join(code)):
        assert line in said


@pytest.fixture
def run42(tmp_path, monkeypatch):
    """The container that the pages speak of, in the current folder: eleven steps of a small temperature."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with dry.create("run42.dry") as c:
        c.create_variable("temperature", "f4", (4, 40, 50), dims=("level", "lat", "lon"), steps=True)
        c.create_variable("lat", "f8", (40,), dims=("lat",))[...] = np.linspace(-80, 80, 40)
        c.create_variable("lon", "f8", (50,), dims=("lon",))[...] = np.linspace(0, 360, 50)
        with c.writer(rank=0, nranks=1) as w:
            for t in range(11):
                with w.step():
                    w.put("temperature", np.full((4, 40, 50), 280 + t, "f4"), offset=(0, 0, 0))


def test_files_go_in_and_out_as_the_page_shows(tmp_path, monkeypatch, capsys):
    for package in ("h5py", "netCDF4", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    topo = xr.DataArray(np.zeros((60, 80), "f4"), dims=("lat", "lon"))
    topo.to_dataset(name="topo").to_netcdf("island.nc", engine="netcdf4")
    (tmp_path / "dump.drepl").write_text(blocks("docs/guide/import.md", "text")[0])
    np.arange(3 * (1 + 400 * 300), dtype="f8").tofile("restart.bin")
    names = {}
    for block in blocks("docs/guide/import.md", "python"):
        exec(compile(block, "import.md", "exec"), names)
    assert names["differences"] == []
    assert names["copied"].lost == []
    assert names["same"]
    assert {"island.dry", "topo.png", "profile.csv", "island.h5"} <= {one.name for one in tmp_path.iterdir()}


@pytest.mark.usefixtures("run42")
@pytest.mark.parametrize("document", ["publishing.md", "gc.md", "layout.md", "zarr-store.md"])
def test_what_a_page_does_with_a_container_runs(document, capsys):
    for package in ("zarr", "xarray", "h5py"):
        pytest.importorskip(package)
    code = blocks(f"docs/guide/{document}", "python")
    assert code
    names = {"__name__": "page"}
    for block in code:
        exec(compile(block, document, "exec"), names)
    said = capsys.readouterr().out
    for line in re.findall(r"print\(.*\)\s+# (.*)", "\n".join(code)):
        assert line in said


def test_the_configuration_that_is_shown_is_taken(tmp_path, monkeypatch):
    (tmp_path / "drystone.toml").write_text(blocks("docs/reference/configuration.md", "toml")[0])
    monkeypatch.setenv("DRYSTONE_CONFIG", str(tmp_path / "drystone.toml"))
    with dry.create(tmp_path / "run42.dry") as c:
        T = c.create_variable("fields/T", "f4", (64, 64, 64), transform="zstd:3")
        T[...] = np.linspace(0, 1, 64**3, dtype="f4").reshape(64, 64, 64)
    done = subprocess.run(
        [sys.executable, "-m", "drystone", "info", tmp_path / "run42.dry"],
        capture_output=True,
        text=True,
        check=True,
    )
    shown = re.search(
        r"^encoded +(.*)$", (ROOT / "docs/reference/configuration.md").read_text(), flags=re.MULTILINE
    )
    assert shown
    assert shown[1] in done.stdout


def run(page, text, folder, monkeypatch, capsys):
    """Runs a page's Python and shell as they stand there, one after the other; what is printed is what comments say."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    names = {"__name__": "tutorial"}
    code = ""
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, page, "exec"), names)
            code += block
        elif "pip install" not in block:
            done = subprocess.run(["bash", "-euc", block], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert not done.stderr
    said = capsys.readouterr().out
    for line in re.findall(r"print\(.*\)\s+# (.*)", code):
        assert line in said


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs/tutorial/README.md").read_text()
    if not Path("/usr/share/ferret-vis/data/coads_climatology.cdf").exists():
        text = text.partition("## A climatology of the ocean")[0]  # apt-get install ferret-datasets
    run("docs/tutorial/README.md", text, tmp_path, monkeypatch, capsys)
    for picture in ("topo.png", "profile.png", "layout.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_tutorial_from_a_simulation_to_sql_runs(tmp_path, monkeypatch, capsys):
    for package in ("duckdb", "pyarrow", "matplotlib"):
        pytest.importorskip(package)
    text = (ROOT / "docs/tutorial/sql.md").read_text()
    run("docs/tutorial/sql.md", text, tmp_path, monkeypatch, capsys)
    assert (tmp_path / "wave.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "document", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=lambda path: path.name
)
def test_links_between_documents_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("folder", ["guide", "reference", "format", "decisions", "benchmarks"])
def test_the_index_of_each_folder_names_every_page(folder):
    index = (ROOT / "docs" / folder / "README.md").read_text()
    linked = {target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)", index)}
    pages = {path.name for path in (ROOT / "docs" / folder).glob("*.md")} - {"README.md"}
    assert pages - linked == set()


def test_the_site_of_the_documentation_builds_without_a_warning(tmp_path):
    """`--strict` fails on a link or an anchor that leads nowhere, and on a page that no menu has."""
    pytest.importorskip("mkdocs")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site" / "reference" / "python.html").read_text()
    assert "drystone.Container.commit" in page
