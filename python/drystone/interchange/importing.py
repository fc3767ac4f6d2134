"""Imports a file of another format into a container, box by box."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.asked import names, where
from drystone.container import Container
from drystone.errors import (
    CorruptError,
    DrystoneError,
    InvalidArgumentError,
    IoError,
    UnsupportedError,
    warn,
)
from drystone.hdf5.itself import use_hdf5_itself
from drystone.hdf5.stubs import is_stub
from drystone.interchange import interruption
from drystone.interchange.formats import READERS, SMALL, Array, Box, Contents, boxes, format_of, reader
from drystone.interchange.raw import copy_raw
from drystone.opening import open as open_container
from drystone.progress import Progress, Report
from drystone.undoing import Addition
from drystone.values import fill_bytes

_MOST = 8 << 20
"""Bytes of a box; two are in memory."""
_MOST_LYING = 32 << 20
"""Bytes of a box that is put directly from the mapped file: fewer and larger blocks are cut better."""
_WORTH_SAMPLING = 64 << 10
"""Smallest array, in bytes, for which codecs are chosen from samples."""
_MOST_DIMENSIONS = 8

Transform = str | Sequence[str | Mapping[str, Any]] | None


@dataclass(frozen=True)
class ImportedVariable:
    """A variable that an import wrote."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bytes: int
    """Bytes in memory; an estimate for texts."""


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    format: str
    container: str
    variables: list[ImportedVariable]
    lost: list[str]
    """Items that could not be stored."""


@dataclass(frozen=True)
class _Wanted:
    """The selection of an import, and its options."""

    below: str
    only: list[str]
    step_dim: str | None
    transform: Transform | EllipsisType


def import_file(
    file: str | os.PathLike[str],
    container: str | os.PathLike[str],
    *,
    format: str | None = None,
    group: str = "",
    only: str | Sequence[str] = (),
    steps: str | None = None,
    into_existing: bool = False,
    transform: Transform | EllipsisType = ...,
    declare: str | os.PathLike[str] | None = None,
    fragment: str | None = None,
    progress: Report | bool = False,
) -> Imported:
    """Copy a file of another format into a container, piece by piece.

    The container is created, or added to. An import that fails leaves the container unchanged. Items that cannot be
    stored are left out; a warning and `lost` name them. See docs/guide/import.md.

    Args:
        file: An HDF5, netCDF, Zarr, .npy or ADIOS BP file.
        container: A path or URL.
        format: One of `hdf5`, `netcdf`, `zarr`, `npy` and `adios`; by default the contents or the suffix of the file
            determine it.
        group: The group below which everything is put.
        only: Paths of arrays and groups of the file; by default all.
        steps: The dimension that becomes the steps of arrays that have it first.
        into_existing: Create the container also in a folder that holds other files.
        transform: Codecs for all variables, as in `create_variable`; None for none. By default `"auto"`, chosen from
            samples, for numbers of 64 KiB and more, and none for the rest.
        declare: A file in the dataset language (docs/reference/language.md), for raw files: the variables of its
            datasets are created, and the file is the memory of one of its fragments, step after step. A text that is
            already declared changes nothing, so the next file adds steps.
        fragment: The name of that fragment, which must need no parameter.
        progress: Called as `progress(done, total)` in bytes; returning False stops (`CancelledError`). True shows a
            bar if standard error is a terminal.

    """
    path, to = Path(file), where(container)
    if declare is not None or fragment is not None:
        return _raw(path, to, declare, fragment, into_existing, progress)
    name = format or format_of(path)
    if name not in READERS:
        raise InvalidArgumentError(f"{name!r} is not a known format: {', '.join(READERS)}")
    below = f"{group.strip('/')}/" if group.strip("/") else ""
    chosen = names(only)
    with _opened(name, path) as contents, Progress(progress) as bar:
        step_dim = steps or contents.step_dim
        wanted = [a for a in contents.arrays if _is_wanted(a.path, chosen)]
        for one in chosen:
            if not any(_is_wanted(a.path, [one]) for a in wanted):
                known = ", ".join(a.path for a in contents.arrays[:20])
                raise InvalidArgumentError(f'{path} has nothing named "{one}"; it has: {known}')
        if steps and not any(_has_steps(a, step_dim) for a in wanted):
            firsts = sorted({a.dims[0] for a in wanted if a.dims})
            raise InvalidArgumentError(
                f'nothing in {path} has "{steps}" as its first dimension; there are: {", ".join(firsts) or "none"}'
            )
        adding = Addition.to(to, into_existing=into_existing)
        try:
            adding.begin(below + one for one in (*contents.groups, *(a.path for a in wanted)))
            how = _Wanted(below, chosen, step_dim, transform)
            copied = _copy(adding.container, contents, wanted, how, bar)
        except BaseException:
            adding.undo()
            raise
        adding.finish()
    for what in contents.lost:
        warn(f"not preserved: {what}")
    return Imported(name, str(to), copied, contents.lost)


