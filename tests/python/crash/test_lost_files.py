"""Lost and truncated files are damage; replaced or removed containers are noticed: docs/guide/lost-files.md."""

import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import drystone as dry
import numpy as np
import pytest

OTHER_BOOT = "00000000-1111-2222-3333-444444444444"


def boot():
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


pytestmark = pytest.mark.skipif(
    not Path("/proc/sys/kernel/random/boot_id").exists(), reason="the system has no names for boots"
)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def reboot(path):
    """Change data written in this boot as if an earlier boot had written it: docs/format/frame.md."""
    for file in [*(path / "manifest").glob("*.dsm"), *(path / "log").iterdir()]:
        data, at = bytearray(file.read_bytes()), 0
        while data[at : at + 4] == b"DRYF":
            (n,) = struct.unpack_from("<Q", data, at + 8)
            payload = bytes(data[at + 32 : at + 32 + n])
            moved = payload.replace(boot().encode(), OTHER_BOOT.encode())
            if moved != payload:
                data[at + 32 : at + 32 + n] = moved
                struct.pack_into("<I", data, at + 24, crc32c(moved))
                struct.pack_into("<I", data, at + 28, crc32c(bytes(data[at : at + 28])))
            at += 32 + (n + 7) // 8 * 8
            if file.suffix == ".seg":
                break  # the other bytes are payload
        file.write_bytes(data)


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "drystone", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "DrystoneWarning" not in done.stderr, done.stderr
    return done


@pytest.fixture
def path(tmp_path):
    """Two snapshots of values and two steps, none of them flushed."""
    where = tmp_path / "l.dry"
    dry.create(where).close()
    with dry.open(where, "r+") as c:
        c.create_variable("a", "f4", (8,))
        c.create_variable("t", "f4", (4,), steps=True)
        with c.writer(rank=0, nranks=1) as w:
            for step in range(2):
                with w.step(step):
                    w.put("t", np.full(4, step + 1.0, "f4"))
        c["a"][...] = np.arange(8, dtype="f4")
        c.commit()
    assert not list((where / "manifest").glob("*.mark"))
    return where


def segments(path):
    return sorted((path / "log").glob("*.seg"))


def remove(file):
    file.unlink()


