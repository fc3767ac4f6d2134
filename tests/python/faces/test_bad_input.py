"""Each mistake gets an error that tells what to do, and nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from same_bits import commits_by_itself, same


def test_a_missing_path_is_not_found(tmp_path):
    for mode in ("r", "r+"):
        with pytest.raises(dry.NotFoundError, match="nothing at"):
            dry.open(tmp_path / "no.dry", mode)


def test_a_path_without_a_container_is_not_found(tmp_path):
    with pytest.raises(dry.NotFoundError, match="not a container"):
        dry.open(tmp_path)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(dry.NotFoundError, match="a file"):
        dry.open(file)


def test_a_newer_format_is_unsupported(path):
    dry.create(path).close()
    identity = path / "drystone.json"
    head = identity.read_text().split('"crc32c"')[0].replace('"version": 1', '"version": 9')
    identity.write_text(f'{head}"crc32c": "{_crc32c(head.encode()):08x}"\n}}\n')
    with pytest.raises(dry.UnsupportedError, match="version 9"):
        dry.open(path)


def _crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("url", ["ftp://bucket/run.dry", "ceph://pool/x"])
def test_schemes_that_are_not_built_in_are_refused(url):
    with pytest.raises(dry.UnsupportedError, match="not built in; there are: s3"):
        dry.open(url)


@pytest.mark.parametrize("mode", ["w", "rw", "", "x"])
def test_modes_are_r_rplus_and_a(path, mode):
    dry.create(path).close()
    with pytest.raises(dry.InvalidArgumentError, match=r"mode|create\(\)"):
        dry.open(path, mode)


def test_mode_a_creates_what_is_not_there(path):
    with dry.open(path, "a") as c:
        c.create_variable("v", "f4")
    with dry.open(path, "a") as c:
        assert "v" in c


@pytest.mark.parametrize("durability", ["", "none", "Durable"])
def test_durability_is_one_of_three(path, durability):
    with pytest.raises(dry.InvalidArgumentError, match="durable"):
        dry.create(path, durability=durability)


@pytest.mark.parametrize("durability", ["async", "durable", "memory"])
def test_durability_is_recorded(path, durability):
    dry.create(path, durability=durability).close()
    with dry.open(path) as c:
        assert c.durability == durability


def test_create_does_not_touch_what_is_there(path):
    with dry.create(path) as c:
        c.create_variable("v", "f4")
        uuid = c.uuid
    with pytest.raises(dry.ConflictError, match="already"):
        dry.create(path)
    with dry.open(path) as c:
        assert c.uuid == uuid
    file = path.parent / "file"
    file.write_text("precious")
    for overwrite in (False, True):
        with pytest.raises(dry.ConflictError):
            dry.create(file, overwrite=overwrite)
    assert file.read_text() == "precious"


def test_overwrite_replaces_a_container_and_nothing_else(path):
    with dry.create(path) as c:
        c.create_variable("v", "f4", shape=(3,))
        with c.writer() as w:
            w.put("v", np.ones(3, "f4"))
    (path / "notes.txt").write_text("precious")
    with dry.create(path, overwrite=True) as c:
        assert list(c) == []
    assert (path / "notes.txt").read_text() == "precious"
    other = path.parent / "data"
    other.mkdir()
    (other / "x").write_text("precious")
    with pytest.raises(dry.ConflictError, match="not a container"):
        dry.create(other, overwrite=True)
    dry.create(path.parent / "new" / "deep.dry", overwrite=True).close()


def test_an_unknown_variable_is_a_key_error_with_a_suggestion(container):
    container.create_variable("temperature", "f4")
    with pytest.raises(KeyError, match='did you mean "temperature"') as refused:
        container["temprature"]
    assert not str(refused.value).startswith("'")
    with container.writer() as w, pytest.raises(dry.NotFoundError, match="did you mean"):
        w.put("temperatur", 1.0)
    with pytest.raises(dry.InvalidArgumentError, match="string"):
        container[3]


@pytest.mark.parametrize(
    ("shape", "offset", "why"),
    [
        ((2, 2), (3, 0), "leaves"), ((5, 4), None, "leaves"), ((2,), (0, 0), "dimensions"), ((2, 2), (0,), "offset"),
        ((2, 2), (-1, 0), "offset"), ((2, 2), (0.5, 0), "offset"), ((2, 2), "ab", "offset"), ((2, 2), (2**63, 0), "offset"),
        ((2, 2), (0, 2**62), "leaves"), ((2, 2), object(), "offset"),
    ],
)  # fmt: skip
def test_a_block_that_does_not_fit_is_refused(container, shape, offset, why):
    V = container.create_variable("v", "f4", shape=(4, 4))
    with container.writer() as w:
        with pytest.raises(dry.InvalidArgumentError, match=why):
            w.put("v", np.zeros(shape, "f4"), offset=offset)
        w.put("v", np.ones((4, 4), "f4"))
    same(V[...], np.ones((4, 4), "f4"))


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"offset": (0, 3), "count": (1, 2)}, IndexError), ({"offset": (5, 0)}, IndexError), ({"count": (1,)}, ValueError),
        ({"offset": (-1, 0)}, ValueError), ({"step": 0}, ValueError), ({"count": (2**62, 2**62)}, IndexError),
    ],
)  # fmt: skip
def test_a_box_outside_is_refused(container, arguments, kind):
    V = container.create_variable("v", "f4", shape=(4, 4))
    with pytest.raises(kind) as refused:
        V.read(**arguments)
    assert isinstance(refused.value, dry.InvalidArgumentError)


def test_arguments_of_other_kinds_get_an_error(container):
    """Symptom: internal errors of Python or NumPy: no attribute 'items', cannot reshape, int too big."""
    V = container.create_variable("v", "i4", shape=(3,))
    for key in (True, False, (True, ...), (slice(None), False)):
        with pytest.raises(dry.InvalidArgumentError, match="pieces takes integers, slices"):
            list(V.pieces(key))
    assert [piece.shape for _, piece in V.pieces(..., max_bytes=2**70)] == [(3,)]
    for wrong in ("ab", 3, [1]):
        for act in (
            lambda wrong=wrong: container.create_variable("w", "i4", attrs=wrong),
            lambda wrong=wrong: container.create_group("g", wrong),
            lambda wrong=wrong: container.publish(chunks=wrong),
        ):
            with pytest.raises(dry.InvalidArgumentError, match=r"(attrs|chunks) is a mapping by name, not"):
                act()
    assert [*container] == ["v"]


def test_steps_that_are_not_there_are_refused(container):
    T = container.create_variable("T", "f4", shape=(2,), steps=True)
    with pytest.raises(IndexError):
        T[0]
    with pytest.raises(IndexError):
        T.read(step=0)
    with commits_by_itself(container) as w, w.step(1):
        w.put("T", np.zeros(2, "f4"))
    with pytest.raises(dry.InvalidArgumentError, match="has steps"):
        T.read()
    with pytest.raises(IndexError):
        T.read(step=2)
    with pytest.raises(dry.NotFoundError, match="no step 0"):
        T.blocks(0)
    with pytest.raises(dry.NotFoundError):
        T.read_block(1, 1)
    with pytest.raises(dry.InvalidArgumentError):
        T.read_block(1, -1)
    with pytest.raises(dry.InvalidArgumentError):
        T.read_block(None, 0)


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ("i4", np.array([1, 2**40])),
        ("i8", np.array([1, 2**63], "u8")),
        ("f4", np.array([1.0, 1e300])),
        ("f2", np.array([1.0, 70000.0], "f4")),
        ("c8", np.array([1.0, 1e300j])),
        ("f8", np.array([1, 2**53 + 1])),
        ("S2", np.array([b"ab", b"abc"])),
        ("U2", np.array(["ab", "abc"])),
        ("f8", np.ma.array([1.0, 2.0], mask=[False, True])),
    ],
)
def test_assigned_arrays_of_other_types_that_would_change_are_refused(container, stored, value):
    # Symptom: integers overflowed, texts were truncated, floats became infinite, and masked values became visible.
    V = container.create_variable("assigned", stored, (2,))
    V[...] = value[:1].data
    with pytest.raises(dry.InvalidArgumentError, match=r"the value would change|is masked"):
        V[...] = value
    assert V[0] == value[0]


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ("i4", np.array([-(2**31), 2**31 - 1])),
        ("f4", np.array([0.1, np.inf])),
        ("f8", np.array([2**53, 3])),
        ("c8", np.array([0.1, np.nan])),
        ("S2", np.array([b"ab\0\0", b"a"], "S4")),
        ("U2", np.array(["ab", ""], "U7")),
        ("f8", np.ma.array([1.0, 2.0], mask=False)),
    ],
)
def test_assigned_arrays_of_other_types_that_fit_are_stored(container, stored, value):
    V = container.create_variable("assigned", stored, (2,))
    V[...] = value
    np.testing.assert_array_equal(V[...], value.astype(stored))


def test_a_masked_array_is_refused_because_its_mask_would_be_lost(container):
    V = container.create_variable("v", "f4", shape=(2,))
    with container.writer() as w:
        with pytest.raises(dry.InvalidArgumentError, match="filled"):
            w.put("v", np.ma.array(np.ones(2, "f4"), mask=[0, 1]))
        w.put("v", np.ma.array(np.ones(2, "f4")))
    same(V[...], np.ones(2, "f4"))


def test_an_array_of_another_library_may_call_something_its_mask(container):
    class Array:
        _mask = np.array([True, False])

        def __array__(self, dtype=None, copy=None):
            return np.arange(2, dtype="f4")

    V = container.create_variable("v", "f4", shape=(2,))
    with container.writer() as w:
        w.put("v", Array())
    same(V[...], np.arange(2, dtype="f4"))


def test_writing_does_not_import_masked_arrays(path):
    """Runs in a separate program: this one may have imported them already."""
    code = """if True:
        import sys
        import drystone as dry, numpy as np
        with dry.create(sys.argv[1]) as c:
            v = c.create_variable("v", "f4", (2,))
            v[...] = np.ones(2, "f4")
            with c.writer() as w:
                w.put("v", np.ones(2, "f4"))
        assert "numpy.ma" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code, path], check=True)


