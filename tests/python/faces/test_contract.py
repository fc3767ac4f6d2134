"""Tests of the contract in §9 of the design."""

import os

import drystone as dry
import numpy as np
import pytest


def test_the_example_of_the_contract_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nz, ny, nx, nt = 16, 12, 300, 11
    rng = np.random.default_rng(1)
    whole = rng.random((nt, nz, ny, nx)).astype("f4")
    with dry.create("run42.dry", durability="async") as c:
        c.create_variable(
            "temperature",
            dtype="f4",
            shape=(nz, ny, nx),
            dims=("z", "y", "x"),
            steps=True,
            transform="zstd:3",
            fill_value=0,
            attrs={"units": "K"},
        )
        for r in range(2):
            with c.writer(rank=r, nranks=2) as w:
                for t in range(nt):
                    with w.step() as number:
                        assert number == t
                        z0 = r * nz // 2
                        w.put("temperature", whole[t, z0 : z0 + nz // 2], offset=(z0, 0, 0))
        c.commit()
    c = dry.open("run42.dry")
    assert list(c.variables) == ["temperature"]
    assert list(c.steps) == list(range(nt))
    T = c["temperature"]
    assert T.shape == whole.shape
    assert T.dtype == np.float32
    assert T.dims == ("z", "y", "x")
    assert T.attrs["units"] == "K"
    assert dict(T.attrs) == {"units": "K"}
    assert T.transform == "zstd:3"
    assert [b.offset for b in T.blocks(3)] == [(0, 0, 0), (8, 0, 0)]
    np.testing.assert_array_equal(T[10, :, 11, :], whole[10, :, 11, :])
    np.testing.assert_array_equal(T[-1, ::4, ::4, 5:9], whole[-1, ::4, ::4, 5:9])
    buf = np.empty((8, 8, 8), "f4")
    assert T.read(step=3, offset=(0, 0, 0), count=(8, 8, 8), out=buf) is buf
    np.testing.assert_array_equal(buf, whole[3, :8, :8, :8])
    np.testing.assert_array_equal(T.read_block(2, 1), whole[2, 8:])
    plan = T.explain[10, :, 11, :]
    assert plan == T.explain[10, :, 11, :]
    assert plan != T.explain[9, :, 11, :]
    assert "temperature" in str(plan)
    assert plan.requests >= 1
    assert plan.read_bytes > 0
    assert plan.wanted_bytes == nz * nx * 4
    assert c.verify().ok
    snapshots = c.snapshots
    assert snapshots[-1] == c.snapshot
    assert c.at(snapshots[0])["temperature"].shape == (0, nz, ny, nx)
    assert c.refresh() is False
    c.close()


def test_a_single_writer_commits_by_itself(path):
    with dry.create(path) as c:
        c.create_variable("T", "f8", shape=(4,), steps=True)
        with c.writer(rank=0, nranks=1) as w:
            for t in range(3):
                with w.step():
                    w.put("T", np.full(4, float(t)))
                with dry.open(path) as other:
                    assert other.steps == list(range(t + 1))
                    assert other["T"][-1, 0] == t


def test_a_variable_without_steps_needs_no_step_and_is_committed_at_close(path):
    with dry.create(path) as c:
        c.create_variable("grid", "i4", shape=(3,))
        with c.writer() as w:
            w.put("grid", [1, 2, 3])
            with dry.open(path) as other:
                np.testing.assert_array_equal(other["grid"][...], [0, 0, 0])
        with dry.open(path) as other:
            np.testing.assert_array_equal(other["grid"][...], [1, 2, 3])


def test_writers_without_ranks_wait_for_a_commit_from_any_process(path):
    with dry.create(path) as c:
        c.create_variable("T", "f8", shape=(4,), steps=True)
        a, b = c.writer(), c.writer()
        with b.step(0):
            b.put("T", np.arange(2.0))
        with a.step(0):
            a.put("T", np.arange(2.0, 4.0), offset=2)
        assert c.steps == []
        for key in (0, (0, [1, 2])):
            with pytest.raises(IndexError, match=r"size 0; 1 complete step not committed \(0\).*commit\(\)"):
                c["T"][key]
        with dry.open(path, mode="r+") as other:
            before = int(other.snapshot)
            done = other.commit()
            assert done.changed
            assert int(done) == before + 1
            again = other.commit()
            assert not again.changed
            assert again == done
        a.close()
        b.close()
        c.refresh()
        np.testing.assert_array_equal(c["T"][0], np.arange(4.0))


def test_the_shape_of_a_variable_with_steps_begins_with_the_last_step_plus_one(container):
    T = container.create_variable("T", "f4", shape=(2,), steps=True)
    assert T.shape == (0, 2)
    assert len(T) == 0
    with container.writer(rank=0, nranks=1) as w, w.step(6):
        w.put("T", np.ones(2, "f4"))
    assert T.shape == (7, 2)
    assert T.steps == container.steps == [6]
    np.testing.assert_array_equal(T[:, 0], [0] * 6 + [1])


def test_create_variable_is_visible_to_other_processes_at_once(path):
    with dry.create(path, durability="durable") as c:
        c.create_variable("T", "f4", shape=(2,))
        with dry.open(path) as other:
            assert "T" in other


def test_every_error_class_is_the_built_in_exception_that_people_expect():
    assert issubclass(dry.NotFoundError, (dry.DrystoneError, KeyError))
    assert issubclass(dry.NotFoundError, KeyError)
    assert issubclass(dry.InvalidArgumentError, ValueError)
    assert issubclass(dry.IoError, OSError)
    assert issubclass(dry.PermissionError, (dry.IoError, PermissionError))
    assert issubclass(dry.PermissionError, PermissionError)
    assert issubclass(dry.DeadlineError, dry.IoError)
    assert issubclass(dry.DeadlineError, TimeoutError)
    assert issubclass(dry.NotYetHome, dry.IoError)
    assert issubclass(dry.OutOfRangeError, IndexError)
    assert issubclass(dry.OutOfRangeError, dry.InvalidArgumentError)
    for name in (
        "NotFound",
        "Corrupt",
        "Conflict",
        "Unsupported",
        "InvalidArgument",
        "Io",
        "Cancelled",
        "Permission",
        "Deadline",
    ):
        assert issubclass(getattr(dry, f"{name}Error"), dry.DrystoneError)
    assert str(dry.NotFoundError("plain text")) == "plain text"


@pytest.mark.parametrize(
    "form", [str, os.fspath, lambda p: p, lambda p: f"file://{p}", lambda p: os.fsencode(p).decode()]
)
def test_containers_are_named_by_paths_and_file_urls(path, form):
    dry.create(form(path)).close()
    with dry.open(form(path)) as c:
        assert c.path == str(path)


def test_the_package_knows_its_version():
    assert dry.__version__.count(".") == 2
