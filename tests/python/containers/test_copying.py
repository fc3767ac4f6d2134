"""Copies hold what their container shows, and nothing else: docs/guide/copying.md."""

import json
import os
import subprocess
import sys
import textwrap
from random import Random
from time import perf_counter, sleep

import drystone as dry
import numpy as np
import pytest
from actors import PROCESSES, WAIT
from command_line import drystone
from drystone import written
from far_rig import Rig
from same_bits import same
from server_rig import ALL, served

RECORD = np.dtype([("x", "f8"), ("v", [("a", "i2"), ("b", "f4", (2,))])], align=True)
DTYPES = ["f4", "f8", "i1", "u2", "i8", "?", "c8", "S3", "f2", "bfloat16"]
KILLS = 100 if os.environ.get("DRYSTONE_LONG") == "1" else 8


def files(path):
    return sum(len(found) for _, _, found in os.walk(path))


def holds(v, step=None):
    """The number of cells with values, from the plan of a full read."""
    reading = v._reading()
    return reading.explain(... if step is None else (step, ...)).wanted_bytes // reading.item


def alike(one, two):
    """Check that two containers are equal: by the command, and in properties that it does not compare."""
    said = drystone("diff", one, two)
    assert said == "no difference\n"
    with dry.open(one) as a, dry.open(two) as b:
        for name in a.variables:
            v, w = a.variables[name], b.variables[name]
            for what in ("growable", "chunk_shape", "access", "transform", "local", "steps", "dims", "dtype"):
                assert getattr(v, what) == getattr(w, what), (name, what)
            for step in v.steps if v.has_steps else [None]:
                if v.local:
                    assert repr(v.read_blocks(step)) == repr(w.read_blocks(step))
                else:
                    assert holds(v, step) == holds(w, step), (name, step)


class Model:
    """Random variables in a container, and beside them NumPy arrays with the cells that were written."""

    def __init__(self, random, c):
        self.random, self.c = random, c
        self.values, self.masks, self.kinds = {}, {}, {}
        for number in range(random.randint(1, 4)):
            name = random.choice(["", "g/", "g/h/"]) + f"v{number}"
            ndim = random.randint(0, 3)
            shape = tuple(random.randint(1, 9) for _ in range(ndim))
            kind = random.choice([*DTYPES, str, RECORD])
            fill = random.choice([None, 3]) if kind in ("f4", "f8", "i8", "c8") else None
            steps = random.random() < 0.5
            v = c.create_variable(
                name,
                kind,
                shape,
                steps=steps,
                dims=[f"d{n}" for n in range(ndim)] if random.random() < 0.5 else None,
                chunks=[random.randint(1, n) for n in shape] if random.random() < 0.3 else None,
                transform=random.choice([None, "zstd:1", "auto"]) if kind in ("f4", "f8", "i8") else None,
                fill_value=fill,
                attrs={"number": np.int16(number), "texts": ["a", "b"]},
            )
            self.kinds[name] = v.dtype, shape, steps, v.fill_value
        for name, (dtype, shape, _, fill) in self.kinds.items():
            for step in (0, 2, 3, None):
                self.values[name, step] = np.full(shape, fill, dtype)
                self.masks[name, step] = np.zeros(shape, bool)

    def key(self, name, step):
        return name, step if self.kinds[name][2] else None

    def put(self, w, step):
        for name, (dtype, shape, steps, _) in self.kinds.items():
            if steps != (step is not None):
                continue
            for _ in range(self.random.randint(0, 5)):
                low = [self.random.randrange(n) for n in shape]
                count = [self.random.randint(1, n - a) for a, n in zip(low, shape, strict=True)]
                box = tuple(slice(a, a + n) for a, n in zip(low, count, strict=True))
                made = self.made(dtype, count)
                w.put(name, made, low)
                self.values[self.key(name, step)][box] = made
                self.masks[self.key(name, step)][box] = True

    def made(self, dtype, count):
        numbers = np.array([self.random.randint(1, 99) for _ in range(int(np.prod(count)))], "i8")
        if dtype.kind == "O":
            return np.array([f"t{n}" * (n % 4) for n in numbers], object).reshape(count)
        if dtype.names:
            out = np.zeros(len(numbers), dtype)
            out["x"], out["v"]["a"], out["v"]["b"][:, 1] = numbers, numbers + 1, numbers + 2
            return out.reshape(count)
        if dtype.kind == "V":
            return numbers.astype("f4").astype(dtype).reshape(count)
        return numbers.astype(dtype).reshape(count)

    def clip(self):
        """Shrink variables without steps, and grow them again."""
        for name, (_, shape, steps, fill) in self.kinds.items():
            if shape and not steps and self.random.random() < 0.4:
                small = [self.random.randint(1, n) for n in shape]
                self.c[name].resize(small)
                self.c[name].resize(shape)
                gone = np.ones(shape, bool)
                gone[tuple(map(slice, small))] = False
                self.values[name, None][gone] = fill
                self.masks[name, None][gone] = False

    def check(self, c):
        assert c.steps == [0, 2, 3]
        for name, (_, _, steps, _) in self.kinds.items():
            v = c[name]
            for step in c.steps if steps else [None]:
                got = v.read(step=step)
                np.testing.assert_array_equal(np.asarray(got), self.values[name, step])
                if v.dtype.names is None:
                    assert holds(v, step) == self.masks[name, step].sum(), (name, step)


