"""The page of tuned constants is true of the sources."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
constants = pytest.importorskip("constants")

CODE = """/// Holes up to this are read.
pub(crate) const GAP: u64 = 64 << 10;

/// First cache, and
/// second | cache.
const NEAR: usize =
    if cfg!(miri) { 1 } else { 1 | 2 }; // bytes
const FAR: usize = 7;

const UNSAID: usize = 8;
/// Follows from the format.
const MAX_LEN: usize = 9;
/// How long it waits.
const WAIT: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    /// Not tuned.
}
/// Behind tests.
const LATE: u64 = 1;
"""


def table(root):
    (root / "a.rs").write_text(CODE)
    group = {"title": "A", "trades": "This for that.", "command": "bench", "folders": ["a.rs"]}
    return {"fixed": [r".*:MAX_\w+"], "group": [group]}


def test_documented_numbers_are_listed_with_their_value_and_text(tmp_path):
    ((_, found),) = constants.groups(tmp_path, table(tmp_path))
    assert [(c.name, c.value, c.text) for c in found] == [
        ("GAP", "64 << 10", "Holes up to this are read."),
        ("NEAR", "1 | 2", "First cache, and second | cache."),
        ("FAR", "7", "First cache, and second | cache."),
        ("WAIT", "20 millis", "How long it waits."),
    ]


def test_a_row_that_is_no_longer_true_is_named_and_a_new_constant_is_only_missing(tmp_path):
    page = constants.page(tmp_path, table(tmp_path))
    assert constants.faults(tmp_path, table(tmp_path), page) == []
    assert constants.missing(tmp_path, table(tmp_path), page) == []

    changed = table(tmp_path)
    (tmp_path / "a.rs").write_text(CODE.replace("64 << 10", "32 << 10").replace("const FAR", "const NEW"))
    assert constants.faults(tmp_path, changed, page) == [
        "a.rs: GAP is 32 << 10; the page says 64 << 10",
        "a.rs: FAR is in the page, and not in the sources",
    ]
    assert constants.missing(tmp_path, changed, page) == ["a.rs: NEW"]


def test_the_page_is_true_of_the_sources():
    done = subprocess.run(
        [sys.executable, ROOT / "tools/constants.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_command_of_the_page_exists():
    for group in tomllib.loads(constants.TABLE.read_text())["group"]:
        match group["command"].split():
            case ["python", script]:
                assert (ROOT / script).is_file(), script
            case ["cargo", "bench", "-p", crate]:
                manifest = ROOT / "crates" / crate.removeprefix("drystone-") / "Cargo.toml"
                assert tomllib.loads(manifest.read_text())["bench"], crate
            case other:
                pytest.fail(f"no command that measures: {other}")


def test_every_exception_excepts_something():
    """Symptom: a file was parted, and its constants came into the page. Cause: the pattern named the old file."""
    files = [*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("connectors/*/src/**/*.rs")]
    names = [f"{c.file}:{c.name}" for file in files for c in constants.constants(ROOT, file, [])]
    for pattern in tomllib.loads(constants.TABLE.read_text())["fixed"]:
        assert any(re.fullmatch(pattern, name) for name in names), pattern
