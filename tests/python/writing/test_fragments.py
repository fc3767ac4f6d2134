"""Declared fragments through a container, against NumPy."""

import itertools
import multiprocessing
import sys

import drystone as dry
import numpy as np
import pytest
from same_bits import same

TILES = """
param rows, cols = 2
const H = 6
const W = 5
dataset {
    var u[rows*H, cols*W] float32 fill -1
    var s[rows*H, cols*W] float64 steps
}
fragment tile(r, c) { var u[i:H, j:W] = u[i + H*r, j + W*c] }
fragment halo(r, c) { var u[i:H + 2, j:W + 2] = u[i + H*r - 1, j + W*c - 1] }
fragment ring(r, c) { var u[i:H + 2, j:W + 2] = u[i + H*r - 1 mod rows*H, j + W*c - 1 mod cols*W] }
fragment turned { var u[j:cols*W, i:rows*H] = u[i, j] }
fragment fortran { var u[i:rows*H, j:cols*W] col = u[i, j] }
fragment decimated { var u[i:4, j:5] = u[3*i + 1, 2*j] }
fragment output(r, c) { var s[i:H, j:W] = s[i + H*r, j + W*c] }
"""

CELLS = """
const NX = 6
const NY = 4
type Cell struct { kind int8; vel [3]float64; temp, pres float64; id int16 }
dataset { var cell[NX, NY] Cell }
fragment aos { var cell[i:NX, j:NY] = cell[i, j] }
fragment soa {
    var kind[i:NX, j:NY] = cell[i, j].kind
    var vel[i:NX, j:NY] = cell[i, j].vel
    var temp[i:NX, j:NY] col = cell[i, j].temp
    var pres[i:NX, j:NY] = cell[i, j].pres
    align 16
    var id[i:NX, j:NY] = cell[i, j].id
}
fragment plane { var plane[i:NX] = cell[i, 2].{temp, pres} }
fragment each { for s in 0..3 var v[i:NX, j:NY] = cell[i, j].vel[s] }
fragment vz { var vz[i:NX, j:NY] = cell[i, j].vel[2] }
fragment curve { var t[i:4, j:4] morton = cell[i, j].temp }
"""


@pytest.fixture
def tiles(tmp_path):
    with dry.create(tmp_path / "tiles.dry") as c:
        c.declare(TILES)
        yield c


@pytest.fixture
def cells(tmp_path):
    with dry.create(tmp_path / "cells.dry") as c:
        c.declare(CELLS)
        yield c


def whole(rows=12, cols=10):
    return np.arange(rows * cols, dtype="f4").reshape(rows, cols)


def records():
    dtype = np.dtype(
        [("kind", "i1"), ("vel", "f8", 3), ("temp", "f8"), ("pres", "f8"), ("id", "i2")], align=True
    )
    array = np.zeros((6, 4), dtype)
    for n, name in enumerate(dtype.names):
        array[name] = np.arange(array[name].size).reshape(array[name].shape) + 10 * n
    return array


def test_declaring_creates_ordinary_variables_and_keeps_the_text(tiles, tmp_path):
    assert list(tiles.variables) == ["s", "u"]
    assert tiles["u"].shape == (12, 10)
    assert tiles["u"].dtype == "f4"
    assert tiles["u"][0, 0] == -1
    assert tiles.datasets == [TILES]
    before = tiles.snapshot
    assert tiles.declare(TILES) == ["u", "s"]
    assert tiles.snapshot == before
    assert dry.open(tmp_path / "tiles.dry").fragment("turned").shape == (10, 12)


def test_tiles_that_were_written_are_read_in_any_other_layout(tiles):
    u = whole()
    for r, c in itertools.product(range(2), range(2)):
        tiles.fragment("tile", r=r, c=c).write(u[6 * r : 6 * r + 6, 5 * c : 5 * c + 5])
    np.testing.assert_array_equal(tiles["u"][...], u)
    np.testing.assert_array_equal(tiles.fragment("turned").read(), u.T)
    np.testing.assert_array_equal(tiles.fragment("decimated").read(), u[1::3, ::2])
    fortran = tiles.fragment("fortran").read()
    assert fortran.flags.f_contiguous
    np.testing.assert_array_equal(fortran, u)
    padded = np.pad(u, 1)
    periodic = np.pad(u, 1, mode="wrap")
    for r, c in itertools.product(range(2), range(2)):
        part = np.s_[6 * r : 6 * r + 8, 5 * c : 5 * c + 7]
        np.testing.assert_array_equal(tiles.fragment("halo", r=r, c=c).read(), padded[part])
        np.testing.assert_array_equal(tiles.fragment("ring", r=r, c=c).read(), periodic[part])


