"""The same array in every engine's form: how each writes blocks, and reads boxes of them. What is not installed is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import drystone as dry
import numpy as np
import numpy.typing as npt

Slices = tuple[slice, slice, slice]
Array = npt.NDArray[Any]


class Engine:
    """One engine with one setting. `open` gives what is indexed with slices."""

    needs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.path = folder / name.replace(" ", "_").replace(",", "")

    @classmethod
    def missing(cls) -> list[str]:
        """Packages that are not here."""
        return [name for name in cls.needs if find_spec(name) is None]

    def write(self, shape: tuple[int, ...], blocks: Iterator[tuple[Slices, Array]]) -> None:
        """Write all blocks and close."""
        raise NotImplementedError

    @contextmanager
    def open(self) -> Iterator[Any]:
        """What is read."""
        raise NotImplementedError
        yield

    def read(self, boxes: list[Slices]) -> list[Array]:
        """Open, read, close: one act."""
        with self.open() as array:
            return [np.asarray(array[box]) for box in boxes]


class Drystone(Engine):
    """Blocks cut by the model, left whole, or with given chunks."""

    def __init__(self, name: str, folder: Path, layout: str = "model", chunks: Any = None) -> None:
        super().__init__(name, folder)
        self.layout, self.chunks = layout, chunks

    def write(self, shape: tuple[int, ...], blocks: Iterator[tuple[Slices, Array]]) -> None:
        """Write all blocks and close."""
        with dry.create(self.path) as c:
            c.create_variable("t", "f4", shape, chunks=self.chunks)
            for box, block in blocks:
                with c.writer(layout=self.layout) as w:  # type: ignore[arg-type]
                    w.put("t", block, offset=[s.start for s in box])

    @contextmanager
    def open(self) -> Iterator[Any]:
        """What is read."""
        with dry.open(self.path) as c:
            yield c["t"]


class Hdf5(Engine):
    """h5py."""

    needs = ("h5py",)

    def __init__(self, name: str, folder: Path, chunks: Any = None) -> None:
        super().__init__(name, folder)
        self.chunks = chunks

    def write(self, shape: tuple[int, ...], blocks: Iterator[tuple[Slices, Array]]) -> None:
        """Write all blocks and close."""
        import h5py

        with h5py.File(self.path, "w") as file:
            target = file.create_dataset("t", shape, "f4", chunks=self.chunks)
            for box, block in blocks:
                target[box] = block

    @contextmanager
    def open(self) -> Iterator[Any]:
        """What is read."""
        import h5py

        with h5py.File(self.path, "r") as file:
            yield file["t"]


class Zarr(Engine):
    """zarr-python, without compression, so that bytes are the same for all."""

    needs = ("zarr",)

    def __init__(self, name: str, folder: Path, chunks: Any = "auto") -> None:
        super().__init__(name, folder)
        self.chunks = chunks

    def write(self, shape: tuple[int, ...], blocks: Iterator[tuple[Slices, Array]]) -> None:
        """Write all blocks and close."""
        import zarr

        array = zarr.create_array(
            store=str(self.path), shape=shape, dtype="f4", chunks=self.chunks, compressors=None
        )
        for box, block in blocks:
            array[box] = block

    @contextmanager
    def open(self) -> Iterator[Any]:
        """What is read."""
        import zarr

        yield zarr.open_array(str(self.path), mode="r")


class TensorStore(Engine):
    """TensorStore with its Zarr 3 driver."""

    needs = ("tensorstore",)

    def __init__(self, name: str, folder: Path, chunks: Any = None) -> None:
        super().__init__(name, folder)
        self.chunks = chunks

    def write(self, shape: tuple[int, ...], blocks: Iterator[tuple[Slices, Array]]) -> None:
        """Write all blocks and close."""
        import tensorstore as ts

        more = {}
        if self.chunks:
            more["chunk_layout"] = ts.ChunkLayout(chunk_shape=self.chunks)
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(self.path)}}
        array = ts.open(spec, create=True, dtype=ts.float32, shape=shape, **more).result()
        for box, block in blocks:
            array[box].write(block).result()

    def read(self, boxes: list[Slices]) -> list[Array]:
        """Open, read, close: one act."""
        import tensorstore as ts

        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(self.path)}}
        array = ts.open(spec, read=True).result()
        return [future.result() for future in [array[box].read() for box in boxes]]


class Adios(Engine):
    """ADIOS2, BP5: blocks as they were put."""

    needs = ("adios2",)

    def write(self, shape: tuple[int, ...], blocks: Iterator[tuple[Slices, Array]]) -> None:
        """Write all blocks and close."""
        import adios2

        with adios2.Stream(str(self.path), "w") as file:
            file.begin_step()
            for box, block in blocks:
                file.write("t", block, list(shape), [s.start for s in box], list(block.shape))
            file.end_step()

    def read(self, boxes: list[Slices]) -> list[Array]:
        """Open, read, close: one act."""
        import adios2

        with adios2.FileReader(str(self.path)) as file:
            return [
                file.read("t", start=[s.start for s in box], count=[s.stop - s.start for s in box])
                for box in boxes
            ]


class TileDb(Engine):
    """TileDB, dense, without filters."""

    needs = ("tiledb",)

    def __init__(self, name: str, folder: Path, tile: int | None = None) -> None:
        super().__init__(name, folder)
        self.tile = tile

    def write(self, shape: tuple[int, ...], blocks: Iterator[tuple[Slices, Array]]) -> None:
        """Write all blocks and close."""
        import tiledb

        dims = [
            tiledb.Dim(
                f"d{a}", domain=(0, n - 1), tile=min(n, self.tile) if self.tile else None, dtype=np.int32
            )
            for a, n in enumerate(shape)
        ]
        schema = tiledb.ArraySchema(tiledb.Domain(*dims), attrs=[tiledb.Attr("t", dtype="f4")])
        tiledb.Array.create(str(self.path), schema)
        with tiledb.open(str(self.path), "w") as array:
            for box, block in blocks:
                array[box] = block

    @contextmanager
    def open(self) -> Iterator[Any]:
        """What is read."""
        import tiledb

        with tiledb.open(str(self.path)) as array:
            yield _Attribute(array)


class _Attribute:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, box: Slices) -> Array:
        found = self.array[box]
        return found["t"] if isinstance(found, dict) else found


class B2nd(Engine):
    """Blosc2's n-D arrays, without compression."""

    needs = ("blosc2",)

    def __init__(self, name: str, folder: Path, chunks: Any = None) -> None:
        super().__init__(name, folder)
        self.chunks = chunks

    def write(self, shape: tuple[int, ...], blocks: Iterator[tuple[Slices, Array]]) -> None:
        """Write all blocks and close."""
        import blosc2

        array = blosc2.empty(
            shape, np.dtype("f4"), chunks=self.chunks, urlpath=str(self.path), cparams={"clevel": 0}, mode="w"
        )
        for box, block in blocks:
            array[box] = block

    @contextmanager
    def open(self) -> Iterator[Any]:
        """What is read."""
        import blosc2

        yield blosc2.open(str(self.path), mode="r")


def engines(folder: Path, edge: int) -> tuple[list[Engine], list[str]]:
    """All that can run here, and what is left out and why. Hand-tuned are the cubes that served each best for planes."""
    cube = (min(64, edge // 2),) * 3
    small = (min(32, edge // 2),) * 3
    wanted: list[Engine] = [
        Drystone("drystone", folder),
        Drystone("drystone, log", folder, "log"),
        Hdf5("h5py contiguous", folder),
        Hdf5("h5py, default chunks", folder, True),
        Hdf5("h5py, 64^3", folder, cube),
        Hdf5("h5py, 32^3", folder, small),
        Zarr("zarr", folder),
        Zarr("zarr, 64^3", folder, cube),
        TensorStore("tensorstore", folder),
        TensorStore("tensorstore, 64^3", folder, cube),
        TensorStore("tensorstore, 32^3", folder, small),
        Adios("adios2", folder),
        TileDb("tiledb, 64^3", folder, cube[0]),
        B2nd("b2nd", folder),
        B2nd("b2nd, 64^3", folder, cube),
    ]
    left_out = sorted(
        {f"{type(e).__name__}: {', '.join(e.missing())} is not installed" for e in wanted if e.missing()}
    )
    return [e for e in wanted if not e.missing()], left_out
