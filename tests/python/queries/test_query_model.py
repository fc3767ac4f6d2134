"""Queries against NumPy: random conditions on variables with NaN, overlaps, unwritten cells, steps, codecs, records
and coordinates.

For each variable, the model keeps an array of values and a mask of written cells. It evaluates the same random tree
with Kleene's three-valued logic. `DRYSTONE_LONG=1` tries 10^4 conditions; otherwise a few hundred.
"""

import os
import tempfile
from dataclasses import dataclass

import drystone as dry
import numpy as np
import pytest

LONG = os.environ.get("DRYSTONE_LONG") == "1"
CONTAINERS, CONDITIONS = (200, 50) if LONG else (12, 25)

SHAPE = (13, 17)
RECORD = np.dtype([("a", "f4"), ("b", "i2")])
CODECS = [None, "zstd:1", "shuffle,zstd:1", "alacrity", "alacrity:data=1"]


@dataclass
class Stored:
    """The content of one name: values and a mask of written cells, in the grid's shape."""

    values: np.ndarray
    written: np.ndarray


def numbers(rng, dtype, shape):
    if dtype == np.dtype(bool):
        return rng.random(shape) < 0.4
    if np.dtype(dtype).kind == "f":
        values = rng.choice([-2.0, -0.5, -0.0, 0.0, 0.25, 1.0, 3.5, np.inf, -np.inf, 7.0], shape).astype(
            dtype
        )
        if rng.random() < 0.6:
            # Blocks with values in a narrow range, so that statistics decide some conditions.
            values = (rng.integers(-3, 4) + rng.random(shape)).astype(dtype)
        values[rng.random(shape) < rng.choice([0, 0.1, 0.5])] = np.nan
        return values
    low = rng.integers(-4, 4) if np.dtype(dtype).kind == "i" else rng.integers(0, 4)
    return rng.integers(low, low + rng.integers(1, 6), shape).astype(dtype)


