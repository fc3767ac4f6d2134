"""Conditions on derived variables equal NumPy's, whatever is stored: with NaN, records, steps, neighbours, unwritten
cells."""

from __future__ import annotations

import drystone as dry
import numpy as np
import pytest

SHAPE = (3, 24, 20, 32)


def winds(rng: np.random.Generator, dtype: str, nan: bool) -> np.ndarray:
    """Smooth values with a few outliers, so that extremes exclude some zones but not all."""
    z, y, x = np.meshgrid(*(np.linspace(0, 3, n) for n in SHAPE[1:]), indexing="ij")
    out = np.stack([np.sin(z + s) + np.cos(2 * y) * np.sin(x + s) for s in range(SHAPE[0])])
    out[rng.random(SHAPE) < 2e-4] += 5
    if nan:
        out[rng.random(SHAPE) < 1e-3] = np.nan
    return out.astype(dtype)


def made(path, kind, form, nan):
    """A container with three winds, as variables or members of a record, and variables derived from them."""
    rng = np.random.default_rng(7)
    u, v, w = (winds(rng, "f4", nan) for _ in "uvw")
    dims = ("z", "y", "x")
    c = dry.create(path)
    if form == "record":
        dtype = np.dtype([("u", "f4"), ("v", "f4"), ("w", "f4")])
        c.create_variable("cell", dtype, SHAPE[1:], dims=dims, steps=True, chunks=(8, 8, 8))
        names = ("cell.u", "cell.v", "cell.w")
    else:
        chunks = {"u": (8, 8, 8), "v": (5, 20, 32), "w": (24, 4, 16)}
        for name in "uvw":
            c.create_variable(name, "f4", SHAPE[1:], dims=dims, steps=True, chunks=chunks[name])
        names = ("u", "v", "w")
    with c.writer(rank=0, nranks=1) as writer:
        for step in range(SHAPE[0]):
            with writer.step():
                if form == "record":
                    cells = np.empty(SHAPE[1:], dtype)
                    cells["u"], cells["v"], cells["w"] = u[step], v[step], w[step]
                    writer.put("cell", cells, offset=(0, 0, 0))
                else:
                    for name, values in zip("uvw", (u, v, w), strict=True):
                        writer.put(name, values[step], offset=(0, 0, 0))
    a, b, d = names
    c.derive("speed", f"sqrt({a}*{a} + {b}*{b} + {d}*{d})", kind=kind)
    c.derive("turn", f"diff({b}, x, 1) - diff({a}, y, 1)", kind=kind)
    if kind != "virtual":
        c.store_derived()
    speed = np.sqrt(u * u + v * v + w * w)
    turn = np.gradient(v, axis=3) - np.gradient(u, axis=2)
    return c, speed, turn


@pytest.mark.parametrize("kind", ["virtual", "bounds", "stored"])
@pytest.mark.parametrize("form", ["variables", "record"])
@pytest.mark.parametrize("nan", [False, True])
def test_they_are_what_numpy_says(tmp_path, kind, form, nan):
    c, speed, turn = made(tmp_path / "run.dry", kind, form, nan)
    with c:
        values = {"speed": speed, "turn": turn}
        assert np.array_equal(c["speed"][...], speed, equal_nan=True)
        assert np.array_equal(c["turn"][...], turn, equal_nan=True)
        for name, share in (("speed", 1e-4), ("speed", 0.3), ("turn", 1e-4), ("turn", 0.5)):
            known = np.sort(values[name][~np.isnan(values[name])])
            limit = float(known[int(len(known) * (1 - share))])
            for text, wanted in (
                (f"{name} > {limit!r}", values[name] > np.float32(limit)),
                (f"~({name} > {limit!r})", ~(values[name] > np.float32(limit))),
                (f"{name} <= {limit!r} & speed > 1", (values[name] <= np.float32(limit)) & (speed > 1)),
                (
                    f"isnan({name}) | {name} > {limit!r}",
                    np.isnan(values[name]) | (values[name] > np.float32(limit)),
                ),
            ):
                q = c.query(text)
                assert q.count() == wanted.sum(), text
                low, high = q.bounds().low, q.bounds().high
                assert low <= wanted.sum() <= high, text
                assert np.array_equal(q.coords(), np.argwhere(wanted)), text
                assert np.array_equal(q.values(name), values[name][wanted], equal_nan=True), text
            part = c.query(f"{name} > {limit!r}", selection=np.s_[3:20:2, ::-1, 5:31], steps=slice(1, 3))
            inside = values[name][1:3, 3:20:2, ::-1, 5:31] > np.float32(limit)
            assert np.array_equal(part.mask(), inside), name


@pytest.mark.parametrize("kind", ["virtual", "bounds", "stored"])
def test_statistics_decide_without_reading_values(tmp_path, kind):
    c, speed, _ = made(tmp_path / "run.dry", kind, "variables", False)
    with c:
        q = c.query(f"speed > {float(speed.max()) * 2!r}")
        assert (q.count(), q.report.bytes) == (0, 0)
        everywhere = c.query("speed >= 0")
        assert (everywhere.count(), everywhere.report.bytes) == (speed.size, 0)
        limit = float(np.sort(speed.ravel())[-3])
        few = c.query(f"speed >= {limit!r}")
        assert few.count() == 3
        # The extremes of a stored block are those of a step.
        excluded = {"virtual": 0.4, "bounds": 0.3, "stored": 0.0}[kind]
        assert few.report.none >= excluded * speed.size
        assert few.report.none + few.report.some == speed.size


@pytest.mark.parametrize("kind", ["virtual", "bounds", "stored"])
def test_a_newer_block_and_a_void_change_the_answer(tmp_path, kind):
    c, speed, _ = made(tmp_path / "run.dry", kind, "variables", False)
    with c:
        assert c.query("speed > 50").count() == 0
        with c.writer() as writer, writer.step(1):
            writer.put("u", np.full((2, 2, 2), 100, "f4"), offset=(3, 3, 3))
        c.commit()
        assert c.query("speed > 50").count() == 8
        assert np.array_equal(c.query("speed > 50").coords()[0], [1, 3, 3, 3])
        # A step in which only `u` exists: no value is known.
        with c.writer() as writer, writer.step(3):
            writer.put("u", np.full(SHAPE[1:], 100, "f4"), offset=(0, 0, 0))
        c.commit()
        assert c.query("speed > 50").count() == 8
        assert c.query("~(speed > 50)").count() == speed.size - 8


def test_a_value_of_a_scalar_reduction_is_found(tmp_path):
    """Bounds of one cell that may be NaN or unknown were taken for a cell without a number."""
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("u", "f4", (13, 7), dims=("y", "x"), steps=True)
        c["u"].append(np.ones((13, 7), "f4"))
        c.commit()
        c.derive("s", "sum(u)")
        for kind in ("virtual", "bounds", "stored"):
            c.derive(f"z{kind}", "s + 1", kind=kind)
            c.store_derived()
            assert c.query(f"z{kind} > 0").count() == 1, kind
            assert c.query(f"~(z{kind} > 0)").count() == 0, kind