def test_a_closed_container_is_not_entered_again(container):
    container.close()
    container.close()
    with pytest.raises(dry.InvalidArgumentError, match="is closed"), container:
        pass


def test_a_container_open_for_reading_cannot_be_changed(path):
    with dry.create(path) as c:
        c.create_variable("v", "f4", shape=(2,))
    with dry.open(path) as c:
        assert c.mode == "r"
        for act in (lambda: c.writer(), lambda: c.commit(), lambda: c.create_variable("w", "f4"), lambda: c.attrs.update(a=1), lambda: c.recover(),
                    lambda: c.flush(), lambda: c["v"].resize((3,)), lambda: c.delete("v")):  # fmt: skip
            with pytest.raises(dry.InvalidArgumentError, match=r'reading only.*"r\+"'):
                act()


def test_damage_is_a_corrupt_error_that_names_file_and_variable(path):
    with dry.create(path) as c:
        c.create_variable("v", "f4", shape=(1000,))
        c.create_variable("w", "f4", shape=(1000,))
        for name in ("v", "w"):
            with c.writer() as w:
                w.put(name, np.arange(1000, dtype="f4"))
        (first,) = c["v"].blocks()
        segment = path / "log" / f"{first.writer:016x}-0000.seg"
    raw = bytearray(segment.read_bytes())
    raw[-2000] ^= 16
    segment.write_bytes(raw)
    with dry.open(path) as c:
        with pytest.raises(dry.CorruptError, match=rf'{segment.name} is damaged at byte \d+.*"v"'):
            c["v"][...]
        same(c["w"][...], np.arange(1000, dtype="f4"))
        report = c.verify()
        assert not report
        assert not report.ok
        (damage,) = report.damage
        assert damage.variable == "v"
        assert segment.name in damage.key
        assert segment.name in str(damage)


