"""Statistics beside published shards describe the shards, follow them, and are trusted only beside them."""

import drystone as dry
import numpy as np
import pytest
from same_bits import commits_by_itself, random_array

DTYPES = ["?", "i1", "i8", "u2", "u8", "f2", "f4", "f8", "c8", "S5"]


def files(path, name):
    return sorted(p for p in (path / "zarr" / name / ".drystone/statistics").rglob("*") if p.is_file())


def ends(values):
    """Smallest and largest value that is not NaN, as drystone returns them."""
    if values.dtype.kind not in "biuf":
        return None, None
    there = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return (there.min(), there.max()) if there.size else (None, None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transform", [None, "zstd:1"])
def test_they_are_those_of_the_values_that_show(tmp_path, dtype, transform):
    rng = np.random.default_rng(11)
    dtype = np.dtype(dtype)
    with dry.create(tmp_path / "c.dry") as c:
        t = c.create_variable("t", dtype, shape=(13, 30), steps=True, transform=transform)
        with commits_by_itself(c) as w:
            for _ in range(2):
                with w.step():
                    w.put("t", random_array(rng, dtype, (13, 29)), offset=(0, 1))
            with w.step():
                w.put("t", random_array(rng, dtype, (2, 7)), offset=(11, 23))
        assert t.published_statistics(0) is None
        c.publish(progress=None, chunks={"t": (1, 4, 9)})
        for step in range(3):
            found = c["t"].published_statistics(step)
            values = c["t"][step]
            low, high = ends(values)
            assert found.chunks == 4 * 4
            assert found.values == values.size * (5 if dtype.kind == "S" else 1)
            if dtype.kind == "f":
                assert found.nans == np.isnan(values).sum()
            if low is None or np.isfinite(low):
                assert (found.min, found.max) == (low, high)
            cells = values.reshape(-1).view(np.uint8).reshape(values.size, dtype.itemsize)
            assert found.fills == (cells == 0).all(axis=1).sum()
        report = c.verify(values=True)
        assert report.ok, report.damage


def test_they_follow_their_shards_and_only_those_that_changed_are_written(tmp_path):
    path = tmp_path / "c.dry"
    with dry.create(path) as c:
        c.create_variable("t", "f4", shape=(8, 8), steps=True)
        w = c.writer(rank=0, nranks=1)
        for value in (1, 2):
            with w.step():
                w.put("t", np.full((8, 8), value, "f4"))
        c.publish(progress=None, chunks={"t": (1, 4, 4)}, memory=128 << 20)
        before = {p.name: (p.stat().st_ino, p.read_bytes()) for p in files(path, "t")}
        assert c["t"].published_statistics(1).max == 2
        old = c.snapshot
        # A value of a later commit counts only after it is published.
        with w.step(1):
            w.put("t", np.full((1, 1), 9, "f4"), offset=(2, 2))
        assert c["t"].published_statistics(1).max == 2
        c.publish(progress=None)
        found = c["t"].published_statistics(1)
        assert (found.max, found.min, found.fills) == (9, 2, 0)
        # The older snapshot's shard is gone, and so are its statistics.
        assert c.at(old)["t"].published_statistics(1) is None
        after = {p.name: (p.stat().st_ino, p.read_bytes()) for p in files(path, "t")}
        assert after.keys() == before.keys()
        # Lost or damaged statistics are made again; the shards stay unchanged.
        shards = {p: p.stat().st_ino for p in (path / "zarr/t/c").rglob("*") if p.is_file()}
        for number, one in enumerate(files(path, "t")):
            if number % 2:
                one.unlink()
            else:
                one.write_bytes(one.read_bytes()[:-1] + b"\0")
        assert c["t"].published_statistics(1) is None
        assert c.verify(values=True).ok
        c.publish(progress=None)
        assert {p.name: p.read_bytes() for p in files(path, "t")} == {
            n: data for n, (_, data) in after.items()
        }
        assert {p: p.stat().st_ino for p in (path / "zarr/t/c").rglob("*") if p.is_file()} == shards
        # Nothing of deleted variables stays.
        w.close()
        c.delete("t")
        c.publish(progress=None)
        assert not (path / "zarr/t").exists() or not files(path, "t")


def test_wrong_ones_are_found_by_verify(tmp_path):
    path = tmp_path / "c.dry"
    with dry.create(path) as c:
        for name in ("t", "u"):
            c.create_variable(name, "i4", shape=(6,), steps=True)
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("t", np.arange(6, dtype="i4"))
            w.put("u", np.arange(6, dtype="i4") + 1)
        c.publish(progress=None)
        (mine,), (other,) = files(path, "t"), files(path, "u")
        data = bytearray(other.read_bytes())
        data[8:32] = mine.read_bytes()[8:32]
        data[-4:] = crc32c(data[:-4]).to_bytes(4, "little")
        mine.write_bytes(data)
        report = c.verify()
        assert [d.variable for d in report.damage] == ["t"]
        assert "statistics" in report.damage[0].message


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 if crc & 1 else crc >> 1
    return crc ^ 0xFFFFFFFF


def test_a_search_reads_only_chunks_that_can_hold_such_values(tmp_path):
    values = np.arange(64 * 64 * 64, dtype="f4").reshape(64, 64, 64)
    values = np.ascontiguousarray(values.transpose(2, 1, 0))
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("t", "f4", shape=(64, 64, 64), steps=True)
        with c.writer(rank=0, nranks=1, layout="log") as w, w.step():
            w.put("t", values)
        wanted = np.argwhere((values >= 5000) & (values <= 5040))
        before = c["t"].value_range(5000, 5040, step=0)
        c.publish(progress=None, chunks={"t": (1, 64, 16, 2)})
        after = c["t"].value_range(5000, 5040, step=0)
        for found in (before, after):
            assert np.array_equal(found.coords, wanted)
        assert after.read_bytes < before.read_bytes / 4
        # Later blocks are searched directly.
        with c.writer(rank=0, nranks=1) as w, w.step(0):
            w.put("t", np.full((1, 2, 2), 5001, "f4"), offset=(3, 60, 60))
        values[3, 60:62, 60:62] = 5001
        found = c["t"].value_range(5000, 5040, step=0)
        assert np.array_equal(found.coords, np.argwhere((values >= 5000) & (values <= 5040)))
