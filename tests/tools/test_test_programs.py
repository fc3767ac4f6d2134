"""`make test` gets the programs that only tests run, where it can, and goes on where it cannot."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools/test_programs.sh"
COMMON = ("bash", "chmod", "env", "grep", "head", "mktemp", "rm", "sed", "tail", "tr", "touch")


@pytest.fixture
def system(tmp_path):
    """A PATH of its own, in which nothing that tests need is installed and `apt-get` writes down what it is asked
    for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in COMMON:
        (folder / name).symlink_to(shutil.which(name))

    def program(name, text):
        (folder / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (folder / name).chmod(0o755)

    asked = tmp_path / "asked"
    program("id", "echo 0")
    program("apt-cache", "case $2 in zsh) echo '  Candidate: (none)' ;; *) echo '  Candidate: 1.0' ;; esac")
    # It installs fish and fails to bring the others.
    program(
        "apt-get",
        f'echo "$*" >> {asked}; case "$*" in *install*) touch {folder}/fish; chmod +x {folder}/fish ;; esac',
    )

    def run():
        asked.unlink(missing_ok=True)
        done = subprocess.run(
            [SCRIPT], env={"PATH": str(folder)}, capture_output=True, text=True, check=False
        )
        assert not done.stdout
        return done, asked.read_text().splitlines() if asked.exists() else []

    return program, run


def test_what_is_missing_is_installed_in_one_call(system):
    program, run = system
    program("gfortran", "exit 0")
    done, asked = run()
    assert [any(word in line for line in asked) for word in (" update", " install ")] == [True, True]
    assert len(asked) == 2
    words = asked[1].split()
    assert {"mpich", "libopenmpi-dev", "chromium-headless-shell", "fish"} <= set(words)
    assert not {"gfortran", "zsh"} & set(words)  # there already; not in this distribution
    last = done.stderr.splitlines()[-1].split()
    assert "skipped" in last
    assert "zsh" in last
    assert "fish" not in last
    assert done.returncode == 0, "another try would not help"


def test_without_root_what_is_missing_is_named(system):
    program, run = system
    program("id", "echo 1000")
    done, asked = run()
    assert not asked
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "gfortran" in done.stderr.split()


@pytest.mark.parametrize("fails", ["update", "install"])
def test_a_failing_apt_get_is_said_in_a_line_and_tried_again(system, fails):
    program, run = system
    program("apt-get", f'case "$*" in *{fails}*) echo more; echo "E: no network"; exit 100 ;; esac')
    done, _ = run()
    assert f"apt-get {fails} failed: E: no network" in done.stderr
    assert "more" not in done.stderr.split()
    assert done.returncode == 1
