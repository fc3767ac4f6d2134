"""`drystone export`: variables into HDF5 or netCDF-4, a selection of one into .npy or CSV; piece by piece."""

from __future__ import annotations

import argparse
import csv
import errno
import importlib.util
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import repeat
from operator import add
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone import _core, views
from drystone.commands import interruption
from drystone.commands.dimensions import Axis, Dimensions
from drystone.commands.formats import SMALL
from drystone.commands.outcome import Outcome, size, table
from drystone.commands.progress import Progress
from drystone.commands.rows import LEAST as LEAST_ROWS
from drystone.commands.rows import Rows
from drystone.commands.selected import opened, parse, place, variable
from drystone.commands.target import appearing, unwritable
from drystone.container import Container
from drystone.errors import ConflictError, DrystoneError, InvalidArgumentError
from drystone.selection import select
from drystone.values import as_elements
from drystone.variable import Variable

_SUFFIXES = {".h5": "hdf5", ".hdf5": "hdf5", ".nc": "netcdf", ".nc4": "netcdf", ".npy": "npy", ".csv": "csv"}
_MOST = 12 << 20
"""Bytes of a piece, of which two are in memory: runs of a box are then mostly longer than the 64 KiB below which HDF5 buffers them."""
_LEAST_CHUNK = 16 << 10
"""Bytes of a chunk below which steps share one."""
_LINES = 1 << 14
"""Lines of CSV that are objects of Python at a time."""
_STEP_DIM = "_step_dim"


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
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def run(given: argparse.Namespace) -> Outcome:
    """Write the file; what the format cannot hold is named, and the rest is written."""
    kind = given.format or _SUFFIXES.get(given.file.suffix.lower())
    if kind is None:
        raise InvalidArgumentError(
            f"{given.file}: the name says no format; --format is one of {', '.join(sorted(set(_SUFFIXES.values())))}"
        )
    if given.file.exists() and not given.overwrite:
        raise ConflictError(f"{given.file} is there already; --overwrite replaces it")
    lost: list[str] = []
    with opened(given) as c, appearing(given.file) as file:
        names = given.variable or sorted(c.variables)
        if kind in ("npy", "csv"):
            if len(names) != 1:
                raise InvalidArgumentError(f".{kind} takes one variable; name it: {', '.join(names[:20])}")
            rows = [_one(kind, variable(c, names[0]), parse(given.select), file)]
        elif given.select is not None:
            raise InvalidArgumentError("--select is for .npy and .csv")
        else:
            exported = [variable(c, name) for name in names]
            try:
                rows = (_hdf5 if kind == "hdf5" else _netcdf)(c, exported, file, lost)
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


_Row = tuple[str, tuple[int, ...], int]


def _pieces(
    v: Variable, key: Any, progress: Progress
) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """The pieces of a selection, in row-major order."""
    for box, piece in _listed(v, key) if _has_lists(key) else v.chunks(key, _MOST):
        yield box, piece
        interruption.check()
        progress.add(piece.nbytes)


