"""What the page about the language shows in Python runs as it stands there."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()


def test_the_examples_run_and_print_what_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "language.md", "exec"), {"__name__": "example"})
        said = capsys.readouterr().out
        lines = re.findall(r"print\(.*\)\s+# (.*)", block)
        for line in lines:
            assert line in said or line == "what a read does"
