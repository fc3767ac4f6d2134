"""What the README and the pages on Python show runs as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks(document, language):
    """The code of a document's blocks in `language`, in order."""
    text = (ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/reading.md", "docs/xarray.md"])
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


@pytest.mark.parametrize(
    "document", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=lambda path: path.name
)
def test_links_between_documents_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
