"""Draws the graph of modules, and fails if it has a circle or an upward arrow.

`python tools/rooms.py` checks `crates/*` and `connectors/*` against `tools/rooms.toml`. `--draw` prints the rooms of
each crate with their arrows; `--draw NAME` does so for one crate. Standard library only, about a second.

The modules in one folder (or in `lib.rs`) are that folder's *rooms*. A room includes everything below it:
`read/execute/ways.rs` is in the room `read` of its crate and in the room `execute` of `read`. An arrow leads from one
room to another if a file of the first names an item that is defined in the second. A re-exported name counts where it
is defined. Rooms of one folder have no circle, at any depth. A room and the file that declares it (`mod.rs`, `lib.rs`)
may use each other: the parent has what its rooms share and calls them, so the two count as one.

If the table orders the rooms of a crate, a room uses only rooms below it. Crates are ordered likewise.

Not detected: methods that another room adds to a type (`impl Container` in several files), and expanded macros. Tests
(`#[cfg(test)]`, `tests/`) may use anything.
"""

import argparse
import re
import sys
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

TABLE = "tools/rooms.toml"
Names = tuple[str, ...]

# Comments, strings and characters: one pass over a file removes them and keeps its lines.
NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*\""""
    r"""|b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^\\'\n])'""",
    re.DOTALL,
)
TEST_ITEM = re.compile(r"#\[cfg\((?:all\()?test\b|#\[test\]")
BRACKET = re.compile(r"[][(){};]")
USE = re.compile(r"\b(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
MODULE = re.compile(r"\bmod\s+(\w+)\s*([;{])")
PATH = re.compile(r"(?<![\w:$.])([a-z_]\w*)((?:\s*::\s*[A-Za-z_]\w*)+)")
TREE_PART = re.compile(r"\w+|::|[{},*]")


@dataclass
class Use:
    """One name that a `use` declaration imports."""

    path: Names
    name: str  # "*" for everything
    line: int


@dataclass
class Module:
    """One file of a crate."""

    path: Names
    file: Path
    children: list[str] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    mentions: list[tuple[Names, int]] = field(default_factory=list)  # paths in expressions
    defined: set[str] = field(default_factory=set)


@dataclass
class Arrow:
    """The first place where one module uses another."""

    file: Path
    line: int
    name: str


@dataclass
class Crate:
    """A crate with the modules it is made of."""

    name: str
    folder: Path
    needs: set[str]
    modules: dict[Names, Module]

    def arrows(self, parent: Names) -> dict[tuple[str, str], Arrow]:
        """Arrows between the rooms of one folder."""
        found: dict[tuple[str, str], Arrow] = {}
        depth = len(parent)
        for source, target, arrow in self._all_arrows():
            if source[:depth] != parent or target[:depth] != parent:
                continue
            if len(source) > depth and len(target) > depth and source[depth] != target[depth]:
                found.setdefault((source[depth], target[depth]), arrow)
        return found

    def folders(self) -> list[Names]:
        """Modules that have rooms: the crate itself first."""
        return sorted(path for path, module in self.modules.items() if module.children)

    def _all_arrows(self) -> list[tuple[Names, Names, Arrow]]:
        cached = getattr(self, "_arrows", None)
        if cached is None:
            cached = list(self._found_arrows())
            self._arrows = cached
        return cached

    def _found_arrows(self) -> Iterator[tuple[Names, Names, Arrow]]:
        for path, module in self.modules.items():
            named = [(use.path if use.name != "*" else (*use.path, "*"), use.line) for use in module.uses]
            for names, line in named + module.mentions:
                target = self.resolve(path, names)
                if target is not None and target != path:
                    yield path, target, Arrow(module.file, line, "::".join(names))

    def resolve(
        self, at: Names, names: Names, seen: frozenset[tuple[Names, Names]] = frozenset()
    ) -> Names | None:
        """The module that defines what `names` means in the module `at`; None if it is outside this crate."""
        if (at, names) in seen:
            return None
        seen = seen | {(at, names)}
        first, rest = names[0], names[1:]
        if first == "crate":
            return self._walk((), rest, seen)
        if first == "self":
            return self._walk(at, rest, seen)
        if first == "super":
            return self.resolve(at[:-1], ("self", *rest), seen) if at else None
        module = self.modules[at]
        if first in module.children:
            return self._walk((*at, first), rest, seen)
        for use in module.uses:
            if use.name == first and use.path != names[: len(use.path)]:
                return self.resolve(at, (*use.path, *rest), seen)
        return None

    def _walk(self, at: Names, names: Names, seen: frozenset[tuple[Names, Names]]) -> Names | None:
        if not names or names[0] == "*":
            return at
        module = self.modules[at]
        if names[0] in module.children:
            return self._walk((*at, names[0]), names[1:], seen)
        for use in module.uses:
            if use.name == names[0]:
                found = self.resolve(at, (*use.path, *names[1:]), seen)
                return at if found is None else found
        if names[0] not in module.defined:
            for use in module.uses:
                if use.name == "*":
                    inner = self.resolve(at, (*use.path, names[0]), seen)
                    if inner is not None and names[0] in self.modules[inner].defined:
                        return inner
        return at


def read_crate(folder: Path) -> Crate:
    """The modules of one crate, from its root file down."""
    manifest = tomllib.loads((folder / "Cargo.toml").read_text())
    roots = [folder / "src/lib.rs", folder / "src/main.rs"]
    modules: dict[Names, Module] = {}
    waiting: list[tuple[Names, Path]] = [((), next(root for root in roots if root.exists()))]
    while waiting:
        path, file = waiting.pop()
        module = modules[path] = read_module(path, file)
        inside = file.parent if file.name in ("lib.rs", "main.rs", "mod.rs") else file.with_suffix("")
        for child in module.children:
            places = [inside / f"{child}.rs", inside / child / "mod.rs"]
            waiting.append(((*path, child), next(place for place in places if place.exists())))
    return Crate(manifest["package"]["name"], folder, set(manifest.get("dependencies", {})), modules)


def read_module(path: Names, file: Path) -> Module:
    """The declarations and uses of one file."""
    code = without_tests(NO_CODE.sub(lambda found: "\n" * found[0].count("\n") or " ", file.read_text()))
    module = Module(path, file)
    ends = [found.start() for found in re.finditer("\n", code)]
    inner: list[tuple[int, int]] = []  # modules that lie in this file count as part of it
    for found in MODULE.finditer(code):
        if found[2] == ";":
            module.children.append(found[1])
        else:
            inner.append((found.start(), item_end(code, found.start())))

    def outside(names: Names, at: int) -> Names | None:
        depth = sum(1 for start, end in inner if start < at < end)
        while depth and names and names[0] == "super":
            names, depth = names[1:], depth - 1
            if not names or names[0] != "super":
                return ("self", *names)
        return None if depth and names and names[0] == "self" else names

    spans = []
    for found in USE.finditer(code):
        spans.append((found.start(), found.end()))
        for names, name in use_tree(found[1]):
            placed = outside(names, found.start())
            if placed:
                module.uses.append(Use(placed, name, bisect_left(ends, found.start(1)) + 1))
    starts = [start for start, _ in spans]
    for found in PATH.finditer(code):
        nearest = bisect_right(starts, found.start()) - 1
        if nearest >= 0 and found.start() < spans[nearest][1]:
            continue
        placed = outside((found[1], *re.findall(r"\w+", found[2])), found.start())
        if placed:
            module.mentions.append((placed, bisect_left(ends, found.start()) + 1))
    module.defined = set(re.findall(r"\b(?:fn|struct|enum|union|trait|type|const|static|mod)\s+(\w+)", code))
    return module


def without_tests(code: str) -> str:
    """The code with items under `#[cfg(test)]` blanked."""
    kept, at = [], 0
    for found in TEST_ITEM.finditer(code):
        if found.start() < at:
            continue
        end = item_end(code, found.start())
        kept += [code[at : found.start()], re.sub(r"[^\n]", " ", code[found.start() : end])]
        at = end
    return "".join(kept) + code[at:]


def item_end(code: str, start: int) -> int:
    """Where the item that begins at `start` ends, its attributes included."""
    depth = 0
    for found in BRACKET.finditer(code, start):
        if found[0] in "([{":
            depth += 1
        elif found[0] in ")]}":
            depth -= 1
            if depth == 0 and found[0] == "}":
                return found.end()
        elif depth == 0:
            return found.end()
    return len(code)


def use_tree(text: str) -> list[tuple[Names, str]]:
    """Each path of a `use` declaration, with the imported name."""
    parts = TREE_PART.findall(text)
    found: list[tuple[Names, str]] = []
    stack: list[Names] = [()]
    path: Names = ()
    alias, done = "", False

    def finish() -> None:
        if path == stack[-1] and not done:
            return
        if path[-1] == "*":
            found.append((path[:-1], "*"))
        else:
            whole = path[:-1] if path[-1] == "self" and len(path) > 1 else path
            found.append((whole, alias or whole[-1]))

    at = 0
    while at < len(parts):
        part = parts[at]
        if part == "{":
            stack.append(path)
        elif part in (",", "}"):
            finish()
            path, alias, done = stack[-1], "", False
            if part == "}":
                stack.pop()
                path = stack[-1]
        elif part == "as":
            at += 1
            alias = parts[at]
        elif part != "::":
            path = (*path, part)
        at += 1
    finish()
    return found


def circles(nodes: list[str], arrows: dict[tuple[str, str], Arrow]) -> list[list[str]]:
    """Sets of rooms that reach each other, the largest first."""
    ways: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in arrows:
        ways[source].append(target)
    reached = {node: reach(ways, node) for node in nodes}
    found, seen = [], set()
    for node in nodes:
        if node not in seen and node in reached[node]:
            together = [other for other in nodes if other in reached[node] and node in reached[other]]
            seen.update(together)
            found.append(together)
    return sorted(found, key=len, reverse=True)


def reach(ways: dict[str, list[str]], start: str) -> set[str]:
    """Every room that arrows lead to from `start`."""
    found: set[str] = set()
    waiting = list(ways[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += ways[node]
    return found


def shortest_circle(together: list[str], arrows: dict[tuple[str, str], Arrow]) -> list[tuple[str, str]]:
    """The arrows of a shortest circle among rooms that reach each other."""
    best: list[tuple[str, str]] = []
    for start in together:
        ways = {start: [start]}
        waiting = [start]
        while waiting:
            node = waiting.pop(0)
            for source, target in arrows:
                if source != node or target not in together:
                    continue
                if target == start and (not best or len(ways[node]) < len(best)):
                    rooms = [*ways[node], start]
                    best = list(pairwise(rooms))
                if target not in ways:
                    ways[target] = [*ways[node], target]
                    waiting.append(target)
    return best


def place(root: Path, arrow: Arrow) -> str:
    """Where an arrow is, as compilers name places."""
    return f"{arrow.file.relative_to(root)}:{arrow.line}"


def faults(root: Path, crates: list[Crate], table: dict[str, Any]) -> list[str]:
    """The errors in the tree, one message each."""
    found = []
    order = table.get("crates", [])
    for crate in crates:
        if crate.name not in order:
            found.append(f"{crate.name}: not in the list of crates in {TABLE}")
            continue
        for need in sorted(crate.needs & set(order)):
            if order.index(need) <= order.index(crate.name):
                where = (crate.folder / "Cargo.toml").relative_to(root)
                found.append(f"{where}: {crate.name} depends on {need}, which stands above it in {TABLE}")
    allowed = dict(table.get("not_yet", {}))
    for crate in crates:
        for parent in crate.folders():
            name = "::".join((crate.name, *parent))
            rooms, arrows = crate.modules[parent].children, crate.arrows(parent)
            found += circle_faults(root, name, circles(rooms, arrows), arrows, allowed.pop(name, 0))
            if name in table.get("rooms", {}):
                found += order_faults(root, name, rooms, arrows, table["rooms"][name])
    known = {"::".join((crate.name, *parent)) for crate in crates for parent in crate.folders()}
    found += [
        f"{name}: in {TABLE}, but there is no such folder"
        for name in [*allowed, *table.get("rooms", {})]
        if name not in known
    ]
    return found


def circle_faults(
    root: Path, name: str, together: list[list[str]], arrows: dict[tuple[str, str], Arrow], allowed: int
) -> list[str]:
    """Circles of one folder that are larger than the table allows, or smaller than it says."""
    largest = len(together[0]) if together else 0
    if largest > allowed:
        text = f"{name}: {largest} modules in a circle"
        if allowed:
            text += f", {TABLE} allows {allowed}"
        text += ": " + ", ".join(together[0])
        for source, target in shortest_circle(together[0], arrows):
            arrow = arrows[source, target]
            text += f"\n    {place(root, arrow)}: {source} uses {target} ({arrow.name})"
        return [text]
    if largest < allowed:
        rest = f"write {largest}" if largest else "remove the line"
        return [
            f"{name}: the largest circle has {largest} modules, {TABLE} says {allowed}: {rest} under [not_yet]"
        ]
    return []


def order_faults(
    root: Path, name: str, rooms: list[str], arrows: dict[tuple[str, str], Arrow], order: list[str]
) -> list[str]:
    """Rooms that the table lacks, and arrows that lead upward."""
    found = [f"{name}: the module {room} has no place in {TABLE}" for room in rooms if room not in order]
    found += [f"{name}: {TABLE} orders {room}, which is no module" for room in order if room not in rooms]
    for (source, target), arrow in arrows.items():
        if source in order and target in order and order.index(target) <= order.index(source):
            found.append(
                f"{place(root, arrow)}: {source} uses {target} ({arrow.name}), which stands above it in {TABLE}"
            )
    return found


def drawing(crate: Crate, table: dict[str, Any]) -> str:
    """The rooms of a crate from top to bottom with what each uses, and its circles."""
    out = []
    for parent in crate.folders():
        name = "::".join((crate.name, *parent))
        rooms, arrows = crate.modules[parent].children, crate.arrows(parent)
        together = circles(rooms, arrows)
        if parent and not together and not arrows:
            continue
        out.append(
            f"{name}: {len(rooms)} rooms, {len(arrows)} arrows, {len(together)} circles"
            + (f" of {', '.join(str(len(circle)) for circle in together)}" if together else "")
        )
        order = table.get("rooms", {}).get(name) or from_top(rooms, arrows)
        for room in sorted(rooms, key=lambda room: order.index(room) if room in order else -1):
            below = [target for source, target in arrows if source == room]
            out.append(f"    {room} -> {' '.join(sorted(below))}" if below else f"    {room}")
        out += ["    circle: " + " ".join(circle) for circle in together]
    return "\n".join(out)


def from_top(rooms: list[str], arrows: dict[tuple[str, str], Arrow]) -> list[str]:
    """Rooms in an order that follows the arrows, as far as there is one."""
    ways: dict[str, list[str]] = {room: [] for room in rooms}
    for source, target in arrows:
        ways[source].append(target)
    return sorted(rooms, key=lambda room: -len(reach(ways, room)))


def main() -> int:
    """Checks or draws; the exit status is 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[1], help="the repository"
    )
    parser.add_argument(
        "--draw", nargs="?", const="", metavar="CRATE", help="print the rooms, of one crate or all"
    )
    given = parser.parse_args()
    root = given.root.resolve()
    table = tomllib.loads((root / TABLE).read_text())
    manifests = sorted([*root.glob("crates/*/Cargo.toml"), *root.glob("connectors/*/Cargo.toml")])
    crates = [read_crate(manifest.parent) for manifest in manifests]
    if given.draw is not None:
        print("\n".join(drawing(crate, table) for crate in crates if given.draw in ("", crate.name)))
        return 0
    found = faults(root, crates, table)
    for text in found:
        print(text, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
