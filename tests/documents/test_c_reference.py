"""The reference of the C library is the header's, and names every function."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_is_up_to_date_and_names_every_function():
    tool = runpy.run_path(str(ROOT / "tools/c_reference.py"))
    page = (ROOT / "docs/reference/c-reference.md").read_text()
    assert page == tool["page"](), "python tools/c_reference.py writes it anew"
    header = (ROOT / "crates/capi/include/drystone.h").read_text()
    for name in set(
        re.findall(r"^(?:dry_status|const char \*)\s*\*?(dry_\w+)\(", header, flags=re.MULTILINE)
    ):
        assert f"`{name}`" in page
