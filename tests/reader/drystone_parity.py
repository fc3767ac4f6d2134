"""An independent reader of parity objects (docs/format/redundancy.md): what they keep, and lost bytes from them."""

import json
import struct
from functools import cache

from drystone_reader import crc32c

ROW = 65536
BASIS = (
    0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012,
    0x6C98, 0x10D8, 0x6A72, 0xB900, 0xFDB8, 0xFB34, 0xFF38, 0x991E,
)  # fmt: skip


def group(data):
    assert data.endswith(b'"\n}\n')
    body = json.loads(data)
    assert int(body["crc32c"], 16) == crc32c(data[:-23])
    assert (body["format"], body["version"]) == ("drystone-parity", 1)
    assert body["code"] == ("copy" if body["code"] == "copy" else "xor" if body["parity"] == 1 else "rs")

    def member(m):
        names = ("part", "length", "step")
        parts = [{name: p[name] for name in names} | {"crc": int(p["crc32c"], 16)} for p in m["parts"]]
        return {"writer": int(m["writer"], 16), "node": m["node"], "folder": m["folder"], "parts": parts}

    members = [member(m) for m in body["members"]]
    assert 1 <= body["parity"] < len(members)
    found = {"uuid": body["uuid"], "step": body["step"], "copies": body["code"] == "copy", "parity": body["parity"]}
    found["members"] = members
    return found | {"chunks": [chunk_length(found, stripe) for stripe in range(len(members))]}


def length(member):
    return sum(part["length"] for part in member["parts"])


def chunk_length(group, stripe):
    if group["copies"]:
        return length(group["members"][stripe])
    chunk = -(-max(map(length, group["members"])) // (len(group["members"]) - group["parity"]))
    return chunk if group["parity"] == 1 else -(-chunk // 64) * 64


def stripe(group, number):
    """(member, chunk) of the data chunks, and the members that keep the parity chunks."""
    n, p = len(group["members"]), group["parity"]
    if group["copies"]:
        return [(number, 0)], [(number + 1) % n]
    return [((number + p + j) % n, j) for j in range(n - p)], [(number + j) % n for j in range(p)]


def parity_object(data):
    assert data[:8] == b"DRYPRTY1"
    size, member, payload, crc = struct.unpack("<IIQI", data[8:28])
    assert crc == crc32c(data[:24])
    assert len(data) == 28 + size + payload + 4
    found = group(data[28 : 28 + size])
    body = data[28 + size : -4]
    assert struct.unpack("<I", data[-4:])[0] == crc32c(body)
    return {"member": member, "group": found, "payload": body.hex()}


def parity_chunks(group, member, payload):
    """The parity chunks in a payload: of each its stripe, its number there, and its bytes."""
    n, p = len(group["members"]), group["parity"]
    stripes = [(member - 1) % n] if group["copies"] else [(member - number) % n for number in range(p)]
    size = chunk_length(group, stripes[0])
    chunks = [b""] * p
    at = 0
    for row in range(0, size, ROW):
        for number in range(p):
            end = at + min(ROW, size - row)
            chunks[number] += payload[at:end]
            at = end
    assert at == len(payload)
    return [(s, number, chunk) for number, (s, chunk) in enumerate(zip(stripes, chunks, strict=True))]


@cache
def tables():
    """Exponents and logarithms of GF(2^16), in the basis in which numbers of points are elements."""
    to_basis = {0: 0}
    for bit, value in enumerate(BASIS):
        to_basis |= {element ^ value: point | 1 << bit for element, point in to_basis.items()}
    power, log, exp = 1, {}, {}
    for exponent in range(65535):
        point = to_basis[power]
        log[point], exp[exponent] = exponent, point
        power = power << 1 ^ (0x1002D if power & 0x8000 else 0)
    return log, exp


def product(a, b):
    log, exp = tables()
    return exp[(log[a] + log[b]) % 65535] if a and b else 0


def quotient(a, b):
    log, exp = tables()
    return exp[(log[a] - log[b]) % 65535] if a else 0


def weight(data, parity, j, i):
    """What data chunk i adds to parity chunk j, as a factor: the Lagrange polynomial of its point at the point of j."""
    m = 1 << max(0, parity - 1).bit_length()
    first, own = m + i // m * m, m + i
    found = 1
    for point in range(first, first + m):
        if point != own:
            found = product(found, quotient(j ^ point, own ^ point))
    return found


def words(chunk):
    """64 bytes are 32 elements: their low bytes, then their high ones."""
    return [chunk[b + k] | chunk[b + 32 + k] << 8 for b in range(0, len(chunk), 64) for k in range(32)]


def code(chunks, parity):
    """The parity chunks of data chunks."""
    if parity == 1:
        found = bytearray(len(chunks[0]))
        for chunk in chunks:
            found = bytearray(a ^ b for a, b in zip(found, chunk, strict=True))
        return [bytes(found)]
    out = []
    data = [words(chunk) for chunk in chunks]
    for j in range(parity):
        factors = [weight(len(chunks), parity, j, i) for i in range(len(chunks))]
        sums = [0] * len(data[0])
        for factor, values in zip(factors, data, strict=True):
            sums = [s ^ product(factor, value) for s, value in zip(sums, values, strict=True)]
        blocks = [sums[b : b + 32] for b in range(0, len(sums), 32)]
        out.append(b"".join(bytes(w & 255 for w in block) + bytes(w >> 8 for w in block) for block in blocks))
    return out
