"""Guarantees of derived variables: NumPy's values, the same bits for any blocks, bounded memory, errors with names."""

import json

import drystone as dry
import numpy as np
import pytest
from command_line import drystone
from drystone import expr
from drystone.errors import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    UnsupportedError,
)

SHAPE = (12, 17, 23)


def flow(seed=0, shape=SHAPE):
    """Three components of a flow."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype("f4") for _ in range(3)]


def put_cut(w, name, values, cuts):
    """Put an array in blocks, with `cuts` along each axis."""
    edges = [np.linspace(0, n, k + 1).astype(int) for n, k in zip(values.shape, cuts, strict=True)]
    for place in np.ndindex(*cuts):
        lo = [int(e[i]) for e, i in zip(edges, place, strict=True)]
        hi = [int(e[i + 1]) for e, i in zip(edges, place, strict=True)]
        part = values[tuple(slice(a, b) for a, b in zip(lo, hi, strict=True))]
        if part.size:
            w.put(name, np.ascontiguousarray(part), offset=lo)


def make(path, cuts=(1, 1, 1), transform=None, steps=2, chunks=None):
    c = dry.create(path)
    for name in "uvw":
        c.create_variable(
            name, "f4", SHAPE, dims=("z", "y", "x"), steps=True, transform=transform, chunks=chunks
        )
    for name, n, by in zip("zyx", SHAPE, (0.5, 1.0, 0.25), strict=True):
        c.create_variable(name, data=by * np.arange(n) ** 1.1, dims=(name,))
    with c.writer(rank=0, nranks=1) as w:
        for step in range(steps):
            with w.step():
                for name, values in zip("uvw", flow(step), strict=True):
                    put_cut(w, name, values, cuts)
    return c


@pytest.fixture
def run(tmp_path):
    with make(tmp_path / "run.dry") as c:
        yield c


def test_it_reads_as_numpy_computes(run):
    u, v, w = flow(1)
    speed = run.derive("speed", "sqrt(u*u + v*v + w*w)")
    assert speed.dtype == "f4"
    assert speed.shape == (2, *SHAPE)
    assert speed.dims == ("z", "y", "x")
    assert speed.steps == [0, 1]
    expected = np.sqrt(u * u + v * v + w * w)
    assert np.array_equal(speed[1], expected)
    assert np.array_equal(run["speed"][-1, ::3, 4, 20:3:-2], expected[::3, 4, 20:3:-2])
    assert np.array_equal(
        run["speed"].oindex[1, [7, 2, 2], :, [1, 22]], expected[np.ix_([7, 2, 2], range(17), [1, 22])]
    )
    points = np.array([[1, 3, 4, 5], [0, 11, 16, 22], [1, 0, 0, 0]])
    assert np.array_equal(speed.read_points(points)[[0, 2]], expected[[3, 0], [4, 0], [5, 0]])
    assert np.array_equal(speed.read(step=1, offset=(1, 2, 3), count=(4, 5, 6)), expected[1:5, 2:7, 3:9])
    whole = np.zeros_like(expected)
    for place, part in speed.pieces(np.s_[1], 1 << 10):
        whole[place] = part
    assert np.array_equal(whole, expected)


def test_differences_are_those_of_numpy_gradient(run):
    u, v, w = (a.astype("f8") for a in flow(0))
    z, y, x = (run[name][...] for name in "zyx")
    run.derive("dudx", "diff(f8(u), x)")
    assert np.allclose(run["dudx"][0], np.gradient(u, x, axis=2), rtol=1e-12, atol=1e-12)
    run.derive("vorticity", "curl(f8(u), f8(v), f8(w))")
    expected = np.stack(
        [
            np.gradient(w, y, axis=1) - np.gradient(v, z, axis=0),
            np.gradient(u, z, axis=0) - np.gradient(w, x, axis=2),
            np.gradient(v, x, axis=2) - np.gradient(u, y, axis=1),
        ],
        axis=-1,
    )
    found = run["vorticity"]
    assert found.shape == (2, *SHAPE, 3)
    assert found.dims == ("z", "y", "x", "component")
    assert np.allclose(found[0], expected, rtol=1e-11, atol=1e-11)
    assert np.array_equal(found[0, 3:5, ..., ::-2], found[0][3:5, ..., ::-2])
    run.derive("divergence", "div(f8(u), f8(v), f8(w))")
    div = np.gradient(u, x, axis=2) + np.gradient(v, y, axis=1) + np.gradient(w, z, axis=0)
    assert np.allclose(run["divergence"][0], div, rtol=1e-11, atol=1e-11)


CUTS = [(1, 1, 1), (2, 1, 1), (1, 4, 2), (4, 4, 4)]
TEXTS = {
    "curl": "curl(u, v, w)",
    "laplacian": "laplacian(u)",
    "seven": "u[x-1] + u[x+1] + u[y-1] + u[y+1] + u[z-1] + u[z+1] - 6*u",
    "mean": "u - mean(u)",
    "profile": "sum(u*v, x, y)",
    "where": "where(u > 0, hypot(u, v), -w)",
}


@pytest.mark.parametrize("edge", ["one_sided", "fill", "periodic", "nan"])
def test_the_same_bits_however_it_is_cut(tmp_path, edge, monkeypatch):
    texts = {name: text for name, text in TEXTS.items() if edge != "periodic" or name != "curl"}
    texts["bent"] = "diff(u, x, 0.5) * v"
    seen = {}
    for n, cuts in enumerate(CUTS):
        transform, chunks = (None, "zstd:1")[n % 2], (None, None, (5, 6, 7), (3, 17, 4))[n]
        with make(tmp_path / f"{n}.dry", cuts, transform, 1, chunks) as c:
            if edge == "periodic":  # coordinates of one distance
                texts["laplacian"] = "diff2(u, x, 1) + diff2(u, y, 1) + diff2(u, z, 1)"
            for name, text in texts.items():
                whole = c.derive(name, text, edge=edge)[0]
                known = seen.setdefault(name, whole)
                assert known.tobytes() == whole.tobytes(), (name, cuts)
                if whole.ndim >= 3:
                    part = c[name][0, 2:9:3, 16:0:-5, 1:22]
                    assert part.tobytes() == np.ascontiguousarray(whole[2:9:3, 16:0:-5, 1:22]).tobytes(), name
                    place = c[name].oindex[0, [11, 0, 5], [0, 16], :]
                    assert place.tobytes() == whole[[11, 0, 5]][:, [0, 16]].tobytes(), name


def test_the_edge_rule_is_that_of_the_definition(tmp_path):
    with dry.create(tmp_path / "edge.dry") as c:
        c.create_variable("u", "f8", (6,), dims=("x",), fill_value=-7.0)
        c["u"][...] = np.arange(6.0) ** 2
        a = np.arange(6.0) ** 2
        assert np.array_equal(c.derive("one", "u[x+1]")[...], a[[1, 2, 3, 4, 5, 5]])
        assert np.array_equal(c.derive("fill", "u[x+1]", edge="fill")[...], [*a[1:], -7.0])
        assert np.array_equal(c.derive("round", "u[x+1]", edge="periodic")[...], np.roll(a, -1))
        assert np.array_equal(c.derive("none", "u[x+1]", edge="nan")[...], [*a[1:], np.nan], equal_nan=True)


def test_a_step_without_inputs_has_no_values_beyond_the_edge_either(tmp_path):
    with dry.create(tmp_path / "absent.dry") as c:
        for name in "uv":
            c.create_variable(name, "f8", (4,), dims=("x",), steps=True, fill_value=-7.0)
        with c.writer(rank=0, nranks=1) as w:
            for step in (0, 2):
                with w.step(step):
                    w.put("u", np.arange(4.0))
                    if step == 2:
                        w.put("v", np.arange(4.0))
        shifted = c.derive("shifted", "u[x+1]", edge="fill")
        both = c.derive("both", "shifted + v[x-1]", edge="fill")
        assert np.array_equal(shifted[0], [1.0, 2.0, 3.0, -7.0])
        assert np.isnan(shifted[1]).all()
        assert np.isnan(both[0]).all()
        assert np.isnan(both[1]).all()
        assert both.steps == [2]
        assert c.query("shifted > -100").count() == np.sum(shifted[...] > -100) == 8
        assert c.query("both > -100").count() == np.sum(both[...] > -100) == 4


def test_unwritten_cells_are_unknown(tmp_path):
    with dry.create(tmp_path / "holes.dry") as c:
        for name in "uv":
            c.create_variable(name, "f4", (8, 8), dims=("y", "x"), steps=True, fill_value=5)
        c.create_variable("n", "i4", (8, 8), dims=("y", "x"), steps=True)
        with c.writer(rank=0, nranks=1) as w:
            with w.step():
                w.put("u", np.ones((8, 8), "f4"), offset=(0, 0))
                w.put("v", np.ones((4, 8), "f4"), offset=(0, 0))
                w.put("n", np.ones((8, 4), "i4"), offset=(0, 0))
            with w.step():
                w.put("u", np.ones((8, 8), "f4"), offset=(0, 0))
        both = c.derive("both", "u + v")
        assert both.steps == [0]
        assert np.array_equal(
            both[0], np.where(np.arange(8)[:, None] < 4, 2, np.nan) * np.ones((8, 8)), equal_nan=True
        )
        assert np.isnan(both[1]).all()
        assert np.isnan(both.fill_value)
        assert np.array_equal(c.derive("below", "v[y+1]")[0][:, 0], [1, 1, 1, *[np.nan] * 5], equal_nan=True)
        twice = c.derive("twice", "2 * n")
        assert twice.dtype == "i4"
        assert np.array_equal(twice[0][0], [2, 2, 2, 2, 0, 0, 0, 0])
        assert np.isclose(c.derive("total", "sum(v)")[0], 32)


def test_names_dimensions_and_groups(tmp_path):
    with dry.create(tmp_path / "names.dry") as c:
        cell = np.dtype([("p", "f8"), ("q", "f4", (2,))])
        c.create_variable("fields/cells", cell, (4, 5), dims=("y", "x"))
        c.create_variable("fields/x", data=np.array([0.0, 1, 4, 9, 16]), dims=("x",))
        c.create_variable("scale", data=np.arange(4.0), dims=("y",))
        c.create_variable("turned", data=np.arange(20.0).reshape(5, 4), dims=("x", "y"))
        values = np.zeros((4, 5), cell)
        values["p"] = np.arange(20.0).reshape(4, 5) ** 2
        c["fields/cells"][...] = values
        p = values["p"]
        assert np.array_equal(
            c.derive("a", "fields/cells.p * scale + x")[...], p * np.arange(4.0)[:, None] + [0, 1, 4, 9, 16]
        )
        assert np.allclose(
            c.derive("b", "diff(fields/cells.p, x)")[...], np.gradient(p, [0.0, 1, 4, 9, 16], axis=1)
        )
        assert np.array_equal(
            c.derive("c", "fields/cells.p - turned")[...], p - np.arange(20.0).reshape(5, 4).T
        )
        assert np.array_equal(c.derive("d", "scale + f8(y)")[...], np.arange(4.0) * 2)
        nested = c.derive("deep/e", "a - c[x+1]")
        other = c["c"][...]
        assert np.array_equal(
            nested[...], c["a"][...] - np.concatenate([other[:, 1:], other[:, -1:]], axis=1)
        )
        assert nested.derived.inputs == {"a": "a", "c": "c"}
        assert c["fields/cells"].derived is None


def test_an_input_is_kept_by_its_id(run):
    run.derive("speed", "hypot(u, v)")
    expected = run["speed"][1]
    earlier = run.snapshot
    run.rename("u", "winds/eastward")
    assert np.array_equal(run["speed"][1], expected)
    assert run["speed"].derived.inputs == {"u": "winds/eastward", "v": "v"}
    run.create_variable("u", "f4", SHAPE, steps=True)
    assert np.array_equal(run["speed"][1], expected)
    run.delete("winds/eastward")
    with pytest.raises(NotFoundError, match=r'"speed".*"u", was deleted'):
        run["speed"][1]
    assert run["speed"].shape == (2, *SHAPE)
    assert np.array_equal(run.at(earlier)["speed"][1], expected)


def test_inputs_that_grow_and_shrink(tmp_path):
    with dry.create(tmp_path / "grows.dry") as c:
        c.create_variable("u", "f8", (None, 3), dims=("t", "x"))
        double = c.derive("double", "u * 2")
        assert double.shape == (0, 3)
        c["u"].append(np.ones((4, 3)))
        assert double.shape == (4, 3)
        assert double[...].sum() == 24
        c["u"].resize((2, 3))
        assert c["double"].shape == (2, 3)
        assert dry.open(tmp_path / "grows.dry")["double"][...].sum() == 12
        with pytest.raises(InvalidArgumentError, match=r'"double" is derived.*resize u'):
            c["double"].resize((9, 3))


def test_a_vector_of_components_and_booleans(tmp_path):
    with dry.create(tmp_path / "v.dry") as c:
        c.create_variable("u", data=np.arange(6, dtype="i2"))
        both = c.derive("both", "vector(u, 2*u, -u)")
        assert both.dtype == "i2"
        assert np.array_equal(both[...], np.arange(6)[:, None] * [1, 2, -1])
        assert np.array_equal(both[1:3, ::-1], np.array([[-1, 2, 1], [-2, 4, 2]]))
        above = c.derive("above", "u > 2 & u < 5")
        assert above.dtype == bool
        assert above[...].tolist() == [False, False, False, True, True, False]
        made = c.derive("made", expr.where(c["u"] > 2, c["u"] * 2, -c["u"]))
        assert made[...].tolist() == [0, -1, -2, 6, 8, 10]


def test_what_is_refused_names_what_was_wrong(run):
    def refused(text, match, error=InvalidArgumentError, **how):
        with pytest.raises(error, match=match):
            run.derive("bad", text, **how)
        assert "bad" not in run

    run.create_variable("texts", str, (3,))
    run.create_variable("tall", "f4", (99,), dims=("z",))
    run.create_variable("whole", "i8", SHAPE, dims=("z", "y", "x"))
    run.create_variable("mine", "f4", local=True)
    refused("sqrt(uu)", "`uu`: there is no such variable")
    refused("2 * whoel", "did you mean `whole`")
    refused("u + whoel", "did you mean `whole`")
    refused("bad + 1", "itself")
    refused("u + ", r"\^")
    refused("whole * u", "64-bit integer")
    refused("texts", "texts")
    refused("mine * 2", "local")
    refused("u + tall", "cannot be joined")
    refused("u[q+1]", "no dimension `q`")
    refused("u[x+64]", "neighbour needs 65 cells")
    refused("3 + 4", "names no variable")
    refused("diff(u, whole)", "dimension")
    refused("u", "no kind", kind="actual")
    refused("u", "no edge rule", edge="mirror")
    run.derive("speed", "hypot(u, v)")
    assert run.derive("speed", "hypot(u, v)").derived.text == "hypot(u, v)"
    with pytest.raises(ConflictError, match=r"another definition \(hypot\(u, v\), kind \"virtual\""):
        run.derive("speed", "hypot(u, w)")
    with pytest.raises(ConflictError, match="holds values"):
        run.derive("u", "v")
    with pytest.raises(ConflictError, match="is derived"):
        run.create_variable("speed", "f4", SHAPE)
    with pytest.raises(InvalidArgumentError, match=r'"speed": it is derived \(hypot'):
        run["speed"][0] = np.zeros(SHAPE, "f4")
    with pytest.raises(InvalidArgumentError, match="is derived"):
        run["speed"].within(0.1)
    run.derive("d0", "u + 1")
    for n in range(1, 16):
        run.derive(f"d{n}", f"d{n - 1} + 1")
    refused("d15 + 1", "in a row", error=UnsupportedError)


def test_explain_has_a_plan_for_each_input_and_only_the_halo_more(run):
    run.derive("lap", "laplacian(u) + v")
    plan = run["lap"].explain[0, 4:8, 4:8, 4:8]
    text = str(plan)
    assert "u [0, 3:9, 3:9, 3:9]" in text
    assert "v [0, 4:8, 4:8, 4:8]" in text
    assert plan.wanted_bytes == 4 * (6**3 + 4**3)


def test_a_batch_is_read_when_it_has_ended(run):
    with run.batch():
        run.derive("speed", "hypot(u, v)")
        assert run["speed"].shape == (2, *SHAPE)
        with pytest.raises(InvalidArgumentError, match="batch"):
            run["speed"][0]
    assert run["speed"][0].shape == SHAPE


def test_the_command_derives_and_shows(tmp_path, run):
    path = tmp_path / "run.dry"
    made = drystone("derive", path, "speed", "hypot(u, v)", "--units", "m/s")
    assert "float32" in made
    assert "u, v" in made
    assert "= hypot(u, v)" in drystone("ls", path)
    assert "// derived: hypot(u, v)" in drystone("dump", path, "--header")
    u, v, _ = flow(1)
    assert str(np.hypot(u, v)[0, 0, 0])[:5] in drystone("dump", path, "speed", "[1, 0, 0, 0]", "--json")
    run.refresh()
    assert run["speed"].attrs["units"] == "m/s"
    assert "vv" in drystone("derive", path, "other", "hypot(u, vv)", code=2)


def test_xarray_and_zarr_show_it(tmp_path, run):
    run.derive("speed", "hypot(u, v)", attrs={"units": "m/s"})
    run.derive("gradient", "diff(u, x)")
    u, v, _ = flow(1)
    xarray = pytest.importorskip("xarray")
    dataset = xarray.open_dataset(str(tmp_path / "run.dry"), engine="drystone")
    assert dataset["speed"].attrs["units"] == "m/s"
    assert np.allclose(dataset["speed"][1].values, np.hypot(u, v))
    zarr = pytest.importorskip("zarr")
    from drystone.zarr_store import DrystoneStore

    group = zarr.open_group(DrystoneStore(run), mode="r")
    assert np.array_equal(group["speed"][1], run["speed"][1])
    assert np.array_equal(group["gradient"][0, 3:7], run["gradient"][0, 3:7])


def test_memory_is_that_of_the_tiles(tmp_path):
    resource = pytest.importorskip("resource")
    with dry.create(tmp_path / "large.dry") as c:
        c.create_variable("u", "f4", (64, 512, 512), dims=("z", "y", "x"))
        c["u"][...] = np.ones((64, 512, 512), "f4")
        c.derive("lap", "diff2(u, x) + diff2(u, y) + diff2(u, z)")
        out = np.empty((64, 512, 512), "f4")
        c["lap"].read(out=out)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        c["lap"].read(out=out)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 << 10
        assert not out.any()


def test_queries_prune_by_the_inputs_bounds(tmp_path):
    with dry.create(tmp_path / "ramp.dry") as c:
        for name in "uv":
            c.create_variable(name, "f4", (64, 1024), dims=("y", "x"), chunks=(8, 64), steps=True)
        ramp = np.linspace(0, 1, 1024, dtype="f4") * np.ones((64, 1), "f4")
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("u", ramp, offset=(0, 0))
            w.put("v", ramp[:, ::-1].copy() * 0.1, offset=(0, 0))
        c.derive("speed", "sqrt(u*u + v*v)")
        expected = np.sqrt(ramp * ramp + (ramp[:, ::-1] * np.float32(0.1)) ** 2)
        q = c.query("speed > 0.99")
        assert q.count() == (expected > np.float32(0.99)).sum()
        assert q.report.bytes < 2 * ramp.nbytes / 8
        assert np.array_equal(q.mask()[0], expected > np.float32(0.99))
        speed, u = q.values("speed", "u")
        assert np.array_equal(speed, expected[expected > np.float32(0.99)])
        assert np.array_equal(u, ramp[expected > np.float32(0.99)])
        assert c.query("speed >= 0").bounds().low == ramp.size
        assert c.query("speed > 2").report.bytes == 0
        assert c.query("speed > 2").count() == 0
        both = c.query("speed > 0.5 & v < 0.03")
        assert (
            both.count()
            == ((expected > np.float32(0.5)) & (ramp[:, ::-1] * np.float32(0.1) < np.float32(0.03))).sum()
        )
        c.derive("fast", "speed > 0.99")
        assert c.query("fast & x > 1000").count() == (expected > np.float32(0.99))[:, 1001:].sum()


def test_queries_of_stencils_and_holes_agree_with_numpy(tmp_path):
    rng = np.random.default_rng(3)
    with dry.create(tmp_path / "holes.dry") as c:
        for name in "uv":
            c.create_variable(name, "f8", (40, 50), dims=("y", "x"), chunks=(16, 16))
        u, v = rng.standard_normal((2, 40, 50))
        for lo in (0, 24):
            c["u"][lo : lo + 16] = u[lo : lo + 16]
        c["v"][:, 5:44] = v[:, 5:44]
        for name, text in {
            "sum": "u + v",
            "lap": "u[x+1] + u[x-1] + v[y+1] - v[y-1]",
            "choice": "where(v > 0, v, u)",
        }.items():
            values = c.derive(name, text)[...]
            for condition in (
                f"{name} > 0.5",
                f"~({name} > 0.5)",
                f"{name} < 0.1 & u > -1",
                f"isnan({name}) | {name} > 1",
            ):
                q = c.query(condition)
                known = ~np.isnan(values)
                mask = {
                    0: values > 0.5,
                    1: known & ~(values > 0.5),
                    2: (values < 0.1) & (np.where(known, c["u"][...], -9) > -1),
                    3: values > 1,
                }
                number = (
                    [f"{name} > 0.5", f"~({name} > 0.5)", f"{name} < 0.1 & u > -1"].index(condition)
                    if "isnan" not in condition
                    else 3
                )
                if number == 2 and name == "choice":
                    continue
                assert np.array_equal(q.mask(), mask[number]), condition
                assert q.count() == mask[number].sum()
                low, high = q.bounds().low, q.bounds().high
                assert low <= q.count() <= high
                assert np.array_equal(q.values(name), values[mask[number]])


@pytest.mark.parametrize("edge", ["one_sided", "periodic", "fill", "nan"])
def test_tiles_have_halos_and_fit_together(run, edge):
    u = flow(1)[0]
    modes = {
        "one_sided": {"mode": "edge"},
        "periodic": {"mode": "wrap"},
        "fill": {"constant_values": 0},
        "nan": {"constant_values": np.nan},
    }
    padded = np.pad(u, ((1, 1), (0, 0), (2, 2)), **modes[edge])
    out = np.zeros(u.shape, "f4")
    for place, tile in run["u"].tiles((5, 7, 23), halo=(1, 0, 2), steps=1, edge=edge):
        assert place[0] == 1
        cells = tuple(slice(p.start, p.stop + 2 * h) for p, h in zip(place[1:], (1, 0, 2), strict=True))
        assert np.array_equal(tile, padded[cells], equal_nan=True)
        out[place[1:]] = tile[1:-1, :, 2:-2]
    assert np.array_equal(out, u)


def test_a_function_is_applied_tile_by_tile(run):
    def smooth(a):
        return (a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1]) / 2

    whole = run["u"].apply(smooth, halo=1, shape=(4, 5, 6))
    u = np.stack([flow(step)[0] for step in range(2)])
    padded = np.pad(u, ((0, 0), (1, 1), (0, 0), (0, 0)), mode="edge")
    assert np.array_equal(whole, (padded[:, :-2] + padded[:, 2:]) / 2)
    assert np.array_equal(run["u"].apply(np.negative, halo=(1, 1, 1), dtype="f8"), -u.astype("f8"))
    run.derive("speed", "hypot(u, v)")
    assert np.array_equal(run["speed"].apply(np.square), np.square(run["speed"][...]))
    with pytest.raises(InvalidArgumentError, match=r"shape \(2,\) for the tile \[0, 0:12, 0:17, 0:23\]"):
        run["u"].apply(lambda a: a[0, 0, :2])
    with pytest.raises(ZeroDivisionError) as failed:
        run["u"].apply(lambda _: 1 // 0)
    assert "in the tile [0, 0:12" in failed.value.__notes__[0]
    with pytest.raises(InvalidArgumentError, match="halo"):
        run["u"].apply(np.negative, halo=(1, 1))


def test_a_copy_keeps_the_definition_or_the_values(tmp_path, run):
    run.derive("energy", "0.5*(u*u + v*v)", attrs={"units": "m2/s2"})
    run.derive("twice", "energy * 2")
    whole = run.copy(tmp_path / "whole.dry")
    assert whole["twice"].derived.text == "energy * 2"
    assert whole["energy"].attrs["units"] == "m2/s2"
    assert np.array_equal(whole["twice"][...], run["twice"][...])
    with pytest.warns(dry.DrystoneWarning, match="energy holds the values that were computed"):
        part = run.copy(tmp_path / "part.dry", variables=["energy", "twice"])
    assert part["energy"].derived is None
    assert part["twice"].derived.inputs == {"energy": "energy"}
    assert np.array_equal(part["twice"][...], run["twice"][...])


def test_grad_div_and_curl_compose(tmp_path):
    """`grad` gave components along (y, x), and `div` and `curl` took them along (x, y)."""
    u, g = np.random.default_rng(0).random((8, 9)), np.gradient
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("u", "f8", u.shape, dims=("y", "x"))
        c["u"][...] = u
        c.create_variable("p", "f8", u.shape, dims=("lat", "x"))
        c["p"][...] = u
        along_x_first = np.stack([g(u, axis=1), g(u, axis=0)], -1)
        assert np.allclose(c.derive("grad", "grad(u)")[...], along_x_first)
        assert np.allclose(c.derive("mixed", "grad(p)")[...], along_x_first)
        assert np.allclose(c.derive("named", "grad(u, y, x)")[...], np.stack(g(u), -1))
        second = g(g(u, axis=0), axis=0) + g(g(u, axis=1), axis=1)
        assert np.allclose(c.derive("div", "div(grad(u))")[...], second)
        assert np.allclose(c.derive("other", "div(grad(p))")[...], second)
        assert np.allclose(c.derive("curl", "curl(grad(u))")[...], 0, atol=1e-14)


def test_the_edge_of_nan_is_unwritten_through_every_door(tmp_path):
    u = np.arange(24.0).reshape(4, 6) ** 2
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("u", "f8", u.shape, dims=("y", "x"))
        c["u"][...] = u
        for kind in ("virtual", "bounds", "stored"):
            d = c.derive(f"d{kind}", "diff(u, x)", edge="nan", kind=kind)
            c.store_derived()
            assert np.isnan(d[...]).sum() == 8
            assert c.query(f"isnan(d{kind})").count() == 0
            assert c.query(f"d{kind} > 3").count() + c.query(f"~(d{kind} > 3)").count() == 16
            assert np.isclose(c.derive(f"m{kind}", f"mean(d{kind})")[...], np.nanmean(d[...]))


def test_what_apply_cannot_place_is_an_error(tmp_path):
    values = np.arange(200, dtype="f4").reshape(10, 20) + np.float32(0.5)
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("u", "f4", values.shape)
        c["u"][...] = values
        c.create_variable("larger", "f4", (10, 21))

        def mixed(first, then):
            types = iter([first])
            return lambda tile: tile.astype(next(types, then))

        fixed = np.zeros(values.shape)
        fixed.flags.writeable = False
        for function, options, said in (
            (mixed("i4", "f4"), {}, "int32 is needed"),
            (mixed("f4", "f8"), {}, "say dtype="),
            (np.copy, {"out": np.zeros((2, *values.shape))}, "shape"),
            (np.copy, {"out": np.zeros(values.shape, "i4")}, "int32 is needed"),
            (lambda tile: tile * 1e6, {"out": np.zeros(values.shape, "f2")}, "does not hold"),
            (np.copy, {"out": c["larger"]}, "shape"),
            (np.copy, {"out": [1]}, "not list"),
            (np.copy, {"out": fixed}, "read-only"),
            (np.copy, {"halo": 10**9}, "wider"),
        ):
            with pytest.raises(dry.InvalidArgumentError, match=said):
                c["u"].apply(function, shape=(5, 5), **options)
        out = np.zeros(values.shape)
        assert c["u"].apply(np.copy, shape=(5, 5), out=out) is out
        assert np.array_equal(out, values)


def test_regions_of_derived_variables_are_read_only(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("u", "f8", (4, 5), steps=True)
        c["u"].append(np.ones((4, 5)))
        d = c.derive("d", "u + 1")
        with pytest.raises(dry.InvalidArgumentError, match="map its inputs"):
            d.map(step=0, mode="rw")
        with pytest.raises(dry.InvalidArgumentError, match="derived"):
            c.on("d", "max")


def test_an_error_of_a_transfer_is_raised_once_and_a_cast_keeps_values_finite(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("u", "f8", (4, 5), steps=True)
        c["u"].append(np.full((4, 5), 1e300))
        c.commit()
        transfer = c.transfer("u", "single", "cast", dtype="f4")
        with pytest.raises(dry.InvalidArgumentError, match="beyond float32"):
            transfer.wait()
        c.commit()
        c.transfer("absent", "other")
        with pytest.raises(dry.DrystoneError, match="absent"):
            c.commit()
        c.commit()


@pytest.mark.parametrize(
    "text", ["norm(vort)", "dot(vort, vort)", "component(vort, 1)", "norm(u) > 2", "magnitude(vort)"]
)
def test_a_derived_vector_is_not_taken_for_a_number(run, text):
    """Symptom: norm(vort) was abs() of each component, without an error."""
    run.derive("vort", "curl(u, v, w)")
    with pytest.raises(
        InvalidArgumentError, match=r"takes a vector, and `(vort|u)` is a number for each cell"
    ):
        run.derive("wrong", text)
    run.derive("size", "sqrt(sum(vort*vort, component))")
    run.derive("direct", "norm(curl(u, v, w))")
    np.testing.assert_allclose(run["size"][...], run["direct"][...], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_periodic_differences_take_coordinates_that_are_even_up_to_rounding(tmp_path, dtype):
    with dry.create(tmp_path / "run.dry") as c:
        places = (0.1 * np.arange(12)).astype(dtype)
        values = np.sin(np.arange(12.0))
        c.create_variable("u", data=values, dims=("x",))
        c.create_variable("x", data=places, dims=("x",))
        c.derive("d", "diff(u, x)", edge="periodic")
        np.testing.assert_allclose(c["d"][...], (np.roll(values, -1) - np.roll(values, 1)) / 0.2, rtol=1e-6)
        c["x"][...] = places**2
        with pytest.raises(InvalidArgumentError, match="cells of one distance; its coordinates do not"):
            c["d"][...]


def test_a_conflict_says_kind_and_edge_and_steps_out_of_range_are_named(run):
    run.derive("twice", "2*u", kind="stored")
    with pytest.raises(ConflictError, match=r'\(2\*u, kind "stored", edge "one_sided"\)'):
        run.derive("twice", "2*u", kind="bounds")
    with pytest.raises(OutOfRangeError, match=r'"u" has the steps 0 to 1, not 7'):
        next(run["u"].tiles(steps=[7]))


def test_ls_shows_the_steps_of_what_is_computed(run):
    run.derive("twice", "2*u")
    run.commit()
    found = json.loads(drystone("ls", "-l", "--json", run.path))
    steps = {one["path"]: one["steps"] for one in found if one["kind"] == "variable"}
    assert steps["twice"] == steps["u"] == [0, 1]
