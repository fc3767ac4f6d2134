"""`drystone catalog`: add containers to a catalogue, ask it, check it."""

from __future__ import annotations

import argparse
from typing import Any

from drystone import catalogue
from drystone.commands.outcome import Outcome, table
from drystone.counted import counted
from drystone.errors import InvalidArgumentError
from drystone.location import named

ACTIONS = ("add", "find", "check", "forget", "rebuild")


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument("catalog", type=named, help="the catalogue's folder or URL; add makes it")
    parser.add_argument(
        "what",
        nargs="*",
        help="containers, and folders of containers; for find the question: \"campaign == 'a*'\"",
    )
    parser.add_argument("--fresh", action="store_true", help="find: look first at what has changed")
    parser.add_argument(
        "--update", action="store_true", help="check: take up what has changed, forget what is gone"
    )


def run(given: argparse.Namespace) -> Outcome:
    """One of the actions."""
    for flag, action in (("fresh", "find"), ("update", "check")):
        if getattr(given, flag) and given.action != action:
            raise InvalidArgumentError(f"--{flag} is for drystone catalog {action}")
    if given.action in ("add", "forget") and not given.what:
        raise InvalidArgumentError(f"{given.action} which containers? (drystone catalog --help)")
    if given.action == "find" and len(given.what) != 1:
        raise InvalidArgumentError("find takes one question, in quotes (drystone catalog --help)")
    if given.action in ("check", "rebuild") and given.what:
        raise InvalidArgumentError(
            f"{given.action} takes no more than the catalogue (drystone catalog --help)"
        )
    known = catalogue.catalog(given.catalog, make=given.action == "add")
    if given.action == "find":
        return _found(known.find(given.what[0], fresh=given.fresh))
    if given.action == "check":
        return _checked(known.check(update=given.update))
    if given.action == "forget":
        number = known.forget(given.what)
        return Outcome(f"{counted(number, 'container')} forgotten", {"forgotten": number})
    done = known.add(given.what) if given.action == "add" else known.rebuild()
    data = {"added": done.added, "unchanged": done.unchanged, "failed": done.failed}
    same = f", {done.unchanged} known as they are" if done.unchanged else ""
    return Outcome(f"{counted(done.added, 'container')} added{same}", data)


def _found(matches: catalogue.Matches) -> Outcome:
    rows: list[dict[str, Any]] = [
        {"path": m.path, "snapshot": m.snapshot, "uuid": m.uuid, "stale": m.stale} for m in matches
    ]
    shown = [("path", "snapshot", "")]
    shown += [(r["path"], str(r["snapshot"]), "stale" if r["stale"] else "") for r in rows]
    text = table(shown) if rows else "no container answers"
    return Outcome(text, {"found": rows, "gone": matches.gone, "closed": matches.closed})


def _checked(checked: catalogue.Checked) -> Outcome:
    lines = [
        f"{counted(checked.containers, 'container')} in {counted(checked.pages, 'page')} of {checked.nbytes} bytes"
    ]
    lines += [f"damaged: {what}" for what in checked.damage]
    lines += [f"changed: {path}" for path in checked.stale] + [f"gone: {path}" for path in checked.gone]
    if checked.closed:
        lines.append(f"{counted(checked.closed, 'container')} cannot be opened from here")
    data = {
        "containers": checked.containers,
        "pages": checked.pages,
        "bytes": checked.nbytes,
        "damage": checked.damage,
        "stale": checked.stale,
        "gone": checked.gone,
        "closed": checked.closed,
    }
    return Outcome("\n".join(lines), data, code=1 if checked.damage else 0)
