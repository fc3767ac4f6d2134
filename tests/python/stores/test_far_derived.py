"""The cost of a derived variable on a far store besides its inputs: bytes and rounds of requests, counted by the
server."""

from __future__ import annotations

from collections.abc import Iterator

import drystone as dry
import numpy as np
import pytest
from far_rig import Rig

URL = "s3://bucket/run.dry"
EDGE = 128
SEED = 5


@pytest.fixture(scope="module")
def fields() -> dict[str, np.ndarray]:
    random = np.random.default_rng(SEED)
    return {name: random.random((EDGE,) * 3, "f4") for name in "uvw"}


@pytest.fixture(scope="module")
def rig(fields: dict[str, np.ndarray]) -> Iterator[Rig]:
    rig = Rig()
    with dry.create(URL, storage_options=rig.options) as c:
        for name, values in fields.items():
            c.create_variable(name, "f4", shape=values.shape)
            c[name][...] = values
        c.derive("speed", "sqrt(u*u + v*v + w*w)")
        c.derive("curl", "curl(u, v, w)")
    rig.order(rtt_ms=20)
    yield rig
    rig.close()


@pytest.mark.parametrize(("name", "bytes_of_inputs", "rounds"), [("speed", 1.05, 16), ("curl", 2.0, 40)])
def test_inputs_come_in_few_large_tiles(
    rig: Rig, fields: dict[str, np.ndarray], name: str, bytes_of_inputs: float, rounds: int
) -> None:
    """Symptom: a curl read 12 times the bytes of its inputs, in 400 rounds. Cause: tiles were as small as the CPU
    caches."""
    u, v, w = (values.astype("f8") for values in fields.values())
    with dry.open(URL, storage_options=rig.options) as c:
        rig.order(reset=True)
        found = c[name][...]
        counts = rig.order()
    if name == "speed":
        assert np.allclose(found, np.sqrt(u * u + v * v + w * w), rtol=1e-6)
    else:
        assert np.allclose(found[..., 0], np.gradient(w, axis=1) - np.gradient(v, axis=2), atol=1e-5)
    assert counts["bytes_out"] <= bytes_of_inputs * 3 * fields["u"].nbytes
    assert counts["rounds"] <= rounds
