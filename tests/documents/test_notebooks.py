"""The notebooks run from top to bottom, and draw the picture that the gallery shows of each."""

import json
from pathlib import Path

import pytest

plt = pytest.importorskip("matplotlib.pyplot")
pytest.importorskip("dask")
pytest.importorskip("xarray")

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    book = json.loads(notebook.read_text())
    names = {"__name__": "__main__"}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "outputs are not kept"
            exec(compile("".join(cell["source"]), f"{notebook.name}:{cell['id']}", "exec"), names)
    plt.close("all")
    assert (tmp_path / f"{notebook.stem}.png").stat().st_size > 10_000


def test_the_gallery_shows_every_notebook():
    gallery = (FOLDER / "README.md").read_text()
    assert len(NOTEBOOKS) == 4
    for notebook in NOTEBOOKS:
        assert f"({notebook.name})" in gallery
        assert f"({notebook.stem}.png)" in gallery
        assert (FOLDER / f"{notebook.stem}.png").exists()
