"""Packs as the independent reader sees them: the vectors, and containers that the engine packed."""

import json
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

import drystone_packs as packs
import drystone_reader as reader

VECTORS = Path(__file__).parent.parent / "vectors" / "packs"


def vector(name):
    said = json.loads((VECTORS / f"{name}.json").read_text())
    return (VECTORS / f"{name}.bin").read_bytes(), said, bytes.fromhex(said["uuid"])


def test_the_vectors_are_what_stands_beside_them():
    data, said, uuid = vector("v1_floor")
    assert packs.floor(data, uuid) == (said["floor"], said["packs"])
    data, said, uuid = vector("v1_pack")
    first, last, files = packs.pack(data, uuid, said["id"])
    assert (first, last) == (said["first"], said["last"])
    assert {str(version): member.hex() for version, member in files.items()} == said["members"]


def test_no_flipped_bit_of_a_floor_is_read_as_a_value():
    data, _, uuid = vector("v1_floor")
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(reader.CorruptError):
            packs.floor(bytes(flipped), uuid)


def test_both_read_every_snapshot_of_a_packed_container(tmp_path):
    path = tmp_path / "a.dry"
    with dry.create(path) as c:
        v = c.create_variable("v", "i8", (8,))
        for n in range(100):
            v[n % 8] = n
            v[0]  # which commits it
    assert list(path.glob("manifest/*.pack"))
    assert len([p for p in path.rglob("*") if p.is_file()]) <= 32
    independent = reader.open_container(path)
    with dry.open(path) as c:
        assert np.array_equal(independent.read("v"), c["v"][...])
        unpacked = packs.unpacked(path, independent.head[3])
        for version in c.snapshots[1::7]:
            earlier = reader.load(unpacked, int(version), independent.head[3].hex())
            assert np.array_equal(earlier.read("v"), c.at(int(version))["v"][...])
    floor = path / "manifest/floor"
    floor.write_bytes(floor.read_bytes()[:-8])
    with pytest.raises(reader.CorruptError):
        reader.open_container(path)
