"""How much memory do writes and reads take beyond the caller's buffers? 8 arrays of 27 MiB, or one of 216 MiB.

The bar: 32 MiB over the buffers.

Each act has a process of its own, which makes and touches its buffers, lets the system forget its peak, acts once, and
tells how far the peak (VmHWM) rose over what was resident before.
"""

from __future__ import annotations

from pathlib import Path

import drystone as dry
import h5py
import numpy as np
import raw
from measure import CHECKED, MIB, Settings, discard, touched
from report import Listing, size
from team import alone

CASES = (
    "write 8 arrays",
    "write one array",
    "write one array, Fortran order",
    "write one array, zstd:1",
    "read 8 arrays",
    "read one array",
    "read one array, zstd:1",
    "read every second cell of one array",
    "read a plane across the last axis",
)
ENGINES = ("raw", "drystone", "h5py")


def run(settings: Settings) -> list[Listing]:
    """Peaks, in MiB."""
    edge = 16 if settings.quick else 192
    folder = settings.folder / "memory"
    folder.mkdir(parents=True)
    listing = Listing(
        f"Peak memory over the buffers ({size(edge**2 * edge * 4 * 8)} of values)",
        ["", *(f"{engine}, MiB" for engine in ENGINES)],
    )
    for case in CASES[::4] if settings.quick else CASES:
        cells = []
        for engine in ENGINES:
            settings.say(f"memory to {case}: {engine}")
            rose, checked = alone(_peak, case, engine, folder, edge)
            CHECKED.count(engine, checked)
            cells.append("" if rose is None else f"{rose / MIB:.1f}")
        listing.rows.append([case, *cells])
    listing.remarks.append(
        "Raw has no Fortran order, no codec and no strides. h5py's codec is gzip:1, in chunks of 1 MiB; its strided "
        "read goes through its hyperslabs."
    )
    discard(folder)
    return [listing]


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name))


def _peak(case: str, engine: str, folder: Path, edge: int) -> tuple[int | None, int]:
    """How far the peak rises, and how many values were compared."""
    if engine == "raw" and any(word in case for word in ("Fortran", "zstd", "second", "plane")):
        return None, 0
    shape, count = ((edge, edge, edge), 8) if "8 arrays" in case else ((8 * edge, edge, edge), 1)
    cells = np.random.default_rng(7).integers(0, 255, shape, "u1")
    source = np.empty(shape, "f4", order="F" if "Fortran" in case else "C")
    source[...] = cells
    del cells
    codec = "zstd" in case
    work = _Work(engine, folder, case, source, count, codec)
    if case.startswith("read"):
        work.write()
    selection: tuple[slice | int, ...] = (slice(None),) * 3
    if "second" in case:
        selection = (slice(None, None, 2),) * 3
    elif "plane" in case:
        selection = (slice(None), slice(None), 3)
    expected = source[selection]
    out = [touched(expected.shape, "f4") for _ in range(count)]
    Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is resident now
    before = _status("VmHWM")
    if case.startswith("read"):
        work.read(selection, out)
    else:
        work.write()
    rose = _status("VmHWM") - before
    if engine == "drystone" and expected.shape != shape:
        rose -= expected.nbytes  # indexing makes an array, which is the buffer here
    if case.startswith("write"):
        work.read(selection, out)
    for found in out:
        CHECKED.same(engine, found, np.ascontiguousarray(expected))
    work.remove()
    return rose, CHECKED.values


class _Work:
    def __init__(
        self, engine: str, folder: Path, case: str, source: raw.Array, count: int, codec: bool
    ) -> None:
        self.engine, self.source, self.codec = engine, source, codec
        self.path = folder / f"{engine} {case}"
        self.names = [f"v{i}" for i in range(count)]

    def write(self) -> None:
        if self.engine == "raw":
            raw.write_file(self.path, [self.source] * len(self.names), sync=False)
        elif self.engine == "h5py":
            with h5py.File(self.path, "w", libver="latest") as file:
                for name in self.names:
                    options = {"chunks": (4, 256, 256), "compression": "gzip", "compression_opts": 1}
                    small = self.source.shape[1] < 256
                    if small:
                        options["chunks"] = (4, *self.source.shape[1:])
                    file.create_dataset(name, data=self.source, **(options if self.codec else {}))
        else:
            with dry.create(self.path) as container:
                for name in self.names:
                    transform = "zstd:1" if self.codec else None
                    container.create_variable(name, "f4", self.source.shape, transform=transform)
                with container.writer() as writer:
                    for name in self.names:
                        writer.put(name, self.source)

    def read(self, selection: tuple[slice | int, ...], out: list[raw.Array]) -> None:
        if self.engine == "raw":
            raw.read_file(self.path, out)
        elif self.engine == "h5py":
            with h5py.File(self.path, "r") as file:
                for name, array in zip(self.names, out, strict=True):
                    file[name].read_direct(array, selection)
        else:
            with dry.open(self.path) as container:
                for name, array in zip(self.names, out, strict=True):
                    if all(s == slice(None) for s in selection):
                        container[name].read(out=array)
                    else:
                        array[...] = container[name][selection]

    def remove(self) -> None:
        discard(self.path)
