"""Reads a published hierarchy with this interpreter's packages, and compares it with arrays in files beside it.

test_publish_readers.py runs it, also with interpreters without Drystone: `python foreign_reader.py READER HIERARCHY
EXPECTED`. Prints how many arrays were compared.
"""

import sys
from pathlib import Path

import numpy as np


def by_zarr(path, name):
    import zarr

    return zarr.open_group(path, mode="r")[name][...]


def by_zarrs(path, name):
    import zarr

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    array = zarr.open_group(path, mode="r")[name]
    assert (
        "Zarrs"
        in type(
            array.async_array.codec_pipeline
            if hasattr(array, "async_array")
            else array._async_array.codec_pipeline
        ).__name__
    )
    return array[...]


def by_xarray(path, name):
    import xarray as xr

    with xr.open_zarr(path, consolidated=True, mask_and_scale=False, decode_cf=False) as dataset:
        return dataset[name].values


def by_tensorstore(path, name):
    import tensorstore as ts

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(Path(path) / name)}}
    return np.asarray(ts.open(spec, open=True, read=True).result().read().result())


READERS = {"zarr": by_zarr, "zarrs": by_zarrs, "xarray": by_xarray, "tensorstore": by_tensorstore}


def compare(reader, path, expected):
    """Compare every array bit for bit; returns their number."""
    many = 0
    with np.load(expected) as arrays:
        for name, wanted in arrays.items():
            found = np.ascontiguousarray(READERS[reader](path, name))
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), name
            assert found.tobytes() == np.ascontiguousarray(wanted).tobytes(), name
            many += 1
    return many


if __name__ == "__main__":
    print(compare(*sys.argv[1:4]))
