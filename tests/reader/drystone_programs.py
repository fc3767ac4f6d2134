"""Read programs and their replies in plain Python, from docs/format/read-program.md alone. Slow and short on
purpose."""

import struct

import numpy as np

import drystone_expressions as expressions
from drystone_layouts import along
from drystone_reader import CorruptError, Cursor, column, crc32c, decode_chain, need, piece_payload

KINDS = "bool i1 i2 i4 i8 u1 u2 u4 u8 f2 bf2 f4 f8 other".split()
TYPES = "bool i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split()
MODES, ANSWERS, CURVES = ("whole", "part", "prefix"), ("values", "cells", "count"), (None, "morton", "hilbert")
MALFORMED, VERSION, BUDGET = 1, 2, 3
LIMIT = 16 << 20


class VersionError(CorruptError):
    """A program of a version that this reader does not know."""


def counted(c):
    return c.take(*c.unpack("I"))


def arrangement(c, chains):
    chain, decoded, item, scalar, kind, ndim = c.unpack("HIIIBB")
    need(chain < len(chains) and 1 <= decoded <= LIMIT and kind < len(KINDS) and ndim <= 9, "arrangement")
    need(1 <= scalar <= item <= LIMIT, "elements")
    found = {"chain": chain, "decoded": decoded, "item": item, "scalar": scalar, "kind": KINDS[kind]}
    found |= {"shape": list(c.unpack(f"{ndim}I")), "curve": None}
    (curve,) = c.unpack("B")
    need(curve < len(CURVES), "curve")
    if curve:
        room, at, width, axes = c.unpack("IIIB")
        shape = list(c.unpack(f"{axes}I"))
        cells = int(np.prod(shape, dtype=object))
        need(axes <= 8 and width and at + width <= room, "elements along a curve")
        need(cells <= 1 << 20 and cells * room == decoded, "cells along a curve")
        found["curve"] = {"order": CURVES[curve], "room": room, "at": at, "item": width, "shape": shape}
    return found


def source_length(arrangement):
    curve = arrangement["curve"]
    return int(np.prod(curve["shape"])) * curve["item"] if curve else arrangement["decoded"]


