"""`drystone export`: copies variables into a file of another format."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drystone.commands.chunk_shapes import chunk_shapes
from drystone.commands.outcome import Outcome, table
from drystone.counted import size
from drystone.interchange.exporting import export


def run(*, container: str, file: str, chunks: list[str], **given: Any) -> Outcome:
    """Write the file. Items that the format cannot hold are reported; the rest is written."""
    written = export(container, file, chunks=chunk_shapes(chunks), **given, progress=True)
    rows = [("name", "shape", "size")]
    rows += [(v.name, str(v.shape), size(v.bytes)) for v in written.variables]
    return Outcome(table(rows), asdict(written))
