"""Why a peer is ahead where it is: each row of the figures in which one is, with the reason beside it.

A reason stands for rows and engines whose names match its patterns; a row that none matches says that no reason is known yet.
"""

from __future__ import annotations

import re

from report import Listing
from rounds import LIMIT, OURS, Question

REASONS: list[tuple[str, str, str, str]] = []
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
                if name in (OURS, "raw") or ratio is None or ratio >= LIMIT:
                    continue
                why = reason(question.key, case.name, name)
                listing.rows.append([f"{question.key}: {case.name}", name, f"{ratio:.2f}", why])
    cases = len({row[0] for row in listing.rows})
    listing.remarks.append(f"{cases} of {rows} cases; below {LIMIT} of our time, median of rounds.")
    return listing
