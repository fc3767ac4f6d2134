"""`explain` of a read from a far store predicts the time, and the requests, rounds and bytes that the server counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import drystone as dry
import numpy as np
import pytest
from far_rig import Rig

URL = "s3://bucket/run.dry"
EDGE = 96
KEYS = {
    "all": np.s_[:],
    "a box": np.s_[5:69, 3:67, 7:71],
    "a plane across": np.s_[:, :, 64],
    "a plane along": np.s_[64],
    "a cell": np.s_[3, 4, 5],
    "every other": np.s_[::2, 1, ::3],
}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    rig = Rig()
    values = np.random.default_rng(1).random((EDGE,) * 3).astype("f4")
    with dry.create(URL, storage_options=rig.options) as c:
        for name, transform in (("plain", None), ("coded", "zstd:1")):
            c.create_variable(name, "f4", shape=values.shape, transform=transform)
            with c.writer() as w:
                w.put(name, values)
    rig.order(rtt_ms=20)
    yield rig
    rig.close()


@pytest.mark.parametrize("variable", ["plain", "coded"])
@pytest.mark.parametrize("which", KEYS)
def test_requests_and_bytes_are_those_that_explain_says(rig: Rig, variable: str, which: str) -> None:
    """A handle that has read nothing, on new connections: so few requests are sent twice for being late."""
    number = 2 * list(KEYS).index(which) + (variable == "coded")
    options: dict[str, Any] = {**rig.options, "max_requests": str(100 + number)}
    with dry.open(URL, storage_options=options) as c:
        plan = c[variable].explain[KEYS[which]]
        rig.order(reset=True)
        c[variable][KEYS[which]]
        counts = rig.order()
    assert set(counts["requests"]) <= {"GET"}, counts
    # At most one in thirteen is sent twice.
    copies = counts["total"] - plan.requests
    assert 0 <= copies <= (plan.requests + 5) // 13, (plan, counts)
    assert copies or counts["bytes_out"] == plan.read_bytes, (plan, counts)
    assert copies or counts["rounds"] <= 2, (plan, counts)


def test_rounds_are_predicted(rig: Rig) -> None:
    with dry.open(URL, storage_options={**rig.options, "max_requests": "99"}) as c:
        plan = c["plain"].explain[3:9, 4, 5:9]
        rig.order(reset=True)
        c["plain"][3:9, 4, 5:9]
        counts = rig.order()
    assert plan.rounds == 1
    assert "under way, 1 round trip" in str(plan)
    assert counts["rounds"] == plan.rounds, (str(plan), counts)


def test_the_predicted_time_follows_the_measured_latency(rig: Rig) -> None:
    """The server delays by 80 ms; a busy machine adds to it, hence the wide bound above. The prediction itself is
    exact."""
    rig.order(rtt_ms=80)
    try:
        with dry.open(URL, storage_options={**rig.options, "max_requests": "98"}) as c:
            c["plain"][0, 0, 0]
            c["coded"][0, 0, 0]
            T = c["plain"]
            plan = T.explain[3:5, 4, 5:9]
            began = time.perf_counter()
            T[3:5, 4, 5:9]
            seconds = time.perf_counter() - began
    finally:
        rig.order(rtt_ms=20)
    assert plan.predicted is not None
    assert 0.08 <= plan.predicted < 0.2, plan
    assert 0.8 * plan.predicted <= 1.2 * seconds, (plan.predicted, seconds)
    assert seconds < 10 * plan.predicted
