"""Records with texts, lists and references as members: written, read whole and by member, and refused with a reason."""

import drystone as dry
import h5py
import numpy as np
import pytest
from drystone.errors import ConflictError, InvalidArgumentError

TEXT = h5py.string_dtype()
PART = np.dtype([("unit", TEXT), ("scale", "f8")])
EVENT = np.dtype(
    [
        ("id", "i4"),
        ("name", TEXT),
        ("hits", dry.ragged("f4")),
        ("made_of", dry.reference(), (2,)),
        ("part", PART, (2,)),
        ("at", "f8", (3,)),
    ]
)


def event(n):
    """The record of a number: texts of every length, with an empty one and others than ASCII among them."""
    words = ["", "石垣", "dry stone " * n]
    parts = [(f"unit {n}.{k}", n + k / 4) for k in range(2)]
    hits = np.arange(n % 4, dtype="f4") + n
    return (n, words[n % 3], hits, [f"v{n}", ""], parts, [n, n + 0.5, -n])


def events(*numbers):
    out = np.empty(len(numbers), EVENT)
    for place, n in enumerate(numbers):
        out[place] = event(n)
    return out


def plain(value):
    """A record, or an array of them, as nested lists."""
    if isinstance(value, np.void):
        return [plain(value[name]) for name in value.dtype.names]
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value] if value.ndim else plain(value[()])
    return value.item() if isinstance(value, np.generic) else value


NOTHING = [0, "", [], ["", ""], [["", 0.0], ["", 0.0]], [0.0, 0.0, 0.0]]


@pytest.fixture
def run(path):
    with dry.create(path, durability="memory") as c:
        yield c


def test_records_come_back_whole_and_member_by_member(run):
    v = run.create_variable("events", EVENT, (5,))
    given = events(1, 2, 3, 4, 5)
    v[...] = given
    run.commit()
    whole = v[...]
    assert whole.dtype == v.dtype
    assert v.dtype["name"].kind == "O"
    assert plain(whole) == plain(given)
    assert plain(v[2]) == plain(given[2])
    assert plain(v[::-2]) == plain(given[::-2])
    assert plain(v[[3, 0, 3]]) == plain(given[[3, 0, 3]])
    assert plain(v.read_points([[4], [1]])) == plain(given[[4, 1]])
    for member in ("id", "name", "hits", "made_of", "at"):
        assert plain(v[member][...]) == plain(given[member]), member
        assert plain(v[member][1:3]) == plain(given[member][1:3]), member
    assert v["made_of"][...].shape == (5, 2)
    assert plain(v["made_of"][:, 0]) == [f"v{n}" for n in (1, 2, 3, 4, 5)]
    assert plain(v["part"][...]) == plain(given["part"])
    assert plain(v["part[1].unit"][...]) == [f"unit {n}.1" for n in (1, 2, 3, 4, 5)]
    assert v["name"][1] == given["name"][1]
    assert v["hits"][2].dtype == np.dtype("f4")
    assert dry.ragged_element(v["hits"].dtype) == np.dtype("f4")
    assert dry.reference_kind(v["made_of"].dtype) == "object"


def test_cells_that_nobody_wrote_are_empty_and_have_the_fill_value(run):
    v = run.create_variable(
        "v", EVENT, (4,), fill_value=(-1, "", [], ["", ""], [("", 2.0), ("", 3.0)], [7, 8, 9])
    )
    with run.writer() as w:
        w.put("v", events(5), offset=1)
        w.put("v", ["only a name"], offset=3, field="name")
    filled = [-1, "", [], ["", ""], [["", 2.0], ["", 3.0]], [7.0, 8.0, 9.0]]
    assert plain(v[0]) == filled
    assert plain(v[1]) == plain(events(5)[0])
    assert plain(v[3]) == [-1, "only a name", *filled[2:]]
    assert plain(v.fill_value) == filled
    assert v["name"].fill_value == ""
    assert plain(v["part"].fill_value) == filled[4]
    w = run.create_variable("zeros", EVENT, (1,))
    assert plain(w[0]) == NOTHING
    with pytest.raises(InvalidArgumentError, match="have no fill value"):
        run.create_variable("w", PART, (1,), fill_value=("m", 1.0))


