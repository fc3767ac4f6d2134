"""HDF5 programs whose file names are URLs: the container lies in an object store, and what cannot be there is refused
with the reason.

Every program runs in a process of its own with the connector in its environment; the store is the scripted S3 server.
"""

import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from conftest import program

sys.path.append(str(Path(__file__).parents[1] / "python"))  # behind: a conftest is there, too
from far_rig import Rig

WRITE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], sys.argv[2]) as f:
    f.attrs["title"] = "rain"
    f["fields/t"] = np.arange(6000, dtype="f4").reshape(60, 100)
    f.create_dataset("packed", data=np.arange(4000) % 7, chunks=(500,), maxshape=(None,), compression="gzip")
    f["names"] = ["a", "bb", "ccc"]
    f["people"] = np.array([(1, 2.5), (3, 4.5)], dtype=[("id", "i4"), ("mass", "f8")])
    f["alias"] = h5py.SoftLink("/fields/t")
"""
READ = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1]) as f:
    assert f.filename == sys.argv[1]
    assert f.attrs["title"] == "rain"
    assert (f["alias"][7:50:3, 20] == np.arange(6000).reshape(60, 100)[7:50:3, 20]).all()
    assert (f["packed"][:4000] == np.arange(4000) % 7).all()
    assert [n.decode() for n in f["names"][:]] == ["a", "bb", "ccc"]
    assert f["people"]["mass"].tolist() == [2.5, 4.5]
    print(sorted(f), f["packed"].shape, f.id.get_filesize() > 6000 * 4)
"""


@pytest.fixture(scope="module")
def rig():
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture
def environment(connector_environment, rig):
    return connector_environment | rig.environment


def test_a_file_at_a_url_is_written_and_read_by_other_processes(environment, rig):
    url = "s3://bucket/written/run.h5"
    program(environment, WRITE, url, "w")
    assert "(4000,) True" in program(environment, READ, url).stdout
    # Other readers of containers see it, and nothing else lies there.
    with dry.open(url, storage_options=rig.options) as c:
        np.testing.assert_array_equal(c["packed"][:9], np.arange(9) % 7)


def test_a_file_that_grows_and_changes_keeps_the_rest(environment):
    url = "s3://bucket/grown/run.h5"
    program(environment, WRITE, url, "x")
    code = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r+") as f:
    f["packed"].resize((5000,)); f["packed"][4000:] = 9; f["fields/t"][0, 0] = -1
    f.flush()
    del f["alias"]; f["new"] = 7; f["alias"] = h5py.SoftLink("/fields/t")
"""
    program(environment, code, url)
    assert "'new'" in program(environment, READ, url).stdout
    code = 'import sys, h5py; f = h5py.File(sys.argv[1]); print(f["packed"][3999:4002], f["fields/t"][0, 0])'
    assert program(environment, code, url).stdout.strip() == "[2 9 9] -1.0"


def test_modes_mean_what_they_mean_on_a_disk(environment, rig):
    url = "s3://bucket/modes/run.h5"
    code = """
import sys, h5py
def say(mode, act=lambda f: None):
    try:
        with h5py.File(sys.argv[1], mode) as f: act(f); print(mode, sorted(f))
    except OSError as error: print(mode, type(error).__name__, error)
say("r"); say("r+"); say("a", lambda f: f.create_group("g")); say("x"); say("w-"); say("a"); say("w"); say("r")
"""
    said = program(environment, code, url).stdout.splitlines()
    begun = [" ".join(line.split()[:2]) for line in said]
    absent, there = "FileNotFoundError", "FileExistsError"
    expected = [
        f"r {absent}",
        f"r+ {absent}",
        "a ['g']",
        f"x {there}",
        f"w- {there}",
        "a ['g']",
        "w []",
        "r []",
    ]
    assert begun == expected, said
    # A container that no HDF5 program wrote is read by one, and neither replaced nor changed.
    other = "s3://bucket/modes/other.dry"
    with dry.create(other, storage_options=rig.options) as c:
        c["v"] = np.arange(9)
    for mode in ("w", "r+"):
        told = program(environment, f'import sys, h5py; h5py.File(sys.argv[1], "{mode}")', other, ok=False)
        assert "not written through HDF5" in told.stderr, told.stderr
    program(
        environment,
        'import sys, h5py; assert h5py.File(sys.argv[1])["v"][:].tolist() == list(range(9))',
        other,
    )
    with dry.open(other, storage_options=rig.options) as c:
        assert c["v"][...].tolist() == list(range(9))


def test_of_two_programs_that_write_at_once_one_fails_and_neither_loses_what_it_flushed(environment):
    """On a disk a lock keeps the second out. Without one its catalogue of names would hide what the first has made."""
    url = "s3://bucket/two/run.h5"
    code = """
import sys, h5py, subprocess
OTHER = 'import sys, h5py; f = h5py.File(sys.argv[1], "r+"); f["theirs"] = 2; f.close(); print("written")'
f = h5py.File(sys.argv[1], "w")
f["ours"] = 1
f.flush()
print(subprocess.run([sys.executable, "-c", OTHER, sys.argv[1]], capture_output=True, text=True).stdout.strip())
f["late"] = 3
for _ in range(2):
    try: f.flush()
    except Exception as error: print("refused", error)
