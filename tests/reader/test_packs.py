"""Packs as the independent reader sees them: the vectors, and containers that the engine packed."""

import json
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

import drystone_packs as packs
import drystone_reader as reader

VECTORS = Path(__file__).parent.parent / "vectors"


def vector(name, folder="packs"):
    said = json.loads((VECTORS / folder / f"{name}.json").read_text())
    return (VECTORS / folder / f"{name}.bin").read_bytes(), said, bytes.fromhex(said["uuid"])


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


def test_the_vectors_of_log_packs_are_what_stands_beside_them():
    data, said, uuid = vector("v1_log_directory", "log_packs")
    assert packs.log_directory(data, uuid) == said["packs"]
    data, said, uuid = vector("v1_log_pack", "log_packs")
    held = packs.log_pack(data, uuid, said["id"])
    wanted = {(p["writer"], p["part"]): (bytes.fromhex(p["idx"]), bytes.fromhex(p["segment"])) for p in said["parts"]}
    assert held == wanted


def test_both_read_what_short_programs_left(tmp_path):
    path = tmp_path / "a.dry"
    with dry.create(path) as c:
        c.create_variable("v", "i8", (8,))
    for n in range(20):
        with dry.open(path, "r+") as c:
            c["v"][n % 8] = n
    assert (path / "log/packs").exists()
    independent = reader.open_container(path)
    with dry.open(path) as c:
        assert np.array_equal(independent.read("v"), c["v"][...])
        unpacked = packs.unpacked(path, independent.head[3])
        for version in c.snapshots[1::7]:
            earlier = reader.load(unpacked, int(version), independent.head[3].hex())
            assert np.array_equal(earlier.read("v"), c.at(int(version))["v"][...])
    pack = next(path.glob("log/*.pack"))
    pack.write_bytes(pack.read_bytes()[:-8])
    with pytest.raises(reader.CorruptError):
        reader.open_container(path)


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
