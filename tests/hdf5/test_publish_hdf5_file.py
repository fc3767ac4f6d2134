"""The file stays a file: what was written through the connector becomes a genuine HDF5 file, at once or not at all."""

import os
import random
import shutil
import subprocess
import sys
import time

import pytest
from conftest import is_stub, program

KILLS = 30 if os.environ.get("DRYSTONE_LONG") else 4
MAKE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    for n in range(40):
        d = f.create_dataset(f"group{n % 4}/d{n}", data=np.arange(50_000) + n, chunks=(5000,), compression=1)
        d.attrs["n"] = n
    f["names"] = np.array(["one", "zwölf"], dtype=h5py.string_dtype())
    f["refers"] = np.array([f["group1"].ref, f["group2/d2"].ref], dtype=h5py.ref_dtype)
    f["link"] = h5py.SoftLink("/group1/d1")
"""
READ = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r") as f:
    for n in range(40):
        d = f[f"group{n % 4}/d{n}"]
        assert (d[...] == np.arange(50_000) + n).all() and d.attrs["n"] == n and d.compression == "gzip"
    assert list(f["names"].asstr()) == ["one", "zwölf"]
    assert f[f["refers"][1]].name == "/group2/d2" and f["link"][0] == 1
"""


def publish(environment, path, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "drystone", "publish", "--hdf5", path],
        env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def original(connector_environment, tmp_path_factory):
    """A file through the connector, to be copied with its container."""
    path = tmp_path_factory.mktemp("original") / "file.h5"
    program(connector_environment, MAKE, path)
    assert is_stub(path)
    return path


def copied(original, folder):
    shutil.copytree(original.parent, folder)
    return folder / original.name


def test_publishing_makes_a_genuine_file(original, connector_environment, native_environment, tmp_path):
    """Readable without the plug-in; the container is gone; the command may be repeated."""
    path = copied(original, tmp_path / "here")
    done = publish(native_environment, path)
    assert "genuine HDF5 file" in done.stdout
    assert not is_stub(path)
    assert [found.name for found in path.parent.iterdir()] == ["file.h5"]
    program(native_environment, READ, path)
    assert "already" in publish(native_environment, path).stdout


def test_closing_publishes_if_it_is_configured(connector_environment, native_environment, tmp_path):
    """One word in the variable; the program does not change."""
    path = tmp_path / "file.h5"
    environment = connector_environment | {"HDF5_VOL_CONNECTOR": "drystone publish=1"}
    program(environment, MAKE, path)
    assert not is_stub(path)
    assert [found.name for found in tmp_path.iterdir()] == ["file.h5"]
    program(native_environment, READ, path)


def test_a_publisher_that_is_killed_leaves_one_or_the_other(
    original, connector_environment, native_environment, tmp_path
):
    """At any moment the file reads: through the connector, or natively."""
    begin = time.monotonic()
    publish(native_environment, copied(original, tmp_path / "measure"))
    lasts = time.monotonic() - begin
    published = 0
    for seed in range(KILLS):
        path = copied(original, tmp_path / str(seed))
        command = [sys.executable, "-m", "drystone", "publish", "--hdf5", path]
        child = subprocess.Popen(
            list(map(str, command)), env=native_environment, stdout=subprocess.DEVNULL, process_group=0
        )
        time.sleep(random.Random(seed).uniform(0.3, 1.1) * lasts)
        os.killpg(child.pid, 9)
        child.wait()
        if is_stub(path):
            program(connector_environment, READ, path)
            publish(native_environment, path)
        else:
            published += 1
        program(native_environment, READ, path)
    print(f"{published} of {KILLS} were published")


def test_what_cannot_be_published_stays_what_it_was(
    original, connector_environment, native_environment, tmp_path
):
    """A folder without room for the copy."""
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", small]).returncode
    ):
        pytest.skip("only root can mount")
    try:
        path = small / "file.h5"
        code = "import sys, h5py, numpy as np\nwith h5py.File(sys.argv[1], 'w') as f: f['x'] = np.random.bytes(3 << 20)"
        code = code.replace("np.random.bytes(3 << 20)", "np.frombuffer(np.random.bytes(3 << 20), 'u1')")
        program(connector_environment, code, path)
        publish(native_environment, path, code=6)
        assert is_stub(path)
        program(connector_environment, "import sys, h5py; h5py.File(sys.argv[1])['x'][...]", path)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def test_a_program_that_ends_without_closing_loses_nothing(
    connector_environment, native_environment, tmp_path
):
    """A library that shuts down shows nothing of its files: the file stays a stub, which is said, and can be published
    then."""
    path = tmp_path / "file.h5"
    code = MAKE.replace('with h5py.File(sys.argv[1], "w") as f:', 'f = h5py.File(sys.argv[1], "w")\nif True:')
    code += "\nf.flush()\nimport ctypes, h5py.h5i\nf.id.id and h5py.h5i.inc_ref(f.id)\n"
    environment = connector_environment | {"HDF5_VOL_CONNECTOR": "drystone publish=1"}
    said = program(environment, code, path)
    assert is_stub(path)
    assert "was not published" in said.stderr
    publish(native_environment, path)
    program(native_environment, READ, path)


def test_an_ordinary_file_is_told_from_a_stub(native_environment, tmp_path):
    """Neither is touched."""
    path = tmp_path / "notes.txt"
    path.write_text("no HDF5")
    assert "not written through" in publish(native_environment, path, code=2).stderr
    assert path.read_text() == "no HDF5"
