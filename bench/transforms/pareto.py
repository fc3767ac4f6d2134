"""`auto` beside the frontier of the lossless compressors that people use: on or above it, or not.

Ratio, encoding and decoding speed of whole arrays, written to and read from files in memory (`/dev/shm`), with 1 and 2
threads (`--clock cpu` counts the processor's time, which is what can be compared on a busy machine; it says nothing of
several threads): Drystone's chains and `auto` beside blosc2 (shuffle, bitshuffle, bytedelta; zstd and lz4), zarr, h5py
with hdf5plugin, and pcodec. Each peer through its own arrays, files and chunking of about 2 MiB. Every value read is
compared.

    python -m venv .bench && .bench/bin/pip install -r bench/transforms/requirements.txt
    PYTHONPATH=python .bench/bin/python bench/transforms/pareto.py --out build/pareto.json

The bar: on or above every peer's frontier. The points of ours that count are those of `auto`, with each of its goals:
of the chains that are given by hand none does. A peer's point lies *above* `auto` if no point of `auto` has both its
ratio and its speed, the same number of threads on both sides (1 % of ratio and 5 % of speed are noise); *beyond* it, if
no mix of two points of `auto` has either: bytes and time add up over blocks, so blocks of two settings in turn are a
setting between them. What saves less than 1 % is no compression and does not count.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import blosc2
import drystone as dry
import fields as simulated
import h5py
import hdf5plugin
import numpy as np
import numpy.typing as npt
import pcodec.standalone as pco
import zarr
from pcodec import ChunkConfig
from zarr.codecs import BloscCodec, BloscShuffle

Array = npt.NDArray[Any]
AUTO = (
    "auto",
    "auto:size",
    "auto:speed",
    *(f"auto:bandwidth={n}" for n in (10, 25, 60, 100, 150, 300, 600)),
    *(f"auto:read,bandwidth={n}" for n in (50, 200, 800, 3000)),
)
CHAINS = (
    "identity",
    "blosc:lz4:5:shuffle",
    "shuffle,zstd:-5",
    "shuffle,zstd:1",
    "lorenzo,shuffle,zstd:1",
    "pcodec:8",
)


@dataclass
class Point:
    """One compressor on one field."""

    field: str
    name: str
    ours: bool
    threads: int
    ratio: float
    encode: float
    decode: float
    note: str = ""


Act = tuple[Callable[[], Any], Callable[[], Array], Callable[[], int]]


def chunk_of(array: Array) -> tuple[int, ...]:
    """Near-cubic chunks of about 2 MiB."""
    edges = list(array.shape)
    while np.prod(edges) * array.itemsize > 2 << 20:
        edges[int(np.argmax(edges))] //= 2
    return tuple(edges)


def drystone(transform: str, array: Array, folder: Path, threads: int) -> Act:
    """Drystone with a transform."""
    path = folder / "a.dry"
    (folder / "drystone.toml").write_text(f"threads = {threads}\n")

    def write() -> str:
        shutil.rmtree(path, ignore_errors=True)
        with dry.create(path, durability="memory") as c:
            c.create_variable("x", array.dtype, array.shape, transform=transform, chunks=chunk_of(array))
            with c.writer() as w:
                w.put("x", array)
                return ", ".join(choice.transform for choice in w.choices().values())

    def size() -> int:
        with dry.open(path) as c:
            return sum(block.nbytes for block in c["x"].blocks())

    def read() -> Array:
        with dry.open(path) as c:
            return c["x"][:]

    return write, read, size


def blosc(codec: str, filters: list[Any], level: int, array: Array, folder: Path, threads: int) -> Act:
    """A b2nd file of python-blosc2."""
    path = str(folder / "a.b2nd")
    cparams = {
        "codec": getattr(blosc2.Codec, codec),
        "clevel": level,
        "nthreads": threads,
        "typesize": array.itemsize,
    }
    cparams |= {"filters": filters, "filters_meta": [0] * len(filters)}

    def write() -> None:
        blosc2.asarray(array, urlpath=path, mode="w", cparams=cparams, chunks=chunk_of(array))

    def read() -> Array:
        return blosc2.open(path, dparams={"nthreads": threads})[:]

    return write, read, lambda: Path(path).stat().st_size


def zarr_blosc(cname: str, level: int, array: Array, folder: Path, threads: int) -> Act:
    """A Zarr v3 array in a folder, with its Blosc codec."""
    path = folder / "a.zarr"
    zarr.config.set({"threading.max_workers": threads, "async.concurrency": threads})
    codec = BloscCodec(cname=cname, clevel=level, shuffle=BloscShuffle.shuffle)

    def write() -> None:
        made = zarr.create_array(
            path,
            shape=array.shape,
            dtype=array.dtype,
            chunks=chunk_of(array),
            compressors=[codec],
            overwrite=True,
        )
        made[...] = array

    def size() -> int:
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())

    return write, lambda: zarr.open_array(path, mode="r")[...], size


def hdf5(options: Any, array: Array, folder: Path, threads: int) -> Act:
    """An HDF5 dataset, with filters of HDF5 or hdf5plugin."""
    path = folder / "a.h5"

    def write() -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=array, chunks=chunk_of(array), **options)

    def read() -> Array:
        with h5py.File(path) as file:
            return file["x"][...]

    return write, read, lambda: path.stat().st_size


def pcodec(level: int, array: Array, folder: Path, threads: int) -> Act:
    """One standalone pcodec file."""
    path = folder / "a.pco"
    config = ChunkConfig(compression_level=level)

    def write() -> None:
        path.write_bytes(pco.simple_compress(array.ravel(), config))

    def read() -> Array:
        out = np.empty(array.size, array.dtype)
        pco.simple_decompress_into(path.read_bytes(), out)
        return out.reshape(array.shape)

    return write, read, lambda: path.stat().st_size


def contenders(threads: int) -> dict[str, tuple[bool, Callable[..., Act]]]:
    """Name to (ours, how it writes and reads)."""
    from functools import partial

    shuffles = {
        "shuffle": [blosc2.Filter.SHUFFLE],
        "bitshuffle": [blosc2.Filter.BITSHUFFLE],
        "bytedelta": [blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA],
    }
    out: dict[str, tuple[bool, Callable[..., Act]]] = {}
    for text in (*AUTO, *CHAINS):
        out[text] = (True, partial(drystone, text))
    for name, filters in shuffles.items():
        for codec, level in ("LZ4", 5), ("ZSTD", 1), ("ZSTD", 5):
            out[f"blosc2 {name} {codec.lower()}:{level}"] = (False, partial(blosc, codec, filters, level))
    out["zarr blosc lz4:5"] = (False, partial(zarr_blosc, "lz4", 5))
    out["zarr blosc zstd:3"] = (False, partial(zarr_blosc, "zstd", 3))
    if threads == 1:
        out["h5py gzip:4 shuffle"] = (
            False,
            partial(hdf5, {"compression": "gzip", "compression_opts": 4, "shuffle": True}),
        )
        out["hdf5plugin blosc zstd:5"] = (False, partial(hdf5, dict(hdf5plugin.Blosc("zstd", 5))))
        out["hdf5plugin bitshuffle lz4"] = (False, partial(hdf5, dict(hdf5plugin.Bitshuffle())))
        out["hdf5plugin zstd shuffle"] = (False, partial(hdf5, dict(hdf5plugin.Zstd()) | {"shuffle": True}))
        for level in (4, 8):
            out[f"pcodec:{level} "] = (False, partial(pcodec, level))
    return out


def measured(
    act: Act,
    array: Array,
    limits: tuple[int, float],
    clock: Callable[[], float],
    seen: dict[str, tuple[float, float, float]],
) -> None:
    """Least seconds of writing and reading, and stored bytes, by the note of the write; every value is compared.

    There are at least two rounds, and more, up to the first limit, until the seconds of the second are used up. A
    writer that chooses otherwise the next time has two points: the ratio of one choice goes with its own speed.
    """
    write, read, size = act
    start = time.perf_counter()
    for turn in range(limits[0]):
        if turn >= 2 and time.perf_counter() - start > limits[1]:
            break
        begin = clock()
        note = write() or ""
        encode = clock() - begin
        begin = clock()
        found = read()
        decode = clock() - begin
        if not np.array_equal(found.view("u1"), array.view("u1")):
            raise SystemExit(f"wrong values: {note}")
        before = seen.get(note, (float("inf"), float("inf"), 0))
        seen[note] = (min(before[0], encode), min(before[1], decode), size())


def above(points: list[Point], speed: str) -> list[Point]:
    """Peers' points that no `auto` point matches in both ratio and speed."""
    ours = [p for p in points if p.name in AUTO]
    worth = [p for p in points if not p.ours and p.ratio > 1.01]
    return [
        peer
        for peer in worth
        if not any(
            p.ratio >= 0.99 * peer.ratio and getattr(p, speed) >= 0.95 * getattr(peer, speed) for p in ours
        )
    ]


