"""`drystone plot`: draws a plane, a series, or the blocks of a variable, as a picture."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drystone.commands.outcome import Outcome
from drystone.drawing import plot


def run(*, container: str, variable: str, **given: Any) -> Outcome:
    """Draw the picture."""
    drawn = plot(container, variable, **given)
    return Outcome(f"{drawn.file}: {drawn.shows}", asdict(drawn))
