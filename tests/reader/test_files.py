"""Byte files as the independent reader sees them."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from drystone_files import read
from drystone_reader import CorruptError

VECTORS = Path(__file__).parent.parent / "vectors" / "files"
UUID = bytes(range(1, 17))


def shown(files):
    """As the vector writes it: a folder is null, a link its target, a file its length and the SHA-256 of its bytes."""
    folders = {path.rsplit("/", 1)[0] for path in files if "/" in path}
    out = {}
    for path, content in files.items():
        if content is None or path in folders:
            out[path] = None
        elif path == "link":
            out[path] = content.decode()
        else:
            out[path] = [len(content), hashlib.sha256(content).hexdigest()]
    return out


def test_files_are_what_the_vector_says():
    assert shown(read(VECTORS / "v1", UUID)) == json.loads((VECTORS / "v1.json").read_text())


def test_a_torn_end_is_given_up_and_damage_is_refused(tmp_path):
    folder = Path(shutil.copytree(VECTORS / "v1", tmp_path / "files"))
    last = max(folder.glob("*.jnl"))
    last.write_bytes(last.read_bytes() + b"DRYF" + bytes(5))
    assert shown(read(folder, UUID)) == json.loads((VECTORS / "v1.json").read_text())
    log = min(folder.glob("*.dat"))
    data = bytearray(log.read_bytes())
    data[3] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptError):
        read(folder, UUID)
