"""Exports variables to HDF5, with h5py."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone import _core
from drystone.container import Container
from drystone.interchange import formats
from drystone.interchange.exports import cells, placed
from drystone.interchange.exports.stored import Stored
from drystone.interchange.formats import bfloat16, references, scales, times
from drystone.lists import ragged_element, reference_kind
from drystone.progress import Progress
from drystone.variable import Variable


def write(
    c: Container,
    variables: list[Variable],
    path: Path,
    lost: list[str],
    stored: Stored,
    progress: Progress,
) -> list[cells.Row]:
    """Write variables, their groups and attributes; losses are recorded."""
    import h5py

    rows: list[cells.Row] = []
    later: list[tuple[Variable, Any]] = []
    total = cells.total(c, variables)
    progress.expect(total)
    with _written(path) as file:
        _core.find_room(path, total)
        room, plain = cells.Room(path, total), _Plain(file)
        cells.set_attrs(_Attributes(file), dict(c.attrs), "", lost, scales.RESERVED)
        for name, group in c.groups.items():
            cells.set_attrs(
                _Attributes(file.require_group(name)), dict(group.attrs), name, lost, scales.RESERVED
            )
        for v in variables:
            if v.local:
                lost.append(f"{v.name} (a local variable has no one array)")
                continue
            name, shape = v.name if v.member is None else f"{v.name}.{v.member}", cells.shape_of(c, v)
            if (leads := reference_kind(v.dtype)) is not None:
                later.append((v, _Led(_references(file, name, shape, leads, v, lost), leads, lost)))
                rows.append((name, shape, math.prod(shape) * v.dtype.itemsize))
                continue
            kind = _of_h5py(v.dtype)
            if v.dtype.names is not None and (widened := _widened(v.dtype)):
                lost.append(
                    f"{name}: the type bfloat16 of {', '.join(widened)} (the values are kept as float32)"
                )
            if v.dtype.names is not None and (timed := _timed(v.dtype)):
                lost.append(f"{name}: that {', '.join(timed)} are times (the numbers are kept)")
            texts = kind.hasobject
            leads_on = v.dtype.names is not None and _leads(v.dtype)
            cut = stored.cut(v)
            packs = stored.level is not None and not texts and 0 not in shape and bool(shape)
            grows = cells.grows(v, steps=False)
            chunks: Any = None
            if cut and 0 not in shape and 0 not in cut:
                chunks = tuple(min(edge, n) for edge, n in zip(cut, shape, strict=True))
            elif any(grows) or packs:
                chunks = True
            fill = None if texts or v.dtype.names else v.fill_value
            is_time = times.is_time(v.dtype)
            if is_time:
                fill = times.numbers(np.asarray(fill))[()]
            is_bfloat16 = bfloat16.is_bfloat16(kind)
            if is_bfloat16:
                fill = np.float32(fill)
            is_plain = (
                chunks is None
                and fill is not None
                and kind.kind in "iuf"
                and not (is_time or kind.metadata)
                and 0 not in shape
            )
            if is_plain:
                target = plain.create(name, shape, kind, fill)
            else:
                target = file.create_dataset(
                    name,
                    shape,
                    h5py.Datatype(bfloat16.in_hdf5()) if is_bfloat16 else kind,
                    chunks=chunks,
                    maxshape=tuple(None if g else n for g, n in zip(grows, shape, strict=True))
                    if any(grows)
                    else None,
                    fillvalue=fill,
                    **({"compression": stored.level, "shuffle": True} if packs else {}),
                    dcpl=_unfilled() if _all_written(shape, chunks) and not texts else None,
                )
            if v.dims or v.has_steps:
                for dim, label in zip(target.dims, cells.dims_of(v), strict=True):
                    dim.label = label
            said = times.attributes(v.dtype) if is_time else {}
            cells.set_attrs(_Attributes(target), said | cells.attrs_of(v), name, lost, scales.RESERVED)
            differs = v.dtype.names and (texts or kind != v.dtype)
            if differs:
                led = partial(_led, file=file, name=name, lost=lost)
                into: Any = cells.Converted(target, partial(_as_hdf5_takes, dtype=kind, led=led))
                if leads_on:  # when all that they lead to is there
                    later.append((v, into))
                    rows.append((name, shape, math.prod(shape) * kind.itemsize))
                    continue
            elif ragged_element(v.dtype) is not None:
                into = _Lists(target)
            elif texts:
                into = cells.Converted(target, room.taken)
            elif is_bfloat16:
                into = _OfBfloat16(target)
            elif is_time:
                into = cells.Converted(target, times.numbers)
            else:
                into = target if v.dtype.names else _Whole(target, shape)
            begin = begin_of(target, v.dtype) if is_plain else None
            with cells.named(name):
                if begin is not None:
                    with placed.Rows(path, begin, shape) as lines:
                        cells.copy(c, v, lines, progress, at_once=True)
                else:
                    cells.copy(c, v, into, progress, along_chunks=target.chunks is not None)
            target.flush()  # closing can fail; dropping the dataset would hide that
            rows.append((name, shape, math.prod(shape) * kind.itemsize))
        if (
            c.steps
            and any(v.has_steps for v in variables)
            and "step" not in file
            and c.steps != list(range(len(c.steps)))
        ):
            file["step"] = np.array(c.steps, np.int64)
        for v, led in later:
            cells.copy(c, v, led, progress)
    return rows


def begin_of(dataset: Any, dtype: np.dtype[Any]) -> int | None:
    """The offset of a contiguous dataset in the file, if it stores values of a type as they are in memory."""
    is_same = dataset.dtype == dtype and dtype.isnative
    if (
        not is_same
        or dataset.nbytes <= formats.SMALL
        or dataset.chunks is not None
        or dataset.file.userblock_size
    ):
        return None
    begin: int | None = dataset.id.get_offset()
    return begin


@contextmanager
def _written(path: Path) -> Iterator[Any]:
    """Create a file without HDF5's buffer of 64 KiB, which handles shorter runs of a box by reading around them.

    HDF5 writes its buffered data when the file is closed. If that fails, for example on a full disk, the process
    crashes when it ends. After an earlier failure the file is therefore closed into memory: it will be removed anyway.
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
    """Whether exactly the cells of a dataset are stored: chunks may extend beyond its edge."""
    return chunks is None or (
        chunks is not True and all(n % edge == 0 for n, edge in zip(shape, chunks, strict=True))
    )


