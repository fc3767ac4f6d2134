"""Indexes added after writing: the same answers with fewer bytes, whatever happens to the index."""

import json
import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

N = 1 << 18


def energies(seed=1):
    array = np.random.default_rng(seed).gamma(1.5, 1.0, N).astype("f4")
    array[::1000] = np.nan
    return array


def make(path, array, **options):
    with dry.create(path) as c:
        c.create_variable("e", "f4", array.shape, chunks=(1 << 16,), **options)
        c["e"][:] = array
    return path


def asked(c, array, least):
    q = c.query(f"e >= {float(least)!r}")
    with np.errstate(invalid="ignore"):
        hits = array >= np.float32(least)
    assert q.count() == np.count_nonzero(hits)
    assert np.array_equal(q.coords()[:, 0], np.flatnonzero(hits))
    values = q.values("e")
    assert np.array_equal(values, array[hits])
    q = c.query(f"e >= {float(least)!r}")
    q.count()
    return q.report.bytes


@pytest.mark.parametrize("transform", [None, "zstd:1"])
def test_an_index_after_the_fact_gives_the_same_answers_in_fewer_bytes(tmp_path, transform):
    array = energies()
    path = make(tmp_path / "a.dry", array, transform=transform)
    least = np.nanquantile(array, 0.9999)
    with dry.open(path, "r+") as c:
        before = asked(c, array, least)
        report = c.index("e")
        assert (report.blocks, report.indexed) == (1, 0)
        assert report.decoded_nbytes == array.nbytes
        assert 0 < report.nbytes < 1.35 * array.nbytes
        assert report.snapshot == int(c.snapshot)
        after = asked(c, array, least)
        assert after * 4 < before
        again = c.index("e")
        assert (again.blocks, again.indexed) == (0, 1)
    with dry.open(path) as c:
        assert asked(c, array, least) == after
        assert asked(c, array, np.nanquantile(array, 0.3)) <= 1.1 * before
        assert np.array_equal(c["e"][:], array, equal_nan=True)
        assert c.verify()


def test_an_index_hides_nothing_and_is_hidden_with_its_block(tmp_path):
    array = energies()
    path = make(tmp_path / "a.dry", array)
    with dry.open(path, "r+") as c:
        old = int(c.snapshot)
        c["e"][1000:90_000] = array[1000:90_000] = energies(2)[1000:90_000]
        c.index("e")
        # Data written after the index is newer than both.
        c["e"][5:200_000:1] = array[5:200_000] = energies(3)[5:200_000]
        least = np.nanquantile(array, 0.999)
        asked(c, array, least)
        assert c.index("e").blocks == 1
        asked(c, array, least)
        assert c.verify()
        assert c.at(old).query(f"e >= {float(least)!r}").count() >= 0
        c.gc(keep=1)
        asked(c, array, least)
        assert c.verify()


