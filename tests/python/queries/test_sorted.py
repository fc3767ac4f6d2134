"""Sorted replicas of particles: ranges of one value, with all others, in few bytes, and always the same answers."""

import subprocess
import sys

import drystone as dry
import numpy as np
import pytest

N = 1 << 18
NAMES = ("energy", "x", "id", "v")


def particles(seed=1, count=N):
    rng = np.random.default_rng(seed)
    energy = rng.gamma(1.5, 1.0, count).astype("f4")
    energy[::1000] = np.nan
    energy[5::777] = 3.0  # equal values on both sides of fences
    return {
        "energy": energy,
        "x": rng.random(count).astype("f4"),
        "id": rng.permutation(count).astype("i8"),
        "v": rng.normal(size=count),
    }


def make(path, data):
    with dry.create(path) as c:
        for name, values in data.items():
            c.create_variable(f"p/{name}", values.dtype, values.shape)
            c[f"p/{name}"][:] = values
    return path


def asked(c, data, low, high=np.inf, group="p/"):
    """Compare every answer with NumPy's; returns the bytes read of key and payloads."""
    with np.errstate(invalid="ignore"):
        hits = (data["energy"] >= np.float32(low)) & (data["energy"] <= np.float32(high))
    text = f"{group}energy >= {float(np.float32(low))!r} & {group}energy <= {float(np.float32(high))!r}"
    q = c.query(text)
    assert q.count() == np.count_nonzero(hits)
    assert np.array_equal(q.coords()[:, 0], np.flatnonzero(hits))
    found = q.values(*(group + name for name in data))
    for name, values in zip(data, found, strict=True):
        assert np.array_equal(values, data[name][hits], equal_nan=name == "energy"), name
    for batch in q.batches(rows=1000, variables=[group + "x"]):
        assert batch.written[group + "x"] is None
    q = c.query(text)
    q.values(*(group + name for name in ("energy", "x", "id")))
    return q.report.bytes


@pytest.mark.parametrize(
    "quantiles", [(0.9999, 1), (0.5, 0.5001), (0.0, 0.0001), (0.98, 0.99), (0.1, 0.9), (0, 1)]
)
def test_a_range_of_the_key_reads_few_bytes_of_everything(tmp_path, quantiles):
    data = particles()
    with dry.open(make(tmp_path / "a.dry", data), "r+") as c:
        low, high = np.nanquantile(data["energy"], quantiles)
        before = asked(c, data, low, high)
        report = c.sort("p", by="energy")
        assert (report.blocks, report.indexed) == (1, 0)
        after = asked(c, data, low, high)
        if quantiles[1] - quantiles[0] < 1e-3:
            assert after * 10 < min(before, N * 16)
        else:
            assert after <= 1.1 * before + 65536
        assert asked(c, data, 3, 3) < N
        assert c.sort("p", by="energy").indexed == 1
        for name, values in data.items():
            assert np.array_equal(c[f"p/{name}"][:], values, equal_nan=True)
        assert c.verify()
        assert c.drop_sort("p", by="energy") == 1
        asked(c, data, low, high)
        c.gc(keep=1)
        assert asked(c, data, low, high) == before


def test_what_is_written_later_wins(tmp_path):
    data = particles()
    with dry.open(make(tmp_path / "a.dry", data), "r+") as c:
        c.sort("p", by="energy")
        new = particles(2)
        c["p/x"][1000:9000] = data["x"][1000:9000] = new["x"][1000:9000]  # a partial payload
        asked(c, data, 6)
        c["p/energy"][5000:200_000] = data["energy"][5000:200_000] = new["energy"][5000:200_000]
        asked(c, data, 6)
        c["p/id"][:] = data["id"][:] = new["id"]
        asked(c, data, 6)
        c.sort("p", by="energy")
        asked(c, data, 6)
        assert c.verify()


