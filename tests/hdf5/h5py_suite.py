"""h5py's own tests through the connector: `python tests/hdf5/h5py_suite.py [--h5py VERSION] [--native] [FILE...]`.

The tests are those inside h5py's wheel, unchanged; two environment variables are all that differs. What may fail stands
in `expected_failures_VERSION.txt`, each with its reason. The run fails when
- a test fails that is not expected to, or one passes that is expected to fail (the list says what is true, or it is
  worth nothing);
- a test crashes its process or hangs, whatever the list says;
- a file was made or opened by another connector than ours (connector_used.py asks HDF5 for each file), or none by ours.

Each test runs in a worker process that is replaced when it dies. VERSION 3.16.0 (HDF5 2.0.0) is the one of .venv;
another is installed into build/h5py-VERSION at its first use. FILE: only these test files, as `test_group.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLS = ("pytest==9.2.0", "pytest-xdist==3.8.0", "pytest-timeout==2.4.0")
SECONDS_PER_TEST = 60


@dataclass
class Results:
    """What became of each test, by its name: `test_group.TestKeys.test_keys`."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    died: dict[str, str] = field(default_factory=dict)
    """Crashed or hung."""
    files: Counter[str] = field(default_factory=Counter)
    """How many files which connector made or opened."""
    strangers: dict[str, str] = field(default_factory=dict)
    """Tests that used another connector, and which."""


@dataclass
class Expected:
    """What may fail, and why; `flaky` may also pass."""

    reasons: dict[str, str] = field(default_factory=dict)
    flaky: set[str] = field(default_factory=set)


def expectations(path: Path) -> Expected:
    """Read a list: a line that begins with `#` is the reason of the names below it; `~NAME` may also pass."""
    out, reason, fresh = Expected(), "", True
    if not path.exists():
        return out
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            reason = f"{reason} {line[1:].strip()}" if not fresh else line[1:].strip()
            fresh = False
        elif line.strip():
            name = line.strip()
            if not reason:
                raise SystemExit(f"{path}: {name} has no reason")
            if name.startswith("~"):
                name = name[1:]
                out.flaky.add(name)
            out.reasons[name] = reason
            fresh = True
        else:
            reason, fresh = "", True
    return out


def interpreter(wanted: str) -> Path:
    """A Python that has this h5py and pytest."""
    if wanted == version("h5py"):
        return Path(sys.executable)
    home = ROOT / "build" / f"h5py-{wanted}"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"h5py=={wanted}", *TOOLS], check=True)
        (home / ".ready").touch()
    return python


def run(python: Path, environment: dict[str, str], files: list[str], workers: int = 1) -> Results:
    """The suite, or some of its files, in this environment."""
    with tempfile.TemporaryDirectory() as folder:
        report, seen = Path(folder) / "report.xml", Path(folder) / "seen"
        seen.mkdir()
        # Tests are named by their place below the root.
        find = "import h5py, pathlib; print(pathlib.Path(h5py.__file__).parents[1])"
        root = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
        where = [f"h5py.tests.{name.removesuffix('.py')}" for name in files] or ["h5py"]
        subprocess.run(
            [
                python,
                *("-m", "pytest", "-q", "-c", "/dev/null", f"--rootdir={root}", "-p", "no:cacheprovider"),
                *("-p", "connector_used", "-n", str(workers), "--max-worker-restart=500"),
                *(f"--timeout={SECONDS_PER_TEST}", f"--junitxml={report}", "--tb=short", "--no-header"),
                *("-W", "ignore", "--pyargs", *where),
            ],
            cwd=folder,
            env=environment | {"PYTHONPATH": str(HERE), "CONNECTOR_SEEN": str(seen), "TMPDIR": folder},
            stdout=sys.stderr if os.environ.get("SUITE_VERBOSE") else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if not os.environ.get("SUITE_VERBOSE") else None,
            check=False,
        )
        if not report.exists():
            raise SystemExit("pytest gave no report: SUITE_VERBOSE=1 shows what it said")
        return results(report, seen)


def results(report: Path, seen: Path) -> Results:
    """Read what pytest and the workers left."""
    out = Results()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}".rpartition("tests.")[2]
        bad = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
        if bad is not None:
            said = f"{bad.get('message') or ''}\n{bad.text or ''}"
            died = "crashed while running" in said or "Timeout (" in said or "Failed: Timeout" in said
            first = next((line for line in said.splitlines() if line.strip()), "")
            if died:
                # The report of a crash names the test only in its text.
                out.died[name] = first
            else:
                out.failed[name] = first
        elif case.find("skipped") is not None:
            out.skipped.add(name)
        else:
            out.passed.add(name)
    for path in seen.iterdir():
        for line in path.read_text().splitlines():
            told = json.loads(line)
            out.files[told["connector"]] += 1
            if told["connector"] != "drystone":
                out.strangers[told["test"]] = told["connector"]
    return out


def judge(found: Results, expected: Expected, *, native: bool, whole: bool) -> list[str]:
    """What is wrong with a run; nothing if it is as expected."""
    wrong = [f"died: {name}: {said}" for name, said in sorted(found.died.items())]
    for name, said in sorted(found.failed.items()):
        if name not in expected.reasons:
            wrong.append(f"failed: {name}: {said}")
    for name in sorted(expected.reasons):
        if name in found.passed and name not in expected.flaky:
            wrong.append(f"passed, but is expected to fail ({expected.reasons[name]}): {name}")
        if whole and name not in found.passed | found.failed.keys() | found.died.keys():
            wrong.append(f"is expected to fail, but did not run: {name}")
    if not native:
        wrong += [f"used the connector {name}: {test}" for test, name in sorted(found.strangers.items())]
        if found.files["drystone"] == 0:
            wrong.append("no file was made through drystone: the connector was not used")
    return wrong


def connector_environment(options: str = "") -> dict[str, str]:
    """This process's environment with the connector."""
    sys.path.insert(0, str(ROOT / "python"))
    from drystone import hdf5

    return dict(os.environ) | hdf5.environment(options)


def main() -> int:
    """Run, judge, say."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--h5py", default="3.16.0", help="which version")
    options.add_argument("--native", action="store_true", help="without the connector: the baseline")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--failures", type=Path, help="write the names of what failed here")
    options.add_argument("files", nargs="*", help="only these test files")
    given = options.parse_args()
    environment = dict(os.environ) if given.native else connector_environment()
    found = run(interpreter(given.h5py), environment, given.files, given.workers)
    path = HERE / f"expected_failures_{'native' if given.native else given.h5py}.txt"
    wrong = judge(found, expectations(path), native=given.native, whole=not given.files)
    if given.failures:
        lines = [f"{name}: {said}\n" for name, said in sorted((found.failed | found.died).items())]
        given.failures.write_text("".join(lines))
    print("\n".join(wrong))
    used = ", ".join(f"{count} by {name}" for name, count in found.files.most_common())
    print(
        f"h5py {given.h5py}: {len(found.passed)} passed, {len(found.failed)} failed, {len(found.died)} died, "
        f"{len(found.skipped)} skipped; files made or opened: {used or 'none'}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
