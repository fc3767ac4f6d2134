"""An independent reader of catalogues, after docs/format/catalog.md alone."""

import struct

import drystone_reader

KINDS = ("attribute", "least", "greatest", "own")


class Damaged(Exception):
    pass


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise Damaged("the bytes end")
        self.at += n
        return self.data[self.at - n : self.at]

    def varint(self):
        n = 0
        for shift in range(0, 64, 7):
            (byte,) = self.take(1)
            n |= (byte & 0x7F) << shift
            if byte < 0x80:
                if n >= 1 << 64:
                    break
                return n
        raise Damaged("more than 64 bits")

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.take(8))[0]

    def text(self):
        return self.take(self.varint()).decode()

    def ascending(self, end):
        out = []
        for _ in range(self.varint()):
            out.append((out[-1] + 1 if out else 0) + self.varint())
            if out[-1] >= end:
                raise Damaged("a number too large")
        return out

    def end(self):
        if self.at != len(self.data):
            raise Damaged("bytes too many")


def manifest(data):
    b = Bytes(data[:-4])
    if b.take(8) != b"DRYCATM1" or drystone_reader.crc32c(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise Damaged("no manifest")
    out = {"number": b.u64(), "uuid": b.take(16).hex(), "pages": []}
    for _ in range(b.varint()):
        page = {
            "id": b.take(16).hex(),
            "containers": b.varint(),
            "bytes": b.varint(),
            "directory": b.varint(),
            "crc": b.u32(),
        }
        page["hidden"] = b.ascending(page["containers"])
        out["pages"].append(page)
    b.end()
    return out


def page(data, directory):
    """A page, of whose end so many bytes are the directory."""
    if data[:8] != b"DRYCATP1":
        raise Damaged("no page")
    b = Bytes(data[len(data) - directory :])

    def section():
        offset, length, crc = b.varint(), b.varint(), b.u32()
        if offset < 8 or offset + length > len(data) - directory:
            raise Damaged("a section beyond the page")
        found = data[offset : offset + length]
        if drystone_reader.crc32c(found) != crc:
            raise Damaged("a section fails its CRC")
        return found

    containers = b.varint()
    identities = Bytes(section())
    out = {"containers": [[identities.take(16).hex(), identities.u64(), identities.u64()] for _ in range(containers)]}
    identities.end()
    out["columns"] = []
    for _ in range(b.varint()):
        (kind,) = b.take(1)
        key = [KINDS[kind], b.text(), b.text()]
        out["columns"].append([key, column(section(), containers)])
    b.end()
    return out


def column(data, containers):
    b, out, before = Bytes(data), [], b""
    for _ in range(b.varint()):
        (kind,) = b.take(1)
        if kind < 2:
            value = bool(kind)
        elif kind == 2:
            value = b.varint()
        elif kind == 3:
            value = -1 - b.varint()
        elif kind == 4:
            value = {"float": b.take(8)[::-1].hex()}
        elif kind == 5:
            before = before[: b.varint()] + b.take(b.varint())
            value = before.decode()
        else:
            raise Damaged("an unknown type")
        out.append([value, b.ascending(containers)])
    b.end()
    return out
