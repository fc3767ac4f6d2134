"""`drystone du`: the size of each variable on disk, and of the other files of the container."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drystone.commands.outcome import Outcome, table
from drystone.counted import size
from drystone.disk_use import du


def run(*, container: str, **given: Any) -> Outcome:
    """Print it as a table."""
    found = du(container, **given)
    rows = [("name", "blocks", "stored", "decoded", "ratio")]
    rows += [
        (v.name, str(v.blocks), size(v.stored), size(v.decoded), f"{v.ratio:.2f}" if v.ratio else "-")
        for v in found.variables
    ]
    total = ", ".join(f"{folder} {size(nbytes)}" for folder, nbytes in found.files.items())
    files = f"\n{size(sum(found.files.values()))} in files: {total}" if found.files else ""
    return Outcome(f"{table(rows)}{files}", asdict(found))
