"""Do queries by value read less than a scan, and never cost more? Particles, a turbulent field, shuffled values.

The bars: 10 times a scan at one hit in 1e5 and in 1e3, for counts and for coordinates; never more than 1.1 times a scan, at any
selectivity; writing with an index at 0.8 of the speed without; data and index together at 1.35 of the raw bytes; a range of a sorted key
with three other members at a 20th of a scan's bytes at one hit in 1e4; indexing afterwards at half the speed of a scan.

A scan is: read the whole array into memory that was touched before, compare with NumPy, count or list the hits. Queries are the same question
asked of the same values, raw with zone statistics and with `transform="alacrity:bits=13"`, which keeps values by bins. Everything is in the
system's cache, unless `--cold`. Every count and every coordinate is compared. The least time of the rounds counts, for every side.

`python bench/query/run.py [--cells N] [--quick] [--peers]`, a few minutes; it writes docs/benchmarks/query.md. Peers that are installed
take part: `pip install -r bench/query/requirements.txt` into an environment of its own. 10^4 random conditions against NumPy are
`DRYSTONE_LONG=1 pytest tests/python/queries/test_query_model.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import drystone as dry
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SELECTIVITIES = (1e-5, 1e-3, 1e-1, 0.5, 1.0)
PAGE = Path(__file__).parent.parent.parent / "docs" / "benchmarks" / "query.md"
BINS = {"index": "bins"}
PEERS = ("pyarrow", "blosc2", "tiledb", "tables", "xarray", "xarray_sql", "adios2")


def turbulence(edge: int) -> Array:
    """A field with a spectrum of -5/3, edge^3 cells."""
    random = np.random.default_rng(3)
    k = np.fft.fftfreq(edge)[:, None, None] ** 2 + np.fft.fftfreq(edge)[None, :, None] ** 2
    k = k + np.fft.rfftfreq(edge)[None, None, :] ** 2
    k[0, 0, 0] = 1
    noise = random.normal(size=k.shape) + 1j * random.normal(size=k.shape)
    field = np.fft.irfftn(noise * k ** (-11 / 12), s=(edge,) * 3, axes=(0, 1, 2))
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
    """The least time, and what came out."""
    times, out = [], None
    for _ in range(rounds):
        before()
        begun = perf_counter()
        out = act()
        times.append(perf_counter() - begun)
    return min(times), out


def evict(folder: Path) -> None:
    """Drops the files of a folder from the system's cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write(path: Path, array: Array, options: dict[str, Any]) -> tuple[float, float]:
    """Seconds of a put and its commit, and with the flush after it."""
    with dry.create(path, overwrite=True) as c:
        c.create_variable("v", "f4", array.shape, chunks=chunks(array), **options)
        begun = perf_counter()
        with c.writer(rank=0, nranks=1) as w:
            w.put("v", array)
        c.commit()
        committed = perf_counter()
        c.flush()
        return committed - begun, perf_counter() - begun


def stored(path: Path) -> int:
    """Bytes of the files of a container."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def thresholds(array: Array) -> Iterator[tuple[str, float, str, Callable[[Array], Array]]]:
    """Text, selectivity and NumPy's form of each question: the largest values, and a range around the median."""
    ordered = np.sort(array, axis=None)
    for share in SELECTIVITIES:
        low = float(ordered[min(len(ordered) - 1, int(len(ordered) * (1 - share)))])
        yield "above", share, f"v >= {low!r}", lambda a, low=low: a >= np.float32(low)
    for share in (1e-5, 1e-3, 1e-1):
        middle, half = len(ordered) // 2, max(1, int(len(ordered) * share / 2))
        low, high = float(ordered[middle - half]), float(ordered[middle + half])
        yield (
            "within",
            share,
            f"v >= {low!r} & v <= {high!r}",
            lambda a, low=low, high=high: (a >= np.float32(low)) & (a <= np.float32(high)),
        )


