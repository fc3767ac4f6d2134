"""Stored layouts: `default` and `replica` fragments define the stored order, and reads do not depend on it.

The oracle is NumPy: random datasets get random stored fragments, random puts and reads, and must read as arrays do.
"""

import json
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "reader"))
import drystone_reader as reader

TYPES = {"int8": "i1", "int16": "i2", "int32": "i4", "float32": "f4", "float64": "f8", "complex128": "c16"}


class Random:
    """A dataset with stored fragments, drawn from a seed."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.shape = tuple(
            int(n) for n in rng.integers(1, [0, 60, 24, 12][rng.integers(1, 4)], rng.integers(1, 4))
        )
        self.members = {
            name: (kind, int(rng.choice([0, 0, 0, 3])))
            for name, kind in zip("abcd", rng.choice(list(TYPES), rng.integers(1, 5)), strict=False)
        }
        self.record = bool(rng.integers(0, 3))
        self.steps = bool(rng.integers(0, 2))
        self.grows = bool(rng.integers(0, 4) == 0)
        self.transform = str(rng.choice(["", "", "zstd:1", "shuffle,zstd:1", "auto", "aplod"]))

    @property
    def dtype(self):
        if not self.record:
            return np.dtype(TYPES[self.members["a"][0]])
        fields = [(n, TYPES[k], m) if m else (n, TYPES[k]) for n, (k, m) in self.members.items()]
        return np.dtype(fields, align=True)

    def order(self, ndim):
        kinds = ["row", "col", "hilbert", "morton", "perm"]
        kind = str(self.rng.choice(kinds))
        axes = ", ".join(map(str, self.rng.permutation(ndim)))
        return f"perm({axes})" if kind == "perm" else kind

    def fragment(self, name, role):
        ndim = len(self.shape)
        edges = [max(1, int(n)) for n in np.ceil(np.array(self.shape) / self.rng.integers(1, 4, ndim))]
        binders = list(self.rng.permutation(ndim))
        index = ", ".join(f"x{d} + {edges[d]}*p{d}" for d in range(ndim))
        extents = ", ".join(f"x{d}:{edges[d]}" for d in binders)
        head = f"fragment {name}({', '.join(f'p{d}' for d in range(ndim))}) {role} {{ "
        if not self.record:
            return f"{head} var v[{extents}] {self.order(ndim)} = v[{index}] }}\n"
        names = list(self.members)
        self.rng.shuffle(names)
        cut = int(self.rng.integers(0, len(names) + 1))
        parts = [f".{{{', '.join(part)}}}" for part in (names[:cut], names[cut:]) if part]
        if self.rng.integers(0, 3) == 0:
            parts = [""]
        body = "; ".join(
            f"var w{k}[{extents}] {self.order(ndim)} = v[{index}]{p}" for k, p in enumerate(parts)
        )
        return f"{head} {body} }}\n"

    def text(self):
        kind = "T" if self.record else self.members["a"][0]
        fields = "; ".join(f"{n} {f'[{m}]' if m else ''}{k}" for n, (k, m) in self.members.items())
        shape = ["*" if self.grows and d == 0 else str(n) for d, n in enumerate(self.shape)]
        text = f"type T struct {{ {fields} }}\ndataset {{ var v[{', '.join(shape)}] {kind}"
        text += " steps" * self.steps + f' transform "{self.transform}"' * bool(self.transform) + " }\n"
        text += self.fragment("main", "default")
        for k in range(int(self.rng.integers(0, 3))):
            text += self.fragment(f"copy{k}", f"replica({k + 1})")
        return text

    def box(self):
        low = [int(self.rng.integers(0, n)) for n in self.shape]
        high = [int(self.rng.integers(lo, n)) + 1 for lo, n in zip(low, self.shape, strict=True)]
        return tuple(slice(lo, hi) for lo, hi in zip(low, high, strict=True))

    def values(self, shape):
        out = np.zeros(shape, self.dtype)
        for name in self.dtype.names or [None]:
            part = out if name is None else out[name]
            part[...] = self.rng.integers(-100, 100, part.shape).astype(part.dtype)
        return out

    def selection(self):
        steps = [int(self.rng.choice([1, 1, 2, 3, -1, -2])) for _ in self.shape]
        return tuple(
            slice(None, None, s) if s < 0 else slice(b.start, b.stop, s)
            for s, b in zip(steps, self.box(), strict=True)
        )


def same(a, b):
    """Equal in every member; padding does not count."""
    assert a.dtype == b.dtype
    for name in a.dtype.names or [None]:
        np.testing.assert_array_equal(a if name is None else a[name], b if name is None else b[name])


@pytest.mark.parametrize("seed", range(60))
def test_random_layouts_read_as_arrays_do(tmp_path, seed):
    r = Random(seed)
    path = tmp_path / "a.dry"
    text = r.text()
    expected = np.zeros(r.shape, r.dtype)
    with dry.create(path, durability="memory") as c:
        c.declare(text)
        with c.writer() as w:
            if r.steps:
                with w.step():
                    put_some(r, w, expected)
            else:
                put_some(r, w, expected)
        c.commit()
    step = 0 if r.steps else None
    with dry.open(path) as c:
        v = c["v"]
        shape = v.shape[1:] if r.steps else v.shape
        expected = expected[: shape[0]]
        array = v[0] if r.steps else v
        same(v.read(step=step), expected)
        for _ in range(6):
            selection = r.selection()
            same(array[selection] if r.steps else v[selection], expected[selection])
        lists = tuple(r.rng.integers(0, n, 5) for n in expected.shape)
        whole = (0,) if r.steps else ()
        same(v.vindex[(*whole, *lists)], expected[lists])
        same(v.oindex[(*whole, *lists)], expected[np.ix_(*lists)])
        if r.dtype.names:
            for name in r.dtype.names:
                box = r.box()
                got = c["v"][name][(0, *box) if r.steps else box]
                np.testing.assert_array_equal(got, expected[name][box])
        report = c.verify()
        assert not report.damage, report
        if r.transform not in ("auto", "aplod"):  # which plain Python does not decode
            same(reader.open_container(path).read("v", step), expected)


def put_some(r, w, expected):
    for n in range(int(r.rng.integers(1, 6))):
        box = tuple(slice(0, n) for n in r.shape) if n == 0 else r.box()
        values = r.values(expected[box].shape)
        offset = tuple(b.start for b in box)
        if r.dtype.names and r.rng.integers(0, 3) == 0:
            name = str(r.rng.choice(r.dtype.names))
            w.put("v", np.ascontiguousarray(values[name]), offset=offset, field=name)
            expected[name][box] = values[name]
        else:
            w.put("v", np.asfortranarray(values) if r.rng.integers(0, 2) else values, offset=offset)
            for name in r.dtype.names or [None]:
                (expected if name is None else expected[name])[box] = values if name is None else values[name]


STRIPES = """
const N = 512
type P struct { x, y, z float64 }
dataset { var d[N, N] float64; var p[N, N] P; var plain[N] float32 }
fragment rows(r) default { var d[i:128, j:N] = d[i + 128*r, j] }
fragment cells default { var p[i:N, j:N] = p[i, j]; var plain[i:N] = plain[i] }
fragment columns(c) replica(1) { var d[j:64, i:N] = d[i, j + 64*c]; var x[i:N, j:N] col = p[i, j].x }
"""


@pytest.fixture
def stripes(tmp_path):
    with dry.create(tmp_path / "stripes.dry", durability="durable") as c:
        c.declare(STRIPES)
        values = np.random.default_rng(1).random((3, 512, 512))
        with c.writer() as w:
            w.put("d", values[0])
            records = np.zeros((512, 512), c["p"].dtype)
            records["x"], records["y"], records["z"] = values
            w.put("p", records)
            w.put("plain", np.arange(512, dtype="f4"))
        yield c, values


def test_a_read_takes_the_replica_that_costs_least_and_says_so(stripes):
    c, values = stripes
    d = c["d"]
    assert d.explain[:, 7].replica == 1
    assert d.explain[7, :].replica == 0
    text = str(d.explain[:, 7:9])
    assert "replica 1: " in text
    assert text.count("chosen") == 1
    assert d.explain[:, 7].read_bytes * 20 < 512 * 512 * 8
    np.testing.assert_array_equal(d[:, 7], values[0][:, 7])
    np.testing.assert_array_equal(d[7, :], values[0][7])
    np.testing.assert_array_equal(d[5:300:3, ::-2], values[0][5:300:3, ::-2])


def test_blocks_are_the_tiles_of_the_default_and_say_how_they_are_arranged(stripes):
    c, values = stripes
    assert [b.offset for b in c["d"].blocks()] == [(0, 0), (128, 0), (256, 0), (384, 0)]
    assert {b.layout for b in c["d"].blocks()} == {None}
    (block,) = c["p"].blocks()
    assert block.layout == "row, cells of 24 bytes"
    assert block.members == ("x", "y", "z")
    assert block.nbytes == 512 * 512 * 24
    np.testing.assert_array_equal(c["d"].read_block(None, 1), values[0][128:256])
    np.testing.assert_array_equal(c["p"].read_block(None, 0)["y"], values[1])


def test_a_struct_stored_whole_is_fetched_once(stripes):
    c, values = stripes
    plan = c["p"].explain[10:20, :]
    assert plan.read_bytes < 1.5 * 10 * 512 * 24
    assert c["p"].explain[...].read_bytes < 1.01 * 512 * 512 * 24
    np.testing.assert_array_equal(c["p"][10:20]["z"], values[2][10:20])
    # A single member is read best from its column, which is a replica.
    assert c["p"]["x"].explain[:, 3].replica == 1
    np.testing.assert_array_equal(c["p"]["x"][:, 3], values[0][:, 3])


def test_newest_wins_over_replicas_too(stripes):
    c, values = stripes
    with c.writer() as w:
        w.put("d", np.full((2, 512), -1.0), offset=(100, 0))
        w.put("d", np.full((512, 2), -2.0), offset=(0, 6))
    expected = values[0].copy()
    expected[100:102] = -1
    expected[:, 6:8] = -2
    for key in np.s_[:, 7], np.s_[:, 5], np.s_[101, :], np.s_[...]:
        np.testing.assert_array_equal(c["d"][key], expected[key])


def test_verify_finds_damage_in_replicas_and_reads_of_the_default_do_not_mind(stripes, tmp_path):
    c, values = stripes
    c.close()
    (segment,) = (tmp_path / "stripes.dry" / "log").glob("*.seg")
    data = bytearray(segment.read_bytes())
    needle = np.ascontiguousarray(values[0][:, 64:128].T).tobytes()
    at = data.index(needle[:4096])
    data[at + 100] ^= 4
    segment.write_bytes(data)
    with dry.open(tmp_path / "stripes.dry") as c:
        assert len(c.verify().damage) == 1
        np.testing.assert_array_equal(c["d"][70, :], values[0][70])
        with pytest.raises(dry.CorruptError):
            c["d"][:, 64]


@pytest.mark.parametrize(
    ("fragment", "why"),
    [
        ("fragment f(k) replica(1) { var d[i:5] = a[2*i + k] }", "do not follow one another"),
        ("fragment f default { var d[i:10] = a[9 - i]; var m[i:4] = m[i] }", "do not follow one another"),
        ("fragment f(k) replica(1) { var d[i:10] = a[i + k mod 10] }", "wraps around"),
        ("fragment f replica(2) { for s in 0..3 var v[i:4] = m[i].v[s] }", "takes a member array apart"),
        ("param n\nfragment f replica(1) { var d[i:n] = a[i] }", "has no value"),
    ],
)
def test_fragments_that_cannot_choose_a_layout_are_refused_where_they_are_declared(tmp_path, fragment, why):
    text = "type M struct { v [3]float32; w int8 }\ndataset { var a[10] float32; var m[4] M }\n" + fragment
    with dry.create(tmp_path / "a.dry") as c:
        with pytest.raises(dry.UnsupportedError, match=why):
            c.declare(text)
        assert not list(c.variables)


def test_instances_that_are_counted_from_one_or_by_division_are_found(tmp_path):
    text = """
    const n = 4
    dataset { var a[8, 12] int32 }
    fragment f(rank) default { var d[i:n, j:n] col = a[i + n*((rank - 1)/3), j + n*((rank - 1)%3)] }
    """
    with dry.create(tmp_path / "a.dry") as c:
        c.declare(text)
        with c.writer() as w:
            w.put("a", np.arange(96, dtype="i4").reshape(8, 12))
        assert sorted(b.offset for b in c["a"].blocks()) == [(i, j) for i in (0, 4) for j in (0, 4, 8)]
        assert {b.layout for b in c["a"].blocks()} == {"perm(1, 0), cells of 4 bytes"}
        np.testing.assert_array_equal(c["a"][...], np.arange(96).reshape(8, 12))


def test_a_container_of_an_earlier_version_reads_as_it_did():
    vectors = Path(__file__).parents[2] / "vectors"
    expected = json.loads((vectors / "v1_layouts.json").read_text())
    with dry.open(vectors / "v1_layouts") as c:
        assert not c.verify().damage
        for path, reads in expected["variables"].items():
            for read in reads:
                assert c[path].read(step=read["step"]).tobytes().hex() == read["value"], path
