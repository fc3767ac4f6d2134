"""What do scattered cells cost? Points and index lists from 256^3 floats in 8 blocks of 128^3, raw and encoded.

The bar: a memory map indexed by NumPy, which pays a page per point when cold. Rivals besides: h5py with chunks of 32^3,
raw and with gzip, by `select_elements`, its fastest way to read points; its lists along several axes do not exist, so
that it reads the slab of one list and takes the other from it.

One act opens, reads, and closes. Points are the same for all, in random order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import drystone as dry
import h5py
import numpy as np
import numpy.typing as npt
from grid import boxes
from measure import CHECKED, Cost, Settings, alternate, discard, make_cold, measured, settle
from report import Table

Cells = npt.NDArray[Any]
Reader = Callable[[Cells | tuple[Cells, Cells]], Cells]


class Data:
    """The same array in every engine's form."""

    def __init__(self, folder: Path, edge: int) -> None:
        self.folder, self.edge = folder, edge
        numbers = np.arange(edge**3, dtype="i8")
        self.whole = (numbers * 2654435761 >> 8 & 0xFFFF).astype("f4").reshape(edge, edge, edge)

    def write(self) -> None:
        """Write all forms."""
        folder, whole = self.folder, self.whole
        folder.mkdir(parents=True)
        chunk = (min(32, self.edge // 2),) * 3
        for name, transform, chunks in (
            ("drystone", None, None),
            ("drystone, zstd", "shuffle,zstd:1", chunk),
        ):
            with dry.create(folder / name) as container, container.writer() as writer:
                container.create_variable("t", "f4", whole.shape, transform=transform, chunks=chunks)
                for box in boxes(whole.shape, (2, 2, 2)):
                    writer.put("t", whole[box.slices], offset=box.offset)
        for name, options in (("h5py", {}), ("h5py, gzip", {"compression": "gzip", "shuffle": True})):
            with h5py.File(folder / name, "w", libver="latest") as file:
                file.create_dataset("t", data=whole, chunks=chunk, **options)
        np.save(folder / "map.npy", whole)
        settle([folder], forget=False)

    def readers(self, kind: str) -> dict[str, Reader]:
        """How each engine reads points, or two lists."""
        own: dict[str, Reader] = {"map.npy": self._map}
        for name in ("drystone", "drystone, zstd"):
            own[name] = partial(self._drystone, name)
        for name in ("h5py", "h5py, gzip"):
            own[name] = partial(self._h5py_points if kind == "points" else self._h5py_lists, name)
        return own

    def _map(self, wanted: Any) -> Cells:
        array = np.load(self.folder / "map.npy", mmap_mode="r")
        if isinstance(wanted, tuple):
            return np.asarray(array[wanted[0][:, None, None], np.arange(self.edge)[:, None], wanted[1]])
        return np.asarray(array[tuple(wanted.T)])

    def _drystone(self, name: str, wanted: Any) -> Cells:
        with dry.open(self.folder / name) as container:
            variable = container["t"]
            if isinstance(wanted, tuple):
                return np.asarray(variable.oindex[wanted[0], :, wanted[1]])
            return np.asarray(variable.read_points(wanted))

    def _h5py_points(self, name: str, wanted: Any) -> Cells:
        with h5py.File(self.folder / name, "r") as file:
            dataset = file["t"].id
            space = dataset.get_space()
            space.select_elements(wanted)
            out = np.empty(len(wanted), "f4")
            dataset.read(h5py.h5s.create_simple((len(wanted),)), space, out)
            return out

    def _h5py_lists(self, name: str, wanted: Any) -> Cells:
        with h5py.File(self.folder / name, "r") as file:
            return np.asarray(file["t"][wanted[0]][:, :, wanted[1]])


def run(settings: Settings) -> list[Table]:
    """One table."""
    edge = 32 if settings.quick else 256
    settings.say(f"points of {edge}^3 floats: write")
    data = Data(settings.folder / "points", edge)
    data.write()
    table = Table(f"Scattered cells: of {edge}^3 floats in 8 blocks", baseline="map.npy")
    rng = np.random.default_rng(7)
    lists = tuple(np.sort(rng.choice(edge, edge // 4, replace=False)) for _ in range(2))
    cases: list[tuple[str, str, Any, Cells]] = []
    for count in (edge, edge**2):
        points = rng.integers(0, edge, (count, 3))
        cases.append((f"{count:,} points", "points", points, data.whole[tuple(points.T)]))
    both = data.whole[np.ix_(lists[0], np.arange(edge), lists[1])]
    cases.append((f"lists of {edge // 4} along z and x", "lists", lists, both))
    for case, kind, wanted, expected in cases:
        for cold in (False, True):
            settings.say(f"points of {edge}^3 floats: {case}, {'cold' if cold else 'warm'}")

            def act(engine: str, read: Reader, wanted: Any, expected: Cells, cold: bool) -> Cost:
                if cold:
                    make_cold(data.folder / engine, settings)
                found: list[Cells] = []
                cost = measured(lambda: found.append(read(wanted)))
                CHECKED.same(engine, found[0], expected)
                return cost

            found = alternate(
                {
                    engine: partial(act, engine, read, wanted, expected, cold)
                    for engine, read in data.readers(kind).items()
                },
                settings.rounds(5),
                warm_up=not cold,
            )
            table.add(
                f"{case}, {'cold' if cold else 'warm'}", found, bytes_each=expected.nbytes, writes=False
            )
        if kind == "points":
            table.remarks.append(_plan(data, case, wanted))
    discard(data.folder)
    return [table]


def _plan(data: Data, case: str, wanted: Cells) -> str:
    said = []
    for name in ("drystone", "drystone, zstd"):
        with dry.open(data.folder / name) as container:
            plan = container["t"].vindex.explain[tuple(wanted.T)]
            said.append(
                f"{name} {plan.requests:,} requests, {plan.read_bytes:,} bytes, {plan.subchunks:,} subchunks"
            )
    return f"Plan of {case}: {'; '.join(said)}."
