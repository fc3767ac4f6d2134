"""Checks the claims of a release: versions, oldest versions of dependencies, dated notes, complete wheels.

`python tools/release_check.py` checks the tree. With `--tag v0.1.0` the tree must be that release: the tag is the
version, and its section of CHANGELOG.md has a date. With `--wheels FOLDER` the wheels there must have the version, run
with an old enough C library (manylinux_2_28 or before), and contain the extension, the plug-in for HDF5 and the manual
page. Standard library only.
"""

import argparse
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(r"^## (\d+\.\d+\.\d+), (.+)$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
WHEEL = re.compile(r"drystone-(?P<version>[^-]+)-cp311-abi3-(?P<platforms>[^-]+)\.whl")
OLD_ENOUGH = (2, 28)
CONDA = "packaging/conda/recipe.yaml"
SPACK = "packaging/spack/packages/py_drystone/package.py"
SPACK_EXTRAS = ("files", "xarray")
INSIDE = (
    r"drystone/_core\.abi3\.so",
    r"drystone/_core\.pyi",
    r"drystone/py\.typed",
    r"drystone/hdf5/plugin/libdrystone_hdf5_vol\.so",
    r"drystone-[^/]+\.data/data/share/man/man1/drystone\.1",
    r"drystone-[^/]+\.dist-info/licenses/LICENSE-(MIT|APACHE)",
)


def version_of(root: Path) -> str:
    """The version of the workspace; all others must equal it."""
    version: str = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    return version


def versions(root: Path) -> Iterator[str]:
    """Places with another version."""
    version = version_of(root)
    workspace = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]
    for name, dependency in workspace.get("dependencies", {}).items():
        if isinstance(dependency, dict) and "path" in dependency and dependency.get("version") != version:
            yield f"Cargo.toml: {name} is asked for in version {dependency.get('version')}, the workspace is {version}"
    for manifest in sorted([*root.glob("crates/*/Cargo.toml"), *root.glob("connectors/*/Cargo.toml")]):
        own = tomllib.loads(manifest.read_text())["package"].get("version")
        if own != {"workspace": True} and own != version:
            yield f"{manifest.relative_to(root)}: version {own}, the workspace is {version}"
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    if project.get("version", version) != version:
        yield f"pyproject.toml: version {project['version']}, the workspace is {version}"
    for path, pattern in (
        (CONDA, r'^  version: "([^"]+)"$'),
        (SPACK, r'^    version\("([^"]+)"'),
    ):
        found = re.findall(pattern, (root / path).read_text(), re.MULTILINE)
        if version not in found:
            yield f"{path}: names {', '.join(found) or 'no version'}, the workspace is {version}"


def needs(root: Path) -> Iterator[str]:
    """Dependencies of the conda and Spack recipes whose versions differ from pyproject.toml and Cargo.toml."""
    described = tomllib.loads((root / "pyproject.toml").read_text())
    project = described["project"]
    rust: str = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    least = {"python": project["requires-python"].removeprefix(">="), "rust": rust}
    for one in [*project["dependencies"], *described["build-system"]["requires"]]:
        name, _, version = one.partition(">=")
        least[name] = version.partition(",")[0]
    for extra in SPACK_EXTRAS:
        for one in project["optional-dependencies"][extra]:
            name, _, version = one.partition(">=")
            least[name.partition("[")[0].lower()] = version
    conda = (root / CONDA).read_text()
    for name in ("python", "numpy", "maturin", "rust"):
        found = re.findall(rf"^ *- {name} >=([0-9.]+)", conda, re.MULTILINE)
        if found != [least[name]]:
            yield f"{CONDA}: {name} is asked for as {' and '.join(found) or 'any'}, not from {least[name]} on"
    spack = (root / SPACK).read_text()
    for name, version in least.items():
        package = name if name in ("python", "rust") else f"py-{name}"
        found = re.findall(rf'"{package}@([0-9.]+):', spack)
        if found != [version]:
            yield f"{SPACK}: {package} is asked for as {' and '.join(found) or 'any'}, not from {version} on"


def notes(root: Path, tag: str | None) -> Iterator[str]:
    """Errors in the release notes."""
    version = version_of(root)
    sections = SECTION.findall((root / "CHANGELOG.md").read_text())
    if not sections:
        yield "CHANGELOG.md: no section like `## 0.1.0, 2026-01-31`"
        return
    newest, when = sections[0]
    if newest != version:
        yield f"CHANGELOG.md: begins with {newest}, the workspace is {version}"
    if when != "unreleased" and not DATE.fullmatch(when):
        yield f"CHANGELOG.md: {newest} is of {when!r}, which is neither a date nor `unreleased`"
    for older, date in sections[1:]:
        if not DATE.fullmatch(date):
            yield f"CHANGELOG.md: {older} is of {date!r}, which is no date, though {newest} is above it"
    if tag is not None and tag != f"v{version}":
        yield f"the tag is {tag}, the workspace {version}: a release of it has the tag v{version}"
    if tag is not None and when == "unreleased":
        yield f"CHANGELOG.md: {newest} is unreleased: give it the date of the release"


def wheels(folder: Path, version: str) -> Iterator[str]:
    """Errors in the wheels of a folder."""
    found = sorted(folder.glob("*.whl"))
    if not found:
        yield f"{folder}: no wheel"
    for wheel in found:
        said = WHEEL.fullmatch(wheel.name)
        if said is None:
            yield f"{wheel.name}: not named like a wheel of drystone for CPython 3.11 and later"
            continue
        if said["version"] != version:
            yield f"{wheel.name}: of version {said['version']}, the workspace is {version}"
        tags = [re.match(r"manylinux_(\d+)_(\d+)_", tag) for tag in said["platforms"].split(".")]
        known = [(int(tag[1]), int(tag[2])) for tag in tags if tag is not None]
        if not any(tag <= OLD_ENOUGH for tag in known):
            yield f"{wheel.name}: needs a C library newer than {OLD_ENOUGH[0]}.{OLD_ENOUGH[1]} (manylinux_2_28)"
        names = zipfile.ZipFile(wheel).namelist()
        for pattern in INSIDE:
            if not any(re.fullmatch(pattern, name) for name in names):
                yield f"{wheel.name}: nothing in it is like {pattern}"


def main() -> int:
    """Print the faults; 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tag", help="the tree is to be this release")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels to look into")
    asked = parser.parse_args()
    faults = [*versions(ROOT), *needs(ROOT), *notes(ROOT, asked.tag)]
    if asked.wheels is not None:
        faults += wheels(asked.wheels, version_of(ROOT))
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"{version_of(ROOT)}: versions and release notes agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
