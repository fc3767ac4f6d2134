"""What goes wrong around the connector: a clear error from HDF5, no hang, no crash, and nothing lost that was
flushed."""

import os
import shutil
import subprocess
from pathlib import Path

import drystone as dry
import pytest
from conftest import is_stub, program

MAKE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f: f["x"] = np.arange(1000)
"""
READ = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "r") as f: assert (f["x"][...] == np.arange(1000)).all()
"""
TRY = """
import sys, h5py, numpy as np
from pathlib import Path
for path in sorted(Path(sys.argv[1]).glob("*.h5")):
    try:
        with h5py.File(path) as f: assert (f["x"][...] == np.arange(1000)).all()
        print(path.name, "read")
    except OSError as error:
        print(path.name, "refused", error)
"""


@pytest.fixture
def made(connector_environment, tmp_path):
    """A file that was made through the connector."""
    path = tmp_path / "made.h5"
    program(connector_environment, MAKE, path)
    assert is_stub(path)
    return path


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 16 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", place]).returncode
    ):
        pytest.skip("only root can mount")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_corrupted_stub_is_refused(connector_environment, made):
    """Each byte changed, and cut at every length: refused in words, or a byte that means nothing; never another file's
    content."""
    good = made.read_bytes()
    folder = made.parent / "stubs"
    folder.mkdir()
    shutil.copytree(made.with_name("made.h5.drystone"), folder / "made.h5.drystone")
    meant = good.index(b"\n", good.index(b"uuid")) + 1
    for at in range(meant):
        (folder / f"changed{at:03}.h5").write_bytes(good[:at] + bytes([good[at] ^ 0x20]) + good[at + 1 :])
    for length in (0, 1, 8, 16, 27, 28, meant - 1):
        (folder / f"cut{length:03}.h5").write_bytes(good[:length])
    said = program(connector_environment, TRY, folder).stdout.splitlines()
    assert len(said) == meant + 7
    assert [line for line in said if "refused" not in line] == []


def test_a_stub_without_its_container_says_so(connector_environment, made):
    """The file was copied without the folder beside it."""
    alone = made.parent / "elsewhere"
    alone.mkdir()
    shutil.copy(made, alone / "made.h5")
    said = program(connector_environment, READ, alone / "made.h5", ok=False)
    assert said.returncode == 1
    assert "made.h5.drystone" in said.stderr


def test_a_stub_with_another_files_container_is_refused(connector_environment, made):
    """The folder beside it has the right name and is another container."""
    other = made.with_name("other.h5")
    program(connector_environment, MAKE, other)
    shutil.rmtree(made.with_name("made.h5.drystone"))
    made.with_name("other.h5.drystone").rename(made.with_name("made.h5.drystone"))
    said = program(connector_environment, READ, made, ok=False)
    assert said.returncode == 1
    assert "OSError" in said.stderr


COPIES = """
import os, sys, h5py
os.chdir(sys.argv[1])
def held(path):
    with h5py.File(path, "r") as f: return sorted(f), f["x"][...].tolist()
with h5py.File("copy.h5", "r+") as f: f["x"][...] = 0; f["new"] = 1
assert held("copy.h5") == (["new", "x"], [0, 0, 0])
assert held("run.h5") == (["x"], [1, 2, 3])
with h5py.File("copy.h5", "w") as f: f["x"] = [7]
assert (held("copy.h5"), held("run.h5")) == ((["x"], [7]), (["x"], [1, 2, 3]))
assert held("moved/renamed.h5") == (["x"], [1, 2, 3])
with h5py.File("moved/renamed.h5", "r+") as f: f["x"][0] = 5
assert held("moved/renamed.h5") == (["x"], [5, 2, 3])
# Copies of a stub alone: read, never changed or removed.
assert held("alone.h5") == (["x"], [1, 2, 3])
try: h5py.File("alone.h5", "r+")
except OSError as error: assert "copy run.h5.drystone to" in str(error), error
else: raise SystemExit("a copy of a stub was opened for writing")
with h5py.File("alone.h5", "w") as f: f["x"] = [8]
assert (held("alone.h5"), held("run.h5")) == ((["x"], [8]), (["x"], [1, 2, 3]))
# A folder that was removed: a new file replaces what is left.
with h5py.File("gone.h5", "w") as f: f["x"] = [9]
assert held("gone.h5") == (["x"], [9])
"""


