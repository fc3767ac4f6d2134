"""A cache folder for a far home: shared by processes, verified, never harmful; warm, pin, unpin."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import drystone as dry
import numpy as np
import pytest
from far_rig import Rig

URL = "s3://bucket/run.dry"
DATA = np.arange(4 * 256 * 256, dtype="f4").reshape(4, 256, 256)


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    rig = Rig()
    with dry.create(URL, storage_options=rig.options) as c:
        for name in ("T", "P"):
            c.create_variable(name, dtype="f4", shape=(256, 256), steps=True, chunks=(64, 64))
        with c.writer(rank=0, nranks=1) as w:
            for t in range(4):
                with w.step(t):
                    w.put("T", DATA[t])
                    w.put("P", -DATA[t])
    yield rig
    rig.close()


def opened(rig: Rig, cache: Any = None) -> dry.Container:
    return dry.open(URL, storage_options=rig.options, cache=cache)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_was_read_once_is_read_from_the_folder(rig: Rig, tmp_path: Path) -> None:
    with opened(rig, tmp_path / "cache") as c:
        assert np.array_equal(c["T"][1], DATA[1])
        first = c.metrics()
        assert first["home_bytes"] >= DATA[1].nbytes
        assert first["folder_bytes"] == 0
    with opened(rig, (tmp_path / "cache", 100 << 20)) as c:
        assert np.array_equal(c["T"][1], DATA[1])
        second = c.metrics()
        assert second["home_bytes"] == 0
        assert second["folder_bytes"] >= DATA[1].nbytes
        assert second["folder_hits"] > 0
        [row] = c.tiers
        assert row.path == str(tmp_path / "cache")
        assert row.nbytes > DATA[1].nbytes
        assert row.hits > 0


def test_two_processes_and_pickles_share_a_folder(rig: Rig, tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import sys, drystone as dry, numpy as np
        with dry.open({URL!r}) as c:
            assert np.array_equal(c["T"][2], np.arange(2 * 65536, 3 * 65536, dtype="f4").reshape(256, 256))
            print(c.metrics()["home_bytes"])
        """
    )
    environment = {
        **os.environ,
        **rig.environment,
        "DRYSTONE_CACHE": str(tmp_path),
        "AWS_REGION": "us-east-1",
    }
    runs = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [run.wait(timeout=60) for run in runs] == [0, 0]
    again = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert int(again.stdout) == 0
    with opened(rig, tmp_path) as c, pickle.loads(pickle.dumps(c)) as copy:
        assert np.array_equal(copy["T"][2], DATA[2])
        assert copy.metrics()["home_bytes"] == 0


def test_damage_in_the_folder_is_repaired_from_home(rig: Rig, tmp_path: Path) -> None:
    with opened(rig, tmp_path) as c:
        c.warm("T")
    for path in files(tmp_path):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)
    with opened(rig, tmp_path) as c:
        assert np.array_equal(c["T"][:], DATA)
        assert c.metrics()["folder_repairs"] > 0
    with opened(rig, tmp_path) as c:
        assert np.array_equal(c["T"][:], DATA)
        assert c.metrics()["folder_repairs"] == 0
        assert c.metrics()["home_bytes"] == 0


def test_warm_pin_and_unpin(rig: Rig, tmp_path: Path) -> None:
    with opened(rig, (tmp_path, 600_000)) as c:
        done = c.pin({"T": np.s_[0, 0:128]})
        assert done.held == done.wanted >= 128 * 256 * 4
        assert done.fetched > 0
        assert c.warm({"T": np.s_[0, 0:128]}).fetched == 0
        for t in range(4):
            assert np.array_equal(c["P"][t], -DATA[t])
        assert sum(path.stat().st_size for path in files(tmp_path)) <= 600_000
        before = c.metrics()["home_bytes"]
        assert np.array_equal(c["T"][0, 0:128], DATA[0, 0:128])
        assert c.metrics()["home_bytes"] == before
        c.unpin("T")
        assert not [path for path in files(tmp_path) if path.suffix == ".pin"]
        with pytest.raises(dry.InvalidArgumentError, match="lists"):
            c.warm({"T": np.s_[0, [1, 2]]})
        with pytest.raises(dry.NotFoundError):
            c.warm("X")
    with opened(rig) as c, pytest.raises(dry.InvalidArgumentError, match="without a cache"):
        c.warm()


def test_the_command_warms(rig: Rig, tmp_path: Path) -> None:
    environment = {**os.environ, **rig.environment, "AWS_REGION": "us-east-1"}
    command = [sys.executable, "-m", "drystone", "warm", URL, "T", "--cache", str(tmp_path), "--step", "1"]
    for extra, words in ((["--pin"], "in the cache"), ([], "0 B fetched"), (["--unpin"], "unpinned")):
        done = subprocess.run([*command, *extra], env=environment, capture_output=True, text=True, check=True)
        assert words in done.stdout, done
    with opened(rig, tmp_path) as c:
        assert np.array_equal(c["T"][1], DATA[1])
        assert c.metrics()["home_bytes"] == 0


