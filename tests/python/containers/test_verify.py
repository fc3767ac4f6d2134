"""Verification of containers that are sound although something of theirs was deleted, expired or is computed."""

import drystone as dry
import numpy as np
import pytest


@pytest.mark.parametrize("transform", ["pcodec", "zfp:rate=16", "shuffle,zstd:1"])
def test_blocks_of_a_deleted_variable_are_sound(tmp_path, transform):
    """Symptom: codecs of numbers could not decode them, since their type was gone, and that was called damage."""
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("a", "f8", (5000,), transform=transform)
        c["a"][...] = np.arange(5000.0)
        c.commit()
        c.delete("a")
        report = c.verify()
        assert report
        assert report.entries == 1


@pytest.mark.parametrize("kind", ["virtual", "stored"])
def test_derived_variables_beside_an_index_are_passed_over(tmp_path, kind):
    """Symptom: verify failed, because derived variables have no blocks whose replicas it could compare."""
    with dry.create(tmp_path / "c.dry") as c:
        c["late"] = np.random.default_rng(1).random((200, 200))
        c.derive("d", "late * 2", kind=kind)
        c.index("late")
        assert c.verify()


def test_published_values_are_compared_after_their_snapshot_expired(tmp_path):
    """Symptom: the whole verification ended with NotFoundError."""
    with dry.create(tmp_path / "c.dry") as c:
        c["a"], c["b"] = np.arange(10.0), np.zeros(3)
        c.commit()
        c.publish(["a"])
        for number in range(4):
            c["b"][0] = number
            c.commit()
        c.gc(keep=1)
    with dry.open(tmp_path / "c.dry", "r+") as c:
        assert c.verify(values=True)
        c["a"][2] = 7  # the log is newer than the chunk
        c.commit()
        assert c.verify(values=True)
    (shard,) = (p for p in (tmp_path / "c.dry/zarr/a/c").rglob("*") if p.is_file())
    damaged = bytearray(shard.read_bytes())
    damaged[8] ^= 1
    shard.write_bytes(damaged)
    with dry.open(tmp_path / "c.dry") as c:
        assert not c.verify(values=True)


def test_empty_cells_make_steps_and_extents(tmp_path):
    with dry.create(tmp_path / "c.dry") as c:
        grown = c.create_variable("grown", "f4", (None, 0, 3))
        grown.append(np.zeros((4, 0, 3), "f4"))
        c.commit()
        assert c["grown"].shape == (4, 0, 3)
        c.create_variable("s", "f4", (2, 3), steps=True)
        with c.writer(rank=0, nranks=1) as w:
            for step, rows in ((0, 2), (3, 0)):
                with w.step(step):
                    w.put("s", np.ones((rows, 3), "f4"))
        assert c["s"].steps == [0, 3]
        c.copy(tmp_path / "copy.dry")
    with dry.open(tmp_path / "copy.dry") as c:
        assert c["s"].steps == [0, 3]


@pytest.mark.filterwarnings("ignore::drystone.DrystoneWarning")
def test_recover_settles_a_log_file_that_no_power_cut_took(tmp_path):
    """Symptom: flush, gc and recover failed for ever, for they could not sync a file that was not there."""
    path = tmp_path / "c.dry"
    with dry.create(path) as c:
        c.create_variable("t", "f8", (8, 64), steps=True)
        with c.writer(rank=0, nranks=1) as w, w.step(0):
            w.put("t", np.ones((8, 64)))
    old = set((path / "log").glob("*.seg"))
    with dry.open(path, "r+") as c:
        with c.writer(rank=0, nranks=1) as w:
            for step in (1, 2):
                with w.step(step):
                    w.put("t", np.full((8, 64), step + 1.0))
        c["b"] = np.arange(5.0)
        c.flush()
    for file in old:
        file.unlink()
    with dry.open(path, "r+") as c:
        report = c.recover()
        assert any("is lost: values of step 0 cannot be read" in note for note in report.notes)
    with dry.open(path, "r+") as c:
        assert c["b"][...].tolist() == [0, 1, 2, 3, 4]
        assert c["t"][2][0, 0] == 3
        with pytest.raises(dry.CorruptError):
            c["t"][0]
        c.attrs["note"] = "kept"
        c.flush()
        with c.writer(rank=0, nranks=1) as w, w.step(0, replace=True):
            w.put("t", np.zeros((8, 64)))
        c.gc(keep=1)
        assert c.verify()
        assert not c.lost()
        assert c["t"][0].max() == 0


def test_values_are_verified_in_a_damaged_container(tmp_path):
    """Symptom: with `values=True` the first damaged block of a published variable raised, and the report was lost."""
    path = tmp_path / "run.dry"
    with dry.create(path) as c:
        for name in "ab":
            c[name] = np.arange(500, dtype="f4")
        c.publish()
        places = [c[name].blocks()[0].place for name in "ab"]
    for file, at, _ in places:
        with (path / file).open("r+b") as log:
            log.seek(at + 100)
            log.write(b"\xff")
    with dry.open(path) as c:
        without, found = c.verify(), c.verify(values=True)
    assert {d.variable for d in without.damage} == {"a", "b"}
    assert {d.message for d in without.damage} < {d.message for d in found.damage}
    compared = [d for d in found.damage if "cannot be compared with the log" in d.message]
    assert {d.variable for d in compared} == {"a", "b"}, found
