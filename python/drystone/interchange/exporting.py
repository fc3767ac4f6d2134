"""Exports variables to HDF5, netCDF-4, Zarr or XDMF, or a selection of one to .npy or CSV, piece by piece."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any

from drystone.asked import Asked, names, opened, selection, variable
from drystone.container import Container
from drystone.described import obstacle
from drystone.errors import ConflictError, DrystoneError, InvalidArgumentError, warn
from drystone.hdf5.itself import use_hdf5_itself
from drystone.interchange.exports import hdf5, netcdf, single, xdmf, zarr
from drystone.interchange.exports.cells import Row
from drystone.interchange.exports.stored import Stored
from drystone.progress import Progress, Report
from drystone.whole_file import appearing, appearing_folder, unwritable

_SUFFIXES = {
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".nc": "netcdf",
    ".nc4": "netcdf",
    ".npy": "npy",
    ".csv": "csv",
    ".zarr": "zarr",
    ".xdmf": "xdmf",
    ".xmf": "xdmf",
}
_CONNECTOR = ".hdf5/"
"""The group in which the HDF5 connector stores the objects of a file."""
_FORMATS = sorted(set(_SUFFIXES.values()))

_WRITERS = {"hdf5": hdf5.write, "xdmf": hdf5.write, "netcdf": netcdf.write, "zarr": zarr.write}

Shape = tuple[int, ...] | None


@dataclass(frozen=True)
class ExportedVariable:
    """A variable that an export wrote."""

    name: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    file: str
    format: str
    variables: list[ExportedVariable]
    lost: list[str]
    """Items that the format cannot hold."""


def export(
    container: Asked,
    file: str | os.PathLike[str],
    variables: str | Sequence[str] | None = None,
    *,
    select: Any = None,
    format: str | None = None,
    compression: int | None = None,
    chunks: Shape | Mapping[str, Shape] | EllipsisType = ...,
    overwrite: bool = False,
    at: int | None = None,
    damaged: bool = False,
    progress: Report | bool = False,
) -> Exported:
    """Copy variables into a file of another format, piece by piece.

    The file appears when it is complete. Items that the format cannot hold are left out; a warning and `lost` name
    them. See docs/guide/import.md.

    Args:
        container: A path or URL, or a container that is open.
        file: The file to write, .h5, .nc, .xdmf, .npy or .csv, or the folder, .zarr. The values of `x.xdmf` are
            written to `x.h5` beside it.
        variables: Names of variables, or of members as `name.member`; by default all.
        select: For .npy and .csv: the cells of the one variable, as a NumPy index or a text such as
            `[-1, :, 0:8]`.
        format: One of `hdf5`, `netcdf`, `zarr`, `xdmf`, `npy` and `csv`; by default the suffix of the file determines
            it.
        compression: A level from 0 to 9, after a byte shuffle: deflate for .h5, .nc and .xdmf, Zstandard for .zarr; by
            default none.
        chunks: For .h5, .nc, .xdmf and .zarr: one chunk shape without the step axis, None for none, or shapes by
            variable; by default those of the variables.
        overwrite: Replace an existing file.
        at: The number of an earlier snapshot.
        damaged: Export what is left of a container that has lost files. Otherwise it raises `CorruptError`.
        progress: As in `import_file`.

    """
    path = Path(file)
    kind = format or _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise InvalidArgumentError(
            f"{path}: the suffix determines no format; format is one of {', '.join(_FORMATS)}"
        )
    if kind not in _FORMATS:
        raise InvalidArgumentError(f"{kind!r} is not a known format: {', '.join(_FORMATS)}")
    if compression is not None and not 0 <= compression <= 9:
        raise InvalidArgumentError(f"compression is a level from 0 to 9, not {compression}")
    stored = Stored(compression, chunks)
    if kind in ("npy", "csv") and stored != Stored():
        raise InvalidArgumentError("compression and chunks are for .h5, .nc and .zarr")
    if kind not in ("npy", "csv") and select is not None:
        raise InvalidArgumentError("select is for .npy and .csv")
    values = xdmf.values_file(path) if kind == "xdmf" else None
    for one in (path, values):
        if one is not None and one.exists() and not overwrite:
            raise ConflictError(f"{one} is there already; overwrite replaces it")
    if kind in ("hdf5", "netcdf", "xdmf"):
        use_hdf5_itself()
    lost: list[str] = []
    whole = appearing_folder if kind == "zarr" else appearing
    with (
        opened(container, at, damaged) as c,
        whole(path) as part,
        # The values appear before the text that names them.
        appearing(values) if values else nullcontext(part) as written,
        Progress(progress) as bar,
    ):
        chosen = names(variables)
        _require_own(c, chosen)
        if not chosen:
            obstacles = {name: why for name in sorted(c.variables) if (why := obstacle(c, name))}
            lost += [f"{name}: {why}" for name, why in obstacles.items()]
            chosen = [name for name in sorted(c.variables) if name not in obstacles]
        if kind in ("npy", "csv"):
            if len(chosen) != 1:
                raise InvalidArgumentError(f".{kind} takes one variable; name it: {', '.join(chosen[:20])}")
            rows = [single.write(kind, variable(c, chosen[0]), selection(select), part, lost, bar)]
        else:
            rows = _many(kind, c, chosen, values or path, written, lost, stored, bar)
            if values is not None:
                exported = [variable(c, name) for name in chosen]
                xdmf.write(c, exported, part, written, values.name, lost)
    for what in lost:
        warn(f"not preserved: {what}")
    return Exported(str(path), kind, [ExportedVariable(*row) for row in rows], lost)


def _require_own(c: Container, chosen: list[str]) -> None:
    """Refuse variables that are parts of an HDF5 file: in a container that the HDF5 connector wrote, most are.

    Those that have their own names there can be exported by name.
    """
    hidden = [name for name in chosen if name.startswith(_CONNECTOR)]
    if f"{_CONNECTOR}catalogue" in c.variables and (hidden or not chosen):
        file = c.path.removesuffix(".drystone")
        raise InvalidArgumentError(
            f"{c.path} was written by an HDF5 program through the connector, and its variables are parts of an HDF5 "
            f"file; make it a genuine one: drystone publish --hdf5 {file}"
        )


def _many(
    kind: str,
    c: Container,
    chosen: list[str],
    path: Path,
    part: Path,
    lost: list[str],
    stored: Stored,
    progress: Progress,
) -> list[Row]:
    """Write variables to HDF5, netCDF or Zarr."""
    found = (variable(c, name) for name in chosen)
    exported = list({(v.name, v.member): v for v in found}.values())
    stored.require_known(exported)
    try:
        rows: list[Row] = _WRITERS[kind](c, exported, part, lost, stored, progress)
        if kind == "zarr":
            return rows
        os.truncate(part, part.stat().st_size)  # space that was reserved and not used
    except (OSError, RuntimeError) as error:  # how these packages report system errors
        if isinstance(error, DrystoneError):
            raise
        failed = unwritable(path, error)
        # netCDF's HDF5 writes again when the process ends, and crashes if the disk is full.
        with suppress(OSError):
            os.truncate(part, 0)
        raise failed from None
    return rows
