"""`drystone tag`: attributes by which containers are found, shown and set."""

from __future__ import annotations

import argparse
import json
from typing import Any

from drystone import container
from drystone.commands.outcome import Outcome, table
from drystone.errors import InvalidArgumentError
from drystone.location import named


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("container", type=named, help="the container's directory")
    parser.add_argument(
        "tag",
        nargs="*",
        help="KEY=VALUE sets a tag, KEY= removes it; a value is a number, true, false, or a text",
    )
    parser.add_argument("--of", metavar="PATH", default="", help="tags of a variable or group in it")


def run(given: argparse.Namespace) -> Outcome:
    """All tags are set as one commit; without any they are shown."""
    tags = dict(_tag(text) for text in given.tag)
    with container.open(given.container, "r+" if tags else "r") as c:
        tagged = c[given.of] if given.of else c
        if tags:
            tagged.tag(tags)
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
    # What else JSON reads is a text: "null" would remove the tag.
    return name, value if parsed is None else parsed
