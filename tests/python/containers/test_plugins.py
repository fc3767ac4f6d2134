"""Plug-ins: codecs in C, loaded only if the environment's configuration lists them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WRITE = """
import drystone as dry, numpy as np
values = (np.arange(64 * 64 * 64) // 1000 % 251).astype("u1").reshape(64, 64, 64)
with dry.create("c.dry") as c:
    for name, transform in [("r", "runs:64"), ("m", "mirror"), ("s", "shuffle,runs"), ("b", "mirror,blosc"), ("plain", None)]:
        c.create_variable(name, "u1", values.shape, transform=transform)
    with c.writer() as w:
        for name in c.variables:
            w.put(name, values)
"""
CHECK = """
import drystone as dry, numpy as np
values = (np.arange(64 * 64 * 64) // 1000 % 251).astype("u1").reshape(64, 64, 64)
with dry.open("c.dry") as c:
    for name in c.variables:
        assert np.array_equal(c[name][...], values), name
        assert np.array_equal(c[name][3, 5:9, ::2], values[3, 5:9, ::2]), name
    assert [c[n].blocks()[0].transform for n in "rsm"] == ["runs:64", "shuffle,runs", "mirror"]
    assert c["m"].explain[5, 5].read_bytes < 40_000
    assert c["r"].blocks()[0].nbytes < 20_000
"""


def python(folder, text, **environment):
    return subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")} | environment,
        capture_output=True,
        text=True,
    )


def drystone(folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "drystone", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")} | environment,
        capture_output=True,
    )


@pytest.fixture
def site(tmp_path):
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    include = ROOT / "crates/capi/include"
    subprocess.run(
        ["cc", *flags, "-I", include, "-o", tmp_path / "runs.so", ROOT / "examples/plugin/runs.c"], check=True
    )
    (tmp_path / "site.toml").write_text('plugins = ["runs.so"]\n')
    return tmp_path


def test_codecs_of_a_plug_in_are_transforms_like_any_other(site):
    written = python(site, WRITE, DRYSTONE_CONFIG="site.toml")
    assert written.returncode == 0, written.stderr
    read = python(site, CHECK, DRYSTONE_CONFIG="site.toml")
    assert read.returncode == 0, read.stderr
    wrong = python(
        site, WRITE.replace("runs:64", "runs:999").replace("c.dry", "d.dry"), DRYSTONE_CONFIG="site.toml"
    )
    assert "takes the length of the longest run" in wrong.stderr


def test_a_configuration_may_use_the_codecs_of_the_plug_ins_it_lists(site):
    (site / "site.toml").write_text('variables."**".transform = "runs:7"\nplugins = ["runs.so"]\n')
    assert python(site, WRITE, DRYSTONE_CONFIG="site.toml").returncode == 0
    told = python(
        site,
        "import drystone as dry; print(dry.open('c.dry')['plain'].blocks()[0].transform)",
        DRYSTONE_CONFIG="site.toml",
    )
    assert told.stdout.strip() == "runs:7"


def test_a_missing_plug_in_is_named_and_the_stored_bytes_can_still_be_had(site):
    assert python(site, WRITE, DRYSTONE_CONFIG="site.toml").returncode == 0
    read = python(
        site, "import drystone as dry; c = dry.open('c.dry'); print(c['plain'][1, 2, 3]); c['r'][0]"
    )
    assert read.stdout.strip() == "4"
    assert "UnsupportedError" in read.stderr
    assert 'unknown codec "runs"' in read.stderr
    assert "plug-ins" in read.stderr
    raw = drystone(site, "dump", "--raw", "c.dry", "r")
    assert raw.returncode == 1
    assert b'unknown codec "runs"' in raw.stderr
    assert raw.stdout.startswith(b"\x1f\x40\x00")
    size = python(site, "import drystone as dry; print(dry.open('c.dry')['r'].blocks()[0].nbytes)")
    assert len(raw.stdout) == int(size.stdout)
    assert drystone(site, "dump", "--raw", "c.dry", "r", "1").returncode == 2
    there = drystone(site, "dump", "--raw", "c.dry", "r", DRYSTONE_CONFIG="site.toml")
    assert (there.returncode, len(there.stdout)) == (0, 64**3)


def test_nothing_that_lies_beside_data_brings_in_code(site):
    (site / "drystone.toml").write_text('plugins = ["runs.so"]\n')
    refused = python(site, WRITE)
    assert "only the file that DRYSTONE_CONFIG names" in refused.stderr


def test_a_library_that_is_none_or_is_not_there_is_an_error_that_names_it(site):
    (site / "not.so").write_text("no library")
    (site / "empty.c").write_text("int nothing;")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", site / "empty.so", site / "empty.c"], check=True)
    for name, what in [
        ("not.so", "cannot be loaded"),
        ("gone.so", "cannot be found"),
        ("empty.so", "does not export"),
    ]:
        (site / "site.toml").write_text(f'plugins = ["{name}"]\n')
        refused = python(site, WRITE, DRYSTONE_CONFIG="site.toml")
        assert what in refused.stderr, refused.stderr
        assert name in refused.stderr


def test_a_plug_in_of_another_version_is_refused(site):
    source = (ROOT / "examples/plugin/runs.c").read_text()
    (site / "old.c").write_text(source.replace('DRYSTONE_TRANSFORM_ABI, "runs"', '7, "runs"'))
    include = ROOT / "crates/capi/include"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-I", include, "-o", site / "old.so", site / "old.c"], check=True
    )
    (site / "site.toml").write_text('plugins = ["old.so"]\n')
    refused = python(site, WRITE, DRYSTONE_CONFIG="site.toml")
    assert "was made for version 7 of drystone_transform.h" in refused.stderr
