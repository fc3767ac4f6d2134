"""Chunk shapes on the command line: one for all variables, or by variable."""

from __future__ import annotations

import re
from typing import Any

from drystone.errors import InvalidArgumentError


def chunk_shapes(texts: list[str] | None) -> Any:
    """A chunk shape for all, or shapes by variable."""
    if not texts:
        return ...
    by_name = dict(text.rsplit("=", 1) for text in texts if "=" in text)
    for_all = [text for text in texts if "=" not in text]
    if len(for_all) > 1 or (for_all and by_name):
        raise InvalidArgumentError("--chunks takes one shape for all, or shapes by variable, as in T=64,64")
    return _shape(for_all[0]) if for_all else {name: _shape(shape) for name, shape in by_name.items()}


def _shape(text: str) -> tuple[int, ...] | None:
    if text == "none":
        return None
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise InvalidArgumentError(f"bad chunk shape {text!r}: write extents, as in 64,64, or none")
    return tuple(map(int, text.split(",")))
