"""Names, groups, links, batches, growth."""

import time

import drystone as dry
import numpy as np
import pytest
from same_bits import commits_by_itself, same


def test_groups_are_made_on_the_way(container):
    V = container.create_variable("fields/fluid/T", "f4", shape=(2,))
    assert V.name == "fields/fluid/T"
    assert list(container.variables) == ["fields/fluid/T"]
    assert list(container.groups) == ["fields", "fields/fluid"]
    fields = container["fields"]
    assert isinstance(fields, dry.Group)
    assert fields["fluid/T"].name == fields["fluid"]["T"].name == container["/fields/fluid/T/"].name == V.name
    assert fields["/fields/fluid/T"].name == V.name
    assert list(fields.variables) == ["fluid/T"]
    assert list(fields.groups) == ["fluid"]
    assert list(container) == ["fields"]
    assert list(fields) == ["fluid"]
    assert "fluid" in fields
    assert "T" not in fields
    assert 3 not in container
    made = fields.create_group("solid", attrs={"a": 1})
    made.create_variable("E", "f8")
    assert "fields/solid/E" in container
    assert container["fields/solid"].attrs["a"] == 1
    assert container[""] is container


def test_variables_is_a_mapping_in_sorted_order(container):
    for name in ("b", "a/z", "a/b", "c"):
        container.create_variable(name, "f4")
    assert list(container.variables) == sorted(["b", "a/z", "a/b", "c"])
    assert len(container.variables) == 4
    assert container.variables["a/z"].name == "a/z"
    assert "a" not in container.variables
    assert "a" in container.groups
    assert {name: v.name for name, v in container["a"].variables.items()} == {"b": "a/b", "z": "a/z"}
    with pytest.raises(KeyError):
        container.variables["a"]
    with pytest.raises(KeyError):
        container.groups["b"]


def test_the_identical_variable_again_is_no_change(container):
    options = {
        "dtype": "f4",
        "shape": (3, None),
        "dims": ("y", "x"),
        "steps": True,
        "transform": "shuffle,zstd:3",
        "chunks": (2, 2),
        "fill_value": 1,
        "attrs": {"a": [1, 2]},
    }
    first = container.create_variable("v", **options)
    before = container.snapshot
    again = container.create_variable(
        "v", **{**options, "transform": ["shuffle", {"name": "zstd", "configuration": {"level": 3}}]}
    )
    assert again.name == first.name
    assert container.snapshot == before
    for change in (
        {"dtype": "f8"}, {"shape": (4, None)}, {"shape": (3, 4)}, {"dims": ("x", "y")}, {"steps": False}, {"transform": None},
        {"chunks": None}, {"fill_value": 2}, {"attrs": {"a": 3}},
    ):  # fmt: skip
        with pytest.raises(dry.ConflictError, match='"v"'):
            container.create_variable("v", **{**options, **change})


