"""Containers that HDF5 programs did not write, read by HDF5 programs as they are: no file of HDF5 is made.

Each program runs in a process of its own with the connector in its environment.
"""

import subprocess

import drystone as dry
import numpy as np
import pytest
from conftest import program

PARTICLE = np.dtype([("id", "i4"), ("x", "f8", (3,)), ("tag", "S5"), ("alive", "?")], align=True)


def values(step):
    return (np.arange(60, dtype="f4").reshape(6, 10) - 30) * (step + 1)


@pytest.fixture(scope="module")
def container(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "run.dry"
    with dry.create(path) as c:
        c.attrs.update(title="dam", numbers=[1, 2, 3], words=["a", "längst"], dt=0.5, on=True)
        c.create_group("fields")
        c["fields"].attrs["note"] = "two"
        c.create_variable("fields/u", "f4", (6, 10), steps=True, dims=("y", "x"), attrs={"units": "m/s"})
        c.derive("speed", "abs(fields/u)")
        c["mask"] = np.arange(8).reshape(2, 4) % 3 == 0
        c["complex"] = np.array([1 + 2j, 3 - 4j], "c16")
        c["half"] = np.arange(5, dtype="f2")
        c["when"] = np.array(["2026-01-01", "NaT"], "datetime64[s]")
        c["texts"] = np.array([b"one", b"three"], "S5")
        c["names"] = np.array(["a", "", "ccc" * 50], dtype=object)
        c["grid/p"] = np.array([(i, (i, 2 * i, 3 * i), b"t%d" % i, i % 2) for i in range(4)], PARTICLE)
        c["scalar"] = np.float64(2.5)
        grows = c.create_variable("grows", "i8", (None, 3))
        grows.append(np.arange(6).reshape(2, 3))
        c.create_variable("own", "f4", local=True)
        for step in range(3):
            with c.writer() as w, w.step(step):
                w.put("fields/u", values(step))
            c.commit()
        c.link("alias", "fields/u")
    return path


def test_everything_that_hdf5_can_say_is_there(container, connector_environment):
    code = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1]) as f:
    assert sorted(f) == sorted("alias complex fields grid grows half mask names scalar speed texts when".split()), sorted(f)
    assert f.attrs["title"] == "dam" and f.attrs["numbers"].tolist() == [1, 2, 3] and f.attrs["dt"] == 0.5
    assert list(f.attrs["words"]) == ["a", "längst"] and f["fields"].attrs["note"] == "two"
    u = f["fields/u"]
    values = lambda step: (np.arange(60, dtype="f4").reshape(6, 10) - 30) * (step + 1)
    assert u.shape == (3, 6, 10) and u.maxshape == (None, 6, 10) and u.dtype == "<f4" and u.attrs["units"] == "m/s"
    for step in range(3):
        np.testing.assert_array_equal(u[step], values(step))
        np.testing.assert_array_equal(f["speed"][step], abs(values(step)))
    np.testing.assert_array_equal(f["alias"][1:, ::2, 3:7], np.stack([values(1), values(2)])[:, ::2, 3:7])
    np.testing.assert_array_equal(f["speed"][:, [1, 4], 2], abs(u[:, [1, 4], 2]))
    assert f["mask"].dtype == bool and f["mask"][...].ravel().tolist() == [i % 3 == 0 for i in range(8)]
    assert f["complex"][:].tolist() == [1 + 2j, 3 - 4j] and f["half"][:].tolist() == [0, 1, 2, 3, 4]
    assert f["when"].attrs["units"] == "seconds since 1970-01-01"
    assert f["when"][0] == np.datetime64("2026-01-01", "s").astype("i8")
    assert f["texts"].dtype == "S5" and f["texts"][:].tolist() == [b"one", b"three"]
    assert [n.decode() for n in f["names"][:]] == ["a", "", "ccc" * 50] and f["names"].asstr()[2] == "ccc" * 50
    p = f["grid/p"][:]
    assert p["id"].tolist() == [0, 1, 2, 3] and p["x"][2].tolist() == [2, 4, 6] and p["tag"][3] == b"t3"
    assert p["alive"].dtype == bool and p["alive"].tolist() == [False, True, False, True]
    assert f["grid/p"]["x"].shape == (4, 3)
    assert f["scalar"][()] == 2.5 and f["scalar"].shape == ()
    assert f["grows"].shape == (2, 3) and f["grows"].maxshape == (None, 3) and f["grows"][:].sum() == 15
