"""What the README and the pages on Python show runs as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks(document, language):
    """The code of a document's blocks in `language`, in order."""
    text = (ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/reading.md", "docs/xarray.md", "docs/view.md"])
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


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    """Python and shell as they stand there, one after the other."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    text = (ROOT / "docs/tutorial.md").read_text()
    names = {"__name__": "tutorial"}
    code = ""
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, "docs/tutorial.md", "exec"), names)
            code += block
        elif "pip install" not in block:
            done = subprocess.run(["bash", "-euc", block], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert not done.stderr
    said = capsys.readouterr().out
    for line in re.findall(r"print\(.*\)\s+# (.*)", code):
        assert line in said
    for picture in ("topo.png", "profile.png", "layout.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "document", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=lambda path: path.name
)
def test_links_between_documents_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