def test_verify_reports_progress_and_can_be_stopped(container, capsys):
    container.create_variable("v", "f4", shape=(300,))
    with container.writer() as w:
        for i in range(300):
            w.put("v", [i], offset=i)
    seen = []
    report = container.verify(lambda done, total: seen.append((done, total)))
    assert report.ok
    assert bool(report)
    assert report.entries == 300
    assert seen[-1] == (300, 300)
    with pytest.raises(dry.CancelledError):
        container.verify(lambda done, total: False)

    def fail(done, total):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        container.verify(fail)
    container.verify(progress=True)
    assert "300 of 300" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_an_io_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(dry.IoError):
        dry.create(tmp_path / "run.dry")


def test_a_file_in_the_way_of_the_folder_is_an_io_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises((dry.IoError, dry.ConflictError)):
        dry.create(tmp_path / "file" / "run.dry")


def test_closing_a_writer_with_an_open_step_drops_it_and_says_so(container):
    T = container.create_variable("T", "f4", shape=(1,), steps=True)
    w = container.writer(rank=0, nranks=1)
    w.step().__enter__()
    w.put("T", [1.0])
    with pytest.raises(dry.InvalidArgumentError, match="step 0 open"):
        w.close()
    assert T.shape == (0, 1)


def test_paths_that_are_not_utf8_are_refused(tmp_path):
    bad = tmp_path / os.fsdecode(b"\xff.dry")
    for act in (dry.create, dry.open, dry.catalog):
        with pytest.raises(dry.InvalidArgumentError, match="it is not UTF-8"):
            act(bad)
    with pytest.raises(dry.InvalidArgumentError, match="it is not UTF-8"):
        dry.create(tmp_path / "x.dry", targets=[bad])
    assert list(tmp_path.iterdir()) == []


