"""The codecs of docs/transforms.md in plain Python, for the independent reader. Slow and short on purpose."""

import bz2
import re
import struct
import zlib

import numpy as np


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


def decode(name, parameters, data, size, item, scalar):
    """What codec `name` made `data` of: `size` bytes, elements of `item`, scalars of `scalar` bytes."""
    first = parameters.get(0)
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
