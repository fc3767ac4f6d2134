"""The files of the page and the answers to its requests.

HTTP statuses and bodies, for every server of the page.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from http import HTTPStatus
from importlib import resources
from typing import Any

from drystone import errors
from drystone.view.pictures import CostlyError, Picture

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_STATUS: list[tuple[type[BaseException], HTTPStatus]] = [
    (errors.NotFoundError, HTTPStatus.NOT_FOUND),
    (errors.InvalidArgumentError, HTTPStatus.BAD_REQUEST),
    (errors.OutOfRangeError, HTTPStatus.BAD_REQUEST),
    (errors.UnsupportedError, HTTPStatus.BAD_REQUEST),
    (
        CostlyError,
        HTTPStatus.CONTENT_TOO_LARGE if hasattr(HTTPStatus, "CONTENT_TOO_LARGE") else HTTPStatus(413),
    ),
    (errors.DrystoneError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (MemoryError, HTTPStatus.INTERNAL_SERVER_ERROR),
]


def page_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page by their names, each with its type."""
    page = resources.files("drystone.view").joinpath("page")
    kinds = {file.name: (file, _TYPES.get(file.name.rsplit(".", 1)[-1])) for file in page.iterdir()}
    return {name: (file.read_bytes(), kind) for name, (file, kind) in kinds.items() if kind is not None}


def replied(ask: Callable[[], Any]) -> tuple[HTTPStatus, bytes, str]:
    """Status, body and type of the result of `ask`; for an exception one line with the reason."""
    try:
        found = ask()
        body, kind = _numbers(found) if isinstance(found, Picture) else (as_json(found), "application/json")
    except tuple(kind for kind, _ in _STATUS) as error:
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        more = {"costs": error.nbytes} if isinstance(error, CostlyError) else {}
        said = str(error) or "this needs more memory than there is"
        return status, as_json({"error": said, **more}), "application/json"
    except Exception as error:  # otherwise the browser reports an empty answer
        said = f"internal error in drystone, please report it: {type(error).__name__}: {error}"
        return HTTPStatus.INTERNAL_SERVER_ERROR, as_json({"error": said}), "application/json"
    return HTTPStatus.OK, body, kind


def as_json(found: Any) -> bytes:
    """JSON that every browser accepts, without NaN."""
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(
        "utf-8", "backslashreplace"
    )


def _numbers(picture: Picture) -> tuple[bytes, str]:
    """Length of the header as 4 bytes, the header as JSON padded to 8 bytes, then the values, little-endian."""
    header = as_json(picture.header)
    header += b" " * (-(len(header) + 4) % 8)
    return struct.pack("<I", len(header)) + header + picture.values.tobytes(), "application/octet-stream"
