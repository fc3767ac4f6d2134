"""zarr-python writes and reads arrays whose chunks are Drystone's subchunks."""

import json

import drystone as dry
import numpy as np
import pytest

zarr = pytest.importorskip("zarr")

from drystone.zarr_codec import DrystoneCodec  # noqa: E402


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
