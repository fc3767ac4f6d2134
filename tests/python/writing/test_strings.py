"""Strings of any length."""

import drystone as dry
import numpy as np
import pytest
from same_bits import commits_by_itself, same

TEXTS = ["", "a", "größe", "日本語", "x" * 100_000, "line\nbreak\0nul"]


@pytest.mark.parametrize("dtype", [str, "str", np.dtypes.StringDType()])
def test_texts_of_any_length_come_back(container, dtype):
    V = container.create_variable("s", dtype, shape=(2, 3))
    with container.writer() as w:
        w.put("s", np.array(TEXTS, object).reshape(2, 3))
    assert V.dtype == object
    same(V[...], np.array(TEXTS, object).reshape(2, 3))
    same(V[1, ::-1], np.array(TEXTS[3:][::-1], object))
    assert V[1, 1] == TEXTS[4]


def test_one_text_is_assigned_to_a_variable_of_no_axes(container):
    # Indexing an object array without axes by () gives its element, and a `str` has no shape: this was an
    # AttributeError.
    V = container.create_variable("s", str)
    V[...] = "größe"
    assert (V[()], V[...].shape) == ("größe", ())
    T = container.create_variable("t", str, steps=True)
    T[2] = "zwei"
    assert T[...].tolist() == ["", "", "zwei"]


@pytest.mark.parametrize(
    "value",
    [["a", "bc"], ("a", "bc"), np.array(["a", "bc"]), np.array(["a", "bc"], object), np.array(["a", "bc"], np.dtypes.StringDType()),
     [np.str_("a"), "bc"], np.array(["xx", "a", "yy", "bc"])[1::2]],
)  # fmt: skip
def test_every_kind_of_text_array_is_taken(container, value):
    V = container.create_variable("s", str, shape=(2,))
    with container.writer() as w:
        w.put("s", value)
    assert V[...].tolist() == ["a", "bc"]


def test_one_text_per_step(container):
    V = container.create_variable("s", str, steps=True)
    with commits_by_itself(container) as w:
        for t in (0, 2):
            with w.step(t):
                w.put("s", f"step {t}")
    assert V[...].tolist() == ["step 0", "", "step 2"]
    assert V[2] == V.read(step=-1)[()] == V.read_block(2, 0) == "step 2"


@pytest.mark.parametrize("transform", [None, "zstd:1"])
def test_overlapping_blocks_of_texts_resolve_like_others(container, transform):
    V = container.create_variable("s", str, shape=(4, 4), transform=transform, chunks=(2, 3))
    expected = np.full((4, 4), "", object)
    with container.writer() as w:
        for i, (o, n) in enumerate([((0, 0), (3, 3)), ((1, 1), (3, 3)), ((2, 0), (1, 4))]):
            block = np.array([[f"{i}:{y}:{x}" for x in range(n[1])] for y in range(n[0])], object)
            w.put("s", block, offset=o)
            expected[o[0] : o[0] + n[0], o[1] : o[1] + n[1]] = block
    same(V[...], expected)
    same(V[::-2, 1:], expected[::-2, 1:])
    out = np.empty((2, 2), object)
    assert V.read(offset=(1, 1), count=(2, 2), out=out) is out
    same(out, expected[1:3, 1:3])


@pytest.mark.parametrize("value", [[1, 2], np.arange(2), [b"a", b"b"], [None, "a"], np.zeros(2, "S1")])
def test_values_other_than_texts_are_refused(container, value):
    container.create_variable("s", str, shape=(2,))
    with container.writer() as w, pytest.raises(dry.InvalidArgumentError, match="string"):
        w.put("s", value)


def test_a_lone_surrogate_is_refused(container):
    container.create_variable("s", str)
    with container.writer() as w, pytest.raises(dry.InvalidArgumentError, match="valid text"):
        w.put("s", "\ud800")


def test_texts_do_not_go_into_numbers_nor_numbers_into_texts(container):
    container.create_variable("n", "f4", shape=(1,))
    with container.writer() as w, pytest.raises(dry.InvalidArgumentError):
        w.put("n", ["a"])
    with container.writer() as w, pytest.raises(dry.InvalidArgumentError):
        w.put("n", np.array(["a"], object))
