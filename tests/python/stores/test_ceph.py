"""Containers in a real Ceph cluster, with and without the object class: values equal those of a directory, whatever
fails.

The tests start their own clusters (`tests/servers/ceph.py`), and are skipped if Ceph's daemons are not installed.
Those with the object class need it built: `make rados-class`, or a folder that `DRYSTONE_RADOS_CLASS` names.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import drystone as dry
import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "servers"))
import ceph  # noqa: E402
from far_rig import Rig  # noqa: E402

if lacking := ceph.missing():
    pytest.skip(f"no Ceph cluster can be started: {lacking}", allow_module_level=True)

pytestmark = pytest.mark.slow

CLASS = Path(os.environ.get("DRYSTONE_RADOS_CLASS", ROOT / "build" / "rados-class"))
needs_class = pytest.mark.skipif(
    not (CLASS / "libcls_dry.so").exists(), reason="the object class is not built: make rados-class"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ceph.Cluster]:
    classes = CLASS if (CLASS / "libcls_dry.so").exists() else None
    with ceph.Cluster(tmp_path_factory.mktemp("ceph"), classes=classes) as started:
        yield started


@pytest.fixture
def options(cluster: ceph.Cluster) -> dict[str, str]:
    return {"conf": str(cluster.conf)}


def url(name: str, pool: str = "test") -> str:
    return f"rados://{pool}/{name}/run.dry"


def values(steps: int = 3) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(steps, 40, 30, 6)).astype("f4")


def write(where: str | Path, data: np.ndarray, transform: str | None = None, **more: object) -> None:
    with dry.create(where, **more) as c:
        c.attrs["title"] = "rain"
        c.create_variable(
            "T", "f4", shape=data.shape[1:], dims=("y", "x", "c"), steps=True, transform=transform
        )
        with c.writer(rank=0, nranks=1) as w:
            for step in data:
                with w.step():
                    w.put("T", step)
        c.commit()


@pytest.mark.filterwarnings("ignore:read programs are not run")  # if the class is not built
@pytest.mark.parametrize("append", ["false", "true"])
def test_what_is_written_is_read_by_other_handles(options: dict[str, str], append: str) -> None:
    data, where = values(), url(f"plain-{append}")
    write(where, data, "shuffle,zstd:1", storage_options={**options, "append": append})
    with dry.open(where, storage_options=options) as c:
        assert c.attrs["title"] == "rain"
        np.testing.assert_array_equal(c["T"][...], data)
        np.testing.assert_array_equal(c["T"][1, ::3, 4, 2], data[1, ::3, 4, 2])
        assert not c.verify().damage
    with dry.open(where, "r+", storage_options=options) as c, c.writer(rank=0, nranks=1) as w, w.step():
        w.put("T", data[0] + 1)
    with dry.open(where, storage_options=options) as c:
        np.testing.assert_array_equal(c["T"][-1], data[0] + 1)
    with pytest.raises(dry.ConflictError):
        dry.create(where, storage_options=options)


def test_the_environment_names_the_cluster(cluster: ceph.Cluster, options: dict[str, str]) -> None:
    where = url("environment")
    write(where, values(1), storage_options=options)
    environment = {**os.environ, "CEPH_CONF": str(cluster.conf)}
    command = [sys.executable, "-m", "drystone", "ls", where]
    listed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "T" in listed.stdout
    del environment["CEPH_CONF"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode != 0
    assert "ceph.conf" in told.stderr
    assert where in told.stderr


def test_errors_say_what_was_asked_and_what_to_do(options: dict[str, str]) -> None:
    with pytest.raises(dry.DrystoneError, match="nopool"):
        dry.open("rados://nopool/x/y", storage_options=options)
    with pytest.raises(ValueError, match="no option"):
        dry.open(url("x"), storage_options={**options, "colour": "red"})
    with pytest.raises(ValueError, match="rados://pool/namespace/prefix"):
        dry.open("rados:///x", storage_options=options)
    with pytest.raises(dry.NotFoundError):
        dry.open(url("nothing-here"), storage_options=options)


def pieces(folder: Path) -> dict[str, list[bytes]]:
    """The stored bytes of each block, with its checksums, by variable and step."""
    found = {}
    with dry.open(folder) as c:
        for name in c.variables:
            for step in c[name].steps:
                places = [block.place for block in c[name].blocks(step)]
                found[f"{name} {step}"] = [(folder / key).read_bytes()[a:b] for key, a, b in places]
    return found


def test_a_container_copied_to_a_directory_s3_and_a_pool_is_the_same_bytes(
    options: dict[str, str], tmp_path: Path
) -> None:
    rig, at_s3 = Rig(), "s3://bucket/copied.dry"
    try:
        write(tmp_path / "a.dry", values(), "shuffle,zstd:3")
        with dry.open(tmp_path / "a.dry") as c:
            c.copy(at_s3, storage_options=rig.options)
        with dry.open(at_s3, storage_options=rig.options) as c:
            c.copy(url("through"), storage_options=options)
        with dry.open(url("through"), storage_options=options) as c:
            c.copy(tmp_path / "b.dry")
    finally:
        rig.close()
    before, after = pieces(tmp_path / "a.dry"), pieces(tmp_path / "b.dry")
    assert before == after
    assert sum(map(len, before.values())) >= 3
    with dry.open(tmp_path / "a.dry") as a, dry.open(tmp_path / "b.dry") as b:
        assert a["T"][...].tobytes() == b["T"][...].tobytes() == values().tobytes()
        assert dict(a.attrs) == dict(b.attrs)
        assert a["T"].transform == b["T"].transform


def _total(where: str, options: dict[str, str], queue: multiprocessing.Queue[float]) -> None:
    with dry.open(where, storage_options=options) as c:
        queue.put(float(c["T"][...].sum()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_read_with_connections_of_their_own(options: dict[str, str], method: str) -> None:
    data, where = values(1), url(f"children-{method}")
    write(where, data, storage_options=options)
    context = multiprocessing.get_context(method)
    with dry.open(where, storage_options=options) as c:
        total = float(c["T"][...].sum())
        queue = context.Queue()
        children = [context.Process(target=_total, args=(where, options, queue)) for _ in range(3)]
        for child in children:
            child.start()
        assert [queue.get(timeout=60) for _ in children] == [total] * 3
        for child in children:
            child.join(60)
            assert child.exitcode == 0
        assert float(c["T"][...].sum()) == total


def test_secrets_are_not_pickled(options: dict[str, str]) -> None:
    where = url("pickled")
    write(where, values(1), storage_options=options)
    with dry.open(where, storage_options={**options, "key": "AQAsecret=="}) as c:
        assert b"AQAsecret" not in pickle.dumps(c)
        assert pickle.loads(pickle.dumps(c))["T"].shape == c["T"].shape


def primaries(cluster: ceph.Cluster, namespace: str, keys: Iterable[str]) -> list[int]:
    """The daemon that serves each file of a container, according to the monitor."""
    asked = {"prefix": "osd map", "pool": "test", "nspace": namespace, "format": "json"}
    answers = cluster.commands(*({**asked, "object": f"run.dry/{key}"} for key in keys))
    return [json.loads(out)["acting_primary"] for out in answers]


def test_parts_of_a_variable_lie_on_all_daemons(cluster: ceph.Cluster, options: dict[str, str]) -> None:
    data = np.random.default_rng(1).normal(size=(24, 256, 1024)).astype("f8")
    where = url("spread")
    with dry.create(where, storage_options=options) as c:
        c.create_variable("T", "f8", shape=data.shape[1:], steps=True)
        with c.writer(rank=0, nranks=1) as w:
            for step in data:
                with w.step():
                    w.put("T", step)
        keys = {block.place[0] for step in range(24) for block in c["T"].blocks(step)}
    assert len(keys) >= 5, keys
    assert set(primaries(cluster, "spread", keys)) == {0, 1, 2}


READ = """
import sys, numpy as np, drystone as dry, warnings
warnings.simplefilter("always")
where, conf, out = sys.argv[1:4]
with dry.open(where, storage_options={"conf": conf, "timeout": "20"}) as c:
    T = c["T"]
    parts = [T[:, :, :, 1], T[1, ::3, 4:20:2], T[-1, ::-2, ::7, 5], T[0, 3], T.read(step=1, max_error=0.01)]
    for steps in range(3):
        parts.append(T[steps % T.shape[0], ..., 2])
    np.savez(out, *parts)
    print(str(T.explain[:, :, :, 1]))
