"""`drystone import`: a file of another format into a container, box by box."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.commands import interruption
from drystone.commands.formats import READERS, SMALL, Array, Box, Contents, boxes, format_of, reader
from drystone.commands.outcome import Outcome, size, table
from drystone.commands.progress import Progress
from drystone.container import Container
from drystone.counted import counted
from drystone.errors import CorruptError, DrystoneError, InvalidArgumentError, IoError, UnsupportedError
from drystone.location import named
from drystone.undoing import Addition
from drystone.values import fill_bytes

_MOST = 8 << 20
"""Bytes of a box, of which two are in memory."""
_MOST_LYING = 32 << 20
"""Bytes of one that is put from where it lies in the file: the fewer and larger, the better a block is cut."""
_MOST_DIMENSIONS = 8
_COLUMN = 32
"""Characters of names in a column of the table."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("file", type=Path, help="an HDF5, netCDF, Zarr, .npy or ADIOS BP file")
    parser.add_argument("container", type=named, help="the container: created, or added to")
    parser.add_argument("--format", choices=READERS, help="if neither contents nor name of the file say it")
    parser.add_argument("--group", default="", help="put everything below this group")
    parser.add_argument(
        "--only", action="append", metavar="PATH", help="this array or group alone; may be repeated"
    )
    parser.add_argument(
        "--steps", metavar="DIM", help="this dimension becomes the steps, where it comes first"
    )
    parser.add_argument(
        "--into-existing",
        action="store_true",
        help="create the container also in a folder that holds other files",
    )
    parser.add_argument("--transform", help="codecs for everything, as in shuffle,zstd:1")


def run(given: argparse.Namespace) -> Outcome:
    """Copy; what cannot be stored is named, and the rest is copied."""
    name = given.format or format_of(given.file)
    below = f"{given.group.strip('/')}/" if given.group.strip("/") else ""
    with _opened(name, given.file) as contents:
        step_dim = given.steps or contents.step_dim
        wanted = [a for a in contents.arrays if _is_wanted(a.path, given.only)]
        for path in given.only or ():
            if not any(_is_wanted(a.path, [path]) for a in wanted):
                known = ", ".join(a.path for a in contents.arrays[:20])
                raise InvalidArgumentError(f'{given.file} has nothing named "{path}"; it has: {known}')
        if given.steps and not any(_has_steps(a, step_dim) for a in wanted):
            firsts = sorted({a.dims[0] for a in wanted if a.dims})
            raise InvalidArgumentError(
                f'nothing in {given.file} has "{given.steps}" as its first dimension; there are: {", ".join(firsts) or "none"}'
            )
        adding = Addition.to(given.container, into_existing=given.into_existing)
        try:
            adding.begin(below + path for path in (*contents.groups, *(a.path for a in wanted)))
            copied = _copy(adding.container, below, contents, wanted, given, step_dim)
        except BaseException:
            adding.undo()
            raise
        adding.finish()
    rows = [("name", "dtype", "shape", "size")]
    rows += [
        (c["name"], _shown(a.dtype), str(a.shape), size(a.nbytes))
        for c, a in zip(copied, wanted, strict=True)
    ]
    data = {"format": name, "container": str(given.container), "variables": copied, "lost": contents.lost}
    return Outcome(table(rows), data, [f"not taken over: {what}" for what in contents.lost])


def _shown(dtype: np.dtype[Any]) -> str:
    """A type in a column; of records the members, if these are few."""
    if dtype.names is None:
        return str(dtype)
    names = ", ".join(dtype.names)
    return f"record({names})" if len(names) <= _COLUMN else f"record of {counted(len(dtype.names), 'member')}"


@contextmanager
def _opened(name: str, path: Path) -> Iterator[Contents]:
    """A file, through the package of its format, each of which fails in its own way."""
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
    c: Container,
    below: str,
    contents: Contents,
    wanted: list[Array],
    given: argparse.Namespace,
    step_dim: str | None,
) -> list[dict[str, Any]]:
    """Copies arrays; tells of each what it is."""
    copied: list[dict[str, Any]] = []
    with Progress(sum(a.nbytes for a in wanted)) as progress:
        _create(c, below, contents, wanted, given, step_dim)
        with c.writer() as w, ThreadPoolExecutor(1) as ahead:
            for array, following in zip_longest(wanted, wanted[1:]):
                steps = _has_steps(array, step_dim)
                for box, values in _read_ahead(array, ahead):
                    if (
                        following is not None
                        and following.ask
                        and max(array.nbytes, following.nbytes) <= SMALL
                    ):
                        following.ask(tuple(slice(0, n) for n in following.shape))
                    _put(w, below + array.path, box, values, steps, array.present)
                    interruption.check()
                    progress.add(values.nbytes)
                copied.append(
                    {
                        "name": below + array.path,
                        "dtype": str(array.dtype),
                        "shape": array.shape,
                        "bytes": array.nbytes,
                    }
                )
        c.commit()
        c.flush()
    return copied


def _is_wanted(path: str, only: list[str] | None) -> bool:
    return not only or any(path == o.strip("/") or path.startswith(o.strip("/") + "/") for o in only)


def _has_steps(array: Array, dim: str | None) -> bool:
    return dim is not None and bool(array.dims) and array.dims is not None and array.dims[0] == dim


def _create(
    c: Any,
    below: str,
    contents: Contents,
    wanted: list[Array],
    given: argparse.Namespace,
    step_dim: str | None,
) -> None:
    """Groups and variables, as one commit."""
    with c.batch():
        for path, attrs in contents.groups.items():
            if not given.only and (path or below or attrs):
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
                    str if array.dtype.kind == "O" else array.dtype,
                    shape,
                    dims=_distinct(array, contents)[own] if array.dims else None,
                    steps=steps,
                    transform=given.transform,
                    chunks=chunks,
                    fill_value=_fill(array),
                    attrs={
                        **array.attrs,
                        **({"_step_dim": step_dim} if steps and step_dim != "step" else {}),
                    },
                )
                if None in shape and 0 in array.shape:
                    made.resize(array.shape[own])  # no cell will make it grow
            except UnsupportedError as error:
                contents.lost.append(f"{array.path} ({error})")
                wanted.remove(array)


def _distinct(array: Array, contents: Contents) -> tuple[str, ...]:
    """The names of the dimensions; one that stands twice gets a number."""
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
    """The chunks of the file, if one is neither the whole nor tiny."""
    chunks = array.chunks[1:] if array.chunks and steps else array.chunks
    shape = array.shape[1:] if steps else array.shape
    if not chunks or all(c >= n for c, n in zip(chunks, shape, strict=True)):
        return None
    return chunks if math.prod(chunks) * array.dtype.itemsize >= 1 << 14 else None


def _fill(array: Array) -> Any:
    if array.fill is None:
        return None
    try:
        fill_bytes(array.fill, array.dtype, False)
    except InvalidArgumentError:
        return None
    return array.fill


def _read_ahead(array: Array, ahead: ThreadPoolExecutor) -> Iterator[tuple[Box, npt.NDArray[Any]]]:
    """Each box, while the next is being read, if it has to be, and that takes a while."""
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
        # Scalars of NumPy have lost what is empty of their texts, and so the length of the type.
        return values if box else np.asarray(values, array.dtype)
    except (DrystoneError, OSError, MemoryError):
        raise
    except Exception as error:  # of whatever package decodes it
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