def _unfilled() -> Any:
    """Creation properties of a dataset whose cells are all written: without them HDF5 would fill it first."""
    import h5py

    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    return creation


class _Plain:
    """Creates contiguous datasets of numbers whose cells are all written.

    h5py takes more time per dataset than HDF5 itself.
    """

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
        if math.prod(shape) * dtype.itemsize > formats.SMALL:  # written without HDF5, see `_begin`
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
    """HDF5 does not know NumPy's U, but UTF-8 texts: of any length, in records of fixed length."""
    import h5py

    if (element := ragged_element(dtype)) is not None:
        lists: np.dtype[Any] = h5py.vlen_dtype(element)
        return lists
    if dtype.kind in "OU":
        text: np.dtype[Any] = h5py.string_dtype()
        return text
    return dtype if bfloat16.is_bfloat16(dtype) else _of_h5py_member(dtype)


def _of_h5py_member(dtype: np.dtype[Any]) -> np.dtype[Any]:
    import h5py

    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return np.dtype((_of_h5py_member(element), shape))
    if dtype.names is not None:
        members = [(name, _of_h5py_member(dtype[name])) for name in dtype.names]
        same = not dtype.hasobject and all(dtype[name] == kind for name, kind in members)
        return dtype if same else np.dtype(members)
    if times.is_time(dtype):
        return np.dtype(np.int64)
    if dtype.kind == "O":
        leads = reference_kind(dtype)
        if leads is None:
            return _of_h5py(dtype)
        reference: np.dtype[Any] = h5py.ref_dtype if leads == "object" else h5py.regionref_dtype
        return reference
    if dtype.kind == "U":
        text: np.dtype[Any] = h5py.string_dtype("utf-8", dtype.itemsize)  # at most four bytes per character
        return text
    # h5py cannot read records with members that it shows as longer than they are stored.
    return np.dtype(np.float32) if bfloat16.is_bfloat16(dtype) else dtype


def _widened(dtype: np.dtype[Any]) -> list[str]:
    """The members of type bfloat16."""
    out = []
    for name in dtype.names or ():
        member = dtype[name].base
        out += [f"{name}.{inner}" for inner in _widened(member)]
        out += [name] if bfloat16.is_bfloat16(member) else []
    return out


def _timed(dtype: np.dtype[Any]) -> list[str]:
    """The members that are times."""
    out = []
    for name in dtype.names or ():
        member = dtype[name].base
        out += [f"{name}.{inner}" for inner in _timed(member)]
        out += [name] if times.is_time(member) else []
    return out


def _leads(dtype: np.dtype[Any]) -> bool:
    """Whether a record has references."""
    members = [dtype[name].base for name in dtype.names or ()]
    return any(reference_kind(member) is not None or _leads(member) for member in members)


