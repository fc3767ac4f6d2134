"""Performs the actions of content.py on a file, through h5py.

What an action gave, or the kind of error it raised, is noted: two libraries must agree on that too.
"""

from __future__ import annotations

import h5py
import numpy as np
from h5py import h5a, h5d, h5p, h5s, h5t
from h5py._hl import selections

PADS = {"null": h5t.STR_NULLTERM, "zero": h5t.STR_NULLPAD, "space": h5t.STR_SPACEPAD}
BITFIELDS = {1: h5t.STD_B8LE, 2: h5t.STD_B16LE, 4: h5t.STD_B32LE, 8: h5t.STD_B64LE}
COLOURS = {"red": 1, "green": 2, "blue": 40}


def perform(program, path):
    """Make a file by a program; gives what each action came to."""
    notes = []
    stage = _Stage(path)
    try:
        for action in program:
            try:
                done = getattr(stage, action.what.replace(" ", "_"))(*action.with_)
            except (OSError, ValueError, RuntimeError, KeyError, TypeError, NotImplementedError) as error:
                done = type(error).__name__
            notes.append(done if isinstance(done, str) else "done")
    finally:
        stage.file.close()
    return notes


def type_id(spec):
    """A type of HDF5 from its description."""
    kind, *more = spec
    if kind == "number":
        return h5t.py_create(np.dtype(more[0]), logical=True)
    if kind == "bytes":
        out = h5t.C_S1.copy()
        out.set_size(more[0])
        out.set_strpad(PADS[more[1]])
        return out
    if kind == "opaque":
        out = h5t.create(h5t.OPAQUE, more[0])
        out.set_tag(more[1].encode())
        return out
    if kind == "enum":
        return h5t.py_create(h5py.enum_dtype(COLOURS, np.dtype(more[0])), logical=True)
    if kind == "bitfield":
        return BITFIELDS[more[0]].copy()
    if kind == "text":
        return h5t.py_create(h5py.string_dtype(more[0]), logical=True)
    if kind == "reference":
        return h5t.STD_REF_OBJ.copy()
    if kind == "compound":
        members, gap = more
        made = [type_id(member) for member in members]
        places, at = [], 0
        for member in made:
            places.append(at)
            at += member.get_size() + gap
        out = h5t.create(h5t.COMPOUND, at)
        for number, (member, place) in enumerate(zip(made, places, strict=False)):
            out.insert(f"m{number}".encode(), place, member)
        return out
    if kind == "array":
        return h5t.array_create(type_id(more[0]), more[1])
    return h5t.vlen_create(type_id(more[0]))


