"""Real data: imports a climatology of the ocean, lists, reads and draws it, and exports it unchanged.

The file is the COADS climatology, twelve months of the sea's surface, from Debian's package `ferret-datasets`. If it
is missing, the relief of the earth that comes with matplotlib is used instead, written as netCDF by this program.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import drystone as dry
import numpy as np

SOURCE = Path("/usr/share/ferret-vis/data/coads_climatology.cdf")
PACKAGE = "ferret-datasets"


class Failure(Exception):
    """A stage failed."""


def main() -> int:
    """Run the stages; 0 only if every value is preserved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/ocean"), help="where everything is put")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the netCDF file")
    parser.add_argument("--relief", action="store_true", help="the floor of the ocean instead")
    given = parser.parse_args()
    try:
        there = not given.relief and find(given.source)
        if given.folder.exists():
            shutil.rmtree(given.folder)
        given.folder.mkdir(parents=True)
        if there:
            tell(given.source, given.folder, surface)
        else:
            tell(relief(given.folder / "relief.nc"), given.folder, floor)
    except (Failure, dry.DrystoneError, OSError) as failure:
        print(f"ocean: {failure}", file=sys.stderr)
        return 1
    return 0


def find(source: Path) -> bool:
    """Whether the climatology exists; False: the relief is used instead."""
    missing = f"{source} is missing; on Debian and Ubuntu: apt-get install {PACKAGE}"
    if not source.exists() and source != SOURCE:
        raise Failure(missing)
    if not source.exists():
        print(f"{missing}\nThe floor of the ocean takes its place:")
    return source.exists()


def relief(path: Path) -> Path:
    """The heights of land and sea floor that come with matplotlib, as a netCDF file."""
    import matplotlib.cbook as matplotlib
    import netCDF4

    sample: Any = matplotlib.get_sample_data("topobathy.npz")
    with sample as found, netCDF4.Dataset(path, "w") as file:
        for name, unit in (("latitude", "degrees_north"), ("longitude", "degrees_east")):
            file.createDimension(name, found[name].size)
            file.createVariable(name, "f4", (name,))[:] = found[name]
            file[name].units = unit
        file.createVariable("topo", "f4", ("latitude", "longitude"), zlib=True)[:] = found["topo"]
        file["topo"].units = "m"
    return path


@contextmanager
def stage(what: str) -> Iterator[None]:
    """Print a stage's title, and its duration."""
    print(f"{what} ... ", end="", flush=True)
    began = time.perf_counter()
    yield
    print(f"{time.perf_counter() - began:.2f} s", flush=True)


def drystone(*arguments: object) -> str:
    """Run the command; returns its output."""
    words = [sys.executable, "-m", "drystone", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(done.stderr.strip())
    return done.stdout


def surface(ocean: Path, folder: Path) -> None:
    """Print facts about the climatology, and draw three pictures."""
    with dry.open(ocean) as c:
        warm = np.ma.masked_less(c["SST"][:, 45, 90], -1e30)
    print(f"The sea at 1 N 179 W: {warm.min():.1f} to {warm.max():.1f} degrees over the year")
    with stage("Draw January's temperatures, a year at one place, and the layout"):
        drystone("plot", ocean, "SST", "[0]", "-o", folder / "january.png", "--colours", "inferno")
        drystone("plot", ocean, "SST", "[:, 45, 90]", "-o", folder / "year.png")
        drystone("plot", ocean, "SST", "--layout", "-o", folder / "layout.png")


def floor(ocean: Path, folder: Path) -> None:
    """Print facts about the relief, and draw three pictures."""
    with dry.open(ocean) as c:
        heights = c["topo"][...]
    print(
        f"From {heights.min():.0f} m to {heights.max():.0f} m; {(heights < 0).mean():.0%} of the grid is sea"
    )
    with stage("Draw the relief, a circle of latitude, and the layout"):
        drystone("plot", ocean, "topo", "-o", folder / "relief.png", "--colours", "terrain")
        drystone("plot", ocean, "topo", "[45, :]", "-o", folder / "circle.png")
        drystone("plot", ocean, "topo", "--layout", "-o", folder / "layout.png")


def tell(source: Path, folder: Path, show: Callable[[Path, Path], None]) -> None:
    """Import, list, read, draw, export, compare."""
    import netCDF4

    ocean, back = folder / "ocean.dry", folder / "back.nc"
    with stage(f"Import {source.name}, {source.stat().st_size / 1e3:.0f} kB"):
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
        stored, decoded = (
            sum(getattr(u, what) for u in c.usage().values()) for what in ("stored", "decoded")
        )
    print(f"{decoded / 1e3:.0f} kB take {stored / 1e3:.0f} kB")
    show(ocean, folder)
    with stage("Export to netCDF, import that, and compare the two containers"):
        drystone("export", ocean, back)
        drystone("import", back, folder / "again.dry")
        said = drystone("diff", ocean, folder / "again.dry").strip()
    print(f"drystone diff says: {said}")
    print(f"Everything lies in {folder}; drystone view {ocean} shows it")


if __name__ == "__main__":
    sys.exit(main())
