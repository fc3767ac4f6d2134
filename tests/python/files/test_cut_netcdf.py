"""Classic netCDF files that are cut short.

Symptom: netCDF reads what is missing as zeros, and the import of a cut file succeeded with these zeros as values.
"""

import drystone as dry
import numpy as np
import pytest
from drystone.errors import CorruptError
from drystone.interchange.formats.classic_netcdf import require_whole

netCDF4 = pytest.importorskip("netCDF4")

KINDS = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
VALUES = np.arange(1.0, 2001.0)


def written(path, kind, records, names=("v", "u"), dtype="f8"):
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.title = "a file"
        file.createDimension("t", None if records else len(VALUES))
        for name in names:
            variable = file.createVariable(name, dtype, ("t",))
            variable.units = "K"
            variable[:] = VALUES
    return path.read_bytes()


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_file_is_refused_with_its_size(tmp_path, path, kind, records):
    whole = written(tmp_path / "whole.nc", kind, records)
    cut = tmp_path / "cut.nc"
    for left in (len(whole) // 2, len(whole) - 1024, len(whole) - 4, 100, 9):
        cut.write_bytes(whole[:left])
        with pytest.raises(CorruptError, match=f"cut.nc is cut short: it has {left} bytes"):
            dry.import_file(cut, path)
        assert not path.exists()


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_file_is_imported(tmp_path, path, kind, records):
    written(tmp_path / "whole.nc", kind, records)
    assert dry.import_file(tmp_path / "whole.nc", path).lost == []
    with dry.open(path) as c:
        assert (c["v"][...] == VALUES).all()
        assert (c["u"][...] == VALUES).all()


@pytest.mark.parametrize("names", [(), ("v",), ("v", "u"), ("v", "u", "w")])
@pytest.mark.parametrize("dtype", ["i1", "i2", "f4"])
@pytest.mark.parametrize("kind", KINDS)
def test_records_are_padded_unless_one_variable_has_them(tmp_path, kind, names, dtype):
    """Odd sizes: the length must be right to the bytes of padding, which may be missing."""
    path = tmp_path / "odd.nc"
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.createDimension("t", None)
        file.createDimension("n", 3)
        for name in names:
            file.createVariable(name, dtype, ("t", "n"))[:] = np.ones((5, 3))
    whole = path.read_bytes()
    require_whole(path)
    path.write_bytes(whole[:-7])
    with pytest.raises(CorruptError):
        require_whole(path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_records_may_be_unknown(tmp_path, kind):
    """A program that streams records writes all ones for their number."""
    whole = written(tmp_path / "whole.nc", kind, records=True)
    size = 8 if kind == "NETCDF3_64BIT_DATA" else 4
    (tmp_path / "streamed.nc").write_bytes(whole[:4] + b"\xff" * size + whole[4 + size : -4096])
    require_whole(tmp_path / "streamed.nc")


@pytest.mark.parametrize("kind", KINDS)
def test_no_damaged_header_is_more_than_an_error(tmp_path, kind):
    """Bits of a header are flipped one by one: the check ends, with or without CorruptError."""
    whole = bytearray(written(tmp_path / "whole.nc", kind, records=True))
    path = tmp_path / "flipped.nc"
    for bit in range(0, 8 * 300, 19):
        whole[bit // 8] ^= 1 << bit % 8
        path.write_bytes(whole[:4096])
        try:
            require_whole(path)
        except CorruptError as error:
            assert "flipped.nc is cut short" in str(error)  # noqa: PT017
        whole[bit // 8] ^= 1 << bit % 8
