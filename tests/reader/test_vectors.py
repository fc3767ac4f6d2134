"""The vectors as the independent reader sees them."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

import drystone_parity
import drystone_published
import drystone_reader as reader

VECTORS = Path(__file__).parent.parent / "vectors"


def value(v):
    """An attribute's value as the vectors write it."""
    if isinstance(v, float):
        return {"float": struct.pack(">d", v).hex()}
    if isinstance(v, bytes):
        return {"bytes": v.hex()}
    if isinstance(v, list):
        return [value(item) for item in v]
    if isinstance(v, dict):
        return {"map": attrs(v)}
    if isinstance(v, reader.TypedArray):
        out = {"dtype": dtype(v.dtype), "shape": v.shape, "data": v.data.hex()}
        return out if v.meaning is None else out | {"meaning": v.meaning}
    return v


def attrs(items):
    return {key: value(item) for key, item in items.items()}


def dtype(d):
    if isinstance(d, str):
        return d
    if d[0] < 2:
        return {("bytes", "unicode")[d[0]]: d[1]}
    if d[0] == 3:
        return {"ragged": d[1]}
    members = [{"name": n, "dtype": dtype(t), "shape": s, "offset": o} for n, t, s, o in d[2]]
    return {"itemsize": d[1], "members": members}


KINDS = ("virtual", "bounds", "stored")
EDGES = ("one_sided", "fill", "periodic", "nan")


def variable(v):
    names = [
        "id",
        "dtype",
        "shape",
        "growable",
        "dims",
        "steps",
        "local",
        "transform",
        "chunks",
        "fill",
        "attrs",
        "created",
        "clips",
    ]
    out = dict(zip(names, (v[i] for i in range(13)), strict=True))
    fill = None if v[9] is None else v[9].hex()
    out |= {"dtype": dtype(v[1]), "fill": fill, "attrs": attrs(v[10])}
    out |= {"meaning": v[15]} if 15 in v else {}
    return out | ({"derived": derived(v[16])} if 16 in v else {})


def derived(d):
    inputs = [{"name": name, "variable": id_} for name, id_ in d[4]]
    kind, edge = KINDS[d[0]], EDGES[d[1]]
    return {"kind": kind, "edge": edge, "text": d[2], "tree": d[3].hex(), "inputs": inputs}


def schema(data):
    s = reader.cbor(data)
    return {
        "next_id": s[0],
        "groups": {path: attrs(a) for path, a in s[1].items()},
        "variables": [variable(v) for v in s[2]],
        "names": {path: name[1] for path, name in s[3].items()},
    }


def manifest(data):
    m = reader.manifest(data)
    names = "version parent write_id uuid time marked last_marked fence schema steps"
    names = [*names.split(), "source_pages", "source_count", "root", "ahead"]
    out = dict(zip(names, (m[i] for i in range(14)), strict=True))
    for name, (kind, content) in ("schema", m[8]), ("steps", m[9]):
        out[name] = content if kind else content.hex()
    root = m[12] and {"page": m[12][:4], "height": m[12][4], "entries": m[12][5]}
    if 14 in m:
        out["published"] = m[14][1] if m[14][0] else m[14][1].hex()
    if 15 in m:
        out["boot"] = m[15]
    return out | {"write_id": m[2].hex(), "uuid": m[3].hex(), "root": root}


def column(data):
    c = reader.Cursor(data)
    values = reader.column(c, *c.unpack("I"))
    c.end()
    return values.tolist()


def frames(data):
    at, out = 0, []
    while at < len(data):
        kind, ordinal, payload, at = reader.frame_at(data, at, len(out))
        out.append({"kind": kind, "ordinal": ordinal, "payload": payload.hex()})
    return out


def branch(data):
    node = reader.branch(data)
    for child in node["children"]:
        child |= {"entries": child["entries"][0], "commit": child["commit"][0]}
        child |= {name: (child[name] + [0] * 8)[:8] for name in ("first_offset", "lo", "hi")}
    return node


def group(data):
    c = reader.Cursor(data)
    head, entries = reader.cbor(c.take(*c.unpack("I"))), []
    while c.at < len(data):
        entries += reader.entry_block(c.take(*c.unpack("I")))
    names = {"final": 1, "replace": 2, "group": 3, "frame": 4, "total": 5}
    return {"step": head.get(0), **{name: head.get(key, 0) for name, key in names.items()}, "entries": entries}


def identity(data):
    members = reader.identity(data)
    return {name: members[name] for name in ("version", "uuid", "durability", "features", "created")}