import os; os._exit(0)
"""
    said = program(environment, code, url).stdout.splitlines()
    assert said[0] == "written", said
    assert len(said) == 3, said
    assert all(line.startswith("refused") for line in said[1:]), said
    assert "another program has changed s3://bucket/two/run.h5" in said[1], said
    code = 'import sys, h5py; f = h5py.File(sys.argv[1]); print(sorted(f), f["ours"][()], f["theirs"][()])'
    assert program(environment, code, url).stdout.strip() == "['ours', 'theirs'] 1 2"


def test_what_was_flushed_is_there_after_a_kill(environment):
    url = "s3://bucket/killed/run.h5"
    code = """
import sys, h5py, numpy as np, os, signal
f = h5py.File(sys.argv[1], "w")
f["x"] = np.arange(100000)
f.flush()
f["y"] = np.arange(10)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert program(environment, code, url, ok=False).returncode == -9
    code = """
import sys, h5py
with h5py.File(sys.argv[1], "r+") as f:
    print(sorted(f), f["x"][99999]); f["y"] = 5
print(h5py.File(sys.argv[1])["y"][()])
"""
    assert program(environment, code, url).stdout.split("\n")[:2] == ["['x'] 99999", "5"]


def test_a_reader_sees_what_is_flushed_while_the_writer_goes_on(environment):
    url = "s3://bucket/swmr/run.h5"
    code = """
import sys, h5py, numpy as np, subprocess
READ = '''
import sys, h5py
f = h5py.File(sys.argv[1], swmr=True); d = f["x"]
print(d.shape[0], flush=True)
input(); d.refresh(); print(d.shape[0], d[-1], flush=True)
'''
f = h5py.File(sys.argv[1], "w", libver="latest")
d = f.create_dataset("x", (0,), maxshape=(None,), chunks=(100,), dtype="i4")
f.swmr_mode = True
d.resize((100,)); d[:] = 1; f.flush()
reader = subprocess.Popen([sys.executable, "-c", READ, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(reader.stdout.readline().strip())
d.resize((200,)); d[100:] = 2; f.flush()
print(reader.communicate("go\\n")[0].strip())
"""
    assert program(environment, code, url).stdout.split("\n")[:2] == ["100", "200 2"]


def test_links_lead_from_one_url_to_another(environment):
    code = """
import sys, h5py
with h5py.File("s3://bucket/links/b.h5", "w") as f: f["x"] = 5
with h5py.File("s3://bucket/links/a.h5", "w") as f:
    f["beside"] = h5py.ExternalLink("b.h5", "/x")
    f["named"] = h5py.ExternalLink("s3://bucket/links/b.h5", "/x")
with h5py.File("s3://bucket/links/a.h5") as f: print(f["beside"][()], f["named"][()])
"""
    assert program(environment, code).stdout.strip() == "5 5"


def test_what_brings_a_local_file_to_a_url(environment, rig, tmp_path):
    """HDF5's own copy brings the file. `drystone copy` brings the variables, in a new container: HDF5's catalogue says
    that they are others, and no wrong value is read. (The copy of a file failed: it asked a file for the storage
    targets of a folder.)"""
    path, url, variables = tmp_path / "run.h5", "s3://bucket/brought/run.h5", "s3://bucket/brought/run.dry"
    program(environment, WRITE, path, "w")
    code = """
import sys, h5py
with h5py.File(sys.argv[1]) as old, h5py.File(sys.argv[2], "w") as new:
    for name in old: old.copy(old[name], new, name) if name != "alias" else None
    new["alias"] = h5py.SoftLink("/fields/t"); new.attrs.update(old.attrs)
"""
    program(environment, code, path, url)
    program(environment, READ, url)
    with dry.open(path) as c:
        c.copy(variables, storage_options=rig.options).close()
    with dry.open(variables, storage_options=rig.options) as c:
        np.testing.assert_array_equal(c["packed"][:9], np.arange(9) % 7)
    told = program(environment, READ, variables, ok=False)
    assert "is not the variable that the catalogue means" in told.stderr, told.stderr


def test_what_cannot_be_at_a_url_is_refused_with_the_reason(environment):
    open_it = 'import sys, h5py; h5py.File(sys.argv[1], "w", userblock_size=int(sys.argv[2]))'
    told = program(environment, open_it, "s3://bucket/refused/a.h5", 512, ok=False)
    assert "leave the user block out" in told.stderr, told.stderr
    publishing = environment | {"HDF5_VOL_CONNECTOR": "drystone publish=1"}
    told = program(publishing, open_it, "s3://bucket/refused/b.h5", 0, ok=False)
    assert "leave publish=1 out" in told.stderr, told.stderr
    told = program(environment, open_it, "s3://nowhere/c.h5", 0, ok=False)
    assert "there is no bucket" in told.stderr, told.stderr
    assert "rig-secret" not in told.stderr
    told = program(environment, open_it, "https://127.0.0.1:9/d.h5", 0, ok=False)
    assert "read only" in told.stderr or "web server" in told.stderr, told.stderr
