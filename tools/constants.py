"""Lists the tuned constants of the Rust sources: value, file, meaning, and the command that measures each again.

`python tools/constants.py` checks `docs/reference/constants.md`: each of its rows must be true of the sources.
`--write` regenerates the page; `--new` lists constants that the page lacks. Standard library only. `make lint` checks.

A tuned constant is a number or a duration with a documentation comment, outside functions and tests, in a folder that
`tools/constants.toml` assigns to a benchmark. Its comment is the text on the page. Numbers that follow from a format,
a standard or another constant are not tuned: the table lists them under `fixed`, as patterns.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools/constants.toml"
PAGE = ROOT / "docs/reference/constants.md"

TYPES = "u8|u16|u32|u64|usize|i32|i64|f32|f64|Duration"
CONSTANT = re.compile(rf"^(?:pub(?:\([^)]*\))? )?const ([A-Z]\w*): (?:{TYPES}) =(?: (.*))?$")
ROW = re.compile(r"^\| `(\w+)` \| `([^`]*)` \| \[[^\]]*\]\(\.\./\.\./([^)]*)\) \|")

HEAD = """# Tuned constants

Numbers in the sources that were chosen by measuring. Each section names the benchmark that measures them again: change a
constant, build a release (`make setup`), run the command before and after, and compare. A constant that changes no figure
by more than 3 % when it is halved and doubled should go.

`python tools/constants.py --write` makes this page from the sources; `make lint` checks that its rows are true.
"""


@dataclass(frozen=True)
class Constant:
    """A constant of the sources."""

    name: str
    value: str
    file: str
    text: str


def constants(root: Path, file: Path, fixed: list[re.Pattern[str]]) -> Iterator[Constant]:
    """The documented constants at the top level of a file, without those that are fixed."""
    comment: list[str] = []
    before = ""  # the preceding comment also applies to constants without their own
    lines = file.read_text().splitlines()
    where = str(file.relative_to(root))
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("#[cfg(test)]"):
            return
        if line.startswith("///"):
            comment.append(line[3:].strip())
        elif found := CONSTANT.match(line):
            value = without_comment(found[2] or "")
            while not value.endswith(";") and number < len(lines):
                value = f"{value} {without_comment(lines[number])}".strip()
                number += 1
            before = " ".join(filter(None, comment)) or before
            if before and not any(pattern.fullmatch(f"{where}:{found[1]}") for pattern in fixed):
                yield Constant(found[1], short(value.rstrip(";")), where, before)
            comment = []
        elif not line.startswith("#["):
            comment, before = [], ""


def without_comment(line: str) -> str:
    """A line of code without its trailing comment."""
    return line.split("//")[0].strip()


def short(value: str) -> str:
    """A value for people: without Miri's alternative, and without paths."""
    value = re.sub(r"if cfg!\(miri\) \{.*?\} else \{ (.*) \}", r"\1", value)
    return re.sub(r"\b(?:std::time::)?Duration::from_(\w+)\((.*)\)", r"\2 \1", value)


def groups(root: Path, table: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[Constant]]]:
    """The sections of the page with their constants. A file belongs to the first group that names it or its folder."""
    fixed = [re.compile(pattern) for pattern in table["fixed"]]
    taken: set[Path] = set()
    for group in table["group"]:
        files: list[Path] = []
        for place in group["folders"]:
            where = root / place
            if not where.exists():
                raise SystemExit(f"{TABLE.name}: {place} is not there")
            files += [where] if where.is_file() else sorted(where.rglob("*.rs"))
        files = [file for file in files if file not in taken]
        taken.update(files)
        yield group, [constant for file in files for constant in constants(root, file, fixed)]


def row(constant: Constant) -> str:
    """A row of a table."""
    text, value = (part.replace("|", "\\|") for part in (without_links(constant.text), constant.value))
    place = constant.file.removeprefix("crates/").replace("/src/", "/")
    return f"| `{constant.name}` | `{value}` | [{place}](../../{constant.file}) | {text} |"


def without_links(text: str) -> str:
    """A comment without rustdoc's links, which do not work on the page: `[`name`](path)` becomes `name`."""
    return re.sub(r"\[(`[^`]*`)\](?:\([^)]*\))?", r"\1", text)


def page(root: Path, table: dict[str, Any]) -> str:
    """The whole page."""
    parts = [HEAD]
    for group, found in groups(root, table):
        rows = "\n".join(map(row, found))
        parts.append(
            f"\n## {group['title']}\n\n{group['trades']}\n\n```sh\n{group['command']}\n```\n\n"
            f"| constant | value | place | meaning |\n|---|---|---|---|\n{rows}\n"
        )
    return "".join(parts)


def faults(root: Path, table: dict[str, Any], text: str) -> list[str]:
    """The rows of the page that are wrong."""
    known = {(c.name, c.file): c.value for _, found in groups(root, table) for c in found}
    wrong = []
    for line in text.splitlines():
        if not (found := ROW.match(line)):
            continue
        name, value, file = found.groups()
        is_now = known.get((name, file))
        if is_now is None:
            wrong.append(f"{file}: {name} is in the page, and not in the sources")
        elif is_now.replace("|", "\\|") != value:
            wrong.append(f"{file}: {name} is {is_now}; the page says {value}")
    return wrong


def missing(root: Path, table: dict[str, Any], text: str) -> list[str]:
    """Constants that the page lacks."""
    said = {(m[1], m[3]) for m in map(ROW.match, text.splitlines()) if m}
    return [
        f"{c.file}: {c.name}"
        for _, found in groups(root, table)
        for c in found
        if (c.name, c.file) not in said
    ]


def main() -> int:
    """Check or write; the exit status is 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="The page of tuned constants.")
    parser.add_argument("--write", action="store_true", help="make the page again")
    parser.add_argument("--new", action="store_true", help="name constants that the page lacks")
    options = parser.parse_args()
    table = tomllib.loads(TABLE.read_text())
    if options.write:
        PAGE.write_text(page(ROOT, table))
        return 0
    text = PAGE.read_text()
    wrong = missing(ROOT, table, text) if options.new else faults(ROOT, table, text)
    if wrong:
        print(*wrong, "python tools/constants.py --write makes the page again", sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
