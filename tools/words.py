"""Refuses old words in cleaned folders: each word has one meaning, which the glossary defines.

`python tools/words.py` reads `tools/words.toml` and checks. Standard library only. `make lint` runs it.

The table has four parts. `[types]` lists names that say too little for a type ("Place", "Found"): no type in the
listed crates has such a name. `[instead]` maps old words to the field's terms; each is refused in the crates listed
for it, in code and comments. `[prose]` maps private phrases to the field's terms; in the listed folders they are
refused in comments, messages and Markdown, but not in names. `[lines]` lists folders whose lines have at most 120
columns; code blocks, tables and links in Markdown may be longer.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools/words.toml"
TYPE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|union|trait|type)\s+(\w+)")
MOST = 120


def sources(root: Path, folder: str) -> list[Path]:
    """The Rust and Python files of a folder."""
    where = root / folder
    return [where] if where.is_file() else sorted([*where.rglob("*.rs"), *where.rglob("*.py")])


def texts(root: Path, table: dict[str, Any]) -> Iterator[Path]:
    """The sources and Markdown files of a table's folders, without those below its exceptions."""
    for folder in table["folders"]:
        where = root / folder
        for file in [where] if where.is_file() else sorted([*where.rglob("*.md"), *sources(root, folder)]):
            if not any(file.is_relative_to(root / other) for other in table.get("except", [])):
                yield file


def vague(root: Path, table: dict[str, Any]) -> Iterator[str]:
    """Types whose names say too little."""
    names = set(table["names"])
    for file in texts(root, table):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = TYPE.match(line) if file.suffix != ".md" else None
            if found and found[1] in names:
                yield f"{file.relative_to(root)}:{number}: a type called {found[1]}: say which, as in the glossary"


def old(root: Path, table: dict[str, Any]) -> Iterator[str]:
    """Old words, with their replacements."""
    for word, entry in table.items():
        pattern = re.compile(rf"(?<![A-Za-z]){word}(?![a-z])")
        for folder in entry["folders"]:
            for file in sources(root, folder):
                for number, line in enumerate(file.read_text().splitlines(), 1):
                    if pattern.search(line):
                        yield f'{file.relative_to(root)}:{number}: "{word}" is called {entry["say"]}'


def private(root: Path, table: dict[str, Any]) -> Iterator[str]:
    """Private phrases in comments, messages and documents, with the field's terms."""
    phrases = [(re.compile(rf"\b(?:{phrase})\b"), say) for phrase, say in table["phrases"].items()]
    for file in texts(root, table):
        for number, line in said(file):
            for pattern, say in phrases:
                if found := pattern.search(line):
                    yield f'{file.relative_to(root)}:{number}: "{found[0]}": say {say}'


def said(file: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file that are prose: comments, quoted texts, Markdown without code."""
    in_block = False
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if file.suffix == ".md":
            in_block ^= line.lstrip().startswith("```")
            yield number, "" if in_block else re.sub(r"`[^`]*`", "", line)
        elif line.lstrip().startswith("//" if file.suffix == ".rs" else ("#", '"""')):
            yield number, re.sub(r"`[^`]*`", "", line)
        else:
            yield number, " ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', line))


def long_lines(root: Path, table: dict[str, Any]) -> Iterator[str]:
    """Lines that are too long to read side by side."""
    for file in texts(root, table):
        for number, line in prose(file):
            if len(line) > MOST:
                yield f"{file.relative_to(root)}:{number}: {len(line)} columns; at most {MOST}"


def prose(file: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file that must not be long."""
    in_block = False
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if file.suffix == ".md":
            in_block ^= line.lstrip().startswith("```")
            if in_block or line.startswith("|") or re.fullmatch(r"\s*\S+\s*", line):
                continue
            yield number, re.sub(r"\]\([^)]*\)", "]", line)
        elif line.lstrip().startswith("//" if file.suffix == ".rs" else ("#", '"""')):
            yield number, line


def faults(root: Path, table: dict[str, Any]) -> list[str]:
    """Everything that is wrong."""
    parts = (
        vague(root, table["types"]),
        old(root, table["instead"]),
        private(root, table["prose"]),
        long_lines(root, table["lines"]),
    )
    return [text for part in parts for text in part]


def main() -> int:
    """Check; the exit status is 1 if something is wrong."""
    found = faults(ROOT, tomllib.loads(TABLE.read_text()))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
