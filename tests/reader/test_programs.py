"""The vectors of read programs as the independent reader sees them, and the replies that it would give."""

import json
import struct
from pathlib import Path

import pytest

import drystone_programs as reader
from drystone_reader import CorruptError

VECTORS = Path(__file__).parent.parent / "vectors" / "programs"
NAMES = sorted(path.stem for path in VECTORS.glob("*.json"))


def vector(name):
    return (VECTORS / f"{name}.bin").read_bytes(), json.loads((VECTORS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_the_value_beside_it(name):
    data, expected = vector(name)
    found = reader.program(data)
    assert found["version"] == expected.get("version", 1)
    assert found["chains"] == expected["chains"]
    assert found["arrangements"] == expected["arrangements"]
    assert len(found["rules"]) == len(expected["rules"])
    types = [(one["type"], one.get("answer", "values")) for one in expected["conditions"]]
    assert [(one["type"], one["answer"]) for one in found["conditions"]] == types
    for item, wanted in zip(found["items"], expected["items"], strict=True):
        wanted = dict(wanted)
        # The first vectors call a prefix the front.
        item["front"] = item.pop("prefix")
        if wanted["mode"] == "front":
            wanted["mode"] = "prefix"
        if isinstance(wanted.get("check"), str):
            wanted["check"] = int(wanted["check"], 16)
        assert {key: item[key] for key in wanted} == wanted


@pytest.mark.parametrize("name", [name for name in NAMES if (VECTORS / f"{name}_reply.bin").exists()])
def test_the_object_gives_the_reply_and_the_values_beside_it(name):
    data, expected = vector(name)
    stored = (VECTORS / expected["object"]).read_bytes()
    wanted = (VECTORS / expected["reply"]).read_bytes()
    assert reader.reply(reader.program(data), stored) == wanted
    found = reader.frames(wanted)
    assert [number for number, _, _ in found] == list(range(len(expected["values"])))
    for (_, kind, payload), values in zip(found, expected["values"], strict=True):
        if kind == 0:
            assert list(struct.unpack(f"<{len(values)}f", payload)) == values
            continue
        of, count, form = struct.unpack_from("<IIB", payload)
        assert count == values.get("count", len(values.get("cells", [])))
        assert of == values.get("of", of)
        rest = payload[9:]
        if form == 2:
            assert rest == b""
            continue
        if form == 0:
            cells, rest = list(struct.unpack_from(f"<{count}I", rest)), rest[4 * count :]
        else:
            bits, rest = rest[: -(-of // 8)], rest[-(-of // 8) :]
            cells = [n for n in range(of) if bits[n // 8] >> (n % 8) & 1]
        assert cells == values["cells"]
        assert list(struct.unpack(f"<{len(rest) // 4}f", rest)) == values.get("values", [])


@pytest.mark.parametrize("name", NAMES)
def test_a_shortened_program_is_refused(name):
    data, _ = vector(name)
    for length in range(len(data)):
        with pytest.raises(CorruptError):
            reader.program(data[:length])


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*_reply.bin")), ids=lambda path: path.stem)
def test_a_changed_reply_is_refused(path):
    data = path.read_bytes()
    for at in range(len(data)):
        with pytest.raises(CorruptError):
            reader.frames(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])


def test_the_same_under_another_version_is_refused():
    for name in NAMES:
        data, _ = vector(name)
        with pytest.raises(reader.VersionError):
            reader.program(data[:4] + b"\3" + data[5:])
        with pytest.raises(CorruptError):
            reader.program(data[:4] + bytes([3 - data[4]]) + data[5:])


def test_there_are_vectors_of_both_versions():
    assert {"v1_field", "v1_two", "v1_encoded", "v2_hits"} <= set(NAMES)
