"""The independent reader and the engine agree on real containers: what one wrote from the specification, the other
reads."""

import drystone as dry
import numpy as np
import pytest

import drystone_reader as reader

TEXT = np.dtype(object, metadata={"vlen": str})
TABLE = np.dtype(
    [("n", "<i4"), ("name", str), ("hits", dry.ragged("f4")), ("in", [("words", TEXT, (2,)), ("k", "<i2")])]
)
RECORD = np.dtype([("x", "<f4"), ("v", "<f8", (3,)), ("in", [("k", "<i2"), ("s", "S3")])], align=True)


def fill(path, durability):
    rng = np.random.default_rng(11)
    with dry.create(path, durability=durability) as c:
        c.attrs["title"] = "wall"
        with c.batch():
            c.create_variable("raw", "f8", shape=(40, 30), steps=True, fill_value=-1.5)
            c.create_variable(
                "g/packed", "u2", shape=(33, 17, 9), steps=True, transform="shuffle,zstd:1", chunks=(8, 8, 8)
            )
            c.create_variable("g/record", RECORD, shape=(25,), transform="zstd:3")
            c.create_variable("text", str, shape=(4,))
            c.create_variable("table", TABLE, shape=(6,), transform="zstd:1")
            c.create_variable("grows", "i4", shape=(None, 3), steps=True)
            c.create_variable("large", "f4", shape=(300, 300))
            c.create_variable("fronts", "f8", shape=(60, 40), transform="aplod", chunks=(16, 16))
        for rank in range(3):
            with c.writer(rank=rank, nranks=3) as w:
                for step in (0, 1, 4):
                    with w.step(step):
                        w.put("raw", rng.random((15, 30)), offset=(rank * 12, 0))  # overlapping: the higher rank wins
                        w.put("g/packed", rng.integers(0, 99, (11, 17, 9)).astype("u2"), offset=(rank * 11, 0, 0))
                        w.put("grows", rng.integers(0, 9, (2, 3)).astype("i4"), offset=(rank * 2 + step, 0))
        c.commit()
        with c.writer() as w:
            values = np.zeros(20, RECORD)
            for name in ("x",):
                values[name] = rng.random(20)
            values["v"] = rng.random((20, 3))
            values["in"]["k"] = np.arange(20)
            values["in"]["s"] = b"abc"
            w.put("g/record", values, offset=(3,))
            w.put("g/record", rng.random((12, 2)), offset=(0,), field="v[1:]")
            w.put("g/record", rng.random(5), offset=(19,), field="v[0]")
            rows = [(n, "row " * n, np.arange(n % 3), (["", f"word {n}"], n)) for n in range(4)]
            w.put("table", rows, offset=(1,))
            w.put("table", ["later", ""], offset=(3,), field="name")
            w.put("table", [["a"]], offset=(2,), field="in.words[1:]")
            w.put("text", np.array(["", "stone", "größe", "x" * 100_000], object))
            w.put("fronts", np.cos(np.arange(2400.0)).reshape(60, 40))
            w.put("large", rng.random((300, 300)).astype("f4"))
        with c.writer(rank=0, nranks=1) as w, w.step(1, replace=True):
            w.put("raw", np.full((5, 5), 7.0), offset=(2, 2))
        c["large"].resize((200, 300))
        c["large"].resize((300, 300))


def plain(value):
    """Records as lists."""
    if isinstance(value, np.void):
        return [plain(value[name]) for name in value.dtype.names]
    return [plain(one) for one in value] if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("durability", ["durable", "async"])
def test_both_read_the_same(tmp_path, durability):
    pytest.importorskip("zstandard")
    path = tmp_path / "a.dry"
    fill(path, durability)
    independent = reader.open_container(path)
    with dry.open(path) as c:
        assert independent.variables() == sorted(c.variables)
        assert list(independent.steps()) == list(c.steps) == [0, 1, 4]
        assert independent.attrs("")["title"] == "wall"
        compared = 0
        for name in c.variables:
            variable = c[name]
            for step in c.steps if variable.has_steps else [None]:
                mine = independent.read(name, step)
                theirs = variable.read(step=step)
                assert mine.shape == theirs.shape
                if theirs.dtype.names and theirs.dtype.hasobject:
                    assert plain(mine) == plain(theirs)
                else:
                    assert (mine == theirs).all(), (name, step)
                compared += mine.size
    assert compared > 100_000
    assert (independent.read("large")[200:] == 0).all()


def test_both_refuse_a_damaged_byte(tmp_path):
    pytest.importorskip("zstandard")
    path = tmp_path / "a.dry"
    fill(path, "durable")
    for segment in (path / "log").glob("*.seg"):
        data = bytearray(segment.read_bytes())
        for at in range(200, len(data), max(1, len(data) // 50)):
            data[at] ^= 0x10
        segment.write_bytes(data)
    independent = reader.open_container(path)
    with dry.open(path) as c, pytest.raises(dry.CorruptError, match=r"log/.*\.seg is damaged at byte \d+.*large"):
        c["large"].read()
    with pytest.raises(reader.CorruptError):
        independent.read("large")
