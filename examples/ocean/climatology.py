"""Real data: a climatology of the ocean goes into a container, is listed, read, drawn, and comes out as it was.

The file is the COADS climatology, twelve months of the sea's surface, of Debian's package `ferret-datasets`. As root it is
installed with apt-get if it is missing; otherwise this says what to install.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import drystone as dry
import numpy as np

SOURCE = Path("/usr/share/ferret-vis/data/coads_climatology.cdf")
PACKAGE = "ferret-datasets"


class Failure(Exception):
    """A stage did not do what it should."""


def main() -> int:
    """Run the stages; 0 only if every value comes through."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/ocean"), help="where everything is put")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the netCDF file")
    given = parser.parse_args()
    try:
        find(given.source)
        if given.folder.exists():
            shutil.rmtree(given.folder)
        given.folder.mkdir(parents=True)
        tell(given.source, given.folder)
    except (Failure, dry.DrystoneError, OSError) as failure:
        print(f"ocean: {failure}", file=sys.stderr)
        return 1
    return 0


def find(source: Path) -> None:
    """Install the file if it is missing and that is possible."""
    if source.exists():
        return
    if source == SOURCE and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing {PACKAGE} with apt-get ...", flush=True)
        for command in (["update"], ["install", "-y", "--no-install-recommends", PACKAGE]):
            subprocess.run(["apt-get", "-qq", *command], check=False, stdout=subprocess.DEVNULL)
    if not source.exists():
        raise Failure(f"{source} is missing; on Debian and Ubuntu: apt-get install {PACKAGE}")


@contextmanager
def stage(what: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    print(f"{what} ... ", end="", flush=True)
    began = time.perf_counter()
    yield
    print(f"{time.perf_counter() - began:.2f} s", flush=True)


def drystone(*arguments: object) -> str:
    """Run the command; what it printed."""
    words = [sys.executable, "-m", "drystone", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(done.stderr.strip())
    return done.stdout


def tell(source: Path, folder: Path) -> None:
    """Import, list, read, draw, export, compare."""
    import netCDF4

    ocean, back = folder / "ocean.dry", folder / "back.nc"
    with stage(f"Import {source.name}, {source.stat().st_size / 1e6:.1f} MB"):
        drystone("import", source, ocean, "--transform", "shuffle,zstd:1")
    print(drystone("ls", ocean, "-l"))
    with (
        stage("Read every value, and compare with netCDF4"),
        netCDF4.Dataset(source) as file,
        dry.open(ocean) as c,
    ):
        file.set_auto_maskandscale(False)
        for name, variable in file.variables.items():
            if not np.array_equal(c[name][...], variable[...]) or c[name].dims != variable.dimensions:
                raise Failure(f"{name} is not what it was")
    with dry.open(ocean) as c:
        warm = np.ma.masked_less(c["SST"][:, 45, 90], -1e30)
        stored, decoded = (
            sum(getattr(u, what) for u in c.usage().values()) for what in ("stored", "decoded")
        )
    print(f"The sea at 1 N 179 W: {warm.min():.1f} to {warm.max():.1f} degrees over the year")
    print(f"{decoded / 1e6:.1f} MB take {stored / 1e6:.1f} MB: {decoded / stored:.1f} times smaller")
    with stage("Draw January's temperatures, a year at one place, and the layout"):
        drystone("plot", ocean, "SST", "[0]", "-o", folder / "january.png", "--colours", "inferno")
        drystone("plot", ocean, "SST", "[:, 45, 90]", "-o", folder / "year.png")
        drystone("plot", ocean, "SST", "--layout", "-o", folder / "layout.png")
    with stage("Export to netCDF, import that, and compare the two containers"):
        drystone("export", ocean, back)
        drystone("import", back, folder / "again.dry")
        said = drystone("diff", ocean, folder / "again.dry").strip()
    print(f"drystone diff says: {said}")
    print(f"Everything lies in {folder}; drystone view {ocean} shows it")


if __name__ == "__main__":
    sys.exit(main())
