"""Creates and opens containers, also from a pickle or another handle."""

from __future__ import annotations

import operator
import os
import pathlib
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from drystone import metrics
from drystone._core import ContainerHandle
from drystone.container import Container
from drystone.errors import CorruptError, InvalidArgumentError, NotFoundError, UnsupportedError
from drystone.events import emit
from drystone.location import (
    Location,
    is_url,
    local_path,
    place,
    remove_container,
    store_options,
    supplier,
    utf8,
    with_token,
)
from drystone.logs import log
from drystone.node_server import node_server

if TYPE_CHECKING:
    from drystone.container import _Consistency

CONSISTENCIES = ("eventual", "session", "commit", "strong")

_reopened: weakref.WeakValueDictionary[tuple[str, str, int], Container] = weakref.WeakValueDictionary()

given_options: dict[str, list[tuple[str, str]]] = {}
"""The options of all URLs opened in this process or its forking ancestors, including secrets. Pickles do not contain
them."""

_suppliers: dict[str, Callable[[], Mapping[str, object]]] = {}


def create(
    path: Location,
    durability: Literal["async", "durable", "memory"] = "async",
    *,
    overwrite: bool = False,
    into_existing: bool = False,
    targets: Sequence[Location] | None = None,
    spread: Literal["lattice", "hilbert", "row-major"] = "lattice",
    storage_options: Mapping[str, object] | None = None,
    credentials: Callable[[], Mapping[str, object]] | None = None,
    token: str | None = None,
    tiers: Sequence[Location | tuple[Location, int]] | None = None,
    redundancy: str = "none",
    cache: Location | tuple[Location, int] | Literal[False] | None = None,
) -> Container:
    """Create a container: a directory, made with those above it, a folder of an object store, or one on a server.

    Args:
        path: A path, a `file://` URL, a URL of an object store (`s3://`, `gs://`, `az://`) or of a server (`drys://`,
            `drys+unix://`, on this machine also `dry://`).
        durability: What commits survive. `"async"`: kills of processes; a power cut may lose commits after the last
            `flush()`. `"durable"`: power cuts too. `"memory"`: kills only; nothing is ever synced.
        overwrite: Remove an existing container first. Otherwise it raises `ConflictError`. In a local folder these are
            removed: `drystone.json`, `targets.json`, `reads.dsr`; the folders `log`, `index` and `manifest` with
            everything in them; what the container published in `zarr`; its own files in `files`, `parity` and `tiers`;
            its folders on targets. Other files stay. In an object store, all objects below `log`, `index`, `manifest`,
            `zarr`, `publish` and `netcdf` are removed.
        into_existing: Use a folder with other files, which stay unchanged. Otherwise they raise `ConflictError`.
        targets: Folders on several storage targets (disks, pools of a parallel file system). The log parts of
            writers and published shards are spread over them; the container makes a folder of its own in each. See
            docs/guide/layout.md.
        spread: The assignment to targets: balanced by a lattice, round-robin along the Hilbert curve, or row by row.
        storage_options: Endpoint, region, credentials and other options of an object store, by the names that the
            `object_store` library uses (`aws_endpoint`, `aws_region`, ...). Missing options come from the
            environment. See docs/guide/far-stores.md.
        credentials: Returns the credentials of an object store: names and values as in `storage_options`, and
            `expires`, a time in UTC. It is called at the first request and again before they expire, from another
            thread. Pickles do not hold it.
        token: The token that gives rights on a server. Without it, `BEARER_TOKEN` or `BEARER_TOKEN_FILE` of the
            environment.
        tiers: Folders nearer than the container's home (memory, a local disk), nearest first. Blocks are written
            there and copied home in the background. A pair (folder, bytes) limits the size of a tier. Older
            versions cannot read such a container. See docs/guide/tiers.md.
        redundancy: How steps in tiers survive the loss of a node before they are home. It cannot be changed later.
            `"none"`; `"partner"`: another node keeps a copy; `"xor:N"`: sets of up to N writers of different nodes
            keep parity, and one may be lost; `"rs:D+P"`: sets of up to D + P, and P may be lost. Anything else is
            an `InvalidArgumentError`. See docs/guide/redundancy.md.
        cache: A folder on a local disk for bytes that were read from a far store, shared by all containers and
            processes. A pair limits its bytes (default: a tenth of the free space of its disk). `False`: no cache,
            even if `DRYSTONE_CACHE` names one. See docs/guide/cache.md.

    """
    begun = time.perf_counter()
    location = place(path)
    options = [*store_options(location, with_token(storage_options, token)), *_cache(cache)]
    who = supplier(location, credentials)
    _check_targets(location, targets)
    among_files = into_existing
    if overwrite and is_url(location):
        ContainerHandle.remove_url(location, options, who)
    elif overwrite:
        # Files beside a container that is replaced stay beside the new one.
        among_files = remove_container(location) or into_existing
    handle = ContainerHandle.create(
        location, durability, _folders(targets), spread, among_files, options, who, _tiers(tiers), redundancy
    )
    remember(location, options, credentials)
    log.info("created %s (%s)", location, durability)
    emit("create", location, begun, durability=durability)
    return metrics.remember(Container(handle, location, options))


