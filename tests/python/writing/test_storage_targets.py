"""Containers on several storage targets can be read, published and removed like any other."""

from pathlib import Path

import drystone as dry
import numpy as np
import pytest
import zarr


def folders(path: Path) -> list[Path]:
    return [path / f"disk{n}" for n in range(3)]


def files(folder: Path) -> list[Path]:
    return [f for f in folder.rglob("*") if f.is_file()]


def test_log_parts_and_shards_lie_on_the_targets_and_every_reader_finds_them(tmp_path):
    values = np.random.default_rng(1).random((2, 64, 64)).astype("f4")
    with dry.create(tmp_path / "run.dry", targets=folders(tmp_path), spread="hilbert") as c:
        c.create_variable("t", "f4", shape=(64, 64), steps=True)
        for rank in range(4):
            with c.writer(rank=rank, nranks=4) as w:
                for t in range(2):
                    with w.step(t):
                        w.put("t", values[t, 16 * rank : 16 * rank + 16], offset=(16 * rank, 0))
        c.commit()
        c.publish(progress=None, chunks={"t": (1, 16, 16)})
        assert len(c.targets) == 3
        assert all(Path(target).parent in folders(tmp_path) for target in c.targets)
    assert sum(len(files(folder)) for folder in folders(tmp_path)) == 4 + 1
    with dry.open(tmp_path / "run.dry") as c:
        assert (c["t"][...] == values).all()
        assert c.verify()
        assert (c.usage()["t"].stored, c.usage()["t"].decoded) == (values.nbytes, values.nbytes)
        in_logs = [f for folder in folders(tmp_path) for f in files(folder) if f.suffix == ".seg"]
        assert len(in_logs) == 4
        assert c.describe().files["log"].nbytes > sum(f.stat().st_size for f in in_logs) > values.nbytes
    assert (zarr.open_group(tmp_path / "run.dry/zarr", mode="r")["t"][...] == values).all()
    # A container that replaces it inherits nothing and leaves nothing behind.
    with dry.create(tmp_path / "run.dry", overwrite=True) as c:
        assert c.targets == ()
    assert [f for folder in folders(tmp_path) for f in files(folder)] == []


def test_targets_that_make_no_sense_are_refused(tmp_path):
    for wrong in ({"targets": []}, {"targets": ["a"], "spread": "random"}):
        with pytest.raises(dry.InvalidArgumentError):
            dry.create(tmp_path / "a.dry", **wrong)
    dry.create(tmp_path / "b.dry").close()
    with pytest.raises(dry.InvalidArgumentError, match="for writing"):
        dry.open(tmp_path / "b.dry", targets=[tmp_path / "x"])
    with dry.open(tmp_path / "b.dry", "a", targets=[tmp_path / "x"]) as c:
        assert len(c.targets) == 1