def rule(data):
    """Copies as (source, destination, bytes of an element, loops), from docs/format/rules.md."""
    c = Cursor(data)

    def number():
        value = shift = 0
        while True:
            (byte,) = c.unpack("B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                need(value < 1 << 63 and (byte or shift == 7), "number")
                return value

    def signed():
        value = shift = 0
        while True:
            (byte,) = c.unpack("B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return (value >> 1) ^ -(value & 1)

    def loops():
        count = number()
        need(count <= 63, "loops")
        return [(number(), signed(), signed()) for _ in range(count)]

    need(c.unpack("BB") == (1, 0), "version and flags of a rule")
    source, result, copies = number(), number(), []
    need(source <= LIMIT and result <= LIMIT, "lengths of a rule")
    for _ in range(number()):
        kind = number()
        need(kind in (0, 2), "a rule of a program copies")
        at = (number(), number()) if kind == 0 else (0, 0)
        element, shape = number(), loops()
        need(element >= 1, "elements of a rule")
        copies += [(*at, element, shape)] if kind == 0 else []
        for _ in range(number() if kind == 2 else 0):
            at = (at[0] + signed(), at[1] + signed())
            copies.append((*at, element, shape))
    c.end()
    return {"source": source, "result": result, "copies": copies}


def gathered(rule, source):
    out = bytearray(rule["result"])
    for src, dst, element, loops in rule["copies"]:
        places = [(src, dst)]
        for count, ahead, behind in loops:
            places = [(s + i * ahead, d + i * behind) for s, d in places for i in range(count)]
        for s, d in places:
            need(0 <= s <= len(source) - element and 0 <= d <= len(out) - element, "a copy")
            out[d : d + element] = source[s : s + element]
    return bytes(out)


def condition(c, version):
    (dtype,) = c.unpack("B")
    (answer,) = c.unpack("B") if version > 1 else (0,)
    need(dtype < len(TYPES) and answer < len(ANSWERS), "condition")
    try:
        tree = expressions.expression(counted(c))
    except expressions.Damaged as error:
        raise CorruptError(str(error)) from error
    need(all(name == {"parts": ["value"], "offsets": []} for name in tree["names"]), "a condition is about the value")
    return {"type": TYPES[dtype], "answer": ANSWERS[answer], "tree": tree}


def program(data):
    c = Cursor(data)
    need(len(data) <= 262144 and c.take(4) == b"DRYP", "magic")
    (version,) = c.unpack("H")
    if version not in (1, 2):
        raise VersionError(f"version {version}")
    flags, *counts, items = c.unpack("HHHHHI")
    need(flags == 0 and items <= 16384, "header")
    found = {"version": version, "chains": [], "arrangements": [], "rules": [], "conditions": []}
    for _ in range(counts[0]):
        (length,) = c.unpack("H")
        need(length <= 1024, "chain")
        found["chains"].append(c.take(length).decode())
    found["arrangements"] = [arrangement(c, found["chains"]) for _ in range(counts[1])]
    found["rules"] = [rule(counted(c)) for _ in range(counts[2])]
    found["conditions"] = [condition(c, version) for _ in range(counts[3])]
    oldest = 2 if any(one["answer"] != "values" for one in found["conditions"]) else 1
    need(version == oldest, "a version newer than what is asked")
    rows = zip(*[column(c, items).tolist() for _ in range(14)])
    found["items"] = [item(found, *row) for row in rows]
    c.end()
    return found


def item(program, arrangement, rule, condition, mode, kind, value, *stored):
    need(arrangement < len(program["arrangements"]) and rule < len(program["rules"]), "tables")
    need(condition <= len(program["conditions"]) and mode < 3 and kind < 4 and (kind or not value), "item")
    exact = {0: "exact", 3: {"level": value}}
    bits = struct.unpack("<d", struct.pack("<Q", value))[0]
    precision = exact.get(kind) or {"absolute" if kind == 1 else "relative": bits}
    need(kind not in (1, 2) or bits >= 0, "precision")
    need(kind != 3 or 1 <= value < 1 << 32, "level")
    position, length, trailer, unit, check, *prefix = stored
    piece = {"position": position, "length": length, "trailer": trailer, "unit_log2": unit, "check": check}
    prefix = dict(zip(("position", "length", "check"), prefix)) if any(prefix) else None
    source = program["arrangements"][arrangement]
    chain = program["chains"][source["chain"]]
    need(program["rules"][rule]["source"] == source_length(source), "a rule for another length")
    need(length and unit < 256 and check < 1 << 32 and (chain or (length == source["decoded"] and not prefix)), "piece")
    need(mode != 0 or kind == 0, "a whole subchunk is exact")
    need(mode != 1 or (trailer and unit), "a part of what has no units")
    need(mode != 2 or prefix, "no prefix")
    return {
        "arrangement": arrangement,
        "rule": rule,
        "condition": condition - 1 if condition else None,
        "mode": MODES[mode],
        "precision": precision,
        **piece,
        "prefix": prefix,
    }


def satisfied(condition, values):
    """A truth value for each of the values: comparisons, and what joins them."""
    joins = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor}
    joins |= {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    joins |= {"==": np.equal, "!=": np.not_equal}
    found = []
    for code, *operands in condition["tree"]["nodes"]:
        if code == "name":
            found.append(values)
        elif code == "integer":
            found.append(values.dtype.type(int(operands[0])))
        elif code == "float":
            found.append(values.dtype.type(struct.unpack(">d", bytes.fromhex(operands[0]))[0]))
        elif code == "~":
            found.append(~found[operands[0]])
        elif code == "isnan":
            found.append(np.isnan(found[operands[0]]))
        else:
            need(code in joins, f"{code} is not computed here")
            found.append(joins[code](*(found[operand] for operand in operands)))
    return np.broadcast_to(found[-1], values.shape)


def hits(condition, data):
    values = np.frombuffer(data, "?" if condition["type"] == "bool" else "<" + condition["type"])
    truth = satisfied(condition, values)
    cells = np.flatnonzero(truth).astype("<u4")
    head = struct.pack("<II", len(values), len(cells))
    if condition["answer"] == "count":
        return head + b"\2"
    few = -(-len(values) // 8) >= 4 * len(cells)
    where = b"\0" + cells.tobytes() if few else b"\1" + np.packbits(truth, bitorder="little").tobytes()
    return head + where + (values[truth].tobytes() if condition["answer"] == "values" else b"")


def decoded(program, item, stored):
    """The elements that the rule reads: those of a part are decoded as those of the whole."""
    about = program["arrangements"][item["arrangement"]]
    payload = piece_payload(lambda at, length: Cursor(stored[at:]).take(length), item)[0]
    data = decode_chain(program["chains"][about["chain"]], payload, about["decoded"], about["item"], about["scalar"])
    if (curve := about["curve"]) is None:
        return data
    cells = np.frombuffer(data, np.uint8).reshape(-1, curve["room"])[:, curve["at"] : curve["at"] + curve["item"]]
    return cells[along(curve["order"], curve["shape"])].tobytes()


def frame(number, kind, payload):
    head = struct.pack("<IHHII", number, kind, 0, 0, len(payload)) + payload
    return head + struct.pack("<I", crc32c(head))


def reply(program, stored):
    """What a keeper of these bytes answers, where nothing is refused."""
    out = b"DRYR\1\0\0\0"
    for number, item in enumerate(program["items"]):
        values = gathered(program["rules"][item["rule"]], decoded(program, item, stored))
        if item["condition"] is None:
            out += frame(number, 0, values)
        else:
            out += frame(number, 1, hits(program["conditions"][item["condition"]], values))
    return out


def frames(data):
    """The frames of a reply as (item, kind, payload)."""
    c = Cursor(data)
    need(c.take(8) == b"DRYR\1\0\0\0", "head of a reply")
    found = []
    while c.at < len(data):
        at = c.at
        number, kind, reserved, place, length = c.unpack("IHHII")
        payload = c.take(length)
        need(c.unpack("I") == (crc32c(data[at : c.at - 4]),), "checksum of a frame")
        need(kind <= 2 and reserved == place == 0, "frame")
        found.append((number, kind, payload))
    return found
