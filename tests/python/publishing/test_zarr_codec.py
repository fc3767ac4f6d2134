"""zarr-python writes and reads arrays whose chunks are Drystone's subchunks."""

import json

import drystone as dry
import numpy as np
import pytest

zarr = pytest.importorskip("zarr")

from drystone.zarr_codec import (  # noqa: E402
    Alacrity,
    Aplod,
    DrystoneCodec,
    Isobar,
    Mloc,
    Multilevel,
    Szip,
    Zfp,
)


@pytest.mark.parametrize("dtype", ["?", "i2", "u8", "f4", "f8", "c16"])
@pytest.mark.parametrize(
    "transform", ["shuffle,zstd:1", "lorenzo,bitshuffle,lz4", "blosc:zstd:3:bitshuffle", "isobar"]
)
def test_an_array_with_a_drystone_codec_opens_in_zarr_by_its_name(tmp_path, dtype, transform):
    array = (np.random.default_rng(3).normal(size=(30, 41)) * 40).astype(dtype)
    made = zarr.create_array(
        tmp_path / "a.zarr",
        shape=array.shape,
        dtype=array.dtype,
        chunks=(16, 16),
        serializer=DrystoneCodec(transform),
        compressors=None,
    )
    made[...] = array
    described = json.loads((tmp_path / "a.zarr/zarr.json").read_text())
    assert described["codecs"][0] == {
        "name": "drystone",
        "configuration": {"transform": DrystoneCodec(transform).transform},
    }
    opened = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert opened[...].tobytes() == array.tobytes()
    assert opened[3:20, 7].tobytes() == array[3:20, 7].tobytes()


def test_a_damaged_chunk_is_an_error(tmp_path):
    array = zarr.create_array(
        tmp_path / "a.zarr",
        shape=(100,),
        dtype="f8",
        chunks=(100,),
        serializer=DrystoneCodec("pcodec"),
        compressors=None,
    )
    array[...] = np.arange(100)
    chunk = tmp_path / "a.zarr/c/0"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(dry.CorruptError, match="decoding with pcodec"):
        zarr.open_array(tmp_path / "a.zarr", mode="r")[...]


def test_a_transform_that_does_not_exist_is_refused_at_once():
    with pytest.raises(dry.InvalidArgumentError, match="did you mean"):
        DrystoneCodec("zsdt:3")


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        (Isobar(), "isobar:3"),
        (Isobar(level=6, solver="zlib", order="row"), 'isobar:6,solver="zlib",order="row"'),
        (Aplod(), "aplod"),
        (Aplod(components=[1, 3, 4], level=3), "aplod:1,3,4,level=3"),
        (Alacrity(bits=8, data=1), "alacrity:bits=8,data=1"),
        (Multilevel(), "multilevel:3"),
        (Mloc(order="S:8,P:2.6"), 'mloc:order="S:8,P:2.6"'),
        (Szip(block=16, coding="ec"), 'szip:16,"ec"'),
        (Zfp(), "zfp"),
        (Zfp(tolerance=0.001), "zfp:tolerance=0.001"),
    ],
)
def test_what_a_container_holds_opens_in_zarr_chunk_by_chunk(tmp_path, codec, text):
    z, y, x = np.meshgrid(*[np.linspace(0, 3, n) for n in (16, 24, 20)], indexing="ij")
    array = np.sin(z + y) * np.cos(x) * 40
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("v", "f8", array.shape, transform=text, chunks=array.shape)
        with c.writer() as w:
            w.put("v", array)
        expected = c["v"][:]
        [block] = c["v"].blocks()
        assert block.transform == text
        name, at, nbytes = block.place
        segment = (tmp_path / "c.dry" / name).read_bytes()
    made = zarr.create_array(
        tmp_path / "a.zarr",
        shape=array.shape,
        dtype="f8",
        chunks=array.shape,
        serializer=codec,
        compressors=None,
    )
    stored = segment[at : at + nbytes][: block.nbytes]
    (tmp_path / "a.zarr/c/0/0").mkdir(parents=True)
    (tmp_path / "a.zarr/c/0/0/0").write_bytes(stored)
    described = json.loads((tmp_path / "a.zarr/zarr.json").read_text())["codecs"][0]
    assert described == {"name": f"drystone.{codec.codec}", "configuration": codec.parameters}
    opened = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert opened[...].tobytes() == expected.tobytes()
    # The bytes that zarr-python writes are those in the container.
    made[...] = array
    assert (tmp_path / "a.zarr/c/0/0/0").read_bytes() == stored


def test_no_name_that_others_use_is_taken():
    from importlib.metadata import distribution

    ours = {point.name for point in distribution("drystone").entry_points if point.group == "zarr.codecs"}
    assert ours == {"drystone"} | {
        f"drystone.{name}" for name in ("alacrity", "aplod", "isobar", "mloc", "multilevel", "szip", "zfp")
    }
