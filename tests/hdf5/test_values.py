"""Values through the connector where a mistake would be silent: each compared with an array that NumPy keeps beside
it."""

from conftest import is_stub, program

MEMBERS = """
import sys, h5py, numpy as np
kind = np.dtype([("n", "i4"), ("s", h5py.string_dtype()), ("x", "f8")])
def check(d):
    assert [v["n"] for v in d[:]] == [7, 8, 9] and [v["s"] for v in d[:]] == [b"one", b"two", b"three"]
    assert [v["x"] for v in d[:]] == [0.5, 1.5, 2.5]
with h5py.File(sys.argv[1], "w") as f:
    d = f.create_dataset("d", 3, kind)
    d[:] = np.array([(1, "one", 0.5), (2, "two", 1.5), (3, "three", 2.5)], kind)
    d["n"] = np.array([7, 8, 9], "i4")
    check(d)
with h5py.File(sys.argv[1]) as f:
    check(f["d"])
"""

EXTENTS = """
import sys, h5py, numpy as np
rng = np.random.default_rng(5)
with h5py.File(sys.argv[1], "w") as f:
    d = f.create_dataset("d", (40, 900), "i4", chunks=(10, 100), maxshape=(None, None), fillvalue=-3)
    model = np.full((40, 900), -3, "i4")
    for i in range(60):
        what = rng.integers(4)
        rows, columns = model.shape
        if what == 0:
            new = int(rng.integers(5, 60)), int(rng.integers(400, 1200))
            kept = model[: new[0], : new[1]]
            model = np.full(new, -3, "i4")
            model[: kept.shape[0], : kept.shape[1]] = kept
            d.resize(new)
        elif what == 1:
            a, b = sorted(rng.integers(0, rows + 1, 2)); c, e = sorted(rng.integers(0, columns + 1, 2))
            model[a:b, c:e] = i
            d[a:b, c:e] = i
        elif what == 2:
            step = int(rng.integers(2, 5))
            model[::step, 1::step] = 1000 + i
            d[::step, 1::step] = 1000 + i
        elif rng.integers(2):
            f.flush()
        assert np.array_equal(d[...], model), i
with h5py.File(sys.argv[1]) as f:
    assert np.array_equal(f["d"][...], model)
    assert np.array_equal(f["d"][1:9:2, 3:300:7], model[1:9:2, 3:300:7])
"""

LARGE = """
import sys, h5py, numpy as np
model = np.arange(3_000_000, dtype="f8")
with h5py.File(sys.argv[1], "w") as f:
    d = f.create_dataset("d", model.shape, ">f8")
    for at in range(0, len(model), 100_000):
        d[at : at + 100_000] = model[at : at + 100_000]
    d[5:2_999_000] = model[5:2_999_000] + 1
    model[5:2_999_000] += 1
    d[[7, 70, 2_000_000]] = -1
    model[[7, 70, 2_000_000]] = -1
    assert np.array_equal(d[...], model)
with h5py.File(sys.argv[1]) as f:
    assert np.array_equal(f["d"][...], model) and f["d"].dtype == ">f8"
"""

CROWDED = """
import sys, h5py, numpy as np
model = np.zeros((400, 5000), "f8")
with h5py.File(sys.argv[1], "w") as f:
    d = f.create_dataset("d", model.shape, "f8")
    for i, (rows, columns) in enumerate([(slice(0, 10), slice(None)), (slice(10, 70), slice(None)), (slice(0, 400, 3), slice(0, 4000))]):
        d[rows, columns] = i + 1.5
        model[rows, columns] = i + 1.5
    assert np.array_equal(d[...], model)
with h5py.File(sys.argv[1]) as f:
    assert np.array_equal(f["d"][...], model)
"""


def test_members_that_are_not_written_keep_their_values(tmp_path, connector_environment):
    program(connector_environment, MEMBERS, tmp_path / "x.h5")
    assert is_stub(tmp_path / "x.h5")


def test_shrunk_and_grown_datasets_hold_what_numpy_says(tmp_path, connector_environment):
    program(connector_environment, EXTENTS, tmp_path / "x.h5")
    assert is_stub(tmp_path / "x.h5")


def test_what_the_background_writes_is_read_at_once_and_later(tmp_path, connector_environment):
    program(connector_environment, LARGE, tmp_path / "x.h5")
    assert is_stub(tmp_path / "x.h5")


def test_a_write_that_is_larger_than_the_buffer_waits_for_room_and_goes_on(tmp_path, connector_environment):
    crowded = connector_environment | {"HDF5_VOL_CONNECTOR": "drystone buffer=1"}
    program(crowded, CROWDED, tmp_path / "x.h5")
    assert is_stub(tmp_path / "x.h5")