@pytest.mark.parametrize("seed", range(40))
def test_random_containers_are_copied_cell_by_cell(tmp_path, seed):
    random = Random(seed)
    one, two = tmp_path / "one.dry", tmp_path / "two.dry"
    with dry.create(one, durability="memory") as c:
        model = Model(random, c)
        for _ in range(random.randint(1, 3)):
            with c.writer() as w:
                for step in (0, 2, 3):
                    with w.step(step):
                        model.put(w, step)
                model.put(w, None)
            c.commit()
            model.clip()
        model.check(c)
        with c.copy(two) as copied:
            model.check(copied)
    alike(one, two)


def test_a_thousand_assignments_are_few_files_in_the_copy(tmp_path):
    one, two = tmp_path / "one.dry", tmp_path / "two.dry"
    with dry.create(one, durability="memory") as c:
        v = c.create_variable("v", "f8", (1000,))
        for i in range(1000):
            v[i] = i
            assert v[i] == i
        c.copy(two).close()
    assert files(one) <= 32
    assert files(two) <= 32
    with dry.open(two) as c:
        same(c["v"][:], np.arange(1000.0))
        assert len(c["v"].blocks()) == 1


def test_cells_beyond_a_boundary_of_the_past_stay_unwritten(tmp_path):
    """A shrunk variable that grows again reads as fill where its old blocks still are. A copy that trusted the boxes
    of the blocks would write those cells; the number of cells with values tells."""
    one, two = tmp_path / "one.dry", tmp_path / "two.dry"
    with dry.create(one, durability="memory") as c:
        v = c.create_variable("v", "i4", (40, 50), fill_value=-1)
        v[...] = np.arange(2000).reshape(40, 50)
        v[0, 0]
        v.resize((17, 23))
        v.resize((40, 50))
        v[30:35, 20:40] = 7
        assert holds(v) == 17 * 23 + 5 * 20
        with c.copy(two) as d:
            assert holds(d["v"]) == 17 * 23 + 5 * 20
            assert len(d["v"].blocks()) == 2
            same(d["v"][...], v[...])
    alike(one, two)


def test_replaced_values_of_a_step_are_not_copied(tmp_path):
    with dry.create(tmp_path / "one.dry", durability="memory") as c:
        c.create_variable("v", "i4", (4,), steps=True)
        with c.writer() as w:
            with w.step(5):
                w.put("v", [1, 2, 3, 4])
            c.commit()
            with w.step(5, replace=True):
                w.put("v", [9], 1)
            with w.step(8):
                pass
            c.commit()
        with c.copy(tmp_path / "two.dry") as d:
            assert d.steps == [5, 8]
            same(d["v"][5], np.array([0, 9, 0, 0], "i4"))
            assert holds(d["v"], 5) == 1


