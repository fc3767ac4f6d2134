"""`drystone diff`: the differences between two containers, or two snapshots of one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drystone.commands.outcome import Outcome, shown
from drystone.comparing import diff


def run(*, first: str, second: str, no_attrs: bool, **given: Any) -> Outcome:
    """List every difference; exit code 1 if there is one."""
    found = diff(first, second, attrs=not no_attrs, **given, progress=True)
    data = [{name: value for name, value in asdict(one).items() if value is not None} for one in found]
    lines = [shown(str(one)) for one in found]
    return Outcome("\n".join(lines) or "no difference", {"differences": data}, code=1 if found else 0)
