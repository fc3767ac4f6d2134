"""The worked examples of the language through a container: what one layout writes, the others read, as NumPy would."""

import drystone as dry
import numpy as np
import pytest


@pytest.fixture
def declare(tmp_path):
    with dry.create(tmp_path / "c.dry") as c:

        def declared(text, **params):
            c.declare(text, **params)
            return c

        yield declared


def test_two_boxes_share_what_overlaps(declare):
    c = declare("""
        dataset { var data[800, 800] float64 fill -1 }
        fragment frag0 { var ds[i:100, j:100] = data[i, j] }
        fragment frag1 { var a[i:500, j:600] = data[i + 50, j + 30] }
    """)
    a = np.random.default_rng(1).random((500, 600))
    c.fragment("frag1").write(a)
    ds = c.fragment("frag0").read()
    np.testing.assert_array_equal(ds[50:, 30:], a[:50, :70])
    assert (ds[:50] == -1).all()
    assert (ds[:, :30] == -1).all()
    assert c.fragment("frag0").coverage().covered == 50 * 70


def test_an_array_of_structs_becomes_plain_arrays(declare):
    c = declare("""
        const N = 1000
        type P struct { x, y, z float32; id int64 }
        dataset { var p[N] P }
        fragment aos { var p[i:N] = p[i] }
        fragment soa { var x[i:N] = p[i].x; var id[i:N] = p[i].id }
    """)
    aos = c.fragment("aos")
    assert aos.dtype.itemsize == 24
    p = np.zeros(1000, aos.dtype)
    p["x"], p["y"], p["id"] = np.arange(1000), -1, np.arange(1000)[::-1]
    aos.write(p)
    soa = c.fragment("soa").read()
    np.testing.assert_array_equal(soa["x"], p["x"])
    np.testing.assert_array_equal(soa["id"], p["id"])
    c.fragment("soa").write({"x": soa["x"] * 2, "id": soa["id"] + 1})
    np.testing.assert_array_equal(c["p"]["x"][...], p["x"] * 2)
    np.testing.assert_array_equal(c["p"]["y"][...], p["y"])


@pytest.mark.parametrize("periodic", [False, True])
def test_blocks_of_a_decomposition_come_with_a_halo(declare, periodic):
    end = " mod {}*n" if periodic else ""
    c = declare(f"""
        param px, py, pz = 2
        const n = 4
        dataset {{ var u[px*n, py*n, pz*n] float32 transform "zstd:1" }}
        fragment own(r) {{ var u[i:n, j:n, k:n] = u[i + n*(r/(py*pz)), j + n*(r/pz%py), k + n*(r%pz)] }}
        fragment halo(r) {{ var u[i:n + 2, j:n + 2, k:n + 2] =
            u[i + n*(r/(py*pz)) - 1{end.format("px")}, j + n*(r/pz%py) - 1{end.format("py")}, k + n*(r%pz) - 1{end.format("pz")}] }}
    """)
    u = np.arange(512, dtype="f4").reshape(8, 8, 8)
    corners = [tuple(4 * n for n in np.unravel_index(r, (2, 2, 2))) for r in range(8)]
    for r, (x, y, z) in enumerate(corners):
        c.fragment("own", r=r).write(u[x : x + 4, y : y + 4, z : z + 4])
    around = np.pad(u, 1, mode="wrap" if periodic else "constant")
    for r, (x, y, z) in enumerate(corners):
        halo = c.fragment("halo", r=r)
        np.testing.assert_array_equal(halo.read(), around[x : x + 6, y : y + 6, z : z + 6])
        assert halo.coverage().unmapped == (0 if periodic else 216 - 125)


def test_decimation_and_its_inverse(declare):
    c = declare("""
        dataset { var data[100, 100] int32; var c[25] int32 }
        fragment coarse { var c[i:25, j:25] = data[4*i + 2, 4*j + 2] }
        fragment fine { var f[i:100] = c[i/4] }
        fragment whole { var data[i:100, j:100] = data[i, j]; var c[i:25] = c[i] }
    """)
    data = np.arange(10000, dtype="i4").reshape(100, 100)
    c.fragment("whole").write({"data": data, "c": np.arange(25, dtype="i4") + 1})
    np.testing.assert_array_equal(c.fragment("coarse").read(), data[2::4, 2::4])
    fine = c.fragment("fine").read(out=np.full(100, -7, "i4"))
    np.testing.assert_array_equal(fine[::4], np.arange(25) + 1)
    assert (fine.reshape(25, 4)[:, 1:] == -7).all()
    c.fragment("coarse").write(np.zeros((25, 25), "i4"))
    data[2::4, 2::4] = 0
    np.testing.assert_array_equal(c["data"][...], data)


def test_a_transposed_array_and_one_in_column_order_are_the_same_bytes(declare):
    c = declare("""
        dataset { var data[30, 20] float64 }
        fragment turned { var t[i:20, j:30] = data[j, i] }
        fragment fortran { var t[i:30, j:20] col = data[i, j] }
    """)
    data = np.random.default_rng(2).random((30, 20))
    c.fragment("fortran").write(data)
    turned = c.fragment("turned").read()
    np.testing.assert_array_equal(turned, data.T)
    assert turned.base.tobytes() == c.fragment("fortran").read().base.tobytes()


def test_slices_members_and_member_arrays(declare):
    c = declare("""
        const NX = 6
        const NY = 5
        type Cell struct { vel [3]float64; spec [9]float32 }
        type Air struct { temp, pres float64; wet bool }
        dataset { var cell[NX, NY] Cell; var T[NX, 20, NY] Air }
        fragment all { var cell[i:NX, j:NY] = cell[i, j]; var T[i:NX, j:20, k:NY] = T[i, j, k] }
        fragment plane { var plane[i:NX, k:NY] = T[i, 17, k].{pres, temp} }
        fragment some { var vz[i:NX, j:NY] = cell[i, j].vel[2]; var co2[i:NX, j:NY] = cell[i, j].spec[4] }
    """)
    arrays = c.fragment("all").arrays(np.zeros(c.fragment("all").nbytes, "u1"))
    assert arrays["cell"].dtype.itemsize == 64
    rng = np.random.default_rng(3)
    for array in arrays.values():
        for name in array.dtype.names:
            array[name] = rng.integers(0, 2, array[name].shape)
    c.fragment("all").write(arrays)
    plane = c.fragment("plane").read()
    assert plane.dtype.names == ("pres", "temp")
    np.testing.assert_array_equal(plane["temp"], arrays["T"]["temp"][:, 17])
    some = c.fragment("some").read()
    np.testing.assert_array_equal(some["vz"], arrays["cell"]["vel"][..., 2])
    np.testing.assert_array_equal(some["co2"], arrays["cell"]["spec"][..., 4])


def test_stripes_and_a_replica(declare):
    c = declare("""
        const M = 4096
        const N = 30
        dataset { var data[M, N] float64 }
        fragment stripe(r) default { align 4096; var d[i:1024, j:N] = data[i + 1024*r, j] }
        fragment columns(r) replica(1) { var d[i:M, j:10] col = data[i, j + 10*r] }
    """)
    data = np.random.default_rng(4).random((4096, 30))
    for r in range(4):
        c.fragment("stripe", r=r).write(data[1024 * r : 1024 * (r + 1)])
    for r in range(3):
        columns = c.fragment("columns", r=r)
        np.testing.assert_array_equal(columns.read(), data[:, 10 * r : 10 * r + 10])
        assert columns.coverage().complete
