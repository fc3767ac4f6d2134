"""What the pages show of the shell works as it is typed there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from drystone.__main__ import main
from drystone.commands import grammar

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def shell_blocks(document):
    """The blocks of a page that are typed at a shell."""
    return re.findall(r"^```sh\n(.*?)^```", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)


def usage_lines():
    """The commands of docs/reference/cli.md as they are typed: the words behind three blanks say what they do."""
    block = (ROOT / "docs/reference/cli.md").read_text().split("```\n")[1]
    out = []
    for line in block.splitlines():
        if line.startswith(" "):
            out[-1] += " " + line.strip().split("   ")[0]  # more options of the same command
        elif line:
            name, rest = line.removeprefix("drystone ").partition(" ")[::2]
            alone = rest.startswith(10 * " ")
            out.append(name if alone else f"{name} {rest.strip().split('   ')[0]}")
    return out


USAGE = usage_lines()
NAMES = [line.split()[0] for line in USAGE]


def test_the_page_names_every_command():
    assert set(NAMES) == {command.name for command in grammar.commands()}


@pytest.mark.parametrize("line", USAGE)
def test_the_options_that_the_page_names_are_there(line):
    name = line.split()[0]
    command = next(command for command in grammar.commands() if command.name == name)
    known = {flag for option in command.options for flag in option.flags}
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", line)) <= known


# What the page's words stand for, per command where it matters.
WORDS = {
    "VARIABLE": "T", "SELECTION": "[0]", "GROUP": "fields", "N": "2", "DIM": "time", "PATH": "T", "CODECS": "zstd:1", "PORT": "0",
    "CATALOG": "catalogue", "PLACE": "run42.dry", "QUESTION": "max(T)>30", "KEY=VALUE": "campaign=a",
    "SNAPSHOT": "1", "CONDITION": "T>0", "TARGET": "new.dry", "TOKENS": "tokens.toml", "SCOPE": "storage.read:/run42", "TIME": "30d", "STEP": "0", "BYTES": "100000", "A:B": "0:3", "SHAPE": "3,5", "NODE": "n7",
    "MEMBER": "mask",
    "TEXT": "layout.drepl", "FRAGMENT": "all", "NAME": "double", "EXPRESSION": "T*2", "KIND": "virtual", "RULE": "nan", "UNITS": "K",
}  # fmt: skip
FILES = {
    "import": "some.h5",
    "plot": "out.png",
    "check": "some.drepl",
    "fmt": "some.drepl",
}


def typed(line, with_options):
    """A line of the page as somebody types it: all that is in brackets, or nothing of it; of alternatives the first."""
    line = re.sub(r"\|--[\w-]+( [\d,]+)?", "", line.replace("...", ""))
    while "[" in line:
        line = re.sub(r"\[([^][]*)\]", r"\1" if with_options else "", line)
    name = line.split()[0]
    meant = WORDS | {"FILE": FILES.get(name, "out.npy" if with_options else "out.h5")}
    if name == "plot":
        meant["VARIABLE"] = "map"
    words = [meant.get(word.split("|")[0], word.split("|")[0]) for word in line.split()]
    if name == "import":  # into a container that is not there yet
        words = ["new.dry" if word == "run42.dry" else word for word in words]
    return words


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The files that the page speaks of."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("page")
    for name in ("run42.dry", "other.dry"):
        with dry.create(folder / name) as c:
            c.create_variable("T", "f8", (6, 5), steps=True)
            c.create_variable("fields/mask", "u1", (4,))
            c.create_variable("map", "f4", (6, 5))
            with c.writer(rank=0, nranks=1) as w:
                for step in range(5):
                    with w.step():
                        w.put("T", np.arange(30.0).reshape(6, 5) + step)
    with h5py.File(folder / "some.h5", "w") as file:
        file["T"] = np.arange(12.0).reshape(3, 4)
        file["T"].dims[0].label = "time"
    (folder / "tokens.toml").touch()
    dry.catalog(folder / "catalogue").add(folder / "run42.dry")
    (folder / "some.drepl").write_text("dataset { var a[4] float64 }\n")
    length = (folder / "some.h5").stat().st_size
    layout = f"dataset {{ var bytes[{length}] uint8 }}\nfragment all {{ var b[i:{length}] = bytes[i] }}\n"
    (folder / "layout.drepl").write_text(layout)
    return folder


# What tests/view, tests/hdf5 and tests/python/{stores/test_server,stores/test_tiers,mount/test_mount}.py try: servers,
# tiers, mounts, and what is about programs that use HDF5.
ELSEWHERE = ("view", "doctor", "publish --hdf5", "serve", "mount", "umount", "drain")
CASES = [(line, so) for line in USAGE if not line.startswith(ELSEWHERE) for so in (False, True)]


@pytest.mark.parametrize(("line", "with_options"), CASES, ids=[f"{line}-{so}" for line, so in CASES])
def test_each_line_of_the_page_does_what_is_typed(line, with_options, place, tmp_path, monkeypatch, capfd):
    folder = shutil.copytree(place, tmp_path / "here")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DRYSTONE_CACHE", str(tmp_path / "cache"))
    words = typed(line, with_options)
    if words[0] == "import" and with_options:
        words = [word for word in words if word not in ("--group", "fields")]  # the file has no such group
    if words[0] == "recover" and not with_options:
        words.append("--yes")  # else it asks
    if words[0] == "calibrate" and with_options:
        typed_is(
            monkeypatch, ["calibrate", "run42.dry", "--seconds", "0.1"]
        )  # there must be something to show
    code = typed_is(monkeypatch, words)
    said, complaints = capfd.readouterr()
    assert code == 0, complaints
    assert not [
        line for line in complaints.splitlines() if line.startswith("drystone: ") and "warning" not in line
    ]
    assert said or words[0] in ("check", "fmt")


def typed_is(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["drystone", *words])
    return main()


def test_what_the_readme_makes_is_there():
    makes = re.findall(r"^make (\w+)", "\n".join(shell_blocks("README.md")), flags=re.MULTILINE)
    assert makes
    rules = (ROOT / "Makefile").read_text()
    for name in makes:
        assert re.search(rf"^{name}:.* ## ", rules, flags=re.MULTILINE), name


def test_a_plug_in_is_compiled_and_configured_as_the_page_says(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (block,) = shell_blocks("docs/guide/plugins.md")
    for name in ("crates", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "simulation.py").write_text(
        "import drystone as dry, numpy as np\n"
        "with dry.create('run.dry') as c:\n"
        "    c.create_variable('u', 'i4', (1000,), transform='shuffle,runs')\n"
        "    with c.writer() as w:\n"
        "        w.put('u', np.full(1000, 7, 'i4'))\n"
        "    c.refresh()\n"
        "    assert (c['u'][:] == 7).all()\n"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", block],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
