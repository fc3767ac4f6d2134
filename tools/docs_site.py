"""Hooks of the documentation site (mkdocs.yml): folders become menus, and files outside docs/ are part of the site.

Pages link to sources, examples and the README by relative paths, which work in any view of the repository. The site
holds these files as plain text below `files/`, so the same links work there, too.
"""

import re
from pathlib import Path
from posixpath import dirname, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace each folder in the menu by its index and its pages, in the order of their names."""
    for entry in config["nav"]:
        for title, target in entry.items():
            if target.endswith("/"):
                pages = sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / target).glob("*.md"))
                index = f"{target}README.md"
                entry[title] = [index, *(page for page in pages if page != index)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside docs/ that pages link to."""
    names = set()
    for file in files.documentation_pages():
        for _, target, _ in LINK.findall(file.content_string):
            names.add(outside(file, target))
    for name in sorted(names - {None, ""}):
        files.append(File.generated(config, f"files/{name}.txt", content=(ROOT / name).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Redirect links that leave docs/ to the copies below files/. A folder without a README is not linked."""

    def link(match: re.Match[str]) -> str:
        text, target, _ = match.groups()
        name = outside(page.file, target)
        if name is None:
            return match[0]
        if not name:
            return text
        return f"[{text}]({relpath(f'files/{name}.txt', dirname(page.file.src_uri) or '.')})"

    if (
        page.file.src_uri == "reference/README.md"
    ):  # rustdoc's pages are not in docs/: HTML, which is not checked
        markdown += '\n<a href="../rust/drystone/index.html">The Rust crates</a>\n'
    return LINK.sub(link, markdown)


def outside(file: File, target: str) -> str | None:
    """The target file of a link outside docs/; "" if it cannot be shown, None if the link stays inside docs/."""
    if re.match(r"[a-z+]+:", target):
        return None
    path = normpath(f"docs/{dirname(file.src_uri)}/{target}")
    if path.startswith("docs/"):
        return None
    if (ROOT / path).is_dir():
        path += "/README.md"
    return path if (ROOT / path).is_file() else ""
