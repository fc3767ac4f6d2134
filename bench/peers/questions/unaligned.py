"""Are values lost if processes write boxes that share chunks? Four write at once, for several rounds; all is compared.

The array has chunks of 32 x 32, and the four boxes meet at odd places inside them. Engines that store a file per
process by default are asked for one store here, as a program would that changes from one process to four: HDF5 and
netCDF lock the file. ADIOS2 and blosc2 are left out: the first writes a file per process without MPI, the second knows
one writer only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from engines import Array, Layout, Spec, load
from grid import Box
from report import Listing
from rounds import Bench, Mistake

SHAPE = (301, 203)
CUT = (149, 99)
ROUNDS = 6
SHARED = ("drystone", "raw", "h5py", "netCDF4", "zarr", "tensorstore", "TileDB")


def layout_of() -> Layout:
    """Four boxes that meet at an odd place."""
    (a, b), (m, n) = CUT, SHAPE
    boxes = [
        Box((0, 0), (a, b)),
        Box((0, b), (a, n - b)),
        Box((a, 0), (m - a, b)),
        Box((a, b), (m - a, n - b)),
    ]  # type: ignore[arg-type]
    return Layout((Spec("t", SHAPE, "f8", (32, 32)),), tuple((box,) for box in boxes), ROUNDS, False)


def values_of(box: Box, step: int) -> Array:
    """Cells that say where and when they were written."""
    rows, columns = (np.arange(a, a + n) for a, n in zip(box.offset, box.shape, strict=True))
    return np.ascontiguousarray(rows[:, None] * 1000.0 + columns + 1 + step * 1e6)


class Member:
    """One of the processes."""

    def __init__(self, rank: int, count: int, folder: Path, layout: Layout) -> None:
        self.rank, self.folder, self.layout = rank, folder, layout
        self.box = layout.puts[rank][0]

    def write(self, name: str) -> None:
        """All rounds; what failed is kept for `said`."""
        self.failures: list[str] = []
        try:
            writer = self._open(name)
            for step in range(ROUNDS):
                writer(step, values_of(self.box, step))
            writer(None, None)
        except Exception as error:
            self.failures.append(f"{type(error).__name__}: {error}")

    def said(self) -> list[str]:
        """What failed."""
        return self.failures

    def _open(self, name: str):  # noqa: ANN202
        layout, path = self.layout, self.folder / name
        (y, x), (h, w) = self.box.offset, self.box.shape
        if name == "raw":
            file = (path / "shared").open("r+b", buffering=0)

            def write(step: int | None, array: Array | None) -> None:
                if array is None:
                    file.close()
                    return
                for i, row in enumerate(array):
                    file.seek(((step * SHAPE[0] + y + i) * SHAPE[1] + x) * 8)
                    file.write(row.tobytes())

            return write
        if name in ("h5py", "netCDF4"):
            import h5py

            if name == "h5py":
                shared = h5py.File(path / "shared.h5", "r+")
                target = shared["t"]
            else:
                import netCDF4

                shared = netCDF4.Dataset(path / "shared.nc", "r+")
                target = shared["t"]

            def write(step: int | None, array: Array | None) -> None:
                if array is None:
                    shared.close()
                else:
                    target[step, y : y + h, x : x + w] = array

            return write
        engine = load(name)
        assert engine is not None
        writer = engine.writer(path, layout, self.rank)

        def write(step: int | None, array: Array | None) -> None:
            if array is None:
                writer.close()
            else:
                writer.put(step, "t", (y, x), array)
                writer.end(step)

        return write


def _create(name: str, path: Path, layout: Layout) -> None:
    shape = (ROUNDS, *SHAPE)
    if name == "raw":
        path.mkdir()
        np.zeros(shape).tofile(path / "shared")
    elif name == "h5py":
        import h5py

        path.mkdir()
        with h5py.File(path / "shared.h5", "w") as file:
            file.create_dataset("t", shape, "f8", chunks=(1, 32, 32))
    elif name == "netCDF4":
        import netCDF4

        path.mkdir()
        with netCDF4.Dataset(path / "shared.nc", "w") as file:
            for d, n in zip("tyx", shape, strict=True):
                file.createDimension(d, n)
            file.createVariable("t", "f8", tuple("tyx"), chunksizes=(1, 32, 32))
    else:
        engine = load(name)
        assert engine is not None
        engine.create(path, layout)


def _read(name: str, path: Path, layout: Layout) -> Array:
    shape = (ROUNDS, *SHAPE)
    if name == "raw":
        return np.fromfile(path / "shared").reshape(shape)
    if name == "h5py":
        import h5py

        with h5py.File(path / "shared.h5") as file:
            return file["t"][...]
    if name == "netCDF4":
        import netCDF4

        with netCDF4.Dataset(path / "shared.nc") as file:
            return np.ma.filled(file["t"][...], 0)
    engine = load(name)
    assert engine is not None
    if engine.commit:
        engine.commit(path, layout)
    reader = engine.reader(path, layout)
    return np.array(reader.read("t", 0, (0, 0), np.zeros(shape)))


def run(bench: Bench) -> list[Listing]:
    """One table of counts."""
    layout = layout_of()
    total = ROUNDS * SHAPE[0] * SHAPE[1]
    listing = Listing(
        f"Unaligned parallel writers: of {total:,} values that four processes write into shared chunks",
        ["", "wrong or lost", "processes refused", "what was said"],
    )
    expected = np.stack([values_of(Box((0, 0), SHAPE), step) for step in range(ROUNDS)])  # type: ignore[arg-type]
    with bench.folder("unaligned") as folder:
        team = bench.team(4)
        team.call("start", Member, folder, layout)
        for name in (n for n in SHARED if n in bench.engines):
            bench.settings.say(f"unaligned writers: {name}")
            _create(name, folder / name, layout)
            team.timed("do", "write", name)
            said = team.call("do", "said")
            failures = [text for member in said for text in member]
            try:
                wrong = int(np.count_nonzero(_read(name, folder / name, layout) != expected))
            except Exception as error:
                wrong, failures = total, [*failures, f"{type(error).__name__}: {error}"]
            if wrong and name == "drystone":
                raise Mistake("Drystone lost values of unaligned writers")
            text = (
                failures[0].replace(str(folder), "…").replace("|", "/").replace("\n", " ")[:90]
                if failures
                else "nothing"
            )
            refused = sum(1 for member in said if member)
            listing.rows.append([name, f"{wrong:,} ({wrong / total:.1%})", str(refused), text])
    listing.remarks.append(
        "Raw processes write disjoint bytes of one file whose size and order they know. If a writer was refused, its "
        "value counts as lost, and the writer knows it; with zarr no process is told."
    )
    return [listing]