def ask(
    folder: Path, name: str, array: Array, rounds: int, cold: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What writing cost, and a row per question."""
    paths = {"zones": folder / f"{name}-zones.dry", "bins": folder / f"{name}-bins.dry"}
    made: dict[str, Any] = {"data": name}
    times: dict[str, list[tuple[float, float]]] = {"zones": [], "bins": []}
    for _ in range(rounds):
        for kind, options in (("zones", {}), ("bins", BINS)):
            times[kind].append(write(paths[kind], array, options))
    for kind, each in times.items():
        committed, flushed = (min(seconds) for seconds in zip(*each, strict=True))
        made[kind], made[f"{kind} flushed"] = array.nbytes / committed / 1e6, array.nbytes / flushed / 1e6
        made[f"{kind} size"] = stored(paths[kind]) / array.nbytes
    print(made)
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
        row["scan coords"], places = timed(scan_coords, rounds, before)
        for kind, c in opened.items():
            counted = lambda c=c, text=text: c.query(text).count()  # noqa: E731
            row[f"{kind} count"], count = timed(counted, rounds, before)
            assert count == wanted, (text, kind, count, wanted)
            q = c.query(text)
            row[f"{kind} coords"], found = timed(q.coords, rounds, before)
            assert np.array_equal(found, places), (text, kind)
            row[f"{kind} bytes"] = q.report.bytes / array.nbytes
        rows.append(row)
        print(
            "  ", {key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()}
        )
    for c in opened.values():
        c.close()
    for path in paths.values():
        shutil.rmtree(path)
    return made, rows


def members(cells: int) -> dict[str, Array]:
    """A key in any order, and three other members of particles."""
    random = np.random.default_rng(11)
    energy = random.gamma(1.5, 1.0, cells).astype("f4")
    return {"energy": energy} | {name: random.random(cells).astype("f4") for name in "xyz"}


def afterwards(folder: Path, cells: int, rounds: int) -> list[dict[str, Any]]:
    """Ranges of a key with three other members: as written, with bins made afterwards, sorted; and what making these took."""
    arrays, names = members(cells), ("p/energy", "p/x", "p/y", "p/z")
    ordered = np.sort(arrays["energy"])
    nbytes = sum(array.nbytes for array in arrays.values())
    rows: list[dict[str, Any]] = []
    path = folder / "afterwards.dry"
    with dry.create(path) as c:
        for name, array in arrays.items():
            c.create_variable(f"p/{name}", "f4", array.shape)
            c[f"p/{name}"][:] = array
        scanned, _ = timed(lambda: [c[name][:] for name in names], rounds, lambda: None)
        for kind in ("as written", "bins", "sorted"):
            begun, before = perf_counter(), stored(path)
            if kind == "bins":
                c.index("p/energy")
            elif kind == "sorted":
                c.sort("p", by="energy")
            row: dict[str, Any] = {"kind": kind, "made": perf_counter() - begun, "scan": scanned}
            row["size"] = (stored(path) - before) / nbytes
            for share in (1e-5, 1e-4, 1e-3, 1e-2):
                low = float(ordered[int(cells * (1 - share))])
                q = c.query(f"p/energy >= {low!r}")
                row[f"{share:g}"], found = timed(lambda q=q: q.values(*names), rounds, lambda: None)
                row[f"{share:g} bytes"] = q.report.bytes / nbytes
                hits = arrays["energy"] >= np.float32(low)
                for name, values in zip(names, found, strict=True):
                    assert np.array_equal(values, arrays[name.split("/")[1]][hits]), (kind, share, name)
            rows.append(row)
            print("  ", row)
    shutil.rmtree(path)
    return rows


def peers(folder: Path, array: Array, rounds: int) -> list[dict[str, Any]]:
    """Counts of the largest values by other stores, each with what it has for the purpose."""
    installed = {name for name in PEERS if importlib.util.find_spec(name)}
    print("peers:", ", ".join(sorted(installed)) or "none are installed")
    flat = np.ascontiguousarray(array.ravel())
    asks: dict[str, Callable[[float], int]] = {}
    for kind, options in (("Drystone, zones", {}), ("Drystone, bins", BINS)):
        path = folder / f"{kind[-5:].strip()}.dry"
        write(path, flat, options)
        c = dry.open(path)
        asks[kind] = lambda low, c=c: c.query(f"v >= {low!r}").count()
    asks["NumPy, in memory"] = lambda low: int(np.count_nonzero(flat >= np.float32(low)))
    np.save(folder / "v.npy", flat)
    mapped = np.load(folder / "v.npy", mmap_mode="r")
    asks["NumPy, mapped file"] = lambda low: int(np.count_nonzero(mapped >= np.float32(low)))
    if "pyarrow" in installed:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"v": flat}), folder / "v.parquet", row_group_size=1 << 16)
        parquet = ds.dataset(folder / "v.parquet")
        asks["Parquet, row groups of 64 Ki"] = lambda low: parquet.count_rows(
            filter=pc.field("v") >= pa.scalar(low, pa.float32())
        )
    if "blosc2" in installed:
        import blosc2

        b2 = blosc2.asarray(flat, urlpath=str(folder / "v.b2nd"), mode="w")
        asks["Blosc2, lazy expression"] = lambda low: int((b2 >= np.float32(low)).sum())
    if "tiledb" in installed:
        import tiledb

        schema = tiledb.ArraySchema(
            domain=tiledb.Domain(tiledb.Dim("i", domain=(0, len(flat) - 1), tile=1 << 16, dtype=np.uint64)),
            attrs=[tiledb.Attr("v", dtype=np.float32, fill=np.float32("nan"))],
        )
        tiledb.DenseArray.create(str(folder / "v.tdb"), schema)
        with tiledb.DenseArray(str(folder / "v.tdb"), "w") as out:
            out[:] = flat
        tdb = tiledb.DenseArray(str(folder / "v.tdb"))
        asks["TileDB, query condition"] = lambda low: int(
            np.count_nonzero(~np.isnan(tdb.query(cond=f"v >= {low!r}")[:]["v"]))
        )
    if "tables" in installed:
        import tables

        with tables.open_file(folder / "v.h5", "w") as h5:
            table = h5.create_table("/", "t", np.dtype([("v", "f4")]), expectedrows=len(flat))
            table.append(flat.view([("v", "f4")]))
            table.cols.v.create_csindex()
        h5 = tables.open_file(folder / "v.h5")
        asks["PyTables, complete index"] = lambda low: len(
            h5.root.t.get_where_list("v >= low", {"low": np.float32(low)})
        )
    if {"xarray_sql", "xarray"} <= installed:
        import xarray as xr
        import xarray_sql

        context = xarray_sql.XarrayContext()
        context.from_dataset("t", xr.Dataset({"v": ("i", flat)}).chunk({"i": 1 << 16}))
        asks["xarray-sql, of NumPy in memory"] = lambda low: int(
            context.sql(f"select count(*) as n from t where v >= {low!r}").to_pandas().n[0]
        )
    if "adios2" in installed:
        import adios2

        # Its query names blocks whose extremes meet the range; their values are compared here.
        steps = str(folder / "v.bp")
        with adios2.Stream(steps, "w") as out:
            for first in range(0, len(flat), 1 << 16):
                block = flat[first : first + (1 << 16)]
                out.write("v", block, [len(flat)], [first], [len(block)])

        def adios(low: float) -> int:
            with adios2.FileReader(steps) as file:
                blocks = file.all_blocks_info("v")[0]
                # Extremes are texts of six digits.
                met = [b for b in blocks if float(b["Max"]) >= low - 1e-5 * abs(low)]
                read = [file.read("v", [int(b["Start"])], [int(b["Count"])]) for b in met]
                return sum(int(np.count_nonzero(one >= np.float32(low))) for one in read)

        asks["ADIOS2, extremes of blocks"] = adios
    ordered = np.sort(flat)
    rows = []
    for name, ask_one in asks.items():
        row: dict[str, Any] = {"who": name}
        for share in (1e-5, 1e-3, 1e-1):
            low = float(ordered[int(len(flat) * (1 - share))])
            row[f"{share:g}"], count = timed(lambda a=ask_one, low=low: a(low), rounds, lambda: None)
            assert count == np.count_nonzero(flat >= np.float32(low)), (name, share, count)
        rows.append(row)
        print("  ", row)
    if "tables" in installed:
        h5.close()
    return rows


def dense(rounds: int) -> list[tuple[str, float, float, float]]:
    """Evaluation of 1 Mi values in cache: a query of them, NumPy and numexpr, in seconds."""
    import numexpr

    random = np.random.default_rng(5)
    u, v = (random.normal(size=1 << 20).astype("f4") for _ in "uv")
    out = []
    numexpr.set_num_threads(os.cpu_count() or 1)
    folder = Path(tempfile.mkdtemp())
    with dry.create(folder / "d.dry") as c:
        c["u"], c["v"] = u, v
        for text, form, numpy_form in [
            ("u > 0.5", "u > 0.5", lambda: u > np.float32(0.5)),
            (
                "u > 0.5 & v < 0.25",
                "(u > 0.5) & (v < 0.25)",
                lambda: (u > np.float32(0.5)) & (v < np.float32(0.25)),
            ),
            ("u*u + v*v < 2.0", "u*u + v*v < 2.0", lambda: u * u + v * v < np.float32(2)),
            (
                "abs(u - v) > 1.0 | isnan(u)",
                "(abs(u - v) > 1.0) | (u != u)",
                lambda: (np.abs(u - v) > np.float32(1)) | np.isnan(u),
            ),
        ]:
            q = c.query(text)
            expected, wanted = timed(lambda f=numpy_form: np.count_nonzero(f()), rounds, lambda: None)
            mine, count = timed(q.count, rounds, lambda: None)
            assert count == wanted, text
            names = {"u": u, "v": v}
            other, _ = timed(
                lambda form=form, names=names: np.count_nonzero(numexpr.evaluate(form, names)),
                rounds,
                lambda: None,
            )
            out.append((text, expected, mine, other))
            print("  ", text, expected, mine, other)
    shutil.rmtree(folder)
    return out


def against_bars(made: list[Any], rows: list[Any], after: list[Any]) -> list[str]:
    """Says which bars are met, with figures."""
    few = [row for row in rows if row["share"] <= 1e-3]
    bins = [row["scan count"] / row["bins count"] for row in few]
    less = [1 / row["bins bytes"] for row in few if row["bins bytes"]]
    all_counts = [row["scan count"] / row[f"{kind} count"] for row in rows for kind in ("zones", "bins")]
    all_coords = [row["scan coords"] / row[f"{kind} coords"] for row in rows for kind in ("zones", "bins")]
    writing = [m["bins"] / m["zones"] for m in made]
    durable = [m["bins flushed"] / m["zones flushed"] for m in made]
    by_kind = {row["kind"]: row for row in after}
    key, both = by_kind["sorted"], all_counts + all_coords
    made_after = by_kind["bins"]["made"] / by_kind["bins"]["scan"]
    return [
        "Against the bars:",
        "",
        f"- Counts by bins at one in 1e3 and 1e5 are {min(bins):.1f} to {max(bins):.1f} times as fast as a scan, and"
        f" {sum(ratio >= 10 for ratio in bins)} of {len(bins)} reach 10. They read {min(less):.0f} to"
        f" {max(less):.0f} times fewer bytes.",
        f"- The slowest count is {min(all_counts):.2f} times as fast as a scan, the slowest coordinates"
        f" {min(all_coords):.2f} times; the bar is 0.91. {sum(r < 1 / 1.1 for r in both)} of {len(both)} figures are below.",
        f"- Writing with bins into the page cache runs at {min(writing):.2f} to {max(writing):.2f} of the speed without,"
        f" and at {min(durable):.2f} to {max(durable):.2f} with a flush; the bar is 0.8.",
        f"- Data and index take up to {max(m['bins size'] for m in made):.3f} of raw; the bar is 1.35.",
        f"- A range of a sorted key with three other members at one in 1e4 reads {key['0.0001 bytes']:.4f} of the"
        f" bytes of a scan; the bar is 0.05. Bins made afterwards take {made_after:.1f} scans; the bar is 2.",
    ]


def page(
    cells: int,
    made: list[Any],
    rows: list[Any],
    after: list[Any],
    others: list[Any],
    evaluated: list[Any],
    load: float,
) -> str:
    """The page of figures."""
    text = [
        "# Queries by value",
        "",
        "Do queries by value read less than a scan, and never cost more? The bars are: 10 times as fast as a scan at one hit"
        " in 1e5 and in 1e3; never more than 1.1 times the time of a scan; writing with an index at 0.8 of the speed"
        " without; data and index at 1.35 of the raw size.",
        "",
        f"`python bench/query/run.py [--peers]` uses {cells / 2**20:g} Mi values of f4 on {os.cpu_count()} processors, with"
        " everything in the page cache. A scan reads the raw variable into touched memory and compares with NumPy; for"
        " coordinates it calls `numpy.argwhere`. Figures are the time of the scan divided by that of the query, each the"
        " least of the rounds. Bytes are a fraction of the raw bytes. *above*: the largest values; *within*: a range around"
        " the median. Subchunks have 256 Ki cells. Every count and every coordinate was compared."
        f" {time.strftime('%Y-%m-%d')}, load before the run {load:.1f}.",
        "",
        "| data | question | share | scan, ms | zones: count | coords | bytes | bins: count | coords | bytes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ratios = [
            f"{row[f'scan {what}'] / row[f'{kind} {what}']:.2f} x"
            if what != "bytes"
            else f"{row[f'{kind} bytes']:.3f}"
            for kind in ("zones", "bins")
            for what in ("count", "coords", "bytes")
        ]
        text.append(
            f"| {row['data']} | {row['form']} | {row['share']:g} | {row['scan count'] * 1e3:.1f} | {' | '.join(ratios)} |"
        )
    text += [
        "",
        "| data | put and commit raw, MB/s | with bins | put, commit and flush raw, MB/s | with bins | size with bins, of raw |",
        "|---|---|---|---|---|---|",
    ]
    text += [
        f"| {m['data']} | {m['zones']:.0f} | {m['bins']:.0f} | {m['zones flushed']:.0f} | {m['bins flushed']:.0f}"
        f" | {m['bins size']:.3f} |"
        for m in made
    ]
    text += ["", *against_bars(made, rows, after)]
    shares = ("1e-05", "0.0001", "0.001", "0.01")
    text += [
        "",
        "Values of a key and of three other members where the key is greatest: the bytes read as a fraction of those of all"
        " four, and the time of a scan of all four divided by that of the query. *made in*: time to make it, in scans.",
        "",
        f"| | made in, of a scan | takes, of raw | {' | '.join(f'{s}: bytes | time' for s in shares)} |",
        f"|---|---|---|{'---|---|' * len(shares)}",
    ]
    text += [
        f"| {a['kind']} | {a['made'] / a['scan']:.1f} | {a['size']:.2f} | "
        + " | ".join(f"{a[f'{s} bytes']:.4f} | {a['scan'] / a[s]:.1f} x" for s in shares)
        + " |"
        for a in after
    ]
    if others:
        text += [
            "",
            "Counts of the largest of 4 Mi energies by other stores, in milliseconds. Each uses what it has for the purpose.",
            "",
        ]
        text += ["| | 1e-05 | 0.001 | 0.1 |", "|---|---|---|---|"]
        text += [
            f"| {o['who']} | " + " | ".join(f"{o[s] * 1e3:.2f}" for s in ("1e-05", "0.001", "0.1")) + " |"
            for o in others
        ]
    if evaluated:
        text += [
            "",
            "Counts of conditions on 1 Mi values, which fit in the processor's cache: the time of NumPy and of numexpr on arrays"
            " in memory, divided by that of a query, which also reads and verifies the values.",
            "",
        ]
        text += ["| condition | than NumPy | than numexpr |", "|---|---|---|"]
        text += [
            f"| `{t.replace('|', chr(92) + '|')}` | {n / m:.2f} x | {x / m:.2f} x |"
            for t, n, m, x in evaluated
        ]
    lines = [line for one in text for line in wrapped(one)]
    return "\n".join(lines) + "\n"


def wrapped(line: str) -> list[str]:
    """A paragraph or an item in lines of at most 120 columns; rows of tables as they are."""
    if line.startswith("|") or not line:
        return [line]
    return textwrap.wrap(line, 120, subsequent_indent="  " * line.startswith("- "), break_on_hyphens=False)


def main() -> None:
    """Measures, and writes the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=1 << 24)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="small, measures nothing, writes no page")
    parser.add_argument(
        "--cold", action="store_true", help="evict the files before each read; writes no page"
    )
    parser.add_argument(
        "--peers", action="store_true", help="with other stores, and conditions beside numexpr"
    )
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    cells, rounds = (1 << 18, 1) if args.quick else (args.cells, args.rounds)
    folder, load = Path(tempfile.mkdtemp(dir=args.folder)), os.getloadavg()[0]
    made, rows = [], []
    try:
        arrays = data(cells)
        for name, array in arrays.items():
            one, some = ask(folder, name, array, rounds, args.cold)
            made.append(one)
            rows += some
        after = afterwards(folder, 1 << (18 if args.quick else 22), rounds)
        few = arrays["particles"][: 1 << (16 if args.quick else 22)]
        others = peers(folder, few, rounds) if args.peers else []
        has_numexpr = importlib.util.find_spec("numexpr") is not None
        evaluated = dense(rounds) if args.peers and has_numexpr else []
    finally:
        shutil.rmtree(folder)
    text = page(cells, made, rows, after, others, evaluated, load)
    if not args.quick and not args.cold:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