def test_members_that_were_written_alone_stay_alone(tmp_path):
    with dry.create(tmp_path / "one.dry", durability="memory") as c:
        c.create_variable("p", RECORD, (9,))
        with c.writer() as w:
            w.put("p", np.arange(3.0), 0, field="x")
            w.put("p", np.ones((2, 2), "f4"), 4, field="v.b")
            whole = np.zeros(2, RECORD)
            whole["x"] = 5
            w.put("p", whole, 7)
        with c.copy(tmp_path / "two.dry") as d:
            same(d["p"][...], c["p"][...])
            for member, cells in (("x", 5), ("v.a", 2), ("v.b", 4)):
                assert holds(d["p"][member]) == holds(c["p"][member]) == cells
    alike(tmp_path / "one.dry", tmp_path / "two.dry")


def test_values_of_local_variables_stay_with_their_ranks(tmp_path):
    one, two = tmp_path / "one.dry", tmp_path / "two.dry"
    with dry.create(one, durability="memory") as c:
        c.create_variable("n", "i8", local=True)
        c.create_variable("names", str, local=True)
        c.create_variable("parts", RECORD, local=True, steps=True)
        c.create_variable("t", "f4", (3,), steps=True)
        writers = [c.writer(rank, 3) for rank in range(3)]
        for rank, w in enumerate(writers):
            w.put("n", rank)
            w.put("names", [f"r{rank}"] * rank)
            for step in (1, 4):
                with w.step(step):
                    w.put("t", [rank + step], rank)
                    parts = np.zeros((rank, 2), RECORD)
                    parts["x"], parts["v"]["a"] = step, rank
                    w.put("parts", parts)
            w.close()
        c.commit()
        with c.copy(two) as d:
            assert [b.rank for b in d["parts"].blocks(4)] == [0, 1, 2]
            for step in (1, 4):
                for a, b in zip(c["parts"].read_blocks(step), d["parts"].read_blocks(step), strict=True):
                    same(a, b)
            assert d["n"].read_blocks() == [0, 1, 2]
    alike(one, two)


def test_groups_links_growing_axes_and_expected_reads_are_kept(tmp_path):
    one, two = tmp_path / "one.dry", tmp_path / "two.dry"
    with dry.create(one, durability="memory") as c:
        c.attrs.update({"title": "run", "nested": {"a": [1, {"b": None}], "e": []}, "n": np.float32(2)})
        c.create_group("g/empty", {"units": "K"})
        c.create_variable("g/a", "f4", (None, 3), dims=("y", "x"), access="plane:y 60%, box:2", chunks=(2, 3))
        c.create_variable("grows", "i4", (None,), steps=True)
        c.create_variable("nothing", "i4", (None, 4))
        c.link("other", "g/a")
        c.link("h", "g")
        c["g/a"][0:5] = 1
        with c.writer() as w:
            for step in (2, 9):
                with w.step(step):
                    w.put("grows", np.full(step, step, "i4"))
        c.commit()
        c.copy(two).close()
    alike(one, two)
    with dry.open(two) as d:
        assert [d._handle.followed(n) for n in ("other", "h", "h/a")] == ["g/a", "g", "g/a"]
        assert d["g/a"].access == "plane:y 60%, box:2 40%"
        assert dict(d.groups["g/empty"].attrs) == {"units": "K"}


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.dry"
    with dry.create(path, durability="memory") as c:
        c.attrs["a"] = 1
        c.create_variable("g/T", "f4", (8, 6), steps=True, transform="zstd:1", attrs={"units": "K"})
        c.create_variable("g/names", str, (2,))
        c.create_variable("x", "f8", (6,))
        c.link("alias", "g/T")
        with c.writer() as w:
            w.put("x", np.arange(6.0))
            for step in range(6):
                with w.step(step):
                    w.put("g/T", np.full((8, 6), step, "f4"))
        c.commit()
    return path


