"""Each engine with one setting: ours with a layout, the peers as bench/peers drives them, with chunks of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import drystone as dry
import engines
import numpy as np
import numpy.typing as npt
from grid import Box

Slices = tuple[slice, slice, slice]
Array = npt.NDArray[Any]
Chunks = tuple[int, int, int] | None


def _box(box: Slices) -> Box:
    return Box(tuple(s.start for s in box), tuple(s.stop - s.start for s in box))  # type: ignore[arg-type]


class Setting:
    """One engine with one setting."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.path = folder / name.replace(" ", "_").replace(",", "")

    def write(
        self, shape: tuple[int, ...], boxes: Sequence[Slices], cells: Callable[[Slices], Array]
    ) -> None:
        """Write all blocks and close."""
        raise NotImplementedError

    def read(self, boxes: Sequence[Slices]) -> list[Array]:
        """Open, read, close: one act."""
        raise NotImplementedError


class Drystone(Setting):
    """Blocks cut by the model, left whole, or with given chunks."""

    def __init__(self, name: str, folder: Path, layout: str = "model", chunks: Chunks = None) -> None:
        super().__init__(name, folder)
        self.layout, self.chunks = layout, chunks

    def write(
        self, shape: tuple[int, ...], boxes: Sequence[Slices], cells: Callable[[Slices], Array]
    ) -> None:
        """A writer per block."""
        with dry.create(self.path) as c:
            c.create_variable("t", "f4", shape, chunks=self.chunks)
            for box in boxes:
                with c.writer(layout=self.layout) as w:  # type: ignore[arg-type]
                    w.put("t", cells(box), offset=[s.start for s in box])

    def read(self, boxes: Sequence[Slices]) -> list[Array]:
        """Open, read, close: one act."""
        with dry.open(self.path) as c:
            return [c["t"][box] for box in boxes]


class Peer(Setting):
    """One that bench/peers drives: one process writes all blocks into one array."""

    def __init__(self, name: str, folder: Path, engine: str, chunks: Chunks = None) -> None:
        super().__init__(name, folder)
        self.engine, self.chunks = engine, chunks
        self.stored: engines.Layout | None = None

    def write(
        self, shape: tuple[int, ...], boxes: Sequence[Slices], cells: Callable[[Slices], Array]
    ) -> None:
        """Write all blocks and close."""
        engine = engines.load(self.engine)
        assert engine is not None, "only those that are installed are asked"
        spec = engines.Spec("t", shape, "f4", self.chunks)
        self.stored = engines.Layout((spec,), (tuple(map(_box, boxes)),))
        engine.create(self.path, self.stored)
        writer = engine.writer(self.path, self.stored, 0)
        for box in boxes:
            writer.put(0, "t", [s.start for s in box], cells(box))
        writer.end(0)
        writer.close()
        if engine.commit:
            engine.commit(self.path, self.stored)

    def read(self, boxes: Sequence[Slices]) -> list[Array]:
        """Open, read, close: one act. Side by side where the engine has a way to do that."""
        engine = engines.load(self.engine)
        assert engine is not None, "only those that are installed are asked"
        reader = engine.reader(self.path, self.stored)
        try:
            if hasattr(reader, "read_boxes"):
                return list(reader.read_boxes("t", boxes))
            return [
                reader.read("t", 0, [s.start for s in box], np.empty(_box(box).shape, "f4")) for box in boxes
            ]
        finally:
            reader.close()


def every(folder: Path, edge: int) -> tuple[list[Setting], list[str]]:
    """All engines that can run here, and the reasons for those left out. Hand-tuned cubes are the best for planes."""
    large, small, whole = min(64, edge // 2), min(32, edge // 2), (edge,) * 3
    ours: list[Setting] = [Drystone("drystone", folder), Drystone("drystone, log", folder, "log")]
    peers = [
        Peer("h5py contiguous", folder, "h5py", whole),
        Peer("h5py, default chunks", folder, "h5py"),
        Peer("h5py, 64^3", folder, "h5py", (large,) * 3),
        Peer("h5py, 32^3", folder, "h5py", (small,) * 3),
        Peer("zarr", folder, "zarr"),
        Peer("zarr, 64^3", folder, "zarr", (large,) * 3),
        Peer("tensorstore", folder, "tensorstore"),
        Peer("tensorstore, 64^3", folder, "tensorstore", (large,) * 3),
        Peer("tensorstore, 32^3", folder, "tensorstore", (small,) * 3),
        Peer("adios2", folder, "ADIOS2"),
        Peer("tiledb, 64^3", folder, "TileDB", (large,) * 3),
        Peer("b2nd", folder, "blosc2"),
        Peer("b2nd, 64^3", folder, "blosc2", (large,) * 3),
    ]
    installed = engines.available()
    left_out = sorted({f"{p.engine} is not installed" for p in peers if p.engine not in installed})
    return [*ours, *(p for p in peers if p.engine in installed)], left_out