def test_the_newest_block_wins_for_each_member(run):
    rng = np.random.default_rng(4)
    v = run.create_variable("v", EVENT, (3, 6), steps=True)
    model = {}
    with run.writer() as w:
        for step in (0, 2):
            model[step] = np.empty((3, 6), EVENT)
            for place in np.ndindex(3, 6):
                model[step][place] = (*NOTHING[:4], [("", 0.0), ("", 0.0)], [0, 0, 0])
            with w.step(step):
                for n in range(12):
                    low = rng.integers((0, 0), (3, 6))
                    count = [int(rng.integers(1, m - a + 1)) for a, m in zip(low, (3, 6), strict=True)]
                    box = tuple(slice(a, a + c) for a, c in zip(low, count, strict=True))
                    block = events(*rng.integers(0, 20, int(np.prod(count)))).reshape(count)
                    if n % 3 == 2:
                        member = ("name", "hits", "made_of", "at")[n // 3]
                        w.put("v", block[member], offset=low, field=member)
                        model[step][member][box] = block[member]
                    else:
                        w.put("v", block, offset=low)
                        model[step][box] = block
    run.commit()
    for step, expected in model.items():
        assert plain(v[step]) == plain(expected)
        assert plain(v[step, 1:, ::2]) == plain(expected[1:, ::2])
        assert plain(v.oindex[step, [2, 0], [5, 1, 1]]) == plain(expected[np.ix_([2, 0], [5, 1, 1])])
        assert plain(v["name"][step]) == plain(expected["name"])
    assert plain(v[1]) == [[NOTHING] * 6] * 3
    assert plain(v.read(2, (1, 2), (2, 3))) == plain(model[2][1:3, 2:5])
    out = np.empty((2, 3), v.dtype)
    assert v.read(2, (1, 2), (2, 3), out=out) is out
    assert plain(out) == plain(model[2][1:3, 2:5])
    assert v.steps == [0, 2]
    pieces = [(box, plain(piece)) for box, piece in v.pieces((2, ...), max_bytes=400)]
    assert len(pieces) > 1
    together = np.empty((3, 6), object)
    for box, piece in pieces:
        for place in np.ndindex(np.shape(np.empty((3, 6))[box])):
            together[box][place] = piece[place[0]][place[1]]
    assert [list(row) for row in together] == plain(model[2])


def test_blocks_are_read_as_they_were_written(run):
    v = run.create_variable("v", PART, (3,), chunks=(2,))
    with run.writer() as w:
        w.put("v", [("m", 1.0), ("s", 2.0)], offset=0)
        w.put("v", [("kg", 3.0)], offset=1)
    assert [b.members for b in v.blocks()] == [("unit", "scale")] * 2
    assert [plain(block) for block in v.read_blocks()] == [[["m", 1.0], ["s", 2.0]], [["kg", 3.0]]]
    local = run.create_variable("own", PART, local=True)
    with run.writer() as w:
        w.put("own", ("one", 1.0))
    assert plain(local.read_block(None, 0)) == ["one", 1.0]


def test_dtypes_are_spelt_as_those_of_variables(run):
    members = [("a", str), ("b", "T" if hasattr(np.dtypes, "StringDType") and False else str), ("c", "i2")]
    v = run.create_variable("v", members, (2,))
    assert [v.dtype[name].kind for name in v.dtype.names] == ["O", "O", "i"]
    v[...] = [("x", "y", 1), ("", "z", 2)]
    again = run.create_variable("again", v.dtype, (2,), data=v[...])
    assert plain(again[...]) == [["x", "y", 1], ["", "z", 2]]
    objects = np.array([("x", 1), ("yy", 2)], [("name", object), ("n", "i4")])
    run["found"] = objects
    assert plain(run["found"][...]) == [["x", 1], ["yy", 2]]
    assert run.create_variable("v", members, (2,)).name == "v"
    with pytest.raises(ConflictError, match="dtype"):
        run.create_variable("v", [("a", str), ("b", "S3"), ("c", "i2")], (2,))
    aligned = np.dtype({"names": ["n", "s"], "formats": ["i1", TEXT], "offsets": [8, 16], "itemsize": 32})
    w = run.create_variable("aligned", aligned, (1,))
    given = np.zeros(1, aligned)
    given[0] = (3, "three")
    w[...] = given
    assert plain(w[0]) == [3, "three"]


def test_growing_and_appending(run):
    v = run.create_variable("log", PART, (None,))
    for n in range(3):
        v.append([(f"row {n}", n)])
    assert plain(v[...]) == [[f"row {n}", float(n)] for n in range(3)]
    v.resize((1,))
    v.resize((2,))
    assert plain(v[...]) == [["row 0", 0.0], ["", 0.0]]
    times = run.create_variable("times", PART, (2,), steps=True)
    times.append([("a", 1), ("b", 2)])
    times.append([("c", 3), ("d", 4)])
    assert plain(times[:, 1]) == [["b", 2.0], ["d", 4.0]]


@pytest.mark.parametrize("transform", ["zstd", "shuffle,lz4", "auto"])
def test_encoded_records_have_the_same_values(run, transform):
    v = run.create_variable("v", EVENT, (64,), transform=transform)
    given = events(*range(64))
    v[...] = given
    assert plain(v[...]) == plain(given)
    assert plain(v[17:20]) == plain(given[17:20])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([(1, None)], "holds strings, not None"),
        ([(1, b"bytes")], "holds strings, not b'bytes'"),
        ([(1, 7)], "holds strings, not 7"),
        ([(1, "\ud800")], "no valid text"),
        ([("word", "text")], "record"),
        (np.zeros(1, [("n", "i4"), ("other", "i4")]), "n, text"),
        (np.zeros(1, "f4"), "n, text"),
        (np.array([(1.5, "x")], [("n", "f8"), ("text", TEXT)]), 'member "n"'),
        ([(1, "a", 3)], "record"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_byte_is_stored(run, given, said):
    v = run.create_variable("v", [("n", "i4"), ("text", str)], (1,))
    with run.writer() as w:
        with pytest.raises(InvalidArgumentError, match=said):
            w.put("v", given)
        assert run.commit() is not None
        w.put("v", [(1, "embedded\0NUL")])
    assert plain(v[...]) == [[1, "embedded\0NUL"]]


def test_members_of_other_types_are_refused(run):
    v = run.create_variable("v", EVENT, (2,))
    with run.writer() as w:
        with pytest.raises(InvalidArgumentError, match="has shape"):
            w.put("v", [["a"], ["b"]], field="made_of")
        with pytest.raises(InvalidArgumentError, match="another kind"):
            w.put("v", ["text", "text"], field="hits")
        with pytest.raises(InvalidArgumentError, match="strings"):
            w.put("v", [1.0, 2.0], field="name")
        with pytest.raises(InvalidArgumentError, match="leaves the variable's shape"):
            w.put("v", events(1, 2), offset=1)
    assert plain(v[...]) == [NOTHING] * 2
    with pytest.raises(InvalidArgumentError, match="says nothing about its elements"):
        run.create_variable("w", [("a", object)], (2,))
    with pytest.raises(InvalidArgumentError, match="out has dtype"):
        v.read(out=np.empty(2, [("a", "i4")]))