def test_a_part_of_the_variables_and_steps(tmp_path, sample):
    with dry.open(sample) as c:
        with c.copy(tmp_path / "1.dry", variables=["alias"], steps=slice(2, 5, 2)) as d:
            assert (list(d.variables), list(d.groups), d.steps) == (["alias", "g/T"], ["g"], [2, 4])
            same(d["alias"][4], c["g/T"][4])
        with c.copy(tmp_path / "2.dry", variables="g", steps=[5], attrs=False) as d:
            assert (list(d.variables), d.steps, dict(d.attrs)) == (["alias", "g/T", "g/names"], [5], {})
            assert not dict(d["g/T"].attrs)
        with c.copy(tmp_path / "3.dry", steps=slice(-2, None)) as d:
            assert d.steps == [4, 5]
            same(d["x"][:], np.arange(6.0))


def test_another_transform_and_cut(tmp_path, sample):
    with dry.open(sample) as c:
        with c.copy(tmp_path / "1.dry", transform="shuffle,zstd:3", chunks=(4, 3)) as d:
            assert {v.transform for v in d.variables.values()} == {"shuffle,zstd:3"}
            assert d["g/T"].blocks(0)[0].chunks == (4, 3)
            assert d["x"].chunk_shape is None
            same(d["g/T"][...], c["g/T"][...])
        with c.copy(tmp_path / "2.dry", transform=None, chunks={"x": (2,)}) as d:
            assert d["g/T"].transform is None
            assert d["x"].chunk_shape == (2,)
        with pytest.warns(dry.DrystoneWarning, match="g/names keeps its transform"):
            d = c.copy(tmp_path / "3.dry", transform="zfp:rate=8", variables=["g"])
        assert d["g/T"].transform == "zfp:rate=8.0"
        d.close()


def test_an_earlier_snapshot(tmp_path, sample):
    with dry.open(sample, "r+") as c:
        before = int(c.snapshot)
        c["x"][2] = 99
        assert c["x"][2] == 99
        with c.at(before).copy(tmp_path / "1.dry") as d:
            same(d["x"][:], np.arange(6.0))
    drystone("copy", sample, tmp_path / "2.dry", "--at", before)
    assert drystone("diff", tmp_path / "1.dry", tmp_path / "2.dry") == "no difference\n"
    with dry.open(tmp_path / "2.dry") as d:
        now = int(d.snapshot)
    assert drystone("diff", sample, tmp_path / "2.dry", "--at", before, now) == "no difference\n"
    assert "other" not in drystone("diff", sample, tmp_path / "2.dry", code=1)


def test_uncommitted_assignments_are_copied_too(tmp_path, sample):
    with dry.open(sample, "r+") as c:
        c["x"][0] = 5
        with c.copy(tmp_path / "1.dry") as d:
            assert d["x"][0] == 5


def test_the_command_tells_what_it_did_and_what_the_copy_lacks(tmp_path, sample):
    with dry.open(sample, "r+") as c:
        c.publish(progress=None)
    told = json.loads(drystone("copy", sample, tmp_path / "1.dry", "g/T", "--steps", "1:3", "--json"))
    assert (told["variables"], told["steps"], told["files"]) == (["g/T"], [1, 2], files(tmp_path / "1.dry"))
    assert told["notes"] == ["what was published is not copied: publish the copy"]
    assert "1 variable, 1 step" in drystone("copy", sample, tmp_path / "2.dry", "g/T", "--steps", "4")
    drystone("copy", sample, tmp_path / "3.dry", "--transform", "none", "--chunks", "g/T=4,6", "--no-attrs")
    with dry.open(tmp_path / "3.dry") as d:
        assert (d["g/T"].transform, d["g/T"].chunk_shape, dict(d.attrs)) == (None, (4, 6), {})


def test_a_lossy_transform_is_named_where_values_are_encoded_again(tmp_path):
    with dry.create(tmp_path / "one.dry", durability="memory") as c:
        c.create_variable("v", "f8", (64, 64), transform="zfp:tolerance=0.1")
        c["v"][...] = np.random.default_rng(1).normal(size=(64, 64))
        c["v"][0, 0]
        with pytest.warns(dry.DrystoneWarning, match="v: its values were rounded"):
            c.copy(tmp_path / "two.dry").close()
        with c.copy(tmp_path / "three.dry", transform="zstd:1") as d:
            same(d["v"][...], c["v"][...])


