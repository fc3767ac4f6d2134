"""The replica of a container in other formats, and its view as a Zarr store."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, SupportsIndex

from drystone import values
from drystone.counted import counted
from drystone.events import emit
from drystone.group import Group
from drystone.location import Location
from drystone.logs import log
from drystone.progress import print_published
from drystone.reports import PublishedArray, PublishReport

if TYPE_CHECKING:
    from drystone.zarr_store import DrystoneStore


class Published(Group):
    """The part of a container that publishes."""

    def publish(
        self,
        variables: str | Iterable[str] | None = None,
        progress: Callable[[int, int], object] | bool | None = True,
        *,
        chunks: Mapping[str, Sequence[SupportsIndex]] | None = None,
        compressor: str | None = "auto",
        memory: SupportsIndex = 512 << 20,
        format: Literal["zarr", "zarr+hdf5", "netcdf"] | None = None,
        path: Location | None = None,
    ) -> PublishReport:
        """Write the committed steps as an ordinary Zarr v3 hierarchy, in `zarr` below the container's path.

        It may run while steps arrive, and may be killed: readers of the hierarchy see whole steps, and another call
        completes missing parts and writes only changes. A variable of records becomes a group with one array per
        member. One process publishes at a time (`ConflictError`). See docs/guide/publishing.md.

        Args:
            variables: Paths; by default all that have a portable form. Arrays of deleted variables are then removed.
            progress: Called as `progress(done, total)` in bytes after each file; returning False stops
                (`CancelledError`). True shows a line where standard error is a terminal.
            chunks: Chunk shapes by variable, the step axis first; by default the model chooses them.
            compressor: `"auto"` (zstd, in HDF5 zlib, where the variable has a transform), `"zstd:LEVEL"`,
                `"zlib:LEVEL"`, or None.
            memory: Limit of the memory that it uses, in bytes; at least 128 MiB.
            format: `"zarr"`; `"zarr+hdf5"`, where each shard is also an HDF5 (netCDF-4) file; `"netcdf"`, which writes
                one netCDF-4 file instead. By default the format of the last publication, at first `"zarr"`.
            path: The netCDF file; by default `netcdf/NAME.nc` below the container's path.

        """
        begun = time.perf_counter()
        self._container._settle()
        if isinstance(variables, str):
            variables = [variables]
        shown = print_published if progress is True and sys.stderr.isatty() else None
        snapshot, arrays, skipped, file = self._container._handle.publish(
            None if variables is None else list(variables),
            memory,
            "none" if compressor is None else compressor,
            {name: list(extents) for name, extents in (values.named(chunks, "chunks") or {}).items()},
            format,
            path,
            self._container._location,
            progress if callable(progress) else shown,
        )
        published = tuple(
            PublishedArray(
                path,
                variable,
                member,
                tuple(shape),
                tuple(chunk),
                tuple(shard),
                written,
                kept,
                copied,
                nbytes,
                why,
            )
            for path, variable, member, shape, chunk, shard, written, kept, copied, nbytes, why in arrays
        )
        where = f"{self._container._location}/zarr" if file is None else os.fspath(file)
        log.info("published snapshot %d to %s: %s", snapshot, where, counted(len(published), "array"))
        emit("publish", self._container._location, begun, snapshot=snapshot, arrays=len(published))
        return PublishReport(where, snapshot, published, dict(skipped))

    def zarr_store(self, *, read_only: bool = True) -> DrystoneStore:
        """The container as a store of zarr-python, including unpublished steps.

        Example: `zarr.open_group(store=c.zarr_store(), mode="r")`.

        By default it shows the current snapshot, and is read-only. A writable store has a handle of its own: arrays
        that are created and written through it are committed at once, and visible here after `refresh`. See
        docs/guide/zarr-store.md.
        """
        from drystone.zarr_store import DrystoneStore

        self._container._settle()
        return DrystoneStore(self._container, read_only=read_only)