"""


def parts(where: str, conf: Path, out: Path, programs: str) -> tuple[list[np.ndarray], str, str]:
    done = subprocess.run(
        [sys.executable, "-c", READ, where, str(conf), str(out)],
        env={**os.environ, "DRYSTONE_PROGRAMS": programs},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    with np.load(out) as read:
        return [read[name] for name in read.files], done.stdout, done.stderr


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


@needs_class
@pytest.mark.parametrize("transform", [None, "shuffle,zstd:1", "aplod:2,1,1", "multilevel"])
def test_daemons_give_what_ranges_give(
    cluster: ceph.Cluster, options: dict[str, str], tmp_path: Path, transform: str | None
) -> None:
    where = url(f"class-{transform or 'raw'}".translate({ord(c): "-" for c in ",:"}))
    write(where, values(), transform, storage_options=options)
    ranges, _, _ = parts(where, cluster.conf, tmp_path / "a.npz", "never")
    there, shown, said = parts(where, cluster.conf, tmp_path / "b.npz", "always")
    assert same(ranges, there)
    assert ": read there; ranges: " in shown, shown
    assert "docs/guide/ceph.md" not in said, said
    assert not cluster.dead_osds()


READER = """
import json, sys, numpy as np, drystone as dry
with dry.open(sys.argv[1], storage_options={"conf": sys.argv[2]}) as c:
    names = {"c": c, "np": np}
    for line in sys.stdin:
        print(json.dumps(eval(line, names)), flush=True)