def test_declared_texts_are_copied_where_they_describe_the_copy(tmp_path):
    text = "dataset { var u[4, 6] float32 fill -1 }\nfragment left { var u[i:4, j:3] = u[i, j] }"
    with dry.create(tmp_path / "one.dry", durability="memory") as c:
        c.declare(text)
        c["u"][...] = np.arange(24).reshape(4, 6)
        with c.copy(tmp_path / "two.dry") as d:
            assert d.datasets == c.datasets
            same(d.fragment("left").read(), c.fragment("left").read())
        with pytest.warns(dry.DrystoneWarning, match="declared texts are not copied"):
            c.copy(tmp_path / "three.dry", transform="zstd:1").close()


def test_wrong_input_is_refused_before_anything_is_made(tmp_path, sample):
    target = tmp_path / "t.dry"
    with dry.open(sample) as c:
        for given, error, match in [
            ({"variables": ["nope"]}, dry.NotFoundError, 'no variable "nope"'),
            ({"steps": [17]}, dry.NotFoundError, "no step 17; the last is 5"),
            ({"steps": slice(None, None, -1)}, dry.InvalidArgumentError, "ascend"),
            ({"steps": 3}, dry.InvalidArgumentError, "a slice or a list"),
            ({"steps": ["3"]}, dry.InvalidArgumentError, "a slice or a list"),
            ({"chunks": (1, 1, 1)}, dry.InvalidArgumentError, "3 extents"),
            ({"chunks": {"nope": (1,)}}, dry.InvalidArgumentError, "not an array that is copied"),
            ({"chunks": {"x": (0,)}}, dry.InvalidArgumentError, "chunk"),
            ({"transform": "nonsense"}, dry.InvalidArgumentError, "unknown codec"),
            ({"storage_options": {"a": "b"}}, dry.InvalidArgumentError, "local path"),
        ]:
            with pytest.raises(error, match=match):
                c.copy(target, **given)
            assert not target.exists(), given
        with pytest.raises(dry.InvalidArgumentError, match="the container itself"):
            c.copy(sample, overwrite=True)
        with pytest.raises(dry.InvalidArgumentError, match="lie in each other"):
            c.copy(sample / "inside.dry")
        with pytest.raises(dry.InvalidArgumentError, match="lie in each other"):
            c.copy(tmp_path, overwrite=True)
        c.copy(target).close()
        with pytest.raises(dry.ConflictError):
            c.copy(target)
        c.copy(target, overwrite=True, variables="x").close()
    assert drystone("diff", sample, sample) == "no difference\n"
    with dry.open(target) as d:
        assert list(d.variables) == ["x"]
    for arguments in (
        ["--steps", "a"],
        ["--steps", "1:2:0"],
        ["--chunks", "4,x"],
        ["--chunks", "4", "--chunks", "5"],
    ):
        said = drystone("copy", sample, tmp_path / "u.dry", *arguments, code=2)
        assert said.startswith("drystone: ")
        assert not (tmp_path / "u.dry").exists()


def test_a_copy_that_is_stopped_leaves_nothing(tmp_path, sample):
    with dry.open(sample) as c:
        seen = []

        def stop(done, total):
            seen.append((done, total))
            return len(seen) < 3

        with pytest.raises(dry.CancelledError):
            c.copy(tmp_path / "t.dry", progress=stop)
        assert len(seen) == 3
        assert not (tmp_path / "t.dry").exists()
        seen.clear()
        c.copy(tmp_path / "t.dry", progress=lambda done, total: seen.append((done, total))).close()
        assert seen[-1][0] == seen[-1][1] > 48 * 4 * 6


def test_a_copy_whose_source_is_damaged_leaves_nothing(tmp_path, sample):
    log = max((sample / "log").iterdir(), key=lambda file: file.stat().st_size)
    data = bytearray(log.read_bytes())
    with dry.open(sample) as c:
        _, at, end = c["g/T"].blocks(3)[0].place
    data[at:end] = bytes(b ^ 255 for b in data[at:end])
    log.write_bytes(data)
    with dry.open(sample) as c, pytest.raises(dry.CorruptError):
        c.copy(tmp_path / "t.dry")
    assert not (tmp_path / "t.dry").exists()


