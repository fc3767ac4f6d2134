"""Stored values and statistics of derived variables: equal to computed ones, never outdated, and useful in queries."""

import os
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from command_line import drystone
from drystone.errors import DrystoneWarning, InvalidArgumentError, NotFoundError, OutOfRangeError

SHAPE = (24, 32, 40)
TEXTS = {"speed": "sqrt(u*u + v*v)", "lap": "diff2(u, x, 1) + diff2(u, y, 1)", "twice": "2*lap"}


def flow(seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(SHAPE).astype("f4") for _ in range(2)]


def put_step(w, seed, step=None):
    with w.step(step):
        for name, values in zip("uv", flow(seed), strict=True):
            for lo in range(0, SHAPE[0], 8):
                w.put(name, values[lo : lo + 8], offset=(lo, 0, 0))


@pytest.fixture
def run(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        for name in "uv":
            c.create_variable(name, "f4", SHAPE, dims=("z", "y", "x"), steps=True)
        yield c


def define(c, kind):
    for name, text in TEXTS.items():
        c.derive(name, text, kind=kind)
        c.derive(f"{name}_now", text.replace("lap", "lap_now"))


def same(c, steps):
    for name in TEXTS:
        for step in steps:
            assert np.array_equal(c[name][step], c[f"{name}_now"][step]), (name, step)


def inputs_read(c, name, step):
    """Bytes of values in a read's plan; tables of subchunks add less than 1 KiB."""
    plan, wanted = c[name].explain[step], c[name][step].nbytes
    return plan.read_bytes // wanted * wanted if plan.read_bytes % wanted < 1 << 10 else plan.read_bytes


def test_values_are_stored_when_a_step_commits_and_read_alone(run):
    define(run, "stored")
    assert run["speed"].derived.kind == "stored"
    with run.writer(rank=0, nranks=1) as w:
        for seed in range(2):
            put_step(w, seed)
    run.refresh()
    same(run, (0, 1))
    nbytes = run["speed"][0].nbytes
    assert inputs_read(run, "speed", 0) == nbytes
    assert inputs_read(run, "speed_now", 0) == 2 * nbytes
    assert run.store_derived() == dry.StoredDerived(0, 0, 0, 0)
    assert not run.verify().damage
    plan = str(run["speed"].explain[0])
    assert "u" not in plan.split("\n")[0]


def test_stored_values_are_read_by_what_is_derived_from_them(run):
    define(run, "stored")
    run.derive("turned", "lap + speed[x-1]")
    run.derive("turned_now", "lap_now + speed_now[x-1]")
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
        with w.step(1):
            for name, values in zip("uv", flow(1), strict=True):
                w.put(name, values[:9], offset=(0, 0, 0))
    run.refresh()
    for step in range(2):
        assert np.array_equal(run["turned"][step], run["turned_now"][step], equal_nan=True)
        assert np.array_equal(
            run["turned"][step, ::-3, 5:, 7], run["turned_now"][step, ::-3, 5:, 7], equal_nan=True
        )
    run["u"][0, 4:6, 4, 7] = 99
    run.commit()
    assert np.array_equal(run["turned"][0], run["turned_now"][0], equal_nan=True)
    # An input whose dimensions have another order, and cells without a value.
    run.create_variable("g", "f8", (40, 32), dims=("x", "y"))
    run["g"][:25] = np.random.default_rng(2).random((25, 32))
    run.commit()
    for kind in ("stored", "virtual"):
        run.derive(f"slope_{kind}", "diff(g, x, 1)", kind=kind, edge="nan")
        run.derive(f"both_{kind}", f"u + slope_{kind}")
    run.store_derived()
    as_computed(run, "slope")
    for part in (np.s_[0], np.s_[0, 3, ::-2, 2:30:3], np.s_[1, :, 31, 23]):
        found, wanted = run["both_stored"][part], run["both_virtual"][part]
        assert np.array_equal(found, wanted, equal_nan=True)
        assert np.isnan(found).any()
        assert not np.isnan(found).all()


def test_a_newer_input_hides_what_was_stored_until_it_is_computed_again(run):
    define(run, "stored")
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    run.refresh()
    run["u"][0, 3:5, 4, 7] = 99
    run.commit()
    same(run, (0,))
    assert run["speed"][0, 3, 4, 7] > 98
    run.refresh()
    same(run, (0,))
    with dry.open(run.path) as other:
        same(other, (0,))


@pytest.mark.parametrize("kind", ["stored", "bounds"])
def test_current_values_have_statistics(run, kind):
    define(run, kind)
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    run.refresh()
    found, wanted = run["speed"].statistics(0), run["speed_now"][0]
    assert (found.min, found.max) == (wanted.min(), wanted.max())
    assert found.cells == wanted.size
    assert run["speed_now"].statistics(0).cells == 0, "nothing is stored of it"
    run["u"][0, 3, 4, 7] = 99
    run.refresh()
    # Whatever has statistics, these have the new value.
    found = run["speed"].statistics(0)
    assert found.cells == 0 or found.max >= run["speed_now"][0].max() > 98
    with pytest.raises(InvalidArgumentError):
        run["speed"].statistics()
    with pytest.raises(OutOfRangeError):
        run["speed"].statistics(7)


def test_what_is_older_than_its_inputs_is_never_shown(run):
    """Change an input with a commit that computes nothing, as an older program would: the stored values are hidden."""
    define(run, "stored")
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    for name in TEXTS:
        run.delete(name)
    for name, text in TEXTS.items():
        run.derive(name, text, kind="stored")
    assert run.store_derived(steps=0, budget=0).left > 0
    same(run, (0,))
    done = run.store_derived()
    assert (done.left, done.cells) == (0, 3 * np.prod(SHAPE))
    assert run.store_derived(names="lap").blocks == 0
    same(run, (0,))


def test_steps_that_are_replaced_and_shapes_that_change_hide_it_too(run):
    c = run
    c.create_variable("g", "f8", (None, 50), dims=("y", "x"))
    c["g"].resize((40, 50))
    c["g"][...] = np.random.default_rng(1).random((40, 50))
    c.commit()
    for kind in ("stored", "virtual"):
        c.derive(f"d_{kind}", "diff(g, y, 1)", kind=kind)
        c.derive(f"m_{kind}", "g - mean(g)", kind=kind)
    c.store_derived()
    for shape in ((44, 50), (30, 50), (41, 50)):
        c["g"].resize(shape)
        assert c["d_stored"].shape == shape
        for name in "dm":
            assert np.array_equal(c[f"{name}_stored"][...], c[f"{name}_virtual"][...], equal_nan=True)
        c.store_derived()
        for name in "dm":
            assert np.array_equal(c[f"{name}_stored"][...], c[f"{name}_virtual"][...], equal_nan=True)
    define(c, "stored")
    with c.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    c.refresh()
    with c.writer() as w, w.step(0, replace=True):
        w.put("u", flow(7)[0][:8], offset=(0, 0, 0))
    c.commit()
    c.refresh()
    for name in TEXTS:
        assert np.array_equal(c[name][0], c[f"{name}_now"][0], equal_nan=True)
    assert np.isnan(c["speed"][0]).all()


def pair(c, name, text, **options):
    """The same definition, stored and computed."""
    for kind in ("stored", "virtual"):
        c.derive(f"{name}_{kind}", text, kind=kind, **options)


def as_computed(c, *names):
    for name in names:
        for step in c[f"{name}_virtual"].steps if c[f"{name}_virtual"].has_steps else (...,):
            found, wanted = c[f"{name}_stored"][step], c[f"{name}_virtual"][step]
            assert np.array_equal(found, wanted, equal_nan=True), (name, step)


@pytest.mark.parametrize("edge", ["one_sided", "fill", "periodic", "nan"])
def test_overwritten_neighbours_hide_dependent_values(run, edge):
    """Cells at block edges, at the ends of the domain, and single cells: each changes values elsewhere."""
    pair(run, "d", "diff(u, z, 1) + u[y+3]", edge=edge)
    pair(run, "m", "u - mean(u, z)")
    with run.writer(rank=0, nranks=1) as w:
        for seed in range(2):
            put_step(w, seed)
    run.refresh()
    assert inputs_read(run, "d_stored", 0) == run["d_stored"][0].nbytes
    for place in ((7, 0, 0), (8, 31, 39), (0, 0, 5), (23, 31, 0), (15, 3, 20)):
        run["u"][(1, *place)] = 1000.0 + place[0]
        run.commit()
        as_computed(run, "d", "m")
        with dry.open(run.path) as other:
            as_computed(other, "d", "m")
    with dry.open(run.path, "r+") as other, other.writer() as w, w.step(0):
        w.put("u", np.full((1, 32, 40), 7, "f4"), offset=(11, 0, 0))
    run.commit()
    run.refresh()
    as_computed(run, "d", "m")


def test_a_new_shape_of_an_input_hides_stored_values(run):
    """A new shape changes a virtual variable at once; the stored one follows only with a later commit."""
    c = run
    for name in ("g", "h"):
        c.create_variable(name, data=np.random.default_rng(3).random((20, 6)), dims=("y", "x"))
    c.derive("slope", "diff(g, y, 1)")
    pair(c, "sum", "slope + h")
    c.store_derived()
    as_computed(c, "sum")
    c["g"].resize((25, 6))
    c["g"][20:] = 50.0
    with pytest.raises(InvalidArgumentError):
        c["sum_stored"][...]
    c["h"].resize((25, 6))
    c["h"][20:] = 1.0
    as_computed(c, "sum")
    c.store_derived()
    as_computed(c, "sum")
    for n in (21, 30, 20):
        for name in ("h", "g"):
            c[name].resize((n, 6))
        as_computed(c, "sum")


def test_an_overwritten_coordinate_hides_dependent_values(run):
    run.create_variable("x", data=np.arange(40.0), dims=("x",))
    pair(run, "slope", "diff(u, x)")
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    run.refresh()
    run["x"][0:3] = np.array([-5.0, -3.0, 1.5])
    run.commit()
    as_computed(run, "slope")
    run.store_derived()
    as_computed(run, "slope")


def test_a_coordinate_that_comes_later_is_none(run):
    pair(run, "slope", "diff(u, x)")
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    run.refresh()
    run.create_variable("x", data=np.arange(40.0) ** 2, dims=("x",))
    as_computed(run, "slope")
    run.store_derived()
    as_computed(run, "slope")


RANDOM = {
    "a": ("u*u - v", "one_sided"),
    "b": ("diff(u, y, 1) + v[x+1]", "periodic"),
    "c": ("diff2(u, x, 1)", "fill"),
    "d": ("u - mean(v, y)", "nan"),
    "e": ("between[y-2] + w", "one_sided"),
    "f": ("where(u > v, a_stored, between)", "fill"),
}


@pytest.mark.parametrize("seed", range(40 if os.environ.get("DRYSTONE_LONG") else 2))
def test_stored_values_always_read_as_computed(tmp_path, seed):
    """Random puts, replaced steps, shapes, commits of two handles and stores: after each, all stored values equal
    computed ones."""
    rng = np.random.default_rng(seed)
    with dry.create(tmp_path / "run.dry") as c, dry.open(tmp_path / "run.dry", "r+") as other:
        for name in "uv":
            c.create_variable(name, "f8", (None, 9), dims=("y", "x"), steps=True)
            c[name].resize((12, 9))
        c.create_variable("w", "f8", (None, 9), dims=("y", "x"))
        c["w"].resize((12, 9))
        c.derive("between", "diff(u, y, 1)")
        for name, (text, edge) in RANDOM.items():
            pair(c, name, text, edge=edge)
        c.derive("low", "diff(u, y, 1) * v", kind="bounds")
        c.derive("low_now", "diff(u, y, 1) * v")
        c.commit()
        for step in range(3):
            with c.writer() as w, w.step(step):
                for name in "uv":
                    w.put(name, rng.random((12, 9)), offset=(0, 0))
        c.commit()
        seen = 0
        for turn in range(40):
            one = (c, other)[rng.integers(2)]
            one.refresh()
            rows = one["u"].shape[0]
            match rng.integers(8):
                case 0:
                    rows = int(rng.integers(4, 16))
                    for name in rng.permutation(list("uvw")):
                        one[name].resize((rows, 9))
                case 1:
                    one.store_derived(budget=int(rng.integers(1, 4000)))
                case 2:
                    one.store_derived()
                case 3:
                    lo = int(rng.integers(rows))
                    one["w"][lo : min(lo + 3, rows)] = rng.random()
                case 4:
                    with one.writer() as w, w.step(int(rng.integers(3)), replace=True):
                        for name in "uv":
                            w.put(name, rng.random((rows, 9)), offset=(0, 0))
                case _:
                    with one.writer() as w, w.step(int(rng.integers(3))):
                        for name in "uv":
                            lo, n = int(rng.integers(rows)), int(rng.integers(1, 6))
                            w.put(name, rng.random((min(n, rows - lo), 9)), offset=(lo, 0))
            one.commit()
            for handle in (c, other):
                handle.refresh()
                as_computed(handle, *RANDOM)
                for step in handle["u"].steps:
                    found, wanted = (
                        handle.query(f"{n} > 0.1", steps=step).count() for n in ("low", "low_now")
                    )
                    assert found == wanted, turn
            for step in c["a_stored"].steps:
                plans = [c[f"a_{kind}"].explain[step, :4] for kind in ("stored", "virtual")]
                seen += plans[0].read_bytes < plans[1].read_bytes
        assert seen > 3


def test_a_configuration_does_not_round_what_is_stored(tmp_path):
    """A lossy transform for all variables rounds the inputs once; values computed from them keep their own bits."""
    Path(tmp_path, "drystone.toml").write_text('[variables]\n"**" = { transform = "bitround:3,zstd:1" }\n')
    with dry.create(tmp_path / "run.dry") as c:
        for name in "uv":
            c.create_variable(name, "f4", SHAPE, dims=("z", "y", "x"), steps=True)
        define(c, "stored")
        with c.writer(rank=0, nranks=1) as w:
            put_step(w, 0)
        c.refresh()
        assert not np.array_equal(c["u"][0], flow(0)[0])
        same(c, (0,))
        assert inputs_read(c, "speed", 0) == c["speed"][0].nbytes


def test_bounds_that_are_older_than_an_input_decide_nothing(run):
    define(run, "bounds")
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    run.refresh()
    assert run.query("speed > 500", steps=0).count() == 0
    with dry.open(run.path, "r+") as other:
        other["u"][0, 20, 30, 10] = 1000.0
        other.commit()
    run.refresh()
    assert run.query("speed > 500", steps=0).count() == 1
    assert run.query("lap > 500", steps=0).count() == run.query("lap_now > 500", steps=0).count() > 0


def test_copies_publications_and_checks_take_it_along(run, tmp_path):
    define(run, "stored")
    run.derive("b", "u * v", kind="bounds")
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    run.refresh()
    run.publish()
    assert not run.verify().damage
    same(run, (0,))
    run["v"][0, 1, 2, 3] = 77.0
    run.commit()
    same(run, (0,))
    with pytest.warns(DrystoneWarning, match="publish the copy"):
        run.copy(tmp_path / "copy.dry")
    with dry.open(tmp_path / "copy.dry", "r+") as copy:
        assert np.array_equal(copy["u"][0], run["u"][0])
        same(copy, (0,))
        copy["u"][0, 1:9] = 3.0
        copy.commit()
        same(copy, (0,))
        assert not copy.verify().damage


def test_unwritten_cells_stay_unknown(run):
    define(run, "stored")
    with run.writer(rank=0, nranks=1) as w, w.step():
        for name, values in zip("uv", flow(3), strict=True):
            w.put(name, values[:8], offset=(0, 0, 0))
            w.put(name, values[16:, :16], offset=(16, 0, 0))
    run.refresh()
    for name in TEXTS:
        assert np.array_equal(run[name][0], run[f"{name}_now"][0], equal_nan=True)
    assert np.isnan(run["speed"][0, 8:16]).all()
    found = run.query("speed > 0", steps=0)
    assert found.count() == (8 * 32 + 8 * 16) * 40


@pytest.mark.parametrize("kind", ["bounds", "stored"])
def test_unknown_cells_are_not_stored_again_by_every_commit(run, kind):
    """Edges without values and half-written inputs: a commit that changes no input stores nothing. Each commit that
    does stores about what it changed."""
    texts = ("diff(u, y, 1)", "grad(u)", "u + v", "diff2(lap, x, 1)")
    run.derive("lap", TEXTS["lap"], edge="nan")
    for n, text in enumerate(texts):
        run.derive(f"d{n}_stored", text, kind=kind, edge="nan")
        run.derive(f"d{n}_virtual", text, edge="nan")
    u, v = flow(4)
    grown = []
    for lo in range(0, 24, 4):
        run["u"][0, lo : lo + 4] = u[lo : lo + 4]
        run["v"][0, lo : lo + 4, :20] = v[lo : lo + 4, :20]
        size = data_size(run.path)
        run.commit()
        grown.append(data_size(run.path) - size)
        as_computed(run, *(f"d{n}" for n in range(len(texts))))
    assert max(grown[1:]) < 1.1 * min(grown[1:]), grown
    run.create_variable("other", "f4", (4,), steps=True)
    run["other"][0] = np.ones(4)
    before, size = run.snapshot.version, data_size(run.path)
    run.commit()
    assert run.snapshot.version == before + 1
    assert data_size(run.path) - size < 1024
    assert run.store_derived().blocks == 0


def data_size(path):
    """Bytes of blocks, of which nothing was rewritten."""
    return sum(one.stat().st_size for one in Path(path).glob("log/*.seg"))


@pytest.mark.parametrize("kind", ["bounds", "stored"])
def test_queries_use_what_is_stored(run, kind):
    define(run, kind)
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    run.refresh()
    u, v = (a.astype("f4") for a in flow(0))
    speed = np.sqrt(u * u + v * v)
    high = float(speed.max())
    found = run.query(f"speed >= {high}", steps=0)
    assert found.count() == 1
    looked = [run.query(f"{name} >= {high}", steps=0).explain.some for name in ("speed", "speed_now")]
    assert looked[0] * 2 < looked[1]
    assert run.query(f"lap >= {high}", steps=0).count() == run.query(f"lap_now >= {high}", steps=0).count()
    assert not run.verify().damage
    if kind == "bounds":
        same(run, (0,))
        assert inputs_read(run, "speed", 0) == 2 * speed.nbytes


def test_bounds_take_no_bytes_of_values(run):
    run.derive("speed", TEXTS["speed"], kind="bounds")
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    run.refresh()
    segments = sorted(path.stat().st_size for path in Path(run.path, "log").glob("*.seg"))
    assert segments[-1] > 2 * np.prod(SHAPE) * 4
    assert sum(segments[:-1]) < 8 << 10


def test_ranks_commit_together_and_one_of_them_stores(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        for name in "uv":
            c.create_variable(name, "f4", SHAPE, dims=("z", "y", "x"), steps=True)
        define(c, "stored")
        writers = [c.writer(rank=rank, nranks=3) for rank in range(3)]
        for rank, w in enumerate(writers):
            with w, w.step(0):
                for name, values in zip("uv", flow(5), strict=True):
                    w.put(name, values[8 * rank : 8 * rank + 8], offset=(8 * rank, 0, 0))
        c.commit()
        c.refresh()
        same(c, (0,))
        assert inputs_read(c, "lap", 0) == c["lap"][0].nbytes


def test_units_are_checked_and_derived(run):
    for name in "uv":
        run[name].attrs["units"] = "m/s"
    run.create_variable("t", "f4", SHAPE, dims=("z", "y", "x"), steps=True, attrs={"units": "K"})
    run.create_variable("x", data=np.arange(40.0), dims=("x",), attrs={"units": "km"})
    assert run.derive("speed", TEXTS["speed"]).attrs["units"] == "m/s"
    assert run.derive("energy", "u**2 / 2").attrs["units"] == "m2 s-2"
    assert "units" not in run.derive("shear", "diff(u, x)").attrs
    assert run.derive("odd", "u + t", attrs={"units": "odd"}).attrs["units"] == "odd"
    with pytest.raises(InvalidArgumentError, match=r"`u` has the unit m s-1 and `t` K"):
        run.derive("wrong", "u + t")
    with pytest.raises(InvalidArgumentError, match="numbers without one"):
        run.derive("wrong", "exp(u)")
    assert run.derive("speed", TEXTS["speed"]).attrs["units"] == "m/s"


def test_what_cannot_be_stored_is_said(run):
    run.derive("speed", TEXTS["speed"])
    with pytest.raises(InvalidArgumentError, match="nothing is stored"):
        run.store_derived("speed")
    with pytest.raises(NotFoundError):
        run.store_derived("nowhere")
    with pytest.raises(InvalidArgumentError, match="no kind"):
        run.derive("other", "u + v", kind="everything")
    run.derive("kept", "u + v", kind="stored")
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    run.refresh()
    run.delete("v")
    with pytest.raises(NotFoundError, match="v"):
        run["kept"][0]


def test_the_command_defines_and_stores(run):
    with run.writer(rank=0, nranks=1) as w:
        put_step(w, 0)
    drystone("derive", run.path, "speed", TEXTS["speed"], "--kind", "stored")
    run.refresh()
    u, v = flow(0)
    assert np.array_equal(run["speed"][0], np.sqrt(u * u + v * v))
    assert inputs_read(run, "speed", 0) == u.nbytes