@pytest.mark.parametrize(
    "options",
    [
        {"shape": (-1,)}, {"shape": (1.5,)}, {"shape": (2**63,)}, {"shape": (1,) * 9}, {"shape": (2,), "dims": ("x", "y")},
        {"shape": (2, 2), "dims": ("x", "x")}, {"shape": (2,), "chunks": (0,)}, {"shape": (2,), "chunks": (1, 1)},
        {"transform": "nonsense"}, {"transform": "zstd:999"}, {"transform": 3}, {"transform": [{"name": "zstd", "configuration": {"x": 1}}]},
        {"shape": (2,), "local": True}, {"attrs": 3}, {"dims": (1,), "shape": (1,)},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_variables_are_refused(container, options):
    with pytest.raises((dry.InvalidArgumentError, TypeError)):
        container.create_variable("v", "f4", **options)
    assert "v" not in container
    assert int(container.snapshot) == 0


@pytest.mark.parametrize("name", ["", "/", "a//b", "../a", "a/./b", "a\0b", "x" * 2000])
def test_impossible_names_are_refused(container, name):
    with pytest.raises(dry.InvalidArgumentError):
        container.create_variable(name, "f4")


@pytest.mark.parametrize(
    "transform",
    [None, "zstd:3", "shuffle,zstd:1", ["shuffle", "zstd:1"], [{"name": "zstd", "configuration": {"level": 5, "checksum": False}}],
     {"name": "zstd", "configuration": {"level": 2}}, [{"name": "bytes", "configuration": {"endian": "little"}}, "zstd"]],
    ids=str,
)  # fmt: skip
def test_transforms_are_texts_lists_or_zarr_codecs(container, transform):
    V = container.create_variable("v", "f4", shape=(4000,), transform=transform)
    assert (V.transform is None) == (transform is None)
    values = np.arange(4000, dtype="f4") // 100
    with container.writer() as w:
        w.put("v", values)
    same(V[...], values)
    block = V.blocks()[0]
    assert block.transform == V.transform
    assert (block.nbytes < 4000) == (transform is not None)
    assert (block.min, block.max, block.nans) == (0, 39, 0)


def test_rename_delete_and_link(container):
    V = container.create_variable("a/v", "f4", shape=(2,))
    with container.writer() as w:
        w.put("a/v", np.ones(2, "f4"))
    container.link("short", "a/v")
    same(container["short"][...], np.ones(2, "f4"))
    assert "short" in container.variables
    container.rename("a", "b/c")
    assert list(container.variables) == ["b/c/v"]
    assert "short" not in container
    with pytest.raises(dry.NotFoundError, match="link"):
        container["short"]
    with pytest.raises(KeyError):
        V[...]
    container.rename("b/c/v", "w")
    same(container["w"][...], np.ones(2, "f4"))
    before = container.snapshot
    del container["w"]
    del container["short"]
    container.delete("b")
    assert list(container) == []
    same(container.at(before)["w"][...], np.ones(2, "f4"))
    for act in (lambda: container.delete("w"), lambda: container.rename("w", "x")):
        with pytest.raises(dry.NotFoundError):
            act()


def test_names_that_are_taken_are_conflicts(container):
    container.create_variable("v", "f4")
    container.create_group("g")
    for act in (
        lambda: container.create_group("v"), lambda: container.create_variable("g", "f4"), lambda: container.create_variable("v/w", "f4"),
        lambda: container.rename("v", "g"), lambda: container.link("g", "v"),
    ):  # fmt: skip
        with pytest.raises(dry.ConflictError):
            act()


def test_a_batch_is_one_commit(container, path):
    before = int(container.snapshot)
    with container.batch() as same_one:
        assert same_one is container
        V = container.create_variable("g/v", "f4", shape=(None,), attrs={"a": 1})
        V.attrs["b"] = 2
        container["g"].attrs["c"] = 3
        container.rename("g/v", "w")
        assert container["w"].shape == (0,)
        with dry.open(path) as other:
            assert list(other) == []
    assert container.snapshot == before + 1
    assert dict(container["w"].attrs) == {"a": 1, "b": 2}


def test_what_fails_in_a_batch_leaves_what_was_done_before(container):
    with container.batch():
        container.create_variable("v", "f4")
        container.create_variable("w", "i2", attrs={"a": 1})
        with pytest.raises(dry.ConflictError, match="not a group"):
            container.rename("w", "v/x")
        with pytest.raises(dry.NotFoundError):
            container._handle.change_attrs("w", {"aa": 2}, ["nope"])
        assert list(container) == ["v", "w"]
        container.create_variable("x", "u1")
    assert list(container) == ["v", "w", "x"]
    assert dict(container["w"].attrs) == {"a": 1}


def test_many_variables_are_created_in_a_batch(container):
    """Symptom: the schema was copied for each of 10,000 names, which took 155 seconds. Now half a second; the limit of
    ten is for slow machines."""
    begun = time.perf_counter()
    with container.batch():
        for number in range(10_000):
            container.create_variable(f"g{number % 100}/v{number}", "f4", (3,), attrs={"number": number})
    assert time.perf_counter() - begun < 10
    assert len(container.variables) == 10_000


def test_a_group_is_not_proposed_in_its_own_place(container):
    container.create_group("fields")
    with (
        container.writer() as w,
        pytest.raises(dry.NotFoundError, match=r'"fields" is a group, not a variable$'),
    ):
        w.put("fields", np.zeros(3))


def test_a_batch_that_fails_leaves_nothing(container):
    with pytest.raises(RuntimeError, match="mine"), container.batch():  # noqa: PT012
        container.create_variable("v", "f4")
        raise RuntimeError("mine")
    assert "v" not in container
    assert int(container.snapshot) == 0
    with container.batch(), pytest.raises(dry.InvalidArgumentError, match="batch"), container.batch():
        pass
    container.create_variable("v", "f4")


def test_what_is_put_within_a_batch_goes_to_no_other_variable(container):
    """Symptom: a variable created in a batch was "there is no variable"; values put to one that replaced another were
    lost when the batch ended."""
    container.create_variable("old", "i4", shape=(2,))
    container.create_variable("same", "i4", shape=(2,))
    with container.writer() as w, container.batch():
        container.create_variable("new", "i4", shape=(2,))
        container.link("also", "new")
        container.delete("old")
        container.create_variable("old", "i4", shape=(2,))
        for name, why in {"new": "makes", "also": "makes", "old": "replaces"}.items():
            with pytest.raises(
                dry.InvalidArgumentError, match=f'batch {why} the variable "{name}".*when it ends'
            ):
                w.put(name, [1, 2])
        container.rename("old", "moved")
        with pytest.raises(dry.InvalidArgumentError, match='takes away the variable "old"'):
            w.put("old", [1, 2])
        with pytest.raises(dry.NotFoundError, match="no variable"):
            w.put("none", [1, 2])
        w.put("same", [3, 4])
    with container.writer() as w:
        w.put("also", [1, 2])
    assert [list(container[name][...]) for name in ("new", "moved", "same")] == [[1, 2], [0, 0], [3, 4]]


def test_a_variable_of_a_batch_shows_nothing_of_others(container, path):
    """Symptom: a batch's new variable had the id of another process's next variable, whose cells were read."""
    with container.batch():
        container.create_variable("mine", "i4", shape=(2,))
        with dry.open(path, mode="r+") as other:
            other.create_variable("theirs", "i4", shape=(2,))
            with other.writer() as w:
                w.put("theirs", [1, 2])
        container.refresh()
        assert list(container["mine"][...]) == [0, 0]
        with container.writer() as w:
            w.put("theirs", [3, 4])
    assert [list(container[name][...]) for name in ("mine", "theirs")] == [[0, 0], [3, 4]]


@pytest.mark.parametrize("star", [None, "*"])
def test_growable_extents_grow_as_blocks_are_put(container, star):
    V = container.create_variable("v", "i4", shape=(star, 3), fill_value=-1)
    assert V.shape == (0, 3)
    assert V.growable == (True, False)
    with container.writer() as w:
        w.put("v", np.ones((2, 3), "i4"), offset=(4, 0))
    expected = np.full((6, 3), -1, "i4")
    expected[4:] = 1
    same(V[...], expected)
    with container.writer() as w:
        w.put("v", np.full((1, 2), 2, "i4"))
    expected[0, :2] = 2
    same(V[...], expected)


def test_a_growing_series_appends(container):
    V = container.create_variable("v", "f8", shape=(None,))
    for i in range(20):
        with container.writer() as w:
            w.put("v", np.full(3, float(i)), offset=len(V))
    same(V[...], np.repeat(np.arange(20.0), 3))


def test_resize_cuts_and_what_grows_back_is_fill(container):
    V = container.create_variable("v", "i4", shape=(4, 4), fill_value=9)
    with container.writer() as w:
        w.put("v", np.arange(16, dtype="i4").reshape(4, 4))
    before = container.snapshot
    V.resize((2, 6))
    V.resize((4, 4))
    expected = np.full((4, 4), 9, "i4")
    expected[:2] = np.arange(8).reshape(2, 4)
    same(V[...], expected)
    same(container.at(before)["v"][...], np.arange(16, dtype="i4").reshape(4, 4))
    with pytest.raises(dry.InvalidArgumentError, match="2 dimensions"):
        V.resize((1, 2, 3))


def test_resize_applies_to_every_step(container):
    V = container.create_variable("v", "i4", shape=(3,), steps=True)
    with commits_by_itself(container) as w:
        for t in range(2):
            with w.step():
                w.put("v", np.full(3, t + 1, "i4"))
    V.resize(1)
    V.resize((2,))
    same(V[...], np.array([[1, 0], [2, 0]], "i4"))


def test_properties_of_a_variable_can_be_queried(container):
    V = container.create_variable(
        "g/v", "f4", shape=(4, None), dims=("y", "x"), steps=True, chunks=(2, 8), attrs={"a": 1}
    )
    assert (V.shape, V.ndim, V.size, V.nbytes) == ((0, 4, 0), 3, 0, 0)
    assert (V.dims, V.growable, V.chunk_shape, V.has_steps, V.local) == (
        ("y", "x"),
        (False, True),
        (2, 8),
        True,
        False,
    )
    assert (V.name, V.member, V.transform, V.steps) == ("g/v", None, None, [])
    assert V.container is container
    assert "g/v" in repr(V)
    assert "float32" in repr(V)
    assert container.create_variable("w", "f4", shape=3).dims is None
    for thing in (
        container,
        container["g"],
        V.attrs,
        container.variables,
        container.snapshot,
        container.writer(),
    ):
        assert repr(thing)
