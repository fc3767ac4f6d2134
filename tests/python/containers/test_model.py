"""Random programs on a container and on a model of NumPy arrays: whatever happens, both read the same.

A program creates variables with random dtypes, shapes, chunks and codecs. Random writers write overlapping blocks, in
random memory layouts, in several commits with schema changes and reopenings in between. After each commit, random
selections are compared bit for bit, now and in earlier snapshots.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field
from typing import Any

import drystone as dry
import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from same_bits import random_array, same

DTYPES = [
    *map(
        np.dtype,
        ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "S3", "U2"],
    ),
    np.dtype(ml_dtypes.bfloat16),
    np.dtype([("x", "f4"), ("n", "i2"), ("m", "u1", (2, 2))]),
    np.dtype([("a", "i1"), ("p", [("q", "f8"), ("r", "S2")])], align=True),
    np.dtype(object),
]
TRANSFORMS = [None, None, "zstd:1", "shuffle,zstd:1", "shuffle"]


@dataclass
class Put:
    """A block as it was put."""

    variable: int
    step: int | None
    offset: tuple[int, ...]
    array: np.ndarray
    field: str | None
    replace: bool
    order: tuple[int, int]


@dataclass
class Model:
    """One variable: the expected content of its cells."""

    key: int
    dtype: np.dtype
    shape: list[int]
    growable: list[bool]
    steps: bool
    fill: Any
    cells: dict[int | None, np.ndarray] = field(default_factory=dict)
    blocks: dict[int | None, list[Put]] = field(default_factory=dict)

    def empty(self) -> np.ndarray:
        if self.dtype.kind == "O":
            return np.full(self.shape, "", object)
        out = np.zeros(self.shape, self.dtype)
        if self.fill is not None:
            out[...] = self.fill
        return out

    def reshape(self, shape: list[int]) -> None:
        """Remove cells, or add cells with the fill value."""
        self.shape = list(shape)
        for step, old in self.cells.items():
            new = self.empty()
            kept = tuple(slice(0, min(a, b)) for a, b in zip(old.shape, shape, strict=True))
            new[kept] = old[kept]
            self.cells[step] = new

    def take(self, put: Put) -> None:
        """Make a put visible."""
        ends = [
            max(n, o + c) if grows and c else n
            for n, o, c, grows in zip(self.shape, put.offset, put.array.shape, self.growable, strict=False)
        ]
        if ends != self.shape:
            self.reshape(ends)
        cells = self.cells.setdefault(put.step, self.empty())
        ndim = len(self.shape)
        place = tuple(slice(o, o + n) for o, n in zip(put.offset, put.array.shape[:ndim], strict=True))
        (cells[put.field] if put.field else cells)[(*place, ...)] = put.array
        self.blocks.setdefault(put.step, []).append(put)

    def whole(self, last_step: int | None) -> np.ndarray:
        """The array that a reader sees."""
        if not self.steps:
            return self.cells.get(None, self.empty())
        count = 0 if last_step is None else last_step + 1
        out = np.empty((count, *self.shape), self.dtype)
        for t in range(count):
            out[t, ...] = self.cells.get(t, self.empty())
        return out


@dataclass
class State:
    """The expected content of one snapshot."""

    names: dict[str, int] = field(default_factory=dict)
    models: dict[int, Model] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)
    attrs: dict[str, Any] = field(default_factory=dict)


class Program:
    """A random program, executed on both."""

    def __init__(self, path: Any, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.path = path
        self.c = dry.create(path, durability="memory")
        self.state = State()
        self.history: dict[int, State] = {}
        self.keys = itertools.count()
        self.compared = 0

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def committed(self) -> None:
        self.history[int(self.c.snapshot)] = copy.deepcopy(self.state)

    # Operations of a program

    def create(self) -> None:
        dtype = self.pick(DTYPES)
        ndim = int(self.rng.integers(0, 4))
        shape = [int(n) for n in self.rng.integers(0 if self.chance(0.1) else 1, 9, ndim)]
        growable = [self.chance(0.2) for _ in shape]
        fill = None
        if dtype.kind != "O" and self.chance(0.5):
            fill = random_array(self.rng, dtype, ())[()]
        name = (
            "/".join(self.pick(["a", "b", "c"]) for _ in range(int(self.rng.integers(1, 3))))
            + f"/v{next(self.keys)}"
        )
        model = Model(next(self.keys), dtype, [0 if g else n for n, g in zip(shape, growable, strict=True)], growable,
                      self.chance(0.6), fill)  # fmt: skip
        self.c.create_variable(
            name,
            str if dtype.kind == "O" else dtype,
            shape=[None if g else n for n, g in zip(shape, growable, strict=True)],
            steps=model.steps,
            transform=self.pick(TRANSFORMS),
            chunks=[int(n) for n in self.rng.integers(1, 5, ndim)] if self.chance(0.5) else None,
            fill_value=fill,
        )
        self.state.names[name] = model.key
        self.state.models[model.key] = model
        self.committed()

    def layout(self, array: np.ndarray) -> np.ndarray:
        """The same values somewhere else in memory."""
        if not array.ndim:
            return array
        match int(self.rng.integers(5)):
            case 0:
                return np.asfortranarray(array)
            case 1:
                order = self.rng.permutation(array.ndim)
                return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
            case 2:
                wide = np.zeros([n * 2 for n in array.shape], array.dtype)
                view = wide[(*(slice(None, None, self.pick([2, -2])) for _ in array.shape), ...)]
                view[...] = array
                return view
            case 3:
                return array.astype(array.dtype.newbyteorder(">")) if array.dtype.kind in "iufc" else array
            case _:
                return array

    def put(
        self, writer: dry.Writer, name: str, step: int | None, replace: bool, order: tuple[int, int]
    ) -> Put:
        model = self.state.models[self.state.names[name]]
        room = [max(n, 6) if grows else n for n, grows in zip(model.shape, model.growable, strict=True)]
        offset = tuple(int(self.rng.integers(0, n + 1)) for n in room)
        shape = tuple(int(self.rng.integers(0 if self.chance(0.1) else min(1, n - o), n - o + 1))
                      for n, o in zip(room, offset, strict=True))  # fmt: skip
        member = self.pick(model.dtype.names) if model.dtype.names and self.chance(0.4) else None
        element, inner = model.dtype, ()
        if member:
            element, inner = model.dtype[member].base, model.dtype[member].shape
        array = random_array(self.rng, element, (*shape, *inner))
        writer.put(name, self.layout(array), offset=offset, field=member)
        return Put(model.key, step, offset, array, member, replace, order)

    def write(self) -> None:
        """Some writers, some steps, one commit."""
        if not self.state.names:
            return
        nranks = int(self.rng.integers(1, 4))
        ranked = self.chance(0.6)
        writers = [self.c.writer(rank=r, nranks=nranks) if ranked else self.c.writer() for r in range(nranks)]
        after = max(self.state.steps, default=-1) + 1
        steps = [int(s) for s in self.rng.integers(0, after + 3, int(self.rng.integers(1, 3)))]
        for step in dict.fromkeys(steps):
            replace = self.chance(0.2)
            puts: list[Put] = []
            for r, w in enumerate(writers):
                if replace and not ranked:
                    puts.clear()  # it hides what the writers before it closed
                with w.step(step, replace=replace):
                    for i in range(int(self.rng.integers(0, 4))):
                        if stepped := [n for n, k in self.state.names.items() if self.state.models[k].steps]:
                            puts.append(self.put(w, self.pick(stepped), step, replace, (r, i)))
            assert self.c.commit().changed or (ranked and nranks == 1)
            if replace:
                for model in self.state.models.values():
                    model.cells.pop(step, None)
                    model.blocks.pop(step, None)
            self.state.steps.add(step)
            self.adopt(puts)
            self.committed()
        for w in writers:
            loose = [n for n, k in self.state.names.items() if not self.state.models[k].steps]
            puts = [
                self.put(w, self.pick(loose), None, False, (0, i))
                for i in range(int(self.rng.integers(0, 3)))
                if loose
            ]
            w.close()
            self.adopt(puts)
            self.committed()

    def adopt(self, puts: list[Put]) -> None:
        for put in sorted(puts, key=lambda p: p.order):
            self.state.models[put.variable].take(put)

    def change_schema(self) -> None:
        if not self.state.names:
            return
        name = self.pick(list(self.state.names))
        model = self.state.models[self.state.names[name]]
        match int(self.rng.integers(5)):
            case 0:
                shape = [int(self.rng.integers(0, n + 4)) for n in model.shape]
                self.c[name].resize(shape)
                model.reshape(shape)
                model.blocks.clear()  # blocks() is not compared for cells that were cut off
                model.blocks[-1] = []
            case 1:
                new = f"{self.pick('xyz')}/r{next(self.keys)}"
                self.c.rename(name, new)
                self.state.names[new] = self.state.names.pop(name)
            case 2:
                del self.c[name]
                del self.state.models[self.state.names.pop(name)]
            case 3:
                value = self.pick([1, "text", [1.5, None], {"k": [True]}])
                self.c.attrs[self.pick("ab")] = value
                self.state.attrs = dict(self.c.attrs)
            case _:
                with self.c.batch():
                    self.c.attrs.update(a=0, b=1)
                    self.c.attrs["c"] = 2
                self.state.attrs |= {"a": 0, "b": 1, "c": 2}
        self.committed()

    def reopen(self) -> None:
        self.c.close()
        self.c = dry.open(self.path, "r+")

    # Checks

    def compare(self, c: dry.Container, state: State, rounds: int) -> None:
        assert list(c.variables) == sorted(state.names)
        assert c.steps == sorted(state.steps)
        assert dict(c.attrs) == state.attrs
        for name in state.names if rounds > 2 else list(state.names)[:1]:
            V, model = c[name], state.models[state.names[name]]
            whole = model.whole(max(state.steps, default=None))
            assert V.shape == whole.shape
            assert V.dtype == whole.dtype
            same(np.asarray(V[...]), whole)
            for _ in range(rounds):
                key = self.selection(whole.shape)
                same(V[key], whole[key])
                self.compared += 1
            if whole.dtype.names:
                member = self.pick(whole.dtype.names)
                key = self.selection(whole[member].shape)
                same(V[member][key], whole[member][key])
            self.compare_box(V, model, whole)
            self.compare_blocks(V, model)

    def selection(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        key: list[Any] = []
        for n in shape[: int(self.rng.integers(0, len(shape) + 1))]:
            if n and self.chance(0.35):
                key.append(int(self.rng.integers(-n, n)))
            else:
                a, b = (self.pick([None, int(self.rng.integers(-n - 2, n + 3))]) for _ in range(2))
                key.append(slice(a, b, self.pick([None, 1, 2, 3, -1, -2])))
        if self.chance(0.2):
            key.append(...)
        if self.chance(0.1):
            key.insert(int(self.rng.integers(len(key) + 1)), None)
        return tuple(key)

    def compare_box(self, V: dry.Variable, model: Model, whole: np.ndarray) -> None:
        step = None
        if model.steps:
            if not len(whole):
                return
            step = int(self.rng.integers(len(whole)))
            whole = np.asarray(whole[step, ...])
        offset = tuple(int(self.rng.integers(0, n + 1)) for n in whole.shape)
        count = tuple(int(self.rng.integers(0, n - o + 1)) for n, o in zip(whole.shape, offset, strict=True))
        expected = whole[(*(slice(o, o + n) for o, n in zip(offset, count, strict=True)), ...)]
        out = self.layout(np.zeros(count, whole.dtype))
        if out.dtype != whole.dtype:
            out = np.zeros(count, whole.dtype)
        assert V.read(step, offset, count, out=out) is out
        same(out, expected)
        self.compared += 1

    def compare_blocks(self, V: dry.Variable, model: Model) -> None:
        if -1 in model.blocks:
            return
        assert V.steps == sorted(s for s in model.blocks if s is not None and model.blocks[s])
        for step, puts in model.blocks.items():
            blocks = V.blocks(step)
            assert [(b.offset, b.shape) for b in blocks] == [
                (p.offset, p.array.shape[: len(p.offset)]) for p in puts
            ]
            if puts:
                i = int(self.rng.integers(len(puts)))
                got = V.read_block(step, i)
                same(got[puts[i].field] if puts[i].field else got, puts[i].array[()])

    def run(self, length: int) -> None:
        actions = [self.create, self.write, self.write, self.change_schema, self.reopen]
        self.create()
        for _ in range(length):
            self.pick(actions)()
            self.compare(self.c, self.state, rounds=5)
        with dry.open(self.path) as reader:
            self.compare(reader, self.state, rounds=3)
            versions = self.rng.permutation(list(self.history))[:4]
            for version in versions:
                self.compare(reader.at(version), self.history[version], rounds=3)
            assert reader.verify().ok
        self.c.close()


def test_a_container_reads_like_arrays_in_memory(tmp_path_factory):
    compared = 0

    @settings(max_examples=500)
    @given(seed=st.integers(0, 2**63), length=st.integers(1, 12))
    def one_program(seed, length):
        nonlocal compared
        program = Program(tmp_path_factory.mktemp("model") / "run.dry", seed)
        program.run(length)
        compared += program.compared

    one_program()
    assert compared > 10_000
