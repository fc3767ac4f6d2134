"""A refused call gets a message about the call, and printed objects describe themselves."""

import pickle
import subprocess
import sys

import drystone as dry
import numpy as np
import pytest
from same_bits import commits_by_itself


@pytest.fixture
def folder(tmp_path):
    """A folder with files of another program."""
    path = tmp_path / "results"
    (path / "plots").mkdir(parents=True)
    (path / "notes.txt").write_text("mine")
    (path / "plots" / "run.txt").write_text("mine too")
    return path


def as_it_was(folder):
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "plots" / "run.txt").read_text() == "mine too"


def test_a_folder_with_other_files_is_made_a_container_only_when_that_is_said(folder):
    """Symptom: `create` silently made a container around the files of a folder. A mistyped path mixed the two, and
    files removed later with the container could be those of another program."""
    for act in (
        lambda: dry.create(folder),
        lambda: dry.create(folder, targets=[folder.parent / "disk"]),
        lambda: dry.open(folder, "a"),
    ):
        with pytest.raises(dry.ConflictError, match=r'such as "(notes.txt|plots)".*into_existing=True'):
            act()
    with pytest.raises(dry.ConflictError, match="is not a container"):
        dry.create(folder, overwrite=True)
    assert sorted(p.name for p in folder.iterdir()) == ["notes.txt", "plots"]
    with dry.create(folder, into_existing=True) as c:
        c.create_variable("v", "i4", (2,))[...] = 1
    # It is a container now; only the container is replaced.
    with dry.create(folder, overwrite=True) as c:
        assert [*c] == []
    as_it_was(folder)


def test_files_that_lie_where_a_container_has_its_own_are_in_the_way(folder):
    """Otherwise they would be taken for the container's, and removed with it."""
    (folder / "log").mkdir()
    (folder / "log" / "run.txt").write_text("mine too")
    with pytest.raises(dry.ConflictError, match='"log" is there already'):
        dry.create(folder, into_existing=True)
    as_it_was(folder)
    assert (folder / "log" / "run.txt").exists()


def test_an_empty_folder_and_a_new_one_become_containers_as_before(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "new" / "below"):
        dry.create(path).close()
        with pytest.raises(dry.ConflictError, match="already holds a container"):
            dry.create(path)
        with pytest.raises(dry.ConflictError, match="already holds a container"):
            dry.create(path, into_existing=True)


def test_import_takes_a_folder_with_other_files_only_when_that_is_said(folder, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))

    def run(*options):
        words = ["import", tmp_path / "a.npy", folder, *options]
        return subprocess.run(
            [sys.executable, "-m", "drystone", *map(str, words)], capture_output=True, text=True
        )

    refused = run()
    assert refused.returncode == 5
    assert "--into-existing" in refused.stderr
    assert not (folder / "drystone.json").exists()
    assert run("--into-existing").returncode == 0
    as_it_was(folder)
    with dry.open(folder) as c:
        assert c["a"][...].tolist() == [0, 1, 2]


def test_xarray_takes_no_folder_with_other_files(folder):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("drystone.xarray")  # the accessor

    ds = xr.Dataset({"v": ("x", [1.0, 2.0])})
    for mode in ("w-", "w", "a"):
        with pytest.raises(dry.ConflictError):
            ds.drystone.to_container(folder, mode=mode)
    as_it_was(folder)
    assert not (folder / "drystone.json").exists()


def test_a_view_of_less_precision_says_so(container):
    container.create_variable("T", "f8", (4,), transform="aplod")
    T = container["T"]
    assert repr(T) == "<drystone variable T: float64 (4,)>"
    assert repr(T.within(0.1)) == "<drystone variable T: float64 (4,), within 0.1>"
    assert (
        repr(T.within(0.1, relative=True))
        == "<drystone variable T: float64 (4,), within 0.1 of each magnitude>"
    )
    assert repr(T.within(precision=2)) == "<drystone variable T: float64 (4,), at precision 2>"


def test_variables_are_pickled_and_writers_are_refused(container):
    container.create_variable("T", "f8", (4,), steps=True)
    with commits_by_itself(container) as w:
        with w.step():
            w.put("T", np.arange(4.0))
        with pytest.raises(dry.UnsupportedError, match=r"a writer cannot be pickled.*open the container"):
            pickle.dumps(w)
        T = pickle.loads(pickle.dumps(container["T"]))
        assert (T.name, T.container.path) == ("T", container.path)
        assert T[0].tolist() == [0, 1, 2, 3]
    container["T"][1] = 5.0
    assert pickle.loads(pickle.dumps(container["T"].within(0.5)))[1].tolist() == [5.0] * 4


@pytest.mark.parametrize(
    "name", ["a\ud800b", "x" * 5000, "g/" + "ä" * 600], ids=["surrogate", "long", "umlauts"]
)
def test_a_name_that_cannot_be_is_refused_without_all_of_it(container, name):
    container.create_variable("v", "i4", (1,))
    with container.writer() as w:
        for act in (
            lambda: container.create_variable(name, "i4", (1,)),
            lambda: container.create_group(name),
            lambda: container.rename("v", name),
            lambda: container.link(name, "v"),
            lambda: container[name],
            lambda: container.variables[name],
            lambda: w.put(name, [1]),
        ):
            with pytest.raises(dry.DrystoneError) as refused:
                act()
            assert len(str(refused.value)) < 300
            assert "\ud800" not in str(refused.value)
    assert name not in container
    assert name not in container.variables
    with pytest.raises(dry.InvalidArgumentError, match=r"not valid UTF-8|too long"):
        container.create_variable(name, "i4", (1,))


def test_attributes_and_dimensions_that_are_no_text_are_refused(container):
    with pytest.raises(dry.InvalidArgumentError, match="name of an attribute is not valid text"):
        container.attrs["a\ud800"] = 1
    with pytest.raises(dry.InvalidArgumentError, match=r"not valid UTF-8, as dimensions have"):
        container.create_variable("v", "i4", (1,), dims=["x\ud800"])
    with pytest.raises(dry.InvalidArgumentError, match="cannot be of type object:"):
        container.attrs["a"] = object()


def test_an_empty_name_gets_an_error(container):
    for act in (
        lambda: container.create_variable("", "i4", (1,)),
        lambda: container.create_variable("/", "i4", (1,)),
        lambda: container.link("", "v"),
        lambda: container.delete(""),
        lambda: container.variables[""],
    ):
        with pytest.raises(dry.DrystoneError, match=r"name.* is empty"):
            act()


def test_one_item_is_reported_in_the_singular(container, path):
    container.create_variable("T", "f8", (4,))[...] = 1.0
    report = container.publish(progress=None)
    assert "1 array, 1 shard written" in str(report)
    assert "1 block of 1 subchunk" in container["T"]._repr_html_()
