"""Codecs in the engine: values are preserved, partial reads cost less, statistics tell what is read, `auto` explains
itself."""

import itertools

import drystone as dry
import numpy as np
import pytest

LOSSLESS = [
    "lz4",
    "zlib:1",
    "gzip",
    "bzip2",
    "szip",
    "blosc",
    "blosc:zstd:1:bitshuffle",
    "bitshuffle,zstd:1",
    "delta,shuffle,lz4",
    "shuffle,bytedelta,zstd:1",
    "lorenzo,shuffle,zstd:1",
    "auto",
]
DTYPES = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "S5", "U3"]


def field(dtype, shape, rng):
    dtype = np.dtype(dtype)
    if dtype.kind in "SU":
        return rng.integers(0, 99999, shape).astype(dtype)
    wave = np.add.outer(*(np.sin(np.arange(n) / 9) for n in (np.prod(shape[:-1]), shape[-1]))).reshape(shape)
    if dtype.kind == "c":
        return (wave + 1j * rng.random(shape)).astype(dtype)
    if dtype.kind == "f":
        noisy = (wave + rng.random(shape) * 1e-3).astype(dtype)
        noisy.reshape(-1)[::97] = [np.nan, np.inf, -0.0][np.prod(shape) % 3]
        return noisy
    return (wave > 0) if dtype.kind == "b" else (wave * 50 + 100).astype(dtype)


def test_every_codec_gives_every_dtype_back_whole_and_in_parts(tmp_path):
    rng = np.random.default_rng(7)
    shape = (6, 40, 50)
    arrays = {dtype: field(dtype, shape, rng) for dtype in DTYPES}
    with dry.create(tmp_path / "c.dry") as c:
        with c.batch():
            for (i, transform), dtype in itertools.product(enumerate(LOSSLESS), DTYPES):
                c.create_variable(
                    f"v{i}{dtype[0]}{dtype[1:]}".replace("?", "b"), dtype, shape, transform=transform
                )
        with c.writer() as w:
            for (i, _), dtype in itertools.product(enumerate(LOSSLESS), DTYPES):
                w.put(f"v{i}{dtype[0]}{dtype[1:]}".replace("?", "b"), arrays[dtype])
    c = dry.open(tmp_path / "c.dry")
    for (i, transform), dtype in itertools.product(enumerate(LOSSLESS), DTYPES):
        variable = c[f"v{i}{dtype[0]}{dtype[1:]}".replace("?", "b")]
        for key in np.s_[:], np.s_[2, ::3, 5:9], np.s_[-1, 7, 49]:
            found, expected = variable[key], arrays[dtype][key]
            assert np.asarray(found).tobytes() == np.asarray(expected).tobytes(), (transform, dtype, key)


@pytest.mark.parametrize("dtype", ["i2", "u4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_pcodec_knows_from_the_variable_what_the_numbers_are(tmp_path, dtype):
    array = field(dtype, (5, 30, 40), np.random.default_rng(8))
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("x", dtype, array.shape, transform="pcodec")
        with c.writer() as w:
            w.put("x", array)
        assert c["x"][:].tobytes() == array.tobytes()
        assert c["x"].blocks()[0].transform == "pcodec:8"


def test_a_transform_that_cannot_take_the_type_is_refused_when_the_variable_is_created(tmp_path):
    with dry.create(tmp_path / "c.dry") as c:
        for dtype, transform in [
            ("?", "pcodec"),
            ("S4", "pcodec"),
            ("i4", "bitround:3"),
            ([("a", "f4"), ("b", "?")], "pcodec"),
        ]:
            with pytest.raises(dry.InvalidArgumentError, match="transform"):
                c.create_variable("x", dtype, (3,), transform=transform)
        assert "x" not in c.variables


def test_statistics_of_rounded_data_are_those_of_what_is_read(tmp_path):
    array = np.random.default_rng(9).normal(size=(40, 50)).astype("f4")
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("x", "f4", array.shape, transform="bitround:2,shuffle,zstd:1")
        with c.writer() as w:
            w.put("x", array)
        read = c["x"][:]
        (block,) = c["x"].blocks()
        assert (block.min, block.max) == (read.min(), read.max())
        assert (read != array).any()
        assert (np.abs(read - array) <= np.abs(array) * 2.0**-3).all()


def test_a_part_of_a_blosc_subchunk_costs_its_blocks(tmp_path):
    array = np.arange(512 * 512, dtype="i4").reshape(512, 512)
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("x", "i4", array.shape, transform="blosc:lz4:5:shuffle,blocksize=16384")
        with c.writer(layout="log") as w:
            w.put("x", array)
        (block,) = c["x"].blocks()
        out = c["x"].read(offset=(100, 0), count=(4, 512))
        assert (out == array[100:104]).all()
        assert c["x"].explain[100:104].read_bytes < block.nbytes / 4


def test_zarr_codec_objects_are_taken(tmp_path):
    codecs = [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {
            "name": "blosc",
            "configuration": {
                "cname": "zstd",
                "clevel": 3,
                "shuffle": "shuffle",
                "typesize": 4,
                "blocksize": 0,
            },
        },
    ]
    with dry.create(tmp_path / "c.dry") as c:
        x = c.create_variable("x", "f4", (10,), transform=codecs)
        assert x.transform == 'blosc:"zstd",3,"shuffle",typesize=4'


def test_auto_chooses_by_the_data_explains_it_and_is_never_larger_than_raw(tmp_path):
    rng = np.random.default_rng(10)
    noise = np.frombuffer(rng.bytes(320_000), "f8").reshape(200, 200)
    smooth = np.add.outer(np.sin(np.arange(200) / 30), np.cos(np.arange(200) / 40))
    record = np.zeros((200, 200), [("a", "f8"), ("b", "i4")])
    record["a"] = noise
    with dry.create(tmp_path / "c.dry") as c:
        for name, dtype in ("noise", "f8"), ("smooth", "f8"), ("record", record.dtype):
            c.create_variable(name, dtype, (200, 200), transform="auto:size")
        c.create_variable("names", str, (3,), transform="auto")
        with c.writer() as w:
            w.put("noise", noise)
            w.put("smooth", smooth)
            w.put("record", record)
            w.put("names", ["a", "b", "c"])
            choices = w.choices()
        assert sorted(choices) == ["noise", "record.a", "record.b", "smooth"]
        assert choices["noise"].transform == "identity"
        report = str(choices["smooth"])
        assert "fewest bytes" in report
        assert f"* {choices['smooth'].transform}" in report
        assert c["noise"].transform == 'auto:"size"'
        (block,) = c["noise"].blocks()
        assert block.transform is None
        assert block.nbytes <= 1.02 * noise.nbytes
        (block,) = c["smooth"].blocks()
        assert block.transform == choices["smooth"].transform
        assert block.nbytes < 0.8 * smooth.nbytes
        for name, array in ("noise", noise), ("smooth", smooth), ("record", record):
            assert c[name][:].tobytes() == array.tobytes()
        assert list(c["names"][:]) == ["a", "b", "c"]