def test_a_copy_of_a_file_is_a_file_of_its_own(connector_environment, tmp_path):
    """Stub and folder copied or renamed, and a stub copied alone: the original stays as it is."""
    make = 'import sys, h5py\nwith h5py.File(sys.argv[1], "w") as f: f["x"] = [1, 2, 3]'
    run = tmp_path / "run.h5"
    program(connector_environment, make, run)
    (tmp_path / "moved").mkdir()
    for name in ("copy.h5", "moved/renamed.h5", "gone.h5"):
        shutil.copy(run, tmp_path / name)
        shutil.copytree(tmp_path / "run.h5.drystone", tmp_path / f"{name}.drystone")
    shutil.copy(run, tmp_path / "alone.h5")
    program(connector_environment, make, tmp_path / "gone.h5")
    for folder in tmp_path.glob("gone.h5.drystone*"):
        shutil.rmtree(folder)
    program(connector_environment, COPIES, tmp_path)
    with dry.open(tmp_path / "moved/renamed.h5") as c:
        assert sorted(c.variables)


REFERENCES = """
import sys, h5py, numpy as np
ref = h5py.ref_dtype
with h5py.File(sys.argv[1] + "/a.h5", "w") as f, h5py.File(sys.argv[1] + "/b.h5", "w") as g:
    for name in "xyz": g["wrong_" + name] = [1, 2]
    f["target"], f["other"] = np.arange(3), np.arange(4)
    both = np.array([f["target"].ref, f["other"].ref], dtype=ref)
    f.create_dataset("r", data=both)
    record = np.zeros(2, [("n", "i4"), ("to", ref, (2,))])
    record["n"] = [4, 5]
    for row in record: row["to"][:] = both
    f.create_dataset("records", data=record)
    f["listed"] = np.zeros(2)
    f["listed"].attrs["one"] = f["other"].ref
    lists = f["listed"].attrs
    lists.create("many", np.array([both, both[:1]], dtype=object), dtype=h5py.vlen_dtype(ref))
    for name in ("r", "records", "listed"):
        f.copy(name, g)
        f.copy(name, f, name + "_here")
    assert not any(bool(one) for one in g["r"][()])
    assert g["records"]["n"].tolist() == [4, 5]
    assert not any(bool(one) for row in g["records"]["to"] for one in row)
    assert not g["listed"].attrs["one"]
    assert [len(part) for part in g["listed"].attrs["many"]] == [2, 1]
    assert not any(bool(one) for part in g["listed"].attrs["many"] for one in part)
    assert [f[one].name for one in f["r_here"][()]] == ["/target", "/other"]
    assert f[f["listed_here"].attrs["many"][0][1]].name == "/other"
    assert f[f["r"][1]].name == "/other"
"""


def test_references_in_copies_to_another_file_are_null(connector_environment, tmp_path):
    """As in HDF5, which leaves those in records as they are; there they would point to other objects."""
    program(connector_environment, REFERENCES, tmp_path)


def test_a_stub_means_nothing_to_hdf5_itself(native_environment, made):
    """Without the plug-in HDF5 refuses it, and does not take it for an empty file."""
    said = program(native_environment, READ, made, ok=False)
    assert said.returncode == 1
    assert "OSError" in said.stderr
    said = program(native_environment, READ, made, "r+", ok=False)
    assert said.returncode == 1


def test_a_native_file_stays_native(connector_environment, native_environment, tmp_path):
    """The connector does not take over what HDF5 wrote: it refuses, and the file stays what it was."""
    path = tmp_path / "plain.h5"
    program(native_environment, MAKE, path)
    before = path.read_bytes()
    said = program(connector_environment, READ, path, ok=False)
    assert said.returncode in (0, 1)
    assert path.read_bytes() == before


def test_two_connectors_in_one_variable_are_an_error(connector_environment, tmp_path):
    """HDF5 takes what follows the name for its configuration."""
    environment = connector_environment | {"HDF5_VOL_CONNECTOR": "drystone pass_through"}
    said = program(environment, MAKE, tmp_path / "x.h5", ok=False)
    assert said.returncode != 0
    assert not (tmp_path / "x.h5").exists()


def test_a_folder_that_cannot_be_written_to_is_an_error(connector_environment, small_disk):
    """Read-only for everybody, root among them."""
    made = small_disk / "made.h5"
    program(connector_environment, MAKE, made)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    said = program(connector_environment, MAKE, small_disk / "new.h5", ok=False)
    assert said.returncode == 1
    assert "OSError" in said.stderr or "PermissionError" in said.stderr
    said = program(connector_environment, MAKE, made, ok=False)
    assert said.returncode == 1
    program(connector_environment, READ, made)


