"""Why a peer is ahead where it is: each row of the figures in which one is, with the reason beside it.

A reason stands for rows and engines whose names match its patterns; a row that none matches says that no reason is
known yet.
"""

from __future__ import annotations

import re

from report import Listing
from rounds import LIMIT, OURS, Question

_CHECKED = "Drystone verifies a checksum of every 16 KiB it reads and keeps one, with minimum and maximum, of what it writes"
_GATHERED = (
    "Drystone gathers large blocks' rows into subchunks that serve every direction of reading, and makes minimum, "
    "maximum and a checksum of every 16 KiB"
)
_COMMIT = "a step of Drystone becomes visible as a whole by an immutable manifest, a file of its own"

REASONS: list[tuple[str, str, str, str]] = [
    (
        "checkpoint",
        "KiB each, durable",
        ".*",
        f"{_COMMIT}: three syncs in turn (segment, manifest, folder) where a file per process has one",
    ),
    ("checkpoint", "KiB each, async", ".*", f"{_COMMIT}, and the peer makes no such file"),
    (
        "checkpoint",
        "MiB each",
        ".*",
        f"{_GATHERED}; the peer writes the caller's memory unchanged",
    ),
    (
        "restart",
        "cold",
        ".*",
        "each reader wants separate pieces of cut blocks, with a table and checks of their own; the kernel reads "
        "hinted ranges in pages of 4 KiB, and the peer's contiguous blocks in large ones",
    ),
    (
        "restart",
        "",
        ".*",
        "Drystone reads a subchunk into the processor's cache and copies its rows from there, which also reads the "
        "lines of their destination; the peer's blocks are read directly to their destination (checksums take a "
        "twentieth of the time)",
    ),
    (
        "many_blocks",
        "write",
        "ADIOS2|h5py",
        f"{_CHECKED}: per block of 16 KiB that is an index entry; the peer stores the bytes",
    ),
    (
        "many_blocks",
        "write",
        ".*",
        "the peer's writer was given rows of blocks gathered before, and writes 16 files instead of 4,096 blocks",
    ),
    (
        "many_blocks",
        "plane|read all",
        ".*",
        f"{_CHECKED}; the peer's blocks are in order, Drystone's in the order of writing",
    ),
    (
        "many_blocks",
        "open",
        ".*",
        "the peer reads the locations of blocks only when a read needs them",
    ),
    (
        "many_steps",
        "durable",
        ".*",
        f"{_COMMIT}: two waits in turn (segment and manifest, then the folder); the peer waits once, or for its "
        "files concurrently",
    ),
    (
        "many_steps",
        "async",
        "ADIOS2",
        f"{_COMMIT}: a file is made for each; BP5 appends to files that are open",
    ),
    ("many_steps", "async", ".*", f"{_COMMIT}; the peer's steps are chunk files, none visible as a whole"),
    (
        "many_steps",
        "series|one variable",
        ".*",
        "Drystone reads the manifest, then the index, then 64 KiB runs of the variable's pieces; the peer has fewer "
        "levels, and longer runs",
    ),
    (
        "many_steps",
        "open|last",
        ".*",
        "Drystone reads the manifest, then the index, then the values; the peer has fewer levels",
    ),
    (
        "boxes",
        "",
        ".*",
        "Drystone reads and verifies each row or cell with the 16 KiB around it; the peer reads whole blocks or rows "
        "and verifies nothing",
    ),
    (
        "records",
        "write",
        ".*",
        "Drystone splits records, with checks and statistics of each member; the peer stores them unchanged, or was "
        "given members",
    ),
    ("records", "read", ".*", f"{_CHECKED}; the peer reads a contiguous array"),
    (
        "codecs",
        "write",
        ".*",
        "Drystone also makes statistics, a histogram and checksums; cuts and threads differ",
    ),
    ("codecs", "read", ".*", "the peer decodes in other units or with more threads, and verifies nothing"),
]
"""Key of the question, pattern of the case, pattern of the engine, the reason; the first that matches counts."""


def reason(key: str, case: str, engine: str) -> str:
    """Why an engine is ahead in a case."""
    for question, where, who, why in REASONS:
        if question == key and re.search(where, case) and re.fullmatch(who, engine):
            return why
    return "no reason known yet"


def where_ahead(questions: list[Question]) -> Listing:
    """Every row in which a peer takes less time than Drystone, but for raw files, which are the limit."""
    listing = Listing("Where a peer is ahead", ["case", "peer", "of our time", "reason"])
    rows = 0
    for question in questions:
        for case in question.cases:
            if OURS not in case.figures:
                continue
            rows += 1
            for name in case.figures:
                ratio = case.ratio(name)
                if name.startswith(OURS) or name == "raw" or ratio is None or ratio >= LIMIT:
                    continue
                why = reason(question.key, case.name, name)
                listing.rows.append([f"{question.key}: {case.name}", name, f"{ratio:.2f}", why])
    cases = len({row[0] for row in listing.rows})
    listing.remarks.append(f"{cases} of {rows} cases; below {LIMIT} of our time, median of rounds.")
    return listing