def beyond(points: list[Point], speed: str) -> list[Point]:
    """Peers' points that no mix of two points of `auto` matches, in bytes and in time for a byte of data."""

    def cost(point: Point) -> tuple[float, float]:
        return 1 / point.ratio, 1 / getattr(point, speed)

    ours = [cost(p) for p in points if p.name in AUTO]

    def matched(size: float, seconds: float) -> bool:
        for (a, s), (b, t) in itertools.product(ours, ours):
            # The part of the first that just keeps the size; with less of the smaller one it grows.
            part = 1.0 if a <= size else (size - b) / (a - b) if b <= size else -1.0
            if part >= 0 and part * s + (1 - part) * t <= seconds:
                return True
        return False

    worth = [p for p in points if not p.ours and p.ratio > 1.01]
    return [p for p in worth if not matched(cost(p)[0] * 1.01, cost(p)[1] * 1.05)]


def told(points: list[Point]) -> None:
    """Tables: the smallest of either side, points above and beyond, and the same methods on both sides."""
    groups: dict[tuple[str, int], list[Point]] = {}
    for point in points:
        groups.setdefault((point.field, point.threads), []).append(point)
    print(
        "| field | threads | smallest peer | ratio, encode, decode | smallest `auto` | ratio, encode, decode |"
    )
    print("|---|---|---|---|---|---|")
    for (field, threads), here in groups.items():
        cells = []
        for some in ([p for p in here if not p.ours], [p for p in here if p.name in AUTO]):
            p = max(some, key=lambda p: p.ratio)
            chain = f" ({p.note})" if p.note else ""
            cells.append(f"{p.name.strip()}{chain} | {p.ratio:.3f}, {p.encode:.0f}, {p.decode:.0f}")
        print(f"| {field} | {threads} | {' | '.join(cells)} |")
    print(
        "\nPoints of peers, and the number of them above `auto` and beyond it, with the names of these peers:\n"
    )
    print("| field | threads | points | encode: above | beyond | decode: above | beyond |")
    print("|---|---|---|---|---|---|---|")
    for (field, threads), here in groups.items():
        cells = []
        for speed in ("encode", "decode"):
            far = beyond(here, speed)
            names = f": {', '.join(p.name.strip() for p in far)}" if far else ""
            cells.append(f"{len(above(here, speed))} | {len(far)}{names}")
        total = sum(1 for p in here if not p.ours and p.ratio > 1.01)
        print(f"| {field} | {threads} | {total} | {' | '.join(cells)} |")
    counted = [
        (len([p for p in here if not p.ours and p.ratio > 1.01]), above(here, speed), beyond(here, speed))
        for here in groups.values()
        for speed in ("encode", "decode")
    ]
    for speed, some in ("encoding", counted[::2]), ("decoding", counted[1::2]):
        total, higher, farther = (
            sum(n) for n in zip(*((n, len(a), len(b)) for n, a, b in some), strict=True)
        )
        print(
            f"\n{speed.capitalize()}: of the peers' {total} points, {higher} are above `auto` and {farther} beyond it."
        )
    print("\nGeometric means over fields, with the fewest threads:\n")
    print("| | ratio | encode MB/s | decode MB/s |")
    print("|---|---|---|---|")
    fewest = min(threads for _, threads in groups)
    for name in dict.fromkeys(p.name for p in points if p.threads == fewest):
        mine = [p for p in points if p.name == name and p.threads == fewest]
        means = [
            statistics.geometric_mean(getattr(p, what) for p in mine)
            for what in ("ratio", "encode", "decode")
        ]
        shown = f"**{name}**" if mine[0].ours else name.strip()
        print(f"| {shown} | {means[0]:.3f} | {means[1]:.0f} | {means[2]:.0f} |")


