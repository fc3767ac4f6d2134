"""Descriptions of containers and variables in numbers: files, uncommitted data, bytes, statistics."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest


@pytest.fixture
def c(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        yield c


def put(c, name, *blocks):
    with c.writer() as w:
        for block, offset in blocks:
            w.put(name, block, offset=offset)
    c.commit()


def test_a_container_tells_its_files_and_writers(c):
    c.create_variable("a", "f4", (64, 64))
    put(c, "a", (np.ones((64, 64), "f4"), (0, 0)))
    found = c.describe()
    on_disk = [file for file in Path(c.path).rglob("*") if file.is_file()]
    assert found.nbytes == sum(file.stat().st_size for file in on_disk)
    assert sum(files.number for files in found.files.values()) == len(on_disk)
    assert [(w.state, w.parts) for w in found.writers] == [("closed", 1)]
    assert found.entries == 1
    assert found.backlog == "nothing waits"


def test_uncommitted_data_is_reported(c):
    c.create_variable("a", "f4", (4,), steps=True)
    with c.writer(rank=0, nranks=2) as one, c.writer(rank=1, nranks=2) as two:
        for step in range(2):
            with one.step(step):
                one.put("a", np.ones(2, "f4"))
        with two.step(0):
            two.put("a", np.ones(2, "f4"), offset=2)
        found = c.describe()
        assert found.waiting == (0,)
        assert [(step.step, step.missing) for step in found.incomplete] == [(1, (1,))]
        assert "1 complete step not committed (0)" in found.backlog
        assert "step 1 of run 0 is not visible" in found.backlog
        with two.step(1):
            two.put("a", np.ones(2, "f4"), offset=2)
        c.commit()
    assert c.describe().waiting == ()


def test_a_step_that_two_generations_of_ranks_closed_names_the_remedy(c):
    # Symptom: "some have not closed it: " followed by nothing, for a step that 7 of 8 ranks and 4 ranks of the same
    # run had closed.
    c.create_variable("a", "f4", (8,), steps=True)
    first = [c.writer(rank=rank, nranks=8) for rank in range(8)]
    second = [c.writer(rank=rank, nranks=4) for rank in range(4)]
    for rank, w in enumerate(first):
        if rank != 3:  # which was killed
            with w.step(0):
                w.put("a", np.ones(1, "f4"), offset=rank)
    for rank, w in enumerate(second):
        with w.step(0):
            w.put("a", np.full(2, 2, "f4"), offset=2 * rank)
    found = c.describe()
    assert found.waiting == ()
    (step,) = found.incomplete
    assert (step.step, step.missing) == (0, ())
    assert "writers of different attempts closed it" in str(step)
    assert "recover() settles it" in found.backlog
    assert "not closed it: " not in found.backlog
    with pytest.raises(dry.ConflictError, match=r"disagree on the number of ranks .*recover"):
        c.commit()
    c.recover(discard=True)
    assert c.describe().incomplete == ()
    for w in (*first, *second):
        with contextlib.suppress(dry.DrystoneError):
            w.close()


def test_usage_counts_blocks_bytes_and_chains(c):
    c.create_variable("g/raw", "f8", (100, 100))
    c.create_variable("packed", "i4", (100, 100), transform="shuffle,zstd:1", chunks=(50, 50))
    put(c, "g/raw", (np.ones((60, 100)), (0, 0)), (np.ones((60, 100)), (40, 0)))
    put(c, "packed", (np.zeros((100, 100), "i4"), (0, 0)))
    usage = c.usage()
    assert set(usage) == {"g/raw", "packed"}
    assert (usage["g/raw"].blocks, usage["g/raw"].decoded) == (2, 2 * 60 * 100 * 8)
    assert usage["g/raw"].transforms == ("identity",)
    assert usage["g/raw"].ratio == 1
    assert usage["packed"].subchunks == 4
    assert usage["packed"].transforms == ("shuffle,zstd:1",)
    assert usage["packed"].ratio > 20


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i2", "u8", "i8"])
def test_stored_statistics_are_those_of_the_values(c, dtype):
    rng = np.random.default_rng(7)
    values = (rng.normal(100, 30, (128, 128)).clip(0, 250)).astype(dtype)
    c.create_variable("v", dtype, (128, 128), transform="zstd:1", chunks=(64, 64))
    put(c, "v", (values, (0, 0)))
    found = c["v"].statistics()
    assert (found.min, found.max) == (values.min(), values.max())
    assert (found.blocks, found.cells, found.nans) == (1, values.size, 0)
    assert found.counts.sum() == values.size
    assert 2 <= len(found.counts) <= 32
    inside = [
        ((low <= values) & (values < high)).sum()
        for low, high in zip(found.edges, found.edges[1:], strict=False)
    ]
    assert inside == found.counts.tolist()


def test_statistics_of_steps_members_nans_and_nothing(c):
    T = c.create_variable("t", "f4", (64, 64), steps=True, transform="zstd:1")
    c.create_variable("r", [("x", "f4"), ("n", "i4")], (8,))
    values = np.arange(4096, dtype="f4").reshape(64, 64)
    values[0, :3] = np.nan
    values[1, 0], values[1, 1] = np.inf, -np.inf
    with c.writer(rank=0, nranks=1) as w, w.step(4):
        w.put("t", values)
    found = T.statistics(4)
    assert (found.nans, found.infinities) == (3, (1, 1))
    assert found.counts.sum() == 4096 - 5
    with pytest.raises(dry.InvalidArgumentError, match="say which"):
        T.statistics()
    with pytest.raises(dry.InvalidArgumentError, match="member"):
        c["r"].statistics()
    none = c["r"]["x"].statistics()
    assert (none.blocks, none.cells, none.min, none.counts) == (0, 0, None, None)
    record = np.zeros(8, c["r"].dtype)
    record["n"] = np.arange(8)
    put(c, "r", (record, 0))
    assert (c["r"]["n"].statistics().min, c["r"]["n"].statistics().max) == (0, 7)


def test_statistics_are_read_from_disk_as_they_are_checked(c):
    """A histogram changed on disk is reported as damage, and not as another histogram."""
    c.create_variable("v", "f4", (64, 64), transform="zstd:1")
    put(c, "v", (np.random.default_rng(0).random((64, 64), "f4"), (0, 0)))
    key, _, end = c["v"].blocks()[0].place
    segment = Path(c.path) / key
    data = bytearray(segment.read_bytes())
    data[end - 1] ^= 1
    segment.write_bytes(data)
    with dry.open(c.path) as again, pytest.raises(dry.CorruptError, match="damaged"):
        again["v"].statistics()


def test_a_block_tells_where_its_bytes_are(c):
    c.create_variable("v", "f4", (32, 32))
    values = np.random.default_rng(0).random((32, 32), "f4")
    put(c, "v", (values[:16], (0, 0)), (values[16:], (16, 0)))
    for block, part in zip(c["v"].blocks(), (values[:16], values[16:]), strict=True):
        key, start, end = block.place
        assert part.tobytes() in (Path(c.path) / key).read_bytes()[start:end]


@pytest.mark.filterwarnings("ignore::drystone.DrystoneWarning")
def test_notebooks_show_layout_sizes_compression_and_what_waits(c):
    c.create_variable("g/v", "f4", (64, 64), steps=True, transform="shuffle,zstd:1", chunks=(32, 32))
    with c.writer(rank=0, nranks=2) as w, w.step(0):
        w.put("g/v", np.zeros((64, 64), "f4"))
    with c.writer() as w, w.step(1):
        w.put("g/v", np.zeros((64, 64), "f4"))
    c.commit()
    shown = c._repr_html_()
    for text in ("on disk", "times smaller", "waits in the log", "not visible", "blocks", "ratio"):
        assert text in shown
    shown = c["g/v"]._repr_html_()
    for text in ("1 block of 4 subchunks", "shuffle,zstd:1", "times smaller"):
        assert text in shown
    assert "ratio" in c["g"]._repr_html_()
    c.link("h", "g")
    assert list(c.usage()) == ["g/v"]
    assert "1 block of 4 subchunks" in c["h/v"]._repr_html_(), "it was left out of what a link names"


def test_the_package_contains_the_page(tmp_path):
    """A part that the package was built without does not exist where the package is installed."""
    code = "import drystone, pathlib; print(*sorted(p.name for p in (pathlib.Path(drystone.__file__).parent / 'view/page').iterdir()))"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=True
    )
    assert {"index.html", "main.js", "style.css", "icon.svg"} <= set(said.stdout.split())


@pytest.mark.parametrize("transform", [None, "shuffle,zstd:1"])
def test_statistics_within_a_box_bound_its_values(tmp_path, transform):
    random = np.random.default_rng(3)
    values = random.normal(size=(64, 128)).cumsum(0).astype("f4")
    with dry.create(tmp_path / "run.dry") as c:
        T = c.create_variable("T", "f4", (64, 128), chunks=(16, 32), transform=transform, steps=True)
        with c.writer(rank=0, nranks=1) as w, w.step(0):
            w.put("T", values[:, :64], offset=(0, 0))
            w.put("T", values[:, 64:], offset=(0, 64))
        c.refresh()
        whole = T.statistics(0)
        for _ in range(200):
            lo = random.integers(0, (64, 128))
            hi = random.integers(lo + 1, (65, 129))
            box = tuple(slice(int(a), int(b)) for a, b in zip(lo, hi, strict=True))
            found = T.statistics(0, box)
            assert found.min <= values[box].min()
            assert values[box].max() <= found.max
            assert values[box].size <= found.cells <= whole.cells
            assert whole.min <= found.min <= found.max <= whole.max
        exact = T.statistics(0, np.s_[16:32, 32:96])
        part = values[16:32, 32:96]
        assert (exact.cells, exact.blocks, exact.min, exact.max) == (part.size, 2, part.min(), part.max())
        assert T.statistics(0, np.s_[...]).cells == whole.cells
        assert T.statistics(0, np.s_[5:5]).cells == 0
        assert T.statistics(0, np.s_[20:10:-3, 7]).min <= values[14:21:3, 7].min()
        with pytest.raises(dry.OutOfRangeError):
            T.statistics(0, np.s_[64])
        with pytest.raises(dry.DrystoneError):
            T.statistics(0, np.s_[0, 0, 0])
        c.derive("twice", "2*T", kind="bounds")
        assert c["twice"].statistics(0, np.s_[:16, :32]).cells == 0
        c.store_derived()
        found = c["twice"].statistics(0, np.s_[:16, :32])
        assert found.min <= 2 * values[:16, :32].min() <= 2 * values[:16, :32].max() <= found.max


def test_histograms_within_a_box_count_its_subchunks(tmp_path):
    values = np.random.default_rng(4).normal(size=(256, 256)).astype("f4")
    with dry.create(tmp_path / "run.dry") as c:
        T = c.create_variable("T", "f4", values.shape, chunks=(64, 128), transform="shuffle,zstd:1")
        T[...] = values
        found = T.statistics(selection=np.s_[64:128, 128:])
        part = values[64:128, 128:]
        assert found.cells == part.size
        before = c.metrics()["read_bytes"]
        assert T.statistics(selection=np.s_[70:80, 130:140]).cells == part.size
        assert c.metrics()["read_bytes"] == before, "no value is read"
        assert found.counts is not None
        assert np.array_equal(found.counts, np.histogram(part.astype("f8"), found.edges)[0])
