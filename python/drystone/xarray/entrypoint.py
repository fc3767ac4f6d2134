"""`engine="drystone"`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import xarray as xr
from xarray.backends.common import BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint

from drystone.container import Container
from drystone.errors import CorruptError, NotFoundError
from drystone.group import Group
from drystone.location import is_url
from drystone.opening import open as open_container
from drystone.opening import require_whole
from drystone.xarray.store import DrystoneStore


class DrystoneBackendEntrypoint(BackendEntrypoint):
    """Opens containers as datasets: lazily, ready for Dask, with CF decoding.

    Options of its own are `group=` (a path in the container), `snapshot=` (the number of an earlier one),
    `storage_options=` for a container at a URL, `damaged=True` (read what is left of a container with lost files,
    which is otherwise an error), and `lists=True` (variables of lists as two arrays, the contiguous ragged arrays of
    CF; they are read when opened).
    """

    description = "Open Drystone containers"
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether it is a container."""
        if isinstance(filename_or_obj, Container | Group):
            return True
        try:
            if is_url(filename_or_obj):
                # Guessing sends no request to a server.
                return str(filename_or_obj).rstrip("/").endswith(".dry")
            return (Path(filename_or_obj) / "drystone.json").is_file()
        except (TypeError, ValueError, OSError):
            return False

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool | Mapping[str, bool] = True,
        decode_times: Any = True,
        concat_characters: bool | Mapping[str, bool] = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        snapshot: int | None = None,
        damaged: bool = False,
        storage_options: Mapping[str, object] | None = None,
        credentials: Callable[[], Mapping[str, object]] | None = None,
        lists: bool = False,
    ) -> xr.Dataset:
        """The variables directly in a group, the root by default."""
        decoding = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "drop_variables": drop_variables,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        container, owned = _opened(filename_or_obj, snapshot, damaged, storage_options, credentials)
        try:
            return _dataset(_group(container, group), owned, decoding, lists)
        except BaseException:
            if owned:
                container.close()
            raise

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool | Mapping[str, bool] = True,
        decode_times: Any = True,
        concat_characters: bool | Mapping[str, bool] = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        snapshot: int | None = None,
        damaged: bool = False,
        storage_options: Mapping[str, object] | None = None,
        credentials: Callable[[], Mapping[str, object]] | None = None,
        lists: bool = False,
    ) -> dict[str, xr.Dataset]:
        """A dataset for each group, by its path from `group`."""
        decoding = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "drop_variables": drop_variables,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        container, owned = _opened(filename_or_obj, snapshot, damaged, storage_options, credentials)
        try:
            root = _group(container, group)
            found = {"/": _dataset(root, owned, decoding, lists)}
            for name in sorted(root.groups):
                found[f"/{name}"] = _dataset(root.groups[name], False, decoding, lists)
            return found
        except BaseException:
            if owned:
                container.close()
            raise

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """The groups as a tree."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))


def _opened(
    source: Any,
    snapshot: int | None,
    damaged: bool,
    options: Mapping[str, object] | None,
    credentials: Callable[[], Mapping[str, object]] | None,
) -> tuple[Container, bool]:
    """The container, and whether it was opened here. Lost files raise CorruptError, unless `damaged`."""
    owned = not isinstance(source, Container | Group)
    container = (
        open_container(source, damaged=damaged, storage_options=options, credentials=credentials)
        if owned
        else source._container
    )
    shown = container if snapshot is None else container.at(snapshot)
    try:
        if not damaged:
            require_whole(shown)
    except CorruptError:
        if owned:
            container.close()
        raise
    if shown is container:
        return container, owned
    if owned:
        container.close()
    return shown, True


def _group(container: Container, path: str | None) -> Group:
    if not path or path == "/":
        return container
    found = container[path]
    if not isinstance(found, Group):
        raise NotFoundError(f'"{path}" is a variable, not a group')
    return found


def _dataset(group: Group, owned: bool, decoding: dict[str, Any], lists: bool) -> xr.Dataset:
    return StoreBackendEntrypoint().open_dataset(DrystoneStore(group, owned=owned, lists=lists), **decoding)
