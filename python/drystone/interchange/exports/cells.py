"""The cells of variables in pieces for a file, and the description of a variable for formats."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator
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
"""Bytes of a piece, of which two are in memory: runs of a box are then mostly longer than the 64 KiB below which HDF5 buffers them."""
STEP_DIM = "_step_dim"

Row = tuple[str, tuple[int, ...], int]
"""What is shown of a variable that was written: name, shape, bytes."""
Write = Callable[[tuple[slice, ...], npt.NDArray[Any]], None]


def pieces(v: Variable, key: Any, progress: Progress) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """The pieces of a selection, in row-major order."""
    for box, piece in _listed(v, key) if _has_lists(key) else v.pieces(key, MOST):
        yield box, piece
        interruption.check()
        progress.add(piece.nbytes)


def _listed(v: Variable, key: Any) -> Iterator[tuple[tuple[slice, ...], npt.NDArray[Any]]]:
    """The pieces of a selection with lists."""
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
    if _has_lists(key) or along_chunks:  # a chunk that is written in parts is read again in between
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
    """Names of the axes; those without are named by their length, so that equal ones are one dimension."""
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
    """Name the variable whose values a package refuses to write, such as texts that are no Unicode."""
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
    """Every cell, where steps are packed: those that are not there are left out."""
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
    """Its attributes, but for the one that `import` keeps for itself."""
    return {name: value for name, value in v.attrs.items() if name != STEP_DIM}


def set_attrs(target: Any, attrs: dict[str, Any], where: str, lost: list[str]) -> None:
    """Set attributes; those that the format refuses are named as lost."""
    for name, value in attrs.items():
        if isinstance(value, bool):
            value = np.int8(value)
        if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "mM":
            lost.append(f"attribute {name} of {where or '/'}: its type {value.dtype} (it is a text there)")
            texts = [str(one) for one in np.ravel(value)]
            value = texts if np.ndim(value) else texts[0]
        try:
            target[name] = value
        except (TypeError, ValueError, RuntimeError, KeyError, AttributeError) as error:  # the last: netCDF4
            lost.append(f"attribute {name} of {where or '/'} ({error})")


def total(c: Container, variables: list[Variable]) -> int:
    """Bytes of the values that are written."""
    return sum(math.prod(shape_of(c, v)) * v.dtype.itemsize for v in variables if not v.local)


def grows(v: Variable, *, steps: bool) -> tuple[bool, ...]:
    """Whether each axis can grow in the file; for the step axis as given."""
    grows = (*([steps] if v.has_steps else []), *v.growable)
    return (*grows, *(False for _ in v.shape[len(grows) :]))  # a member of a record has axes of its own


class Converted:
    """Where values are written to that the file has in another form."""

    def __init__(self, target: Any, converted: Callable[[npt.NDArray[Any]], Any]) -> None:
        self._target = target
        self._converted = converted

    def __setitem__(self, box: Any, piece: npt.NDArray[Any]) -> None:
        self._target[box or ...] = self._converted(piece)


class Room:
    """Space for texts, checked before they are written: HDF5 crashes if the disk is full."""

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
