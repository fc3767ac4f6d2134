"""What a compiled function over tiles costs beside the same operator of an expression, which is a loop in Rust.

The bar is 1.05 of the time of that loop. `python bench/derived/functions.py [--edge N]` compiles a Laplacian of
seven points in C with `cc -O3`, and compares `T.apply(function)` with reading `c.derive("lap", "diff2(u, x) +
...")` of the same cells and with `c.derive("called", "apply(laplacian, u, f4, 1)")`, all from the page cache
into touched memory. The function in C is also called directly, in as many threads, on an array in memory that
has the halo already: the least that it can take. Values are compared.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import drystone as dry
import numpy as np

ROOT = Path(__file__).parent.parent.parent
SOURCE = r"""
#include <drystone_function.h>
static void rows(const char *in, const int64_t *s, char *out, const int64_t *t, const uint64_t *n) {
    for (uint64_t z = 0; z < n[0]; z++)
        for (uint64_t y = 0; y < n[1]; y++) {
            const char *at = in + (int64_t)(z + 1) * s[0] + (int64_t)(y + 1) * s[1] + s[2];
            const float *u = (const float *)at;
            const float *above = (const float *)(at - s[0]), *below = (const float *)(at + s[0]);
            const float *before = (const float *)(at - s[1]), *after = (const float *)(at + s[1]);
            float *to = (float *)(out + (int64_t)z * t[0] + (int64_t)y * t[1]);
            for (int64_t x = 0; x < (int64_t)n[2]; x++)
                to[x] = (above[x] - 2 * u[x] + below[x]) + (before[x] - 2 * u[x] + after[x]) + (u[x - 1] - 2 * u[x] + u[x + 1]);
        }
}
int laplacian(const struct drystone_tile *in, size_t n, struct drystone_tile *out, void *state) {
    (void)n; (void)state;
    rows(in->data, in->strides, out->data, out->strides, out->shape);
    return 0;
}
void plain(const float *in, float *out, int64_t first, int64_t last, int64_t ny, int64_t nx) {
    int64_t s[3] = {(ny + 2) * (nx + 2) * 4, (nx + 2) * 4, 4}, t[3] = {ny * nx * 4, nx * 4, 4};
    uint64_t shape[3] = {(uint64_t)(last - first), (uint64_t)ny, (uint64_t)nx};
    rows((const char *)in + first * s[0], s, (char *)out + first * t[0], t, shape);
}
"""


def least(act: Callable[[], Any], rounds: int) -> float:
    """The least time of several calls, in seconds."""
    times = []
    for _ in range(rounds):
        begun = perf_counter()
        act()
        times.append(perf_counter() - begun)
    return min(times)


def library(folder: Path) -> ctypes.CDLL:
    """The function, compiled."""
    source, made = folder / "f.c", folder / "f.so"
    source.write_text(SOURCE)
    include = ROOT / "crates/capi/include"
    subprocess.run(
        [
            "cc",
            "-O3",
            "-march=native",
            "-ffp-contract=off",
            "-shared",
            "-fPIC",
            f"-I{include}",
            source,
            "-o",
            made,
        ],
        check=True,
    )
    return ctypes.CDLL(str(made))


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edge", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    folder, n, threads = Path(tempfile.mkdtemp()), args.edge, os.cpu_count() or 1
    try:
        compiled = library(folder)
        u = np.random.default_rng(3).random((n, n, n), dtype="f4")
        padded, out = np.pad(u, 1, mode="edge"), np.zeros_like(u)
        address = [ctypes.c_void_p(array.ctypes.data) for array in (padded, out)]
        edges = np.linspace(0, n, threads + 1).astype(int)
        with ThreadPoolExecutor(threads) as pool, dry.create(folder / "f.dry") as c:

            def directly() -> None:
                bounds = itertools.pairwise(edges)
                calls = [
                    pool.submit(compiled.plain, *address, *map(ctypes.c_int64, map(int, (*ends, n, n))))
                    for ends in bounds
                ]
                for call in calls:
                    call.result()

            c.create_variable("u", "f4", u.shape, dims=("z", "y", "x"))
            c["u"][...] = u
            c.commit()
            text = "diff2(u, z, 1) + diff2(u, y, 1) + diff2(u, x, 1)"
            lap = c.derive("lap", text, edge="one_sided")
            function = dry.function(compiled.laplacian, "f4", "f4", halo=1, ndim=3, thread_safe=True)
            function.register("laplacian")
            called = c.derive("called", "apply(laplacian, u, f4, 1)", edge="one_sided")
            kept = c.derive("kept", "apply(laplacian, u, f4, 1)", kind="stored", edge="one_sided")
            c.store_derived()
            result = np.zeros_like(u)
            c["u"].apply(function, out=result)
            directly()
            assert np.array_equal(result, out)
            assert np.array_equal(called[...], out)
            assert np.array_equal(kept[...], out)
            inner = (slice(1, -1),) * 3
            assert np.allclose(lap[...][inner], out[inner], rtol=1e-4, atol=1e-4)
            rounds = args.rounds
            figures = {
                "`T.apply(function)`": least(lambda: c["u"].apply(function, out=result), rounds),
                "`apply(laplacian, u, f4, 1)`": least(lambda: called.read(out=result), rounds),
                "the same, stored": least(lambda: kept.read(out=result), rounds),
                f"`{text}`": least(lambda: lap.read(out=result), rounds),
                "reading `u`": least(lambda: c["u"].read(out=result), rounds),
                "the loop in C, on an array with the halo": least(directly, rounds),
            }
        print(
            f"{n}^3 values of f4, {threads} processors, load {os.getloadavg()[0]:.1f}\n\n| | ms |\n|---|---|"
        )
        for name, seconds in figures.items():
            print(f"| {name} | {seconds * 1e3:.1f} |")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
