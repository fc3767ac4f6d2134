"""Random HDF5 content: what a program may do to a file, as data, and how hypothesis draws it.

An action names objects by numbers, taken modulo what there is when it is performed (perform.py), so that any sequence
of actions means something and shrinks well. Values come of a seed, so that two performances write the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

ATOMS = [
    *("<i1", "<i2", "<i4", "<i8", ">i2", ">i4", ">i8", "<u1", "<u2", "<u4", ">u8"),
    *("<f2", "<f4", "<f8", ">f4", ">f8", "<c8", "<c16", "bool"),
]


@dataclass(frozen=True)
class Act:
    """One step of a program: what it does, and with what."""

    what: str
    with_: tuple


def act(what, *parts):
    """A strategy for one kind of action."""
    return st.builds(lambda *drawn: Act(what, drawn), *parts)


numbers = st.integers(0, 1 << 16)
names = st.sampled_from(["a", "b", "c", "long name with spaces", "größe", "0", "x.y", "z_1"])
extents = st.integers(1, 7)
shapes = st.one_of(st.just(()), st.lists(extents, min_size=1, max_size=3).map(tuple))

# Fixed in size: read and written as they are stored.
fixed_atoms = st.one_of(
    st.tuples(st.just("number"), st.sampled_from(ATOMS)),
    st.tuples(st.just("bytes"), st.integers(1, 9), st.sampled_from(["null", "zero", "space"])),
    st.tuples(st.just("opaque"), st.integers(1, 12), st.sampled_from(["", "tag"])),
    st.tuples(st.just("enum"), st.sampled_from(["<i1", "<i4", ">u2"])),
    st.tuples(st.just("bitfield"), st.sampled_from([1, 2, 4, 8])),
)
# What Python objects stand for, and what h5py can convert beside it.
object_atoms = st.one_of(
    st.tuples(st.just("number"), st.sampled_from(ATOMS)),
    st.tuples(st.just("bytes"), st.integers(1, 9), st.just("null")),
    st.tuples(st.just("enum"), st.sampled_from(["<i1", "<i4"])),
    st.tuples(st.just("text"), st.sampled_from(["ascii", "utf-8"])),
    st.tuples(st.just("reference")),
)


def _compounds(inner):
    return st.tuples(
        st.just("compound"), st.lists(inner, min_size=1, max_size=4).map(tuple), st.integers(0, 5)
    )


def _arrays(inner):
    dims = st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple)
    return st.tuples(st.just("array"), inner, dims)


fixed_types = st.recursive(fixed_atoms, lambda t: st.one_of(_compounds(t), _arrays(t)), max_leaves=4)
lists = st.tuples(
    st.just("list"),
    st.one_of(object_atoms, _compounds(st.tuples(st.just("number"), st.sampled_from(ATOMS)))),
)
object_types = st.one_of(
    object_atoms, lists, _compounds(st.one_of(object_atoms, lists)), _arrays(object_atoms)
)
types = st.one_of(fixed_types, object_types)
plain_types = st.tuples(st.just("number"), st.sampled_from(ATOMS))

filters = st.lists(
    st.one_of(
        st.tuples(st.just("shuffle")),
        st.tuples(st.just("fletcher32")),
        st.tuples(st.just("deflate"), st.integers(0, 9)),
    ),
    max_size=3,
    unique_by=lambda one: one[0],
).map(tuple)

resizable = st.tuples(
    st.just("resizable"),
    st.lists(st.integers(1, 5), min_size=3, max_size=3).map(tuple),
    filters,
    st.lists(st.sampled_from(["fixed", "more", "unlimited"]), min_size=3, max_size=3).map(tuple),
)
# Chunks and limits go with a shape; fixed shapes have neither.
layouts = st.one_of(
    st.just(("contiguous",)),
    st.just(("compact",)),
    st.tuples(st.just("chunked"), st.lists(st.integers(1, 5), min_size=3, max_size=3).map(tuple), filters),
    resizable,
)

selections = st.one_of(
    st.just(("all",)),
    st.tuples(st.just("box"), numbers, numbers),
    st.tuples(st.just("strided"), numbers, st.integers(1, 3)),
    st.tuples(st.just("points"), numbers, st.integers(1, 5)),
    st.tuples(st.just("mask"), numbers),
)

makers = st.one_of(
    act("group", numbers, names, st.booleans()),
    act("dataset", numbers, names, types, shapes, layouts, st.booleans(), numbers),
    act("dataset", numbers, names, plain_types, shapes, layouts, st.booleans(), numbers),
    act("attribute", numbers, names, types, st.one_of(st.none(), shapes), numbers),
)
actions = st.one_of(
    makers,
    act("write", numbers, selections, numbers),
    act("write", numbers, selections, numbers),
    act("resize", numbers, st.lists(st.integers(0, 9), min_size=3, max_size=3).map(tuple)),
    act("dataset", numbers, names, plain_types, shapes, resizable, st.booleans(), numbers),
    act("resize", numbers, st.lists(st.integers(0, 9), min_size=3, max_size=3).map(tuple)),
    act("modify", numbers, numbers, numbers),
    act("forget", numbers, numbers),
    act("rename attribute", numbers, numbers, names),
    act("named type", numbers, names, types),
    act("hard", numbers, names, numbers),
    act("soft", numbers, names, st.sampled_from(["/a", "b/c", "nowhere", "."])),
    act("external", numbers, names),
    act("move", numbers, numbers, names),
    act("delete", numbers, numbers),
    act("copy", numbers, numbers, names),
    act("flush"),
    act("reopen"),
)

# References to regions as h5py makes them lie in the native file's own heap: the connector cannot keep them
# (docs/guide/hdf5.md).
regions = act("region", numbers, names, numbers, selections)


def _programs(steps):
    made, done = st.lists(makers, min_size=2, max_size=6), st.lists(steps, max_size=14)
    return st.tuples(made, done).map(lambda two: two[0] + two[1])


programs = _programs(actions)
native_programs = _programs(st.one_of(actions, regions))
