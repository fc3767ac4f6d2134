"""ADIOS BP (3, 4, 5), through adios2: global and joined arrays and single values, their steps, attributes.

A variable in several steps becomes one with steps; a variable in a single step becomes one array. Only a walk through
the steps tells which steps have it, and its shape in each: for random access, adios2 reports the last step's shape,
and reads of BP5 omit or invent cells beyond another step's shape. Cells that were never put are in no block, and
adios2 leaves their memory unchanged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone.errors import CorruptError
from drystone.interchange.formats import Array, Box, Contents, apart, attributes

STEP = "step"
_TYPES = {
    "int8_t": "i1", "int16_t": "i2", "int32_t": "i4", "int64_t": "i8", "char": "i1",
    "uint8_t": "u1", "uint16_t": "u2", "uint32_t": "u4", "uint64_t": "u8",
    "float": "f4", "double": "f8", "float complex": "c8", "double complex": "c16", "string": "O",
}  # fmt: skip


def opened(path: Path) -> AbstractContextManager[Contents]:
    """Read a file or folder in another process, since adios2 crashes on some damaged files, and hangs on others."""
    return apart.opened(_opened, path, "adios2")


@contextmanager
def _opened(path: Path, asker: apart.Asker) -> Iterator[Contents]:
    import adios2

    try:
        with _plainly():
            file = adios2.FileReader(str(path))
    except RuntimeError as error:
        raise CorruptError(f"{path} cannot be read by adios2: {error}") from None
    with file:
        contents = Contents(step_dim=STEP)
        steps, variables = file.num_steps(), file.available_variables()
        if steps == 0 and any(part.stat().st_size > 0 for part in path.glob("data.*")):
            raise CorruptError(f"{path} names no step, but has data: its index is damaged")
        pairs: dict[str, list[tuple[str, Any]]] = {"": []}
        for name in file.available_attributes():
            owner, _, own = name.rpartition("/")
            if owner not in variables:
                owner, own = "", name
            pairs.setdefault(owner, []).append((own, file.read_attribute(name)))
        contents.groups[""] = attributes(pairs[""], "", contents)
        shapes = _shapes(path, asker) if steps > 1 else {}
        for name, about in variables.items():
            why = _no_path(name, variables)
            if why:
                contents.lost.append(f"{name!r} ({why})")
                continue
            attrs = attributes(pairs.get(name, []), name, contents)
            why = _not_taken(about, shapes.get(name, {}))
            if why:
                contents.lost.append(f"{name} ({why})")
                continue
            variable = _Variable(file, asker, name, about, shapes.get(name, {}))
            contents.lost.extend(variable.made_up())
            contents.arrays.append(variable.array(steps, attrs))
        yield contents


def _shapes(path: Path, asker: apart.Asker) -> dict[str, dict[int, tuple[int, ...]]]:
    """The shape of each variable in each step that has it."""
    import adios2

    found: dict[str, dict[int, tuple[int, ...]]] = {}
    with _plainly(), adios2.Stream(str(path), "r") as stream:
        for step, _ in enumerate(stream.steps()):
            asker.alive()
            for name, about in stream.available_variables().items():
                found.setdefault(name, {})[step] = _shape(about)
    return found


def _shape(about: dict[str, str]) -> tuple[int, ...]:
    return tuple(_numbers(about["Shape"]))


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n.strip()]


def _no_path(name: str, variables: Any) -> str:
    """Why the name is not valid for a variable of a container; None if it is."""
    own = name.lstrip("/")
    parts = own.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "not a valid path"
    if own != name and own in variables:
        return f"{own!r} is there too"
    if any("/".join(parts[:n]) in variables for n in range(1, len(parts))):
        return "what would be its group is a variable"
    return ""


def _not_taken(about: dict[str, str], shapes: dict[int, tuple[int, ...]]) -> str:
    """Why the array varies between steps, if it does."""
    told = int(about["AvailableStepsCount"])
    if about["Type"] not in _TYPES:
        return f"of type {about['Type']}"
    if about["SingleValue"] != "true" and not _shape(about):
        return "local arrays"
    if told > 1 and len(shapes) != told:
        return f"it says that {told} steps have it, {len(shapes)} do"
    if told > 1 and len({len(shape) for shape in shapes.values()}) > 1:
        return "another number of dimensions from one step to the next"
    return ""


class _Variable:
    """A variable of the file: its steps, and its shape and cells in each."""

    def __init__(
        self,
        file: Any,
        asker: apart.Asker,
        name: str,
        about: dict[str, str],
        shapes: dict[int, tuple[int, ...]],
    ) -> None:
        self._file = file
        self._asker = asker
        self._name = name
        self._dtype = np.dtype(_TYPES[about["Type"]])
        self._single = about["SingleValue"] == "true"
        self._many = int(about["AvailableStepsCount"]) > 1
        self._numbers = {step: n for n, step in enumerate(sorted(shapes))} if self._many else {0: 0}
        self._shapes = [shapes[step] for step in self._numbers] if self._many else [_shape(about)]
        self._whole = [True] * len(self._shapes) if self._single else _whole(file, name, self._shapes)
        self._fill = None
        if self._has_one_shape and all(self._whole):
            return
        self._fill = np.array(np.nan if self._dtype.kind in "fc" else 0, self._dtype)[()]

    @property
    def _has_one_shape(self) -> bool:
        return len(set(self._shapes)) == 1

    def made_up(self) -> Iterator[str]:
        """The warning about cells without a value in the file."""
        if self._fill is None:
            return
        kinds = ", ".join(str(list(shape)) for shape in list(dict.fromkeys(self._shapes))[:4])
        why = (
            "cells that are in no block"
            if self._has_one_shape
            else f"the shapes of its steps, such as {kinds}"
        )
        yield f"{self._name}: {why}: what is not there is {self._fill}"

    def array(self, steps: int, attrs: dict[str, Any]) -> Array:
        """The array, with the largest shape, in a file with this number of steps."""
        name, many = self._name.lstrip("/"), self._many
        shape = tuple(max(extents) for extents in zip(*self._shapes, strict=True))
        dims = (STEP, *(f"{name.replace('/', '_')}_{d}" for d in range(len(shape))))
        return Array(
            name,
            self._dtype,
            (steps, *shape) if many else shape,
            self._read,
            dims=dims if many else None,
            attrs=attrs,
            fill=self._fill,
            present=frozenset(self._numbers) if many and len(self._numbers) < steps else None,
            grows=(False,) * (len(shape) + many),
            chunks=(1, *shape) if many else None,
        )

    def _read(self, box: Box) -> Any:
        steps, own = (box[0], box[1:]) if self._many else (slice(0, 1), box)
        out = self._asker.room([part.stop - part.start for part in box], self._dtype)
        rows = out if self._many else out[None]
        for place, step in enumerate(range(steps.start, steps.stop)):
            self._read_step(step, own, rows[place, ...])
        return out

    def _read_step(self, step: int, own: Box, row: npt.NDArray[Any]) -> None:
        """Read a box of one step into an array of its shape."""
        number = self._numbers.get(step)
        missing = "" if self._dtype.kind == "O" else self._fill or 0
        if number is None:
            row[...] = missing
            return
        if self._single:
            row[...] = _value(self._file, self._name, number, self._dtype)
            return
        start = [part.start for part in own]
        there = self._shapes[number]
        part = [max(0, min(p.stop, n) - p.start) for p, n in zip(own, there, strict=True)]
        if part == list(row.shape) and self._dtype.kind != "O" and self._whole[number]:
            _box(self._file, self._name, start, part, number, row)
            return
        row[...] = missing
        if 0 not in part:
            value = np.full(part, missing, self._dtype)
            row[tuple(slice(0, n) for n in part)] = _box(self._file, self._name, start, part, number, value)


def _whole(file: Any, name: str, shapes: list[tuple[int, ...]]) -> list[bool]:
    """Whether every cell is in a block, for each step that has any; False if adios2 does not tell."""
    try:
        # BP3 and 4 report all steps, BP5 those that have the variable, with some repeated after them.
        found = [blocks for blocks in file.engine.all_blocks_info(name) if blocks]
    except (RuntimeError, ValueError):
        found = []
    if len(found) < len(shapes):
        return [False] * len(shapes)
    places = [[(_numbers(b["Start"]), _numbers(b["Count"])) for b in blocks] for blocks in found]
    return [_are_whole(of_step, shape) for of_step, shape in zip(places, shapes, strict=False)]


def _are_whole(blocks: list[tuple[list[int], list[int]]], shape: tuple[int, ...]) -> bool:
    """Whether these blocks contain every cell, as blocks of a grid or a single one do."""
    if 0 in shape:
        return True
    blocks = [(start, count) for start, count in blocks if 0 not in count]
    if not blocks or any((len(start), len(count)) != (len(shape),) * 2 for start, count in blocks):
        return False
    starts = [sorted({start[d] for start, _ in blocks}) for d in range(len(shape))]
    ends = [dict(zip(at, [*at[1:], n], strict=True)) for at, n in zip(starts, shape, strict=True)]
    there = {tuple(start) for start, _ in blocks}
    reach = all(
        s + n >= ends[d][s]
        for start, count in blocks
        for d, (s, n) in enumerate(zip(start, count, strict=True))
    )
    return reach and all(at[0] == 0 for at in starts) and len(there) == math.prod(map(len, starts))


def _value(file: Any, name: str, number: int, dtype: np.dtype[Any]) -> Any:
    """A single value of a step."""
    if dtype.kind == "O":
        with _plainly():
            return file.read(name, step_selection=[number, 1])
    return _box(file, name, [], [], number, np.empty(1, dtype))[0]


def _box(
    file: Any, name: str, start: list[int], count: list[int], number: int, out: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Read a box of a step into an array. Not with `read`, which does not support complex numbers."""
    import adios2

    with _plainly():
        variable = file.inquire_variable(name)
        variable.set_step_selection([number, 1])
        if count:
            variable.set_selection([start, count])
        file.engine.get(variable, out, adios2.bindings.Mode.Sync)
    return out


@contextmanager
def _plainly() -> Iterator[None]:
    """adios2's message without colours."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise RuntimeError(_plain(error)) from None


def _plain(error: Exception) -> str:
    return re.sub(r"\x1b\[[0-9;]*m|\n", "", str(error)).strip()