def main() -> None:
    """Measure what the command line asks for."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    options.add_argument("--n", type=int, default=160, help="cells per axis (default %(default)s)")
    options.add_argument("--steps", type=int, default=300, help="time steps of Gray-Scott")
    options.add_argument("--rounds", type=int, default=8, help="of each point in each of two passes, at most")
    options.add_argument(
        "--seconds", type=float, default=0.3, help="of each point in a pass, after two rounds"
    )
    options.add_argument("--only", nargs="*", help="fields")
    options.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    options.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    options.add_argument("--folder", type=Path, default=Path("/dev/shm/drystone-pareto"))
    options.add_argument("--out", type=Path)
    arguments = options.parse_args()
    clock = time.process_time if arguments.clock == "cpu" else time.perf_counter
    arguments.folder.mkdir(parents=True, exist_ok=True)
    limits = (arguments.rounds, arguments.seconds)
    points: list[Point] = []
    try:
        for name, array in simulated.fields(arguments.n, arguments.steps).items():
            if arguments.only and name not in arguments.only:
                continue
            array = np.ascontiguousarray(array)
            for threads in arguments.threads:
                print(f"\n{name}, {array.nbytes / 1e6:.1f} MB, {threads} thread(s)", file=sys.stderr)
                seen: dict[str, dict[str, tuple[float, float, float]]] = {}
                # Twice all of them: whatever else the machine does hits one after the other.
                for _ in range(2):
                    for label, (_, make) in contenders(threads).items():
                        act = make(array, arguments.folder, threads)
                        measured(act, array, limits, clock, seen.setdefault(label, {}))
                for label, (ours, _) in contenders(threads).items():
                    for note, (encode, decode, size) in seen[label].items():
                        ratio, megabytes = array.nbytes / size, array.nbytes / 1e6
                        point = Point(
                            name, label, ours, threads, ratio, megabytes / encode, megabytes / decode, note
                        )
                        line = f"  {label:34} {ratio:7.3f} {point.encode:8.0f} {point.decode:8.0f}  {note}"
                        print(line, file=sys.stderr, flush=True)
                        points.append(point)
    finally:
        shutil.rmtree(arguments.folder, ignore_errors=True)
    told(points)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps([asdict(p) for p in points], indent=1))


if __name__ == "__main__":
    main()
