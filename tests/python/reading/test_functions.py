"""Guarantees of functions over tiles: compiled ones by address and capsule, errors with the tile, Dask tasks without
rechunking."""

import ctypes
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from drystone import functions
from drystone.errors import DeadlineError, InvalidArgumentError, UnsupportedError

ROOT = Path(__file__).parents[3]
SHAPE = (14, 18, 22)


@pytest.fixture
def run(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        rng = np.random.default_rng(0)
        c.create_variable("u", data=rng.standard_normal(SHAPE).astype("f4"), dims=("z", "y", "x"))
        c.commit()
        yield c


def view(tile, writable=False):
    """The elements of a tile as a C program sees them."""
    n = tile.ndim
    shape, strides = tuple(tile.shape[:n]), tuple(tile.strides[:n])
    dtype = np.dtype(f"{chr(tile.type >> 8)}{tile.type & 255}")
    last = sum((k - 1) * s for k, s in zip(shape, strides, strict=True)) + dtype.itemsize
    memory = (ctypes.c_char * last).from_address(tile.data)
    return np.ndarray(shape, dtype, memory, strides=strides)


def compiled(body, **more):
    """A function in C's convention. ctypes makes its code; its body is Python, which makes no difference to the
    caller."""

    @functions._CALL
    def call(given, count, made, state):
        return body(given[0], made[0]) or 0

    options = {"in_dtype": "f4", "out_dtype": "f4", "halo": 1, "ndim": 3, **more}
    return dry.function(call, **options)


def smooth(a):
    return (a[1:-1, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1] + a[1:-1, 1:-1, :-2]).astype(a.dtype)


def smoothing(given, made):
    view(made)[...] = smooth(view(given))


def expected(u, edge="edge"):
    return smooth(np.pad(u, 1, mode=edge))


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("form", ["function", "capsule", "address"])
def test_compiled_functions_run_over_tiles(run, form, threads):
    made = compiled(smoothing, thread_safe=threads)
    given = {"function": lambda: made, "capsule": lambda: made.capsule, "address": lambda: address(made)}[
        form
    ]()
    for shape in (None, 5, (4, 18, 7)):
        assert np.array_equal(run["u"].apply(given, shape=shape), expected(run["u"][...]))


def address(made):
    return dry.function(int(made._struct.call), "f4", "f4", 1, ndim=3)


def test_tiles_say_where_they_are(run):
    seen = []

    def note(given, made):
        seen.append((given.step, tuple(given.origin[:3]), tuple(made.origin[:3]), tuple(made.shape[:3])))
        view(made)[...] = 0

    run["u"].apply(compiled(note, halo=(0, 1, 2)), shape=(10, 18, 22))
    assert seen == [(-1, (0, -1, -2), (0, 0, 0), (10, 18, 22)), (-1, (10, -1, -2), (10, 0, 0), (4, 18, 22))]


def test_errors_name_the_tile(run):
    def fails(given, made):
        text = b"a cell is below the ground\0"
        ctypes.memmove(made.message, text, min(len(text), made.message_size))
        return 7 if given.origin[0] > 0 else smoothing(given, made)

    with pytest.raises(
        dry.FunctionError, match=r"returned 7 for the tile \[7:14, 0:18, 0:22\]: a cell is below"
    ):
        run["u"].apply(compiled(fails), shape=(7, 18, 22))

    def too_far(given, made):
        smoothing(given, made)
        ctypes.memset(made.data + int(np.prod(made.shape[:3])) * 4, 0, 8)

    with pytest.raises(dry.FunctionError, match=r"outside its tile \[0:7"):
        run["u"].apply(compiled(too_far), shape=(7, 18, 22))
    with pytest.raises(InvalidArgumentError, match=r"shape \(2, 2\) for the tile \[0:14"):
        run["u"].apply(lambda tile: np.zeros((2, 2)))
    with pytest.raises(InvalidArgumentError, match=r"gave complex64 for the tile \[0:14"):
        run["u"].apply(lambda tile: tile * 1j, dtype="f4")
    assert not run.verify().damage


def test_a_function_that_hangs_meets_its_deadline(run):
    begun = time.monotonic()
    with pytest.raises(DeadlineError, match=r"0.2 s for the tile \[0:14, 0:18, 0:22\]"):
        run["u"].apply(lambda tile: time.sleep(5), deadline=0.2)
    assert time.monotonic() - begun < 4
    assert np.array_equal(run["u"].apply(lambda tile: tile, deadline=60), run["u"][...])


def test_what_does_not_fit_is_refused_before_a_call(run):
    def never(given, made):
        raise AssertionError

    for wrong in (compiled(never, in_dtype="f8"), compiled(never, ndim=2)):
        with pytest.raises(InvalidArgumentError, match="the function reads"):
            run["u"].apply(wrong)
    with pytest.raises(InvalidArgumentError, match="declares"):
        run["u"].apply(compiled(never), halo=2)
    for bad in ({"ndim": 9}, {"ndim": 0}, {"halo": -1}):
        with pytest.raises(InvalidArgumentError):
            compiled(never, **bad)
    with pytest.raises(UnsupportedError):
        compiled(never, in_dtype="c8")
    with pytest.raises(InvalidArgumentError, match="address"):
        dry.function(0, "f4", "f4", ndim=3)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    made = compiled(never)
    with pytest.raises(InvalidArgumentError, match="drystone_function"):
        run["u"].apply(new(ctypes.addressof(made._struct), b"other", None))
    made._struct.version = 2
    with pytest.raises(UnsupportedError, match="version 2"):
        run["u"].apply(made.capsule)
    made._struct.version, made._struct.struct_size = 1, 8
    with pytest.raises(InvalidArgumentError, match="8 bytes"):
        run["u"].apply(made.capsule)


GUARDED = """
import ctypes, mmap, sys
import numpy as np
from drystone import functions

libc = ctypes.CDLL(None, use_errno=True)
page = mmap.PAGESIZE
memory = mmap.mmap(-1, 5 * page)
first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for at in (0, 2, 4):
    assert libc.mprotect(ctypes.c_void_p(first + at * page), page, 0) == 0
reads = np.ndarray((8, 16), "f4", (ctypes.c_char * page).from_address(first + page), offset=page - 512)
writes = np.ndarray((8, 16), "f4", (ctypes.c_char * page).from_address(first + 3 * page), offset=page - 512)
lib = ctypes.CDLL(sys.argv[1])
given, kept = functions._tile(reads, None, (0, 0), None)
made, also = functions._tile(writes, None, (0, 0), ctypes.create_string_buffer(512))
call = functions._CALL((sys.argv[2], lib))
assert call(ctypes.byref(given), 1, ctypes.byref(made), None) == 0
"""

SOURCE = """
#include "drystone_function.h"
int doubled(const struct drystone_tile *in, size_t n, struct drystone_tile *out, void *state) {
    (void)n; (void)state;
    for (uint64_t y = 0; y < out->shape[0]; y++)
        for (uint64_t x = 0; x < out->shape[1]; x++)
            *(float *)((char *)out->data + y * out->strides[0] + x * out->strides[1]) =
                2 * *(const float *)((const char *)in->data + y * in->strides[0] + x * in->strides[1]);
    return 0;
}
int beyond(const struct drystone_tile *in, size_t n, struct drystone_tile *out, void *state) {
    ((float *)out->data)[out->shape[0] * out->shape[1]] = 1;
    return doubled(in, n, out, state);
}
"""


def test_guard_pages_tell_a_function_that_leaves_its_tile(tmp_path):
    """The tile ends at a page without access: a function that stays inside its tile returns, one that leaves it is
    killed."""
    source, library = tmp_path / "f.c", tmp_path / "f.so"
    source.write_text(SOURCE)
    include = ROOT / "crates/capi/include"
    command = [
        "cc",
        "-std=c11",
        "-Wall",
        "-Werror",
        "-O1",
        "-shared",
        "-fPIC",
        f"-I{include}",
        source,
        "-o",
        library,
    ]
    subprocess.run(command, check=True)
    for name, ends_well in (("doubled", True), ("beyond", False)):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(GUARDED), library, name], capture_output=True
        )
        assert (done.returncode == 0) == ends_well, done.stderr.decode()
    doubled = dry.function(ctypes.CDLL(str(library)).doubled, "f4", "f4", ndim=2, thread_safe=True)
    with dry.create(tmp_path / "c.dry") as c:
        values = np.arange(600, dtype="f4").reshape(20, 30)
        c.create_variable("t", data=values)
        c.commit()
        assert np.array_equal(c["t"].apply(doubled, shape=(7, 11)), 2 * values)


def test_dask_has_one_task_per_tile_and_rechunks_nothing(run):
    array = run["u"].apply(compiled(smoothing), shape=(7, 9, 22), lazy=True)
    assert array.chunks == ((7, 7), (9, 9), (22,))
    assert len(array.__dask_graph__()) == 4
    assert np.array_equal(array.compute(scheduler="threads"), expected(run["u"][...]))
    assert np.array_equal(array[3:9].compute(scheduler="sync"), expected(run["u"][...])[3:9])
    run.create_variable("t", "f4", SHAPE, steps=True)
    with run.writer(rank=0, nranks=1) as w:
        for step in range(2):
            with w.step():
                w.put("t", run["u"][...] + np.float32(step))
    run.refresh()
    lazy = run["t"].apply(smooth, halo=1, shape=9, lazy=True)
    assert lazy.chunks[0] == (1, 1)
    assert np.array_equal(lazy[1].compute(scheduler="sync"), expected(run["t"][1]))
    with pytest.raises(InvalidArgumentError, match="dtype="):
        run["u"].apply(lambda tile: tile.astype("f8"), lazy=True).compute(scheduler="sync")
