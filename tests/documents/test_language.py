"""What the pages about the language and about rules show in Python runs as it stands there."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
UNSAID = {"what a read does", "the copies that it makes"}


@pytest.mark.parametrize("page", ["reference/language.md", "guide/rules.md"])
def test_the_examples_run_and_print_what_is_said(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "example"})
        said = capsys.readouterr().out
        for line in re.findall(r"print\(.*\)\s+# (.*)", block):
            assert line in said or line in UNSAID