def test_a_cache_that_cannot_be_made(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(dry.DrystoneError, match="cache"):
        opened(rig, tmp_path / "file" / "below")
    with pytest.raises(dry.InvalidArgumentError, match="drystone_cache_bytes"):
        dry.open(
            URL, storage_options={**rig.options, "drystone_cache": str(tmp_path), "drystone_cache_bytes": "x"}
        )
    monkeypatch.setenv("DRYSTONE_CACHE", str(tmp_path / "file" / "below"))
    with pytest.warns(dry.DrystoneWarning, match="cache"), opened(rig) as c:
        assert np.array_equal(c["T"][1], DATA[1])
    with opened(rig, False) as c:
        assert not c.tiers


def test_a_local_home_has_one_only_if_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "run.dry"
    with dry.create(home) as c:
        c["T"] = DATA
    monkeypatch.setenv("DRYSTONE_CACHE", str(tmp_path / "unused"))
    with dry.open(home) as c:
        assert np.array_equal(c["T"][:], DATA)
        assert not c.tiers
    assert not (tmp_path / "unused").exists()
    for _ in range(2):
        with dry.open(home, cache=tmp_path / "cache") as c:
            assert np.array_equal(c["T"][:], DATA)
    assert c.path == str(home)
    assert files(tmp_path / "cache")


def test_a_container_that_was_replaced_is_warmed_no_more(tmp_path: Path) -> None:
    """Symptom: CorruptError, as if bytes were damaged."""
    home = tmp_path / "run.dry"
    with dry.create(home) as c:
        c["T"] = np.zeros((1000, 1000))
    with dry.open(home, cache=tmp_path / "cache") as old:
        shutil.rmtree(home)
        for act in (old.warm, old.pin):
            with pytest.raises(dry.NotFoundError, match="was removed"):
                act("T")
        with dry.create(home) as c:
            c["other"] = DATA
        for act in (old.warm, old.pin):
            with pytest.raises(dry.ConflictError, match="another one"):
                act("T")


def test_pieces_are_fetched_ahead(rig: Rig, tmp_path: Path) -> None:
    with opened(rig, tmp_path) as c:
        for place, piece in c["T"].pieces(..., max_bytes=64 * 256 * 4):
            assert np.array_equal(piece, DATA[place])
        counts = c.metrics()
    assert counts["prefetch_used_bytes"] >= 0.95 * counts["prefetched_bytes"] > 0
    assert counts["home_bytes"] + counts["prefetched_bytes"] <= DATA.nbytes * 1.1


PUBLISHED = 2**32 - 1


def test_published_shards_are_cached_by_generation(rig: Rig, tmp_path: Path) -> None:
    url, cache = "s3://bucket/published.dry", tmp_path / "cache"

    def publish(c: dry.Container, data: np.ndarray) -> None:
        with c.writer(rank=0, nranks=1) as w:
            for t in range(2):
                with w.step(t, replace=True):
                    w.put("T", data[t])
        c.publish()

    def read() -> tuple[np.ndarray, dict[str, Any]]:
        with dry.open(url, storage_options=rig.options, cache=cache) as c:
            reading = c._handle.reading("T", None).by_way_of(PUBLISHED)
            found = [reading.read_box(t, (40, 30), (80, 14), None)[0].reshape(80, 14) for t in range(2)]
            return np.stack(found), c.metrics()

    box = np.s_[:2, 40:120, 30:44]
    with dry.create(url, storage_options=rig.options) as c:
        c.create_variable("T", dtype="f4", shape=(256, 256), steps=True, chunks=(64, 64))
        publish(c, DATA)
    found, first = read()
    assert np.array_equal(found, DATA[box])
    assert first["home_bytes"] > 0
    assert any(path.parent.name.startswith("zarr") for path in files(cache)), "units of shards"
    found, again = read()
    assert np.array_equal(found, DATA[box])
    assert again["home_bytes"] == 0
    with dry.open(url, "r+", storage_options=rig.options) as c:
        publish(c, -DATA)
    for _ in range(2):
        assert np.array_equal(read()[0], -DATA[box]), "the shards were replaced"
    for path in files(cache):
        content = bytearray(path.read_bytes())
        content[-1] ^= 16
        path.write_bytes(content)
    found, repaired = read()
    assert np.array_equal(found, -DATA[box])
    assert repaired["folder_repairs"] > 0


READS = """
import sys, threading, os
import drystone as dry
url, cache, endpoint, after = sys.argv[1:5]
threading.Timer(float(after), lambda: os._exit(9)).start()
options = dict(zip(sys.argv[5::2], sys.argv[6::2]))
while True:
    with dry.open(url, storage_options=options, cache=(cache, 700_000)) as c:
        for t in (0, 3, 1, 2):
            c["T"][t], c["P"][t]
"""


def test_killed_processes_leave_a_folder_that_others_use(rig: Rig, tmp_path: Path) -> None:
    options = [word for pair in rig.options.items() for word in pair]
    for after in (0.05, 0.2):
        words = [URL, str(tmp_path / "cache"), "", str(after), *options]
        running = [subprocess.Popen([sys.executable, "-c", READS, *words]) for _ in range(2)]
        assert [process.wait(timeout=60) for process in running] == [9, 9]
    with opened(rig, (tmp_path / "cache", 700_000)) as c:
        for t in range(4):
            assert np.array_equal(c["T"][t], DATA[t])
    sizes = [path.stat().st_size for path in files(tmp_path / "cache")]
    # Each process adds a sixteenth before it looks at what others added.
    assert sum(sizes) <= 700_000 * 5 // 4
