"""Whether `drystone import` and `drystone export` are as fast as the slower of the two libraries involved.

Beside the command stand its halves: the other library reading (or writing) the whole array in one call, and Drystone
writing (or reading) it. Who does one after the other takes the sum; the bar is the larger of the two. Files lie in the
page cache; nothing is synced. Peak memory is of a process of its own, over what it had before.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import drystone as dry
import numpy as np
from engines import Array
from measure import CHECKED, MIB, Cost, alternate, discard, measured
from report import Listing, duration, size
from rounds import Bench, Mistake
from team import alone

from questions.memory import _status


def _hdf5(path: Path, array: Array, **how: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=array, **how)


def _hdf5_read(path: Path) -> Array:
    import h5py

    with h5py.File(path) as file:
        return file["t"][...]


def _netcdf(path: Path, array: Array, **how: Any) -> None:
    import netCDF4

    with netCDF4.Dataset(path, "w") as file:
        names = [f"n{d}" for d in range(array.ndim)]
        for name, n in zip(names, array.shape, strict=True):
            file.createDimension(name, n)
        file.createVariable("t", array.dtype, names, fill_value=False, **how)[...] = array


def _netcdf_read(path: Path) -> Array:
    import netCDF4

    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        return file["t"][...]


def _zarr(path: Path, array: Array, **how: Any) -> None:
    import zarr

    zarr.create_group(path).create_array("t", data=array, **how)


def _zarr_read(path: Path) -> Array:
    import zarr

    return np.asarray(zarr.open_group(path, mode="r")["t"][...])


def _npy(path: Path, array: Array) -> None:
    np.save(path, array)


Halves = tuple[str, Callable[[Path, Array], None], Callable[[Path], Array]]
CHUNKS = (16, 64, 128)


def _formats() -> dict[str, Halves]:
    """Each as its users write it: name of the case, its file's suffix, writing, reading."""
    found: dict[str, Halves] = {"npy": (".npy", _npy, np.load)}
    try:
        import h5py  # noqa: F401

        found["HDF5, contiguous"] = (".h5", _hdf5, _hdf5_read)
        gzip = {"chunks": CHUNKS, "compression": "gzip", "compression_opts": 1, "shuffle": True}
        found["HDF5, chunks, gzip 1"] = (".h5", partial(_hdf5, **gzip), _hdf5_read)
    except ImportError:
        pass
    try:
        import netCDF4  # noqa: F401

        found["netCDF-4, contiguous"] = (".nc", _netcdf, _netcdf_read)
        zlib = {"chunksizes": CHUNKS, "compression": "zlib", "complevel": 1, "shuffle": True}
        found["netCDF-4, chunks, zlib 1"] = (".nc", partial(_netcdf, **zlib), _netcdf_read)
    except ImportError:
        pass
    try:
        import zarr  # noqa: F401

        found["Zarr, chunks, zstd"] = (".zarr", partial(_zarr, chunks=CHUNKS), _zarr_read)
    except ImportError:
        pass
    return found


def _command(*words: str) -> None:
    """An import or an export of ours."""
    (dry.import_file if words[0] == "import" else dry.export)(*words[1:])


def _ours(path: Path, array: Array) -> None:
    with dry.create(path) as c:
        c.create_variable("t", array.dtype, array.shape)
        with c.writer() as w:
            w.put("t", array)


def _ours_read(path: Path) -> Array:
    with dry.open(path) as c:
        return c[next(iter(c.variables))].read()


def run(bench: Bench) -> list[Listing]:
    """Two tables."""
    shape = (32, 64, 128) if bench.settings.quick else (128, 256, 256)
    rng = np.random.default_rng(4)
    z, y, x = (np.linspace(0, 9, n) for n in shape)
    array = np.sin(z[:, None, None] + y[:, None] * x) + np.round(rng.normal(0, 0.01, shape), 3)
    head = ["", "the command", "library alone", "Drystone alone", "times the slower", "peak memory over"]
    imports = Listing(f"Import of {size(array.nbytes)}", head)
    exports = Listing(f"Export of {size(array.nbytes)}", list(head))
    with bench.folder("imports") as folder:
        for name, halves in _formats().items():
            imports.rows.append(_import(bench, folder, name, halves, array))
        _ours(folder / "whole.dry", array)
        for name, halves in _formats().items():
            if "chunks" not in name:
                exports.rows.append(_export(bench, folder, name, halves, array))
    imports.remarks.append("The container is written without codecs, whatever the file had.")
    return [imports, exports]


def _row(name: str, found: dict[str, Any], peak: int) -> list[str]:
    command, library, drystone = (found[key] for key in ("command", "library", "drystone"))
    ratios = [
        c.seconds / max(a.seconds, b.seconds)
        for c, a, b in zip(command.costs, library.costs, drystone.costs, strict=True)
    ]
    times = [duration(figure.seconds) for figure in (command, library, drystone)]
    return [name, *times, f"{median(ratios):.2f}", f"{peak / MIB:.0f} MiB"]


def _import(bench: Bench, folder: Path, name: str, halves: Halves, array: Array) -> list[str]:
    suffix, write, read = halves
    bench.settings.say(f"import: {name}")
    source, target = folder / f"source{suffix}", folder / "imported.dry"
    write(source, array)

    def command() -> Cost:
        discard(target)
        cost = measured(lambda: _command("import", str(source), str(target)))
        _compare(_ours_read(target), array)
        return cost

    def library() -> Cost:
        kept: list[Array] = []
        cost = measured(lambda: kept.append(read(source)))
        _compare(kept[0], array)
        return cost

    def drystone() -> Cost:
        discard(target)
        return measured(lambda: _ours(target, array))

    found = alternate(
        {"command": command, "library": library, "drystone": drystone}, bench.settings.rounds(5)
    )
    discard(target)
    peak = alone(_peak, ["import", str(source), str(target)])
    for path in (source, target):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return _row(name, found, peak)


def _export(bench: Bench, folder: Path, name: str, halves: Halves, array: Array) -> list[str]:
    suffix, write, read = halves
    bench.settings.say(f"export: {name}")
    source, target = folder / "whole.dry", folder / f"exported{suffix}"

    def command() -> Cost:
        target.unlink(missing_ok=True)
        cost = measured(lambda: _command("export", str(source), str(target)))
        _compare(read(target), array)
        return cost

    def library() -> Cost:
        target.unlink(missing_ok=True)
        return measured(lambda: write(target, array))

    def drystone() -> Cost:
        kept: list[Array] = []
        return measured(lambda: kept.append(_ours_read(source)))

    found = alternate(
        {"command": command, "library": library, "drystone": drystone}, bench.settings.rounds(5)
    )
    target.unlink()
    peak = alone(_peak, ["export", str(source), str(target)])
    target.unlink()
    return _row(name, found, peak)


def _compare(found: Array, array: Array) -> None:
    if not np.array_equal(found, array):
        raise Mistake("a file that was imported or exported holds something else: the benchmark is void")
    CHECKED.count("drystone", array.size)


def _peak(words: list[str]) -> int:
    for module in ("h5py", "netCDF4", "zarr"):
        try:
            __import__(module)
        except ImportError:
            continue
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmHWM")
    _command(*words)
    return _status("VmHWM") - before
