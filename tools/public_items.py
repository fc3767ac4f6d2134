"""Lists the public items of the engine's crate, and fails if the checked-in list differs.

`python tools/public_items.py` compares with `crates/drystone/public_items.txt`; `--write` brings the list up to date.
Standard library only, about a second. `make lint` runs it, so that a new public item is seen in review.

An item is a `pub` struct, enum, union, trait, function, type, constant or static that a program can name through the
crate `drystone`, and each `pub` method or constant of such a type. A trait counts once. Modules, fields and variants
do not count. An item with several names counts once, where it is defined. `pub use` is followed into the other crates
of the workspace; an item from elsewhere counts as one. Items behind `cfg(test)` and the features `fuzzing` and
`testing` do not count: shipped libraries do not have them.

The source is read as text: macros are not expanded, and a method counts for the type of that name in its crate.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rooms import NO_CODE, Crate, Names, read_crate, use_tree, without_tests

ROOT = Path(__file__).resolve().parents[1]
ENGINE = "drystone"
LIST = ROOT / "crates/drystone/public_items.txt"

ONLY_TESTS = re.compile(r'cfg\((?:any\(test, )?feature = "(?:fuzzing|testing)"\)?\)')
DELIMITER = re.compile(r"[{};]")
ATTRIBUTES = re.compile(r"^\s*(?:#!?\[(?:[^][]|\[[^]]*\])*\]\s*)*")
KINDS = "fn|struct|enum|union|trait|type|const|static|mod"
ITEM = re.compile(
    rf"pub\s+(?:(?:unsafe|async|extern|const(?=\s+(?:unsafe\s+)?fn))\s+)*({KINDS})\s+(?:mut\s+)?(\w+)"
)
PUBLIC_USE = re.compile(r"pub\s+use\s+(.*)", re.DOTALL)
IMPL = re.compile(r"(?:unsafe\s+)?impl\b(.*)", re.DOTALL)
INLINE = re.compile(r"(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*$")


@dataclass
class Public:
    """The public items of one module."""

    items: dict[str, str] = field(default_factory=dict)  # name to kind
    uses: list[tuple[Names, str]] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)


@dataclass
class Source:
    """A crate with the public items of its modules, and the public methods of its types."""

    crate: Crate
    public: dict[Names, Public] = field(default_factory=dict)
    methods: dict[str, set[str]] = field(default_factory=dict)


def read(crate: Crate) -> Source:
    """Read the files of a crate."""
    source = Source(crate)
    for path, module in crate.modules.items():
        text = ONLY_TESTS.sub("cfg(test)", module.file.read_text())
        _scan(source, path, without_tests(NO_CODE.sub(" ", text)))
    return source


def _scan(source: Source, path: Names, code: str) -> None:
    """The public items of a file, its inline modules and its `impl` blocks."""
    inside: list[tuple[str, str]] = []  # the owner of each open brace: a module, a type, or anything else
    start = 0
    source.public.setdefault(path, Public())
    for found in DELIMITER.finditer(code):
        head = code[start : found.start()]
        # `use a::{b, c};` is one declaration.
        if found[0] in "{}" and re.search(r"\buse\s+[^;]*$", head):
            continue
        start = found.end()
        head = head[ATTRIBUTES.match(head).end() :].strip()  # type: ignore[union-attr]
        if found[0] != "}":
            _declaration(source, path, inside, head)
        if found[0] == "{":
            inside.append(_opened(head))
        elif found[0] == "}" and inside:
            inside.pop()


def _declaration(source: Source, path: Names, inside: list[tuple[str, str]], head: str) -> None:
    item = ITEM.match(head)
    if inside and inside[-1][0] == "type":
        if item and item[1] in ("fn", "const"):
            source.methods.setdefault(inside[-1][1], set()).add(item[2])
        return
    if any(kind != "module" for kind, _ in inside):
        return
    here = source.public.setdefault((*path, *(name for _, name in inside)), Public())
    use = PUBLIC_USE.match(head)
    if use:
        here.uses += use_tree(use[1])
    elif item and item[1] == "mod":
        here.modules.add(item[2])
    elif item:
        here.items[item[2]] = item[1]


def _opened(head: str) -> tuple[str, str]:
    """The owner of a brace after these words."""
    inline = INLINE.match(head)
    if inline:
        return "module", inline[1]
    block = IMPL.match(head)
    if block is None or re.search(r"\bfor\s+[\w:&<'(\[]", block[1].partition(" where ")[0]):
        return "other", ""
    return "type", re.sub(r"^\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>", "", block[1]).strip().split("<")[
        0
    ].split("::")[-1]


class Reached:
    """Items that can be named through a crate."""

    def __init__(self, sources: dict[str, Source]) -> None:
        self.sources = sources
        self.items: set[str] = set()
        self._seen: set[tuple[str, Names]] = set()

    def module(self, name: str, path: Names) -> None:
        """All public items of a module, and of the public modules in it."""
        if (name, path) in self._seen:
            return
        self._seen.add((name, path))
        public = self.sources[name].public.get(path, Public())
        for item in public.items:
            self.item(name, path, item)
        for child in public.modules:
            self.module(name, (*path, child))
        for target, called in public.uses:
            self.use(name, path, (*target, "*") if called == "*" else target)

    def use(self, name: str, path: Names, target: Names) -> None:
        """The items that a `pub use` re-exports."""
        where = self.defined(name, path, target)
        if where is None:
            self.items.add("::".join(target))
        elif where[2] is None:
            self.module(where[0], where[1])
        else:
            self.item(*where)

    def item(self, name: str, path: Names, item: str) -> None:
        """An item, and its methods if it is a type."""
        self.items.add("::".join((name, *path, item)))
        if self.sources[name].public[path].items.get(item) in ("struct", "enum", "union"):
            methods = self.sources[name].methods.get(item, set())
            self.items.update("::".join((name, *path, item, method)) for method in methods)

    def defined(
        self, name: str, path: Names, target: Names, depth: int = 0
    ) -> tuple[str, Names, str | None] | None:
        """The crate, module and item of a path; item None for a module, None if they are outside the workspace."""
        first, *rest = target
        if depth > 20:
            return None
        if first in self.sources:
            return self._walk(first, (), tuple(rest), depth)
        if first == "crate":
            return self._walk(name, (), tuple(rest), depth)
        if first in ("self", "super"):
            start = path if first == "self" else path[:-1]
            return self._walk(name, start, tuple(rest), depth)
        return self._walk(name, path, target, depth) if self._has(name, path, first) else None

    def _has(self, name: str, path: Names, first: str) -> bool:
        module = self.sources[name].crate.modules.get(path)
        public = self.sources[name].public.get(path, Public())
        return (
            (*path, first) in self.sources[name].public
            or first in public.items
            or (module is not None and any(use.name == first for use in module.uses))
        )

    def _walk(self, name: str, path: Names, rest: Names, depth: int) -> tuple[str, Names, str | None] | None:
        if not rest or rest == ("*",):
            return name, path, None
        source = self.sources[name]
        if (*path, rest[0]) in source.public:
            return self._walk(name, (*path, rest[0]), rest[1:], depth)
        public = source.public.get(path, Public())
        if rest[0] in public.items:
            return name, path, rest[0]
        module = source.crate.modules.get(path)
        uses = public.uses + [(use.path, use.name) for use in (module.uses if module else [])]
        for target, called in uses:
            if called == rest[0]:
                return self.defined(name, path, (*target, *rest[1:]), depth + 1)
        for target, called in uses:
            if called == "*":
                found = self.defined(name, path, (*target, *rest), depth + 1)
                if found is not None and found[2] is not None:
                    return found
        return None


def listed() -> list[str]:
    """The public items of the engine, sorted."""
    crates = [read_crate(manifest.parent) for manifest in sorted(ROOT.glob("crates/*/Cargo.toml"))]
    reached = Reached({crate.name.replace("-", "_"): read(crate) for crate in crates})
    reached.module(ENGINE, ())
    return sorted(reached.items)


def differences(known: list[str], found: list[str]) -> Iterator[str]:
    """The differences, for a reviewer."""
    for item in sorted(set(found) - set(known)):
        yield f"{item} is public and not in {LIST.relative_to(ROOT)}: hide it, or run tools/public_items.py --write"
    for item in sorted(set(known) - set(found)):
        yield f"{item} is in {LIST.relative_to(ROOT)} and not public: run tools/public_items.py --write"


def main() -> int:
    """Compares or writes; the exit status is 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the list")
    given = parser.parse_args()
    found = listed()
    if given.write:
        LIST.write_text("".join(f"{item}\n" for item in found))
        print(f"{len(found)} public items")
        return 0
    wrong = list(differences(LIST.read_text().splitlines(), found))
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