class World:
    """A container with variables, and the model."""

    def __init__(self, rng, path):
        self.rng = rng
        self.steps = bool(rng.random() < 0.6)
        self.count = int(rng.integers(1, 4)) if self.steps else 1
        self.full = (self.count, *SHAPE)
        self.c = dry.create(path)
        self.names: dict[str, Stored] = {}
        self.kinds: dict[str, str] = {}
        declared = {
            "p": "f4",
            "q": "f8",
            "n": "i4",
            "m": "u1",
            "k": "i8",
            "flag": "?",
            "P": RECORD,
        }
        for name, dtype in declared.items():
            chunks = tuple(int(n) for n in rng.integers(1, 9, 2)) if rng.random() < 0.7 else None
            codec = CODECS[rng.integers(len(CODECS))]
            self.c.create_variable(
                name,
                dtype,
                SHAPE,
                dims=("y", "x"),
                steps=self.steps,
                transform=codec,
                chunks=chunks,
                fill_value=None,
            )
        self.c.create_variable("lat", "f8", (SHAPE[0],), dims=("y",))
        self.c.create_variable("one", "i4", ())
        arrays = {name: np.zeros(self.full, dtype) for name, dtype in declared.items()}
        written = {name: np.zeros(self.full, bool) for name in declared}
        lat = np.linspace(-3, 3, SHAPE[0])
        with self.c.writer() as w:
            w.put("lat", lat)
            w.put("one", np.int32(2))
        for step in range(self.count):
            for _ in range(int(rng.integers(1, 3))):
                with self.c.writer() as w:
                    if self.steps:
                        with w.step(step):
                            self.put(w, step, arrays, written, declared)
                    else:
                        self.put(w, step, arrays, written, declared)
                self.c.commit()
        for name in declared:
            if name == "P":
                for member in RECORD.names:
                    self.names[f"P.{member}"] = Stored(arrays[name][member], written[name])
            else:
                self.names[name] = Stored(arrays[name], written[name])
        everywhere = np.ones(self.full, bool)
        shape = self.full
        self.names["lat"] = Stored(np.broadcast_to(lat[None, :, None], shape), everywhere)
        self.names["one"] = Stored(np.full(shape, 2, np.int32), everywhere)
        self.names["x"] = Stored(np.broadcast_to(np.arange(SHAPE[1])[None, None, :], shape), everywhere)
        self.names["y"] = Stored(np.broadcast_to(np.arange(SHAPE[0])[None, :, None], shape), everywhere)
        if self.steps:
            self.names["step"] = Stored(
                np.broadcast_to(np.arange(self.count)[:, None, None], shape), everywhere
            )

    def put(self, w, step, arrays, written, declared):
        rng = self.rng
        for name, dtype in declared.items():
            for _ in range(int(rng.integers(0, 4))):
                lo = [int(rng.integers(0, n)) for n in SHAPE]
                hi = [int(rng.integers(a + 1, n + 1)) for a, n in zip(lo, SHAPE, strict=True)]
                shape = tuple(b - a for a, b in zip(lo, hi, strict=True))
                if dtype is RECORD:
                    block = np.empty(shape, RECORD)
                    for member in RECORD.names:
                        block[member] = numbers(rng, RECORD[member], shape)
                else:
                    block = numbers(rng, np.dtype(dtype), shape)
                w.put(name, block, offset=lo)
                where = (step, *(slice(a, b) for a, b in zip(lo, hi, strict=True)))
                arrays[name][where] = block
                written[name][where] = True

    def number(self, depth):
        """A text, its values, and where they are known; only 8-byte floats or integers, since types are tested
        elsewhere."""
        rng = self.rng
        floats = ["p", "q", "P.a", "lat"]
        name = str(rng.choice(floats))
        values, known = self.names[name].values, self.names[name].written
        text = name
        if depth > 0 and rng.random() < 0.4:
            other, others, also = self.number(depth - 1)
            text, values, known = (
                f"(f8({text}) + f8({other}))",
                values.astype("f8") + others.astype("f8"),
                known & also,
            )
        elif rng.random() < 0.2:
            text, values = f"abs({text})", np.abs(values)
        elif rng.random() < 0.1 and depth > 0:
            condition, truth, sure = self.condition(depth - 1)
            other, others, also = self.number(depth - 1)
            text = f"where({condition}, f8({text}), f8({other}))"
            values = np.where(truth, values.astype("f8"), others.astype("f8"))
            known = sure & np.where(truth, known, also)
        return text, values, known

    def comparison(self):
        rng = self.rng
        sign, compare = [
            ("<", np.less),
            ("<=", np.less_equal),
            (">", np.greater),
            (">=", np.greater_equal),
            ("==", np.equal),
            ("!=", np.not_equal),
        ][rng.integers(6)]
        kind = rng.random()
        if kind < 0.45:
            text, values, known = self.number(1)
            constant = float(rng.choice([-2.0, -0.5, 0.0, 0.25, 1.0, 3.5, 0.7, 100.0]))
            return f"{text} {sign} {constant}", compare(values, values.dtype.type(constant)), known
        if kind < 0.6:
            a, left, sure = self.number(1)
            b, right, also = self.number(0)
            return f"f8({a}) {sign} f8({b})", compare(left.astype("f8"), right.astype("f8")), sure & also
        if kind < 0.7:
            text, values, known = self.number(1)
            return f"isnan({text})", np.isnan(values), known
        if kind < 0.78:
            stored = self.names["flag"]
            return "flag", stored.values, stored.written
        names = [name for name in ("n", "m", "k", "P.b", "one", "x", "y", "step") if name in self.names]
        stored = self.names[str(rng.choice(names))]
        name = next(name for name, one in self.names.items() if one is stored)
        constant = int(rng.integers(-5, 12))
        return f"{name} {sign} {constant}", compare(stored.values.astype("i8"), constant), stored.written

    def condition(self, depth):
        """A text, where it is true, and where its value is known."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.2:
            return self.comparison()
        kind = rng.random()
        a, left, sure = self.condition(depth - 1)
        if kind < 0.2:
            return f"~({a})", ~left, sure
        b, right, also = self.condition(depth - 1)
        if kind < 0.6:
            return f"({a}) & ({b})", left & right, sure & also | sure & ~left | also & ~right
        if kind < 0.9:
            return f"({a}) | ({b})", left | right, sure & also | sure & left | also & right
        return f"({a}) ^ ({b})", left ^ right, sure & also

    def selection(self):
        rng = self.rng

        def one(extent):
            ends = [int(n) if rng.random() < 0.6 else None for n in rng.integers(-extent, extent, 2)]
            return slice(*ends, int(rng.choice([1, 1, 2, 3, -1, -2])))

        cells = tuple(one(extent) for extent in SHAPE) if rng.random() < 0.5 else None
        steps = one(self.count) if self.steps and rng.random() < 0.5 else None
        return cells, steps


@pytest.mark.parametrize("seed", range(CONTAINERS))
def test_queries_find_what_numpy_finds(seed):
    rng = np.random.default_rng(1000 + seed)
    with tempfile.TemporaryDirectory() as folder:
        world = World(rng, f"{folder}/world.dry")
        with world.c as c:
            for _ in range(CONDITIONS):
                with np.errstate(all="ignore"):
                    text, truth, known = world.condition(int(rng.integers(0, 4)))
                hits = np.broadcast_to(truth & known, world.full)
                cells, steps = world.selection()
                check(world, c, text, hits, cells, steps)


def check(world, c, text, hits, cells, steps):
    # With `over` the cells are those of the grid, whatever the condition names.
    over = ["p", "n"]
    if world.steps:
        key = (slice(None) if steps is None else steps, *(cells or (slice(None), slice(None))))
    else:
        key = (0, *(cells or (slice(None), slice(None))))
    selected = np.zeros(world.full, bool)
    selected[key] = True
    expected = np.argwhere(hits & selected)
    if not world.steps:
        expected = expected[:, 1:]
    where = f"{text} at {cells} of steps {steps}"
    q = c.query(text, cells, steps, over=over)
    low, high = q.bounds()
    assert low <= len(expected) <= high, where
    assert q.report.bytes == 0, where
    assert q.count() == len(expected), where
    if low == high:
        assert q.report.bytes == 0, where
    coords = q.coords()
    assert coords.dtype == np.int64, where
    assert np.array_equal(coords, expected), where
    assert np.array_equal(q.mask(), hits[key]), where
    place = tuple(expected.T) if world.steps else (0, *expected.T)
    values = q.values("p", "m")
    for name, found in zip(("p", "m"), values, strict=True):
        stored = world.names[name]
        wanted = np.where(stored.written, stored.values, 0).astype(stored.values.dtype)[place]
        assert found.dtype == stored.values.dtype, where
        assert np.array_equal(found, wanted.reshape(-1), equal_nan=name == "p"), where
    inside = np.zeros(world.full if world.steps else SHAPE, bool)
    for offset, count in q.boxes():
        box = tuple(slice(o, o + n) for o, n in zip(offset, count, strict=True))
        own = (hits & selected) if world.steps else (hits & selected)[0]
        assert own[box].any(), where
        inside[box] = True
    assert inside[tuple(expected.T)].all(), where
    rows = 0
    for batch in q.batches(rows=7, variables=["p"]):
        assert 1 <= len(batch) <= 7, where
        assert np.array_equal(batch.coords, expected[rows : rows + len(batch)]), where
        at = tuple(batch.coords.T) if world.steps else (0, *batch.coords.T)
        written = world.names["p"].written[at].reshape(-1)
        mask = batch.written["p"]
        assert np.array_equal(np.ones(len(batch), bool) if mask is None else mask, written), where
        rows += len(batch)
    assert rows == len(expected), where
