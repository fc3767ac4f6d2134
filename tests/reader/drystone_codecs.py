"""The codecs of docs/format/encodings.md in plain Python, for the independent reader. Slow and short on purpose."""

import bz2
import itertools
import re
import struct
import zlib

import numpy as np

from drystone_layouts import along


class UnsupportedError(Exception):
    """A codec that needs more than plain Python."""


class CodecError(Exception):
    """Bytes that are not what the codec makes."""


def need(condition, what):
    if not condition:
        raise CodecError(what)


def specs(text):
    """The codecs of a transform text: names with parameters, those without a name under their position."""
    out = []
    for piece in re.findall(r'(?:[^,:"]|"[^"]*")+', text):
        value = piece.strip()
        if re.fullmatch(r"[A-Za-z][\w.-]*", value) and not piece_follows_colon(text, piece):
            out.append((value, {}))
            continue
        key, equals, rest = value.partition("=")
        value = rest if equals else value
        parameter = value.strip('"') if value.startswith('"') else float(value) if "." in value else int(value)
        parameters = out[-1][1]
        parameters[key if equals else len(parameters)] = parameter
    return out


def piece_follows_colon(text, piece):
    return re.search(r":\s*" + re.escape(piece), text) is not None


def zstd(data, size):
    import zstandard

    return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)


def lz4_block(data):
    """One LZ4 block: literals, then a copy of what was already given, again and again."""
    out, at = bytearray(), 0

    def length(first):
        nonlocal at
        total = first
        while first == 15:
            more = data[at]
            at += 1
            total += more
            if more != 255:
                break
        return total

    while at < len(data):
        token = data[at]
        at += 1
        count = length(token >> 4)
        out += data[at : at + count]
        at += count
        if at == len(data):
            break
        back = data[at] | data[at + 1] << 8
        at += 2
        need(0 < back <= len(out), "lz4 copy")
        for _ in range(length(token & 15) + 4):
            out.append(out[-back])
    return bytes(out)


def unshuffled(data, item):
    body = len(data) // item * item
    planes = np.frombuffer(data[:body], np.uint8).reshape(item, -1)
    return planes.T.tobytes() + data[body:]


def bit_unshuffled(data, item):
    count = len(data) // item // 8 * 8
    body = count * item
    bits = np.unpackbits(np.frombuffer(data[:body], np.uint8), bitorder="little").reshape(item * 8, -1)
    return np.packbits(bits.T, axis=1, bitorder="little").tobytes() + data[body:]


def summed(data, width, lag):
    """Running sums of unsigned integers that wrap around."""
    body = len(data) // width * width
    words = np.frombuffer(data[:body], f"<u{width}").copy()
    for first in range(lag):
        words[first::lag] = np.cumsum(words[first::lag], dtype=words.dtype)
    return words.tobytes() + data[body:]


def bytes_summed(data, item):
    plane = len(data) // item
    planes = (summed(data[i * plane : (i + 1) * plane], 1, 1) for i in range(item))
    return b"".join(planes) + data[item * plane :]


