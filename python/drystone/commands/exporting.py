"""`drystone export`: variables into HDF5 or netCDF-4, a selection of one into .npy or CSV; piece by piece."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path

from drystone.commands.chunk_shapes import chunk_shapes
from drystone.commands.exports import hdf5, netcdf, single
from drystone.commands.exports.stored import Stored
from drystone.commands.outcome import Outcome, size, table
from drystone.commands.selected import opened, parse, place, variable
from drystone.commands.target import appearing, unwritable
from drystone.errors import ConflictError, DrystoneError, InvalidArgumentError

_SUFFIXES = {".h5": "hdf5", ".hdf5": "hdf5", ".nc": "netcdf", ".nc4": "netcdf", ".npy": "npy", ".csv": "csv"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    place(parser)
    parser.add_argument("file", type=Path, help="the file to write: .h5, .nc, .npy or .csv")
    parser.add_argument("variable", nargs="*", help="which variables; all if none is named")
    parser.add_argument(
        "--select", metavar="SELECTION", help="for .npy and .csv: which cells, as in '[-1, :, 0:8]'"
    )
    parser.add_argument(
        "--format", choices=sorted(set(_SUFFIXES.values())), help="if the name does not say it"
    )
    parser.add_argument(
        "--compression",
        type=int,
        choices=range(10),
        metavar="LEVEL",
        help="for .h5 and .nc: compress by deflate, from 0 to 9, behind a shuffle of bytes",
    )
    parser.add_argument(
        "--chunks",
        action="append",
        metavar="[VARIABLE=]SHAPE",
        help="for .h5 and .nc: chunk shape without steps, as in 64,64, or T=64,64; none for none; may be repeated",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def run(given: argparse.Namespace) -> Outcome:
    """Write the file; what the format cannot hold is named, and the rest is written."""
    kind = given.format or _SUFFIXES.get(given.file.suffix.lower())
    if kind is None:
        raise InvalidArgumentError(
            f"{given.file}: the name says no format; --format is one of {', '.join(sorted(set(_SUFFIXES.values())))}"
        )
    stored = Stored(given.compression, chunk_shapes(given.chunks))
    if kind in ("npy", "csv") and stored != Stored():
        raise InvalidArgumentError("--compression and --chunks are for .h5 and .nc")
    if given.file.exists() and not given.overwrite:
        raise ConflictError(f"{given.file} is there already; --overwrite replaces it")
    lost: list[str] = []
    with opened(given) as c, appearing(given.file) as file:
        names = list(dict.fromkeys(given.variable)) or sorted(c.variables)
        if kind in ("npy", "csv"):
            if len(names) != 1:
                raise InvalidArgumentError(f".{kind} takes one variable; name it: {', '.join(names[:20])}")
            rows = [single.write(kind, variable(c, names[0]), parse(given.select), file, lost)]
        elif given.select is not None:
            raise InvalidArgumentError("--select is for .npy and .csv")
        else:
            named = (variable(c, name) for name in names)
            exported = list({(v.name, v.member): v for v in named}.values())
            stored.require_known(exported)
            try:
                rows = (hdf5 if kind == "hdf5" else netcdf).write(c, exported, file, lost, stored)
                os.truncate(file, file.stat().st_size)  # room that was found for it and not used
            except (OSError, RuntimeError) as error:  # as which these packages show what the system said
                if isinstance(error, DrystoneError):
                    raise
                failed = unwritable(given.file, error)
                # The HDF5 of netCDF writes again when the process ends, and crashes where there is no room for it.
                with suppress(OSError):
                    os.truncate(file, 0)
                raise failed from None
    shown = [("name", "shape", "size"), *((name, str(shape), size(nbytes)) for name, shape, nbytes in rows)]
    data = {"file": str(given.file), "format": kind, "lost": lost}
    data["variables"] = [{"name": name, "shape": shape, "bytes": nbytes} for name, shape, nbytes in rows]
    return Outcome(table(shown), data, [f"not taken over: {what}" for what in lost])
