"""The vectors of expressions as the independent reader sees them."""

import json
from pathlib import Path

import pytest

import drystone_expressions as reader

VECTORS = Path(__file__).parent.parent / "vectors" / "expressions"


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.bin")), ids=lambda p: p.stem)
def test_the_vector_is_the_value_beside_it(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    found = reader.expression(path.read_bytes())
    assert {"structure": "expression", "text": expected["text"], **found} == expected


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.bin")), ids=lambda p: p.stem)
def test_a_shortened_vector_is_refused(path):
    data = path.read_bytes()
    for length in range(len(data)):
        with pytest.raises(reader.Damaged):
            reader.expression(data[:length])
