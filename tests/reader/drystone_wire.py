"""Bodies of requests and replies, read by docs/format/wire.md alone."""

import struct


class MalformedError(ValueError):
    """Bytes that are no body."""


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check(holds, what):
    if not holds:
        raise MalformedError(what)


def header(data):
    check(len(data) >= 12, "a short header")
    code, reserved, texts, numbers = struct.unpack_from("<HHII", data)
    check(reserved == 0, "reserved")
    check(4 * texts + 8 * numbers <= len(data) - 12, "counts")
    at, words = 12, []
    for _ in range(texts):
        check(at + 4 <= len(data), "a text")
        (length,) = struct.unpack_from("<I", data, at)
        check(at + 4 + length <= len(data), "a text")
        words.append(data[at + 4 : at + 4 + length].decode())
        at += 4 + length
    check(at + 8 * numbers == len(data), "the end of the header")
    return code, words, list(struct.unpack_from(f"<{numbers}Q", data, at))


def body(data):
    """Frames as (code, texts, numbers, payload), the end frame last."""
    check(data[:8] == b"DRYW\x01\0\0\0", "the head")
    at, frames = 8, []
    while True:
        check(at + 16 <= len(data), "a frame")
        head_len, crc, payload_len = struct.unpack_from("<IIQ", data, at)
        check(head_len <= 1 << 20, "a header's length")
        check(at + 16 + head_len + payload_len + 4 <= len(data), "a frame")
        raw = data[at + 16 : at + 16 + head_len]
        check(crc32c(data[at : at + 4] + data[at + 8 : at + 16] + raw) == crc, "a header's checksum")
        payload = data[at + 16 + head_len :][:payload_len]
        at += 16 + head_len + payload_len
        check(struct.unpack_from("<I", data, at) == (crc32c(payload),), "a payload's checksum")
        at += 4
        frames.append((*header(raw), payload))
        if frames[-1][0] == 0:
            break
    check(frames[-1][2][0] == len(frames) - 1, "the number of frames")
    check(not frames[-1][3], "the end has a payload")
    check(at == len(data), "bytes behind the end")
    return frames