def test_a_full_disk_is_an_error_and_what_was_flushed_is_there(connector_environment, small_disk):
    """The background meets it; the program hears of it at the latest when it flushes or closes."""
    path = small_disk / "full.h5"
    code = """
import sys, h5py, numpy as np
rng = np.random.default_rng(0)
f = h5py.File(sys.argv[1], "w")
f["x"] = np.arange(1000)
f.flush()
print("flushed", flush=True)
try:
    for n in range(12):
        f[f"big{n}"] = rng.integers(0, 256, 4 << 20, dtype="u1")
    f.flush()
    print("no error")
except OSError as error:
    print("error", error, flush=True)
try:
    f.close()
    print("closed", flush=True)
except (OSError, RuntimeError) as error:
    print("error at close", error, flush=True)
"""
    said = program(connector_environment, code, path, ok=False)
    assert said.returncode >= 0, said.stderr
    assert "flushed" in said.stdout
    assert "no error" not in said.stdout
    assert "error" in said.stdout + said.stderr
    program(connector_environment, READ, path)


def test_a_missing_plug_in_is_found_out(connector_environment, tmp_path):
    """HDF5 2.0 fails (h5py then even crashes); HDF5 1.14 goes on with its own file, which is why tests look at the
    file."""
    environment = connector_environment | {"HDF5_PLUGIN_PATH": str(tmp_path)}
    path = tmp_path / "x.h5"
    said = program(environment, MAKE, path, ok=False)
    assert said.returncode != 0 or not is_stub(path)
    assert Path(tmp_path / "x.h5.drystone").exists() is False


def test_references_to_regions_are_refused_where_they_would_be_kept(connector_environment, tmp_path):
    """Symptom: they could be stored, and reading them failed in the library's own format code. Cause: such a value is a
    place in a file of that format, which was not this one. This catches it by asking for nothing but the refusal."""
    code = """if 1:
        import sys, h5py
        with h5py.File(sys.argv[1], "w") as file:
            for make in (lambda: file.create_dataset("d", (2,), dtype=h5py.regionref_dtype),
                         lambda: file.create_dataset("c", (2,), dtype=[("a", "i4"), ("r", h5py.regionref_dtype)]),
                         lambda: file.attrs.create("a", file["/"].ref, dtype=h5py.regionref_dtype)):
                try:
                    make()
                except Exception as error:
                    print(error)
            print(list(file), list(file.attrs))
    """
    said = program(connector_environment, code, tmp_path / "x.h5").stdout
    assert said.count("references to regions") >= 2, said
    assert said.endswith("[] []\n"), said


def test_a_file_in_memory_leaves_nothing_behind(connector_environment, tmp_path):
    """The core driver without backing store: natively it touches neither the disk nor a file that has the name."""
    code = """if 1:
        import os, sys, h5py, numpy as np
        def left(): return [n for n in os.listdir("/dev/shm") if n.startswith(f"drystone-hdf5-{os.getpid()}-")]
        with h5py.File(sys.argv[1], "w", driver="core", backing_store=False) as file:
            file["x"] = np.arange(1000)
            file.flush()
            assert file["x"][7] == 7 and file.filename == sys.argv[1]
        with h5py.File(sys.argv[2], "w", driver="core", backing_store=True) as file:
            file["x"] = np.arange(3)
        with h5py.File(sys.argv[2], driver="core", backing_store=False) as file:
            assert file["x"][2] == 2
        try:
            h5py.File(sys.argv[2], "r+", driver="core", backing_store=False)
        except OSError as error:
            print(error)
        print(left())
    """
    other = tmp_path / "other.h5"
    other.write_bytes(b"mine")
    said = program(connector_environment, code, other, tmp_path / "kept.h5").stdout
    assert "in memory only" in said
    assert said.endswith("[]\n"), said
    assert other.read_bytes() == b"mine"
    assert is_stub(tmp_path / "kept.h5")


def test_a_driver_that_keeps_files_elsewhere_is_refused(connector_environment, tmp_path):
    code = """if 1:
        import io, sys, h5py
        for make in (lambda: h5py.File(io.BytesIO(), "w"), lambda: h5py.File(sys.argv[1], "w", driver="split")):
            try:
                make()
            except OSError as error:
                print(error)
    """
    said = program(connector_environment, code, tmp_path / "x.h5", cwd=tmp_path).stdout
    assert said.count("file driver") == 2, said
    assert list(tmp_path.iterdir()) == []
