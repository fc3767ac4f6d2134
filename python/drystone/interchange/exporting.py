"""Variables into HDF5, netCDF-4, Zarr or XDMF, a selection of one into .npy or CSV; piece by piece."""

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
from drystone.described import lost_input
from drystone.errors import ConflictError, DrystoneError, InvalidArgumentError, warn
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
    """What an export wrote."""

    file: str
    format: str
    variables: list[ExportedVariable]
    lost: list[str]
    """What the format cannot hold."""


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

    The file appears when it is complete. Items that the format cannot hold are left out: a warning names
    them, and so does `lost`.
    See docs/guide/import.md.

    Args:
        container: A path or URL, or a container that is open.
        file: The file to write, .h5, .nc, .xdmf, .npy or .csv, or the folder, .zarr. Beside `x.xdmf` the values go to `x.h5`.
        variables: Names of variables, or of members as `name.member`; by default all.
        select: For .npy and .csv: which cells of the one variable, as an index of NumPy or a text such as `[-1, :, 0:8]`.
        format: One of `hdf5`, `netcdf`, `zarr`, `xdmf`, `npy` and `csv`; by default what the name of the file says.
        compression: For .h5, .nc and .xdmf the level of deflate, for .zarr that of Zstandard, 0 to 9, behind a shuffle of bytes; by
            default none.
        chunks: For .h5, .nc, .xdmf and .zarr: one chunk shape without the axis of steps, None for none, or shapes by variable; by
            default what each variable has.
        overwrite: Replace a file that is there.
        at: An earlier snapshot, by its number.
        damaged: Export what is left of a container that has lost files; else that is a `CorruptError`.
        progress: As of `import_file`.

    """
    path = Path(file)
    kind = format or _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise InvalidArgumentError(f"{path}: the name says no format; format is one of {', '.join(_FORMATS)}")
    if kind not in _FORMATS:
        raise InvalidArgumentError(f"{kind!r} is no format that is known: {', '.join(_FORMATS)}")
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
        if not chosen:
            gone = {name: input_ for name in sorted(c.variables) if (input_ := lost_input(c, name))}
            lost += [
                f'{name}: "{input_}", which it is derived from, was deleted' for name, input_ in gone.items()
            ]
            chosen = [name for name in sorted(c.variables) if name not in gone]
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
        warn(f"not taken over: {what}")
    return Exported(str(path), kind, [ExportedVariable(*row) for row in rows], lost)


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
    """Variables into HDF5, netCDF or Zarr."""
    found = (variable(c, name) for name in chosen)
    exported = list({(v.name, v.member): v for v in found}.values())
    stored.require_known(exported)
    try:
        rows: list[Row] = _WRITERS[kind](c, exported, part, lost, stored, progress)
        if kind == "zarr":
            return rows
        os.truncate(part, part.stat().st_size)  # room that was found for it and not used
    except (OSError, RuntimeError) as error:  # as which these packages show what the system said
        if isinstance(error, DrystoneError):
            raise
        failed = unwritable(path, error)
        # The HDF5 of netCDF writes again when the process ends, and crashes where there is no room for it.
        with suppress(OSError):
            os.truncate(part, 0)
        raise failed from None
    return rows
