"""Manifests and log parts that lie in packs, found as docs/format/packs.md and docs/format/log-packs.md say."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from drystone_reader import SECTION, CorruptError, cbor, frame_at, need

_folders = []  # removed when the program ends


def floor(data, uuid):
    """(floor, [[id, first, last, members, length], ...])"""
    kind, _, payload, end = frame_at(data, 0, 0)
    need(kind == SECTION and end == len(data), "no floor")
    said = cbor(payload)
    need(said[0] == uuid and said[1] >= 1, "floor of another container")
    above = 0
    for _, first, last, _, _ in said[2]:
        need(above < first <= last <= said[1], "packs out of order")
        above = last
    return said[1], said[2]


def pack(data, uuid, number):
    """(first, last, {version: bytes of the manifest file})"""
    kind, _, payload, at = frame_at(data, 0, 0)
    need(kind == SECTION, "no pack")
    said = cbor(payload)
    need(said[0] == uuid and said[1] == number, "another pack")
    first, last = said[2]
    files, above = {}, first - 1
    for version, length in said[3]:
        need(above < version <= last and length >= 1 and at + length <= len(data), f"member {version}")
        files[version] = data[at : at + length]
        at, above = at + (length + 7) // 8 * 8, version
    return first, last, files


def log_directory(data, uuid):
    """[[id, parts, length of the table, length], ...]"""
    kind, _, payload, end = frame_at(data, 0, 0)
    need(kind == SECTION and end == len(data), "no directory of packs")
    said = cbor(payload)
    need(said[0] == uuid, "directory of another container")
    return said[1]


def log_pack(data, uuid, number):
    """{(writer, part): (bytes of the idx, bytes of the segment)}"""
    kind, _, payload, at = frame_at(data, 0, 0)
    need(kind == SECTION, "no pack")
    said = cbor(payload)
    need(said[0] == uuid and said[1] == number, "another pack")
    files = []
    for length in [part[3] for part in said[2]] + [part[2] for part in said[2]]:
        need(at + length <= len(data), "a pack that is cut short")
        files.append(data[at : at + length])
        at += (length + 7) // 8 * 8
    need(at == len(data), "bytes behind a pack")
    count = len(said[2])
    return {(part[0], part[1]): (files[count + n], files[n]) for n, part in enumerate(said[2])}


def unpacked_logs(path, target, uuid):
    """Makes the folder `log` with each packed part as two files."""
    (target / "log").mkdir()
    for item in (path / "log").iterdir():
        if item.suffix != ".pack" and item.name != "packs":
            (target / "log" / item.name).symlink_to(item)
    try:
        for number, parts, _, length in log_directory((path / "log/packs").read_bytes(), uuid):
            data = (path / f"log/{number:016x}.pack").read_bytes()
            need(len(data) == length, f"pack {number:016x} is {len(data)} bytes long")
            held = log_pack(data, uuid, number)
            need(len(held) == parts, f"pack {number:016x}")
            for (writer, part), (idx, segment) in held.items():
                for kind, file in ("idx", idx), ("seg", segment):
                    name = target / "log" / f"{writer:016x}-{part:04}.{kind}"
                    if file and not name.exists():
                        name.write_bytes(file)
    except (OSError, KeyError, TypeError, ValueError) as e:
        raise CorruptError(f"packs: {e!r}") from e


def unpacked(path, uuid):
    """The container with each manifest and log part as files: itself if nothing is packed, else a folder of links."""
    path = Path(path).absolute()
    has_logs = (path / "log/packs").exists()
    if not (path / "manifest/floor").exists() and not has_logs:
        return path
    _folders.append(TemporaryDirectory())
    target = Path(_folders[-1].name)
    if has_logs:
        unpacked_logs(path, target, uuid)
    if not (path / "manifest/floor").exists():
        for item in path.iterdir():
            if item.name != "log":
                (target / item.name).symlink_to(item)
        return target
    (target / "manifest").mkdir()
    for item in path.iterdir():
        if item.name != "manifest" and not (has_logs and item.name == "log"):
            (target / item.name).symlink_to(item)
    try:
        top, packs = floor((path / "manifest/floor").read_bytes(), uuid)
        files = {}
        for number, first, last, members, length in packs:
            data = (path / f"manifest/{number:016x}.pack").read_bytes()
            need(len(data) == length, f"pack {number:016x} is {len(data)} bytes long")
            said = pack(data, uuid, number)
            need(said[:2] == (first, last) and len(said[2]) == members, f"pack {number:016x}")
            files |= said[2]
    except (OSError, KeyError, TypeError, ValueError) as e:
        raise CorruptError(f"packs: {e!r}") from e
    for version, data in files.items():
        (target / f"manifest/{version:012}.dsm").write_bytes(data)
    for item in (path / "manifest").iterdir():
        with suppress(ValueError):
            if item.suffix == ".dsm" and int(item.stem) <= top:
                continue
        if item.suffix != ".pack" and item.name != "floor":
            (target / "manifest" / item.name).symlink_to(item)
    return target
