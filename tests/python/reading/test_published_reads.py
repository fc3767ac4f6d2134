"""Reads from the published replica: the same values, verified, and the choice is shown."""

import os
from pathlib import Path

import drystone as dry
import numpy as np
import pytest


@pytest.fixture
def container(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("t", "f4", shape=(64, 2048), steps=True, transform="zstd:1")
        with c.writer(rank=0, nranks=1) as w:
            for step in range(3):
                with w.step():
                    for x in range(0, 2048, 8):
                        w.put("t", np.full((64, 8), step * 10000 + x, "f4"), offset=(0, x))
        yield c


def chosen(plan):
    return [name for name, *_, used in plan.choices if used]


def test_explain_shows_what_each_replica_would_cost_and_reads_take_the_cheaper(container):
    assert container["t"].explain[0].choices == []
    truth = container["t"][...]
    before = container.snapshot
    container.publish(progress=None)
    t = container["t"]
    plan = t.explain[:, 5, :]
    cheapest = min(plan.choices, key=lambda choice: choice[3])
    assert chosen(plan) == [cheapest[0]]
    assert "default: " in str(plan)
    assert "published: " in str(plan)
    assert {name for name, *_ in plan.choices} == {"default", "published"}
    assert np.array_equal(t[:, 5, :], truth[:, 5, :])
    assert np.array_equal(t[...], truth)
    assert container.at(before)["t"].explain[:, 5, :].choices == []
    # Later blocks show on top.
    with container.writer(rank=0, nranks=1) as w, w.step(1):
        w.put("t", np.zeros((1, 2048), "f4"), offset=(5, 0))
    truth[1, 5] = 0
    assert np.array_equal(container["t"][:, 5, :], truth[:, 5, :])


@pytest.mark.filterwarnings("ignore:the published replica is damaged")  # reported if a read chose it
def test_verify_checks_every_published_chunk_and_compares_values(container, tmp_path):
    container.publish(progress=None)
    report = container.verify(values=True)
    assert report.ok
    assert report.shards > 0
    truth = container["t"][...]
    shard = next(p for p in sorted((tmp_path / "run.dry/zarr/t/c").rglob("*")) if p.is_file())
    data = bytearray(shard.read_bytes())
    data[60] ^= 1
    shard.write_bytes(data)
    report = container.verify()
    assert [d.variable for d in report.damage] == ["t"]
    assert shard.name in report.damage[0].key
    with dry.open(tmp_path / "run.dry") as c:
        assert np.array_equal(c["t"][...], truth)
    shard.unlink()
    container.publish(progress=None)
    assert container.verify(values=True).ok


def test_fragments_of_a_declared_dataset_take_the_cheaper_replica_too(tmp_path):
    text = """
dataset { var t[64, 2048] float32 steps transform "zstd:1" }
fragment row(r) { var t[i:2, j:2048] = t[i + r, j] }
fragment column(b) { var t[j:8, i:64] = t[i, j + 8*b] }
"""
    values = np.arange(64 * 2048, dtype="f4").reshape(64, 2048)
    with dry.create(tmp_path / "run.dry") as c:
        c.declare(text)
        with c.writer(rank=0, nranks=1) as w, w.step():
            for x in range(0, 2048, 8):
                w.put("t", values[:, x : x + 8], offset=(0, x))
        row, column = c.fragment("row", r=5), c.fragment("column", b=3)
        assert "published" not in row.explain(0)
        c.publish(progress=None)
        row, column = c.fragment("row", r=5), c.fragment("column", b=3)
        taken = [line for line in row.explain(0).splitlines() if line.endswith("chosen")]
        assert [line.split(":")[0].strip() for line in taken] == ["published"]
        assert np.array_equal(row.read(step=0), values[5:7])
        assert "default: " in column.explain(0)
        assert np.array_equal(column.read(step=0), values[:, 24:32].T)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
@pytest.mark.parametrize("name", ["zarr", "zarr/t/c"])
def test_a_replica_that_may_not_be_read_is_passed_over(container, tmp_path, name):
    """A missing or damaged one was; this one failed the read, though the log has every value."""
    truth = container["t"][...]
    container.publish(progress=None)
    for place in [*tmp_path.parents][:4]:
        if place.owner() == "root" and place not in (Path("/"), Path("/tmp")):
            place.chmod(0o755)
    tmp_path.chmod(0o755)
    (tmp_path / "run.dry" / name).chmod(0)
    os.seteuid(65534)
    try:
        c = dry.open(tmp_path / "run.dry")
        seen, query = c["t"][...], c.query("t > 20000")
        with pytest.warns(dry.DrystoneWarning, match="replica may not be read, the log is read"):
            count = query.count()
    finally:
        os.seteuid(0)
    assert np.array_equal(seen, truth)
    assert count == (truth > 20000).sum()
