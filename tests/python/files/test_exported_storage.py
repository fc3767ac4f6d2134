"""Compression and chunk shapes of exported HDF5 and netCDF files.

Symptom: a packed, compressed netCDF file that was imported and exported again was larger, with other chunks, and no
option changed that.
"""

import numpy as np
import pytest
from command_line import drystone
from same_bits import commits_by_itself

h5py = pytest.importorskip("h5py")
netCDF4 = pytest.importorskip("netCDF4")

SMOOTH = np.add.outer(np.arange(64), np.arange(48)).astype("f4")


@pytest.fixture
def filled(container):
    container.create_variable("T", "f4", (64, 48), dims=("y", "x"), steps=True)
    container.create_variable("m", "i4", (64, 48), dims=("y", "x"))
    container.create_variable("cut", "f8", (40,), dims=("n",), chunks=(10,))
    container.create_variable("s", "str", (3,), dims=("k",))
    container.create_variable("nothing", "f4", (0,), dims=("z",))
    container.create_variable("one", "f4", ())
    container["m"][...] = SMOOTH.astype("i4")
    container["cut"][...] = np.arange(40)
    container["s"][...] = ["a", "b", "c"]
    container["one"][...] = 5
    with commits_by_itself(container) as w:
        for step in range(4):
            with w.step(step):
                w.put("T", SMOOTH + step)
    container.commit()
    return container


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_an_export_is_compressed_in_the_chunks_asked_for(filled, tmp_path, suffix):
    plain, packed = tmp_path / f"plain.{suffix}", tmp_path / f"packed.{suffix}"
    drystone("export", filled.path, plain)
    drystone("export", filled.path, packed, "--compression", 4, "--chunks", "16,24")
    assert packed.stat().st_size < plain.stat().st_size
    with h5py.File(packed) as file:
        for name in ("T", "m"):
            assert (file[name].compression, file[name].compression_opts, file[name].shuffle) == (
                "gzip",
                4,
                True,
            )
            assert file[name].chunks[-2:] == (16, 24)
        assert file["cut"].chunks == (10,)
        assert file["T"][...].tolist() == [(SMOOTH + step).tolist() for step in range(4)]
        assert (file["m"][...] == SMOOTH).all()
        assert file["one"][()] == 5
        assert file["s"].asstr()[...].tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_chunks_by_variable_need_no_compression(filled, tmp_path, suffix):
    file = tmp_path / f"a.{suffix}"
    drystone("export", filled.path, file, "--chunks", "m=8,48", "--chunks", "T=64,12")
    with h5py.File(file) as f:
        assert f["m"].chunks == (8, 48)
        assert f["m"].compression is None
        assert f["T"].chunks[-2:] == (64, 12)
        assert (f["m"][...] == SMOOTH).all()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a.h5", "--chunks", "m=8"], "has 2 dimensions besides steps"),
        (["a.h5", "--chunks", "0,4"], "at least 1"),
        (["a.h5", "--chunks", "1,2,3,4"], "as many"),
        (["a.nc", "--chunks", "u=8"], 'names "u", which is not exported'),
        (["a.npy", "m", "--compression", "3"], "are for .h5, .nc and .zarr"),
        (["a.h5", "--compression", "11"], "'11'"),
    ],
)
def test_what_fits_nothing_is_refused_before_a_file_is_made(filled, tmp_path, words, why):
    said = drystone("export", filled.path, tmp_path / words[0], *words[1:], code=2)
    assert why in said
    assert not (tmp_path / words[0]).exists()
