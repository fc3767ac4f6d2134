"""Blocks that are contiguous in the caller's memory are read in place, several per call, correctly and verified."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

BLOCK, WRITERS, TURNS = 11 * 1024 + 5, 2, 40


def interleaved(path: Path, kind: str = "f4") -> np.ndarray:
    """Two writers alternate with the blocks of one array."""
    total = BLOCK * WRITERS * TURNS
    expected = np.random.default_rng(5).integers(0, 200, total).astype(kind)
    with dry.create(path) as c:
        c.create_variable("x", kind, (total,), steps=True)
    with dry.open(path, "r+") as c:
        for rank in range(WRITERS):
            with c.writer(rank=rank, nranks=WRITERS) as w, w.step(0):
                for turn in range(TURNS):
                    at = (turn * WRITERS + rank) * BLOCK
                    w.put("x", expected[at : at + BLOCK], offset=(at,))
        c.commit()
    return expected


@pytest.mark.parametrize("kind", ["u1", "f4"])
def test_runs_of_any_length_hold_what_was_written(tmp_path: Path, kind: str) -> None:
    expected = interleaved(tmp_path / "c", kind)
    edges = np.random.default_rng(6).integers(0, expected.size, 60)
    with dry.open(tmp_path / "c") as c:
        x = c["x"]
        assert np.array_equal(x[0], expected)
        for a, b in pairwise(edges.tolist()):
            low, high = min(a, b), max(a, b) + 1
            guarded = np.full(high - low + 64, 77, kind)
            x.read(0, (low,), (high - low,), out=guarded[32:-32])
            assert np.array_equal(guarded[32:-32], expected[low:high]), (low, high)
            assert (guarded[:32] == 77).all(), "before what was asked for"
            assert (guarded[-32:] == 77).all(), "behind it"
            assert np.array_equal(x[0, high - 1 : low : -1], expected[high - 1 : low : -1])


def test_a_flipped_bit_of_any_piece_or_of_its_checks_fails_the_read_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c"
    expected = interleaved(path)
    with dry.open(path) as c:
        places = [block.place for block in c["x"].blocks(0)]
    first, last = places[3], places[-1]
    for key, at, end in (first, last):
        segment = path / key
        whole = segment.read_bytes()
        for byte in (at, (at + end) // 2, at + BLOCK * 4 - 1, end - 1):
            damaged = bytearray(whole)
            damaged[byte] ^= 16
            segment.write_bytes(damaged)
            with dry.open(path) as c, pytest.raises(dry.CorruptError, match=f"{key} is damaged at byte"):
                c["x"][0]
        segment.write_bytes(whole)
        with dry.open(path) as c:
            os.truncate(segment, at + 10)
            with pytest.raises(dry.DrystoneError, match=key):
                c["x"][0]
        segment.write_bytes(whole)
    with dry.open(path) as c:
        assert np.array_equal(c["x"][0], expected)


def test_a_run_is_read_in_few_calls_of_no_more_bytes_than_are_stored(tmp_path: Path) -> None:
    expected = interleaved(tmp_path / "c")

    def done() -> tuple[int, int]:
        found = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(found["syscr"]), int(found["rchar"])

    if not Path("/proc/self/io").exists():
        pytest.skip("this system does not count calls")
    with dry.open(tmp_path / "c") as c:
        out = np.empty_like(expected)
        c["x"].read(0, (0,), out.shape, out=out)
        calls, bytes_ = done()
        c["x"].read(0, (0,), out.shape, out=out)
        after = done()
    assert after[0] - calls <= 40, "80 blocks of 45 KiB"
    assert after[1] - bytes_ < expected.nbytes * 1.01 + 4096
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", [("x", "f8"), ("n", "i8", (2,))]])
def test_large_arrays_that_reading_makes_begin_at_a_line_and_hold_rows_of_whole_lines(
    tmp_path: Path, dtype: object
) -> None:
    shape = (160, 96, 320 // np.dtype(dtype).itemsize * 3)
    values = np.frombuffer(np.random.default_rng(1).bytes(np.prod(shape) * np.dtype(dtype).itemsize), "u1")
    values = (values & 63).view(dtype).reshape(shape)
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("a", dtype, shape, chunks=(32, 24, 64))
        with c.writer(rank=0, nranks=1) as w:
            w.put("a", values)
        c.commit()
        for key in (..., slice(3, 155), (slice(None), slice(1, 95), slice(None, None, -1))):
            found = c["a"][key]
            assert found.nbytes >= 4 << 20
            assert found.ctypes.data % 64 == 0
            assert found.flags.c_contiguous
            assert found.flags.writeable
            assert found.tobytes() == np.ascontiguousarray(values[key]).tobytes()


def test_the_plan_says_how_threads_carry_it_out(path, monkeypatch):
    """Symptom: the executor chose threads, groups and mode by itself, and differed from the printed plan."""
    with dry.create(path) as c:
        c.create_variable("T", "f4", (64, 1024, 1024), chunks=(1, 1024, 1024))
        c.create_variable("z", "f4", (8, 64, 64), chunks=(1, 64, 64), transform="zstd:1")
        with c.writer(rank=0, nranks=1) as w:
            w.put("T", np.zeros((64, 1024, 1024), "f4"))
            w.put("z", np.zeros((8, 64, 64), "f4"))
    with dry.open(path) as c:
        few, many = str(c["T"].explain[0, :8]), str(c["T"].explain[...])
        small = str(c["z"].explain[...])
        assert "\n1 thread, 1 group of requests, raw cells by requests\n" in few
        assert "\n1 thread, 1 group of requests, " in small
        said = re.search(
            r"\n(\d+) threads?, (\d+) groups of requests, raw cells (by requests|from mappings)\n", many
        )
        assert said
        assert int(said[1]) <= 8
        assert int(said[2]) >= 64
        assert str(c["T"].explain[...]) == many, "explaining is no read"


def test_opening_reads_identity_hint_and_manifest_once_each(tmp_path: Path) -> None:
    """The identity is checked once, by the store's watch. Symptom: opening took 9 calls, 5 of them for the watch."""
    if not Path("/proc/self/io").exists():
        pytest.skip("this system does not count calls")

    def calls() -> int:
        found = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(found["syscr"])

    with dry.create(tmp_path / "c") as c:
        c["x"] = np.arange(10.0)
    dry.open(tmp_path / "c").close()
    begun = calls()
    own = calls() - begun
    begun = calls()
    with dry.open(tmp_path / "c") as c:
        taken = calls() - begun - own
        assert np.array_equal(c["x"][:], np.arange(10.0))
    assert taken <= 3, taken
