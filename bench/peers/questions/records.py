"""What does one member of records cost? Particles of seven members in 52 bytes; written whole, then one member is read.

A peer without members of its own stores an array per member, which its users do too.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from engines import Array, Engine
from measure import CHECKED, Cost, discard, make_cold, measured, settle, size_of
from rounds import Bench, Mistake, Question

RECORD = np.dtype([(n, "f8") for n in ("x", "y", "z", "u", "v", "w")] + [("species", "i4")])


def run(bench: Bench) -> list[Question]:
    """One table."""
    count = 4096 if bench.settings.quick else 1 << 20
    records = np.zeros(count, RECORD)
    for i, member in enumerate(RECORD.names or ()):
        records[member] = np.arange(count) * (i + 1) % 100_003
    question = Question("records", f"Records: {count:,} particles of {RECORD.itemsize} bytes")
    engines = {k: e for k, e in bench.engines.items() if "write_records" in e.extras}
    # A raw file does not know what it holds: the reader does.
    out = np.empty(count, np.dtype("f8", metadata={"records": RECORD.descr}))
    with bench.folder("records") as folder:
        for durable in (True, False):

            def write(key: str, engine: Engine, durable: bool = durable) -> Cost:
                path = folder / key
                discard(path)
                cost = measured(lambda: engine.extras["write_records"](path, records, durable))
                settle([path], forget=False)
                return cost

            acts = {key: partial(write, key, engine) for key, engine in engines.items()}
            name = f"write, {'durable' if durable else 'async'}"
            case = bench.alternate(name, acts, 3, bytes_each=records.nbytes, writes=True)
            for key in case.figures:
                case.stored[key] = size_of(folder / key)
            question.cases.append(case)
        for cold in (False, True):

            def read(key: str, engine: Engine, cold: bool = cold) -> Cost:
                path = folder / key
                kept: list[Array] = []
                act = lambda: kept.append(engine.extras["read_member"](path, "v", out))  # noqa: E731
                if cold:
                    make_cold(path, bench.settings)
                else:
                    act()
                out.fill(-1)
                cost = measured(act)
                if not np.array_equal(kept[-1], records["v"]):
                    raise Mistake(f"{key} read back something else than was written: the benchmark is void")
                CHECKED.count(key, count)
                return cost

            acts = {key: partial(read, key, engine) for key, engine in engines.items()}
            name = f"read one member, {'cold' if cold else 'warm'}"
            question.cases.append(
                bench.alternate(name, acts, 5, bytes_each=count * 8, writes=False, warm_up=False)
            )
    return [question]