def blosc(data, size):
    """A Blosc 1 frame whose blocks are one stream each."""
    version, _, flags, item, length, block_len, frame_len = struct.unpack_from("<BBBBIII", data)
    need((version, length, frame_len) == (2, size, len(data)), "blosc head")
    if flags & 2:
        return data[16:]
    need(flags & 16, "blosc blocks in several streams")
    out = b""
    for (start,) in struct.iter_unpack("<I", data[16 : 16 + 4 * -(-length // block_len)]):
        want = min(block_len, size - len(out))
        (stored,) = struct.unpack_from("<I", data, start)
        block = data[start + 4 : start + 4 + stored]
        if stored != want:
            block = {1: lz4_block, 3: zlib.decompress, 4: lambda b, n=want: zstd(b, n)}[flags >> 5](block)
        need(len(block) == want, "blosc block")
        if flags & 1 and item > 1:
            block = unshuffled(block, item)
        if flags & 4 and want // item % 8 == 0:
            block = bit_unshuffled(block, item)
        out += block
    return out


def section(method, data, size):
    need(method in (0, 1) and (method or len(data) == size), "section")
    return zstd(data, size) if method else data


def isobar(data, size):
    """Byte columns: those that compress in one stream, the others as they are."""
    version, width = data[:2]
    need(version in (1, 2), "isobar version")
    at, count = 2 + -(-width // 8), size // width
    bitmap = int.from_bytes(data[2:at], "little")
    packed = [j for j in range(width) if bitmap >> j & 1]
    way = data[at] if version == 2 else 1
    at += version - 1
    length = int.from_bytes(data[at : at + 4], "little")
    stream, rest = data[at + 4 : at + 4 + length], data[at + 4 + length :]
    need(way & 15 in (1, 2), "isobar way")
    body = b"" if not packed else zstd(stream, count * len(packed)) if way & 15 == 1 else zlib.decompress(stream)
    columns = np.frombuffer(body, np.uint8).reshape((-1, len(packed)) if way & 16 else (len(packed), -1))
    out = np.zeros((count, width), np.uint8)
    if packed:
        out[:, packed] = columns if way & 16 else columns.T
    raw = [j for j in range(width) if j not in packed]
    out[:, raw] = np.frombuffer(rest[: count * len(raw)], np.uint8).reshape(len(raw), count).T
    return out.tobytes() + rest[count * len(raw) :]


def aplod(data, size):
    """Components of some bytes each, the most significant first."""
    version, width, _, number = data[:4]
    need(version == 1, "aplod version")
    at, planes, count = 4 + 6 * number + 17 * (number - 1), [], size // width
    for size_of, method, stored in struct.iter_unpack("<BBI", data[4 : 4 + 6 * number]):
        planes.insert(0, section(method, data[at : at + stored], size_of * count))
        at += stored
    return unshuffled(b"".join(planes), width) + data[at:]


def positions(data, count):
    """A list of places, in batches of 128: the first, then gaps in few bits, and exceptions. Gives the places and what
    follows."""
    places = []
    while len(places) < count:
        first, bits, exceptions = struct.unpack_from("<IBB", data)
        gaps = min(128, count - len(places)) - 1
        end = 6 + -(-gaps * bits // 8)
        packed = int.from_bytes(data[6:end], "little")
        gap = [packed >> i * bits & (1 << bits) - 1 for i in range(gaps)]
        for which, value in struct.iter_unpack("<BI", data[end : end + 5 * exceptions]):
            gap[which] = value
        data = data[end + 5 * exceptions :]
        places.append(first)
        for more in gap:
            places.append(places[-1] + more + 1)
    return places, data


def unkeyed(keys, kind, width):
    """The bits of scalars by their keys, which are in the order of the values."""
    sign = np.uint64(1 << 8 * width - 1)
    mask = np.uint64((1 << 8 * width) - 1)
    keys = np.asarray(keys, np.uint64)
    if kind == 1:
        return keys ^ sign
    return keys if kind in (0, 2) else np.where(keys & sign, keys ^ sign, ~keys & mask)


def as_bytes(words, width):
    return np.asarray(words, np.uint64).view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


def alacrity(data, size):
    """Bins of keys with the same leading bits, the list of each, and the lower bytes of all keys."""
    version, width, kind, bits, kept, bins = struct.unpack_from("<BBBBB3xI", data)
    need(version == 1, "alacrity version")
    count, low = size // width, -(-(8 * width - bits) // 8)
    rest, places, high = data[12 + 12 * bins :], [], []
    for number, members, _ in struct.iter_unpack("<III", data[12 : 12 + 12 * bins]):
        found, rest = positions(rest, members)
        places += found
        high += [number << 8 * width - bits] * members
    lower = np.frombuffer(rest[: count * low], np.uint8).reshape(count, low).astype(np.uint64)
    keys = np.array(high, np.uint64) | sum((lower[:, j] << np.uint64(8 * j) for j in range(low)), np.uint64(0))
    out = np.zeros(count, np.uint64)
    out[places] = unkeyed(keys, kind, width)
    return as_bytes(out, width) + rest[count * low + count * width * kept :]


def mloc(data, size):
    """Cells of (bin, box, part) in the order that the head names."""
    version, width, _, number, _, *order = struct.unpack_from("<BBBBI3B", data)
    need(version == 1 and sorted(order) == [1, 2, 3], "mloc head")
    count, axes, at = size // width, data[11], 12
    grid = np.frombuffer(data, "<u4", 2 * axes, at).reshape(-1, 2).astype(int)
    shape, edges = grid[:, 0], grid[:, 1]
    at += 8 * axes
    sizes = list(data[at : at + number])
    at += number + 17 * (number - 1)
    bins = int.from_bytes(data[at : at + 4], "little")
    at += 4 + 8 * (bins - 1)
    counts = -(-shape // edges)
    boxes = [np.array(box) * edges for box in np.ndindex(*counts)] if count else []
    cut = [tuple(slice(a, min(a + e, n)) for a, e, n in zip(box, edges, shape, strict=True)) for box in boxes]
    volume = [int(np.prod([s.stop - s.start for s in box])) for box in cut]
    members = {(0, box): n for box, n in enumerate(volume)}
    if bins > 1:
        table = np.frombuffer(data, "<u4", bins * len(boxes), at)
        members = {(i % bins, i // bins): int(n) for i, n in enumerate(table)}
        at += 4 * len(table)
    curve = np.argsort(along("hilbert", tuple(counts))) if count else []
    levels = {1: range(bins), 2: [int(box) for box in curve], 3: range(number + 1)}
    cells = []
    for cell in itertools.product(*(levels[level] for level in order)):
        bin_, box, part = (cell[order.index(level)] for level in (1, 2, 3))
        if members[bin_, box] and (part or bins > 1):
            cells.append((bin_, box, part))
    entries = np.frombuffer(data, "<u4", len(cells), at).tolist()
    at += 4 * len(cells)
    stored = {}
    for cell, entry in zip(cells, entries, strict=True):
        length = entry & 0x7FFFFFFF
        stored[cell] = (entry >> 31, data[at : at + length])
        at += length
    out = np.zeros((*shape, width), np.uint8)
    for box, place in enumerate(cut):
        inside = np.zeros((volume[box], width), np.uint8)
        for bin_ in range(bins):
            n = members[bin_, box]
            if n:
                planes = [section(*stored[bin_, box, 1 + i], sizes[i] * n) for i in reversed(range(number))]
                values = np.frombuffer(unshuffled(b"".join(planes), width), np.uint8).reshape(n, width)
                inside[positions(stored[bin_, box, 0][1], n)[0] if bins > 1 else slice(None)] = values
        out[place] = inside.reshape(*(s.stop - s.start for s in place), width)
    return out.tobytes() + data[at:]


def sorted_values(data, size):
    """Values in ascending order, the place of each, and other columns, which are left out."""
    version, width, _, columns, fences = struct.unpack_from("<BBBBI", data)
    need(version == 1 and size % width == 0, "sorted head")
    count, at = size // width, 8 + 8 * fences + 36 * columns
    places = np.frombuffer(data, "<u4", count, at + count * width)
    need(bool((np.sort(places) == np.arange(count)).all()), "each place once")
    out = np.zeros((count, width), np.uint8)
    out[places] = np.frombuffer(data, np.uint8, count * width, at).reshape(count, width)
    return out.tobytes()


OF_PARTS = {"isobar": isobar, "aplod": aplod, "alacrity": alacrity, "mloc": mloc, "sorted": sorted_values}


def decode(name, parameters, data, size, item, scalar):
    """What codec `name` made `data` of: `size` bytes, elements of `item`, scalars of `scalar` bytes."""
    first = parameters.get(0)
    if name in OF_PARTS:
        return OF_PARTS[name](data, size)
    if name == "zstd":
        return zstd(data, size)
    if name in ("zlib", "gzip"):
        return zlib.decompress(data, 15 if name == "zlib" else 31)
    if name == "bzip2":
        return bz2.decompress(data)
    if name == "lz4":
        return lz4_block(data[4:])
    if name == "shuffle":
        return unshuffled(data, first or item)
    if name == "bitshuffle":
        return bit_unshuffled(data, first or item)
    if name == "delta":
        width = first or (scalar if scalar in (1, 2, 4, 8) else 1)
        return summed(data, width, max(item // width, 1) if item % width == 0 else 1)
    if name == "bytedelta":
        return bytes_summed(data, first or item) if len(data) >= (first or item) else data
    if name == "bitround":
        return data
    if name == "blosc":
        return blosc(data, size)
    raise UnsupportedError(f"codec {name}")


def decode_coded(chain, coded, size, item, scalar):
    """The decoded bytes of a subchunk in coded form, mode byte left out."""
    codecs = specs(chain)
    sizes = [size, *(n for (n,) in struct.iter_unpack("<I", coded[: 4 * (len(codecs) - 1)]))]
    need(len(sizes) == len(codecs), "stage lengths")
    out = coded[4 * (len(codecs) - 1) :]
    for (name, parameters), length in zip(reversed(codecs), reversed(sizes), strict=True):
        out = decode(name, parameters, out, length, item, scalar)
        need(len(out) == length, f"{len(out)} bytes after {name}, {length} expected")
    return out