def _as_hdf5_takes(
    values: npt.NDArray[Any],
    dtype: np.dtype[Any],
    led: Callable[[str, str], Any] = lambda name, kind: None,
) -> npt.NDArray[Any]:
    """Records in HDF5's types.

    Fixed texts become UTF-8 bytes, bfloat16 becomes float32, and names become references to what they name, which
    `led` finds.
    """
    if values.dtype.names is None:
        if (kind := reference_kind(values.dtype)) is not None:
            out = np.empty(values.shape, dtype)
            for place in np.ndindex(values.shape):
                out[place] = led(str(values[place]), kind)
            return out
        if times.is_time(values.dtype):
            return values.view(np.int64)
        return np.strings.encode(values, "utf-8").astype(dtype) if values.dtype.kind == "U" else values
    out = np.empty(values.shape, dtype)
    for name in values.dtype.names:
        out[name][...] = _as_hdf5_takes(values[name], dtype[name].base, led)
    return out


class _Whole:
    """Writes whole h5py datasets without a selection: h5py handles selections more slowly than HDF5 writes."""

    def __init__(self, target: Any, shape: tuple[int, ...]) -> None:
        self._target = target
        self._shape = shape

    def __setitem__(self, box: Any, piece: npt.NDArray[Any]) -> None:
        import h5py

        if np.shape(piece) == self._shape and self._shape and piece.flags.c_contiguous:
            self._target.id.write(h5py.h5s.ALL, h5py.h5s.ALL, piece)
        else:
            self._target[box] = piece


class _Attributes:
    """Attributes of an object; a list of arrays becomes a list of any length in each element."""

    def __init__(self, target: Any) -> None:
        self._attrs = target.attrs

    def __setitem__(self, name: str, value: Any) -> None:
        import h5py

        if not (isinstance(value, list) and value and all(isinstance(one, np.ndarray) for one in value)):
            self._attrs[name] = value
            return
        lists = np.empty(len(value), object)
        lists[:] = value
        self._attrs.create(name, lists, dtype=h5py.vlen_dtype(np.result_type(*value)))


class _Lists:
    """A dataset of lists of numbers: h5py would turn lists of equal length into another axis."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __setitem__(self, box: Any, piece: npt.NDArray[Any]) -> None:
        import h5py

        values = np.empty(np.shape(piece), self._target.dtype)
        values[...] = piece
        file = self._target.id.get_space()
        memory = h5py.h5s.ALL
        if values.ndim:
            file.select_hyperslab(tuple(part.start for part in box), values.shape)
            memory = h5py.h5s.create_simple(values.shape)
        self._target.id.write(memory, file, values, h5py.h5t.py_create(values.dtype))


def _references(file: Any, name: str, shape: tuple[int, ...], kind: str, v: Variable, lost: list[str]) -> Any:
    """A dataset of references, which are written once all their targets exist."""
    import h5py

    target = file.create_dataset(name, shape, h5py.ref_dtype if kind == "object" else h5py.regionref_dtype)
    if v.dims or v.has_steps:
        for dim, label in zip(target.dims, cells.dims_of(v), strict=True):
            dim.label = label
    cells.set_attrs(_Attributes(target), cells.attrs_of(v), name, lost, scales.RESERVED)
    return target


def _led(leads_to: str, kind: str, *, file: Any, name: str, lost: list[str]) -> Any:
    """The reference to a named target; to nothing, which is named as lost, if the file has no such target."""
    import h5py

    found = references.led(leads_to, kind, file)
    if found is None:
        lost.append(f"{name}: the reference to {leads_to!r:.80}, which is not in the file")
        return h5py.Reference() if kind == "object" else h5py.RegionReference()
    return found


class _Led:
    """A dataset of references. Assigned names become references; names without a target are recorded as lost."""

    def __init__(self, target: Any, kind: str, lost: list[str]) -> None:
        self._target, self._kind, self._lost = target, kind, lost

    def __setitem__(self, box: Any, piece: Any) -> None:
        found = np.asarray(piece, object)
        starts = [0] * found.ndim if box in ((), ...) else [part.start for part in box]
        for place in np.ndindex(found.shape):
            led = references.led(str(found[place]), self._kind, self._target.file)
            if led is None:
                self._lost.append(
                    f"{self._target.name[1:]}: the reference to {found[place]!r:.80}, which is not in the file"
                )
                continue
            self._target[tuple(a + b for a, b in zip(starts, place, strict=True))] = led


class _OfBfloat16:
    """A dataset of bfloat16, which h5py would store as float32."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __setitem__(self, box: Any, piece: npt.NDArray[Any]) -> None:
        bfloat16.write(self._target, () if box is ... else box, np.asarray(piece))