def open(
    url: Location,
    mode: Literal["r", "r+", "a"] = "r",
    *,
    targets: Sequence[Location] | None = None,
    spread: Literal["lattice", "hilbert", "row-major"] = "lattice",
    damaged: bool = False,
    storage_options: Mapping[str, object] | None = None,
    credentials: Callable[[], Mapping[str, object]] | None = None,
    token: str | None = None,
    consistency: _Consistency = "commit",
    tiers: Sequence[Location | tuple[Location, int]] | None = None,
    server: Literal["node"] | None = None,
    cache: Location | tuple[Location, int] | Literal[False] | None = None,
) -> Container:
    """Open a container to read (`"r"`), or to read and write (`"r+"`; `"a"` creates it if there is none).

    `targets` (as in `create`; for writing only) are used by all writers from now on; existing files stay where they
    are. `url`, `storage_options`, `credentials` and `token` are as in `create`. A container behind a web server,
    `http://` or `https://`, can be read.

    `consistency` says when others see values that are written through this handle, and which values this handle sees:
    `"eventual"`, `"session"`, `"commit"` or `"strong"`. The table is in docs/guide/regions.md.

    `tiers` are as in `create`, for a container that was created with tiers. New blocks are written to them first,
    and parts that dead processes of this node left in them are copied home. Reading a container on its own node
    needs no tiers.

    `server="node"` opens it through a server on this machine. The first process that asks for it starts it, and the
    others find it. These processes see each other's locks, and regions are released without a copy; see
    docs/guide/server.md, "A server for a node". If the server does not start, this raises `IoError`.

    `cache` is as in `create`. For a container in a local directory it is useful on slow file systems. It excludes
    `targets`.

    If the newest snapshot cannot be read, and no power cut explains that, opening for reading raises `CorruptError`.
    `damaged=True` then shows, read-only, the newest snapshot that can be read. See docs/guide/lost-files.md.
    """
    begun = time.perf_counter()
    location = place(url)
    if server is not None:
        if server != "node":
            raise InvalidArgumentError(f'server is "node" or left out, not {server!r}')
        if (
            damaged
            or mode == "a"
            or not all(
                given is None for given in (targets, storage_options, credentials, token, tiers, cache)
            )
        ):
            raise UnsupportedError(
                'server="node" opens an existing container, with options from the environment: mode is "r" or "r+", and '
                "targets, tiers, cache, storage_options, credentials, token and damaged are left out"
            )
        location = node_server(location)
    options = [*store_options(location, with_token(storage_options, token)), *_cache(cache)]
    who = supplier(location, credentials)
    _check_targets(location, targets)
    if damaged:
        if mode != "r" or targets is not None or is_url(location):
            raise InvalidArgumentError('damaged=True is for reading a folder: mode is "r", without targets')
        return Container(ContainerHandle.open_damaged(location), location)
    if consistency not in CONSISTENCIES:
        raise InvalidArgumentError(
            f"there is no consistency {consistency!r}; there are: {', '.join(CONSISTENCIES)}"
        )
    handle = ContainerHandle.open(location, mode, _folders(targets), spread, options, who, _tiers(tiers))
    log.info("opened %s to %s", location, "read" if mode == "r" else "write")
    emit("open", location, begun, mode=mode)
    remember(location, options, credentials)
    container = Container(handle, location, options)
    container._consistency = consistency
    return metrics.remember(container)