"""


class Reader:
    """A process with an open container that evaluates expressions; the daemons count the bytes of each."""

    def __init__(self, cluster: ceph.Cluster, where: str, programs: str = "always") -> None:
        self.cluster = cluster
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER, where, str(cluster.conf)],
            env={**os.environ, "DRYSTONE_PROGRAMS": programs},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0

    def ask(self, expression: str) -> Any:
        """The value of an expression of `c` and `np`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def sent(self, expression: str) -> tuple[Any, dict[int, int]]:
        """The value, and the bytes that each daemon sent."""
        before = self.cluster.counters_of_each()
        value = self.ask(expression)
        after = self.cluster.counters_of_each()
        return value, {osd: after[osd]["op_r_out_bytes"] - before[osd]["op_r_out_bytes"] for osd in after}


@needs_class
@pytest.mark.parametrize("transform", [None, "shuffle,zstd:1"])
def test_a_field_of_three_moves_its_bytes_and_little_more(
    cluster: ceph.Cluster, options: dict[str, str], transform: str | None
) -> None:
    data = np.round(np.random.default_rng(2).normal(size=(1, 200_000, 1, 3)), 2)
    where = url(f"field-{transform is None}")
    with dry.create(where, storage_options=options) as c:
        c.create_variable("T", "f8", shape=data.shape[1:], steps=True, transform=transform)
        with c.writer(rank=0, nranks=1, layout="log") as w, w.step():
            w.put("T", data[0])
    wanted = data[0, :, :, 1].nbytes
    with Reader(cluster, where) as reader:
        reader.ask("float(c['T'][0, 0, 0, 0])")
        total, sent = reader.sent("float(c['T'][0, :, :, 1].sum())")
    assert total == data[0, :, :, 1].sum()
    assert wanted <= sum(sent.values()) <= 1.02 * wanted


@needs_class
@pytest.mark.parametrize("transform", [None, "shuffle,zstd:1", "aplod"])
def test_conditions_are_tried_by_daemons_and_hits_come_back(
    cluster: ceph.Cluster, options: dict[str, str], transform: str | None
) -> None:
    """A count is one number, hits are positions or positions with values; other cells are never sent."""
    data = np.random.default_rng(8).random(200_000)
    where = url(f"conditions-{transform or 'raw'}".translate({ord(c): "-" for c in ",:"}))
    with dry.create(where, storage_options=options) as c:
        c.create_variable("p", "f8", shape=data.shape, transform=transform)
        c["p"][:] = data
    expected = np.flatnonzero(data < 0.01)
    with Reader(cluster, where) as reader:
        reader.ask("str((q := c.query('p < 0.01')).bounds())")
        count, for_count = reader.sent("q.count()")
        cells, for_cells = reader.sent("q.coords()[:, 0].tolist()")
        values, for_values = reader.sent("q.values('p').tolist()")
        explained = reader.ask("str(q.explain)")
    assert count == len(expected)
    assert cells == expected.tolist()
    assert values == data[expected].tolist()
    assert "tried there in" in explained, explained
    assert sum(for_count.values()) < 4 << 10, for_count
    assert sum(for_cells.values()) < 8 * len(expected) + (4 << 10), for_cells
    assert sum(for_values.values()) < 16 * len(expected) + (4 << 10), for_values
    assert not cluster.dead_osds()