def _raw(
    path: Path,
    to: Any,
    declare: str | os.PathLike[str] | None,
    fragment: str | None,
    into_existing: bool,
    progress: Report | bool,
) -> Imported:
    if declare is None or fragment is None:
        raise InvalidArgumentError(
            "a raw file needs both: the text that declares it, and the fragment that it is"
        )
    with Progress(progress) as bar:
        container, made = copy_raw(path, to, Path(declare), fragment, bar, into_existing=into_existing)
    with open_container(to) as c:
        variables = [ImportedVariable(n, c[n].dtype, c[n].shape, c[n].nbytes) for n in made]
    return Imported("raw", container, variables, [])


@contextmanager
def _opened(name: str, path: Path) -> Iterator[Contents]:
    """Open a file through the package of its format, and unify the packages' errors."""
    if name in ("hdf5", "netcdf"):
        if path.is_file() and is_stub(path):
            raise InvalidArgumentError(
                f"{path} is a container that an HDF5 program wrote through the connector; "
                f"make it a genuine HDF5 file first: drystone publish --hdf5 {path}"
            )
        use_hdf5_itself()
    with ExitStack() as stack:
        try:
            contents = stack.enter_context(reader(name).opened(path))
        except (DrystoneError, MemoryError, ImportError):
            raise
        except OSError as error:
            if str(path) in str(error):
                raise
            raise IoError(f"{path} cannot be read: {error}") from error
        except Exception as error:
            raise CorruptError(f"{path} cannot be read as {name}: {type(error).__name__}: {error}") from error
        yield contents


def _copy(
    c: Container, contents: Contents, wanted: list[Array], how: _Wanted, progress: Progress
) -> list[ImportedVariable]:
    """Copies arrays, and describes each."""
    copied: list[ImportedVariable] = []
    progress.expect(sum(a.nbytes for a in wanted))
    _create(c, contents, wanted, how)
    with c.writer() as w, ThreadPoolExecutor(1) as ahead:
        for array, following in zip_longest(wanted, wanted[1:]):
            steps, name = _has_steps(array, how.step_dim), how.below + array.path
            for box, values in _read_ahead(array, ahead):
                if following is not None and following.ask and max(array.nbytes, following.nbytes) <= SMALL:
                    following.ask(tuple(slice(0, n) for n in following.shape))
                _put(w, name, box, values, steps, array.present)
                interruption.check()
                progress.add(values.nbytes)
            copied.append(ImportedVariable(name, array.dtype, array.shape, array.nbytes))
    c.commit()
    c.flush()
    return copied


def _is_wanted(path: str, only: list[str]) -> bool:
    return not only or any(path == o.strip("/") or path.startswith(o.strip("/") + "/") for o in only)


def _has_steps(array: Array, dim: str | None) -> bool:
    return dim is not None and bool(array.dims) and array.dims is not None and array.dims[0] == dim


