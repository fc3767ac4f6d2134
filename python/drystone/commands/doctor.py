"""`drystone doctor`: tests whether HDF5 programs use Drystone, or whether a store fulfils what containers need.

Each HDF5 library is tested twice in separate processes: with the environment as it is, and with what `drystone
hdf5-env` sets. So a library that cannot load the connector is told apart from an environment that does not select it.
Creating a file proves nothing: if a connector does not load, HDF5 1.14 prints a message and continues with its own
format. So the test asks the file for its connector.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from drystone import _core, hdf5
from drystone.commands.outcome import Outcome
from drystone.errors import InvalidArgumentError
from drystone.hdf5.libraries import OLDEST, Answer, Library, ask, libraries, library_of
from drystone.location import place, store_options

OK, NOTE, BAD = "ok", "note", "BAD"


@dataclass(frozen=True)
class Finding:
    """The result of one test."""

    state: str
    what: str
    remedy: str = ""


def run(*, store: str | None, option: list[str], library: list[str], program: list[str]) -> Outcome:
    """Test the plug-in, the environment and every library; exit code 1 if something is wrong."""
    if store is not None:
        return of_store(store, option)
    if option:
        raise InvalidArgumentError("options are of a store: name its URL")
    return _of_programs([Path(one) for one in library], [Path(one) for one in program])


def _of_programs(named: list[Path], programs: list[Path]) -> Outcome:
    """Test whether HDF5 programs use Drystone."""
    asked = [library for program in programs for library in library_of(program)]
    findings = [*of_plugin(hdf5.plugin()), *of_environment(os.environ)]
    for program in programs:
        if not library_of(program):
            remedy = (
                "a program with HDF5 linked statically, or loaded later, cannot be seen: name it by --library"
            )
            findings.append(Finding(BAD, f"{program} is not linked with a libhdf5", remedy))
    found = [*asked, *libraries(named)]
    for library in found:
        findings += of_library(library, os.environ)
    if not found:
        remedy = "name one: drystone doctor --library /path/to/libhdf5.so"
        findings.append(Finding(NOTE, "no HDF5 library was found in this Python or system", remedy))
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:4}  {finding.what}")
        if finding.remedy:
            lines += [f"      -> {line}" for line in finding.remedy.splitlines()]
    bad = any(finding.state == BAD for finding in findings)
    return Outcome("\n".join(lines), [asdict(finding) for finding in findings], code=int(bad))


def of_store(named: str, options: list[str]) -> Outcome:
    """The table of guarantees; exit code 1 if one does not hold."""
    pairs = dict(option.partition("=")[::2] for option in options)
    if not all("=" in option for option in options):
        # The text may contain a secret.
        raise InvalidArgumentError("an option of a store is written NAME=VALUE")
    location = place(named)
    promises, latency, bandwidth, left = _core.examine(location, store_options(location, pairs))
    words = {True: "yes", False: "NO", None: "-"}
    width = max(len(what) for what, *_ in promises)
    lines = []
    for what, kept, found, remedy in promises:
        lines.append(f"{words[kept]:4} {what:{width}}  {found}")
        if kept is False:
            lines.append(f"     -> {remedy}")
    if latency is not None:
        lines.append(
            f"     {'latency':{width}}  {latency * 1e3:.2f} ms per request of a few bytes, the median of 9"
        )
    if bandwidth is not None:
        read, written = (rate / 1e6 for rate in bandwidth)
        lines.append(
            f"     {'bandwidth':{width}}  {read:.0f} MB/s read, {written:.0f} MB/s written, of 17 MiB each, one at a time"
        )
    if left:
        lines.append(f"NO   nothing is left  {len(left)} objects could not be removed, such as {left[0]}")
    data = {
        "store": location,
        "promises": [
            {"what": what, "kept": kept, "found": found, "remedy": remedy if kept is False else ""}
            for what, kept, found, remedy in promises
        ],
        "latency": latency,
        "read": bandwidth and bandwidth[0],
        "write": bandwidth and bandwidth[1],
        "left": left,
    }
    bad = left or any(kept is False for _, kept, _, _ in promises)
    return Outcome("\n".join(lines), data, code=int(bool(bad)))


def of_plugin(path: Path) -> list[Finding]:
    """Test whether HDF5 can load the file."""
    if not path.exists():
        remedy = "this package was built without it; in a checkout: make setup; otherwise install a wheel"
        return [Finding(BAD, f"the plug-in is not at {path}", remedy)]
    # Loading runs constructors, so it happens in another process. Binding at once finds undefined symbols.
    script = (
        "import ctypes, os, sys; p = ctypes.CDLL(sys.argv[1], os.RTLD_NOW | os.RTLD_LOCAL); "
        "p.H5PLget_plugin_info; sys.exit(p.H5PLget_plugin_type() != 1)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return [Finding(BAD, f"the plug-in {path} cannot be loaded: {said}", "install the package again")]
    return [Finding(OK, f"the plug-in {path} loads, with all that it needs")]


def of_environment(environment: Mapping[str, str]) -> list[Finding]:
    """Test whether the variables select the connector."""
    set_it = 'eval "$(drystone hdf5-env)"'
    found = []
    connector, _, options = environment.get(hdf5.CONNECTOR_VARIABLE, "").strip().partition(" ")
    if connector == hdf5.CONNECTOR:
        found.append(Finding(OK, f"{hdf5.CONNECTOR_VARIABLE} asks for {hdf5.CONNECTOR}"))
        if options:
            found.append(Finding(NOTE, f"with the configuration {options.strip()!r}"))
    elif not connector:
        found.append(Finding(BAD, f"{hdf5.CONNECTOR_VARIABLE} is not set: new files are HDF5's own", set_it))
    else:
        what = f"{hdf5.CONNECTOR_VARIABLE} names {connector!r}, which is not {hdf5.CONNECTOR!r}"
        found.append(Finding(BAD, what, f"one connector can be chosen; to choose this one: {set_it}"))
    folders = [Path(folder) for folder in environment.get(hdf5.PATH_VARIABLE, "").split(":") if folder]
    name = hdf5.plugin().name
    holding = [folder for folder in folders if (folder / name).is_file()]
    if not folders:
        found.append(Finding(BAD, f"{hdf5.PATH_VARIABLE} is not set: HDF5 cannot find the plug-in", set_it))
    elif not holding:
        listed = ", ".join(map(str, folders))
        found.append(Finding(BAD, f"no folder of {hdf5.PATH_VARIABLE} holds {name}: {listed}", set_it))
    else:
        ours = ctypes_same(holding[0] / name, hdf5.plugin())
        what = f"{hdf5.PATH_VARIABLE} leads to {holding[0] / name}"
        remedy = "" if ours else f"that is another one than this package's: {set_it}"
        found.append(Finding(OK if ours else NOTE, what, remedy))
        if len(holding) > 1:
            others = ", ".join(str(folder / name) for folder in holding[1:])
            found.append(Finding(NOTE, f"further copies are not used: {others}"))
    if environment.get("HDF5_PLUGIN_PRELOAD") == "::":
        remedy = "unset HDF5_PLUGIN_PRELOAD: the value '::' turns all plug-ins off"
        found.append(Finding(BAD, "HDF5_PLUGIN_PRELOAD tells HDF5 to load no plug-ins", remedy))
    found += [
        Finding(NOTE, f"{folder} of {hdf5.PATH_VARIABLE} is not a folder")
        for folder in folders
        if not folder.is_dir()
    ]
    return found


def ctypes_same(first: Path, second: Path) -> bool:
    """Whether two paths name files with the same bytes."""
    if not second.exists():
        return False
    return first.samefile(second) or first.read_bytes() == second.read_bytes()


def of_library(library: Library, environment: Mapping[str, str]) -> list[Finding]:
    """What a libhdf5 does now, and what it would do with the connector's environment."""
    now = ask(library.path, environment)
    name = f"HDF5 {version_text(now)} of {library.user}"
    if now.version is None or now.version == (0, 0, 0):
        return [Finding(BAD, f"{library.path} of {library.user} cannot be asked: {last(now.said)}")]
    if now.too_old:
        oldest = ".".join(map(str, OLDEST))
        remedy = f"connectors need HDF5 {oldest} or newer; programs with this one make HDF5's own files, without a word"
        return [Finding(BAD if library.user != "the system" else NOTE, f"{name} is too old", remedy)]
    if now.connector == hdf5.CONNECTOR:
        return [Finding(OK, f"{name} made a file through {hdf5.CONNECTOR}")]
    if now.plugins_off:
        remedy = "its program turned them off (H5PLset_loading_state), or HDF5_PLUGIN_PRELOAD did"
        return [Finding(BAD, f"{name} loads no plug-ins", remedy)]
    wanted = environment.get(hdf5.CONNECTOR_VARIABLE, "").split(" ")[0] == hdf5.CONNECTOR
    would = ask(library.path, {**environment, **hdf5.environment(base=environment)})
    if now.connector is None:
        what = f"{name} could not make a file: {last(now.said)}"
    elif wanted:
        what = f"{name} went on with the connector {now.connector!r} although {hdf5.CONNECTOR} is asked for"
        what += f": {last(now.said)}" if now.said else ""
    else:
        what = f"{name} uses the connector {now.connector!r}"
    if would.connector == hdf5.CONNECTOR:
        return [Finding(BAD, what, 'with eval "$(drystone hdf5-env)" it uses drystone')]
    remedy = f"even with what drystone hdf5-env sets it does not use drystone: {last(would.said)}"
    return [Finding(BAD, what, remedy)]


def version_text(answer: Answer) -> str:
    """The version, as HDF5 writes it."""
    return ".".join(map(str, answer.version)) if answer.version else "of unknown version"


def last(said: str) -> str:
    """The last entry of HDF5's error stack: the cause."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("#") and "():" in line]
    return (
        (causes or lines or ["it said nothing"])[-1].partition("(): ")[2]
        if causes
        else (lines or ["it said nothing"])[-1]
    )
