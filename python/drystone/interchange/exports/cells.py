"""Reads the cells of variables in pieces for a file, and describes variables for formats."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone import views
from drystone.container import Container
from drystone.errors import DrystoneError, InvalidArgumentError
from drystone.interchange import formats, interruption
from drystone.interchange.exports import placed
from drystone.progress import Progress
from drystone.selection import select
from drystone.variable import Variable

MOST = 12 << 20
"""Bytes of a piece; two are in memory. Contiguous runs of a box then mostly exceed 64 KiB, below which HDF5 buffers
them."""
STEP_DIM = "_step_dim"

Row = tuple[str, tuple[int, ...], int]
"""The result for one written variable: name, shape, bytes."""
Write = Callable[[tuple[slice, ...], npt.NDArray[Any]], None]


def pieces(v: Variable, key: Any, progress: Progress) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """The pieces of a selection, in row-major order."""
    for box, piece in _listed(v, key) if _has_lists(key) else v.pieces(key, MOST):
        yield box, piece
        interruption.check()
        progress.add(piece.nbytes)


def _listed(v: Variable, key: Any) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """The pieces of a selection that contains lists."""
    reading = v._reading()
    item = 64 if reading.strings else reading.item
    for box, wanted in select(key, reading.shape).parts(MOST // max(1, item)):
        yield box, np.asarray(views.read(reading, wanted)).reshape(wanted.shape)


def _has_lists(key: Any) -> bool:
    return any(isinstance(item, list) for item in (key if isinstance(key, tuple) else (key,)))


def fill(
    v: Variable,
    key: Any,
    progress: Progress,
    write: Write,
    *,
    along_chunks: bool = False,
    at_once: bool = False,
) -> None:
    """Write a selection piece by piece, in the fastest order.

    One piece at a time, or two if `write` permits that.
    """
    if _has_lists(key) or along_chunks:  # a chunk written in parts would be read again in between
        for box, piece in pieces(v, key, progress):
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
        and 0 < math.prod(shape) * dtype.itemsize <= formats.SMALL
        and not dtype.hasobject
    ):
        counted(tuple(slice(0, n) for n in shape), v.read())
        return
    least = placed.LEAST if at_once else views.LEAST
    views.in_rows(v._reading(), key, MOST, counted, least=least, at_once=at_once)


def dims_of(v: Variable) -> tuple[str, ...]:
    """Names of the axes. Unnamed axes are named after their length, so that equal ones share a dimension."""
    own = v.shape[v.has_steps :]
    names = v.dims or tuple(f"n{n}" for n in own[: len(own)])
    names = (*names, *(f"n{n}" for n in own[len(names) :]))
    return (str(v.attrs.get(STEP_DIM, "step")), *names) if v.has_steps else names


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
def named(name: str) -> Iterator[None]:
    """Add the variable's name to errors about values that a package refuses, such as texts that are not Unicode."""
    try:
        yield
    except ValueError as error:
        if isinstance(error, DrystoneError):
            raise
        raise InvalidArgumentError(
            f'"{name}" holds what cannot be written there: {error}; export the others by their names'
        ) from None


def copy(
    c: Container,
    v: Variable,
    target: Any,
    progress: Progress,
    *,
    along_chunks: bool = False,
    at_once: bool = False,
) -> None:
    """Selects every cell; absent steps are left out, since steps are packed."""
    act = partial(fill, v, progress=progress, along_chunks=along_chunks, at_once=at_once)
    if not v.has_steps:
        act(key=..., write=target.__setitem__)
        return
    done = 0
    for run in _steps(v, c.steps):

        def write(box: tuple[slice, ...], piece: npt.NDArray[Any], done: int = done) -> None:
            target[(slice(done + box[0].start, done + box[0].stop), *box[1:])] = piece

        act(key=(run, ...), write=write)
        done += run.stop - run.start


def shape_of(c: Container, v: Variable) -> tuple[int, ...]:
    """Its shape in a file, where steps are packed."""
    return (len(c.steps), *v.shape[1:]) if v.has_steps else v.shape


def attrs_of(v: Variable) -> dict[str, Any]:
    """Its attributes, except the one that `import` reserves for itself."""
    return {name: value for name, value in v.attrs.items() if name != STEP_DIM}


def set_attrs(
    target: Any, attrs: dict[str, Any], where: str, lost: list[str], reserved: Collection[str] = ()
) -> None:
    """Set attributes; those that the format refuses or has `reserved` are recorded as lost."""
    for name, value in attrs.items():
        if name in reserved:
            lost.append(f"attribute {name} of {where or '/'} (HDF5 and netCDF reserve the name)")
            continue
        if isinstance(value, bool):
            value = np.bool_(value)  # h5py has no attributes of Python's type
        if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "mM":
            lost.append(f"attribute {name} of {where or '/'}: its type {value.dtype} (it is a text there)")
            texts = [str(one) for one in np.ravel(value)]
            value = texts if np.ndim(value) else texts[0]
        try:
            target[name] = value
        except (TypeError, ValueError, RuntimeError, KeyError, AttributeError) as error:  # the last: netCDF4
            lost.append(f"attribute {name} of {where or '/'} ({error})")


def total(c: Container, variables: list[Variable]) -> int:
    """Bytes of the written values."""
    return sum(math.prod(shape_of(c, v)) * v.dtype.itemsize for v in variables if not v.local)


def grows(v: Variable, *, steps: bool) -> tuple[bool, ...]:
    """Whether each axis can grow in the file; the step axis as given."""
    grows = (*([steps] if v.has_steps else []), *v.growable)
    return (*grows, *(False for _ in v.shape[len(grows) :]))  # a member of a record adds axes


class Converted:
    """A target for values that the file stores in another form."""

    def __init__(self, target: Any, converted: Callable[[npt.NDArray[Any]], Any]) -> None:
        self._target = target
        self._converted = converted

    def __setitem__(self, box: Any, piece: npt.NDArray[Any]) -> None:
        self._target[box or ...] = self._converted(piece)


class Room:
    """Reserves space for texts before they are written: HDF5 crashes if the disk is full."""

    def __init__(self, path: Path, nbytes: int) -> None:
        self._path = path
        self._nbytes = nbytes

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Check that these texts fit beside the earlier ones, else raise an OSError.

        Each takes a few extra bytes, and heaps are half full.
        """
        texts = np.ravel(values).tolist()
        self._nbytes += 2 * (len("".join(texts).encode()) + 48 * len(texts))
        there = os.statvfs(self._path.parent)
        if self._nbytes > self._path.stat().st_blocks * 512 + there.f_bavail * there.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return values


def parts_of(v: Variable) -> Iterator[tuple[str, Variable]]:
    """The members of a record, one level down: their names, and each of them as a variable.

    A member that is a record is one; of an array of records, each element is.
    """
    for name in v.dtype.names or ():
        member = v.dtype[name]
        if member.base.names is None or not member.shape:
            yield name, v[name]
            continue
        for index in np.ndindex(member.shape):
            element = f"{name}[{','.join(map(str, index))}]"
            yield element, v[element]


def scalar_fill(value: Any) -> Any:
    """The fill value of a cell's element; None if the member is an array whose elements have several."""
    values = np.ravel(value)
    if np.ndim(value) == 0:
        return value
    same = np.all((values == values[0]) | ((values != values) & (values[0] != values[0])))
    return values[0] if same else None
