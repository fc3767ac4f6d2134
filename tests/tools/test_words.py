"""Words that were given up are refused where they were, and nowhere else."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
words = pytest.importorskip("words")


def test_types_old_words_private_phrases_and_long_lines_are_named_with_their_line(tmp_path):
    (tmp_path / "clean").mkdir()
    (tmp_path / "other").mkdir()
    code = "pub(crate) struct Place {\n    found: Found,\n}\n/// A type of placements.\nenum Placement {}\nconst MAX_RANK: u8 = 1;\n"
    for folder in ("clean", "other"):
        (tmp_path / folder / "a.rs").write_text(code)
    prose = '/// After so many bytes.\nlet nobody = "nobody is there"; // `nobody`\n'
    for file in ("clean/left/c.rs", "clean/b.rs"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(prose + f"// {'x' * 120}\n")
    (tmp_path / "clean/page.md").write_text(
        f"{'x ' * 61}\n\n| {'x ' * 61}\n[short](http://{'x' * 130})\n```\n{'x ' * 61}\n```\n"
    )
    table = {
        "types": {"names": ["Place", "Found"], "folders": ["clean"]},
        "instead": {"MAX_RANK": {"say": "MAX_NDIM", "folders": ["clean"]}},
        "prose": {"folders": ["clean"], "except": ["clean/left"], "phrases": {"so many|nobody": "how many"}},
        "lines": {"folders": ["clean"], "except": ["clean/left"]},
    }
    assert words.faults(tmp_path, table) == [
        "clean/a.rs:1: a type called Place: say which, as in the glossary",
        'clean/a.rs:6: "MAX_RANK" is called MAX_NDIM',
        'clean/b.rs:1: "so many": say how many',
        'clean/b.rs:2: "nobody": say how many',
        "clean/b.rs:3: 123 columns; at most 120",
        "clean/page.md:1: 122 columns; at most 120",
    ]


def test_the_tree_keeps_to_the_table():
    done = subprocess.run(
        [sys.executable, ROOT / "tools/words.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
