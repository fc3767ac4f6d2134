"""Simple Zarr arrays are imported chunk by chunk, without zarr's pipeline: the values are those that zarr reads."""

import drystone as dry
import numpy as np
import pytest
from drystone import commands
from drystone.interchange.formats import chunks
from drystone.interchange.formats import zarr as imported

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")
SHAPE, CHUNKS = (13, 21, 34), (4, 8, 16)
WHOLE = tuple(slice(0, n) for n in SHAPE)
CODECS = {
    "none": None,
    "zstd": zarr.codecs.ZstdCodec(level=1),
    "zstd with a sum": zarr.codecs.ZstdCodec(level=1, checksum=True),
    "gzip": zarr.codecs.GzipCodec(level=1),
    "blosc": zarr.codecs.BloscCodec(cname="zstd", shuffle="bitshuffle"),
    "blosclz": zarr.codecs.BloscCodec(cname="blosclz"),
}
COMPRESSORS = {
    "none": None,
    "zstd": numcodecs.Zstd(1),
    "gzip": numcodecs.GZip(1),
    "zlib": numcodecs.Zlib(1),
    "bzip2": numcodecs.BZ2(1),
    "lz4": numcodecs.LZ4(),
    "blosc": numcodecs.Blosc("lz4"),
    "lzma": numcodecs.LZMA(),
}


def values(dtype):
    return (np.arange(np.prod(SHAPE)).reshape(SHAPE) % 251).astype(dtype)


def made(path, dtype="f8", **how):
    array = zarr.create_array(str(path), shape=SHAPE, chunks=CHUNKS, dtype=dtype, **how)
    array[...] = values(dtype)
    return array


def is_read_as_zarr_reads_it(path, *, by_chunks=True):
    expected = zarr.open_array(str(path), mode="r")
    with imported.opened(path) as contents:
        (array,) = contents.arrays
        assert (array.read.__module__ == chunks.__name__) == by_chunks
        for box in [WHOLE, (slice(3, 9), slice(8, 9), slice(15, 33))]:
            found = array.read(box)
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, expected[box])


@pytest.mark.parametrize("dtype", ["f8", "i2", "u1", "c16", "?"])
@pytest.mark.parametrize("codec", CODECS)
def test_version_3(tmp_path, dtype, codec):
    made(tmp_path / "a.zarr", dtype, compressors=CODECS[codec])
    is_read_as_zarr_reads_it(tmp_path / "a.zarr")


@pytest.mark.parametrize("dtype", ["f8", ">f4", "i2", "u1", ">c16"])
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("codec", COMPRESSORS)
def test_version_2(tmp_path, dtype, order, codec):
    made(tmp_path / "a.zarr", dtype, zarr_format=2, order=order, compressors=COMPRESSORS[codec])
    is_read_as_zarr_reads_it(tmp_path / "a.zarr")


def test_big_endian_in_version_3(tmp_path):
    made(tmp_path / "a.zarr", serializer=zarr.codecs.BytesCodec(endian="big"))
    is_read_as_zarr_reads_it(tmp_path / "a.zarr")


@pytest.mark.parametrize(
    "how",
    [
        {"filters": [zarr.codecs.TransposeCodec(order=(2, 0, 1))]},
        {"shards": (8, 16, 32)},
        {"compressors": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
        {"zarr_format": 2, "filters": [numcodecs.Delta("f8")]},
        {"dtype": "M8[s]"},
        {"dtype": "S3", "zarr_format": 2},
    ],
    ids=["transposed", "shards", "sums", "filters", "times", "texts"],
)
def test_what_is_unusual_is_left_to_zarr(tmp_path, how):
    array = made(tmp_path / "a.zarr", **how)
    with imported.opened(tmp_path / "a.zarr") as contents:
        (found,) = contents.arrays
        assert found.read.__module__ == imported.__name__
        if array.dtype.kind != "M":
            np.testing.assert_array_equal(found.read(WHOLE), array[...])


@pytest.mark.parametrize(("version", "separator"), [(2, "."), (2, "/"), (3, "/"), (3, ".")])
@pytest.mark.parametrize("fill", [0, 7])
def test_chunks_that_are_not_there_hold_the_fill_value(tmp_path, version, separator, fill):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", zarr_format=version)
    array = root.require_group("g").create_array(
        "a", shape=SHAPE, chunks=CHUNKS, dtype="f8", fill_value=fill,
        chunk_key_encoding={"name": {2: "v2", 3: "default"}[version], "separator": separator},
    )  # fmt: skip
    array[:5, 9:, :20] = 3
    with imported.opened(tmp_path / "a.zarr") as contents:
        found = contents.arrays[0].read(WHOLE)
    np.testing.assert_array_equal(found, array[...])
    assert set(np.unique(found)) == {3, fill}


def test_the_fill_value_of_version_2_may_be_none(tmp_path):
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=SHAPE, chunks=CHUNKS, dtype="f8", zarr_format=2, fill_value=None
    )
    array[:5] = 3
    is_read_as_zarr_reads_it(tmp_path / "a.zarr")


@pytest.mark.parametrize("how", [{"compressors": None}, {"compressors": CODECS["zstd"]}, {"zarr_format": 2}])
@pytest.mark.parametrize("damage", ["cut", "longer", "nonsense", "empty"])
def test_a_damaged_chunk_is_handled_as_by_zarr(tmp_path, how, damage):
    """Never values that differ from zarr's; one line of error where zarr fails."""
    made(tmp_path / "a.zarr", **how)
    chunk = tmp_path / "a.zarr" / ("1.1.1" if "zarr_format" in how else "c/1/1/1")
    stored = chunk.read_bytes()
    chunk.write_bytes(
        {"cut": stored[:-9], "longer": stored + b"12345678", "nonsense": b"\xff" * 40, "empty": b""}[damage]
    )
    try:
        expected = zarr.open_array(str(tmp_path / "a.zarr"), mode="r")[...]
    except Exception:
        expected = None
    status = commands.main(["import", str(tmp_path / "a.zarr"), str(tmp_path / "a.dry")])
    assert (status == 0) == (expected is not None)
    if expected is not None:
        with dry.open(tmp_path / "a.dry") as c:
            np.testing.assert_array_equal(c["a"].read(), expected)


def test_a_damaged_chunk_is_one_line(tmp_path, capsys):
    made(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/c/1/1/1").write_bytes(b"nonsense")
    assert commands.main(["import", str(tmp_path / "a.zarr"), str(tmp_path / "a.dry")]) == 4
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "a cannot be read" in said
    assert not (tmp_path / "a.dry").exists()
