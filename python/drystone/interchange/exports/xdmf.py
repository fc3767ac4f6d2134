"""XDMF: a text that tells visualization programs how to read an HDF5 file beside it, mesh by mesh and step by step.

Meshes are those of `drystone.meshes`. All are written with three axes; missing leading axes have one point. A step
does not list a variable of which nothing was committed in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from drystone.container import Container
from drystone.coordinates import axis_names
from drystone.meshes import Field, Mesh, meshes, times
from drystone.variable import Variable

_PLACES = "_xdmf"
_NUMBERS = {"f": "Float", "i": "Int", "u": "UInt"}


def values_file(path: Path) -> Path:
    """The HDF5 file with the values."""
    return path.with_suffix(".h5")


def write(
    c: Container, exported: list[Variable], text: Path, values: Path, name: str, lost: list[str]
) -> None:
    """Write the text, and the coordinates of uneven meshes to the HDF5 file, which already contains the variables.

    Args:
        c: The container.
        exported: What the HDF5 file contains.
        text: The path of the text.
        values: The current path of the HDF5 file.
        name: The name of the HDF5 file in the text.
        lost: Called with what the text lacks.

    """
    import h5py

    there = {(v.name, v.member): v for v in exported}
    found, _ = meshes(c)
    grids: list[str] = []
    listed: set[tuple[str, str | None]] = set()
    with h5py.File(values, "a") as file:
        for number, mesh in enumerate(found):
            fields = [one for one in mesh.fields if (one.variable, one.member) in there and not one.outer]
            listed.update((one.variable, one.member) for one in fields)
            reasons = {one: _unfit(one, there) for one in fields}
            lost.extend(reason for reason in reasons.values() if reason)
            fit = [one for one, reason in reasons.items() if not reason]
            if not fit:
                continue
            geometry = _geometry(mesh, file, name, number)
            grids.extend(_collection(c, mesh, fit, geometry, file, name))
    for (variable, member), v in there.items():
        if (variable, member) not in listed and not v.local and not _is_coordinate(v):
            lost.append(f"{variable}{f'.{member}' if member else ''} in the XDMF: {_why(v)}; {name} has it")
    body = "\n".join(grids)
    text.write_text(
        f'<?xml version="1.0" encoding="utf-8"?>\n<Xdmf Version="3.0">\n<Domain>\n{body}\n</Domain>\n</Xdmf>\n',
        encoding="utf-8",
    )


def _unfit(one: Field, there: dict[tuple[str, str | None], Variable]) -> str | None:
    dtype = there[(one.variable, one.member)].dtype.base
    what = None
    if dtype.kind not in _NUMBERS or (dtype.itemsize == 2 and dtype.kind == "f"):
        what = f"it has no values of {dtype}"
    elif one.components not in (1, 3):
        what = f"it has no vectors of {one.components} components"
    return f"{one.name} in the XDMF: {what}" if what else None


def _why(v: Variable) -> str:
    if v.dtype.names:
        return f"members of records are arrays there if they are named, as in {v.name}.{v.dtype.names[0]}"
    return "it is on no mesh of one to three axes"


def _is_coordinate(v: Variable) -> bool:
    names = axis_names(v)
    return len(names) == 1 and v.name.rpartition("/")[2] == names[0]


def _three(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (3 - len(shape)) + shape


def _numbers(shape: tuple[int, ...]) -> str:
    return " ".join(map(str, shape))


def _item(text: str, shape: tuple[int, ...]) -> str:
    return f'<DataItem Dimensions="{_numbers(shape)}" NumberType="Float" Precision="8" Format="XML">{text}</DataItem>'


def _geometry(mesh: Mesh, file: Any, name: str, number: int) -> str:
    """Topology and geometry."""
    shape = _three(mesh.shape)
    spacing = mesh.spacing()
    if spacing is not None:
        even = [(0.0, 1.0)] * (3 - len(mesh.shape)) + spacing
        begin, distance = (" ".join(repr(one[n]) for one in even) for n in (0, 1))
        return (
            f'<Topology TopologyType="3DCoRectMesh" Dimensions="{_numbers(shape)}"/>'
            f'<Geometry GeometryType="ORIGIN_DXDYDZ">{_item(begin, (3,))}{_item(distance, (3,))}</Geometry>'
        )
    items = []
    for axis, letter in zip((2, 1, 0), "xyz", strict=True):
        own = axis - (3 - len(mesh.shape))
        values = mesh.along(own) if own >= 0 else np.zeros(1)
        place = f"{_PLACES}/{number}/{letter}"
        file[place] = values
        items.append(
            f'<DataItem Dimensions="{len(values)}" NumberType="Float" Precision="8" Format="HDF">'
            f"{escape(name)}:/{place}</DataItem>"
        )
    return (
        f'<Topology TopologyType="3DRectMesh" Dimensions="{_numbers(shape)}"/>'
        f'<Geometry GeometryType="VXVYVZ">{"".join(items)}</Geometry>'
    )


def _collection(
    c: Container, mesh: Mesh, fields: list[Field], geometry: str, file: Any, name: str
) -> Iterator[str]:
    steps, moments = times(c, tuple(fields))
    title = quoteattr(mesh.name)
    if not steps:
        yield _grid(title, None, geometry, [_attribute(mesh, one, None, file, name) for one in fields])
        return
    # Steps are packed in the file: steps that no variable has are absent.
    rows = {step: row for row, step in enumerate(c.steps)}
    there = {one: set(v.steps) if (v := c.variables[one.variable]).has_steps else None for one in fields}
    yield f'<Grid Name={title} GridType="Collection" CollectionType="Temporal">'
    for step, moment in zip(steps, moments, strict=True):
        attributes = [
            _attribute(mesh, one, None if known is None else rows[step], file, name)
            for one, known in there.items()
            if known is None or step in known
        ]
        yield _grid(f'"step {step}"', moment, geometry, attributes)
    yield "</Grid>"


def _grid(title: str, moment: float | None, geometry: str, attributes: list[str]) -> str:
    time = "" if moment is None else f'<Time Value="{moment!r}"/>'
    return f'<Grid Name={title} GridType="Uniform">{time}{geometry}{"".join(attributes)}</Grid>'


def _attribute(mesh: Mesh, one: Field, row: int | None, file: Any, name: str) -> str:
    dataset = file[one.name]
    inner = (one.components,) if one.components > 1 else ()
    shape = (*_three(mesh.shape), *inner)
    number = f'NumberType="{_NUMBERS[dataset.dtype.base.kind]}" Precision="{dataset.dtype.base.itemsize}"'
    place = f"{escape(name)}:{escape(dataset.name)}"
    if row is None:
        item = f'<DataItem Dimensions="{_numbers(shape)}" {number} Format="HDF">{place}</DataItem>'
    else:
        own = tuple(dataset.shape[1:])
        slab = "  ".join(map(_numbers, [(row, *(0 for _ in own)), (1, *(1 for _ in own)), (1, *own)]))
        item = (
            f'<DataItem ItemType="HyperSlab" Dimensions="{_numbers(shape)}" {number} Format="HDF">'
            f'<DataItem Dimensions="3 {1 + len(own)}" NumberType="Int" Format="XML">{slab}</DataItem>'
            f'<DataItem Dimensions="{_numbers(dataset.shape)}" {number} Format="HDF">{place}</DataItem></DataItem>'
        )
    kind = "Vector" if one.components == 3 else "Scalar"
    return f'<Attribute Name={quoteattr(one.name)} AttributeType="{kind}" Center="Node">{item}</Attribute>'
