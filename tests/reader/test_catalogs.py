"""The vectors of catalogues as the independent reader sees them."""

import json
from pathlib import Path

import pytest

import drystone_catalog as reader

VECTORS = Path(__file__).parent.parent / "vectors" / "catalog"


def read(name, data):
    expected = json.loads((VECTORS / f"{name}.json").read_text())
    if name == "v1_page":
        return {"directory": expected["directory"], **reader.page(data, expected["directory"])}, expected
    return reader.manifest(data), expected


@pytest.mark.parametrize("name", ["v1_manifest", "v1_page"])
def test_the_vector_is_the_value_beside_it(name):
    found, expected = read(name, (VECTORS / f"{name}.bin").read_bytes())
    assert {"structure": f"catalog {name[3:]}", **found} == expected


@pytest.mark.parametrize("name", ["v1_manifest", "v1_page"])
def test_a_shortened_vector_is_refused(name):
    data = (VECTORS / f"{name}.bin").read_bytes()
    for length in range(len(data)):
        with pytest.raises((reader.Damaged, UnicodeDecodeError, IndexError)):
            read(name, data[:length])
