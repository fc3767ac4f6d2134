"""What do many small blocks cost? 20,000 blocks of 16^3 floats in one array of 512 x 400 x 400, by one writer.

The bar: writing and reading all at the speed of one file; opening under 10 ms; a plane without reading the whole.

Raw: the blocks one after another in one file, which the reader must know; an act writes them block by block, reads them
in pieces of a megabyte. h5py: a dataset whose chunks are the blocks, written by `write_direct_chunk`, its fastest way.
Opening goes to the first value that can be read. Everything but opening includes opening and closing.
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
from measure import CHECKED, Cost, Settings, alternate, discard, make_cold, measured, settle, size_of, touched
from report import Table

EDGE = 16
ENGINES = ("raw", "drystone", "h5py")


class Data:
    """20,000 blocks, and where they go."""

    def __init__(self, folder: Path, counts: tuple[int, int, int]) -> None:
        self.folder, self.counts = folder, counts
        self.shape = tuple(n * EDGE for n in counts)
        self.total = int(np.prod(counts))
        # Cells count up block by block: block b, cell i holds b * 4096 + i, exact below 2^24 only, so modulo that.
        cells = np.arange(self.total * EDGE**3, dtype="i8") % (1 << 24)
        self.blocks = cells.astype("f4").reshape(self.total, EDGE, EDGE, EDGE)
        self.whole = np.ascontiguousarray(self._assembled(self.blocks))
        self.found = touched(self.shape, "f4")
        self.piece = touched((64, EDGE, EDGE, EDGE), "f4")
        self.offsets = [tuple(int(i) * EDGE for i in place) for place in np.ndindex(*counts)]

    def _assembled(self, blocks: raw.Array) -> raw.Array:
        a, b, c = self.counts
        stacked = blocks.reshape(a, b, c, EDGE, EDGE, EDGE)
        return stacked.transpose(0, 3, 1, 4, 2, 5).reshape(self.shape)

    def path(self, engine: str) -> Path:
        """Where an engine's data is."""
        return self.folder / engine

    def write(self, engine: str, sync: bool) -> None:
        """Write every block."""
        getattr(self, f"_write_{engine}")(self.path(engine), sync)

    def _write_raw(self, path: Path, sync: bool) -> None:
        raw.write_file(path, list(self.blocks), sync=sync)

    def _write_drystone(self, path: Path, sync: bool) -> None:
        with dry.create(path, "durable" if sync else "async") as container:
            container.create_variable("t", "f4", self.shape)
            with container.writer() as writer:
                for offset, block in zip(self.offsets, self.blocks, strict=True):
                    writer.put("t", block, offset=offset)

    def _write_h5py(self, path: Path, sync: bool) -> None:
        with h5py.File(path, "w", libver="latest") as file:
            dataset = file.create_dataset("t", self.shape, "f4", chunks=(EDGE,) * 3)
            for offset, block in zip(self.offsets, self.blocks, strict=True):
                dataset.id.write_direct_chunk(offset, block)
            file.flush()
            if sync:
                os.fsync(file.id.get_vfd_handle())

    def open(self, engine: str) -> None:
        """Open, to where reading can begin, and close."""
        path = self.path(engine)
        if engine == "raw":
            os.close(os.open(path, os.O_RDONLY))
        elif engine == "h5py":
            with h5py.File(path, "r") as file:
                _ = file["t"].shape
        else:
            with dry.open(path) as container:
                _ = container["t"].shape

    def read(self, engine: str, selection: tuple[slice | int, ...], out: raw.Array) -> None:
        """Fill `out` with a selection."""
        getattr(self, f"_read_{engine}")(self.path(engine), selection, out)

    def _read_raw(self, path: Path, selection: tuple[slice | int, ...], out: raw.Array) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        if all(isinstance(s, slice) for s in selection):
            _, _, across = self.counts
            for first in range(0, self.total, across):  # a row of blocks along the last axis at a time
                row = self.piece.reshape(-1)[: across * EDGE**3].reshape(across, EDGE, EDGE, EDGE)
                raw.read_at(descriptor, first * EDGE**3 * 4, row)
                z, y, _ = self.offsets[first]
                target = out[z : z + EDGE, y : y + EDGE].reshape(EDGE, EDGE, across, EDGE)
                target[...] = row.transpose(1, 2, 0, 3)
        else:
            self._read_raw_plane(descriptor, selection, out)
        os.close(descriptor)

    def _read_raw_plane(self, descriptor: int, selection: tuple[slice | int, ...], out: raw.Array) -> None:
        axis = next(a for a, s in enumerate(selection) if not isinstance(s, slice))
        place = selection[axis]
        assert isinstance(place, int)
        inside = [slice(0, EDGE)] * 3
        inside[axis] = slice(place % EDGE, place % EDGE + 1)
        whole = np.expand_dims(out, axis)
        for number, offset in enumerate(self.offsets):
            if offset[axis] == place - place % EDGE:
                target = [slice(a, a + EDGE) for a in offset]
                target[axis] = slice(0, 1)
                raw.read_part(
                    descriptor,
                    number * EDGE**3 * 4,
                    (EDGE,) * 3,
                    tuple(inside),
                    whole[tuple(target)],
                    self.piece,
                )

    def _read_h5py(self, path: Path, selection: tuple[slice | int, ...], out: raw.Array) -> None:
        with h5py.File(path, "r") as file:
            file["t"].read_direct(out, selection)

    def _read_drystone(self, path: Path, selection: tuple[slice | int, ...], out: raw.Array) -> None:
        with dry.open(path) as container:
            offset = [0 if isinstance(s, slice) else s for s in selection]
            count = [n if isinstance(s, slice) else 1 for s, n in zip(selection, self.shape, strict=True)]
            container["t"].read(None, offset, count, out=out.reshape(count))


