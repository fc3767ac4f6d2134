"""Results in transit: what is released gives its result in the same commit; values are carried between variables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from server_rig import Server, served

SHAPE = (8, 12)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("transit")) as server:
        yield server


@pytest.fixture(params=["local", "server"])
def place(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> str:
    """A fresh container: in a folder, or on a server."""
    name = f"{request.node.name.split('[')[0]}.dry"
    url = str(tmp_path / name) if request.param == "local" else f"{server.unix}/scratch/{name}"
    with dry.create(url) as c:
        c.create_variable("T", "f8", shape=SHAPE, steps=True, dims=("y", "x"))
    return url


def values(step: int) -> np.ndarray:
    return np.random.default_rng(step).normal(size=SHAPE)


def release(c: dry.Container, step: int, rows: slice, array: np.ndarray) -> None:
    r = c["T"].map(step=step, offset=(rows.start, 0), count=array[rows].shape, mode="w")
    r.array[...] = array[rows]
    r.release()


def blocks(array: np.ndarray, factor: int) -> np.ndarray:
    rows = [np.add.reduceat(part, range(0, array.shape[1], factor), axis=0) for part in array]
    sums = np.add.reduceat(np.array(rows), range(0, array.shape[0], factor), axis=0)
    counts = np.outer(
        [min(factor, array.shape[0] - n) for n in range(0, array.shape[0], factor)],
        [min(factor, array.shape[1] - n) for n in range(0, array.shape[1], factor)],
    )
    return sums / counts


def test_results_are_in_the_commit_of_what_they_are_computed_from(place: str) -> None:
    with dry.open(place, "r+") as c:
        low = c.on("T", "min")
        assert (low.name, low.shape, low.dtype) == ("T_min", (0,), np.dtype("f8"))
        c.on("T", "max")
        c.on("T", "sum")
        c.on("T", "mean")
        hist = c.on("T", "histogram", into="stats/hist", bins=16, low=-2, high=2)
        assert hist.dtype == np.dtype("u8")
        coarse = c.on("T", "downsample", into="coarse", factor=4)
        assert coarse.shape[1:] == (2, 3)
        c.on("T", "stride", into="thin", by=3)
        mask = c.on("T", "above", into="hot", value=0.5)
        assert mask.dtype == np.dtype(bool)
        single = c.on("T", "cast", into="T32", dtype="f4")
        assert tuple(single.dims)[-2:] == ("y", "x")
        for step in range(3):
            # The boxes of one step come in any order.
            parts = [slice(0, 4), slice(4, 8)]
            for rows in parts if step % 2 else reversed(parts):
                release(c, step, rows, values(step))
        c.commit()
    with dry.open(place) as c:
        assert len(c.snapshots) >= 1
        assert c["T_min"].shape == (3,)
        for step in range(3):
            T = values(step)
            assert np.array_equal(c["T"][step], T)
            assert c["T_min"][step] == T.min()
            assert c["T_max"][step] == T.max()
            assert np.isclose(c["T_sum"][step], T.sum(), rtol=1e-12)
            assert np.isclose(c["T_mean"][step], T.mean(), rtol=1e-12)
            assert np.array_equal(c["stats/hist"][step], np.histogram(T, bins=16, range=(-2, 2))[0])
            assert np.allclose(c["coarse"][step], blocks(T, 4), rtol=1e-14)
            assert np.array_equal(c["thin"][step], T[::3, ::3])
            assert np.array_equal(c["hot"][step], T > 0.5)
            assert np.array_equal(c["T32"][step], T.astype("f4"))


def test_no_snapshot_has_a_source_without_its_result(place: str) -> None:
    with dry.open(place, "r+") as c:
        c.on("T", "max")
        for step in range(6):
            for rows in (slice(0, 3), slice(3, 8)):
                release(c, step, rows, values(step))
                c.commit()
    with dry.open(place) as c:
        seen = 0
        for number in c.snapshots:
            at = c.at(number)
            if "T_max" not in at:
                continue
            for step in at.steps:
                rows = at["T"][step]
                written = 8 if rows[3:].any() else 3
                assert at["T_max"][step] == values(step)[:written].max(), (number, step)
                seen += 1
        assert seen >= 12


def test_cells_that_are_released_again_count_once(place: str) -> None:
    """The same box, a box that overlaps others, and a step that was committed before by somebody else."""
    with dry.open(place, "r+") as c:
        c.on("T", "sum")
        c.on("T", "histogram", into="hist", bins=8, low=-3, high=3)
        T = values(0)
        release(c, 0, slice(0, 4), T * 100)
        release(c, 0, slice(0, 4), T)
        release(c, 0, slice(4, 8), T)
        c.commit()
        assert np.isclose(c["T_sum"][0], T.sum(), rtol=1e-12)
        new = values(1)
        release(c, 0, slice(2, 6), new)
        c.commit()
        T[2:6] = new[2:6]
        assert np.array_equal(c["T"][0], T)
        assert np.isclose(c["T_sum"][0], T.sum(), rtol=1e-12)
        assert np.array_equal(c["hist"][0], np.histogram(T, bins=8, range=(-3, 3))[0])
        with c.writer() as w, w.step(1):
            w.put("T", values(2))
        c.commit()
        release(c, 1, slice(0, 2), new)
        c.commit()
        T = values(2)
        T[:2] = new[:2]
        assert np.isclose(c["T_sum"][1], T.sum(), rtol=1e-12)


def test_a_server_that_is_killed_goes_on_with_what_is_in_the_log(tmp_path: Path) -> None:
    server = Server(tmp_path)
    url = f"{server.unix}/scratch/killed.dry"
    with dry.create(url) as c:
        c.create_variable("T", "f8", shape=SHAPE, steps=True)
    T = values(5)
    with dry.open(url, "r+") as c:
        c.on("T", "sum")
        r = c["T"].map(step=0, offset=(0, 0), count=(4, 12), mode="w")
        r.array[...] = T[:4]
        r.release(level="node")
        server.kill()
        server.start()
        release(c, 0, slice(4, 8), T)
        c.commit()
    with dry.open(url) as c:
        assert np.array_equal(c["T"][0], T)
        assert np.isclose(c["T_sum"][0], T.sum(), rtol=1e-12)
    del c, r
    assert server.stop() == 0


def test_values_are_carried_from_one_variable_to_another(place: str) -> None:
    with dry.open(place, "r+") as c:
        with c.writer() as w:
            for step in range(3):
                with w.step(step):
                    w.put("T", values(step))
        c.commit()
        c.transfer("T", "copy")
        c.transfer("T", "T32", "cast", dtype="f4")
        c.transfer("T", "coarse", "downsample", factor=5)
        c.transfer("T", "peak", "max", step=1).wait(30)
        c.commit()
        for step in range(3):
            T = values(step)
            assert np.array_equal(c["copy"][step], T)
            assert np.array_equal(c["T32"][step], T.astype("f4"))
            assert np.allclose(c["coarse"][step], blocks(T, 5), rtol=1e-14)
        assert c["peak"][1] == values(1).max()
        missing = c.transfer("T", "peak", "max", step=77)
        with pytest.raises(dry.DrystoneError, match="no step 77"):
            missing.wait(30)
        c._transfers.clear()


def test_what_cannot_be_computed_is_refused_with_the_reason(place: str) -> None:
    with dry.open(place, "r+") as c:
        c.create_variable("name", "S8", shape=(3,), steps=True)
        c.create_variable("still", "f8", shape=(3,))
        c.create_variable("grows", "f8", shape=(None,), steps=True)
        with pytest.raises(dry.InvalidArgumentError, match="there are min"):
            c.on("T", "median")
        with pytest.raises(dry.InvalidArgumentError, match="takes factor"):
            c.on("T", "downsample", by=2)
        with pytest.raises(dry.NotFoundError, match="U"):
            c.on("U", "min")
        with pytest.raises(dry.UnsupportedError, match="of type"):
            c.on("name", "min")
        with pytest.raises(dry.UnsupportedError, match="no steps"):
            c.on("still", "min")
        with pytest.raises(dry.UnsupportedError, match="grows"):
            c.on("grows", "min")
        c.on("T", "min")
        c.on("T", "min")
        with pytest.raises(dry.ConflictError):
            c.on("T", "max", into="T_min")
        with pytest.raises(dry.UnsupportedError, match="itself a result"):
            c.on("T_min", "max")
        c.on("T", "downsample", into="coarse", factor=4)
        r = c["T"].map(step=0, offset=(1, 0), count=(4, 12), mode="w")
        transfer = r.release()
        with pytest.raises(dry.InvalidArgumentError, match="multiples of 4"):
            transfer.wait(30)
        c._transfers.clear()
        c.commit()
        assert c.steps == []