"""
    program(connector_environment, code, container)


def test_nobody_changes_it_through_hdf5(container, connector_environment):
    before = sorted(p.name for p in container.rglob("*"))
    code = """
import sys, h5py
path = sys.argv[1]
for mode in ["r+", "a", "w", "x"]:
    try:
        h5py.File(path, mode)
        print("opened", mode)
    except OSError as e:
        print(mode, e)
with h5py.File(path) as f:
    for change in [lambda: f["fields/u"].__setitem__(0, 1), lambda: f.create_group("g"), lambda: f.__delitem__("mask")]:
        try:
            change()
            print("changed")
        except Exception as e:
            print(type(e).__name__)
print(h5py.is_hdf5(path))
"""
    said = program(connector_environment, code, container).stdout
    assert "opened" not in said, said
    assert "changed" not in said, said
    assert "reading only" in said, said
    assert sorted(p.name for p in container.rglob("*")) == before


def test_a_folder_without_a_container_is_no_file(tmp_path, connector_environment):
    code = "import sys, h5py; h5py.File(sys.argv[1])"
    done = program(connector_environment, code, tmp_path, ok=False)
    assert done.returncode != 0
    assert "directory" in done.stderr.lower()


def test_a_damaged_block_is_an_error_to_hdf5_programs(container, connector_environment, tmp_path):
    import shutil

    broken = tmp_path / "broken.dry"
    shutil.copytree(container, broken)
    logs = [p for p in broken.rglob("*") if p.is_file() and values(1).tobytes() in p.read_bytes()]
    assert len(logs) == 1
    data = logs[0].read_bytes()
    at = data.index(values(1).tobytes()) + 20
    logs[0].write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
    code = """
import sys, h5py
with h5py.File(sys.argv[1]) as f:
    f["fields/u"][0]
    try:
        f["fields/u"][1]
        print("read")
    except OSError as e:
        print("refused")
"""
    assert program(connector_environment, code, broken).stdout.strip() == "refused"


def test_a_reader_follows_a_writer(tmp_path, connector_environment):
    path = tmp_path / "run.dry"
    c = dry.create(path)
    c.create_variable("u", "i4", (2,), steps=True)
    with c.writer() as w, w.step(0):
        w.put("u", [1, 2])
    c.commit()
    code = """
import sys, h5py
f = h5py.File(sys.argv[1])
u = f["u"]
print(u.shape, flush=True)
sys.stdin.readline()
u.refresh()
print(u.shape, u[-1].tolist(), sorted(f), flush=True)
"""
    import sys

    reader = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], env=connector_environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert reader.stdout.readline().strip() == "(1, 2)"
    c["new"] = np.zeros(3)
    with c.writer() as w, w.step(1):
        w.put("u", [3, 4])
    c.commit()
    out, err = reader.communicate("go\n", timeout=60)
    assert out.strip() == "(2, 2) [3, 4] ['new', 'u']", out + err
    c.close()


def test_lists_of_any_length_are_sequences(tmp_path, connector_environment):
    path = tmp_path / "lists.dry"
    with dry.create(path) as c:
        v = c.create_variable("hits", dry.ragged("i4"), (3,))
        v[:] = np.array(
            [np.array([1, 2], "i4"), np.array([], "i4"), np.arange(1000, dtype="i4")], dtype=object
        )
    code = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1]) as f:
    found = [x.tolist() for x in f["hits"][:]]
    assert found == [[1, 2], [], list(range(1000))], found
    assert h5py.check_vlen_dtype(f["hits"].dtype) == np.dtype("i4")
"""
    program(connector_environment, code, path)


