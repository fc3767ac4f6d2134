"""ADIOS BP (3, 4, 5), through adios2: global arrays and single values, their steps, attributes.

What every step has becomes steps; what only one has is one array. Of a variable that some steps have, BP does not say which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drystone.commands.formats import Array, Box, Contents, attributes
from drystone.errors import CorruptError

STEP = "step"
_TYPES = {
    "int8_t": "i1", "int16_t": "i2", "int32_t": "i4", "int64_t": "i8", "char": "i1",
    "uint8_t": "u1", "uint16_t": "u2", "uint32_t": "u4", "uint64_t": "u8",
    "float": "f4", "double": "f8", "float complex": "c8", "double complex": "c16", "string": "O",
}  # fmt: skip


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The contents of a file or folder."""
    import adios2

    try:
        file = adios2.FileReader(str(path))
    except (RuntimeError, ValueError) as error:
        said = re.sub(r"\x1b\[[0-9;]*m|\n", "", str(error))  # it is coloured
        raise CorruptError(f"{path} cannot be read by adios2: {said}") from None
    with file:
        contents = Contents(step_dim=STEP)
        steps, variables = file.num_steps(), file.available_variables()
        pairs: dict[str, list[tuple[str, Any]]] = {"": []}
        for name in file.available_attributes():
            owner, _, own = name.rpartition("/")
            if owner not in variables:
                owner, own = "", name
            pairs.setdefault(owner, []).append((own, file.read_attribute(name)))
        contents.groups[""] = attributes(pairs[""], "", contents)
        for name, about in variables.items():
            attrs = attributes(pairs.get(name, []), name, contents)
            _variable(file, name, about, steps, attrs, contents)
        yield contents


def _variable(
    file: Any, name: str, about: dict[str, str], steps: int, attrs: dict[str, Any], contents: Contents
) -> None:
    present = int(about["AvailableStepsCount"])
    if about["Type"] not in _TYPES:
        contents.lost.append(f"{name} (of type {about['Type']})")
        return
    single = about["SingleValue"] == "true"
    shape = tuple(int(n) for n in about["Shape"].split(",") if n.strip())
    if not single and not shape:
        contents.lost.append(f"{name} (local arrays)")
        return
    if present not in (1, steps):
        contents.lost.append(f"{name} (in {present} of {steps} steps, and BP does not say which)")
        return
    dtype = np.dtype(_TYPES[about["Type"]])
    many = present == steps and steps > 1

    def read(box: Box) -> Any:
        first, own = (box[0], box[1:]) if many else (slice(0, 1), box)
        counts = [part.stop - part.start for part in own]
        part = [] if single else [[p.start for p in own], counts]
        values = []
        for step in range(first.start, first.stop):
            # Step by step: shapes may change from one to the next, which adios2 then says.
            values.append(file.read(name, *part, step_selection=[step, 1]))
        out = np.empty((len(values), *counts), dtype)
        for place, value in zip(out, values, strict=True) if counts else ():
            place[...] = np.asarray(value).reshape(counts)
        if not counts:
            for n, value in enumerate(values):
                out[n] = value if dtype.kind == "O" else np.asarray(value).ravel()[0]
        return out if many else out[0] if counts else out.reshape(())

    dims = (STEP, *(f"{name.replace('/', '_')}_{d}" for d in range(len(shape)))) if many else None
    contents.arrays.append(
        Array(
            name,
            dtype,
            (steps, *shape) if many else shape,
            read,
            dims=dims,
            attrs=attrs,
            grows=(False,) * (len(shape) + many),
            chunks=(1, *shape) if many else None,
        )
    )
