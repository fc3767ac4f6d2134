"""Prints the oldest versions that pyproject.toml allows, as requirements for pip.

`python tools/oldest.py bfloat16 files xarray` prints those of the package and of the named extras. Standard library
only.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(?P<extras>\[[^]]*\])?\s*>=\s*(?P<version>[0-9.]+)")


def oldest(requirement: str) -> str:
    """`numpy>=2.0` as `numpy==2.0.*`: the first minor version, with its patches."""
    found = LEAST.fullmatch(requirement.split(",")[0].strip())
    if found is None:
        raise ValueError(f"{requirement!r} names no oldest version: write it as name>=version")
    exact = found["version"] if found["version"].count(".") > 1 else f"{found['version']}.*"
    return f"{found['name']}{found['extras'] or ''}=={exact}"


def requirements(project: dict[str, object], extras: list[str]) -> list[str]:
    """The requirements of a project and of some of its extras."""
    wanted: list[str] = list(project["dependencies"])  # type: ignore[call-overload]
    optional: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    for extra in extras:
        if extra not in optional:
            raise ValueError(f"pyproject.toml has no extra {extra!r}; it has: {', '.join(optional)}")
        wanted += optional[extra]
    return [oldest(one) for one in wanted]


if __name__ == "__main__":
    print(
        "\n".join(requirements(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"], sys.argv[1:]))
    )
