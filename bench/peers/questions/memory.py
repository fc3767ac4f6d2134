"""How much memory do a write and a read need beside the caller's buffers? An array of 64 MiB, raw and compressed.

Each act has a process of its own, which imports the engine, touches its buffers, does a tiny act first (for what is
loaded once), lets the system forget its peak, acts, and tells how far the peak (VmHWM) rose. An engine that returns an
array of its own is allowed that array.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from engines import Layout, Spec, load
from grid import Box
from measure import CHECKED, MIB, touched
from report import Listing
from rounds import Bench, Mistake
from team import alone


def run(bench: Bench) -> list[Listing]:
    """Peaks in MiB."""
    edge = 32 if bench.settings.quick else 256
    names = list(bench.engines)
    listing = Listing(f"Peak memory over the buffers, MiB: one array of {edge}^3 floats", ["", *names])
    rows: dict[str, list[str]] = {}
    with bench.folder("memory") as folder:
        for key in names:
            bench.settings.say(f"memory: {key}")
            for codec in (
                (None,)
                if bench.settings.quick or key == "raw" or not bench.engines[key].codecs
                else (None, "zstd")
            ):
                for case in ("write", "read"):
                    name = f"{case}{', zstd' if codec else ''}"
                    try:
                        rose = alone(_peak, key, str(folder / f"{key}.{codec}"), edge, codec, case)
                    except RuntimeError as error:
                        if "Mistake" in str(error):
                            raise
                        bench.settings.say(str(error)[-500:])
                        rose = None
                    rows.setdefault(name, ["" for _ in names])[names.index(key)] = (
                        "fails" if rose is None else f"{rose / MIB:.1f}"
                    )
                    CHECKED.count(key, edge**3 if case == "read" else 0)
    listing.rows = [[name, *cells] for name, cells in rows.items()]
    return [listing]


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name))


def _peak(key: str, place: str, edge: int, codec: str | None, case: str) -> int:
    engine = load(key)
    assert engine is not None

    def layout_of(n: int) -> Layout:
        box = Box((0, 0, 0), (n, n, n))  # type: ignore[arg-type]
        return Layout((Spec("t", (n,) * 3, "f4", (min(n, 64),) * 3),), ((box,),), 0, False, codec)

    def write(path: Path, array: np.ndarray) -> None:
        layout = layout_of(len(array))
        engine.create(path, layout)
        writer = engine.writer(path, layout, 0)
        writer.put(0, "t", (0, 0, 0), array)
        writer.end(0)
        writer.close()

    def read(path: Path, out: np.ndarray) -> np.ndarray:
        reader = engine.reader(path, layout_of(len(out)))
        found = reader.read("t", 0, (0, 0, 0), out)
        reader.close()
        return found

    path, tiny = Path(place), Path(place + f".tiny.{case}")
    write(tiny, np.zeros((8, 8, 8), "f4"))
    read(tiny, np.zeros((8, 8, 8), "f4"))
    cells = np.random.default_rng(7).integers(0, 255, (edge,) * 3, "u1")
    buffer = touched((edge,) * 3, "f4")
    if case == "write":
        buffer[...] = cells
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmHWM")
    if case == "write":
        write(path, buffer)
        return _status("VmHWM") - before
    found = read(path, buffer)
    rose = _status("VmHWM") - before
    if not np.array_equal(found.reshape(cells.shape), cells):
        raise Mistake(f"{key} read back something else than was written: the benchmark is void")
    return rose - (found.nbytes if not np.shares_memory(found, buffer) else 0)
