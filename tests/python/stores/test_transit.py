"""Results in transit: the result of a release is in the same commit; values are transferred between variables."""

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
    """A new container: in a folder, or on a server."""
    name = f"{request.node.name.replace('[', '-').replace(']', '')}.dry"
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


def test_results_are_in_the_same_commit_as_their_source(place: str) -> None:
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
            # The boxes of one step arrive in any order.
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
    """The same box, an overlapping box, and a step that another writer committed before."""
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


@pytest.mark.parametrize("what", ["beside", "over", "assigned over", "first"])
def test_committed_values_of_ordinary_puts_count_in_reductions(tmp_path, what):
    """Symptom: the parts of earlier releases were remembered, so later puts of others to the step did not count."""

    def release(c, low, high, value):
        region = c["T"].map(step=0, offset=(low,), count=(high - low,), mode="w")
        region.array[...] = value
        region.release(level="node").wait(30)
        c.commit()

    def put(c, low, high, value):
        with c.writer() as w, w.step(0):
            w.put("T", np.full(high - low, value, "f8"), offset=(low,))
        c.commit()

    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("T", "f8", (8,), steps=True, fill_value=np.nan)
        for operation in ("sum", "min", "max"):
            c.on("T", operation)
        c.commit()
        if what == "first":
            put(c, 2, 6, 10)
        release(c, 0, 2, 1)
        if what == "beside":
            put(c, 2, 6, 10)
        elif what == "over":
            put(c, 0, 2, 10)
        elif what == "assigned over":
            c["T"][0, 0:2] = 10
            c.commit()
        release(c, 6, 8, 2)
        values = c["T"][0]
        values = values[~np.isnan(values)]
        found = [c[f"T_{name}"][0] for name in ("sum", "min", "max")]
        assert found == [values.sum(), values.min(), values.max()], values


def put_region(c, name, step, offset, count, value):
    with c[name].map(step=step, offset=(offset,), count=(count,), mode="w") as region:
        region.array[...] = value
        region.release("node").wait(30)
    c.commit()
    c.refresh()


@pytest.mark.parametrize("how", ["all", "source", "renamed"])
def test_reductions_count_no_cell_of_an_earlier_variable_of_the_same_name(place, how):
    """Symptom: sum, mean, minimum, maximum and histogram counted cells of a deleted variable."""
    with dry.open(place, "r+") as c:

        def make():
            for op in ("sum", "max", "mean"):
                c.on("A", op, into=f"A_{op}")
            c.commit()

        c.create_variable("A", "f4", shape=(10,), steps=True)
        make()
        put_region(c, "A", 0, 0, 5, 100)
        if how == "renamed":
            c.rename("A", "B")
        else:
            c.delete("A")
        if how != "source":
            for op in ("sum", "max", "mean"):
                c.delete(f"A_{op}")
        c.create_variable("A", "f4", shape=(10,), steps=True)
        if how != "source":
            make()
        put_region(c, "A", 0, 5, 5, 1)
        assert [c[f"A_{op}"][0] for op in ("sum", "max", "mean")] == [5, 1, 1]


def test_a_rule_follows_its_source_to_another_name(place):
    """Symptom: results stayed as they were, without a word, after the source or its group was renamed."""
    with dry.open(place, "r+") as c:
        c.create_variable("g/A", "f4", shape=(4,), steps=True)
        c.on("g/A", "max", into="g/M")
        put_region(c, "g/A", 0, 0, 4, 1)
        c.rename("g/A", "g/U")
        put_region(c, "g/U", 0, 0, 4, 5)
        c.create_variable("g/A", "f4", shape=(4,), steps=True)
        put_region(c, "g/A", 0, 0, 4, 50)
        put_region(c, "g/U", 1, 0, 4, 7)
        assert c["g/M"][...].tolist() == [5, 7]
        c.rename("g", "h")
        put_region(c, "h/U", 1, 0, 2, 9)
        assert c["h/M"][...].tolist() == [5, 9]


def test_values_that_were_released_before_a_rule_count_in_its_result(place):
    with dry.open(place, "r+") as c:
        c.create_variable("A", "f4", shape=(4,), steps=True)
        c.create_variable("B", "f4", shape=(4,), steps=True)
        c.on("B", "max", into="B_max")
        put_region(c, "B", 0, 0, 4, 1)
        with c["A"].map(step=0, offset=(0,), count=(2,), mode="w") as region:
            region.array[...] = 9
            region.release("node").wait(30)
        c.on("A", "max", into="A_max")
        put_region(c, "A", 0, 2, 2, 3)
        assert c["A_max"][0] == 9


def test_transfers_leave_out_cells_that_were_never_written(place: str) -> None:
    """They were copied as fill values, over values of the target, and counted in reductions."""
    own = values(0)[2:6, 3:8]
    written = np.zeros(SHAPE, bool)
    written[2:6, 3:8] = True
    with dry.open(place, "r+") as c:
        source = c.create_variable("S", "f8", shape=SHAPE, steps=True, fill_value=-1.0)
        for name in ("S", "U"):
            if name == "U":
                c.create_variable("U", "f8", shape=SHAPE, steps=True)
            with c.writer() as w, w.step(0):
                w.put(name, own if name == "S" else values(1), offset=(2, 3) if name == "S" else (0, 0))
        c.commit()
        c.transfer("S", "U").wait(30)
        c.transfer("S", "new").wait(30)
        c.transfer("S", "coarse", "downsample", factor=2).wait(30)
        c.transfer("S", "third", "stride", by=3).wait(30)
        c.transfer("S", "narrow", "cast", dtype="f4").wait(30)
        for rule, expected in (("min", own.min()), ("mean", own.mean())):
            c.transfer("S", rule, rule).wait(30)
            c.commit()
            assert c[rule][0] == pytest.approx(expected)
        c.transfer("S", "H", "histogram", bins=4, low=-2, high=2).wait(30)
        c.commit()
        assert np.array_equal(c["H"][0], np.histogram(own, 4, (-2, 2))[0])
        assert np.array_equal(c["U"][0], np.where(written, c["S"][0], values(1)))
        assert c["new"].fill_value == source.fill_value == -1
        assert np.array_equal(c["new"][0], c["S"][0])
        assert np.array_equal(c["narrow"][0], np.where(written, c["S"][0], 0).astype("f4"))
        assert c.query("narrow == 0").count() == 0
        # Rows 2 to 5 and columns 3 to 7: the block of columns 2 and 3 has unwritten cells.
        coarse = np.zeros((4, 6))
        coarse[1:3, 2:4] = own[:, 1:].reshape(2, 2, 2, 2).mean(axis=(1, 3))
        assert np.allclose(c["coarse"][0], coarse)
        assert c.query("coarse == 0").count() == 0
        third = np.full((3, 4), -1.0)
        third[1:2, 1:3] = own[1:4:3, 0:4:3]
        assert np.array_equal(c["third"][0], third)


def test_a_refused_transfer_creates_nothing(place: str) -> None:
    with dry.open(place, "r+") as c:
        c["flat"] = np.zeros(3)
        refused = c.transfer("flat", "never", step=3)
        with pytest.raises(dry.DrystoneError):
            refused.wait(30)
        c._transfers.clear()
        c.refresh()
        assert "never" not in c
