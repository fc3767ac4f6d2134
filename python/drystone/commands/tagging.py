"""`drystone tag`: shows and sets attributes by which containers are found."""

from __future__ import annotations

import json
from typing import Any

from drystone.asked import where
from drystone.commands.outcome import Outcome, table
from drystone.errors import InvalidArgumentError
from drystone.opening import open as dry_open


def run(*, container: str, tags: list[str], of: str) -> Outcome:
    """Set all tags as one commit; without any, show them."""
    values = dict(_tag(text) for text in tags)
    with dry_open(where(container), "r+" if values else "r") as c:
        tagged = c[of] if of else c
        if values:
            tagged.tag(values)
        found = dict(tagged.attrs)
    rows = [("tag", "value"), *((name, repr(value)) for name, value in sorted(found.items()))]
    return Outcome(table(rows) if found else "no tags", {"tags": found})


def _tag(text: str) -> tuple[str, Any]:
    name, is_set, value = text.partition("=")
    if not name or not is_set:
        raise InvalidArgumentError(f"{text} is not KEY=VALUE (drystone tag --help)")
    if not value:
        return name, None
    try:
        parsed = json.loads(value)
    except ValueError:
        return name, value
    # Other JSON values are texts: "null" would remove the tag.
    return name, value if parsed is None else parsed