def test_records_with_members_of_any_length_are_compounds(tmp_path, connector_environment):
    """At any depth and in arrays; whole, by member, and in parts."""
    path = tmp_path / "events.dry"
    text = np.dtype(object, metadata={"vlen": str})
    inner = np.dtype([("hits", dry.ragged("f4")), ("on", "?")])
    event = np.dtype(
        [("id", "i8"), ("name", text), ("words", text, (2,)), ("in", inner, (2,)), ("last", "u2")]
    )
    rows = [
        (n, f"event {n}" * (n % 3), ["é" * n, ""], [(np.arange(n, dtype="f4"), n % 2), ([], True)], n + 1)
        for n in range(50)
    ]
    with dry.create(path) as c:
        events = c.create_variable("events", event, (10,), steps=True)
        for step in range(5):
            values = np.empty(10, event)
            for n, row in enumerate(rows[10 * step : 10 * step + 10]):
                values[n] = (row[0], row[1], row[2], np.zeros(2, inner), row[4])
                values[n]["in"][0] = row[3][0]
                values[n]["in"][1] = row[3][1]
            events.append(values)
    code = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1]) as f:
    events = f["events"]
    assert events.shape == (5, 10) and events.dtype.names == ("id", "name", "words", "in", "last"), events.dtype
    assert h5py.check_string_dtype(events.dtype["name"]).length is None
    assert h5py.check_vlen_dtype(events.dtype["in"].base["hits"]) == np.dtype("f4")
    for cells in ((slice(None), slice(None)), (slice(1, 5, 2), slice(2, 9, 3)), (3, slice(None)), (4, [0, 2, 7])):
        numbers = np.arange(50).reshape(5, 10)[cells]
        for n, row in zip(numbers.ravel(), np.atleast_1d(events[cells]).ravel(), strict=True):
            assert row["id"] == n and row["last"] == n + 1 and row["name"].decode() == f"event {n}" * (n % 3), row
            assert [word.decode() for word in row["words"]] == ["\u00e9" * n, ""], row
            assert row["in"][0]["hits"].tolist() == list(range(n)) and row["in"][1]["hits"].tolist() == [], row
            assert row["in"]["on"].tolist() == [n % 2 == 1, True], row
        assert [t.decode() for t in np.ravel(events.fields("name")[cells])] == [f"event {n}" * (n % 3) for n in numbers.ravel()]
        assert np.ravel(events.fields("last")[cells]).tolist() == (numbers.ravel() + 1).tolist()
"""
    program(connector_environment, code, path)


def test_a_selection_of_many_texts_has_each_of_them(tmp_path, connector_environment):
    """One selection is read in parts, whose texts together are more than are kept from read to read."""
    path = tmp_path / "texts.dry"
    count, length = 900_000, 45
    with dry.create(path, durability="memory") as c:
        c.attrs["title"] = "kept beside them"
        texts = c.create_variable("texts", str, (count,))
        texts[:] = np.array([f"{n:0{length}d}" for n in range(count)], dtype=object)
    code = """
import sys, h5py
with h5py.File(sys.argv[1]) as f:
    texts = f["texts"]
    for _ in range(2):
        found = texts[::3]
        wrong = [n for n, text in enumerate(found) if int(text) != 3 * n]
        assert not wrong, (len(wrong), wrong[:3], found[wrong[0]])
    assert f.attrs["title"] == "kept beside them"
"""
    program(connector_environment, code, path)


def test_a_derived_variable_without_its_input_is_an_error_and_not_empty(tmp_path, connector_environment):
    path = tmp_path / "gone.dry"
    with dry.create(path, durability="memory") as c:
        for name, steps in (("u", False), ("v", True)):
            c.create_variable(name, "f4", (4,), steps=steps)
            c.derive(f"twice_{name}", f"2 * {name}")
        with c.writer() as w:
            w.put("u", np.ones(4, "f4"))
            with w.step(0):
                w.put("v", np.ones(4, "f4"))
        c.commit()
        c.delete("u")
        c.delete("v")
    code = """
import sys, h5py
with h5py.File(sys.argv[1]) as f:
    for name, shape in (("twice_u", (4,)), ("twice_v", (1, 4))):
        assert f[name].shape == shape, f[name].shape
        try:
            print("read", f[name][...])
        except OSError as error:
            print("refused", error)
    print(f.id.get_filesize())
"""
    said = program(connector_environment, code, path).stdout.splitlines()
    assert [line.split()[0] for line in said[:2]] == ["refused", "refused"], said
    assert int(said[2]) > 100, said