def test_a_container_with_lost_files_is_copied_only_if_that_is_wanted(tmp_path):
    path = tmp_path / "one.dry"
    with dry.create(path, durability="durable") as c:
        c.create_variable("v", "i4", (32,), fill_value=-1)
        for part in range(2):
            with c.writer() as w:
                w.put("v", np.full(12, part, "i4"), 16 * part)
        lost = c["v"].blocks()[1].place[0]
    (path / lost).unlink()
    with dry.open(path) as c, pytest.raises(dry.CorruptError, match="lost files"):
        c.copy(tmp_path / "two.dry")
    drystone("copy", path, tmp_path / "two.dry", code=4)
    assert not (tmp_path / "two.dry").exists()
    told = json.loads(drystone("copy", path, tmp_path / "two.dry", "--damaged", "--json"))
    assert any("12 cells in lost files" in note for note in told["notes"])
    with dry.open(tmp_path / "two.dry") as d:
        same(d["v"][:], np.array([0] * 12 + [-1] * 20, "i4"))
        assert holds(d["v"]) == 12


def copier(pipe, one, two):
    pipe.send("begin")
    with dry.open(one) as c:
        c.copy(two, transform="zstd:1").close()
    pipe.send("end")


def test_a_copy_that_is_killed_never_shows_wrong_values(tmp_path):
    one, two = tmp_path / "one.dry", tmp_path / "two.dry"
    steps, shape = 40, (64, 64)
    with dry.create(one, durability="memory") as c:
        c.create_variable("v", "i8", shape, steps=True)
        c.create_variable("k", "i8", shape)
        with c.writer() as w:
            w.put("k", np.full(shape, 5))
            for step in range(steps):
                with w.step(step):
                    w.put("v", np.full(shape, step + 1))
        c.commit()
    random, duration, killed = Random(3), 0.2, 0
    for _ in range(50 * KILLS):
        if killed >= KILLS:
            break
        mine, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=copier, args=(theirs, one, two))
        process.start()
        assert mine.poll(WAIT)
        assert mine.recv() == "begin"
        begin = perf_counter()
        sleep(random.uniform(0, 1.2 * duration))
        process.kill()
        process.join(WAIT)
        if mine.poll() and mine.recv() == "end":
            duration = 0.5 * (perf_counter() - begin)
        else:
            killed += 1
        if (two / "drystone.json").exists():
            with dry.open(two) as d:
                assert d.steps in ([], list(range(steps)))
                for step in d.steps:
                    assert (d["v"].read(step=step) == step + 1).all()
                if "k" in d.variables:
                    assert len(np.unique(d["k"][...])) == 1
        if two.exists():
            subprocess.run(["rm", "-rf", str(two)], check=True)
    assert killed >= KILLS


