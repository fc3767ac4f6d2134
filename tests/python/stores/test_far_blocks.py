"""Uploads of large blocks to an object store: in pieces, whole or not at all, and without a second copy in memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import drystone as dry
import numpy as np
import pytest
from far_rig import Rig

URL = "s3://bucket/run.dry"
SHAPE = (6, 1 << 20)
"""48 MiB of doubles."""


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def block() -> np.ndarray:
    return np.arange(np.prod(SHAPE), dtype="f8").reshape(SHAPE)


def test_large_blocks_of_a_step_are_one_object_in_pieces(rig: Rig) -> None:
    with dry.create(URL, storage_options=rig.options) as c:
        for name in "TS":
            c.create_variable(name, "f8", shape=SHAPE, steps=True)
        rig.order(reset=True)
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("T", block())
            w.put("S", block()[:, ::-1])
        counts = rig.order()["requests"]
        assert (counts["CREATE_UPLOAD"], counts["COMPLETE_UPLOAD"]) == (1, 1), counts
        assert counts["PUT_PART"] == 18, counts  # 96 MiB in pieces of 5.5
    with dry.open(URL, storage_options=rig.options) as c:
        assert np.array_equal(c["T"][0], block())
        assert np.array_equal(c["S"][0], block()[:, ::-1])
        assert c.verify().ok


def test_a_piece_that_cannot_be_sent_leaves_nothing(rig: Rig) -> None:
    with dry.create(URL, storage_options={**rig.options, "timeout": "2s"}) as c:
        c.create_variable("T", "f8", shape=SHAPE, steps=True)
        rig.order(rules=[{"kind": "PUT_PART", "skip": 3, "do": "status", "status": 403}])
        with pytest.raises(dry.DrystoneError, match="403"), c.writer() as w, w.step():
            w.put("T", block())
        rig.order(rules=[])
    with dry.open(URL, storage_options=rig.options) as c:
        assert len(c["T"].steps) == 0
        assert c.verify().ok
    until = time.monotonic() + 10
    while rig.order()["open_uploads"] and time.monotonic() < until:
        time.sleep(0.01)
    assert rig.order()["open_uploads"] == 0


def test_a_process_holds_32_mib_beside_its_array(rig: Rig) -> None:
    """Peak memory of a process that writes 384 MiB from one array, compared with one that only has the array."""
    program = """
        import sys
        import drystone as dry, numpy as np
        url, options, steps = sys.argv[1], dict(pair.split("=") for pair in sys.argv[3:]), int(sys.argv[2])
        block = np.ones((6, 1 << 20))
        with dry.create(url, storage_options=options) as c:
            c.create_variable("T", "f8", shape=(6 * max(steps, 1), 1 << 20))
            with c.writer() as w:
                w.put("T", block[:1, :1000])
                for n in range(steps):
                    w.put("T", block, offset=(6 * n, 0))
        peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(int(peak.split()[1]) >> 10)
    """
    options = [f"{name}={value}" for name, value in rig.options.items()]
    peaks = []
    for steps in (0, 8):
        command = [
            sys.executable,
            "-c",
            textwrap.dedent(program),
            f"s3://bucket/{steps}.dry",
            str(steps),
            *options,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        peaks.append(int(done.stdout))
    # 32 MiB of buffers, plus threads, connections and the allocator's overhead.
    assert peaks[1] - peaks[0] <= 40, peaks


def test_a_checkpoint_asks_for_little_besides_its_data(rig: Rig) -> None:
    """Besides the data: 1 HEAD and 1 LIST to open the writer; 1 GET (is it the same container?) and 2 PUT for the
    step."""
    with dry.create(URL, storage_options=rig.options) as c:
        for name in "TS":
            c.create_variable(name, "f8", shape=SHAPE, steps=True)
        rig.order(reset=True)
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("T", block())
            w.put("S", block()[:, ::-1])
        counts = rig.order()["requests"]
        besides = {
            kind: n
            for kind, n in counts.items()
            if kind not in ("PUT_PART", "CREATE_UPLOAD", "COMPLETE_UPLOAD")
        }
        assert sum(besides.values()) <= 5, besides
