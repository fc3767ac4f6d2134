"""Three analyses whose cells need their neighbours: a convolution as in a neural network, a gradient and a vorticity.

A field is written in blocks, as ranks would write it. The convolution is a function over tiles with a halo, computed
at once and as tasks of Dask. The gradient and the vorticity are derived variables. Each result is compared with
NumPy's on the undivided field, so block boundaries must leave no trace.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import drystone as dry
import numpy as np
import numpy.typing as npt

Field = npt.NDArray[Any]
LAYERS = 2


def weights(seed: int) -> Field:
    """The weights of a layer, 3 x 3 x 3."""
    return np.random.default_rng(seed).normal(0, 0.2, (3, 3, 3)).astype("f4")


def convolve(a: Field, kernel: Field) -> Field:
    """Weighted sums of each inner cell and its neighbours; negative ones become zero."""
    n = [k - 2 for k in a.shape]
    out = np.zeros(n, a.dtype)
    for z, y, x in np.ndindex(3, 3, 3):
        out += kernel[z, y, x] * a[z : z + n[0], y : y + n[1], x : x + n[2]]
    return np.maximum(out, 0)


def network(tile: Field) -> Field:
    """Two layers: each needs a halo of one cell."""
    for layer in range(LAYERS):
        tile = convolve(tile, weights(layer))
    return tile


def write(path: Path, fields: dict[str, Field], blocks: int) -> None:
    """Write the fields in blocks^3 blocks."""
    with dry.create(path) as c, c.writer() as w:
        for name, values in fields.items():
            c.create_variable(name, "f4", values.shape, dims=("z", "y", "x"))
            edges = [np.linspace(0, n, blocks + 1).astype(int) for n in values.shape]
            for place in np.ndindex(blocks, blocks, blocks):
                lo = [int(e[i]) for e, i in zip(edges, place, strict=True)]
                hi = [int(e[i + 1]) for e, i in zip(edges, place, strict=True)]
                part = values[tuple(slice(a, b) for a, b in zip(lo, hi, strict=True))]
                w.put(name, np.ascontiguousarray(part), offset=lo)


def analyse(path: Path, fields: dict[str, Field]) -> bool:
    """Compute all three, and compare with NumPy."""
    u, v, w = (fields[name] for name in "uvw")
    right = True

    def compare(what: str, found: Field, expected: Field) -> None:
        nonlocal right
        same = np.allclose(found, expected, rtol=1e-5, atol=1e-6)
        right &= same
        print(f"{what}: {'as' if same else 'NOT AS'} NumPy")

    with dry.open(path, mode="r+") as c:
        expected = network(np.pad(u, LAYERS, mode="edge"))
        tiles = {"halo": LAYERS, "shape": (u.shape[0] // 3, u.shape[1] // 2, u.shape[2])}
        compare("convolution", c["u"].apply(network, **tiles), expected)
        lazy = c["u"].apply(network, **tiles, lazy=True)
        compare(f"convolution, {lazy.npartitions} tasks of Dask", lazy.compute(scheduler="threads"), expected)
        gradient = c.derive("gradient", "grad(u)")
        compare("gradient", gradient[...], np.stack(list(np.gradient(u))[::-1], axis=-1))
        vorticity = c.derive("vorticity", "curl(u, v, w)", kind="stored")
        c.store_derived("vorticity")
        d = {
            (n, axis): np.gradient(f, axis=axis)
            for n, f in zip("uvw", (u, v, w), strict=True)
            for axis in range(3)
        }
        curl = [d["w", 1] - d["v", 0], d["u", 0] - d["w", 2], d["v", 2] - d["u", 1]]
        compare("vorticity", vorticity[...], np.stack(curl, axis=-1))
    return right


def main() -> None:
    """Write, analyse, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=96)
    parser.add_argument("--blocks", type=int, default=3)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="drystone-halos-"))
    try:
        random = np.random.default_rng(1)
        fields = {name: random.standard_normal((given.cells,) * 3).astype("f4") for name in "uvw"}
        write(folder / "run.dry", fields, given.blocks)
        if not analyse(folder / "run.dry", fields):
            raise SystemExit("a result is not NumPy's")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