def _listed(v: Variable, key: Any) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """The pieces of a selection with lists."""
    reading = v._reading()
    item = 64 if reading.strings else reading.item
    for box, wanted in select(key, reading.shape).parts(_MOST // max(1, item)):
        yield box, np.asarray(views.read(reading, wanted)).reshape(wanted.shape)


def _has_lists(key: Any) -> bool:
    return any(isinstance(item, list) for item in (key if isinstance(key, tuple) else (key,)))


_Write = Callable[[tuple[slice, ...], npt.NDArray[Any]], None]


def _fill(
    v: Variable,
    key: Any,
    progress: Progress,
    write: _Write,
    *,
    along_chunks: bool = False,
    at_once: bool = False,
) -> None:
    """Write a selection piece by piece, in the order that is fast; one at a time, or two where `write` stands that."""
    if _has_lists(key) or along_chunks:  # a chunk that is written in parts is read again in between
        for box, piece in _pieces(v, key, progress):
            write(box, piece)
        return

    counting = Lock()

    def counted(box: tuple[slice, ...], piece: npt.NDArray[Any]) -> None:
        write(box, piece)
        interruption.check()
        with counting:
            progress.add(piece.nbytes)

    shape, dtype = v.shape, v.dtype
    if (
        key is ...
        and not v.has_steps
        and len(shape) > 0
        and 0 < math.prod(shape) * dtype.itemsize <= SMALL
        and not dtype.hasobject
    ):
        counted(tuple(slice(0, n) for n in shape), v.read())
        return
    least = LEAST_ROWS if at_once else views.LEAST
    views.in_rows(v._reading(), key, _MOST, counted, least=least, at_once=at_once)


def _one(kind: str, v: Variable, key: Any, path: Path) -> _Row:
    view = v.lazy[key]
    if kind == "npy":
        if view.dtype.hasobject:
            raise InvalidArgumentError(
                f'"{v.name}" holds texts of any length, which .npy cannot: take .csv, .h5 or .nc'
            )
        with path.open("wb") as file, Progress(view.nbytes) as progress:
            header = {
                "descr": np.lib.format.dtype_to_descr(view.dtype),
                "fortran_order": False,
                "shape": view.shape,
            }
            try:
                np.lib.format.write_array_header_1_0(file, header)
            except ValueError:  # a record of very many members
                np.lib.format.write_array_header_2_0(file, header)
            file.flush()
            begin = file.tell()
            _core.find_room(path, begin + view.nbytes)
            with Rows(path, begin, view.shape) as rows:
                _fill(v, key, progress, rows.__setitem__, at_once=True)
    else:
        with Progress(view.nbytes) as progress, path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            names = v.dims or tuple(f"dim_{d}" for d in range(v.ndim - v.has_steps))
            names = ("step", *names) if v.has_steps else names
            cells = _cells(v, key) if v.ndim == len(names) else None
            axes = names if cells is not None else tuple(f"axis_{d}" for d in range(len(view.shape)))
            cells = cells or [np.arange(n) for n in view.shape]
            members = view.dtype.names or (v.name.rsplit("/", 1)[-1],)
            writer.writerow([*axes, *members])
            for box, piece in _pieces(v, key, progress):
                with _named(v.name):
                    writer.writerows(
                        _lines([along[part] for along, part in zip(cells, box, strict=True)], piece)
                    )
    return v.name, view.shape, view.nbytes


def _lines(cells: list[npt.NDArray[np.int64]], piece: npt.NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """A line of each cell: where it is along each axis, and its value or those of its members."""
    flat = piece.reshape(-1)
    for begin in range(0, flat.size, _LINES):
        values = flat[begin : begin + _LINES].tolist()
        if not cells:
            places: Iterator[tuple[Any, ...]] = repeat((), len(values))
        else:
            numbers = np.unravel_index(np.arange(begin, begin + len(values)), piece.shape)
            columns = [along[own].tolist() for along, own in zip(cells, numbers, strict=True)]
            places = zip(*columns, strict=True)
        yield from map(add, places, values if piece.dtype.names else zip(values))


def _cells(v: Variable, key: Any) -> list[npt.NDArray[np.int64]] | None:
    """The variable's cells along each axis of a selection, if that has the axes of the variable."""
    if any(item is None or isinstance(item, int) for item in (key if isinstance(key, tuple) else (key,))):
        return None
    wanted = select(key, v.shape)
    if [leg.axes for leg in wanted.legs] != [(axis,) for axis in range(v.ndim)]:
        return None
    return [leg.along(axis) for axis, leg in enumerate(wanted.legs)]


def _dims(v: Variable) -> tuple[str, ...]:
    """Names of the axes; those without are named by their length, so that equal ones are one dimension."""
    own = v.shape[v.has_steps :]
    names = v.dims or tuple(f"n{n}" for n in own[: len(own)])
    names = (*names, *(f"n{n}" for n in own[len(names) :]))
    return (str(v.attrs.get(_STEP_DIM, "step")), *names) if v.has_steps else names


def _steps(v: Variable, all_steps: list[int]) -> list[slice]:
    """The committed steps as slices."""
    runs: list[slice] = []
    for step in all_steps:
        if runs and runs[-1].stop == step:
            runs[-1] = slice(runs[-1].start, step + 1)
        else:
            runs.append(slice(step, step + 1))
    return runs


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Of what a package refuses to write, as texts that are no Unicode, which variable holds it."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, DrystoneError):
            raise
        raise InvalidArgumentError(
            f'"{name}" holds what cannot be written there: {error}; export the others by their names'
        ) from None


def _copy(
    c: Container,
    v: Variable,
    target: Any,
    progress: Progress,
    *,
    along_chunks: bool = False,
    at_once: bool = False,
) -> None:
    """Every cell, where steps are packed: those that are not there are left out."""
    fill = partial(_fill, v, progress=progress, along_chunks=along_chunks, at_once=at_once)
    if not v.has_steps:
        fill(key=..., write=target.__setitem__)
        return
    done = 0
    for run in _steps(v, c.steps):

        def write(box: tuple[slice, ...], piece: npt.NDArray[Any], done: int = done) -> None:
            target[(slice(done + box[0].start, done + box[0].stop), *box[1:])] = piece

        fill(key=(run, ...), write=write)
        done += run.stop - run.start


def _shape(c: Container, v: Variable) -> tuple[int, ...]:
    return (len(c.steps), *v.shape[1:]) if v.has_steps else v.shape


def _attrs(v: Variable) -> dict[str, Any]:
    return {name: value for name, value in v.attrs.items() if name != _STEP_DIM}


def _set(target: Any, attrs: dict[str, Any], where: str, lost: list[str]) -> None:
    for name, value in attrs.items():
        if isinstance(value, bool):
            value = np.int8(value)
        try:
            target[name] = value
        except (TypeError, ValueError, RuntimeError, KeyError, AttributeError) as error:  # the last: netCDF4
            lost.append(f"attribute {name} of {where or '/'} ({error})")


def _total(c: Container, variables: list[Variable]) -> int:
    return sum(math.prod(_shape(c, v)) * v.dtype.itemsize for v in variables if not v.local)


def _hdf5(c: Container, variables: list[Variable], path: Path, lost: list[str]) -> list[_Row]:
    rows: list[_Row] = []
    total = _total(c, variables)
    with _written(path) as file, Progress(total) as progress:
        _core.find_room(path, total)
        room, plain = _Room(path, total), _Plain(file)
        _set(file.attrs, dict(c.attrs), "", lost)
        for name, group in c.groups.items():
            _set(file.require_group(name).attrs, dict(group.attrs), name, lost)
        for v in variables:
            if v.local:
                lost.append(f"{v.name} (a local variable has no one array)")
                continue
            name, shape = v.name if v.member is None else f"{v.name}.{v.member}", _shape(c, v)
            kind = _of_h5py(v.dtype)
            texts = kind.hasobject
            cut = _chunk(v)
            grows = _grows(v, steps=False)
            chunks: Any = None
            if cut and 0 not in shape and 0 not in cut:
                chunks = tuple(min(edge, n) for edge, n in zip(cut, shape, strict=True))
            elif any(grows):
                chunks = True
            fill = None if texts or v.dtype.names else v.fill_value
            is_plain = chunks is None and fill is not None and kind.kind in "iuf" and 0 not in shape
            if is_plain:
                target = plain.create(name, shape, kind, fill)
            else:
                target = file.create_dataset(
                    name,
                    shape,
                    kind,
                    chunks=chunks,
                    maxshape=tuple(None if g else n for g, n in zip(grows, shape, strict=True))
                    if any(grows)
                    else None,
                    fillvalue=fill,
                    dcpl=_unfilled() if _all_written(shape, chunks) and not texts else None,
                )
            if v.dims or v.has_steps:
                for dim, label in zip(target.dims, _dims(v), strict=True):
                    dim.label = label
            _set(target.attrs, _attrs(v), name, lost)
            differs = v.dtype.names and kind != v.dtype
            if differs:
                into: Any = _Converted(target, partial(_with_texts_as_bytes, dtype=kind))
            elif texts:
                into = _Converted(target, room.taken)
            else:
                into = target if v.dtype.names else _Whole(target, shape)
            begin = _begin(target, v.dtype) if is_plain else None
            with _named(name):
                if begin is not None:
                    with Rows(path, begin, shape) as lines:
                        _copy(c, v, lines, progress, at_once=True)
                else:
                    _copy(c, v, into, progress, along_chunks=v.chunk_shape is not None)
            target.flush()  # which can fail, where forgetting the dataset would not be heard of
            rows.append((name, shape, math.prod(shape) * kind.itemsize))
        if (
            c.steps
            and any(v.has_steps for v in variables)
            and "step" not in file
            and c.steps != list(range(len(c.steps)))
        ):
            file["step"] = np.array(c.steps, np.int64)
    return rows


def _begin(dataset: Any, dtype: np.dtype[Any]) -> int | None:
    """Where HDF5 has made room for a dataset that is one run of bytes, if values of a type lie there as they do in memory."""
    is_same = dataset.dtype == dtype and dtype.isnative
    if not is_same or dataset.nbytes <= SMALL or dataset.chunks is not None or dataset.file.userblock_size:
        return None
    begin: int | None = dataset.id.get_offset()
    return begin


def _chunk(v: Variable) -> tuple[int, ...] | None:
    """The chunks of a dataset; several steps in one where a step is so little that HDF5 takes longer to find it than to read it."""
    own = v.chunk_shape
    if own is None or not v.has_steps:
        return own
    return max(1, _LEAST_CHUNK // max(1, math.prod(own) * v.dtype.itemsize)), *own


@contextmanager
def _written(path: Path) -> Iterator[Any]:
    """A new file, without the buffer of 64 KiB through which HDF5 puts shorter runs of a box, reading around them.

    What HDF5 still holds it writes when the file is closed; if that fails, as on a full disk, the process crashes at its end.
    What failed before is therefore closed into memory: the file will be removed.
    """
    import h5py

    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_sieve_buf_size(0)
    file = h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_TRUNC, fapl=access))
    try:
        yield file
        file.flush()
    except BaseException:
        with suppress(OSError, RuntimeError):
            aside = os.memfd_create("drystone-export")
            os.dup2(aside, file.id.get_vfd_handle())
            os.close(aside)
        with suppress(OSError, RuntimeError):
            file.close()
        raise
    file.close()


def _all_written(shape: tuple[int, ...], chunks: Any) -> bool:
    """Whether the cells of a dataset are all that is stored: chunks may have more, beyond its edge."""
    return chunks is None or (
        chunks is not True and all(n % edge == 0 for n, edge in zip(shape, chunks, strict=True))
    )


def _unfilled() -> Any:
    """How a dataset is created of which every cell is written: HDF5 would write them all once before."""
    import h5py

    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    return creation


class _Plain:
    """Makes datasets of numbers that are not cut, of which every cell is written: h5py itself does more for each than HDF5."""

    def __init__(self, file: Any) -> None:
        import h5py

        self._file = file
        self._links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        self._links.set_create_intermediate_group(True)
        self._links.set_char_encoding(h5py.h5t.CSET_UTF8)
        self._creation = _unfilled()
        self._creation.set_obj_track_times(False)

    def create(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Any) -> Any:
        import h5py

        creation = self._creation
        if math.prod(shape) * dtype.itemsize > SMALL:  # it is filled past HDF5, see `_begin`
            creation = creation.copy()
            creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        if np.asarray(fill).tobytes().strip(b"\0"):
            creation = creation.copy()
            creation.set_fill_value(np.asarray(fill, dtype))
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
        made = h5py.h5d.create(
            self._file.id,
            name.encode(),
            h5py.h5t.py_create(dtype, logical=True),
            space,
            creation,
            self._links,
        )
        return h5py.Dataset(made)


def _of_h5py(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """U of NumPy is unknown to HDF5; texts of UTF-8 are not: of any length, in records of one."""
    import h5py

    if dtype.kind in "OU":
        text: np.dtype[Any] = h5py.string_dtype()
        return text
    return _of_h5py_member(dtype)


def _of_h5py_member(dtype: np.dtype[Any]) -> np.dtype[Any]:
    import h5py

    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return np.dtype((_of_h5py_member(element), shape))
    if dtype.names is not None:
        members = [(name, _of_h5py_member(dtype[name])) for name in dtype.names]
        return dtype if all(dtype[name] == kind for name, kind in members) else np.dtype(members)
    if dtype.kind == "U":
        text: np.dtype[Any] = h5py.string_dtype("utf-8", dtype.itemsize)  # four bytes a character are enough
        return text
    return dtype


def _with_texts_as_bytes(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Records as HDF5 takes them: where theirs is another type, texts as bytes of UTF-8."""
    if values.dtype.names is None:
        return np.strings.encode(values, "utf-8").astype(dtype) if values.dtype.kind == "U" else values
    out = np.empty(values.shape, dtype)
    for name in values.dtype.names:
        out[name] = _with_texts_as_bytes(values[name], dtype[name].base)
    return out


def _netcdf(c: Container, variables: list[Variable], path: Path, lost: list[str]) -> list[_Row]:
    with Progress(_total(c, variables)) as progress:
        rows, later = _by_netcdf(c, variables, path, lost, progress)
        _past_netcdf(c, later, path, progress)
    return rows


def _past_netcdf(c: Container, variables: dict[str, Variable], path: Path, progress: Progress) -> None:
    """Fill, by name in the file, variables that are one run of bytes there."""
    if not variables:
        return
    import h5py
    import netCDF4

    with h5py.File(path, "r") as file:
        begins = {name: _begin(file[name], v.dtype) for name, v in variables.items() if name in file}
    for name, v in variables.items():
        begin = begins.get(name)
        if begin is not None:
            with Rows(path, begin, v.shape) as rows:
                _copy(c, v, rows, progress, at_once=True)
        else:  # netCDF keeps it under another name or in another form
            with netCDF4.Dataset(path, "a") as file:
                _copy(c, v, _untouched(file[name]), progress)


def _untouched(target: Any) -> Any:
    """A variable of netCDF that takes values as they are."""
    target.set_auto_maskandscale(False)
    target.set_auto_chartostring(False)
    return target


def _is_one_run(target: Any, v: Variable) -> bool:
    """Whether HDF5 keeps a variable of netCDF as it is in memory, and h5py is there to say where."""
    if v.has_steps or v.nbytes <= SMALL or target.dtype != v.dtype or target.chunking() != "contiguous":
        return False
    return importlib.util.find_spec("h5py") is not None


def _by_netcdf(
    c: Container, variables: list[Variable], path: Path, lost: list[str], progress: Progress
) -> tuple[list[_Row], dict[str, Variable]]:
    """All but the values of variables whose bytes are better written past the library; these have their room."""
    import netCDF4

    rows: list[_Row] = []
    later: dict[str, Variable] = {}
    flat: list[tuple[str, Variable]] = []
    for v in variables:
        flat.extend(_members(v.name if v.member is None else f"{v.name}.{v.member}", v))
    total = _total(c, variables)
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        _core.find_room(path, total)
        room = _Room(path, total)
        _set(_Attributes(file), dict(c.attrs), "", lost)
        for name, group in c.groups.items():
            if _is_netcdf_name(name):
                _set(_Attributes(file.createGroup(name)), dict(group.attrs), name, lost)
            else:
                lost.append(f"{name} (no name in netCDF)")
        kinds = [(name, v, _of_netcdf(v, name, lost)) for name, v in flat]
        dimensions = Dimensions()
        planned = [
            (name, v, kind, dimensions.of(name.rpartition("/")[0], _axes(c, v, name, lost)))
            for name, v, kind in kinds
            if kind is not None
        ]
        dimensions.create(file)
        for name, v, kind, dims in planned:
            below: Any = file.createGroup(name.rpartition("/")[0]) if "/" in name else file
            shape = _shape(c, v)
            attrs = _attrs(v)
            fill = _netcdf_fill(v, kind, attrs.pop("_FillValue", None), name, lost)
            # As for HDF5: every cell is written, and of what is not cut nothing else is stored.
            fills = v.has_steps or kind is str
            if not fills:
                file.set_fill_off()
            target = below.createVariable(name.rpartition("/")[2], kind, dims, fill_value=fill)
            file.set_fill_on()
            _untouched(target)
            if v.dtype.kind == "b":
                attrs["dtype"] = "bool"
            _set(_Attributes(target), attrs, name, lost)
            if _is_one_run(target, v):
                target[(0,) * v.ndim] = 0  # which makes room for all of it
                later[name] = v
            else:
                into = _Converted(target, partial(_as_netcdf, kind=kind, room=room))
                with _named(name):
                    _copy(c, v, into, progress)
            rows.append((name, shape, math.prod(shape) * v.dtype.itemsize))
        if c.steps and "step" in file.dimensions and "step" not in file.variables:
            file.createVariable("step", "i8", ("step",))[:] = np.array(c.steps)
    return rows, later


_IN_NETCDF = re.compile(r"[A-Za-z0-9_\x80-\U0010ffff]([ -~\x80-\U0010ffff]*[!-~\x80-\U0010ffff])?")


def _is_netcdf_name(path: str) -> bool:
    """Whether netCDF takes each name of a path: no sign in front, no space at the end, nothing that is not shown, 256 bytes."""
    return all(_IN_NETCDF.fullmatch(name) and len(name.encode()) <= 256 for name in path.split("/"))


def _netcdf_fill(v: Variable, kind: Any, given: Any, name: str, lost: list[str]) -> Any:
    """What netCDF calls `_FillValue`: the attribute, which there is of the variable's type, or else the fill value."""
    if given is not None and kind is not str and np.size(given) == 1:
        with suppress(InvalidArgumentError):
            return as_elements(np.ravel(given)[0], np.dtype(kind), "_FillValue")[()]
    if given is not None:
        lost.append(f"attribute _FillValue of {name} ({given!r:.80} is no value of its type)")
    has_own = v._reading().fill is not None and kind is not str and kind != "S1"
    return v.fill_value if has_own else None


def _grows(v: Variable, *, steps: bool) -> tuple[bool, ...]:
    """Whether each axis is to grow in the file, that of the steps as it is said."""
    grows = (*([steps] if v.has_steps else []), *v.growable)
    return (*grows, *(False for _ in v.shape[len(grows) :]))  # a member of a record has axes of its own


def _axes(c: Container, v: Variable, variable: str, lost: list[str]) -> list[Axis]:
    """The axes of a variable in netCDF; a text of one length is a row of characters."""
    axes = []
    for d, (name, n, grows) in enumerate(zip(_dims(v), _shape(c, v), _grows(v, steps=True), strict=True)):
        usable = "/" not in name and _is_netcdf_name(name)
        if not usable:
            lost.append(f"{variable}: that a dimension is called {name} (no name in netCDF)")
        axes.append(Axis(name if usable else f"n{n}", n, grows, shares=v.has_steps and d == 0))
    if v.dtype.kind == "S" and v.dtype.itemsize > 1:
        axes.append(Axis(f"string{v.dtype.itemsize}", v.dtype.itemsize))
    return axes


class _Whole:
    """A dataset of h5py, which takes longer to learn what part of it is meant than HDF5 to write little: if it is all, it need not."""

    def __init__(self, target: Any, shape: tuple[int, ...]) -> None:
        self._target = target
        self._shape = shape

    def __setitem__(self, box: Any, piece: npt.NDArray[Any]) -> None:
        import h5py

        if np.shape(piece) == self._shape and self._shape and piece.flags.c_contiguous:
            self._target.id.write(h5py.h5s.ALL, h5py.h5s.ALL, piece)
        else:
            self._target[box] = piece


class _Converted:
    """Where values are written to that the file has in another form."""

    def __init__(self, target: Any, converted: Callable[[npt.NDArray[Any]], Any]) -> None:
        self._target = target
        self._converted = converted

    def __setitem__(self, box: Any, piece: npt.NDArray[Any]) -> None:
        self._target[box or ...] = self._converted(piece)


class _Room:
    """Room for texts, which is looked for before they are written: HDF5 crashes where there is none."""

    def __init__(self, path: Path, nbytes: int) -> None:
        self._path = path
        self._nbytes = nbytes

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The same; an OSError if they do not fit beside what was written before. Each takes some bytes more, and heaps are half full."""
        texts = np.ravel(values).tolist()
        self._nbytes += 2 * (len("".join(texts).encode()) + 48 * len(texts))
        there = os.statvfs(self._path.parent)
        if self._nbytes > self._path.stat().st_blocks * 512 + there.f_bavail * there.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return values


def _as_netcdf(values: npt.NDArray[Any], kind: Any, room: _Room) -> Any:
    """Values as netCDF takes them, where theirs is another type: a text of one length is a row of characters."""
    if kind is str:
        texts = np.ravel(room.taken(values)).tolist()
        cut = next((text for text in texts if "\0" in text), None)
        if cut is not None:
            raise ValueError(f"{cut[:80]!r}, of which netCDF takes what is before the NUL")
        return values if np.ndim(values) else np.asarray(values).item()
    if kind == "S1" and values.dtype.itemsize > 1:
        return np.ascontiguousarray(values)[..., None].view("S1")
    return values.astype(kind, copy=False)


class _Attributes:
    """Attributes of netCDF4, set by item."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, dict):
            raise TypeError("a dictionary")
        texts = [isinstance(item, str) for item in value] if isinstance(value, list) else []
        if any(texts) and not all(texts):
            raise TypeError("texts and others in one list")
        if any("\0" in text for text in (value if any(texts) else [value]) if isinstance(text, str)):
            raise ValueError("a text with a NUL")
        self._target.setncattr(name, value)


def _members(name: str, v: Variable) -> Iterator[tuple[str, Variable]]:
    if v.dtype.names is None:
        yield name, v
        return
    for member in v.dtype.names:
        yield from _members(f"{name}.{member}", v[member])


def _of_netcdf(v: Variable, name: str, lost: list[str]) -> Any:
    """The type there; None if there is none."""
    if v.local:
        lost.append(f"{name} (a local variable has no one array)")
        return None
    if not _is_netcdf_name(name):
        lost.append(f"{name} (no name in netCDF)")
        return None
    kind, itemsize = v.dtype.kind, v.dtype.itemsize
    if kind in "OU":
        return str
    if kind == "b":
        return "i1"
    if kind == "S":
        return "S1"
    if (kind in "iu" and itemsize <= 8) or (kind == "f" and itemsize in (4, 8)):
        return v.dtype
    if kind == "f" and itemsize == 2:
        lost.append(f"{name}: its type float16 (the values are kept as float32)")
        return "f4"
    lost.append(f"{name} (netCDF-4 has no {v.dtype})")
    return None
