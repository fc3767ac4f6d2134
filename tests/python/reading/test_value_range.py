"""Range searches find the same cells as NumPy, by index or by scan."""

import drystone as dry
import numpy as np
import pytest


def expected(values, low, high):
    with np.errstate(invalid="ignore"):
        return np.argwhere((values >= low) & (values <= high))


@pytest.mark.parametrize("transform", ["alacrity", "alacrity:bits=10,data=1", "aplod", "zstd:1", None])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u8"])
def test_a_range_of_values_is_found_in_overlapping_and_cut_blocks(tmp_path, transform, dtype):
    rng = np.random.default_rng(7)
    z, y, x = np.meshgrid(*(np.linspace(0, 4, n) for n in (24, 30, 40)), indexing="ij")
    values = ((np.sin(z + y) * np.cos(x) + 1.5) * 100).astype(dtype)
    newer = (rng.random((10, 12, 40)) * 300).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values[::5, ::7, ::3] = np.nan
        newer[0, 0, :4] = [np.inf, -np.inf, -0.0, 0.0]
    with dry.create(tmp_path / "c.dry") as c:
        T = c.create_variable(
            "t", dtype=dtype, shape=values.shape, steps=True, transform=transform, chunks=(12, 30, 25)
        )
        with c.writer(rank=0, nranks=1) as w:
            with w.step():
                w.put("t", values)
                w.put("t", newer, offset=(3, 9, 0))
            with w.step():
                w.put("t", values[:5])
        whole = values.copy()
        whole[3:13, 9:21] = newer
        for low, high in [
            (120, 121),
            (0, 0),
            (-1e9, 1e9),
            (249.5, 260),
            (400, 500),
            (200, 100),
            (120, float("inf")),
        ]:
            found = T.value_range(low, high, step=0)
            cells = expected(whole, low, high)
            assert np.array_equal(found.coords, cells), (low, high)
            assert np.array_equal(found.values, whole[tuple(cells.T)])
        first = T.value_range(100, 150, step=1)
        assert np.array_equal(first.coords, expected(values[:5], 100, 150))


def test_an_index_reads_less_than_a_scan(tmp_path):
    values = np.sin(np.linspace(0, 30, 400_000)) * 100
    read = {}
    for transform in ("alacrity", "shuffle,zstd:1"):
        with dry.create(tmp_path / transform.replace(":", "")) as c:
            T = c.create_variable("t", "f8", shape=values.shape, transform=transform)
            with c.writer() as w:
                w.put("t", values)
            found = T.value_range(50.0, 50.2)
            assert np.array_equal(found.coords[:, 0], np.flatnonzero((values >= 50.0) & (values <= 50.2)))
            read[transform] = found.read_bytes
            assert np.array_equal(T[:], values)
            assert np.array_equal(T[1000:1010], values[1000:1010])
    assert read["alacrity"] < read["shuffle,zstd:1"] / 5


def test_what_has_no_order_is_refused(tmp_path):
    with dry.create(tmp_path / "c.dry") as c:
        C = c.create_variable("c", "c8", shape=(3,))
        R = c.create_variable("r", [("a", "f4"), ("b", "i4")], shape=(3,))
        S = c.create_variable("s", "f4", shape=(3,), steps=True)
        with c.writer() as w:
            w.put("r", np.array([(1.5, 3), (2.5, 4), (9.0, 5)], dtype=R.dtype))
        for bad in (C, R):
            with pytest.raises(dry.InvalidArgumentError, match="no single real numbers"):
                bad.value_range(0, 1)
        with pytest.raises(dry.InvalidArgumentError, match="NaN"):
            R["a"].value_range(float("nan"), 1)
        with pytest.raises(dry.InvalidArgumentError):
            S.value_range(0, 1)
        found = R["a"].value_range(2, 9)
        assert found.coords.tolist() == [[1], [2]]
        assert found.values.tolist() == [2.5, 9.0]
        assert R["b"].value_range(4, 4.9).values.tolist() == [4]
