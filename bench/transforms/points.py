"""Points and small boxes of compressed data, beside blosc2 (b2nd) and TileDB.

The bar: at least level with each. The same values, the same compressor where there is one (Blosc with shuffle and lz4,
or zstd:1), chunks of about 2 MiB cut into blocks of 32 KiB by those that have blocks; ours as they are by default, and
of the size of the others' blocks, 16^3. Points are given all at once to those that take lists, one by one to those that
do not; files are in the system's cache. Every value read is compared.

    .venv/bin/python bench/transforms/points.py --edge 160 --rounds 5
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import drystone as dry
import numpy as np
import numpy.typing as npt
from field import field

Array = npt.NDArray[Any]
Read = Callable[[Array], Array]
BOX = 8


def drystone(transform: str, values: Array, folder: Path, edge: int | None = None) -> tuple[Read, Read]:
    """Points by one plan, boxes one by one."""
    path = folder / "c.dry"
    chunks = None if edge is None else (min(edge, values.shape[0]),) * 3
    with dry.create(path) as c:
        c.create_variable("t", values.dtype, values.shape, transform=transform, chunks=chunks)
        with c.writer() as w:
            w.put("t", values)
    variable = dry.open(path)["t"]

    def boxes(corners: Array) -> Array:
        return np.stack([variable[z : z + BOX, y : y + BOX, x : x + BOX] for z, y, x in corners.tolist()])

    return variable.read_points, boxes


def one_by_one(array: Any) -> tuple[Read, Read]:
    """An array that is only sliced."""

    def points(coords: Array) -> Array:
        return np.array(
            [np.asarray(array[z : z + 1, y : y + 1, x : x + 1]).ravel()[0] for z, y, x in coords.tolist()]
        )

    def boxes(corners: Array) -> Array:
        return np.stack(
            [np.asarray(array[z : z + BOX, y : y + BOX, x : x + BOX]) for z, y, x in corners.tolist()]
        )

    return points, boxes


def b2nd(codec: str, values: Array, folder: Path) -> tuple[Read, Read]:
    """A b2nd file of python-blosc2."""
    blosc2 = importlib.import_module("blosc2")
    path = str(folder / f"{codec}.b2nd")
    level = 1 if codec == "ZSTD" else 5
    cparams = {"codec": getattr(blosc2.Codec, codec), "clevel": level, "typesize": values.itemsize}
    edge = min(64, values.shape[0])
    blosc2.asarray(values, urlpath=path, mode="w", cparams=cparams, chunks=(edge,) * 3, blocks=(16,) * 3)
    return one_by_one(blosc2.open(path, mode="r"))


def tiledb(values: Array, folder: Path) -> tuple[Read, Read]:
    """A dense array of TileDB; points by its multi-index, whose product is then picked."""
    db = importlib.import_module("tiledb")
    path = str(folder / "t.tdb")
    tile = min(16, values.shape[0])
    axes = [
        db.Dim(name=n, domain=(0, e - 1), tile=tile, dtype="u4")
        for n, e in zip("zyx", values.shape, strict=True)
    ]
    filters = db.FilterList([db.ByteShuffleFilter(), db.ZstdFilter(level=1)])
    schema = db.ArraySchema(domain=db.Domain(*axes), attrs=[db.Attr(dtype=values.dtype, filters=filters)])
    db.Array.create(path, schema)
    with db.open(path, "w") as out:
        out[:] = values
    return one_by_one(db.open(path, "r"))


CONTENDERS: dict[str, Callable[[Array, Path], tuple[Read, Read]]] = {
    "drystone blosc lz4": lambda v, f: drystone("blosc:lz4:5:shuffle,blocksize=32768", v, f),
    "drystone blosc zstd:1": lambda v, f: drystone("blosc:zstd:1:shuffle,blocksize=32768", v, f),
    "drystone shuffle,zstd:1": lambda v, f: drystone("shuffle,zstd:1", v, f),
    "drystone shuffle,zstd:1, chunks of 16^3": lambda v, f: drystone("shuffle,zstd:1", v, f, 16),
    "drystone isobar": lambda v, f: drystone("isobar", v, f),
    "blosc2 b2nd lz4": lambda v, f: b2nd("LZ4", v, f),
    "blosc2 b2nd zstd:1": lambda v, f: b2nd("ZSTD", v, f),
    "tiledb shuffle, zstd:1": tiledb,
}


def main() -> None:
    """One line per contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edge", type=int, default=160)
    parser.add_argument("--count", type=int, default=400, help="points, and a tenth as many boxes")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    values = field(arguments.edge)
    rng = np.random.default_rng(3)
    points = rng.integers(0, arguments.edge, (arguments.count, 3))
    corners = rng.integers(0, arguments.edge - BOX, (max(1, arguments.count // 10), 3))
    found = values[tuple(points.T)]
    boxes = np.stack([values[z : z + BOX, y : y + BOX, x : x + BOX] for z, y, x in corners.tolist()])
    print(f"{arguments.edge}^3 doubles, {len(points)} points, {len(corners)} boxes of {BOX}^3\n")
    print("| | microseconds a point | microseconds a box |")
    print("|---|---|---|")
    for name, make in CONTENDERS.items():
        folder = Path(tempfile.mkdtemp(prefix="drystone-bench-"))
        try:
            try:
                ways = make(values, folder)
            except ModuleNotFoundError as missing:
                print(f"| {name} | not measured: {missing} | |")
                continue
            taken = []
            for read, asked, expected in zip(ways, (points, corners), (found, boxes), strict=True):
                times = []
                for _ in range(arguments.rounds):
                    begin = time.perf_counter()
                    got = read(asked)
                    times.append(time.perf_counter() - begin)
                    if not np.array_equal(got, expected):
                        raise SystemExit(f"{name} reads other values than were written")
                taken.append(median(times) / len(asked) * 1e6)
            print(f"| {name} | {taken[0]:.1f} | {taken[1]:.1f} |", flush=True)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
