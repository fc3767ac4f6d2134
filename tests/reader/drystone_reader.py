"""A reader of Drystone containers, written from docs/format/ alone: it shows that the documents suffice.

`open_container(path)` gives a Container: variables(), steps(), attrs(path), read(path, step). Standard library and
NumPy; codecs are in drystone_codecs.py, `zstandard` only where a chain needs it. Every CRC is checked before what it
covers is used.
"""

import json
import struct
import warnings
import zlib
from collections import namedtuple
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import prod
from pathlib import Path

import numpy as np

import drystone_codecs as codecs
import drystone_layouts as layouts
from drystone_types import BLOB, SCALARS, CorruptError, item_size, leaves, need, numpy_dtype, values_of


class UnsupportedError(Exception):
    """The container needs a newer reader."""


CRC_TABLE = list(range(256))
for _ in range(8):
    CRC_TABLE = [c >> 1 ^ (0x82F63B78 if c & 1 else 0) for c in CRC_TABLE]


def crc32c(data):
    crc, table = 0xFFFFFFFF, CRC_TABLE
    for byte in bytes(data):
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


with suppress(ImportError):
    from google_crc32c import value as crc32c  # the same, faster


class Cursor:
    """Reads from bytes, never beyond them."""

    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def take(self, n):
        need(0 <= n <= len(self.data) - self.at, f"{n} bytes expected at {self.at}, {len(self.data) - self.at} left")
        self.at += n
        return self.data[self.at - n : self.at]

    def unpack(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def end(self, padded=False):
        rest = self.take(len(self.data) - self.at)
        need(not any(rest) if padded else not rest, f"{len(rest)} bytes too many")


TypedArray = namedtuple("TypedArray", "dtype shape data meaning", defaults=[None])


def _cbor_item(c, depth=0):
    need(depth < 80, "CBOR nested too deep")
    (head,) = c.unpack("B")
    major, info = head >> 5, head & 31
    if major == 7:
        need(info in (20, 21, 22, 27), f"CBOR simple value {info}")
        return struct.unpack(">d", c.take(8))[0] if info == 27 else (False, True, None)[info - 20]
    need(info <= 27, "CBOR of indefinite length")
    n = info if info < 24 else int.from_bytes(c.take(1 << info - 24), "big")
    if major in (2, 3):
        return c.take(n) if major == 2 else c.take(n).decode()
    if major == 4:
        return [_cbor_item(c, depth + 1) for _ in range(n)]
    if major == 5:
        out = {}
        for _ in range(n):
            key = _cbor_item(c, depth + 1)
            need(isinstance(key, (int, str)) and key not in out, "CBOR key")
            out[key] = _cbor_item(c, depth + 1)
        return out
    if major == 6:
        need(n == 40000, f"CBOR tag {n}")
        return TypedArray(*_cbor_item(c, depth + 1))
    return n if major == 0 else -1 - n


def cbor(data):
    c = Cursor(data)
    value = _cbor_item(c)
    c.end()
    return value


def column(c, n):
    """n values as uint64; NumPy's arithmetic wraps as the format's does."""
    (tag,) = c.unpack("B")
    i = np.arange(n, dtype=np.uint64)
    if tag == 0:
        return np.full(n, c.unpack("Q")[0], np.uint64)
    if tag == 1:
        a, d = np.array(c.unpack("QQ"), np.uint64)
        return a + d * i
    if tag == 2:
        (k,) = c.unpack("B")
        out = np.full(n, c.unpack("Q")[0], np.uint64)
        need(1 <= k <= 8, f"odometer of {k} digits")
        for count, stride in reversed([c.unpack("QQ") for _ in range(k)]):
            need(count > 0, "odometer with a count of 0")
            out += i % np.uint64(count) * np.uint64(stride)
            i //= np.uint64(count)
        need(not i.any(), "odometer too short")
        return out
    need(tag == 3, f"column tag {tag}")
    a, scale, width = c.unpack("QQB")
    need(width in (1, 2, 4, 8), f"column width {width}")
    return np.uint64(a) + np.uint64(scale) * np.frombuffer(c.take(n * width), f"<u{width}").astype(np.uint64)


def columns(c, n, names):
    """n rows (dicts) from a column for each name; min and max are None where flags say that there are none."""
    rows = [dict(zip(names, row)) for row in zip(*[column(c, n).tolist() for _ in names])]
    return [row if row.pop("flags", 1) else row | {"min": None, "max": None} for row in rows]


EXTENT, LEAF, BRANCH, SECTION, MANIFEST = 2, 6, 7, 8, 9  # kinds of frames


def frame_header(data):
    c = Cursor(data[:32])
    magic, kind, reserved, length, ordinal, crc, header_crc = c.unpack("4sHHQQII")
    need(magic == b"DRYF" and reserved == 0 and 1 <= kind <= 10 and length <= 1 << 40, "no frame")
    need(crc32c(data[:28]) == header_crc, "frame header fails its CRC")
    return kind, length, ordinal, crc


def frame_at(data, at, ordinal=None):
    """(kind, ordinal, payload, end) of the frame that begins at `at`."""
    kind, length, number, crc = frame_header(data[at : at + 32])
    need(ordinal in (None, number), f"frame {number} in place of {ordinal}")
    end = at + 32 + (length + 7) // 8 * 8
    need(end <= len(data), "torn frame")
    payload = data[at + 32 : at + 32 + length]
    need(not any(data[at + 32 + length : end]), "frame padding is not zero")
    need(crc == (0 if kind == EXTENT else crc32c(payload)), "frame payload fails its CRC")
    return kind, number, payload, end


PIECE = ["position", "length", "trailer", "unit_log2", "check", "flags", "min", "max", "nans"]
FRONT = [f"front_{name}" for name in ("length", "position", "check", "level", "absolute", "relative")]


def entry_block(data):
    c = Cursor(data)
    n, d, reserved, m = c.unpack("IBBH")
    need(n <= 4096 and n <= len(data) and d <= 8 and reserved == 0 and m <= n, "head of an entry block")
    dictionary = [cbor(c.take(*c.unpack("I"))) for _ in range(m)]
    dictionary = [{"chain": e[0], "item": e[1]} | layouts.layout_of(e) for e in dictionary]
    boxes = [f"{name}{i}" for name in ("offset", "count", "cut") for i in range(d)]
    names = ["step", "variable", "member", "commit", "order", "put", "ndim", *boxes, "encoding", "subchunks", "source"]
    rows = columns(c, n, names + PIECE)
    c.end(padded=True)
    for row in rows:
        ndim = row.pop("ndim")
        need(ndim <= d and row["encoding"] < m, "entry")
        for name in ("offset", "count", "cut"):
            row[name] = [row.pop(f"{name}{i}") for i in range(d)][:ndim]
        row["encoding"] = dictionary[row["encoding"]]
        need(all(cut or not count for count, cut in zip(row["count"], row["cut"])), "cut of 0")
        need(row["subchunks"] == prod(layouts.grid_of(row)), "number of subchunks")
    return rows


def branch(data):
    c = Cursor(data)
    n, d, height, reserved = c.unpack("IBBH")
    need(1 <= n <= 256 and d <= 8 and 1 <= height <= 16 and reserved == 0, "head of a branch")
    widths = {"first": 3, "first_offset": d, "last": 3, "lo": d, "hi": d, "entries": 1, "commit": 1, "page": 4}
    parts = {name: [column(c, n).tolist() for _ in range(width)] for name, width in widths.items()}
    c.end()
    children = [{name: [values[i] for values in part] for name, part in parts.items()} for i in range(n)]
    return {"height": height, "children": children}


def counted(data, limit, names, padded=False, version=0):
    c = Cursor(data)
    n, found = c.unpack("II")
    need(n <= limit and found == version, "head of a table")
    rows = columns(c, n, names)
    c.end(padded)
    return rows


def subchunk_table(data):
    fronts = data[4:8] == b"\1\0\0\0"
    return counted(data, 8 * len(data), PIECE + FRONT * fronts, True, int(fronts))


def source_page(data):
    names = ["kind", "writer", "part", "watermark", "groups", "state", "idx_length", "seg_length"]
    return counted(data, 512, names)


def identity(data):
    members = json.loads(data)
    need(list(members)[-1] == "crc32c", "crc32c is not the last member of the identity")
    at = data.rindex(b'"crc32c"')
    need(members["crc32c"] == f"{crc32c(data[:at]):08x}", "the identity fails its CRC")
    need(members["format"] == "drystone", "the identity is of another format")
    return members


def hint(data):
    need(data[12:] == b" %08x" % crc32c(data[:12]) and data[:12].isdigit(), "the hint fails its CRC")
    return int(data[:12])


def manifest(data):
    kind, at, n = None, 0, 0
    while kind != MANIFEST:  # pages first
        (kind, _, payload, at), n = frame_at(data, at, n), n + 1
    need(at == len(data) and len(payload) <= 65536, "no manifest")
    return cbor(payload)


def piece_payload(read, piece):
    """The verified payload; `read(offset, length)` gives bytes of the segment."""
    length, trailer = piece["length"], piece["trailer"]
    payload = read(piece["position"], length)
    if trailer == 0:
        need(crc32c(payload) == piece["check"], f"the piece at {piece['position']} fails its CRC")
        return payload, None, None
    need(piece["unit_log2"] <= 40, "unit of a piece")
    bytes_ = read(piece["position"] + (length + 3) // 4 * 4, trailer)
    need(crc32c(bytes_) == piece["check"], f"the trailer at {piece['position']} fails its CRC")
    unit = 1 << piece["unit_log2"] if piece["unit_log2"] else max(length, 1)
    k = -(-length // unit)
    need(trailer >= 4 * k, "short trailer")
    checks = list(struct.unpack(f"<{k}I", bytes_[: 4 * k]))
    for i, check in enumerate(checks):
        need(crc32c(payload[i * unit : (i + 1) * unit]) == check, f"unit {i} at {piece['position']} fails its CRC")
    return payload, checks, bytes_[4 * k :]


def decode_chain(chain, stored, size, item, scalar):
    """The decoded bytes of a subchunk."""
    if chain in ("", "none", "identity"):
        out = stored
    elif stored[:1] == b"\x10":
        out = stored[1:]
    else:
        need(stored[:1] == b"\x1f", "mode byte of a subchunk")
        try:
            out = codecs.decode_coded(chain, stored[1:], size, item, scalar)
        except codecs.UnsupportedError as error:
            raise UnsupportedError(str(error)) from error
        except (codecs.CodecError, ValueError, IndexError, struct.error, zlib.error, OSError) as error:
            raise CorruptError(f"encoded subchunk: {error}") from error
    need(len(out) == size, f"a subchunk of {len(out)} bytes, {size} expected")
    return out


@dataclass
class Container:
    path: Path
    version: int
    head: dict
    schema: dict = field(repr=False)
    step_section: dict = field(repr=False)
    sources: list = field(repr=False)

    def variables(self):
        return sorted(path for path, name in self.schema[3].items() if name[0] == 0)

    def steps(self):
        return [first + i * stride for first, count, stride in self.step_section[0] for i in range(count)]

    def follow(self, path):
        """The path with links replaced."""
        links = {name: target for name, (kind, target) in self.schema[3].items() if kind == 1}
        for _ in range(17):
            if path not in links and (path in self.schema[3] or path in self.schema[1]):
                return path
            parts = path.split("/")
            heads = ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
            head = next((head for head in heads if head in links), None)
            if head is None:
                break
            path = links[head] + path[len(head) :]
        raise KeyError(path)

    def variable(self, path):
        _, id_ = self.schema[3][self.follow(path)]
        return next(v for v in self.schema[2] if v[0] == id_)

    def attrs(self, path=""):
        path = self.follow(path)
        return self.variable(path)[10] if path in self.schema[3] else self.schema[1][path]

    def read(self, path, step=None):
        """The array of a variable, of one with steps at a step or (None) at all; of a local one the list of blocks."""
        variable = self.variable(path)
        if step is not None or not variable[5]:
            return self._read(variable, step + 1 if variable[5] else 0)
        arrays = [self._read(variable, s + 1) for s in range(max(self.steps(), default=-1) + 1)]
        if variable[6]:
            return arrays
        out = np.zeros((len(arrays), *variable[2]), numpy_dtype(variable[1]))
        for i, array in enumerate(arrays):
            out[i] = array
        return out

    def _read(self, variable, step):
        id_, dtype, shape = variable[0], variable[1], variable[2]
        hidden = dict(self.step_section[1]).get(step - 1, 0) if step else 0
        entries = [e for e in self._entries(step, id_) if e["commit"] >= hidden]
        entries.sort(key=lambda e: (e["commit"], e["order"], e["put"]))
        if not variable[6]:
            return self._fill(dtype, shape, variable[9], entries, variable[12])
        blocks = {e["order"]: [] for e in entries}  # local: of each order the newest put
        for e in entries:
            same = [o for o in blocks[e["order"]] if (o["commit"], o["put"]) == (e["commit"], e["put"])]
            blocks[e["order"]] = [*same, e | {"offset": [0] * len(e["count"])}]
        return [self._fill(dtype, b[0]["count"], None, b, []) for _, b in sorted(blocks.items())]

    def _fill(self, dtype, shape, fill, entries, clips):
        size, places, held = item_size(dtype), leaves(dtype), [None]
        raw = np.tile(np.frombuffer(fill or bytes(size), np.uint8), prod(shape)).reshape(*shape, size)
        for e in entries:
            need(e["member"] < len(places) and len(e["count"]) == len(shape), "entry of another type")
            (offset, whole, scalar, kind), width = places[e["member"]], e["encoding"]["item"]
            offset += (part := e["encoding"].get("part", 0))
            need(part + width <= whole if "part" in e["encoding"] else width == whole, "element size of an entry")
            limit = [min(n) for n in zip(shape, *[clip for commit, clip in clips if e["commit"] <= commit])]
            for at, cells in self._subchunks(e, width, scalar):
                at = [a + b for a, b in zip(at, e["offset"])]
                n = [max(0, min(c, stop - a)) for c, stop, a in zip(cells.shape, limit, at)]
                source = cells[tuple(slice(0, c) for c in n)]
                target = tuple(slice(a, a + c) for a, c in zip(at, n))
                if kind[0] in BLOB:  # numbers in `held` replace the references
                    first = len(held)
                    held += [self._blob(e, bytes(reference), kind) for reference in source.reshape(-1, 16)]
                    numbers = np.array([(n, 0) for n in range(first, len(held))], "<u8")
                    source = numbers.view(np.uint8).reshape(source.shape)
                raw[(*target, slice(offset, offset + width))] = source
        return values_of(raw, dtype, held)

    def _subchunks(self, e, width, scalar):
        """(first cell in the box, cells x width bytes) of each subchunk."""
        read, layout = partial(self._segment, e["source"]), e["encoding"]["layout"]
        if not (room := layouts.room(layout, width)):
            raise UnsupportedError(f"layout {layout}")
        pieces = subchunk_table(piece_payload(read, e)[0]) if e["subchunks"] > 1 else [e] * e["subchunks"]
        need(len(pieces) == e["subchunks"], "subchunk table of another length")
        for place, piece in zip(np.ndindex(*layouts.grid_of(e)), pieces):
            at = [g * cut for g, cut in zip(place, e["cut"])]
            n = [min(cut, count - a) for cut, count, a in zip(e["cut"], e["count"], at)]
            stored = b"".join(piece_payload(read, part)[0] for part in layouts.halves(piece))
            data = decode_chain(e["encoding"]["chain"], stored, prod(n) * room, room, scalar if room == width else 1)
            yield at, layouts.arranged(layout, data, n, width)

    def _blob(self, e, reference, dtype):
        position, length, crc = struct.unpack("<QII", reference)
        data = self._segment(e["source"], position, length)
        need(crc32c(data) == crc, f"the blob at {position} fails its CRC")
        return data.decode() if dtype == "string" else np.frombuffer(data, SCALARS[dtype[1]])

    def _segment(self, number, position, length):
        need(number < len(self.sources), f"no source {number}")
        if (source := self.sources[number])["kind"] != 0:
            raise UnsupportedError(f"source of kind {source['kind']}")
        with (self.path / f"log/{source['writer']:016x}-{source['part']:04}.seg").open("rb") as file:
            file.seek(position)
            data = file.read(length)
        need(len(data) == length, f"{file.name} ends before byte {position + length}")
        return data

    def _entries(self, step, variable):
        wanted, pages = [step, variable], [self.head[12][:5]] if self.head[12] else []
        while pages:
            *page, height = pages.pop()
            if height == 0:
                rows = entry_block(read_page(self.path, page, LEAF))
                yield from (e for e in rows if [e["step"], e["variable"]] == wanted)
                continue
            node = branch(read_page(self.path, page, BRANCH))
            need(node["height"] == height, "branch of another height")
            children = [c for c in node["children"] if c["first"][:2] <= wanted <= c["last"][:2]]
            pages += [[*c["page"], height - 1] for c in children]


def read_page(path, page, kind):
    file, offset, length, crc = page
    with (path / (f"manifest/{file % 2**63:012}.dsm" if file >> 63 else f"index/{file:016x}.dsx")).open("rb") as f:
        f.seek(offset)
        data = f.read(32 + length)
    found, stated, _, stated_crc = frame_header(data)
    need((found, stated, stated_crc) == (kind, length, crc), f"page at {offset} of {f.name}")
    need(len(data) == 32 + length and crc32c(data[32:]) == crc, f"page at {offset} of {f.name} fails its CRC")
    return data[32:]


def load(path, version, uuid):
    """The container as of one manifest; CorruptError if anything that it needs is not there."""
    try:
        head = manifest((path / f"manifest/{version:012}.dsm").read_bytes())
        need(head[0] == version and head[3].hex() == uuid, "manifest of another version or container")
        sources = [s for page in head[10] for s in source_page(read_page(path, page, SECTION))]
        need(len(sources) == head[11], "number of sources")
        sections = (s[1] if s[0] == 0 else read_page(path, s[1], SECTION) for s in (head[8], head[9]))
        if head[12] is not None and not head[5]:
            read_page(path, head[12][:4], BRANCH if head[12][4] else LEAF)
        for s in sources:
            segment = path / f"log/{s['writer']:016x}-{s['part']:04}.seg"
            if not head[5] and s["kind"] == 0 and s["seg_length"] > 0:
                need(segment.stat().st_size >= s["seg_length"], f"{segment} is too short")
        return Container(path, version, head, *map(cbor, sections), sources)
    except (FileNotFoundError, KeyError, IndexError, TypeError, ValueError) as e:
        raise CorruptError(f"snapshot {version}: {e!r}") from e


def open_container(path):
    """The newest sound snapshot, found as docs/format/manifest.md says."""
    about = identity(((path := Path(path)) / "drystone.json").read_bytes())
    if about["version"] > 1 or set(about["features"]) - {"packs", "log-packs"}:
        raise UnsupportedError(f"version {about['version']}, features {about['features']}")
    from drystone_packs import unpacked

    path = unpacked(path, bytes.fromhex(about["uuid"]))
    versions, marks = ([int(p.stem) for p in path.glob(f"manifest/*.{kind}")] for kind in ("dsm", "mark"))
    hinted = 0  # listing serves a folder; a reader of objects goes forward from the hint
    with suppress(FileNotFoundError, CorruptError):
        hinted = hint((path / "manifest/hint").read_bytes())
    durable, top, marked = about["durability"] == "durable", max(versions, default=0), max(marks, default=0)
    need(marked <= top and not (durable and hinted > top), f"a manifest above {top} is lost")
    for version in sorted(versions, reverse=True):
        try:
            return load(path, version, about["uuid"])
        except CorruptError as e:
            if durable or marked >= version:
                raise
            with suppress(CorruptError):  # what a later manifest knew to be marked holds for the earlier ones
                marked = max(marked, manifest((path / f"manifest/{version:012}.dsm").read_bytes())[6])
            warnings.warn(f"snapshot {version} is passed over: {e}", stacklevel=2)
    return Container(path, 0, {12: None}, {0: 0, 1: {"": {}}, 2: [], 3: {}}, {0: [], 1: []}, [])
