"""The command in a shell: completion, the manual page, and errors for wrong input."""

import contextlib
import importlib
import inspect
import itertools
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from drystone.__main__ import main
from drystone.commands import MODULES, grammar

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "drystone.data/data/share/man/man1/drystone.1"
BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}


def run(*arguments, code=None):
    done = subprocess.run(
        [sys.executable, "-m", "drystone", *map(str, arguments)],
        env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert code is None or done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A valid container, a damaged one, and files that are not containers."""
    folder = tmp_path_factory.mktemp("shell")
    for name in ("good.dry", "bad.dry"):
        with dry.create(folder / name) as c:
            c.create_variable("fields/temperature", "f4", (64, 64), steps=True)
            c.create_variable("fields/texts", str, (2,))
            with c.writer(rank=0, nranks=1) as w, w.step():
                w.put("fields/temperature", np.ones((64, 64), "f4"))
            key, start, _ = c["fields/temperature"].blocks(0)[0].place
    segment = folder / "bad.dry" / key
    data = bytearray(segment.read_bytes())
    data[start + 10] ^= 1
    segment.write_bytes(data)
    (folder / "some.txt").write_text("no container, no known file")
    (folder / "broken.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    (folder / "broken.nc").write_bytes(b"CDF\x01" + b"\xff" * 100)
    (folder / "bad.drepl").write_text("dataset d { var ? }")
    return folder


def test_every_command_is_in_the_grammar_with_its_help():
    names = [command.name for command in grammar.commands()]
    assert set(names) >= {
        *MODULES.keys() - {"publish-hdf5"},
        "info",
        "ls",
        "dump",
        "explain",
        "verify",
        "publish",
        "recover",
        "check",
        "fmt",
    }
    assert len(names) == len(set(names))
    for command in grammar.commands():
        assert command.help
        for argument in command.arguments:
            assert argument.help, f"{command.name} {argument.name} says nothing of itself"


def test_the_manual_page_is_up_to_date():
    """`drystone man > drystone.data/data/share/man/man1/drystone.1` updates it."""
    assert run("man", code=0).stdout == PAGE.read_text()
    for command in grammar.commands():
        assert f".SH DRYSTONE {command.name.upper()}\n" in PAGE.read_text()
    codes = re.findall(r"^\| (\d+) \|", (ROOT / "docs/reference/cli.md").read_text(), flags=re.MULTILINE)
    assert codes == re.findall(r"^\\fB(\d+)\\fR$", PAGE.read_text(), flags=re.MULTILINE)


def test_every_command_of_python_has_its_module():
    """The parser's arguments are those that the module takes."""
    for name, module in MODULES.items():
        run = importlib.import_module(f"drystone.commands.{module}").run
        taken = inspect.signature(run).parameters
        if name == "publish-hdf5" or any(one.kind is one.VAR_KEYWORD for one in taken.values()):
            continue
        (command,) = (one for one in grammar.commands() if one.name == name)
        given = {one.name for one in command.arguments} - {"help", "json"}
        assert set(taken) - {"json"} == given, name


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff in PATH")
def test_the_manual_page_is_well_formed():
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", PAGE], capture_output=True, text=True, check=True
    )
    assert not done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_of_completion_are_taken_by_their_shell(shell, tmp_path):
    script = run("completion", shell, code=0).stdout
    assert "_DRYSTONE_COMPLETE" in script
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} in PATH")
    (tmp_path / "script").write_text(script)
    done = subprocess.run([shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


COMPLETED = [
    (["pl"], {"plot"}),
    (["re"], {"recover"}),
    (["dump", "good.dry", "fie"], {"fields/temperature", "fields/texts"}),
    (["plot", "good.dry", "fields/tem"], {"fields/temperature"}),
    (["du", "good.dry", "fields/texts", "fields/t"], {"fields/temperature", "fields/texts"}),
    (["export", "good.dry", "out.h5", "fields/te"], {"fields/temperature", "fields/texts"}),
    (["info", "goo"], {"good.dry"}),
    (["import", "bro"], {"broken.h5", "broken.nc"}),
    (["import", "--format", "z"], {"zarr"}),
    (["plot", "good.dry", "--lay"], {"--layout"}),
    (["completion", "f"], {"fish"}),
    (["dump", "missing.dry", "f"], set()),
]


def test_bash_completes_commands_options_files_and_variables(places):
    code = 'eval "$(drystone completion bash)"\n'
    for words, _ in COMPLETED:
        quoted = " ".join(f"'{word}'" for word in words)
        code += (
            f"COMP_WORDS=(drystone {quoted}); COMP_CWORD={len(words)}; "
            f"_clap_complete_drystone drystone '{words[-1]}' ''; (IFS=' '; echo \"${{COMPREPLY[*]}}\")\n"
        )
    done = subprocess.run(
        ["bash", "-c", code], cwd=places, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    said = [{name.rstrip("/") for name in line.split()} for line in done.stdout.splitlines()]
    assert said == [offered for _, offered in COMPLETED], done.stderr


def test_fish_completes_commands_options_files_and_variables(places):
    if shutil.which("fish") is None:
        pytest.skip("no fish in PATH")
    code = "drystone completion fish | source\n"
    for words, _ in COMPLETED:
        quoted = " ".join(["drystone", *words])
        code += f"set found (complete -C '{quoted}' | string split -f1 \\t); echo = $found\n"
    done = subprocess.run(
        ["fish", "--no-config", "-c", code],
        cwd=places, env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=280,
    )  # fmt: skip
    for (words, offered), line in zip(COMPLETED, done.stdout.splitlines(), strict=True):
        assert {name.rstrip("/") for name in line.split()[1:]} == offered, words


def test_zsh_completes_commands_options_files_and_variables(places, tmp_path):
    """Typed at a terminal: TAB, then a key that reports the current line."""
    if shutil.which("zsh") is None:
        pytest.skip("no zsh in PATH")
    told = tmp_path / "told"
    begin = [
        "autoload -Uz compinit; compinit -u -D",
        "unsetopt automenu autolist listbeep beep",
        'eval "$(drystone completion zsh)"',
        f"tell() {{ print -r -- \"$BUFFER\" >> {told}; BUFFER= }}; zle -N tell; bindkey '^X' tell",
        f"echo ready > {told}.ready",
    ]
    terminal, shell_end = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=shell_end, stdout=shell_end, stderr=shell_end, cwd=places, start_new_session=True,
        env=ENVIRONMENT | {"TERM": "dumb", "ZDOTDIR": str(tmp_path)},
    )  # fmt: skip
    drain = threading.Thread(target=read_to_the_end, args=(terminal,), daemon=True)
    drain.start()
    try:
        os.write(terminal, ("\n".join(begin) + "\n").encode())
        wait_until(lambda: Path(f"{told}.ready").exists())
        for number, (words, _) in enumerate(COMPLETED, 1):
            os.write(terminal, " ".join(["drystone", *words]).encode() + b"\t\x18")
            wait_until(lambda so_far=number: told.exists() and len(told.read_text().splitlines()) == so_far)
    finally:
        shell.kill()
        shell.wait()
        os.close(shell_end)
    for (words, offered), line in zip(COMPLETED, told.read_text().splitlines(), strict=True):
        last = shared_beginning(offered) if offered else words[-1]
        assert line.rstrip(" /").split() == ["drystone", *words[:-1], last], line


def shared_beginning(names):
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in same)


def read_to_the_end(terminal):
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass


def wait_until(so):
    end = time.monotonic() + 120
    while not so():
        assert time.monotonic() < end
        time.sleep(0.01)


# Wrong input: the arguments, the exit code, and a helpful word of the message.
T = "fields/temperature"
WRONG = [
    *((f"{name} missing.dry{more}", 3, "missing.dry") for name, more in [
        ("info", ""), ("ls", ""), ("dump", f" {T}"), ("explain", f" {T}"), ("verify", ""), ("publish", ""), ("recover", " --adopt"),
        ("export", " out.h5"), ("copy", " new.dry"), ("plot", f" {T}"), ("diff", " good.dry"), ("du", ""), ("top", ""), ("view", ""), ("gc", ""), ("index", f" {T}"), ("sort", f" {T} --by x"), ("calibrate", ""),
        ("tiers", ""), ("drain", " --tiers near"), ("warm", " --cache near"), ("derive", " d T*2"),
    ]),
    *((f"{name} some.txt{more}", None, "some.txt") for name, more in [
        ("info", ""), ("ls", ""), ("dump", f" {T}"), ("explain", f" {T}"), ("verify", ""), ("publish", ""), ("recover", " --adopt"),
        ("export", " out.h5"), ("copy", " new.dry"), ("plot", f" {T}"), ("diff", " good.dry"), ("du", ""), ("top", ""), ("view", ""), ("gc", ""), ("index", f" {T}"), ("sort", f" {T} --by x"),
    ]),
    *((f"{name} good.dry{more}", 3, "fields/temprature") for name, more in [
        ("ls", " fields/temprature"), ("dump", " fields/temprature"), ("explain", " fields/temprature"), ("publish", " fields/temprature"),
        ("export", " out.h5 fields/temprature"), ("copy", " new.dry fields/temprature"), ("plot", " fields/temprature"), ("du", " fields/temprature"), ("index", " fields/temprature"), ("sort", " fields/temprature --by x"),
    ]),
    *((f"{name} good.dry{more}", 2, "") for name, more in [
        ("dump", f" {T} [0,,]"), ("explain", f" {T} [a]"), ("plot", f" {T} [x]"), ("export", f" out.npy {T} --select [0:1:]x"),
        ("dump", f" {T} [0,99]"), ("explain", f" {T} [0,0,0,0]"), ("plot", f" {T} [0,0,0]"), ("export", " out.xyz"), ("export", " out.npy"),
        ("info", " --at x"), ("view", " --port 99999"), ("plot", " fields/texts"), ("plot", f" {T} [0] --colours mauve"), ("recover", ""),
    ]),
    *((f"{name} good.dry{more}", 3, "999") for name, more in [
        ("info", " --at 999"), ("ls", " --at 999"), ("du", " --at 999"), ("copy", " new.dry --at 999"), ("export", " out.h5 --at 999"),
    ]),
    ("query missing.dry a>1", 3, "missing.dry"),
    ("query some.txt a>1", None, "some.txt"),
    ("query good.dry fields/temprature>1", 2, "fields/temperature"),
    ("query good.dry a>>", 2, ""),
    (f"query good.dry {T}>1 [a]", 2, "selection"),
    (f"query good.dry {T}+1", 2, "condition"),
    (f"dump bad.dry {T}", 4, "damaged"),
    ("export bad.dry out2.h5", 4, "damaged"),
    (f"plot bad.dry {T} [0]", 4, "damaged"),
    ("diff bad.dry good.dry", 4, "damaged"),
    ("publish bad.dry", 4, "damaged"),
    ("import missing.h5 new.dry", 3, "missing.h5"),
    ("import some.txt new.dry", 2, "format"),
    ("import broken.h5 new.dry", 6, ""),
    ("import broken.nc new.dry", 6, ""),
    ("calibrate missing.dry", 3, "missing.dry"),
    ("calibrate some.txt --show", 3, "some.txt is a file"),
    ("export good.dry nowhere/out.h5", 3, "no folder nowhere"),
    (f"plot good.dry {T} [0] -o out.what", 2, "out.what"),
    (f"plot good.dry {T} [0] -o nowhere/out.png", 3, "no folder nowhere"),
    (f"dump good.dry {T} --limit -3", 2, "a whole number is expected"),
    (f"dump good.dry {T} --block 0", 2, "say which step"),
    ("top good.dry --interval 0", 2, "0.01 to 86400"),
    ("top good.dry --at 1", 2, "drystone info"),
    ("ls good.dry fields/none", 3, "no group or variable"),
    (f"dump good.dry {T} --field q", 3, "is not a record, but float"),
    ("drain good.dry --tiers near", 2, "without tiers"),
    ("drain good.dry", 2, "--tiers"),
    ("gc good.dry --keep -1", 2, "see drystone gc --help"),
    ("du", 2, "<CONTAINER>"),
    ("serve missing.toml", 3, "missing.toml"),
    ("mount missing.dry .", 3, "missing.dry"),
    ("umount .", 6, "unmounting"),
    ("serve some.txt", 2, "some.txt"),
    ("token create some.txt", 2, "scope"),
    ("token list missing.toml", 3, "missing.toml"),
    ("token revoke some.txt", 2, "id of the token"),
    ("token create tokens.toml --scope read:/x", 2, "read:/x"),
    ("token create tokens.toml --scope storage.read:/x --expires soon", 2, "soon"),
    ("check missing.drepl", None, "missing.drepl"),
    ("fmt missing.drepl", None, "missing.drepl"),
    ("check bad.drepl", 2, "bad.drepl"),
    ("fmt bad.drepl", 2, "bad.drepl"),
    ("fmt", 2, ""),
    ("gc good.dry --keep few", 2, "few"),
    ("gc good.dry --older-than yesterday", 2, "yesterday"),
    ("calibrate good.dry --seconds soon", 2, "soon"),
    ("verify good.dry --at first", 2, "first"),
    ("recover good.dry --steps three --yes", 2, "three"),
    ("copy good.dry good.dry --overwrite", 2, "the container itself"),
    ("copy good.dry new.dry --steps first", 2, "first"),
    ("copy good.dry new.dry --chunks 4,x", 2, "4,x"),
    ("copy good.dry new.dry --transform nonsense", 2, "nonsense"),
    ("copy bad.dry new.dry", 4, "damaged"),
    ("copy good.dry some.txt", 5, "some.txt"),
    ("copy good.dry", 2, "<TARGET>"),
    ("completion tcsh", 2, "bash"),
    ("completion", 2, "<SHELL>"),
    ("man page", 2, "page"),
    ("hdf5-env publish", 2, "publish is not KEY=VALUE"),
    ("doctor now", 3, "now"),
    ("doctor some.txt", 6, "some.txt"),
    ("doctor -o aws_region=x", 2, "URL"),
    ("publish --hdf5 some.txt", 2, "not written through"),
    ("inof good.dry", 2, "info"),
    ("info", 2, ""),
    ("import", 2, ""),
    ("du good.dry --bytes", 2, "--bytes"),
    ("tag missing.dry", 3, "missing.dry"),
    ("tag good.dry campaign", 2, "KEY=VALUE"),
    ("tag good.dry a=b --of fields/temprature", 3, "fields/temprature"),
    ("catalog find missing.cat x==1", 3, "missing.cat"),
    ("catalog find missing.cat", 2, "one question"),
    ("catalog look missing.cat", 2, "look"),
    ("catalog check missing.cat --fresh", 2, "--fresh"),
]  # fmt: skip


def test_wrong_input_is_tried_with_every_command():
    assert {typed.split()[0] for typed, _, _ in WRONG} >= {command.name for command in grammar.commands()}


@pytest.mark.parametrize(("typed", "code", "says"), WRONG, ids=[typed for typed, _, _ in WRONG])
def test_wrong_input_gets_one_line_that_helps(places, typed, code, says, monkeypatch, capfd):
    monkeypatch.chdir(places)
    monkeypatch.setattr(sys, "argv", ["drystone", *typed.split()])
    before = signal.getsignal(signal.SIGINT)
    try:
        got = main()
    finally:
        signal.signal(signal.SIGINT, before)
    out, err = capfd.readouterr()
    lines = err.strip().splitlines()
    assert got in ((code,) if code is not None else (2, 3, 4, 6)), err
    assert lines
    assert lines[0].startswith("drystone: ")
    assert says in lines[0]
    # A bad selection or text is shown below, with a mark, and nothing else.
    assert len(lines) == 1 or "^" in lines[-1], err
    assert not out or typed.startswith(("dump bad", "check"))  # whose values it was about to print; the error


def test_a_folder_that_cannot_be_read_is_an_error_of_rights(places, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    shutil.copytree(places / "good.dry", tmp_path / "shut.dry")
    (tmp_path / "shut.dry").chmod(0)
    done = run("info", tmp_path / "shut.dry", code=7)
    assert done.stderr.count("\n") == 1
    (tmp_path / "shut.dry").chmod(0o755)
