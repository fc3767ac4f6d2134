"""Queries by the index of a variable stored in bins: the same answers, and few bytes."""

import drystone as dry
import numpy as np
import pytest

SHAPES = [(9_000,), (14, 20, 30)]


def values(rng, dtype, shape):
    if np.dtype(dtype).kind == "f":
        array = rng.gamma(1.5, 1.0, shape).astype(dtype)
        array[rng.random(shape) < 0.02] = np.nan
        array[rng.random(shape) < 0.02] = -0.0
        array[rng.random(shape) < 0.01] = np.inf
        array[rng.random(shape) < 0.01] = -np.inf
        return array
    return rng.integers(-500 if np.dtype(dtype).kind == "i" else 0, 500, shape).astype(dtype)


@pytest.mark.parametrize("codec", ["alacrity", "alacrity:bits=13", "alacrity:data=1", "mloc"])
@pytest.mark.parametrize("dtype", ["f4", "i2"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ranges_are_found_by_the_index(tmp_path, codec, dtype, shape):
    rng = np.random.default_rng(len(codec) + len(shape))
    array = values(rng, dtype, shape)
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("v", dtype, shape, transform=codec)
        c["v"][...] = array
        # A region is written again: the hidden part of the older block is not found.
        again = tuple(slice(n // 4, n // 2) for n in shape)
        array[again] = values(rng, dtype, array[again].shape)
        c["v"][again] = array[again]
        part = tuple(slice(3, None, 2) for _ in shape)
        with np.errstate(invalid="ignore"):
            for text, hits in [
                ("v > 6", array > 6),
                ("v >= 0", array >= 0),
                ("v > 0", array > 0),
                ("v == 0", array == 0),
                ("v < 0", array < 0),
                ("0 < v & v <= 2", (array > 0) & (array <= 2)),
                ("v > 7 & v < 3", np.zeros(shape, bool)),
                ("v <= 100000", array <= 100000),
                ("v != 0", array != 0),
                ("~(v > 2)", ~(array > 2)),
            ]:
                for selection in (None, part) if text in ("v >= 0", "v > 6") else (None,):
                    q = c.query(text, selection)
                    key = selection or (slice(None),) * len(shape)
                    chosen = np.zeros(shape, bool)
                    chosen[key] = True
                    assert q.count() == np.count_nonzero(hits & chosen), (text, selection)
                    assert np.array_equal(q.coords(), np.argwhere(hits & chosen)), (text, selection)
                    assert np.array_equal(q.mask(), hits[key]), (text, selection)


def test_few_hits_take_few_bytes(tmp_path):
    energies = np.random.default_rng(1).gamma(1.5, 1.0, 1 << 19).astype("f4")
    least = np.sort(energies)[-500]
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("raw", "f4", energies.shape, chunks=(1 << 18,))
        c.create_variable("bins", "f4", energies.shape, chunks=(1 << 18,), index="bins")
        c["raw"][:] = energies
        c["bins"][:] = energies
        text = f"{{}} >= {float(least)!r}"
        scan, found = c.query(text.format("raw")), c.query(text.format("bins"))
        assert scan.count() == found.count() == 500
        found.count()
        assert scan.report.bytes >= energies.nbytes
        assert found.report.bytes * 10 < energies.nbytes
        # Bins that lie completely in the range are counted without reading their lists.
        half = c.query(f"bins >= {float(np.median(energies))!r}")
        assert half.count() >= len(energies) // 2
        assert half.report.bytes * 4 < energies.nbytes


def test_an_index_is_asked_for_when_a_variable_is_made(tmp_path):
    with dry.create(tmp_path / "a.dry") as c:
        assert c.create_variable("v", "f4", (8,), index="bins").transform == "alacrity:bits=13"
        assert c.create_variable("w", "f4", (8,), index="zones", transform="zstd:1").transform == "zstd:1"
        with pytest.raises(dry.InvalidArgumentError, match="in place of a transform"):
            c.create_variable("x", "f4", (8,), index="bins", transform="zstd:1")
        with pytest.raises(dry.InvalidArgumentError, match="zones"):
            c.create_variable("x", "f4", (8,), index="tree")


def test_a_condition_with_an_index_comes_first_and_explain_bounds_the_bytes(tmp_path):
    rng, n = np.random.default_rng(0), 1 << 18
    a, b = rng.random(n, "f4"), rng.random(n, "f4")
    with dry.create(tmp_path / "run.dry") as c:
        for name, values, index in (("e", a, "bins"), ("x", b, None), ("xb", b, "bins")):
            c.create_variable(name, "f4", (n,), dims=("i",), chunks=(1 << 17,), index=index)
            c[name][...] = values
        alone = c.query("e > 0.9999")
        alone.count()
        for text, wanted, most in (
            ("e > 0.9999 & x < 0.5", (a > np.float32(0.9999)) & (b < 0.5), 0.6),
            ("e > 0.9999 & i < 200000", (a > np.float32(0.9999)) & (np.arange(n) < 200000), 0.2),
            ("e > 0.9999 & xb < 0.5", (a > np.float32(0.9999)) & (b < 0.5), 0.8),
        ):
            q = c.query(text)
            assert q.count() == wanted.sum(), text
            assert q.report.bytes < most * a.nbytes, (text, q.report.bytes)
            assert np.array_equal(q.coords()[:, 0], np.flatnonzero(wanted)), text
            assert "index of values in 2 tiles" in str(q.explain)


def test_small_subchunks_are_read_once_and_explain_says_how_much(tmp_path):
    values = np.random.default_rng(0).normal(size=(400, 400)).astype("f4")
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("p", "f4", values.shape, dims=("y", "x"), chunks=(8, 8))
        c["p"][...] = values
        for text in ("p > 1", "p > 3.5"):
            q = c.query(text)
            assert q.count() == (values > float(text[4:])).sum()
            assert q.report.bytes <= 1.2 * values.nbytes
            assert f"at most {q.report.bytes} bytes in" in str(q.explain), text
