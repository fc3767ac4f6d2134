"""Records whose members are arrays, in formats that have no type for them."""

import drystone as dry
import netCDF4
import numpy as np
import pytest
import zarr

INNER = [("q", "i2", (3,)), ("z", "f4")]
EVENT = np.dtype([("a", "i4"), ("p", "f8", (2,)), ("in", INNER, (2,)), ("when", "M8[s]")])


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("fill", [None, 1])
@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_members_that_are_arrays_are_exported(tmp_path, suffix, fill):
    """Symptom: zarr raised TypeError, netCDF4 ValueError, and nothing of the container was exported."""
    values = np.zeros(4, EVENT)
    rng = np.random.default_rng(3)
    values["a"], values["p"] = rng.integers(100, size=4), rng.normal(size=(4, 2))
    values["in"]["q"], values["in"]["z"] = rng.integers(100, size=(4, 2, 3)), rng.normal(size=(4, 2))
    values["when"] = np.arange(4)
    with dry.create(tmp_path / "a.dry") as c:
        options = {} if fill is None else {"fill_value": np.ones((), EVENT)}
        c.create_variable("v", EVENT, (4,), dims=("x",), **options)[...] = values
        report = dry.export(c, tmp_path / f"out.{suffix}")
    assert not report.lost
    expected = {"v.a": values["a"], "v.p": values["p"], "v.when": values["when"]}
    expected |= {f"v.in[{n}].{name}": values["in"][name][:, n] for n in (0, 1) for name in ("q", "z")}
    if suffix == "zarr":
        found = {
            name: array[...] for name, array in zarr.open_group(tmp_path / "out.zarr", mode="r").arrays()
        }
    else:
        with netCDF4.Dataset(tmp_path / "out.nc") as file:
            found = {name: np.asarray(v[...]) for name, v in file.variables.items()}
        expected["v.when"] = expected["v.when"].astype("i8")
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
