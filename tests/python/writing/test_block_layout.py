"""Blocks are cut for the expected reads, contain the put values, and explain the cut; plans include predictions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

EDGE = 160


def field(dtype: str = "f4") -> np.ndarray:
    return (np.arange(EDGE**3, dtype="i8") * 2654435761 % 100_003).astype(dtype).reshape(EDGE, EDGE, EDGE)


def written(path: Path, array: np.ndarray, layout: str = "model", **how) -> dry.Container:
    with dry.create(path) as c:
        c.create_variable("t", array.dtype, array.shape, dims=("z", "y", "x"), **how)
        with c.writer(layout=layout) as w:
            w.put("t", array)
    return dry.open(path)


@pytest.mark.parametrize("how", [{}, {"transform": "shuffle,zstd:1"}])
@pytest.mark.parametrize("layout", ["model", "log"])
def test_a_block_reads_back_the_same_however_it_is_laid_down(path: Path, layout: str, how: dict):
    array = field()
    with written(path, array, layout, **how) as c:
        t = c["t"]
        for key in (
            np.s_[...],
            np.s_[77],
            np.s_[:, 77],
            np.s_[..., 77],
            np.s_[3:150:7, ::-3, 5:9],
            np.s_[1, 2, 3],
        ):
            np.testing.assert_array_equal(t[key], array[key])
        (block,) = t.blocks()
        assert (block.min, block.max) == (array.min(), array.max())
        assert (block.chunks == array.shape) == (layout == "log")
        assert not c.verify().damage


def test_arrays_that_do_not_lie_densely_are_cut_as_well(path: Path):
    array = field("f8").transpose(2, 0, 1)[:, ::-1]
    with written(path, array) as c:
        assert c["t"].blocks()[0].chunks != array.shape
        np.testing.assert_array_equal(c["t"][...], array)


def test_a_cut_block_reads_far_less_across_its_last_axis(path: Path):
    array = field()
    with written(path, array) as c, written(path.with_name("log.dry"), array, "log") as whole:
        assert 2.5 * c["t"].explain[..., 7].read_bytes < whole["t"].explain[..., 7].read_bytes


def test_declared_and_configured_reads_change_the_cut_and_a_file_decides(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    array = field()
    with written(path, array, access="plane:x") as c:
        narrow = c["t"].blocks()[0].chunks
        assert "declared: plane:x" in c["t"].why(array.shape)
        assert narrow[2] < max(narrow[:2])
    config = tmp_path / "site.toml"
    config.write_text('[variables]\n"t" = { access = "plane:z" }\n')
    monkeypatch.setenv("DRYSTONE_CONFIG", str(config))
    with written(path.with_name("b.dry"), array, access="plane:x") as c:
        assert "configured: plane:z" in c["t"].why(array.shape)
        assert c["t"].blocks()[0].chunks != narrow
    config.write_text('[variables]\n"t" = { access = "plane:w" }\n')
    with pytest.raises(dry.InvalidArgumentError, match="configured access"):
        written(path.with_name("c.dry"), array)
    config.write_text('[variables]\n"t" = { layout = "log" }\n')
    with written(path.with_name("d.dry"), array) as c:
        assert c["t"].blocks()[0].chunks == array.shape
    with dry.create(path.with_name("e.dry")) as c, pytest.raises(dry.InvalidArgumentError, match="model"):
        c.writer(layout="blog")  # type: ignore[arg-type]


def test_chunks_decide_before_the_model(path: Path):
    with written(path, field(), chunks=(40, 160, 20)) as c:
        assert c["t"].blocks()[0].chunks == (40, 160, 20)


def test_a_plan_is_predicted_and_the_command_measures_it_beside(path: Path):
    with written(path, field()) as c:
        small, large = c["t"].explain[3, 3, 3], c["t"].explain[...]
        assert small.predicted is not None
        assert large.predicted is not None
        assert 0 < small.predicted < large.predicted
        assert "predicted: " in str(large)
    command = [
        sys.executable,
        "-m",
        "drystone",
        "explain",
        str(path),
        "t",
        "[3]",
        "--measure",
        "--why",
        "160x160x160",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for part in ("predicted: ", "measured: ", "Hilbert order", "reads: default mix (none declared)"):
        assert part in done.stdout, done.stdout


def test_observed_reads_shape_the_next_blocks(path: Path):
    written(path, field()).close()
    with dry.open(path, "r+") as c:
        assert c["t"].learnt == ()
        for z in range(20):
            c["t"][z]
    with dry.open(path, "r+") as c:
        (kind,) = c["t"].learnt
        assert kind[0] == 20
        assert kind[1] == (1, 0, 0)
        assert "learnt from 20" in c["t"].why((256, 256, 256))
    (path.parent / "drystone.toml").write_text("learn = false\n")
    with dry.open(path, "r+") as c:
        assert c["t"].learnt == ()
        assert "default mix (none declared)" in c["t"].why((256, 256, 256))


def test_a_plan_can_be_measured(path: Path):
    with written(path, field()) as c:
        t = c["t"]
        plan = t.explain.measured[..., 3]
        assert plan.measured is not None
        assert plan.measured > 0
        assert "measured: " in str(plan)
        assert t.explain[..., 3].measured is None
        assert t.oindex.explain.measured[..., [1, 3]].measured > 0
