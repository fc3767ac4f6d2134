"""Byte files, read by docs/format/files.md alone: `read(folder)` gives each path with its bytes, its target, or None
for a folder."""

import struct

from drystone_reader import CorruptError, Cursor, column, crc32c, frame_at, need

FILES, UNIT, ROOT = 10, 16384, 1


def frames(data, limit=None):
    """Payloads of a journal, and where each frame ends; a torn one is the end."""
    at, ordinal = 0, 0
    while at != limit:
        try:
            kind, _, payload, at = frame_at(data, at, ordinal)
        except (CorruptError, struct.error):
            return
        if kind != FILES:
            return
        ordinal += 1
        yield at, payload


def header(payload):
    c = Cursor(payload)
    version, flags, mount = c.unpack("HHI")
    uuid = c.take(16)
    generation, taken = c.unpack("QQ")
    c.end()
    need(version == 1 and flags < 2 and generation > 0, "the header of a journal")
    return {"whole": bool(flags), "mount": mount, "uuid": uuid, "generation": generation, "taken": taken}


def text(c):
    return c.take(*c.unpack("H"))


def records(payload):
    c = Cursor(payload)
    while c.at < len(payload):
        (kind,) = c.unpack("B")
        if kind in (1, 2, 3):
            ino, folder = c.unpack("QQ")
            name, attrs = text(c), c.unpack("3I3q")
            yield kind, ino, folder, name, attrs, text(c) if kind == 3 else None
        elif kind == 4:
            yield kind, *c.unpack("Q"), text(c), *c.unpack("q")
        elif kind in (5, 6):
            yield kind, *c.unpack("Q"), text(c), *c.unpack("Q"), text(c), *c.unpack("q")
        elif kind == 7:
            ino, _, n = c.unpack("QqI")
            need(n <= 1024, "a long record")
            yield kind, ino, list(zip(*[[int(v) for v in column(c, n)] for _ in range(4)], strict=True))
        elif kind == 13:
            log, first, end, n = c.unpack("QQQI")
            yield kind, log, first, end, list(c.unpack(f"{n}I"))
        elif kind in (11, 12):
            ino, name = *c.unpack("Q"), text(c)
            yield kind, ino, name, text(c) if kind == 11 else None
        else:
            need(kind in (8, 9, 10, 14, 15), f"record {kind}")
            yield kind, *c.unpack({8: "QQq", 9: "QQQq", 10: "Q3I3q", 14: "Q", 15: "Q"}[kind])


class State:
    """What records amount to: bytes are kept as places in data logs."""

    def __init__(self):
        self.folders, self.files, self.links, self.sums = {ROOT: {}}, {}, {}, {}

    def take(self, folder, name):
        ino = self.folders.get(folder, {}).get(name)
        if ino is not None and not self.folders.get(ino):
            del self.folders[folder][name]
            for kept in (self.folders, self.files, self.links):
                kept.pop(ino, None)

    def apply(self, kind, *r):
        if kind in (1, 2, 3):
            ino, folder, name, _, target = r
            if folder in self.folders and name not in self.folders[folder]:
                self.folders[folder][name] = ino
                [self.files, self.folders, self.links][kind - 1][ino] = [[], {}, target][kind - 1]
        elif kind == 4:
            self.take(r[0], r[1])
        elif kind == 5:
            ino = self.folders[r[0]].get(r[1])
            if ino is not None and self.folders[r[2]].get(r[3]) != ino:
                self.take(r[2], r[3])
                self.folders[r[2]][r[3]] = self.folders[r[0]].pop(r[1])
        elif kind == 6:
            one, other = self.folders[r[0]], self.folders[r[2]]
            one[r[1]], other[r[3]] = other[r[3]], one[r[1]]
        elif kind == 7 and r[0] in self.files:
            for offset, length, log, position in r[1]:
                self.size(r[0], max(offset + length, len(self.files[r[0]])))
                self.files[r[0]][offset : offset + length] = [(log, position + i) for i in range(length)]
        elif kind == 8 and r[0] in self.files:
            self.size(r[0], r[1])
        elif kind == 9 and r[0] in self.files:
            end = min(r[1] + r[2], len(self.files[r[0]]))
            self.files[r[0]][r[1] : end] = [None] * max(0, end - r[1])
        elif kind == 13:
            log, first, end, sums = r
            known = self.sums.setdefault(log, [0, []])
            if first <= len(known[1]) and end >= known[0]:
                known[:] = [end, known[1][:first] + sums]

    def size(self, ino, size):
        places = self.files[ino]
        del places[size:]
        places.extend([None] * (size - len(places)))

    def paths(self, folder=ROOT, above=""):
        for name, ino in self.folders[folder].items():
            yield above + name.decode(), ino
            if ino in self.folders:
                yield from self.paths(ino, above + name.decode() + "/")


def read(folder, uuid):
    journals = {int(p.stem): p.read_bytes() for p in folder.glob("*.jnl")}
    heads = {g: header(next(frames(data))[1]) for g, data in journals.items()}
    need(all(h["uuid"] == uuid and h["generation"] == g for g, h in heads.items()), "another container's journal")
    if not heads:
        return {}
    state, generation = State(), max(g for g, h in heads.items() if h["whole"])
    while generation in journals:
        limit = heads[generation + 1]["taken"] if generation + 1 in heads else None
        end = 0
        for end, payload in frames(journals[generation], limit):
            if end > 72:
                for record in records(payload):
                    state.apply(*record)
        need(limit in (None, end), "a journal is shorter than what counts of it")
        generation += 1
    logs = {}
    for log, (end, sums) in state.sums.items():
        path = folder / f"{log >> 32:08x}-{log & 0xFFFFFFFF:08x}.dat"
        data = path.read_bytes()[:end]
        need(len(data) == end, "a data log is short")
        units = [data[at : at + UNIT] for at in range(0, end, UNIT)]
        need([crc32c(unit) for unit in units] == sums, "a data log fails its checksums")
        logs[log] = data
    out = {}
    for path, ino in sorted(state.paths()):
        if ino in state.files:
            out[path] = bytes(0 if p is None else logs[p[0]][p[1]] for p in state.files[ino])
        else:
            out[path] = state.links.get(ino)
    return out
