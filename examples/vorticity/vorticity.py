"""Vorticity and enstrophy of a flow written by eight ranks: defined once, and computed when they are read.

Eight processes write decaying vortices in three dimensions, each its own block of a grid. Two derived variables are
defined before the first step: the vorticity, a vector of differences, and the enstrophy. The same flow is also written
undivided. Both runs read with the same bits, and agree with NumPy: block boundaries leave no trace in differences.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import numpy.typing as npt

RANKS = (2, 2, 2)
NAMES = ("u", "v", "w")
Field = npt.NDArray[np.float64]


def coordinates(cells: int) -> list[Field]:
    """Coordinates of cells along z, y and x: denser near the lower wall."""
    even = np.linspace(0, 1, cells)
    return [2 * np.pi * even**1.2, 2 * np.pi * even, 2 * np.pi * even]


def flow(z: Field, y: Field, x: Field, time: float) -> dict[str, Field]:
    """Taylor-Green vortices that decay, and a wave that moves through them."""
    z, y, x = z[:, None, None], y[None, :, None], x[None, None, :]
    decay = np.exp(-0.1 * time)
    return {
        "u": decay * np.cos(x) * np.sin(y) * np.cos(z) + 0.1 * np.sin(2 * z - time),
        "v": -decay * np.sin(x) * np.cos(y) * np.cos(z) + 0.1 * np.sin(2 * x - time),
        "w": decay * 0.2 * np.sin(x) * np.sin(y) * np.sin(z) + 0.1 * np.sin(2 * y - time),
    }


def create(path: Path, cells: int) -> None:
    """The container, its variables, and the derived ones."""
    with dry.create(path, overwrite=True) as c:
        for name, values in zip("zyx", coordinates(cells), strict=True):
            c.create_variable(name, data=values, dims=(name,), attrs={"units": "m"})
        for name in NAMES:
            c.create_variable(
                name,
                "f8",
                (cells,) * 3,
                dims=("z", "y", "x"),
                steps=True,
                transform="zstd:1",
                attrs={"units": "m/s"},
            )
        c.derive("vorticity", "curl(u, v, w)", attrs={"units": "1/s"})
        # Sums of squares of the same differences: a definition cannot name a component of another.
        squares = [
            f"({a})**2"
            for a in ("diff(w, y) - diff(v, z)", "diff(u, z) - diff(w, x)", "diff(v, x) - diff(u, y)")
        ]
        # The commit of the steps stores it; afterwards it is read and queried like any stored variable.
        c.derive("enstrophy", f"0.5*({' + '.join(squares)})", kind="stored", attrs={"units": "1/s2"})
        c.derive("mean_enstrophy", "mean(enstrophy)", attrs={"units": "1/s2"})


def write(path: Path, rank: int, blocks: tuple[int, int, int], cells: int, steps: int) -> None:
    """One rank's block of each step."""
    count = int(np.prod(blocks))
    place = np.unravel_index(rank, blocks)
    edges = [np.linspace(0, cells, n + 1).astype(int) for n in blocks]
    lo = [int(e[i]) for e, i in zip(edges, place, strict=True)]
    hi = [int(e[i + 1]) for e, i in zip(edges, place, strict=True)]
    z, y, x = [c[a:b] for c, a, b in zip(coordinates(cells), lo, hi, strict=True)]
    with dry.open(path, mode="r+") as c, c.writer(rank=rank, nranks=count) as w:
        for step in range(steps):
            with w.step():
                for name, values in flow(z, y, x, float(step)).items():
                    w.put(name, np.ascontiguousarray(values), offset=lo)


def simulate(path: Path, blocks: tuple[int, int, int], cells: int, steps: int) -> None:
    """Run all ranks at once, then commit."""
    create(path, cells)
    spawn = multiprocessing.get_context("spawn")
    ranks = [
        spawn.Process(target=write, args=(path, rank, blocks, cells, steps))
        for rank in range(int(np.prod(blocks)))
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
        if process.exitcode:
            raise SystemExit(f"a rank ended with {process.exitcode}")
    with dry.open(path, mode="r+") as c:
        c.commit()


def expected(cells: int, step: int) -> tuple[Field, Field]:
    """Vorticity and enstrophy by NumPy, of the undivided flow."""
    z, y, x = coordinates(cells)
    found = flow(z, y, x, float(step))
    u, v, w = (found[name] for name in NAMES)
    vorticity = np.stack(
        [
            np.gradient(w, y, axis=1) - np.gradient(v, z, axis=0),
            np.gradient(u, z, axis=0) - np.gradient(w, x, axis=2),
            np.gradient(v, x, axis=2) - np.gradient(u, y, axis=1),
        ],
        axis=-1,
    )
    return vorticity, 0.5 * np.sum(vorticity**2, axis=-1)


def check(divided: Path, whole: Path, cells: int, steps: int) -> bool:
    """Whether both runs have the same bits, and NumPy the same values."""
    right = True
    with dry.open(divided) as a, dry.open(whole) as b:
        for step in range(steps):
            vorticity, enstrophy = expected(cells, step)
            same = all(
                a[name][step].tobytes() == b[name][step].tobytes()
                for name in ("vorticity", "enstrophy", "mean_enstrophy")
            )
            near = np.allclose(a["vorticity"][step], vorticity, rtol=1e-9, atol=1e-9)
            near &= np.allclose(a["enstrophy"][step], enstrophy, rtol=1e-9, atol=1e-9)
            print(
                f"step {step}: enstrophy {a['mean_enstrophy'][step]:.6f} on average, {a['enstrophy'][step].max():.4f} at most; "
                f"{'the same bits' if same else 'OTHER BITS'} in 8 blocks and in 1, {'as' if near else 'NOT AS'} NumPy"
            )
            right &= same and bool(near)
        strong = 0.9 * float(a["enstrophy"][-1].max())
        hits = a.query(f"enstrophy > {strong}", steps=steps - 1)
        where = hits.coords()
        print(
            f"{hits.count()} cells of the last step have an enstrophy above {strong:.3f}; the first is {tuple(map(int, where[0]))}"
        )
        print(a["vorticity"].explain[steps - 1, 0 : cells // 4, 0 : cells // 4, 0 : cells // 4])
    return right


def main() -> int:
    """Write, read, compare; 0 only if all agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("build/vorticity"), help="where everything is put"
    )
    parser.add_argument("--cells", type=int, default=64, help="cells along each side")
    parser.add_argument("--steps", type=int, default=4, help="output times")
    given = parser.parse_args()
    if given.folder.exists():
        shutil.rmtree(given.folder)
    given.folder.mkdir(parents=True)
    divided, whole = given.folder / "eight.dry", given.folder / "one.dry"
    simulate(divided, RANKS, given.cells, given.steps)
    simulate(whole, (1, 1, 1), given.cells, given.steps)
    return 0 if check(divided, whole, given.cells, given.steps) else 1


if __name__ == "__main__":
    sys.exit(main())