def cut(file):
    os.truncate(file, file.stat().st_size // 2)


def empty(file):
    os.truncate(file, 0)


@pytest.mark.parametrize("how", [remove, cut, empty])
@pytest.mark.parametrize("which", ["one", "all"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["this boot", "another boot"])
def test_lost_log_files_never_pass_as_sound(path, how, which, elsewhere):
    """Symptom: with a log file deleted or truncated, reads gave fill values, `verify` said "sound: 0 B checked" with
    exit code 0, export wrote zeros, and an attribute was committed on top. Cause: every loss was taken for a power
    cut, and the older snapshot for the container. Here files are lost in every way, and every interface must report
    it."""
    if elsewhere:
        reboot(path)
    lost = segments(path)[:1] if which == "one" else segments(path)
    for file in lost:
        how(file)
    done = command("verify", path)
    assert done.returncode == 1, done
    assert "sound" not in done.stdout, done
    assert lost[0].name in done.stdout
    report = json.loads(command("verify", "--json", path).stdout)
    assert not report["sound"]
    assert any(lost[0].name in d["message"] for d in report["damage"])
    for arguments in (
        ["ls"],
        ["info"],
        ["dump", "--header"],
        ["explain", "a"],
        ["du"],
        ["export", path.parent / "a.npy", "a"],
    ):
        name, *rest = arguments
        done = command(name, path, *rest)
        assert done.returncode == 4, (arguments, done)
        assert any(file.name in done.stderr for file in lost), (arguments, done)
    assert not (path.parent / "a.npy").exists()
    assert command("diff", path, path).returncode == 4
    assert command("plot", path, "a", "--output", path.parent / "a.png").returncode == 4
    done = command("ls", "--damaged", path)
    assert done.returncode == 0, done
    xr = pytest.importorskip("xarray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(dry.CorruptError, match="lost files"):
            xr.open_dataset(path, engine="drystone")
        xr.open_dataset(path, engine="drystone", damaged=True).close()


def test_in_the_same_boot_lost_data_is_an_error_and_the_rest_is_read(path):
    reads = {}
    for file in segments(path):
        kept = file.read_bytes()
        file.unlink()
        with pytest.warns(dry.DrystoneWarning, match="no power cut did that"):
            c = dry.open(path)
        assert c.steps == [0, 1]
        for name in "a", "t":
            try:
                reads[file, name] = c[name][...]
            except dry.CorruptError as error:
                reads[file, name] = None
                named = str(error)
        assert file.name in named
        c.close()
        file.write_bytes(kept)
    failed = [key for key, found in reads.items() if found is None]
    assert len(failed) == 2, "each file holds one of the variables"
    for (_, name), found in reads.items():
        if found is not None:
            expected = np.arange(8) if name == "a" else np.array([[1] * 4, [2] * 4])
            np.testing.assert_array_equal(found, expected)
    with dry.open(path) as c:
        assert not c.lost()
        assert c.verify().damage == []


def test_nothing_is_committed_over_snapshots_that_were_passed_over(path):
    reboot(path)
    for file in segments(path):
        file.unlink()
    with pytest.warns(dry.DrystoneWarning) as told:
        c = dry.open(path, "r+")
    assert any("steps 0..1" in str(w.message) for w in told)
    before = sorted((p.name, p.stat().st_size) for p in path.rglob("*") if p.is_file())
    for refused in (
        lambda: c.attrs.update(x=1),
        lambda: c.create_variable("b", "f4", (2,)),
        lambda: c.writer(),
        c.commit,
        c.flush,
        c.publish,
        c.gc,
    ):
        with pytest.raises(dry.CorruptError, match="recover"):
            refused()
    assert before == sorted((p.name, p.stat().st_size) for p in path.rglob("*") if p.is_file())
    report = c.recover(adopt=True)
    assert any("steps 0..1" in note for note in report.notes), report.notes
    c.attrs["x"] = 1
    c.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with dry.open(path) as c:
            assert c.attrs["x"] == 1
            assert not c.lost()
            assert c.verify().damage == []
    assert command("verify", path).returncode == 0


@pytest.mark.parametrize("elsewhere", [False, True], ids=["this boot", "another boot"])
@pytest.mark.parametrize("which", ["newest", "all", "newest damaged"])
def test_lost_manifests_are_damage(path, which, elsewhere):
    if elsewhere:
        reboot(path)
    newest = max((path / "manifest").glob("*.dsm"))
    if which == "all":
        shutil.rmtree(path / "manifest")
    elif which == "newest":
        newest.unlink()
    else:
        newest.write_bytes(b"?" + newest.read_bytes()[1:])
    done = command("verify", path)
    assert done.returncode == 1, done
    assert "manifest" in done.stdout, done
    for name in "ls", "info", "du":
        done = command(name, path)
        assert done.returncode == 4, done
        assert "manifest" in done.stderr, done
    if not elsewhere:
        with pytest.raises(dry.CorruptError, match="recover"):
            dry.open(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dry.open(path, damaged=True).close()
        with dry.open(path, "r+") as c:
            with pytest.raises(dry.CorruptError, match="recover"):
                c.attrs["x"] = 1
            c.recover(adopt=True)
            c.attrs["x"] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with dry.open(path) as c:
            assert c.attrs["x"] == 1
    assert command("verify", path).returncode == 0


# Under "durable" there are no marks, and the hint does not lag. Two lost manifests are known only by a hint or a mark
# above both.
FLUSHED = [
    *[
        (which, hint, "async")
        for which in ("newest", "newest damaged")
        for hint in ("kept", "lags", "removed")
    ],
    *[(which, "kept", "durable") for which in ("newest", "newest damaged", "two newest")],
    ("two newest", "kept", "async"),
]


@pytest.mark.parametrize(("which", "hint", "durability"), FLUSHED)
def test_lost_manifests_that_were_flushed_are_settled_by_a_recovery(tmp_path, which, hint, durability):
    """Symptoms: with a hint that lagged, as after a kill, a removed manifest that had been flushed was not missed; and
    a damaged one could be opened only with damaged=True, so that nothing could be committed ever after."""
    path = tmp_path / "f.dry"
    with dry.create(path, durability=durability) as c:
        for x in range(5):
            c.attrs["x"] = x
            c.commit()
        c.flush()
    manifests = sorted((path / "manifest").glob("*.dsm"))
    newest = int(manifests[-1].stem)
    if which == "newest damaged":
        manifests[-1].write_bytes(b"?" + manifests[-1].read_bytes()[1:])
    else:
        for file in manifests[-1 if which == "newest" else -2 :]:
            file.unlink()
    if hint == "removed":
        (path / "manifest/hint").unlink()
    elif hint == "lags":
        number = b"%012d" % (newest - 3)
        (path / "manifest/hint").write_bytes(number + b" %08x" % crc32c(number))
    with pytest.raises(dry.CorruptError, match=r"(stable storage|was flushed).*recover"):
        dry.open(path)
    assert command("verify", path).returncode == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = 2 if which == "two newest" else 3
        with dry.open(path, damaged=True) as c:
            assert c.attrs["x"] == left
        with dry.open(path, "r+") as c:
            with pytest.raises(dry.CorruptError, match="recover"):
                c.attrs["x"] = -1
            assert c.recover(adopt=True).snapshot.version > newest
            assert c.attrs["x"] == left
            c.attrs["x"] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mode in "r", "r+":
            with dry.open(path, mode) as c:
                assert c.attrs["x"] == -1
                assert not c.lost()
    assert command("verify", path).returncode == 0


def test_lost_step_records_and_index_pages_are_damage(path):
    for file in sorted((path / "log").glob("*.idx")):
        kept = file.read_bytes()
        for how in remove, empty:
            how(file)
            done = command("verify", path)
            assert done.returncode == 1, done
            assert file.name in done.stdout, done
            file.write_bytes(kept)
    assert command("verify", path).returncode == 0


def test_lost_index_pages_are_damage(tmp_path):
    path = tmp_path / "p.dry"
    with dry.create(path) as c:
        c.create_variable("v", "f4", (64, 64), steps=True)
        with c.writer() as w:
            for step in range(40):
                with w.step(step):
                    for x in range(64):
                        w.put("v", np.zeros((1, 64), "f4"), offset=(x, 0))
        c.commit()
    pages = list((path / "index").glob("*.dsx"))
    assert pages
    for page in pages:
        page.unlink()
    done = command("verify", path)
    assert done.returncode == 1, done
    assert "index/" in done.stdout, done


def test_what_was_made_in_one_go_is_flushed(tmp_path):
    path = tmp_path / "c.dry"
    with dry.create(path) as c:
        c.create_variable("a", "f4", (8,))
        c["a"][...] = 1
    newest = max(int(p.stem) for p in (path / "manifest").glob("*.dsm"))
    assert (path / "manifest" / f"{newest:012}.mark").exists()
    reboot(path)
    for file in segments(path):
        file.unlink()
    with pytest.warns(dry.DrystoneWarning), dry.open(path) as c, pytest.raises(dry.CorruptError):
        c["a"][...]
    assert command("verify", path).returncode == 1
    np.save(tmp_path / "a.npy", np.arange(4.0))
    assert command("import", tmp_path / "a.npy", tmp_path / "i.dry").returncode == 0
    newest = max(int(p.stem) for p in (tmp_path / "i.dry" / "manifest").glob("*.dsm"))
    assert (tmp_path / "i.dry" / "manifest" / f"{newest:012}.mark").exists()


def made(path, value, **options):
    c = dry.create(path, **options)
    c.create_variable("a", "f4", (4,))
    c["a"][...] = value
    c.commit()
    return c


def files(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def changes(c):
    return {
        "assignment": lambda: (c["a"].__setitem__(..., 2), c.commit()),
        "attribute": lambda: c.attrs.update(x=1),
        "commit": c.commit,
        "refresh": c.refresh,
        "flush": c.flush,
        "writer": c.writer,
        "recover": lambda: c.recover(adopt=True),
        "publish": c.publish,
        "gc": c.gc,
    }


@pytest.mark.parametrize(
    "what",
    ["assignment", "attribute", "commit", "refresh", "flush", "writer", "recover", "publish", "gc"],
)
@pytest.mark.parametrize("how", ["replaced", "removed", "renamed"])
def test_a_container_that_was_replaced_or_removed_is_noticed(tmp_path, what, how):
    """Symptom: an old handle of a container that `create(overwrite=True)` had replaced committed to it: the commit
    returned an invisible snapshot, and manifests and logs of the old container stayed in the new one. Cause: the
    identity was read only once, at opening."""
    path = tmp_path / "r.dry"
    old = made(path, 1)
    if how == "replaced":
        new = made(path, 7, overwrite=True)
        new.close()
        before = files(path)
    elif how == "renamed":
        path.rename(tmp_path / "elsewhere.dry")
    else:
        shutil.rmtree(path)
    kind = dry.ConflictError if how == "replaced" else dry.NotFoundError
    with pytest.raises(kind, match=r"replaced by another|removed or renamed"):
        changes(old)[what]()
    try:
        old.close()
    except kind:
        assert what == "assignment"
    del old
    if how == "replaced":
        assert files(path) == before
        with dry.open(path) as c:
            assert (c["a"][...] == 7).all()
            assert c.verify().damage == []
    elif how == "removed":
        assert not path.exists()


def test_a_writer_notices_at_the_end_of_its_step_and_leaves_nothing(tmp_path):
    path = tmp_path / "w.dry"
    old = made(path, 1)
    w = old.writer()
    step = w.step(0)
    step.__enter__()
    w.put("a", np.ones(4, "f4"))
    made(path, 7, overwrite=True).close()
    before = files(path)
    with pytest.raises(dry.ConflictError, match="replaced"):
        step.__exit__(None, None, None)
    w.close()
    old.close()
    assert files(path) == before
    assert command("verify", path).returncode == 0


def test_a_reader_of_a_replaced_container_never_mixes(tmp_path):
    path = tmp_path / "m.dry"
    old = made(path, 1)
    reader = dry.open(path)
    made(path, 7, overwrite=True).close()
    for c in old, reader:
        with contextlib.suppress(dry.DrystoneError):
            assert (c["a"][...] == 1).all()
    with pytest.raises(dry.ConflictError):
        reader.refresh()


def reads(c):
    v = c["a"]
    return {
        "index": lambda: v[...],
        "points": lambda: v.read_points([[0], [1]]),
        "blocks": v.blocks,
        "block": lambda: v.read_block(None, 0),
        "statistics": lambda: v.statistics(),
        "range": lambda: v.value_range(0, 9),
        "history": lambda: c.snapshots,
        "at": lambda: c.at(3)["a"][...],
        "verify": c.verify,
        "strings": lambda: c["s"][...],
        "planned": lambda: next(iter(v.pieces(np.s_[:], max_bytes=8)))[1],
    }


@pytest.mark.parametrize("what", list(reads(mock.MagicMock())))
@pytest.mark.parametrize("how", ["replaced", "removed", "renamed"])
def test_a_read_names_what_became_of_its_container(tmp_path, what, how):
    """Symptom: a reader whose container was replaced was told that a manifest or a log was damaged. Cause: index pages
    of small commits have the same names in both containers, and a missing log was always taken for damage."""
    path = tmp_path / "r.dry"

    def filled(value, **options):
        with dry.create(path, **options) as c:
            c.create_variable("a", "f4", (4,))
            c.create_variable("s", "str", (2,))
            c["a"][...] = value
            c["s"][...] = ["one", "two"]
            c.commit()

    filled(1)
    reader = dry.open(path)
    if how == "replaced":
        filled(7, overwrite=True)
    elif how == "renamed":
        path.rename(tmp_path / "elsewhere.dry")
    else:
        shutil.rmtree(path)
    kind = dry.ConflictError if how == "replaced" else dry.NotFoundError
    named = pytest.raises(kind, match=r"replaced by another|removed or renamed")
    if what in ("history", "verify") or (what in ("at", "strings") and how != "renamed"):
        with named:
            reads(reader)[what]()
        return
    # Files that were open before may still be read: they hold the values of the old container.
    try:
        got = reads(reader)[what]()
    except dry.DrystoneError as error:
        with named:
            raise error
    if isinstance(got, np.ndarray) and got.dtype.kind == "f":
        assert (got == 1).all()


def test_a_restored_copy_is_the_same_container(tmp_path):
    path = tmp_path / "b.dry"
    c = made(path, 1)
    shutil.copytree(path, tmp_path / "copy")
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "copy", path)
    c.attrs["x"] = 1
    assert dry.open(path).attrs["x"] == 1


def test_another_process_is_noticed_too(tmp_path):
    path = tmp_path / "f.dry"
    old = made(path, 1)
    code = "import sys, drystone as dry\nc = dry.create(sys.argv[1], overwrite=True)\nc.create_variable('z', 'f4', (1,))\nc.close()"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    with pytest.raises(dry.ConflictError, match="replaced"):
        old.attrs["x"] = 1


def test_closed_writers_are_not_called_open(tmp_path):
    path = tmp_path / "i.dry"
    with dry.create(path) as c:
        c.create_variable("t", "f4", (4,), steps=True)
        with c.writer(rank=0, nranks=1) as w, w.step(0):
            w.put("t", np.ones(4, "f4"))
    done = command("info", path)
    assert "1 (1 closed)" in done.stdout, done.stdout


@pytest.mark.parametrize(
    "choice", [{"discard": True}, {"adopt": []}, {"discard": [0]}, {"adopt": [0]}, {"adopt": True}]
)
def test_a_recovery_that_discards_says_which_steps_were_incomplete(tmp_path, choice):
    """The step that one of two ranks had closed was listed among the complete ones that were dropped."""
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("T", "i4", (4,), steps=True)
        writers = [c.writer(rank=rank, nranks=2) for rank in range(2)]
        for step, ranks in ((0, (0, 1)), (1, (0,))):
            for rank in ranks:
                with writers[rank].step(step):
                    writers[rank].put("T", np.full(2, step, "i4"), offset=2 * rank)
        with dry.open(tmp_path / "run.dry", "r+") as other:
            report = other.recover(**choice)
    is_adopted = choice in ({"adopt": [0]}, {"adopt": True})
    assert (report.adopted, report.discarded) == (((0,), ()) if is_adopted else ((), (0,)))
    assert [(one.step, one.missing) for one in report.incomplete] == [(1, (1,))]
