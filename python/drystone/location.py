"""Locations of containers: paths and URLs."""

from __future__ import annotations

import builtins
import json
import os
import re
import shutil
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from drystone.errors import ConflictError, InvalidArgumentError, IoError, PermissionError, UnsupportedError

Location = str | os.PathLike[str]
"""A path or URL of a container."""

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_IDENTITY = "drystone.json"
_PARTS = ("log", "index", "manifest")
# Folders whose names other programs may use too, and the names of a container's own files in them.
_NAMED = {
    "files": re.compile(r"[0-9]{12}\.(jnl|claim)|[0-9a-f]{8}-[0-9a-f]{8}\.dat|[0-9a-f]{8}\.mount"),
    "parity": re.compile(r"[0-9]{12,}-[0-9a-f]{8}-[0-9a-f]{8}\.json"),
}
_DOCUMENT = "zarr.json"
_STAMP = b"DRYSHARD"
_TARGETS = "targets.json"
_FILES = (_TARGETS, "reads.dsr")


def is_url(url: str | os.PathLike[str]) -> bool:
    """Whether it names a container in a far store, and not a local one."""
    scheme = _SCHEME.match(os.fsdecode(os.fspath(url)))
    return scheme is not None and scheme[1].lower() != "file"


def place(url: str | os.PathLike[str]) -> str:
    """The location of a container: its URL as given, without trailing slashes, or its absolute local path."""
    return utf8(os.fsdecode(os.fspath(url)).rstrip("/") if is_url(url) else local_path(url))


