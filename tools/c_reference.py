"""Makes docs/reference/c-reference.md from the header of the C library: `python tools/c_reference.py`.

The header is authoritative; the page shows it by sections, with an index. A test fails if the page is outdated.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "crates/capi/include/drystone.h"
PAGE = ROOT / "docs/reference/c-reference.md"
SECTION = re.compile(r"^/\* -{4} (.*?) -{4,} \*/\n", flags=re.MULTILINE)
FUNCTION = re.compile(r"^(?:dry_status|const char \*)\s*\*?(dry_\w+)\(", flags=re.MULTILINE)


def page() -> str:
    """The whole page."""
    header = HEADER.read_text()
    general, _, rest = header.partition("*/\n")
    titles = SECTION.findall(rest)
    parts = SECTION.split(rest)[2::2]
    lines = [re.sub(r"^(/\*| \*)? ?", "", line) for line in general.splitlines()]
    out = "# Reference of the C library\n\n"
    out += "Made from [`drystone.h`](../../crates/capi/include/drystone.h) by `python tools/c_reference.py`. "
    out += "[c.md](../guide/c.md) is the guide: how these functions are used together. What holds everywhere:\n\n"
    out += (
        "\n".join(line for line in lines if line).partition("What holds everywhere\n")[2].strip()
        + "\n\n## Functions\n\n"
    )
    for title, part in zip(titles, parts, strict=True):
        names = sorted(set(FUNCTION.findall(part)))
        listed = ", ".join(f"`{name}`" for name in names) or "no functions"
        out += f"- [{title.partition(' (')[0]}](#{anchor(title)}): {listed}\n"
    for title, part in zip(titles, parts, strict=True):
        code = part.replace("#ifdef __cplusplus\n}\n#endif\n", "").replace("#endif\n", "").strip()
        out += f"\n## {title}\n\n```c\n{code}\n```\n"
    return out


def anchor(title: str) -> str:
    """The anchor of a heading in links."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(page())
