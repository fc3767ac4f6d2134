"""`drystone du`: what each variable takes on disk, and what the container takes besides."""

from __future__ import annotations

import argparse
from typing import Any

from drystone.commands.outcome import Outcome, size, table
from drystone.commands.selected import opened, place


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    place(parser)
    parser.add_argument("variable", nargs="*", help="only these")


def run(given: argparse.Namespace) -> Outcome:
    """What the index says of each; it is walked once, and no data is read."""
    rows: list[dict[str, Any]] = []
    with opened(given) as c:
        # A link is another name of what is listed already, unless it is what is asked for.
        wanted = {name: c.variables[name] for name in given.variable}
        found = c.usage()
        for name in wanted or sorted(found):
            one = found[c._handle.followed(name) or name]
            ratio = one.decoded / one.stored if one.stored else None
            rows.append(
                {
                    "name": name,
                    "blocks": one.blocks,
                    "stored": one.stored,
                    "decoded": one.decoded,
                    "ratio": ratio,
                }
            )
    rows.sort(key=lambda row: -row["stored"])
    # In a far store it would take a list of everything.
    in_files = () if isinstance(given.container, str) else ("log", "index", "manifest")
    folders = {
        folder: sum(file.stat().st_size for file in (given.container / folder).rglob("*") if file.is_file())
        for folder in in_files
    }
    shown = [("name", "blocks", "stored", "decoded", "ratio")]
    shown += [
        (
            r["name"],
            str(r["blocks"]),
            size(r["stored"]),
            size(r["decoded"]),
            f"{r['ratio']:.2f}" if r["ratio"] else "-",
        )
        for r in rows
    ]
    total = ", ".join(f"{folder} {size(nbytes)}" for folder, nbytes in folders.items())
    files = f"\n{size(sum(folders.values()))} in files: {total}" if folders else ""
    text = f"{table(shown)}{files}"
    return Outcome(text, {"variables": rows, "files": folders})