def utf8(path: str) -> str:
    """The path, if it is valid UTF-8, as paths of containers must be."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{path!r} is not a path of a container: it is not UTF-8") from error
    return path


def named(text: str) -> str | Path:
    """A container on a command line: a URL as it is, else a path."""
    return text if is_url(text) else Path(text)


def with_token(options: Mapping[str, object] | None, token: str | None) -> Mapping[str, object] | None:
    """The options, including the token for a server."""
    return options if token is None else {**(options or {}), "token": token}


def store_options(
    url: str, options: Mapping[str, object] | None, *, leads_to_urls: bool = False
) -> list[tuple[str, str]]:
    """The options of a far store in the engine's form: names and texts.

    With `leads_to_urls` what is at a local path names others at URLs, for which the options are.
    """
    if not options:
        return []
    if not (is_url(url) or leads_to_urls) and not all(name.startswith("drystone_cache") for name in options):
        raise InvalidArgumentError(
            f"{url} is a local path: storage_options are for URLs such as s3://bucket/run42.dry"
        )
    given = []
    for name, value in options.items():
        if isinstance(value, bool):
            value = "true" if value else "false"
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            # The value may be a secret.
            raise InvalidArgumentError(
                f"storage_options: the value of {name!r} is a text, not {type(value).__name__}"
            )
        given.append((name, str(value)))
    return given


def supplier(
    url: str, credentials: Callable[[], Mapping[str, object]] | None
) -> Callable[[], tuple[list[tuple[str, str]], float | None]] | None:
    """A caller's credentials function in the engine's form.

    It returns names and texts, and the expiry time in seconds since 1970.
    """
    if credentials is None:
        return None
    if not is_url(url):
        raise InvalidArgumentError(
            f"{url} is a local path: credentials are for URLs such as s3://bucket/run42.dry"
        )
    if not callable(credentials):
        raise InvalidArgumentError(
            "credentials is a function that gives a dict; keys that are fixed go into storage_options"
        )

    def supply() -> tuple[list[tuple[str, str]], float | None]:
        given = dict(credentials())
        ends = [given.pop(name) for name in _EXPIRY if name in given]
        # Absent values, such as a missing session token, are None.
        values = [
            (name, value) for name, value in given.items() if isinstance(name, str) and isinstance(value, str)
        ]
        if len(values) != sum(value is not None for value in given.values()):
            raise TypeError("names and values of credentials are texts")
        return values, next((_seconds(end) for end in ends if end is not None), None)

    # The same function is the same source: containers that use it share connections and credentials.
    return _made.setdefault(credentials, supply) if isinstance(credentials, Hashable) else supply


_made: dict[Hashable, Callable[[], tuple[list[tuple[str, str]], float | None]]] = {}


_EXPIRY = ("expires", "expires_at", "expiry_time", "Expiration", "expiration", "AWS_CREDENTIAL_EXPIRATION")


def _seconds(end: object) -> float:
    if isinstance(end, str):
        end = datetime.fromisoformat(end)
    if isinstance(end, datetime):
        # A time without a zone is in UTC, as in boto3.
        return (end if end.tzinfo else end.replace(tzinfo=UTC)).timestamp()
    if isinstance(end, int | float):
        return float(end)
    raise TypeError("a time of expiry is a datetime, a text, or seconds since 1970")


def local_path(url: str | os.PathLike[str]) -> str:
    """The absolute local path that a path or `file://` URL means."""
    path = os.fsdecode(os.fspath(url))
    scheme = _SCHEME.match(path)
    if scheme and scheme[1].lower() != "file":
        raise UnsupportedError(
            f"{path}: a local path is needed here; {scheme[1]}:// is for create() and open()"
        )
    if scheme:
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost"):
            raise InvalidArgumentError(f"{path}: a file URL is file:///absolute/path, without a host")
        path = unquote(parts.path)
    if not path or "\0" in path:
        raise InvalidArgumentError(f"{path!r} is not a path")
    return str(Path(path).absolute())


def remove_container(path: str) -> bool:
    """Remove the container at `path`: its identity, everything in its folders, and what it published in `zarr/`.

    Other files in the folder, and arrays of other programs in `zarr/`, stay. Returns False if there is none.
    """
    root = Path(path)
    if not root.exists():
        return False
    if not (root / _IDENTITY).is_file():
        if root.is_dir() and not any(root.iterdir()):
            return False
        raise ConflictError(f"{path} is not a container: overwrite=True replaces containers only")
    try:
        uuid = _uuid(root)
        # Without its identity file it is no longer a container, even if the rest fails.
        (root / _IDENTITY).unlink()
        for folder in _on_targets(root):
            shutil.rmtree(folder, ignore_errors=True)
        for name in _FILES:
            (root / name).unlink(missing_ok=True)
        for part in _PARTS:
            if (root / part).is_dir():
                shutil.rmtree(root / part)
        _remove_published(root / "zarr", uuid)
        _remove_registrations(root / "tiers")
        for part, names in _NAMED.items():
            if (root / part).is_dir() and not (root / part).is_symlink():
                _remove_matching(root / part, names)
        return True
    except OSError as error:
        kind = PermissionError if isinstance(error, builtins.PermissionError) else IoError
        raise kind(f"removing the container at {path}: {error}") from error


def _uuid(root: Path) -> str | None:
    """The uuid of the container, as its published documents have it; None if its identity is damaged."""
    try:
        uuid = json.loads((root / _IDENTITY).read_bytes())["uuid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return uuid.replace("-", "").lower() if isinstance(uuid, str) else None


def _remove_published(folder: Path, uuid: str | None) -> None:
    """Remove what a container published: its documents, with their chunks and statistics, and stamped shards."""
    for place, _, files in os.walk(folder, topdown=False):
        here = Path(place)
        if _DOCUMENT in files and _is_published(here / _DOCUMENT, uuid):
            (here / _DOCUMENT).unlink()
            _remove_matching(here / "c", re.compile(r"[0-9]+"))
            if (here / ".drystone").is_dir():
                shutil.rmtree(here / ".drystone")
        for name in files:
            if name != _DOCUMENT and _is_stamped(here / name):
                (here / name).unlink()
        if not any(here.iterdir()):
            here.rmdir()


def _is_published(document: Path, uuid: str | None) -> bool:
    """Whether the container published it. One that is no JSON, after a power cut, counts, as for `publish`."""
    try:
        said = json.loads(document.read_bytes())
    except ValueError:
        return True
    try:
        owner = said["attributes"]["drystone"]["container"]
    except (KeyError, TypeError):
        return False
    return isinstance(owner, str) and uuid in (None, owner)


def _is_stamped(file: Path) -> bool:
    """Whether it is a shard of a container whose document is gone."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(len(_STAMP)) == _STAMP


def _remove_matching(path: Path, names: re.Pattern[str]) -> None:
    """Remove a file, or the files of these names at any depth in a folder, and folders that are then empty."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        for item in [*path.iterdir()]:
            if names.fullmatch(item.name):
                _remove_matching(item, names)
        if not any(path.iterdir()):
            path.rmdir()


def _remove_registrations(folder: Path) -> None:
    """Remove the registrations of parts in tiers; a folder of that name may belong to another program."""
    for node in folder.glob("*/"):
        for said in node.glob("*.json"):
            if re.fullmatch(r"[0-9a-f]{16}\.json", said.name):
                said.unlink()
        if not any(node.iterdir()):
            node.rmdir()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _on_targets(root: Path) -> list[Path]:
    """The container's own folders on storage targets."""
    try:
        said = json.loads((root / _TARGETS).read_bytes())
        folders = [Path(folder) for folder in [*said["folders"], *said["former"]]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    # Each folder was named after the container when it was created, with a part of its identity.
    return [folder for folder in folders if re.search(r"-[0-9a-f]{8}$", folder.name)]
