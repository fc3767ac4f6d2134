"""The installed HDF5 libraries, and what each does in a given environment, tested in separate processes."""

from __future__ import annotations

import ctypes.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OLDEST = (1, 14, 0)
"""The first HDF5 version whose connector interface the plug-in supports."""

PACKAGES = ("h5py", "netCDF4", "tables")
_PROBE = Path(__file__).parent / "probe.py"
_SECONDS = 60


@dataclass(frozen=True)
class Library:
    """A libhdf5, and its user."""

    path: Path
    user: str


@dataclass(frozen=True)
class Answer:
    """The result of creating a file with a library."""

    version: tuple[int, int, int] | None
    connector: str | None
    """The connector of the created file; None if none was created."""
    plugins_off: bool
    """Whether the library was told not to load plug-ins (HDF5_PLUGIN_PRELOAD=::)."""
    said: str
    """Its output, or how it ended."""

    @property
    def too_old(self) -> bool:
        """Whether it cannot load connectors such as ours."""
        return self.version is not None and self.version < OLDEST


def libraries(more: list[Path]) -> list[Library]:
    """The libraries of this Python's packages, the system's, and `more`; each file once."""
    found = [Library(path, f"--library {path}") for path in more]
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        home = Path(spec.origin).parent
        bundled = sorted(home.with_name(f"{package}.libs").glob("libhdf5-*.so*"))
        found += [Library(path, package) for path in bundled or _linked(home)]
    system = ctypes.util.find_library("hdf5")
    if system is not None:
        found.append(Library(Path(system), "the system"))
    once = {library.path: library for library in reversed(found)}
    return list(reversed(once.values()))


def library_of(program: Path) -> list[Library]:
    """The HDF5 library that a program is linked with."""
    return [Library(path, program.name) for path in _needed(program)]


def _linked(home: Path) -> list[Path]:
    """The libraries that the extension modules of a locally built package are linked with."""
    return sorted({path for module in home.glob("*.so") for path in _needed(module)})


def _needed(binary: Path) -> list[Path]:
    told = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    return [Path(place) for place in re.findall(r"libhdf5[^_\s]*\.so\S* => (/\S+)", told)]


def ask(library: Path, environment: Mapping[str, str], path: Path | None = None) -> Answer:
    """Create and close a file (or only open and close `path`) with a library, in a process with this environment."""
    with tempfile.TemporaryDirectory() as folder:
        target = ["open", str(path)] if path is not None else ["create", str(Path(folder) / "probe.h5")]
        try:
            done = subprocess.run(
                [sys.executable, "-I", str(_PROBE), str(library), *target],
                env=dict(environment),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=None if path is not None else _SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(None, None, False, f"it did not answer within {_SECONDS} s")
    told: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            told |= json.loads(line)
    said = done.stderr.strip()
    if done.returncode < 0:
        said = f"the process died by signal {-done.returncode}. {said}".strip()
    version = told.get("version")
    return Answer(
        tuple(version) if version else None,
        told.get("connector") if told.get("closed") else None,
        bool(told.get("plugins_off")),
        said,
    )
