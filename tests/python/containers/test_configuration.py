"""A configuration file decides how data is stored, without a change of the program that writes it."""

import json
import subprocess
import sys

import drystone as dry
import numpy as np
import pytest


def program(path):
    """An application that does not know about configurations."""
    with dry.create(path) as c:
        c.create_variable("fields/T", "f4", (64, 64), steps=True, transform="zlib:9")
        c.create_variable("ids", "i8", (64,))
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("fields/T", np.add.outer(np.arange(64, dtype="f4"), np.arange(64, dtype="f4")))
            w.put("ids", np.arange(64))


def test_one_line_beside_the_container_swaps_a_transform(tmp_path):
    (tmp_path / "drystone.toml").write_text('variables."**".transform = "shuffle,zstd:1"\n')
    program(tmp_path / "run.dry")
    c = dry.open(tmp_path / "run.dry")
    assert c["fields/T"].transform == "zlib:9"
    assert [b.transform for b in c["fields/T"].blocks()] == ["shuffle,zstd:1"]
    assert [b.transform for b in c["ids"].blocks()] == ["shuffle,zstd:1"]
    assert c["fields/T"][0, 3, 4] == 7
    (tmp_path / "drystone.toml").unlink()
    assert dry.open(tmp_path / "run.dry")["fields/T"][0, 3, 4] == 7


def test_the_environment_names_another_file_with_chunks_and_durability(tmp_path, monkeypatch):
    site = tmp_path / "site.toml"
    site.write_text(
        'durability = "durable"\nthreads = 1\n'
        '[variables]\n"fields/*" = { transform = "auto:size", chunks = [16, 32] }\n"*" = { transform = "lz4" }\n'
    )
    (tmp_path / "drystone.toml").write_text("nonsense")
    monkeypatch.setenv("DRYSTONE_CONFIG", str(site))
    program(tmp_path / "run.dry")
    c = dry.open(tmp_path / "run.dry")
    assert c.durability == "durable"
    (block,) = c["fields/T"].blocks()
    assert block.chunks == (16, 32)
    assert block.transform not in (None, "zlib:9")
    assert [b.transform for b in c["ids"].blocks()] == ["lz4"]


def test_info_shows_what_was_applied(tmp_path):
    (tmp_path / "drystone.toml").write_text('variables."fields/*".transform = "lz4"\n')
    program(tmp_path / "run.dry")
    info = [sys.executable, "-m", "drystone", "info", str(tmp_path / "run.dry")]
    text = subprocess.run(info, capture_output=True, text=True, check=True).stdout
    assert "fields/T as lz4 (declared zlib:9)" in text
    assert "drystone.toml" in text
    assert "fields/*: transform lz4" in text
    found = json.loads(subprocess.run([*info, "--json"], capture_output=True, text=True, check=True).stdout)
    assert found["configuration"].endswith("drystone.toml")
    assert found["transforms"]["fields/T"] == {"declared": "zlib:9", "applied": ["lz4"]}


def test_a_configuration_that_cannot_be_followed_is_an_error_that_says_where(tmp_path, monkeypatch):
    file = tmp_path / "drystone.toml"
    file.write_text('\nvariables."*".transfrom = "lz4"\n')
    with pytest.raises(dry.InvalidArgumentError, match=r"drystone.toml, line 2: unknown key \"transfrom\""):
        program(tmp_path / "a.dry")
    file.write_text('variables."ids".transform = "bitround:4"\n')
    with pytest.raises(dry.InvalidArgumentError, match="floating-point numbers only"):
        program(tmp_path / "b.dry")
    file.unlink()
    monkeypatch.setenv("DRYSTONE_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(dry.InvalidArgumentError, match=r"missing.toml cannot be read"):
        program(tmp_path / "c.dry")