def staged(data):
    assert data.endswith(b'"\n}\n')
    body = json.loads(data)
    assert int(body["crc32c"], 16) == reader.crc32c(data[:-23])
    assert (body["format"], body["version"]) == ("drystone-staged", 1)
    names = {"part": "part", "length": "length", "step": "step"}
    parts = [{new: p[old] for old, new in names.items()} | {"crc": int(p["crc32c"], 16)} for p in body["parts"]]
    texts = {name: body[name] for name in ("uuid", "node", "group", "boot", "folders")}
    return texts | {"writer": int(body["writer"], 16), "parts": parts}


def cache_unit(data):
    magic, uuid, offset, length, key_len = struct.unpack_from("<8s16sQQI", data)
    assert magic == b"DRYUNIT1"
    blocks = -(-length // 65536)
    end = 44 + key_len + 4 * blocks
    assert reader.crc32c(data[:end]) == struct.unpack_from("<I", data, end)[0]
    payload = data[end + 4 :]
    assert len(payload) == length
    checks = list(struct.unpack_from(f"<{blocks}I", data, 44 + key_len))
    assert checks == [reader.crc32c(payload[at : at + 65536]) for at in range(0, length, 65536)]
    names = {"uuid": uuid.hex(), "key": data[44 : 44 + key_len].decode(), "offset": offset, "length": length}
    return names | {"checks": checks, "payload_crc": reader.crc32c(payload)}


def file_header(data):
    h = reader.cbor(data)
    names = ["kind", "uuid", "id", "part", "run", "rank", "nranks", "fence", "time", "origin"]
    out = dict(zip(names, (h.get(i) for i in range(10)), strict=True)) | {"uuid": h[1].hex()}
    return out | ({"base": h[11]} if 11 in h else {})


def steps(data):
    s = reader.cbor(data)
    return {"runs": s[0], "hidden": s[1]}


def stored_piece(data):
    c = reader.Cursor(data)
    length, trailer, unit_log2, check = c.unpack("QQII")
    rest = c.take(len(data) - c.at)
    piece = {"position": 0, "length": length, "trailer": trailer, "unit_log2": unit_log2, "check": check}
    payload, checks, histogram = reader.piece_payload(lambda at, n: rest[at : at + n], piece)
    value = {"payload": payload.hex(), "checks": checks}
    if (histogram or b"").startswith(b"M"):  # metadata of the transform comes first
        end = 4 + int.from_bytes(histogram[1:4], "little")
        value["metadata"], histogram = histogram[4:end].hex(), histogram[end:]
    return value | {"histogram": None if histogram is None else histogram.hex()}


READERS = {
    "column": column,
    "frames": frames,
    "identity": identity,
    "cache_unit": cache_unit,
    "staged": staged,
    "parity_group": drystone_parity.group,
    "parity_object": drystone_parity.parity_object,
    "hint": reader.hint,
    "mark": int,
    "file_header": file_header,
    "group": group,
    "entry_block": reader.entry_block,
    "branch": branch,
    "subchunk_table": reader.subchunk_table,
    "source_page": reader.source_page,
    "steps": steps,
    "dtype": lambda data: dtype(reader.cbor(data)),
    "value": lambda data: value(reader.cbor(data)),
    "schema": schema,
    "manifest": manifest,
    "published": drystone_published.published,
    "shard_page": drystone_published.shard_page,
    "shard_statistics": drystone_published.shard_statistics,
    "blob_reference": lambda data: dict(zip(["position", "length", "crc"], struct.unpack("<QII", data), strict=True)),
    "stored_piece": stored_piece,
}


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.bin")), ids=lambda p: p.stem)
def test_a_vector_is_read_as_the_value_beside_it(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    assert READERS[expected["structure"]](path.read_bytes()) == expected["value"]


def as_expected(array):
    if isinstance(array, list):
        return [{"shape": list(block.shape), "data": block.tobytes().hex()} for block in array]
    return array.tolist() if array.dtype == object else array.tobytes().hex()


@pytest.mark.parametrize("name", ["v1_container", "v1_layouts"])
def test_every_variable_of_the_container_reads_as_it_was_put(name):
    container = reader.open_container(VECTORS / name)
    expected = json.loads((VECTORS / f"{name}.json").read_text())
    assert container.steps() == expected["steps"]
    assert container.variables() == sorted(expected["variables"])
    for path, reads in expected["variables"].items():
        for read in reads:
            assert as_expected(container.read(path, read["step"])) == read["value"], (path, read["step"])


def test_a_variable_with_steps_reads_as_one_array_whose_missing_steps_are_fill():
    container = reader.open_container(VECTORS / "v1_container")
    t = container.read("t")
    assert t.shape == (5, 4, 6)
    assert t.dtype == np.float32
    assert (t[2:4] == 1.5).all()
    assert (t[1, 0] == np.arange(900, 906)).all()
    assert (t[1, 1:] == 1.5).all()


def test_a_record_keeps_its_padding_where_steps_are_joined():
    container = reader.open_container(VECTORS / "v1_container")
    container.variable("fields/particles")[5] = True
    particles = container.read("fields/particles")
    assert particles.shape == (5, 5)
    assert particles.dtype.itemsize == 48


def test_links_and_attributes_are_found():
    container = reader.open_container(VECTORS / "v1_container")
    assert container.attrs("t") == {"units": "K", "n": -3}
    assert container.attrs("latest") == container.attrs("fields") == {"title": "wall"}
    particles = container.read("latest/particles")
    assert particles.dtype.names == ("x", "v", "a", "s")
    assert particles["v"].shape == (5, 3)
    assert (particles["a"]["k"] == container.read("fields/particles")["a"]["k"]).all()
    with pytest.raises(KeyError):
        container.read("latest/nothing")


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(VECTORS / "v1_container", tmp_path / "c")
    return tmp_path / "c"


def flip(path, at, bit=0):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def test_a_snapshot_that_was_not_flushed_is_passed_over_with_a_warning(copy):
    flip(copy / "manifest/000000000003.dsm", 100)
    with pytest.warns(UserWarning, match="snapshot 3 is passed over"):
        assert reader.open_container(copy).version == 2


def test_a_snapshot_that_was_flushed_is_not_passed_over(copy):
    flip(copy / "manifest/000000000002.dsm", 100)
    (copy / "manifest/000000000003.dsm").unlink()
    with pytest.raises(reader.CorruptError):
        reader.open_container(copy)


def test_a_hint_that_is_torn_or_gone_changes_nothing(copy):
    flip(copy / "manifest/hint", 3)
    assert reader.open_container(copy).version == 3
    (copy / "manifest/hint").unlink()
    assert reader.open_container(copy).version == 3


def test_no_flipped_bit_of_a_segment_is_read_as_a_value(copy):
    expected = json.loads((VECTORS / "v1_container.json").read_text())["variables"]
    for path in copy.glob("log/*.seg"):
        for at in range(0, path.stat().st_size, 29):
            flip(path, at, at % 8)
            container, damaged = reader.open_container(copy), 0
            for name, reads in expected.items():
                for read in reads:
                    try:
                        assert as_expected(container.read(name, read["step"])) == read["value"]
                    except reader.CorruptError:
                        damaged += 1
            assert damaged <= 2  # a corrupted subchunk fails its own reads only
            flip(path, at, at % 8)


def test_no_flipped_bit_of_index_or_manifest_is_read_as_a_value(copy):
    expected = json.loads((VECTORS / "v1_container.json").read_text())["variables"]
    (copy / "manifest/000000000003.mark").write_text("000000000003")
    for path in [copy / "index/000000009a9e0003.dsx", copy / "manifest/000000000003.dsm"]:
        for at in range(0, path.stat().st_size, 61):
            flip(path, at, at % 8)
            try:
                container = reader.open_container(copy)
                for name, reads in expected.items():
                    for read in reads:
                        assert as_expected(container.read(name, read["step"])) == read["value"]
            except reader.CorruptError:
                pass
            flip(path, at, at % 8)


def test_chains_are_decoded():
    zstandard = pytest.importorskip("zstandard")
    data = np.arange(1000, dtype="<i4").tobytes()
    planes = np.frombuffer(data, np.uint8).reshape(-1, 4).T.tobytes()
    frame = zstandard.ZstdCompressor(level=1).compress(planes)
    stored = b"\x1f" + struct.pack("<I", len(planes)) + frame
    assert reader.decode_chain("shuffle,zstd:1", stored, 4000, 4, 4) == data
    assert reader.decode_chain("zstd:3", b"\x1f" + zstandard.ZstdCompressor().compress(data), 4000, 4, 4) == data
    assert reader.decode_chain("zstd:3", b"\x10" + data, 4000, 4, 4) == data
    with pytest.raises(reader.UnsupportedError):
        reader.decode_chain("szip", b"\x1f" + data, 4000, 4, 4)
    with pytest.raises(reader.CorruptError):
        reader.decode_chain("", data[:-1], 4000, 4, 4)


def test_the_reader_stays_short():
    assert len(Path(reader.__file__).read_text().splitlines()) < 500
