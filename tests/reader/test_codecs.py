"""The vectors of the codecs, read by the plain-Python codecs and by the libraries that others use."""

import bz2
import gzip
import json
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

import drystone_codecs as codecs

VECTORS = Path(__file__).parent.parent / "vectors" / "codecs"
ALL = sorted(path.stem for path in VECTORS.glob("*.bin"))


def vector(name):
    described = json.loads((VECTORS / f"{name}.json").read_text())
    return (VECTORS / f"{name}.bin").read_bytes(), described, bytes.fromhex(described["decoded"])


# What the plain-Python codecs leave out, and frames of other writers that are not written here.
LEFT_OUT = ("szip", "pcodec", "_split", "lz4hc", "multilevel", "zfp")


@pytest.mark.parametrize("name", [n for n in ALL if not any(part in n for part in LEFT_OUT)])
def test_plain_python_decodes_a_vector(name):
    stored, described, expected = vector(name)
    assert stored[0] == 0x1F
    found = codecs.decode_coded(described["chain"], stored[1:], len(expected), described["item"], described["scalar"])
    assert found == expected


@pytest.mark.parametrize(
    ("name", "decode"),
    [("zlib_f4", zlib.decompress), ("gzip_f8", gzip.decompress), ("bzip2_i4", bz2.decompress)],
)
def test_the_standard_library_decodes_a_vector(name, decode):
    stored, _, expected = vector(f"v1_{name}")
    assert decode(stored[1:]) == expected


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("lz4_i4", "lz4"),
        ("zlib_f4", "zlib"),
        ("gzip_f8", "gzip"),
        ("bzip2_i4", "bz2"),
        ("blosc_lz4_f4", "blosc"),
        ("blosc_zstd_bits_f8", "blosc"),
        ("blosc_zlib_i4", "blosc"),
        ("pcodec_f4", "pcodec"),
        ("pcodec_f8", "pcodec"),
        ("pcodec_i8", "pcodec"),
    ],
)
def test_numcodecs_decodes_a_vector(name, codec):
    numcodecs = pytest.importorskip("numcodecs")
    if codec == "pcodec":
        pytest.importorskip("pcodec")
    stored, _, expected = vector(f"v1_{name}")
    decoded = numcodecs.get_codec({"id": codec}).decode(stored[1:])
    assert np.asarray(decoded).tobytes() == expected


SZIP = h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP)


@pytest.mark.skipif(not SZIP, reason="this HDF5 was built without szip")
@pytest.mark.parametrize("name", [n for n in ALL if n.startswith("v1_szip")])
def test_hdf5_reads_an_szip_vector_as_its_chunk(name, tmp_path):
    stored, described, expected = vector(name)
    dtype = {"f4": "<f4", "f8": "<f8", "i2": "<i2", "u1": "|u1"}[name.split("_")[2]]
    shape = tuple(described["shape"])
    block, *coding = described["chain"].removeprefix("szip:").replace('"', "").split(",")
    options = {"chunks": shape, "compression": "szip", "compression_opts": (*(coding or ["nn"]), int(block))}
    with h5py.File(tmp_path / "szip.h5", "w") as file:
        ours = file.create_dataset("ours", shape, dtype, **options)
        ours.id.write_direct_chunk((0,) * len(shape), stored[1:])
    with h5py.File(tmp_path / "szip.h5") as file:
        assert file["ours"][...].tobytes() == expected


@pytest.mark.parametrize("acceleration", [1, 2, 5, 9, 65537])
def test_numcodecs_decodes_our_lz4_blocks(acceleration):
    numcodecs = pytest.importorskip("numcodecs")
    from drystone import _core

    chain = "lz4" if acceleration == 1 else f"lz4:acceleration={acceleration}"
    rng = np.random.default_rng(3)
    coded = 0
    for n in [*range(1, 80), 1000, 4095, 4097, 65535, 65537, 200_000]:
        noise = rng.integers(0, 256, n).astype("u1")
        for data in (np.zeros(n, "u1"), np.arange(n, dtype="u1") % 7, noise % 4, noise, np.repeat(noise, 9)[:n]):
            stored = _core.encode_subchunk(chain, np.uint8, (n,), data)
            if stored[0] == 0x1F:  # else it lies as it is
                assert bytes(numcodecs.LZ4().decode(stored[1:])) == data.tobytes()
                coded += 1
    assert coded > 50