def test_memory_does_not_grow_with_the_container(tmp_path):
    path = tmp_path / "one.dry"
    with dry.create(path, durability="memory") as c:
        c.create_variable("v", "f8", (48, 1024, 512))
        with c.writer() as w:
            for z in range(48):
                w.put("v", np.full((1, 1024, 512), float(z)), (z, 0, 0))
    program = """
        import resource, sys
        import drystone as dry
        with dry.open(sys.argv[1]) as c:
            c["v"][0, 0, 0]
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            c.copy(sys.argv[2]).close()
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), path, tmp_path / "two.dry"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ran.stdout) << 10 < 144 << 20, "192 MiB were copied"


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_the_written_cells_each_once(seed):
    random = np.random.default_rng(seed)
    ndim = int(random.integers(0, 4))
    shape = tuple(int(n) for n in random.integers(1, 14, ndim))
    mask, blocks = np.zeros(shape, bool), []
    for _ in range(int(random.integers(1, 7))):
        low = [int(random.integers(0, n)) for n in shape]
        high = [int(random.integers(a + 1, n + 1)) for a, n in zip(low, shape, strict=True)]
        blocks.append((tuple(low), tuple(high)))
        mask[tuple(map(slice, low, high))] = True
    if ndim and seed % 2:
        mask[tuple(slice(n // 2, None) for n in shape)] = False
    most = int(random.integers(1, 60))
    unit = [int(n) for n in random.integers(1, 5, ndim)]
    seen = np.zeros(shape, int)

    def count(box):
        return int(mask[tuple(map(slice, *box))].sum())

    for part in written.parts(blocks, most, unit, count):
        assert np.prod([b - a for a, b in zip(*part.box, strict=True)]) <= most
        for box in part.written:
            seen[tuple(map(slice, *box))] += 1
    same(seen, mask.astype(int))


def test_a_container_is_copied_to_an_object_store_and_back(tmp_path, sample):
    rig = Rig()
    try:
        url, other = "s3://bucket/copies/run.dry", "s3://bucket/copies/stopped.dry"
        with dry.open(sample) as c:
            c.copy(url, storage_options=rig.options).close()
            with pytest.raises(dry.ConflictError):
                c.copy(url, storage_options=rig.options)
            with pytest.raises(dry.CancelledError):
                c.copy(other, storage_options=rig.options, progress=lambda done, total: False)
        with pytest.raises(dry.NotFoundError):
            dry.open(other, storage_options=rig.options)
        with dry.open(url, storage_options=rig.options) as far:
            far.copy(tmp_path / "back.dry").close()
    finally:
        rig.close()
    alike(sample, tmp_path / "back.dry")


def test_commits_during_a_copy_are_not_in_it(tmp_path, sample):
    with dry.open(sample, "r+") as c:

        def change(done, total):
            c["x"][0] = 1000 + done
            assert c["x"][0] == 1000 + done
            c["g/T"].attrs["units"] = str(done)

        with c.copy(tmp_path / "t.dry", progress=change) as d:
            same(d["x"][:], np.arange(6.0))
            assert d["g/T"].attrs["units"] == "K"
        assert c["x"][0] > 1000


def test_the_source_is_not_overwritten_by_another_address(tmp_path):
    """Symptom: a copy with `overwrite` removed its source where the target named it by another address."""
    with served(tmp_path) as server:
        token = server.token(*ALL)
        folder = tmp_path / "scratch" / "a.dry"
        with dry.create(folder) as c:
            c["x"] = np.arange(5)
        urls = [server.url, server.unix, server.url.replace("127.0.0.1", "localhost")]
        places = [str(folder), *(f"{url}/scratch/a.dry" for url in urls)]
        for source in places:
            for target in places:
                options = {"token": token} if "://" in target else None
                with (
                    dry.open(source, **({"token": token} if "://" in source else {})) as c,
                    pytest.raises(dry.InvalidArgumentError, match="is the container itself"),
                ):
                    c.copy(target, overwrite=True, storage_options=options)
        with dry.open(folder) as c:
            assert c["x"][...].tolist() == [0, 1, 2, 3, 4]
            for target, options in (
                (tmp_path / "b.dry", None),
                (f"{server.url}/scratch/c.dry", {"token": token}),
            ):
                for _ in range(2):
                    c.copy(target, overwrite=True, storage_options=options).close()


def test_a_copy_of_a_published_container_has_no_invented_cells(tmp_path):
    """Symptom: unwritten cells were copied as written ones, with the fill value, or the copy never ended."""
    random = np.random.default_rng(11)
    with dry.create(tmp_path / "run.dry") as c:
        T = c.create_variable("T", "i4", (64, 64), fill_value=-5)
        with c.writer() as w:
            for n in range(40):
                w.put("T", np.full((1, 1), n, "i4"), offset=tuple(random.integers(0, 64, 2)))
                c.create_variable(f"between{n}", "f8", (1000,))
                w.put(f"between{n}", random.random(1000))
        c.publish()
        T.resize((60, 64))
        T.resize((64, 64))
        with pytest.warns(dry.DrystoneWarning, match="what was published"):
            other = c.copy(tmp_path / "copy.dry")
        with other:
            assert np.array_equal(other["T"][...], T[...])
            for text in ("T < 0", "T >= 0"):
                assert other.query(text).count() == c.query(text).count(), text
            assert other["T"].statistics().min >= 0