def test_steps_and_members_are_indexed(tmp_path):
    dtype = np.dtype([("e", "f4"), ("id", "i8"), ("name", "S4")])
    rng = np.random.default_rng(5)
    steps = [np.zeros(N // 4, dtype) for _ in range(3)]
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("P", dtype, (N // 4,), steps=True)
        with c.writer(rank=0, nranks=1) as w:
            for particles in steps:
                particles["e"] = rng.gamma(1.5, 1.0, N // 4)
                particles["id"] = rng.permutation(N // 4)
                with w.step():
                    w.put("P", particles)
        report = c.index("P.e")
        assert report.blocks == 3
        assert c.index("P").blocks == 3  # the ids; texts have no bins
        for step, particles in enumerate(steps):
            q = c.query("P.e > 9 & P.id < 60000", steps=step)
            assert q.count() == np.count_nonzero((particles["e"] > 9) & (particles["id"] < 60000))
        assert c.verify()
        with pytest.raises(dry.InvalidArgumentError, match="integers and floats"):
            c.index("P.name")


def flip(path: Path, needle: bytes | None = None):
    """Damage the payloads of the newest log but not its header."""
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data) - 64, 4096):
        data[at] ^= 0xFF
    path.write_bytes(bytes(data))


def test_a_damaged_index_is_a_scan_with_a_warning(tmp_path):
    array = energies()
    path = make(tmp_path / "a.dry", array)
    segments = set((path / "log").glob("*.seg"))
    with dry.open(path, "r+") as c:
        c.index("e")
    (index,) = set((path / "log").glob("*.seg")) - segments
    flip(index)
    least = np.nanquantile(array, 0.9999)
    with dry.open(path, "r+") as c:
        with pytest.warns(UserWarning, match='index of "e" is left out'):
            asked(c, array, least)
        assert np.array_equal(c["e"][:], array, equal_nan=True)
        assert not c.verify()
        assert c.drop_index("e") == 1
        assert c.verify()
        assert c.index("e").blocks == 1
        asked(c, array, least)


def test_a_lost_index_is_a_scan(tmp_path):
    array = energies()
    path = make(tmp_path / "a.dry", array)
    segments = set((path / "log").glob("*.seg"))
    with dry.open(path, "r+") as c:
        c.index("e")
    (index,) = set((path / "log").glob("*.seg")) - segments
    index.unlink()
    with pytest.warns(UserWarning, match="is not whole"):
        c = dry.open(path, "r+")
    with c:
        assert np.array_equal(c["e"][:], array, equal_nan=True)
        with pytest.warns(UserWarning, match='index of "e" is left out'):
            asked(c, array, np.nanquantile(array, 0.99))
        assert c.drop_index("e") == 1
        assert c.index("e").blocks == 1
        asked(c, array, np.nanquantile(array, 0.99))


def test_a_container_with_tiers_is_not_indexed(tmp_path):
    path = tmp_path / "a.dry"
    with dry.create(path, tiers=[tmp_path / "near"]) as c:
        c["e"] = energies()
        with pytest.raises(dry.UnsupportedError, match="open it without tiers"):
            c.index("e")
    with dry.open(path, "r+") as c:
        assert c.index("e").blocks == 1


def test_two_concurrent_index_calls_make_one_index(tmp_path):
    array = energies()
    path = make(tmp_path / "a.dry", array)
    with dry.open(path, "r+") as a, dry.open(path, "r+") as b:
        met = []

        def progress(done, total):
            if not met:
                met.append(b.index("e").blocks)

        assert a.index("e", progress=progress).blocks == 0
        assert met == [1]
        assert a.index("e").indexed == 1
        asked(a, array, 5)


def test_mistakes_are_named(tmp_path):
    path = make(tmp_path / "a.dry", energies())
    with dry.open(path, "r+") as c:
        c.create_variable("small", "f4", (10,))
        c["small"][:] = 1
        assert c.index("small").blocks == 0
        assert c.index("e", kind="zones").blocks == 0
        with pytest.raises(dry.InvalidArgumentError, match="bins"):
            c.index("e", kind="tree")
        with pytest.raises(dry.NotFoundError):
            c.index("f")
        with pytest.raises(dry.CancelledError):
            c.index("e", progress=lambda done, total: False)
        assert c.index("e").blocks == 1
    with dry.open(path) as c, pytest.raises(dry.DrystoneError):
        c.index("e")


@pytest.mark.parametrize("dtype", [str, "bool", "c8", "S4", np.dtype([("name", "S4"), ("on", "bool")])])
def test_bins_of_values_without_order_are_refused(tmp_path, dtype):
    with dry.create(tmp_path / "a.dry") as c, pytest.raises(dry.InvalidArgumentError, match="bins are for"):
        c.create_variable("t", dtype, (10,), index="bins")


def test_an_index_is_left_out_where_compressed_values_are_shorter(tmp_path):
    """Symptom: with an index, a query read many times the bytes of all values. Cause: the index was compared with the
    decoded values."""
    array = np.repeat(np.arange(N // 1024), 1024).astype("f4")
    path = make(tmp_path / "a.dry", array, transform="shuffle,zstd:3")
    with dry.open(path, "r+") as c:
        plain = asked(c, array, 100)
        c.index("e")
        assert plain < 1024
        assert asked(c, array, 100) <= plain + 1024, "what describes the index"


def test_the_command_indexes(tmp_path):
    path = make(tmp_path / "a.dry", energies())

    def run(*args):
        return subprocess.run(
            [sys.executable, "-m", "drystone", "index", path, *args],
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("e", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["blocks"] == 1
    assert "0 blocks indexed" in run("e").stdout
    assert "1 block" in run("e", "--drop").stdout
    assert run("nothing").returncode == 3
    assert run("e", "--kind", "tree").returncode == 2