def test_members_of_records_are_sorted_step_by_step(tmp_path):
    dtype = np.dtype([("energy", "f4"), ("x", "f4"), ("id", "i8"), ("v", "f4", 3)])
    steps = []
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("P", dtype, (N // 2,), steps=True)
        with c.writer(rank=0, nranks=1) as w:
            for step in range(3):
                data = particles(step, N // 2)
                records = np.zeros(N // 2, dtype)
                data["v"] = data["v"].astype("f4")[:, None] + np.arange(3, dtype="f4")
                for name in NAMES:
                    records[name] = data[name]
                steps.append(data)
                with w.step():
                    w.put("P", records[: N // 4], offset=(0,))
                    w.put("P", records[N // 4 :], offset=(N // 4,))
        assert c.sort("P", by="energy").blocks == 6
        for step, data in enumerate(steps):
            with np.errstate(invalid="ignore"):
                hits = data["energy"] > 9
            q = c.query("P.energy > 9", steps=step)
            values = q.values("P.x", "P.id", "P.v", "P.energy")
            for name, found in zip(("x", "id", "v", "energy"), values, strict=True):
                assert np.array_equal(found, data[name][hits]), name
            assert q.report.bytes < N // 2 * 24 / 8
            strided = c.query("P.energy > 9", selection=(slice(3, None, 7),), steps=step)
            assert np.array_equal(strided.values("P.x"), data["x"][3::7][hits[3::7]])
        assert c.verify()


@pytest.mark.parametrize("lost", [False, True])
def test_a_damaged_or_lost_replica_is_a_scan_with_a_warning(tmp_path, lost):
    data = particles()
    path = make(tmp_path / "a.dry", data)
    segments = set((path / "log").glob("*.seg"))
    with dry.open(path, "r+") as c:
        c.sort("p", by="energy")
    (log,) = set((path / "log").glob("*.seg")) - segments
    if lost:
        log.unlink()
        with pytest.warns(UserWarning, match="is not whole"):
            c = dry.open(path, "r+")
    else:
        damaged = bytearray(log.read_bytes())
        damaged[4096:-64:4096] = bytes(byte ^ 0xFF for byte in damaged[4096:-64:4096])
        log.write_bytes(damaged)
        c = dry.open(path, "r+")
    with c:
        with pytest.warns(UserWarning, match="is left out"):
            asked(c, data, 8)
        assert c.drop_sort("p", by="energy") == 1
        assert c.sort("p", by="energy").blocks == 1
        assert asked(c, data, 8) < N


def test_sorted_and_binned_keys_answer_alike(tmp_path):
    data = particles()
    with dry.open(make(tmp_path / "a.dry", data), "r+") as c:
        c.index("p/energy")
        asked(c, data, 7)
        c.sort("p", by="energy")
        asked(c, data, 7)
        assert c.drop_index("p/energy") == 1
        asked(c, data, 7)
        assert c.query("p/energy > 7 & p/x < 0.5").count() == np.count_nonzero(
            (np.nan_to_num(data["energy"]) > 7) & (data["x"] < 0.5)
        )


def test_mistakes_are_named(tmp_path):
    with dry.open(make(tmp_path / "a.dry", particles(count=N // 4)), "r+") as c:
        c.create_variable("grid", "f4", (8, 8))
        c.create_variable("name", "S4", (8,))
        with pytest.raises(dry.NotFoundError, match="energy, "):
            c.sort("p", by="enrgy")
        with pytest.raises(dry.NotFoundError):
            c.sort("q", by="energy")
        with pytest.raises(dry.InvalidArgumentError, match="dimensions"):
            c.sort("", by="grid")
        with pytest.raises(dry.InvalidArgumentError, match="integers or floats"):
            c.sort("", by="name")
        with pytest.raises(dry.CancelledError):
            c.sort("p", by="energy", progress=lambda done, total: False)
        assert c.sort("p", by="energy").blocks == 1


def test_the_command_sorts(tmp_path):
    path = make(tmp_path / "a.dry", particles(count=N // 4))

    def run(*args):
        command = [sys.executable, "-m", "drystone", "sort", path, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("p", "--by", "energy")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 block sorted")
    assert "1 block" in run("p", "--by", "energy", "--drop").stdout
    assert run("p", "--by", "nothing").returncode == 3


def test_a_variable_that_is_no_record_says_what_to_sort(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        c["e"] = np.arange(4.0)
        with pytest.raises(dry.InvalidArgumentError, match='"e" has no members'):
            c.sort("e", by="e")
