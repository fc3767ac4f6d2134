"""Undoes a failed operation: removes what it created; existing data, and data of other writers, stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Literal, Self

from drystone.container import Container
from drystone.errors import DrystoneError, NotFoundError
from drystone.location import is_url, local_path, remove_container, store_options, supplier
from drystone.opening import create
from drystone.opening import open as open_container


class Addition:
    """Additions to a container by one call: variables and groups, and perhaps the container itself."""

    def __init__(self, container: Container, *, owned: bool = False) -> None:
        """Adds to an open container; an `owned` one is closed at the end."""
        self.container = container
        self._owned = owned
        self._new: list[str] = []
        self._writers = 0
        self._made = ""
        self._folder_is_new = False

    @classmethod
    def to(
        cls,
        path: str | PathLike[str],
        durability: Literal["async", "durable", "memory"] = "async",
        *,
        into_existing: bool = False,
    ) -> Self:
        """Adds to the container at a path, created if there is none."""
        if is_url(path):
            try:
                return cls(open_container(path, "r+"), owned=True)
            except NotFoundError:
                return cls.creating(path, durability)
        if (Path(local_path(path)) / "drystone.json").exists():
            return cls(open_container(path, "r+"), owned=True)
        return cls.creating(path, durability, into_existing=into_existing)

    @classmethod
    def creating(
        cls,
        path: str | PathLike[str],
        durability: Literal["async", "durable", "memory"] = "async",
        *,
        overwrite: bool = False,
        into_existing: bool = False,
        storage_options: Mapping[str, object] | None = None,
        credentials: Callable[[], Mapping[str, object]] | None = None,
    ) -> Self:
        """Creates a container and adds to it."""
        if is_url(path):
            # After a failure the data stays there, uncommitted: another program may have used this folder of the
            # object store before.
            far = create(
                path,
                durability,
                overwrite=overwrite,
                storage_options=storage_options,
                credentials=credentials,
            )
            return cls(far, owned=True)
        # These refuse options that are for URLs only.
        store_options(local_path(path), storage_options)
        supplier(local_path(path), credentials)
        folder = Path(local_path(path))
        is_new = not folder.exists()
        made = cls(create(path, durability, overwrite=overwrite, into_existing=into_existing), owned=True)
        made._folder_is_new = is_new
        # A folder with a file named like a container's part was refused, so all such parts belong to this container.
        made._made = made.container.path
        return made

    def begin(self, names: Iterable[str]) -> None:
        """Called before anything is created, with what the operation will create if it does not exist."""
        if not self._made:
            parts = [name.strip("/").split("/") for name in names if name.strip("/")]
            paths = {"/".join(part[:n]) for part in parts for n in range(1, len(part) + 1)}
            self._new = sorted((path for path in paths if path not in self.container), key=len, reverse=True)
            self._writers = self._others() if self._new else 0

    def _others(self) -> int:
        """The number of other writers besides this handle's own."""
        return len(self.container.describe().writers) - self.container._writer_count

    def finish(self) -> None:
        """The operation has succeeded."""
        if self._owned:
            self.container.close()

    def undo(self) -> None:
        """The operation has failed; its caller gets that error.

        Items that cannot be removed stay, without a message.
        """
        container, only_own = self.container, False
        with suppress(DrystoneError):
            container.refresh()
            # Other writers may have created the same names, or put values to them.
            only_own = self._others() <= self._writers
            for name in self._new if only_own else ():
                container.refresh()
                # Only groups that are now empty.
                if name in container.variables or (name in container.groups and not [*container[name]]):
                    container.delete(name)
            only_own = only_own and self._others() <= self._writers
        with suppress(DrystoneError):
            self.finish()
        if self._made and only_own:
            with suppress(DrystoneError, OSError):
                remove_container(self._made)
                if self._folder_is_new:
                    Path(self._made).rmdir()