def run(settings: Settings) -> list[Table]:
    """One table."""
    data = Data(settings.folder / "many_blocks", (2, 4, 5) if settings.quick else (32, 25, 25))
    data.folder.mkdir(parents=True)
    table = Table(f"{data.total:,} blocks of 16^3 floats", baseline="raw")
    for sync in (True, False):
        _write(settings, table, data, "write, durable" if sync else "write, async", sync)
    everything = (slice(None),) * 3
    _reads(settings, table, data, "open", lambda engine: data.open(engine), None)
    for case, selection in {
        "read all": everything,
        "plane z": (data.shape[0] // 2 + 5, slice(None), slice(None)),
        "plane y": (slice(None), data.shape[1] // 2 + 5, slice(None)),
        "plane x": (slice(None), slice(None), data.shape[2] // 2 + 5),
    }.items():
        expected = data.whole[selection]
        out = data.found if selection == everything else touched(expected.shape, "f4")
        act = partial(_read, data, selection, out)
        _reads(settings, table, data, case, act, (out, expected))
    table.remarks.append(_plan(data))
    discard(data.folder)
    return [table]


def _read(data: Data, selection: tuple[slice | int, ...], out: raw.Array, engine: str) -> None:
    data.read(engine, selection, out)


def _write(settings: Settings, table: Table, data: Data, case: str, sync: bool) -> None:
    settings.say(f"{data.total:,} blocks: {case}")

    def act(engine: str) -> Cost:
        path = data.path(engine)
        discard(path)
        cost = measured(lambda: data.write(engine, sync))
        data.found.fill(-1)
        data.read(engine, (slice(None),) * 3, data.found)
        CHECKED.same(engine, data.found, data.whole)
        settle([path], forget=False)
        return cost

    found = alternate({engine: partial(act, engine) for engine in ENGINES}, settings.rounds(5))
    table.add(case, found, bytes_each=data.whole.nbytes, writes=True)
    for engine in ENGINES:
        table.stored(case, engine, size_of(data.path(engine)))


def _reads(
    settings: Settings,
    table: Table,
    data: Data,
    case: str,
    read: Callable[[str], None],
    check: tuple[raw.Array, raw.Array] | None,
) -> None:
    for cold in (False, True):
        name = f"{case}, {'cold' if cold else 'warm'}"
        settings.say(f"{data.total:,} blocks: {name}")

        def act(engine: str, cold: bool = cold) -> Cost:
            if cold:
                make_cold(data.path(engine), settings)
            else:
                read(engine)
            if check is not None:
                check[0].fill(-1)
            cost = measured(lambda: read(engine))
            if check is not None:
                CHECKED.same(engine, *check)
            return cost

        found = alternate(
            {engine: partial(act, engine) for engine in ENGINES}, settings.rounds(7), warm_up=not cold
        )
        table.add(name, found, bytes_each=check[0].nbytes if check else 0, writes=False)


def _plan(data: Data) -> str:
    with dry.open(data.path("drystone")) as container:
        plan = container["t"].explain[:, :, data.shape[2] // 2 + 5]
    return (
        f"Plan of plane x: {plan.requests:,} requests, {plan.read_bytes:,} bytes read for {plan.wanted_bytes:,} "
        f"wanted, from {plan.blocks:,} blocks."
    )
