"""The list of public items is what the engine makes public, and says how it differs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
public_items = pytest.importorskip("public_items")


def crate(folder, **files):
    """A crate of these files, read."""
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text(f'[package]\nname = "{folder.name}"\n')
    for name, text in files.items():
        (folder / "src" / f"{name}.rs").write_text(text)
    return public_items.read(public_items.read_crate(folder))


@pytest.fixture
def reached(tmp_path):
    engine = crate(
        tmp_path / "engine",
        lib="""
            mod inner;
            pub mod open;
            pub use inner::Kept as Called;
            pub use other::part::{Thing, each};
            pub mod group { pub use other::deep; pub fn alone() {} mod hidden { pub fn no() {} } }
            pub(crate) fn no() {}
            #[cfg(feature = "testing")]
            pub fn of_tests() {}
            #[cfg(test)]
            mod tests { pub fn no() {} }
        """,
        inner="""
            pub struct Kept { pub field: [u8; 4] }
            pub struct Hidden;
            impl Kept { pub fn method(&self) { fn inside() {} } pub(crate) fn no(&self) {} pub const SIZE: u32 = 1; }
            impl Drop for Kept { fn drop(&mut self) {} }
            impl Hidden { pub fn no() {} }
        """,
        open='pub enum Choice { One, Two }\n// pub fn comment() {}\npub static TEXT: &str = "pub fn no() {}";',
    )
    other = crate(
        tmp_path / "other",
        lib="pub mod part;\npub mod deep { pub const fn low() {} }",
        part="pub trait Thing { fn required(); }\npub fn each() {}\npub fn not_passed_on() {}",
    )
    found = public_items.Reached({"engine": engine, "other": other})
    found.module("engine", ())
    return found.items


def test_items_count_where_they_are_defined_once(reached):
    assert reached == {
        "engine::inner::Kept",
        "engine::inner::Kept::method",
        "engine::inner::Kept::SIZE",
        "engine::open::Choice",
        "engine::open::TEXT",
        "engine::group::alone",
        "other::part::Thing",
        "other::part::each",
        "other::deep::low",
    }


def test_a_difference_says_what_to_do():
    more, less = public_items.differences(["a::gone"], ["a::new"])
    assert more.startswith("a::new is public and not in ")
    assert less.startswith("a::gone is in ")


def test_the_list_is_up_to_date():
    """`python tools/public_items.py --write` brings it up to date."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools/public_items.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