class _Stage:
    """The open file and what has been made in it."""

    def __init__(self, path):
        self.path = path
        self.file = h5py.File(path, "w", libver=("v108", "latest"))

    def groups(self):
        return [self.file, *self._found(h5py.Group)]

    def datasets(self):
        return self._found(h5py.Dataset)

    def objects(self):
        return [self.file, *self._found(object)]

    def _found(self, kind):
        names = []
        self.file.visititems(lambda name, thing: names.append(name) if isinstance(thing, kind) else None)
        return [self.file[name] for name in sorted(names)]

    def group(self, parent, name, tracked):
        _of(self.groups(), parent).create_group(name, track_order=tracked)

    def dataset(self, parent, name, spec, shape, layout, filled, seed):
        where = _of(self.groups(), parent)
        kind, rng = type_id(spec), np.random.default_rng(seed)
        how, *more = layout
        listed = h5p.create(h5p.DATASET_CREATE)
        most = shape
        if shape == () and how in ("chunked", "resizable"):
            how = "contiguous"  # a scalar has no chunks
        if how == "compact":
            listed.set_layout(h5d.COMPACT)
        elif how in ("chunked", "resizable"):
            if how == "resizable":
                grown = zip(shape, more[2], strict=False)
                most = tuple({"fixed": n, "more": n + 4, "unlimited": h5s.UNLIMITED}[way] for n, way in grown)
            fitting = zip(shape, more[0], most, strict=False)
            listed.set_chunk(tuple(min(n, chunk) if cap == n else chunk for n, chunk, cap in fitting))
            for code, *level in more[1]:
                getattr(listed, f"set_{code}")(*level)
        if filled and spec[0] == "number" and np.dtype(spec[1]).kind != "c":
            listed.set_fill_value(
                np.asarray(rng.integers(0, 2 if spec[1] == "bool" else 100)).astype(spec[1])
            )
        space = h5s.create(h5s.SCALAR) if shape == () else h5s.create_simple(shape, most)
        h5d.create(where.id, name.encode(), kind, space, dcpl=listed)

    def write(self, number, selection, seed):
        thing = _of(self.datasets(), number)
        rng = np.random.default_rng(seed)
        how, *more = selection
        everything = thing.shape == () or how == "all"
        key = () if everything else self._selected(thing.shape, how, more)
        chosen = selections.select(thing.shape, key, dataset=thing)
        stored, dtype = thing.id.get_type(), thing.dtype
        listed = h5py.check_vlen_dtype(dtype)
        if thing.shape == () and listed is not None and np.dtype(listed).hasobject:
            raise ValueError("h5py 3.16 dies of writing one list of texts, with or without a connector")
        if dtype.hasobject or dtype.itemsize != stored.get_size():
            thing[key] = self.values(dtype, np.empty(thing.shape, "u1")[key].shape, rng)
            return
        # As it is stored: h5py has no conversions for bit fields and tagged opaque types.
        values = self.values(dtype, (chosen.nselect,), rng)
        memory = h5s.create_simple((chosen.nselect,)) if thing.shape else h5s.create(h5s.SCALAR)
        thing.id.write(memory, chosen.id, values, mtype=stored)

    def _selected(self, shape, how, more):
        rng = np.random.default_rng(more[0])
        if how == "box":
            first = [int(rng.integers(0, n + 1)) for n in shape]
            return tuple(slice(a, int(rng.integers(a, n + 1))) for a, n in zip(first, shape, strict=False))
        if how == "strided":
            return tuple(slice(int(rng.integers(0, n + 1)), n, more[1]) for n in shape)
        if how == "points":
            axis = int(rng.integers(0, len(shape)))
            some = sorted({int(rng.integers(0, max(1, shape[axis]))) for _ in range(more[1])})
            return tuple(some if d == axis else slice(None) for d in range(len(shape)))
        return rng.random(shape) < 0.4

    def values(self, dtype, shape, rng):
        """Random values of a type, in an array that h5py takes."""
        if dtype.subdtype is not None:
            base, inner = dtype.subdtype
            return self.values(base, tuple(shape) + tuple(inner), rng)
        out = np.empty(shape, dtype)
        if not dtype.hasobject and dtype.names is None:
            for index in np.ndindex(*shape):
                out[index] = self.plain(dtype, rng)
            return out
        for index in np.ndindex(*shape):
            if dtype.names is not None:
                for name in dtype.names:
                    out[name][index] = self.values(dtype[name], (), rng)[()]
            else:
                out[index] = self.object(dtype, rng)
        return out

    def plain(self, dtype, rng):
        if dtype.kind == "b":
            return bool(rng.integers(0, 2))
        if h5py.check_enum_dtype(dtype):
            return list(COLOURS.values())[rng.integers(0, 3)]
        if dtype.kind in "iu":
            return np.frombuffer(rng.bytes(dtype.itemsize), dtype)[0]
        if dtype.kind in "fc":
            return rng.integers(-1000, 1000) / 8
        if dtype.kind == "S":
            return b"abcdefghijkl"[: rng.integers(0, dtype.itemsize + 1)]
        return np.void(rng.bytes(dtype.itemsize))

    def object(self, dtype, rng):
        if h5py.check_ref_dtype(dtype) is h5py.Reference:
            things = self.objects()
            return things[rng.integers(0, len(things))].ref if rng.integers(0, 4) else h5py.Reference()
        if h5py.check_string_dtype(dtype) is not None:
            return ["", "x", "longer text", "ünïcode"][
                rng.integers(0, 3 + (h5py.check_string_dtype(dtype).encoding == "utf-8"))
            ]
        if h5py.check_ref_dtype(dtype) is h5py.RegionReference:
            return h5py.RegionReference()
        base = h5py.check_vlen_dtype(dtype)
        return self.values(base, (int(rng.integers(0, 4)),), rng)

    def resize(self, number, shape):
        thing = _of(self.datasets(), number)
        thing.resize(shape[: len(thing.shape)])

    def attribute(self, number, name, spec, shape, seed):
        where = _of(self.objects(), number)
        kind = type_id(spec)
        if shape is None:
            h5a.create(where.id, name.encode(), kind, h5s.create(h5s.NULL))
            return
        space = h5s.create(h5s.SCALAR) if shape == () else h5s.create_simple(shape)
        made = h5a.create(where.id, name.encode(), kind, space)
        values = self.values(kind.dtype, shape, np.random.default_rng(seed))
        made.write(np.asarray(values), mtype=_memory_type(kind))

    def modify(self, number, which, seed):
        where = _of(self.objects(), number)
        name = _of(sorted(where.attrs), which)
        one = where.attrs.get_id(name)
        values = self.values(one.dtype, one.shape, np.random.default_rng(seed))
        one.write(np.asarray(values), mtype=_memory_type(one.get_type()))

    def forget(self, number, which):
        where = _of(self.objects(), number)
        del where.attrs[_of(sorted(where.attrs), which)]

    def rename_attribute(self, number, which, name):
        where = _of(self.objects(), number)
        h5a.rename(where.id, _of(sorted(where.attrs), which).encode(), name.encode())

    def named_type(self, parent, name, spec):
        type_id(spec).commit(_of(self.groups(), parent).id, name.encode())

    def hard(self, parent, name, number):
        _of(self.groups(), parent)[name] = _of(self.objects(), number)

    def soft(self, parent, name, target):
        _of(self.groups(), parent)[name] = h5py.SoftLink(target)

    def external(self, parent, name):
        _of(self.groups(), parent)[name] = h5py.ExternalLink("another.h5", "/there")

    def move(self, parent, which, name):
        where = _of(self.groups(), parent)
        where.move(_of(sorted(where), which), name)

    def delete(self, parent, which):
        where = _of(self.groups(), parent)
        del where[_of(sorted(where), which)]

    def copy(self, parent, number, name):
        self.file.copy(_of(self.objects()[1:], number), _of(self.groups(), parent), name=name)

    def region(self, number, name, which, selection):
        thing = _of(self.datasets(), which)
        how, *more = selection
        key = slice(None) if how == "all" or thing.shape == () else self._selected(thing.shape, how, more)
        _of(self.objects(), number).attrs.create(name, thing.regionref[key], dtype=h5py.regionref_dtype)

    def flush(self):
        self.file.flush()

    def reopen(self):
        self.file.close()
        self.file = h5py.File(self.path, "r+")


def _memory_type(kind):
    """The stored type itself where it is fixed, else what h5py converts from."""
    return h5t.py_create(kind.dtype) if kind.dtype.hasobject else kind


def _of(things, number):
    if not things:
        raise KeyError("nothing there")
    return things[number % len(things)]