def _write_tile(path, rank):
    r, c = divmod(rank, 2)
    with dry.open(path, "r+") as container, container.writer(rank=rank, nranks=4) as w:
        tile = container.fragment("output", r=r, c=c)
        for step in range(2):
            with w.step(step):
                w.put_fragment(tile, np.full(tile.shape, 10 * step + rank, "f8"))


def test_processes_write_their_own_tiles_of_a_step(tiles, tmp_path):
    context = multiprocessing.get_context("spawn" if sys.platform == "darwin" else "fork")
    path = str(tmp_path / "tiles.dry")
    processes = [context.Process(target=_write_tile, args=(path, rank)) for rank in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    tiles.commit()
    expected = np.block(
        [[np.full((6, 5), 10), np.full((6, 5), 11)], [np.full((6, 5), 12), np.full((6, 5), 13)]]
    )
    np.testing.assert_array_equal(tiles["s"][1], expected)
    np.testing.assert_array_equal(tiles.fragment("output", r=1, c=0).read(step=0), np.full((6, 5), 2.0))


def test_members_of_records_come_as_columns_and_go_as_columns(cells):
    array = records()
    aos, soa = cells.fragment("aos"), cells.fragment("soa")
    assert aos.dtype == array.dtype
    aos.write(array)
    found = soa.read()
    assert list(found) == ["kind", "vel", "temp", "pres", "id"]
    for name, column in found.items():
        np.testing.assert_array_equal(column, array[name])
        assert np.shares_memory(column, found["kind"].base)
    assert found["temp"].strides == (8, 48)
    plane = cells.fragment("plane").read()
    assert plane.dtype.names == ("temp", "pres")
    np.testing.assert_array_equal(plane["pres"], array["pres"][:, 2])
    each = cells.fragment("each").read()
    assert cells.fragment("each").shape == each.shape
    np.testing.assert_array_equal(each, np.moveaxis(array["vel"], -1, 0))
    np.testing.assert_array_equal(cells.fragment("vz").read(), array["vel"][..., 2])
    soa.write({name: column + 1 for name, column in found.items()})
    for name in array.dtype.names:
        np.testing.assert_array_equal(cells["cell"][...][name], array[name] + 1)
    cells.fragment("each").write(-each)
    np.testing.assert_array_equal(cells["cell"]["vel"][...], -array["vel"])


def test_ranks_write_components_of_vectors_and_read_the_vectors(tmp_path):
    """Each of three writers has one component of every cell; a reader has whole cells. Coverage counts them."""
    with dry.create(tmp_path / "c.dry") as c:
        c.declare("""type Cell struct { vel [3]float64; spec [2, 2]float32; id int32 }
            dataset { var cell[6, 4] Cell steps }
            fragment component(r) { var v[i:6, j:4] = cell[i, j].vel[r] }
            fragment corner { var s[i:6, j:4] = cell[i, j].spec[1, 0] }
            fragment tail { var s[i:6, j:4, k:2] = cell[i, j].vel[k + 1] }
            fragment all { var c[i:6, j:4] = cell[i, j] }""")
        expected = np.zeros((6, 4), c["cell"].dtype)
        rng = np.random.default_rng(3)
        for r in range(3):
            f = c.fragment("component", r=r)
            expected["vel"][..., r] = rng.random((6, 4))
            with c.writer() as w, w.step(0):
                f.write(expected["vel"][..., r], w)
            c.commit()
            assert f.coverage(step=0).missing == 0
            assert c.fragment("all").coverage(step=0).missing == 24 * (8 if r < 2 else 5)
        corner = c.fragment("corner")
        assert corner.coverage(step=0).missing == 24
        expected["spec"][..., 1, 0] = 7
        with c.writer() as w, w.step(0):
            corner.write(expected["spec"][..., 1, 0], w)
        c.commit()
        assert corner.coverage(step=0).missing == 0
        same(c["cell"][0], expected)
        same(c.fragment("all").read(step=0), expected)
        same(c.fragment("tail").read(step=0), expected["vel"][..., 1:])


def test_an_array_along_a_curve_is_flat(cells):
    array = records()
    cells.fragment("aos").write(array)
    t = cells.fragment("curve").read()
    assert t.shape == (16,)
    np.testing.assert_array_equal(t[:4], array["temp"][:2, :2].ravel())


def test_the_callers_memory_is_filled(tiles):
    tiles.fragment("tile", r=0, c=0).write(np.ones((6, 5), "f4"))
    halo = tiles.fragment("halo", r=0, c=0)
    out = np.full((8, 7), 9, "f4")
    found = halo.read(out=out)
    assert np.shares_memory(found, out)
    assert (out[0] == 9).all(), "what lies outside is left alone"
    assert (out[1:-1, 1:-1][:5] == 1).all()
    assert out[7, 1] == -1, "unwritten cells have the fill value"
    for bad in [np.zeros((8, 6), "f4"), out[:, ::2], [1, 2]]:
        with pytest.raises(dry.InvalidArgumentError, match="bytes"):
            halo.read(out=bad)


def test_what_is_missing_is_reported(tiles):
    tile = tiles.fragment("tile", r=0, c=0)
    tile.write(np.ones((6, 5), "f4"))
    assert tile.coverage().complete
    report = tiles.fragment("halo", r=0, c=0).coverage()
    assert (report.wanted, report.covered, report.unmapped, report.missing) == (56, 30, 14, 12)
    cells = {cell for place in report.places for cell in itertools.product(*place.cells)}
    assert cells == {(i, j) for i in range(7) for j in range(6)} - {
        (i, j) for i in range(6) for j in range(5)
    }
    assert "30 of 56 values, 14 outside, 12 missing" in str(report)
    assert "straight into place" in tile.explain()
    assert "u" in str(tile)


def test_mistakes_are_explained(tiles, cells):
    with pytest.raises(dry.NotFoundError, match=r"there are: tile\(r, c\)"):
        tiles.fragment("tiles")
    with pytest.raises(dry.NotFoundError, match="did you mean `tile`"):
        tiles.fragment("tiel", r=1, c=1)
    with pytest.raises(dry.InvalidArgumentError, match="no value"):
        tiles.fragment("tile", r=1)
    with pytest.raises(dry.InvalidArgumentError, match="`k`, which is no parameter"):
        tiles.fragment("tile", r=1, c=1, k=3)
    with pytest.raises(dry.InvalidArgumentError, match="integer of 64 bits"):
        tiles.fragment("tile", r="a", c=1)
    tile = tiles.fragment("tile", r=0, c=0)
    with pytest.raises(dry.InvalidArgumentError, match="shape"):
        tile.write(np.ones((5, 6), "f4"))
    with pytest.raises(dry.InvalidArgumentError, match="holds float32, the array complex128"):
        tile.write(np.ones((6, 5), "c16"))
    with pytest.raises(dry.InvalidArgumentError, match="leave the step out"):
        tile.read(step=1)
    with pytest.raises(dry.InvalidArgumentError, match="inside a step"):
        tiles.fragment("output", r=0, c=0).write(np.ones((6, 5)))
    with pytest.raises(dry.InvalidArgumentError, match="twice"):
        _ring(tiles)
    with pytest.raises(dry.InvalidArgumentError, match="arrays kind, vel"):
        cells.fragment("soa").write({"kind": 1})
    with pytest.raises(dry.InvalidArgumentError, match="several arrays"):
        _ = cells.fragment("soa").shape
    with pytest.raises(dry.InvalidArgumentError, match="did you mean `float32`"):
        tiles.declare("dataset { var x[3] flaot32 }")
    with pytest.raises(dry.ConflictError, match="shape"):
        tiles.declare("dataset { var u[3] float32 fill -1 }")
    with pytest.raises(dry.ConflictError, match='"tile" is declared by another text'):
        tiles.declare("dataset { var y[3] int8 }\nfragment tile { var y[i:3] = y[i] }")


def _ring(container):
    container.declare(
        "dataset { var z[4] int8 }\nfragment around { var z[i:6] = z[i - 1 mod 4] }",
    )
    container.fragment("around").write(np.zeros(6, "i1"))


def test_parameters_are_given_when_declaring(tmp_path):
    with dry.create(tmp_path / "c.dry") as c:
        c.declare(TILES, rows=3)
        assert c["u"].shape == (18, 10)
        assert c.fragment("turned").shape == (10, 18)
        with pytest.raises(dry.InvalidArgumentError, match="cannot be 2"):
            c.fragment("turned", rows=2)


def test_a_snapshot_keeps_its_declarations(tiles):
    first = tiles.snapshot
    tiles.declare("dataset { var z[4] int8 }")
    assert len(tiles.datasets) == 2
    assert len(tiles.at(int(first)).datasets) == 1