def test_overwrite_leaves_what_others_have_put_into_the_published_hierarchy(path):
    """Everything in `zarr/` was removed, also arrays that `publish` leaves alone."""
    with dry.create(path) as c:
        c["g/a"], c["b"] = np.arange(4.0), np.float64(1)
        c.publish(progress=None)
    mine = path / "zarr" / "mine.zarr"
    (mine / "c").mkdir(parents=True)
    (mine / "zarr.json").write_text('{"zarr_format": 3, "node_type": "array", "attributes": {}}')
    (mine / "c" / "0").write_bytes(b"mine")
    (path / "zarr" / "g" / "notes.txt").write_text("mine")
    dry.create(path, overwrite=True).close()
    left = sorted(str(p.relative_to(path / "zarr")) for p in (path / "zarr").rglob("*") if p.is_file())
    assert left == ["g/notes.txt", "mine.zarr/c/0", "mine.zarr/zarr.json"]
    with dry.open(path, "r+") as c:
        c["g/a"] = np.ones(3)
        c.publish(progress=None)
    assert (mine / "c" / "0").read_bytes() == b"mine"
    with dry.create(path, overwrite=True) as c:
        c["g/a"] = np.ones(2)
    assert (mine / "zarr.json").exists()


def test_overwrite_removes_the_byte_files_and_parity_of_the_container(path):
    """They stayed, and a mount of the new container took them for damage."""
    dry.create(path).close()
    own = [
        "files/000000000001.jnl",
        "files/000000000001.claim",
        "files/1b25e2c4-00000000.dat",
        "files/1b25e2c4.mount",
    ]
    own.append("parity/000000000003-0123abcd-0123abcd.json")
    for name in [*own, "files/notes.txt"]:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("x")
    dry.create(path, overwrite=True).close()
    assert not any((path / name).exists() for name in own)
    assert (path / "files" / "notes.txt").exists()
    assert not (path / "parity").exists()
    (path / "parity").write_text("precious")
    dry.create(path, overwrite=True).close()
    assert (path / "parity").read_text() == "precious"


def test_removing_a_container_without_permission_is_a_permission_error(path, monkeypatch):
    dry.create(path).close()

    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(dry.PermissionError, match="removing the container"):
        dry.create(path, overwrite=True)
