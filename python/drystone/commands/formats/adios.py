"""ADIOS BP (3, 4, 5), through adios2: global and joined arrays and single values, their steps, attributes.

What several steps have becomes steps; what only one has is one array. Which steps those are, and of which shape it is in each, only a
walk through the steps tells: of files that are read at random adios2 gives the last step's shape, and reads of BP5 leave out or make up
what goes beyond another step's. Cells that nobody put are in no block, and adios2 leaves the memory they are read into as it was.
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

from drystone.commands.formats import Array, Box, Contents, apart, attributes
from drystone.errors import CorruptError

STEP = "step"
_TYPES = {
    "int8_t": "i1", "int16_t": "i2", "int32_t": "i4", "int64_t": "i8", "char": "i1",
    "uint8_t": "u1", "uint16_t": "u2", "uint32_t": "u4", "uint64_t": "u8",
    "float": "f4", "double": "f8", "float complex": "c8", "double complex": "c16", "string": "O",
}  # fmt: skip


def opened(path: Path) -> AbstractContextManager[Contents]:
    """The contents of a file or folder; read apart, since adios2 crashes on some that are damaged, and waits for ever on others."""
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
            _variable(file, asker, name, about, steps, shapes.get(name, {}), attrs, contents)
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
    """Why no variable of a container can be called so, if none can."""
    own = name.lstrip("/")
    parts = own.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "a name that is no path"
    if own != name and own in variables:
        return f"{own!r} is there too"
    if any("/".join(parts[:n]) in variables for n in range(1, len(parts))):
        return "what would be its group is a variable"
    return ""


def _variable(
    file: Any,
    asker: apart.Asker,
    name: str,
    about: dict[str, str],
    steps: int,
    shapes: dict[int, tuple[int, ...]],
    attrs: dict[str, Any],
    contents: Contents,
) -> None:
    if about["Type"] not in _TYPES:
        contents.lost.append(f"{name} (of type {about['Type']})")
        return
    single = about["SingleValue"] == "true"
    shape = _shape(about)
    if not single and not shape:
        contents.lost.append(f"{name} (local arrays)")
        return
    dtype = np.dtype(_TYPES[about["Type"]])
    many = int(about["AvailableStepsCount"]) > 1
    present = {step: number for number, step in enumerate(sorted(shapes))}
    if many and len(present) != int(about["AvailableStepsCount"]):
        contents.lost.append(
            f"{name} (it says that {about['AvailableStepsCount']} steps have it, {len(present)} do)"
        )
        return
    if many and len({len(s) for s in shapes.values()}) > 1:
        contents.lost.append(f"{name} (another number of dimensions from one step to the next)")
        return
    each = [shapes[step] for step in present] if many else [shape]
    whole = [True] * len(each) if single else _whole(file, name, each)
    fill = None
    if len(set(each)) > 1 or not all(whole):
        shape = tuple(max(extents) for extents in zip(*each, strict=True))
        fill = np.array(np.nan if dtype.kind in "fc" else 0, dtype)[()]
        kinds = ", ".join(str(list(s)) for s in list(dict.fromkeys(each))[:4])
        why = (
            f"the shapes of its steps, such as {kinds}"
            if len(set(each)) > 1
            else "cells that are in no block"
        )
        contents.lost.append(f"{name}: {why}: what is not there is {fill}")

    def read(box: Box) -> Any:
        first, own = (box[0], box[1:]) if many else (slice(0, 1), box)
        counts = [part.stop - part.start for part in own]
        out = asker.room((first.stop - first.start, *counts) if many else counts, dtype)
        rows = out if many else out[None]
        missing = "" if dtype.kind == "O" else fill or 0
        for place, step in enumerate(range(first.start, first.stop)):
            row = rows[place]
            if many and step not in shapes:
                rows[place] = missing
                continue
            number = present[step] if many else 0
            there = shapes[step] if many else shape
            part = [max(0, min(p.stop, n) - p.start) for p, n in zip(own, there, strict=True)]
            if single:
                rows[place] = _value(file, name, number, dtype)
            elif part == counts and dtype.kind != "O" and whole[number]:
                _box(file, name, [p.start for p in own], part, number, row)
            else:
                row[...] = missing
                if 0 not in part:
                    value = np.full(part, missing, dtype)
                    value = _box(file, name, [p.start for p in own], part, number, value)
                    row[tuple(slice(0, n) for n in part)] = value
        return out

    dims = (STEP, *(f"{name.lstrip('/').replace('/', '_')}_{d}" for d in range(len(shape)))) if many else None
    contents.arrays.append(
        Array(
            name.lstrip("/"),
            dtype,
            (steps, *shape) if many else shape,
            read,
            dims=dims,
            attrs=attrs,
            fill=fill,
            present=frozenset(present) if many and len(present) < steps else None,
            grows=(False,) * (len(shape) + many),
            chunks=(1, *shape) if many else None,
        )
    )


def _whole(file: Any, name: str, shapes: list[tuple[int, ...]]) -> list[bool]:
    """Whether every cell is in a block, for each step that has any; no, where adios2 does not tell."""
    try:
        # BP3 and 4 tell of all steps, BP5 of those that have it, and repeats some behind them.
        found = [blocks for blocks in file.engine.all_blocks_info(name) if blocks]
    except (RuntimeError, ValueError):
        found = []
    if len(found) < len(shapes):
        return [False] * len(shapes)
    places = [[(_numbers(b["Start"]), _numbers(b["Count"])) for b in blocks] for blocks in found]
    return [_are_whole(of_step, shape) for of_step, shape in zip(places, shapes, strict=False)]


def _are_whole(blocks: list[tuple[list[int], list[int]]], shape: tuple[int, ...]) -> bool:
    """Whether every cell is in a block, these being those of a grid (or a single one)."""
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
    """A box of a step, into an array. Not by `read`, which knows no complex numbers."""
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
    """What adios2 says without its colours."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise RuntimeError(_plain(error)) from None


def _plain(error: Exception) -> str:
    return re.sub(r"\x1b\[[0-9;]*m|\n", "", str(error)).strip()
