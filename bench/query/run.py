"""Do queries by value read less than a scan, and never cost more?

The bars: 10 times a scan at one hit in 1e5 and in 1e3, for counts and for coordinates; never more than 1.1 times a scan, at any
selectivity; writing with an index at 0.8 of the speed without; data and index together at 1.35 of the raw bytes.

A scan is: read the whole array into memory that was touched before, compare with NumPy, count or list the hits. Queries are the same question
asked of the same values, raw with zone statistics and with `transform="alacrity:bits=13"`, which keeps values by bins. Everything is in the
system's cache, unless `--cold`. Every count is compared. `python bench/query/run.py [--cells N] [--quick] [--peers]` writes
docs/benchmarks/query.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import drystone as dry
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SELECTIVITIES = (1e-5, 1e-3, 1e-1, 0.5, 1.0)
PAGE = Path(__file__).parent.parent.parent / "docs" / "benchmarks" / "query.md"
BINS = {"transform": "alacrity:bits=13"}


def turbulence(edge: int) -> Array:
    """A field with a spectrum of -5/3, edge^3 cells."""
    random = np.random.default_rng(3)
    k = np.fft.fftfreq(edge)[:, None, None] ** 2 + np.fft.fftfreq(edge)[None, :, None] ** 2
    k = k + np.fft.rfftfreq(edge)[None, None, :] ** 2
    k[0, 0, 0] = 1
    noise = random.normal(size=k.shape) + 1j * random.normal(size=k.shape)
    field = np.fft.irfftn(noise * k ** (-11 / 12), s=(edge,) * 3)
    return (field / field.std()).astype("f4")


def data(cells: int) -> dict[str, Array]:
    """VPIC-like energies of particles, a turbulent field, and the same values in any order."""
    random = np.random.default_rng(7)
    # Energies of a plasma: a Maxwellian, with a hot tail in some regions of the domain.
    energy = random.gamma(1.5, 1.0, cells)
    hot = random.random(cells) < 0.002
    energy[hot] *= 1 + random.exponential(3, hot.sum())
    field = turbulence(round(cells ** (1 / 3)))
    shuffled = field.ravel().copy()
    random.shuffle(shuffled)
    return {"particles": energy.astype("f4"), "turbulence": field, "shuffled": shuffled}


def chunks(array: Array) -> tuple[int, ...]:
    """Subchunks of 256 Ki cells."""
    return (1 << 18,) if array.ndim == 1 else (64,) * 3


def timed(act: Callable[[], Any], rounds: int, before: Callable[[], None]) -> tuple[float, Any]:
    """The median time, and what came out."""
    times, out = [], None
    for _ in range(rounds):
        before()
        begun = perf_counter()
        out = act()
        times.append(perf_counter() - begun)
    return median(times), out


def evict(folder: Path) -> None:
    """Drops the files of a folder from the system's cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write(path: Path, array: Array, options: dict[str, Any]) -> float:
    """Seconds of a put and its commit."""
    with dry.create(path) as c:
        c.create_variable("v", "f4", array.shape, chunks=chunks(array), **options)
        begun = perf_counter()
        with c.writer(rank=0, nranks=1) as w:
            w.put("v", array)
        c.commit()
        return perf_counter() - begun


def stored(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def thresholds(array: Array) -> Iterator[tuple[str, float, str, Callable[[Array], Array]]]:
    """Text, selectivity and NumPy's form of each question: the largest values, and a range around the median."""
    ordered = np.sort(array, axis=None)
    for share in SELECTIVITIES:
        low = float(ordered[min(len(ordered) - 1, int(len(ordered) * (1 - share)))])
        yield "above", share, f"v >= f4({low!r})" if False else f"v >= {low!r}", lambda a, low=low: a >= np.float32(low)
    for share in (1e-5, 1e-3, 1e-1):
        middle, half = len(ordered) // 2, max(1, int(len(ordered) * share / 2))
        low, high = float(ordered[middle - half]), float(ordered[middle + half])
        yield (
            "within",
            share,
            f"v >= {low!r} & v <= {high!r}",
            lambda a, low=low, high=high: (a >= np.float32(low)) & (a <= np.float32(high)),
        )


def ask(folder: Path, name: str, array: Array, rounds: int, cold: bool) -> list[dict[str, Any]]:
    paths = {"zones": folder / f"{name}-zones.dry", "bins": folder / f"{name}-bins.dry"}
    writing = {"zones": write(paths["zones"], array, {}), "bins": write(paths["bins"], array, BINS)}
    print(name, "write", {k: f"{array.nbytes / t / 1e6:.0f} MB/s" for k, t in writing.items()}, end=" ")
    print({k: round(stored(p) / array.nbytes, 3) for k, p in paths.items()})
    rows = []
    opened = {kind: dry.open(path) for kind, path in paths.items()}
    buffer = np.zeros_like(array)
    before = (lambda: evict(folder)) if cold else (lambda: None)
    for form, share, text, numpy_form in thresholds(array):
        raw = opened["zones"]["v"]

        def scan_count(raw: Any = raw, f: Any = numpy_form) -> int:
            return int(np.count_nonzero(f(raw.read(out=buffer))))

        def scan_coords(raw: Any = raw, f: Any = numpy_form) -> Array:
            return np.argwhere(f(raw.read(out=buffer)))

        row: dict[str, Any] = {"data": name, "form": form, "share": share}
        row["scan count"], wanted = timed(scan_count, rounds, before)
        row["scan coords"], places = timed(scan_coords, max(1, rounds // 2), before)
        for kind, c in opened.items():
            row[f"{kind} count"], count = timed(lambda c=c: c.query(text).count(), rounds, before)
            assert count == wanted, (text, kind, count, wanted)
            q = c.query(text)
            row[f"{kind} coords"], found = timed(q.coords, max(1, rounds // 2), before)
            assert np.array_equal(found, places), (text, kind)
            row[f"{kind} bytes"] = q.report.bytes / array.nbytes
        rows.append(row)
        ratios = {
            f"{kind} {what}": round(row[f"scan {what}"] / row[f"{kind} {what}"], 2)
            for kind in opened
            for what in ("count", "coords")
        }
        print(f"  {form} {share:g}: scan {row['scan count'] * 1e3:.1f} ms", ratios, f"{row['zones bytes']:.3f} {row['bins bytes']:.3f}")
    for c in opened.values():
        c.close()
    for path in paths.values():
        shutil.rmtree(path)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=1 << 24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    cells, rounds = (1 << 18, 1) if args.quick else (args.cells, args.rounds)
    folder = Path(tempfile.mkdtemp(dir=args.folder))
    try:
        for name, array in data(cells).items():
            ask(folder, name, array, rounds, args.cold)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
