"""What does a plane cost, across each axis? 512^3 floats, written as 64 blocks of 128^3.

The bar: memcpy of what must be read when warm, the device when cold. Rivals: raw blocks (the same blocks in one file,
the shortest ranges that hold the plane), raw array (one row-major array: ideal across the first axis, hopeless across
the last), h5py with chunks of 64^3 (one megabyte) and h5py contiguous.

One act opens, reads 4 planes at places that no chunk or block begins at, and closes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import drystone as dry
import h5py
import numpy as np
import raw
from grid import Box, boxes, values
from measure import CHECKED, Cost, Settings, alternate, discard, make_cold, measured, settle, touched
from report import Table

Planes = raw.Array
Reader = Callable[[int, list[int], Planes], None]


class Data:
    """The same array in every engine's form."""

    def __init__(self, folder: Path, edge: int, cut: int) -> None:
        self.folder, self.edge = folder, edge
        self.grid = (edge, edge, edge)
        self.blocks = boxes(self.grid, (cut, cut, cut))
        self.scratch = touched((edge, edge), "f4")
        self.hull = touched(self.blocks[0].shape, "f4")

    def write(self) -> None:
        """Write all forms."""
        folder, edge = self.folder, self.edge
        folder.mkdir(parents=True)
        with (
            dry.create(folder / "drystone") as container,
            h5py.File(folder / "h5py, chunks of 64^3", "w", libver="latest") as chunked,
            h5py.File(folder / "h5py, contiguous", "w", libver="latest") as plain,
        ):
            container.create_variable("t", "f4", self.grid, dims=("z", "y", "x"))
            chunk = min(64, edge // 2)
            cut = chunked.create_dataset("t", self.grid, "f4", chunks=(chunk,) * 3)
            whole = plain.create_dataset("t", self.grid, "f4")
            blocks, array = [], np.memmap(folder / "raw, one array", "f4", "w+", shape=self.grid)
            with container.writer() as writer:
                for box in self.blocks:
                    block = self.cells(box)
                    writer.put("t", block, offset=box.offset)
                    cut[box.slices] = whole[box.slices] = array[box.slices] = block
                    blocks.append(block)
            raw.write_file(folder / "raw, blocks", blocks, sync=True)
            array.flush()
        settle([folder], forget=False)

    def cells(self, box: Box) -> raw.Array:
        """What the cells of a box hold: exact floats that differ along every axis, and from block to block."""
        numbers = values(box, self.grid, "i8")
        return (numbers * 2654435761 >> 8 & 0xFFFFFF).astype("f4")

    def readers(self) -> dict[str, Reader]:
        """How each engine reads planes."""
        return {
            "raw, blocks": self._raw_blocks,
            "drystone": self._drystone,
            "raw, one array": self._raw_array,
            "h5py, chunks of 64^3": partial(self._h5py, "h5py, chunks of 64^3"),
            "h5py, contiguous": partial(self._h5py, "h5py, contiguous"),
        }

    def _drystone(self, axis: int, places: list[int], out: Planes) -> None:
        with dry.open(self.folder / "drystone") as container:
            variable = container["t"]
            for place, plane in zip(places, out, strict=True):
                offset = [place if a == axis else 0 for a in range(3)]
                count = [1 if a == axis else self.edge for a in range(3)]
                variable.read(None, offset, count, out=plane.reshape(count))

    def _h5py(self, name: str, axis: int, places: list[int], out: Planes) -> None:
        with h5py.File(self.folder / name, "r") as file:
            for place, plane in zip(places, out, strict=True):
                file["t"].read_direct(plane, tuple(place if a == axis else slice(None) for a in range(3)))

    def _raw_blocks(self, axis: int, places: list[int], out: Planes) -> None:
        descriptor = os.open(self.folder / "raw, blocks", os.O_RDONLY)
        for place, plane in zip(places, out, strict=True):
            whole = np.expand_dims(plane, axis)
            offset = 0
            for box in self.blocks:
                start = box.offset[axis]
                if start <= place < start + box.shape[axis]:
                    part = [slice(0, n) for n in box.shape]
                    part[axis] = slice(place - start, place - start + 1)
                    target = list(box.slices)
                    target[axis] = slice(0, 1)
                    read = self._rows if axis == 1 else raw.read_part
                    read(descriptor, offset, box.shape, tuple(part), whole[tuple(target)], self.hull)
                offset += int(np.prod(box.shape)) * 4
        os.close(descriptor)

    def _rows(
        self,
        descriptor: int,
        offset: int,
        shape: tuple[int, ...],
        part: tuple[slice, ...],
        out: raw.Array,
        scratch: raw.Array,
    ) -> None:
        """Row by row where that is less than the whole: 128 rows of 512 bytes instead of 8 MiB."""
        for z in range(shape[0]):
            row = offset + (z * shape[1] + part[1].start) * shape[2] * 4
            os.preadv(descriptor, [out[z, 0].view(np.uint8).data], row)

    def _raw_array(self, axis: int, places: list[int], out: Planes) -> None:
        edge = self.edge
        descriptor = os.open(self.folder / "raw, one array", os.O_RDONLY)
        if axis == 0:
            for place, plane in zip(places, out, strict=True):
                raw.read_at(descriptor, place * edge * edge * 4, plane)
        elif axis == 1:
            for place, plane in zip(places, out, strict=True):
                for z in range(edge):
                    os.preadv(descriptor, [plane[z].view(np.uint8).data], (z * edge + place) * edge * 4)
        else:  # every page holds cells of the plane: one pass over the file serves all
            for z in range(edge):
                raw.read_at(descriptor, z * edge * edge * 4, self.scratch)
                for place, plane in zip(places, out, strict=True):
                    plane[z] = self.scratch[:, place]
        os.close(descriptor)


def run(settings: Settings) -> list[Table]:
    """One table."""
    edge, cut = (32, 2) if settings.quick else (512, 4)
    settings.say(f"planes of {edge}^3 floats: write")
    data = Data(settings.folder / "planes", edge, cut)
    data.write()
    table = Table(f"Planes: 4 of {edge}^2 floats out of {edge}^3 in {cut**3} blocks", baseline="raw, blocks")
    places = [edge * part // 8 + 3 for part in (0, 3, 5, 7)]
    out = touched((len(places), edge, edge), "f4")
    for axis, name in enumerate("zyx"):
        expected = np.stack([_plane(data, axis, place) for place in places])
        for cold in (False, True):
            case = f"{name} = const, {'cold' if cold else 'warm'}"
            settings.say(f"planes of {edge}^3 floats: {case}")

            def act(engine: str, read: Reader, axis: int, cold: bool, expected: Planes) -> Cost:
                if cold:
                    make_cold(data.folder / engine, settings)
                else:
                    read(axis, places, out)
                out.fill(-1)
                cost = measured(lambda: read(axis, places, out))
                CHECKED.same(engine, out, expected)
                return cost

            found = alternate(
                {
                    engine: partial(act, engine, read, axis, cold, expected)
                    for engine, read in data.readers().items()
                },
                settings.rounds(5),
                warm_up=not cold,
            )
            table.add(case, found, bytes_each=expected.nbytes, writes=False)
        table.remarks.append(_plan(data, axis, places[1]))
    discard(data.folder)
    return [table]


def _plane(data: Data, axis: int, place: int) -> Planes:
    offset = tuple(place if a == axis else 0 for a in range(3))
    shape = tuple(1 if a == axis else data.edge for a in range(3))
    return data.cells(Box(offset, shape)).reshape(data.edge, data.edge)  # type: ignore[arg-type]


def _plan(data: Data, axis: int, place: int) -> str:
    """What Drystone says it reads for one plane."""
    with dry.open(data.folder / "drystone") as container:
        key = tuple(place if a == axis else slice(None) for a in range(3))
        plan = container["t"].explain[key]
        return (
            f"Plan of one plane across {'zyx'[axis]}: {plan.requests:,} requests, {plan.read_bytes:,} bytes read "
            f"for {plan.wanted_bytes:,} wanted, from {plan.blocks} blocks."
        )
