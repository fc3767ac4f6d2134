"""`drystone catalog`: add containers to a catalogue, query it, check it."""

from __future__ import annotations

from typing import Any

from drystone import catalogue
from drystone.asked import where
from drystone.commands.outcome import Outcome, table
from drystone.counted import counted
from drystone.errors import InvalidArgumentError


def run(*, action: str, catalog: str, what: list[str], fresh: bool, update: bool) -> Outcome:
    """Run one of the actions."""
    for flag, is_set, one in (("fresh", fresh, "find"), ("update", update, "check")):
        if is_set and action != one:
            raise InvalidArgumentError(f"--{flag} is for drystone catalog {one}")
    if action in ("add", "forget") and not what:
        raise InvalidArgumentError(f"{action} which containers? (drystone catalog --help)")
    if action == "find" and len(what) != 1:
        raise InvalidArgumentError("find takes one question, in quotes (drystone catalog --help)")
    if action in ("check", "rebuild") and what:
        raise InvalidArgumentError(f"{action} takes no more than the catalogue (drystone catalog --help)")
    known = catalogue.catalog(where(catalog), make=action == "add")
    if action == "find":
        return _found(known.find(what[0], fresh=fresh))
    if action == "check":
        return _checked(known.check(update=update))
    if action == "forget":
        number = known.forget(what)
        return Outcome(f"{counted(number, 'container')} forgotten", {"forgotten": number})
    done = known.add(what) if action == "add" else known.rebuild()
    data = {"added": done.added, "unchanged": done.unchanged, "failed": done.failed}
    same = f", {done.unchanged} up to date" if done.unchanged else ""
    return Outcome(f"{counted(done.added, 'container')} added{same}", data)


def _found(matches: catalogue.Matches) -> Outcome:
    rows: list[dict[str, Any]] = [
        {"path": m.path, "snapshot": m.snapshot, "uuid": m.uuid, "stale": m.stale} for m in matches
    ]
    shown = [("path", "snapshot", "")]
    shown += [(r["path"], str(r["snapshot"]), "stale" if r["stale"] else "") for r in rows]
    text = table(shown) if rows else "no container matches"
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
