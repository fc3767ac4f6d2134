"""Which codecs would be a good default? Arrays of 160^3 elements of several kinds, put and read with each chain.

The bar: no chain, whose put is limited by the log alone. Ratios are counts of bytes; speeds are the best of three, in
/dev/shm where there is one.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import drystone as dry
import numpy as np
import numpy.typing as npt

N = 160
CHAINS = [None, "lz4", "shuffle,lz4", "shuffle,zstd:1", "zstd:1", "lorenzo,shuffle,zstd:1", "pcodec", "auto"]


def kinds() -> dict[str, npt.NDArray[Any]]:
    """The arrays, by what they stand for."""
    rng = np.random.default_rng(1)
    x = np.linspace(0, 8, N, dtype="f4")
    smooth = np.sin(x)[:, None, None] * np.cos(x)[None, :, None] + np.sqrt(1 + x)[None, None, :]
    smooth = smooth.astype("f4")
    shape = smooth.shape
    inside = sum(np.abs(np.expand_dims(x, axes) - 4) for axes in ((1, 2), (0, 2), (0, 1))) < 3
    return {
        "smooth float32": smooth,
        "the same with noise of 1e-4": (smooth + 1e-4 * rng.standard_normal(shape)).astype("f4"),
        "normal noise, float32": rng.standard_normal(shape).astype("f4"),
        "random walks, float64": np.cumsum(rng.standard_normal(shape), axis=2),
        "indices, int32": (np.indices(shape).sum(axis=0) // 7).astype("i4"),
        "random bytes in int32": rng.integers(0, 256, shape).astype("i4"),
        "sparse flags, bool": rng.random(shape) < 0.02,
        "constant around a field, float64": np.where(inside, smooth, 1.0).astype("f8"),
    }


def measured(path: Path, array: npt.NDArray[Any], chain: str | None) -> tuple[float, float, float]:
    """Ratio, and seconds of a put and of a read."""
    put = read = float("inf")
    size = 0
    for _ in range(3):
        shutil.rmtree(path, ignore_errors=True)
        with dry.create(path) as c:
            v = c.create_variable("v", array.dtype, array.shape, transform=chain)
            began = perf_counter()
            with c.writer() as w:
                w.put("v", array)
            put = min(put, perf_counter() - began)
            size = sum(file.stat().st_size for file in (path / "log").iterdir())
            out = np.empty_like(array)
            began = perf_counter()
            v.read(out=out)
            read = min(read, perf_counter() - began)
            assert np.array_equal(out, array)
    return array.nbytes / size, put, read


def main() -> None:
    """Print a row per array and chain."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    print(f"{'values':34} {'chain':24} {'ratio':>7} {'put MB/s':>9} {'read MB/s':>9}")
    with tempfile.TemporaryDirectory(dir=place) as folder:
        for name, array in kinds().items():
            for chain in CHAINS:
                if array.dtype == bool and chain in ("lorenzo,shuffle,zstd:1", "pcodec"):
                    continue
                ratio, put, read = measured(Path(folder, "c.dry"), array, chain)
                speeds = [array.nbytes / 1e6 / seconds for seconds in (put, read)]
                print(f"{name:34} {chain or 'none':24} {ratio:7.2f} {speeds[0]:9.0f} {speeds[1]:9.0f}")


if __name__ == "__main__":
    main()
