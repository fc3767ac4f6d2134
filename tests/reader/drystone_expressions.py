"""Encoded expressions in plain Python, from docs/format/expression.md alone. Slow and short on purpose."""

import struct

UNARY = """~ - invert abs sign floor ceil trunc round sqrt cbrt exp expm1 log log2 log10 log1p sin cos tan asin acos atan
sinh cosh tanh isnan isinf isfinite""".split()
TYPES = "bool i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split()
FIELDS = "diff / diff by / diff2 / diff2 by".split(" / ")
REDUCTIONS = "sum mean amin amax count any all".split()
BINARY = "| ^ & == != < <= > >= << >> + - * / // % ** min max atan2 hypot".split()


class Damaged(Exception):
    """Bytes that are no encoded expression."""


def need(condition, what):
    if not condition:
        raise Damaged(what)


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        need(self.at + length <= len(self.data), f"{length} bytes at {self.at}")
        self.at += length
        return self.data[self.at - length : self.at]

    def unpack(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self):
        return self.take(self.unpack("H")).decode()


def name(c):
    parts, offsets = c.unpack("B"), c.unpack("B")
    need(1 <= parts <= 16 and offsets <= 16, "name")
    texts = [c.text() for _ in range(parts)]
    return {"parts": texts, "offsets": [[c.text(), c.unpack("h")] for _ in range(offsets)]}


def node(c, before):
    code = c.unpack("B")

    def operands(count):
        found = [c.unpack("H") for _ in range(count)]
        need(all(operand < before for operand in found), "operand")
        return found

    if code == 0:
        return ["name", c.unpack("H")]
    if code in (1, 2):
        return ["bool", code == 2]
    if code in (3, 4):
        n = c.unpack("Q")
        return ["integer", str(n if code == 3 else -1 - n)]
    if code == 5:
        return ["float", c.take(8)[::-1].hex()]
    if code == 6:
        return ["where", *operands(3)]
    if code == 7:
        return ["list", *operands(2)]
    if 45 <= code <= 48:
        return [FIELDS[code - 45], *operands(2 + (code - 45) % 2)]
    groups = (16, UNARY, 1), (49, REDUCTIONS, 2), (56, [f"{name} of all" for name in REDUCTIONS], 1)
    calls = (120, [f"apply {name}" for name in TYPES], 2), (136, [f"apply {name} with halo" for name in TYPES], 3)
    for first, names, count in (*groups, *calls, (64, TYPES, 1), (96, BINARY, 2)):
        if first <= code < first + len(names):
            return [names[code - first], *operands(count)]
    raise Damaged(f"code {code}")


def expression(data):
    """Names and nodes; texts and numbers as the vectors write them."""
    c = Cursor(data)
    need(c.take(4) == b"DRYX" and c.unpack("H") == 1, "magic, version")
    names, nodes, reserved = c.unpack("H"), c.unpack("H"), c.unpack("H")
    need(names <= nodes and 1 <= nodes <= 4096 and reserved == 0, "header")
    names = [name(c) for _ in range(names)]
    nodes = [node(c, before) for before in range(nodes)]
    need(c.at == len(data), "bytes behind the last node")
    return {"names": names, "nodes": nodes}