def _create(c: Any, contents: Contents, wanted: list[Array], how: _Wanted) -> None:
    """Create groups and variables, as one commit."""
    below, step_dim = how.below, how.step_dim
    with c.batch():
        for path, attrs in contents.groups.items():
            if not how.only and (path or below or attrs):
                _create_group(c, (below + path).strip("/"), attrs)
        for array in list(wanted):
            steps = _has_steps(array, step_dim)
            own = slice(1 if steps else 0, None)
            shape = [
                None if grows else n for n, grows in zip(array.shape[own], array.grows[own], strict=True)
            ]
            chunks = _chunks(array, steps)
            if len(shape) > _MOST_DIMENSIONS:
                contents.lost.append(
                    f"{array.path} ({len(shape)} dimensions; at most {_MOST_DIMENSIONS} are stored)"
                )
                wanted.remove(array)
                continue
            try:
                made = c.create_variable(
                    below + array.path,
                    str if array.dtype.kind == "O" and not array.dtype.metadata else array.dtype,
                    shape,
                    dims=_distinct(array, contents)[own] if array.dims else None,
                    steps=steps,
                    transform=_transform(array, how.transform),
                    chunks=chunks,
                    fill_value=_fill(array),
                    attrs={
                        **array.attrs,
                        **({"_step_dim": step_dim} if steps and step_dim != "step" else {}),
                    },
                )
                if None in shape and 0 in array.shape:
                    made.resize(array.shape[own])  # an empty axis would never grow
            except UnsupportedError as error:
                contents.lost.append(f"{array.path} ({error})")
                wanted.remove(array)


def _distinct(array: Array, contents: Contents) -> tuple[str, ...]:
    """The names of the dimensions; a repeated one gets a number."""
    names: list[str] = []
    for name in array.dims or ():
        made, number = name, 1
        while made in names:
            number += 1
            made = f"{name}_{number}"
        if made != name:
            contents.lost.append(
                f"{array.path}: that two of its dimensions are called {name} (one is now {made})"
            )
        names.append(made)
    return tuple(names)


def _create_group(c: Any, path: str, attrs: dict[str, Any]) -> None:
    if path:
        c.create_group(path, attrs)
    elif attrs:
        c.attrs.update(attrs)


def _chunks(array: Array, steps: bool) -> tuple[int, ...] | None:
    """The chunk shape of the file, unless it is the whole array or tiny."""
    chunks = array.chunks[1:] if array.chunks and steps else array.chunks
    shape = array.shape[1:] if steps else array.shape
    if not chunks or all(c >= n for c, n in zip(chunks, shape, strict=True)):
        return None
    return chunks if math.prod(chunks) * array.dtype.itemsize >= 1 << 14 else None


def _transform(array: Array, wanted: Transform | EllipsisType) -> Transform:
    """The codecs of a variable: as given, else chosen from a sample if the variable is large enough."""
    if wanted is not ...:
        return wanted
    return "auto" if array.dtype.kind in "biufc" and array.nbytes >= _WORTH_SAMPLING else None


def _fill(array: Array) -> Any:
    if array.fill is None:
        return None
    try:
        fill_bytes(array.fill, array.dtype, False)
    except InvalidArgumentError:
        return None
    return array.fill


def _read_ahead(array: Array, ahead: ThreadPoolExecutor) -> Iterator[tuple[Box, npt.NDArray[Any]]]:
    """Read each box while the one before is put, if reading takes time."""
    if array.lies or array.nbytes <= SMALL:
        for box in boxes(array.shape, None, array.dtype.itemsize, _MOST_LYING):
            yield box, _read(array, box)
        return
    before = None
    for box in boxes(array.shape, array.chunks, array.dtype.itemsize, _MOST):
        coming = box, ahead.submit(_read, array, box)
        if before is not None:
            yield before[0], before[1].result()
        before = coming
    if before is not None:
        yield before[0], before[1].result()


def _read(array: Array, box: Box) -> npt.NDArray[Any]:
    try:
        values = array.read(box)
        # NumPy's scalars have lost the padding of their texts, and so the length of the type.
        return values if box else np.asarray(values, array.dtype)
    except (DrystoneError, OSError, MemoryError):
        raise
    except Exception as error:  # any error of the decoding package
        raise CorruptError(f"{array.path} cannot be read: {error}") from error


def _put(
    w: Any,
    name: str,
    box: Box,
    values: npt.NDArray[Any],
    steps: bool,
    present: frozenset[int] | None,
) -> None:
    offset = [part.start for part in box]
    values = np.ascontiguousarray(values) if values.dtype.kind != "O" else values
    if not steps:
        w.put(name, values.reshape([part.stop - part.start for part in box]), offset=offset)
        return
    for step, block in enumerate(values, offset[0]):
        if present is not None and step not in present:
            continue
        with w.step(step):
            w.put(name, block, offset=offset[1:])