def test_one_fragment_is_read_from_all_daemons_and_the_picture_shows_which(
    cluster: ceph.Cluster, options: dict[str, str], tmp_path: Path
) -> None:
    """Each daemon sends about its share of the fragment; the picture's daemons are those that the monitor names."""
    pytest.importorskip("matplotlib")
    where, edge, rows = url("fragment"), 1024, 32
    text = f"""dataset {{ var u[{edge}, {edge}] float64 }}
        fragment half(r) {{ var u[i:{edge // 2}, j:{edge}] = u[i + {edge // 2}*r, j] }}
    """
    data = np.random.default_rng(3).normal(size=(edge, edge))
    with dry.create(where, storage_options={**options, "append": "true"}) as c:
        c.declare(text)
        for rank in range(edge // rows):
            with c.writer(rank=rank, nranks=edge // rows, layout="log") as w:
                w.put("u", data[rank * rows : (rank + 1) * rows], offset=(rank * rows, 0))
        c.commit()
        places = {block.offset[0]: block.place[0] for block in c["u"].blocks() if block.place}
        shown = dry.plot(
            c, "u", f"[0:{edge // 2}]", layout=True, by="target", output=tmp_path / "p.png"
        ).shows
    first = primaries(cluster, "fragment", [key for row, key in places.items() if row < edge // 2])
    held = {osd: first.count(osd) * rows * edge * 8 for osd in cluster.osds}
    assert all(held.values()), held
    assert shown.startswith("16 blocks on 3 storage targets, "), shown
    with Reader(cluster, where, programs="never") as reader:
        reader.ask("float(c.fragment('half', r=1).read()[0, 0])")
        column, sent = reader.sent("c.fragment('half', r=0).read()[:, 7].tolist()")
    assert column == data[: edge // 2, 7].tolist()
    for osd, share in held.items():
        assert share <= sent[osd] <= 1.02 * share + (64 << 10), (held, sent)


@pytest.mark.parametrize("how", ["missing", "unlisted", "erasure"])
def test_without_the_class_ranges_are_read_with_one_warning(
    cluster: ceph.Cluster, options: dict[str, str], tmp_path: Path, how: str
) -> None:
    if how == "erasure":
        if "erasure" not in cluster.command(prefix="osd pool ls", format="json"):
            cluster.pool("erasure", erasure=True)
        check_without_class(cluster, url("run", "erasure"), options, tmp_path)
        return
    (tmp_path / "none").mkdir()
    # A class that exists but is not listed fails in another way than a missing one.
    classes = CLASS if how == "unlisted" and (CLASS / "libcls_dry.so").exists() else tmp_path / "none"
    with ceph.Cluster(tmp_path / "cluster", osds=1, classes=classes, listed=how == "missing") as other:
        check_without_class(other, url("run"), {"conf": str(other.conf)}, tmp_path)


def check_without_class(cluster: ceph.Cluster, where: str, options: dict[str, str], tmp_path: Path) -> None:
    write(where, values(), "shuffle,zstd:1", storage_options=options)
    ranges, _, _ = parts(where, cluster.conf, tmp_path / "a.npz", "never")
    there, shown, said = parts(where, cluster.conf, tmp_path / "b.npz", "always")
    assert same(ranges, there)
    assert said.count("docs/guide/ceph.md") == 1, said
    assert "; no program: " in shown, shown


def test_a_cluster_without_daemons_is_an_error_in_time(tmp_path: Path) -> None:
    with ceph.Cluster(tmp_path / "cluster", osds=1) as cluster:
        options = {"conf": str(cluster.conf), "timeout": "3"}
        write(url("lost"), values(1), storage_options=options)
        with dry.open(url("lost"), storage_options=options) as c:
            cluster.kill_osd(0)
            began = time.monotonic()
            with pytest.raises(dry.DeadlineError, match="storage daemons"):
                c["T"][...]
            assert time.monotonic() - began < 45


@needs_class
def test_a_daemon_that_dies_costs_time_and_nothing_else(tmp_path: Path) -> None:
    with ceph.Cluster(tmp_path / "cluster", classes=CLASS, bluestore=True) as cluster:
        cluster.pool("copies", size=2)
        options = {"conf": str(cluster.conf), "timeout": "25"}
        where = url("run", "copies")
        write(where, values(6), "shuffle,zstd:1", storage_options=options)
        ranges, _, _ = parts(where, cluster.conf, tmp_path / "a.npz", "never")
        killer = threading.Timer(0.4, cluster.kill_osd, [1])
        killer.start()
        began = time.monotonic()
        for _ in range(3):
            there, _, _ = parts(where, cluster.conf, tmp_path / "b.npz", "always")
            assert same(ranges, there)
        killer.join()
        assert time.monotonic() - began < 120
        assert not cluster.dead_osds()


@needs_class
def test_no_daemon_ends_or_answers_otherwise_after_hostile_programs() -> None:
    """`bench/ceph/hostile.py` sends 10^6; it starts its own cluster."""
    command = [ROOT / "bench" / "ceph" / "hostile.py", "--programs", "2000", "--class", CLASS]
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "2000 programs" in done.stdout
