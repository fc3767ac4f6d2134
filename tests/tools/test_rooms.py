"""`tools/rooms.py` finds circles of modules and arrows that lead upward, and says where they are."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools/rooms.py"


@pytest.fixture
def tree(tmp_path):
    """A repository of made-up crates: `tree(files, table)` writes it and runs the check."""

    def checked(files, table, *options):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools/rooms.toml").write_text(table)
        return subprocess.run(
            [sys.executable, SCRIPT, "--root", tmp_path, *options], capture_output=True, text=True, timeout=60
        )

    return checked


def crate(name, needs=(), **modules):
    """Files of a crate whose modules are given; `__` in a name stands for a folder."""
    manifest = f'[package]\nname = "{name}"\n[dependencies]\n' + "".join(f"{need} = '1'\n" for need in needs)
    files = {f"crates/{name}/Cargo.toml": manifest}
    return files | {
        f"crates/{name}/src/{module.replace('__', '/')}.rs": text for module, text in modules.items()
    }


def test_a_tree_whose_arrows_point_down_passes(tree):
    files = crate("a", lib="mod top;\nmod low;\n", top="use crate::low::Low;\n", low="pub struct Low;\n")
    done = tree(files, 'crates = ["a"]\n[rooms]\na = ["top", "low"]\n')
    assert (done.returncode, done.stderr) == (0, "")


def test_a_circle_is_found_and_each_of_its_arrows_has_a_line(tree):
    files = crate(
        "a", lib="mod x;\nmod y;\n", x="\nuse crate::y::Y;\n", y="pub struct Y;\nfn f() { super::x::g() }\n"
    )
    done = tree(files, 'crates = ["a"]\n')
    assert done.returncode == 1
    assert "2 modules in a circle: x, y" in done.stderr
    assert "crates/a/src/x.rs:2: x uses y (crate::y::Y)" in done.stderr
    assert "crates/a/src/y.rs:2: y uses x (super::x::g)" in done.stderr


def test_an_arrow_upward_is_found_with_its_line(tree):
    files = crate(
        "a", lib="mod top;\nmod low;\n", top="pub fn f() {}\n", low="\n\nuse crate::{\n    top::f,\n};\n"
    )
    done = tree(files, 'crates = ["a"]\n[rooms]\na = ["top", "low"]\n')
    assert done.returncode == 1
    assert "crates/a/src/low.rs:3: low uses top (crate::top::f), which stands above it" in done.stderr


def test_names_that_are_passed_on_count_where_they_are_defined(tree):
    """`low` names only the crate's root, which passes on what `top` defines."""
    for passed in ("pub use top::f;", "pub use top::*;", "pub use crate::top::{f as f, g};"):
        files = crate(
            "a",
            lib=f"mod top;\nmod low;\n{passed}\n",
            top="pub fn f() {}\npub fn g() {}\n",
            low="use crate::f;\n",
        )
        done = tree(files, 'crates = ["a"]\n[rooms]\na = ["top", "low"]\n')
        assert "low uses top" in done.stderr, passed


def test_paths_in_code_count_like_imports(tree):
    for text in (
        "fn f() { crate::top::f() }",
        "use super::top;\nfn f() { top::f() }",
        "mod inner { use super::super::top::f; }",
    ):
        files = crate("a", lib="mod top;\nmod low;\n", top="pub fn f() {}\n", low=text)
        done = tree(files, 'crates = ["a"]\n[rooms]\na = ["top", "low"]\n')
        assert "low uses top" in done.stderr, text


def test_comments_strings_and_tests_are_no_arrows(tree):
    low = (
        '//! [`crate::top::f`]\n/* use crate::top::f; */\nconst A: &str = "use crate::top::f;";\n'
        "#[cfg(test)]\nmod tests {\n    use crate::top::f;\n}\n#[cfg(test)]\nuse crate::top::f;\n"
    )
    files = crate("a", lib="mod top;\nmod low;\n", top="use crate::low::A;\npub fn f() {}\n", low=low)
    done = tree(files, 'crates = ["a"]\n[rooms]\na = ["top", "low"]\n')
    assert (done.returncode, done.stderr) == (0, "")


def test_a_child_and_the_file_that_declares_it_are_read_as_one_but_siblings_are_not(tree):
    parent = "mod one;\nmod two;\npub struct Noun;\npub fn f() { one::f(); two::f(); }\n"
    files = crate(
        "a", lib="mod room;\n", room__mod=parent, room__one="use super::Noun;\n", room__two="use super::f;\n"
    )
    assert tree(files, 'crates = ["a"]\n').returncode == 0
    files |= crate("a", lib="mod room;\n", room__one="use super::two::g;\n", room__two="use super::one::f;\n")
    done = tree(files, 'crates = ["a"]\n')
    assert "a::room: 2 modules in a circle: one, two" in done.stderr


def test_a_room_stands_for_everything_below_it(tree):
    files = crate(
        "a",
        lib="mod x;\nmod y;\n",
        x="mod deep;\npub fn f() {}\n",
        x__deep="use crate::y::g;\n",
        y="pub fn g() { crate::x::f() }\n",
    )
    done = tree(files, 'crates = ["a"]\n')
    assert "crates/a/src/x/deep.rs:1: x uses y" in done.stderr


def test_a_circle_that_the_table_allows_may_only_shrink(tree):
    three = crate(
        "a",
        lib="mod x;\nmod y;\nmod z;\n",
        x="use crate::y::Y;\n",
        y="use crate::z::Z;\n",
        z="use crate::x::X;\n",
    )
    assert tree(three, 'crates = ["a"]\n[not_yet]\na = 3\n').returncode == 0
    assert "tools/rooms.toml allows 2" in tree(three, 'crates = ["a"]\n[not_yet]\na = 2\n').stderr
    assert "write 3 under [not_yet]" in tree(three, 'crates = ["a"]\n[not_yet]\na = 4\n').stderr


def test_a_crate_depends_only_on_crates_below_it(tree):
    files = crate("low", needs=["top"], lib="") | crate("top", lib="")
    done = tree(files, 'crates = ["top", "low"]\n')
    assert "crates/low/Cargo.toml: low depends on top, which stands above it" in done.stderr


def test_rooms_and_crates_that_the_table_lacks_are_named(tree):
    files = crate("a", lib="mod x;\nmod y;\n", x="", y="") | crate("b", lib="")
    done = tree(files, 'crates = ["a"]\n[rooms]\na = ["x", "gone"]\nc = []\n')
    assert "b: not in the list of crates" in done.stderr
    assert "a: the module y has no place" in done.stderr
    assert "orders gone, which is no module" in done.stderr
    assert "c: in tools/rooms.toml, but there is no such folder" in done.stderr


def test_the_drawing_lists_rooms_arrows_and_circles(tree):
    files = crate("a", lib="mod low;\nmod top;\n", top="use crate::low::Low;\n", low="pub struct Low;\n")
    done = tree(files, 'crates = ["a"]\n', "--draw", "a")
    assert done.stdout == "a: 2 rooms, 1 arrows, 0 circles\n    top -> low\n    low\n"


def test_this_repository_passes():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