def _check_targets(location: str, targets: Sequence[Location] | None) -> None:
    if targets is not None and is_url(location):
        raise InvalidArgumentError(f"{location}: storage targets are folders of local file systems")


def _cache(given: Location | tuple[Location, int] | Literal[False] | None) -> list[tuple[str, str]]:
    """The cache as options of the store, so that a container that is opened again has the same."""
    if given is None:
        return []
    if given is False:
        return [("drystone_cache", "")]
    folder, most = given if isinstance(given, tuple) else (given, None)
    options = [("drystone_cache", str(pathlib.Path(utf8(local_path(folder))).absolute()))]
    if most is not None:
        options.append(("drystone_cache_bytes", str(operator.index(most))))
    return options


def _tiers(given: Sequence[Location | tuple[Location, int]] | None) -> list[tuple[str, int | None]] | None:
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        raise InvalidArgumentError(f"tiers is a list of folders, not {given!r}: write [{given!r}]")
    pairs = [one if isinstance(one, tuple) else (one, None) for one in given]
    return [
        (utf8(local_path(folder)), None if most is None else operator.index(most)) for folder, most in pairs
    ]


def _folders(targets: Sequence[Location] | None) -> list[str] | None:
    return None if targets is None else [utf8(local_path(target)) for target in targets]


def remember(
    location: str,
    options: list[tuple[str, str]],
    credentials: Callable[[], Mapping[str, object]] | None,
) -> None:
    """Keeps secrets of this process for pickles that it opens again."""
    if options:
        given_options[location] = options
    if credentials is not None:
        _suppliers[location] = credentials


def open_again(
    path: str, mode: Literal["r", "r+", "a"], options: Iterable[tuple[str, str]] = ()
) -> Container:
    """Opens the container that a pickle or another handle names.

    The options are those of this process, otherwise those of the pickle.
    """
    given = given_options.get(path) if is_url(path) else None
    who = _suppliers.get(path)
    return open(path, mode, storage_options=dict(options if given is None else given), credentials=who)


def reopen(
    path: str, uuid: str, version: int, writable: bool = False, options: Iterable[tuple[str, str]] = ()
) -> Container:
    """The container of a pickle; many variables unpickled in one process share it.

    It is for reading; what is assigned to its variables goes to the container at its path, if the pickled one was
    writable.
    """
    known = _reopened.get((path, uuid, version))
    if known is not None and not known.closed:
        return known
    newest = open_again(path, "r", options)
    if newest.uuid != uuid:
        raise NotFoundError(f"the container at {path} is not the one that was pickled: it has been replaced")
    container = newest.at(version)
    container._assigned.elsewhere = (path, tuple(options)) if writable else None
    _reopened[path, uuid, version] = container
    return container


def require_whole(c: Container) -> None:
    """Raise CorruptError if the container has lost files."""
    lost = c.lost()
    if lost:
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise CorruptError(
            f"{c.path} has lost files: {lost[0]}{more}; verify() names all: restore them, or go on with what is left by "
            "damaged=True (--damaged); after a power cut recover() settles it"
        )
