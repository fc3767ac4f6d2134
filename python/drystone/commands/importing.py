"""`drystone import`: copies a file of another format into a container."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from drystone.commands.outcome import Outcome, table
from drystone.counted import counted, size
from drystone.interchange.importing import import_file

_COLUMN = 32
"""The most characters of member names in a column of the table."""


def run(**given: Any) -> Outcome:
    """Copy; items that cannot be stored are reported, and the rest is copied."""
    codecs = given.pop("transform")
    if codecs is not None:
        given["transform"] = None if codecs == "none" else codecs
    copied = import_file(given.pop("file"), given.pop("container"), **given, progress=True)
    rows = [("name", "dtype", "shape", "size")]
    rows += [(v.name, _shown(v.dtype), str(v.shape), size(v.bytes)) for v in copied.variables]
    return Outcome(table(rows), asdict(copied))


def _shown(dtype: np.dtype[Any]) -> str:
    """A type for a column; for records the members, if they are few."""
    if dtype.names is None:
        return str(dtype)
    names = ", ".join(dtype.names)
    return f"record({names})" if len(names) <= _COLUMN else f"record of {counted(len(dtype.names), 'member')}"
