"""What was published, as manifests record it: docs/format/manifest.md, "Published section"."""

import drystone_reader as reader

NAMES = "node variable uid member version shape chunk shard zstd tail".split()


def published(data):
    arrays = []
    for found in reader.cbor(data):
        array = dict(zip(NAMES, (found[i] for i in range(10)), strict=True))
        pages = [dict(zip(("first", "count", "page"), page, strict=True)) for page in found[10]]
        reader.need(len(array["shape"]) == len(array["chunk"]) == len(array["shard"]) <= 9, "extents")
        whole = all(c > 0 and s > 0 and s % c == 0 for c, s in zip(array["chunk"], array["shard"], strict=True))
        reader.need(whole and array["tail"] <= 64, "chunks and shards of an array")
        arrays.append(array | {"pages": pages})
    return arrays


def shard_page(data):
    cursor = reader.Cursor(data)
    n, reserved = cursor.unpack("II")
    reader.need(n <= 4096 and reserved == 0, "head of a page of shards")
    columns = [reader.column(cursor, n).tolist() for _ in range(6)]
    cursor.end()
    reader.need(all(a < b for a, b in zip(columns[0], columns[0][1:], strict=False)), "order of shards")
    return [
        {
            "number": number,
            "version": version,
            "fingerprint": (low | high << 64).to_bytes(16, "little").hex(),
            "length": length,
            "index_check": check,
        }
        for number, version, low, high, length, check in zip(*columns, strict=True)
    ]


def shard_statistics(data):
    """The object `.drystone/statistics/...` beside a shard: docs/format/zarr.md, "Statistics"."""
    body, check = data[:-4], data[-4:]
    reader.need(reader.crc32c(body) == int.from_bytes(check, "little"), "checksum of statistics")
    cursor = reader.Cursor(body)
    magic, fingerprint, version, axes, n = cursor.unpack("8s16sQII")
    reader.need(magic == b"DRYSTATS" and axes <= 9 and n <= 1 << 16, "head of statistics")
    extents = list(cursor.unpack(f"{axes}Q"))
    columns = [reader.column(cursor, n).tolist() for _ in range(6)]
    cursor.end()
    return {
        "fingerprint": fingerprint.hex(),
        "version": version,
        "extents": extents,
        "chunks": [
            {
                "values": values,
                "fills": fills - 1 if fills else None,
                "nans": nans,
                "min": low if there else None,
                "max": high if there else None,
            }
            for values, fills, nans, there, low, high in zip(*columns, strict=True)
        ],
    }
