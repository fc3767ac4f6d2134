"""Where containers are: paths and URLs."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from drystone.errors import ConflictError, InvalidArgumentError, IoError, UnsupportedError

Location = str | os.PathLike[str]
"""A path or URL of a container."""

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_IDENTITY = "drystone.json"
_PARTS = ("log", "index", "manifest", "zarr")
_TARGETS = "targets.json"
_FILES = (_TARGETS, "reads.dsr")


def is_url(url: str | os.PathLike[str]) -> bool:
    """Whether it names a container in a far store, and not a local one."""
    scheme = _SCHEME.match(os.fsdecode(os.fspath(url)))
    return scheme is not None and scheme[1].lower() != "file"


def place(url: str | os.PathLike[str]) -> str:
    """Where a container is: its URL as it was given, without slashes at the end, or its absolute local path."""
    return os.fsdecode(os.fspath(url)).rstrip("/") if is_url(url) else local_path(url)


def named(text: str) -> str | Path:
    """A container as a command line names it: a URL as it is, else a path."""
    return text if is_url(text) else Path(text)


def with_token(options: Mapping[str, object] | None, token: str | None) -> Mapping[str, object] | None:
    """The options, and the word that gives rights on a server."""
    return options if token is None else {**(options or {}), "token": token}


def store_options(url: str, options: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """The options of a far store as the engine takes them: names and texts."""
    if not options:
        return []
    if not is_url(url) and not all(name.startswith("drystone_cache") for name in options):
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
    """A caller's source of credentials as the engine takes it.

    It returns names and texts, and the time of expiry, in seconds since 1970.
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
        # Who has none, such as a session's token, gives None.
        values = [
            (name, value) for name, value in given.items() if isinstance(name, str) and isinstance(value, str)
        ]
        if len(values) != sum(value is not None for value in given.values()):
            raise TypeError("names and values of credentials are texts")
        return values, next((_seconds(end) for end in ends if end is not None), None)

    # One function is one source: containers that have it share connections and what it gave.
    return _made.setdefault(credentials, supply) if isinstance(credentials, Hashable) else supply


_made: dict[Hashable, Callable[[], tuple[list[tuple[str, str]], float | None]]] = {}


_EXPIRY = ("expires", "expires_at", "expiry_time", "Expiration", "expiration", "AWS_CREDENTIAL_EXPIRATION")


def _seconds(end: object) -> float:
    if isinstance(end, str):
        end = datetime.fromisoformat(end)
    if isinstance(end, datetime):
        # A time without a zone is in UTC, as boto3 has it.
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
    """Removes the container at `path`, and nothing else that lies there.

    False, and nothing happens, where there is none.
    """
    root = Path(path)
    if not root.exists():
        return False
    if not (root / _IDENTITY).is_file():
        if root.is_dir() and not any(root.iterdir()):
            return False
        raise ConflictError(f"{path} is not a container: overwrite=True replaces containers only")
    try:
        # Without its identity it is no container any more, even if the rest fails.
        (root / _IDENTITY).unlink()
        for folder in _on_targets(root):
            shutil.rmtree(folder, ignore_errors=True)
        for name in _FILES:
            (root / name).unlink(missing_ok=True)
        for part in _PARTS:
            if (root / part).is_dir():
                shutil.rmtree(root / part)
        _remove_registrations(root / "tiers")
        return True
    except OSError as error:
        raise IoError(f"removing the container at {path}: {error}") from error


def _remove_registrations(folder: Path) -> None:
    """Removes the registrations of parts in tiers; a folder of that name may belong to another program."""
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
    # Each is called as the container was when it was made, with a piece of its identity.
    return [folder for folder in folders if re.search(r"-[0-9a-f]{8}$", folder.name)]
