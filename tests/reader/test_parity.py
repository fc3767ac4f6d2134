"""Parity objects are what their page says: the vectors, recomputed by the independent reader."""

from pathlib import Path

import pytest

import drystone_parity as parity

VECTORS = Path(__file__).parents[1] / "vectors"


def data(member, size):
    """What the members of the vectors had."""
    return bytes((37 * member + 11 * at) % 251 for at in range(size))


@pytest.mark.parametrize("name", ["copy", "xor", "rs"])
def test_the_parity_of_the_vectors_is_that_of_their_members(name):
    found = parity.parity_object((VECTORS / f"v1_parity_{name}.bin").read_bytes())
    group = found["group"]
    for number, place, chunk in parity.parity_chunks(group, found["member"], bytes.fromhex(found["payload"])):
        kept, keepers = parity.stripe(group, number)
        assert keepers[place] == found["member"]
        size = parity.chunk_length(group, number)
        chunks = []
        for member, part in kept:
            whole = data(member, parity.length(group["members"][member]))
            chunks.append(whole[part * size : (part + 1) * size].ljust(size, b"\0"))
        assert parity.code(chunks, group["parity"])[place] == chunk


def test_any_changed_byte_is_found():
    held = (VECTORS / "v1_parity_xor.bin").read_bytes()
    for at in range(len(held)):
        changed = bytearray(held)
        changed[at] ^= 4
        with pytest.raises((AssertionError, KeyError, ValueError)):
            parity.parity_object(bytes(changed))
