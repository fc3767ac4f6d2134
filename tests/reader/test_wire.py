"""The vectors of bodies as the independent reader sees them."""

import json
from pathlib import Path

import pytest

from drystone_wire import MalformedError, body

VECTORS = Path(__file__).parent.parent / "vectors" / "wire"
NAMES = sorted(path.stem for path in VECTORS.glob("*.bin"))


@pytest.mark.parametrize("name", NAMES)
def test_a_body_is_what_its_value_says(name):
    frames = [
        {"code": code, "texts": texts, "numbers": [str(n) for n in numbers], "payload": payload.hex()}
        for code, texts, numbers, payload in body((VECTORS / f"{name}.bin").read_bytes())
    ]
    assert frames == json.loads((VECTORS / f"{name}.json").read_text())["frames"]


@pytest.mark.parametrize("name", NAMES)
def test_a_cut_or_changed_body_is_refused(name):
    data = (VECTORS / f"{name}.bin").read_bytes()
    for length in range(len(data)):
        with pytest.raises(MalformedError):
            body(data[:length])
    for at in range(len(data)):
        with pytest.raises((MalformedError, UnicodeDecodeError)):
            body(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])


def test_there_are_vectors():
    assert {"v1_len", "v1_request", "v1_reply"} <= set(NAMES)
