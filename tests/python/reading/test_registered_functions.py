"""Derived variables that call registered functions: computed by the process that commits or reads, stored or not."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drystone as dry
import netCDF4
import numpy as np
import numpy.typing as npt
import pytest
from drystone import functions
from drystone.errors import DeadlineError, InvalidArgumentError, NotFoundError
from server_rig import served

SHAPE = (14, 18, 22)
STEPS = 3
PAD = {"one_sided": "edge", "periodic": "wrap"}


def view(tile: Any) -> npt.NDArray[Any]:
    """The elements of a tile as a C program sees them."""
    shape, strides = tuple(tile.shape[: tile.ndim]), tuple(tile.strides[: tile.ndim])
    dtype = np.dtype(f"{chr(tile.type >> 8)}{tile.type & 255}")
    last = sum((k - 1) * s for k, s in zip(shape, strides, strict=True)) + dtype.itemsize
    return np.ndarray(shape, dtype, (ctypes.c_char * last).from_address(tile.data), strides=strides)


def register(name: str, body: Callable[[Any, Any], int | None], *, deadline: float = 10, **more: Any) -> None:
    """Registers a body in Python, behind an address as C has it."""

    @functions._CALL
    def call(given: Any, count: int, made: Any, state: int) -> int:
        return body(given[0], made[0]) or 0

    options: dict[str, Any] = {"in_dtype": "f4", "out_dtype": "f8", "halo": 1, "ndim": 3, **more}
    dry.function(call, **options).register(name, deadline=deadline)


def neighbours(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return a[1:-1, 1:-1, 1:-1].astype("f8") + 10.0 * a[2:, 1:-1, 1:-1] + 100.0 * a[1:-1, :-2, 1:-1]


def stencil(given: Any, made: Any) -> None:
    view(made)[...] = neighbours(view(given))


def values(step: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(step).integers(0, 1000, SHAPE).astype("f4")


@pytest.fixture
def run(tmp_path: Path) -> dry.Container:
    """Steps of `u` in four blocks of two writers; the function is registered."""
    register("stencil", stencil)
    c = dry.create(tmp_path / "run.dry")
    c.create_variable("u", "f4", shape=SHAPE, steps=True, dims=("z", "y", "x"))
    for step in range(STEPS):
        write(c, step)
    return c


def write(c: dry.Container, step: int) -> None:
    for rank in range(2):
        with c.writer(rank=rank, nranks=2) as w, w.step(step):
            for y in (0, 9):
                part = np.s_[7 * rank : 7 * rank + 7, y : y + 9]
                w.put("u", values(step)[part], offset=(7 * rank, y, 0))
    c.commit()


@pytest.mark.parametrize("edge", ["one_sided", "fill", "periodic", "nan"])
@pytest.mark.parametrize("kind", ["virtual", "bounds", "stored"])
def test_values_are_those_of_the_function_on_the_whole_array(
    run: dry.Container, kind: str, edge: str
) -> None:
    v = run.derive("v", "apply(stencil, u, f8, 1)", kind=kind, edge=edge)
    assert (v.dtype, v.shape, tuple(v.dims)) == (np.dtype("f8"), (STEPS, *SHAPE), ("z", "y", "x"))
    write(run, STEPS)
    if kind != "virtual":
        run.store_derived()
    for step in range(STEPS + 1):
        padded = np.pad(values(step), 1, mode=PAD[edge]) if edge in PAD else np.pad(values(step), 1)
        expected = neighbours(padded)
        if edge == "nan":
            for axis in range(3):
                np.moveaxis(expected, axis, 0)[[0, -1]] = np.nan
        np.testing.assert_array_equal(run["v"][step], expected)
        np.testing.assert_array_equal(run["v"][step, 3:9, ::4, -1], expected[3:9, ::4, -1])
    if edge != "nan":
        top = float(expected.max())
        assert run.query(f"v >= {top!r}").count() == sum(
            int((run["v"][s] >= top).sum()) for s in range(STEPS + 1)
        )


def test_calls_are_parts_of_expressions_and_of_other_derived_variables(run: dry.Container) -> None:
    run.derive("stencil", "apply(stencil, f4(u * 2), f8, 1) - u")
    run.derive("slope", "diff(stencil, x)")
    run.derive("again", "apply(stencil, f4(stencil), f8, 1)")
    u = values(1)
    expected = neighbours(np.pad(u * 2, 1, mode="edge")) - u
    np.testing.assert_array_equal(run["stencil"][1], expected)
    np.testing.assert_array_equal(run["slope"][1], np.gradient(expected, axis=2))
    np.testing.assert_array_equal(
        run["again"][1, 2:5], neighbours(np.pad(expected.astype("f4"), 1, mode="edge"))[2:5]
    )
    assert run["stencil"].derived.inputs == {"u": "u"}


def test_values_are_known_where_all_cells_of_the_halo_are(run: dry.Container) -> None:
    with run.writer() as w, w.step(STEPS):
        w.put("u", values(0)[:7], offset=(0, 0, 0))
    run.commit()
    run.derive("v", "apply(stencil, u, f8, 1)", kind="stored")
    run.store_derived()
    expected = neighbours(np.pad(values(0), 1, mode="edge"))
    found = run["v"][STEPS]
    np.testing.assert_array_equal(found[:6], expected[:6])
    assert np.isnan(found[6:]).all()


ELSEWHERE = """
    import sys
    import drystone as dry
    import numpy as np
    with dry.open(sys.argv[1], "r+") as c:
        print(float(c["kept"][0].sum()))
        try:
            c["v"][0]
        except dry.errors.NotFoundError as error:
            print(error)
        with c.writer() as w, w.step():
            w.put("u", np.ones(c["u"].shape[1:], "f4"))
        print("\\n".join(c.commit().notes))
        print(c["twice"].derived.kind, float(c["twice"][-1].sum()))
"""


def test_a_process_without_the_function_reads_what_is_stored_and_commits(
    run: dry.Container, tmp_path: Path
) -> None:
    run.derive("kept", "apply(stencil, u, f8, 1)", kind="stored")
    run.derive("v", "apply(stencil, u, f8, 1)")
    run.derive("twice", "u * 2", kind="stored")
    run.store_derived()
    total = float(run["kept"][0].sum())
    run.close()
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(ELSEWHERE), str(tmp_path / "run.dry")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, error, *notes, last = done.stdout.splitlines()
    assert float(first) == total
    assert 'no function "stencil"' in error
    assert "register" in error
    assert len(notes) == 1
    assert notes[0].startswith('values of "kept" were not stored, reads compute them')
    assert last == f"stored {2.0 * np.prod(SHAPE)}"
    with dry.open(tmp_path / "run.dry", "r+") as c:
        assert c["kept"][-1, 0, 0, 0] == 111
        assert c.store_derived().cells == np.prod(SHAPE)
        assert not c.verify().damage


LEFT_OUT = """
    import sys, warnings
    import drystone as dry
    import numpy as np
    import xarray as xr
    from drystone.interchange.exporting import export
    with dry.open(sys.argv[1], "r+") as c:
        np.save(sys.argv[2] + "/kept.npy", c["kept"][...])
        np.save(sys.argv[2] + "/part.npy", c["kept"][0, :9, ::-2, 3])
        np.save(sys.argv[2] + "/on_kept.npy", c["on_kept"][...])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = xr.open_dataset(c, engine="drystone")
            export(c, sys.argv[2] + "/out.nc")
            c.publish()
        print(sorted(found.data_vars))
        print("\\n".join(str(one.message) for one in caught))
"""


def test_a_process_without_the_function_shares_all_that_it_can_read(
    run: dry.Container, tmp_path: Path
) -> None:
    """The edges of `kept` have no values, so they are not stored; no call is needed to know that."""
    run.derive("kept", "apply(stencil, u, f8, 1) - u", kind="stored", edge="nan")
    run.derive("v", "apply(stencil, u, f8, 1)")
    run.derive("on_v", "v + 1")
    run.derive("on_kept", "diff(kept, y, 1) * 2")
    run.store_derived()
    expected, on_kept = run["kept"][...], run["on_kept"][...]
    assert np.isnan(expected).any()
    run.close()
    command = [sys.executable, "-c", textwrap.dedent(LEFT_OUT), str(tmp_path / "run.dry"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *notes = done.stdout.splitlines()
    assert first == "['kept', 'on_kept', 'u']"
    for name in ("v", "on_v"):
        said = [note for note in notes if f'"{name}"' in note or f" {name}:" in note]
        assert len(said) >= 2, notes
        assert all('calls function "stencil", which is not registered' in note for note in said)
    np.testing.assert_array_equal(np.load(tmp_path / "kept.npy"), expected)
    np.testing.assert_array_equal(np.load(tmp_path / "part.npy"), expected[0, :9, ::-2, 3])
    np.testing.assert_array_equal(np.load(tmp_path / "on_kept.npy"), on_kept)
    with netCDF4.Dataset(tmp_path / "out.nc") as there:
        there.set_auto_mask(False)
        np.testing.assert_array_equal(there["kept"][...], expected)


def test_a_child_that_was_forked_during_a_call_calls_the_function_itself(tmp_path: Path) -> None:
    begun, wait = threading.Event(), threading.Event()

    def slow(given: Any, made: Any) -> None:
        begun.set()
        if os.getpid() == parent:
            wait.wait(30)
        view(made)[...] = view(given)

    parent = os.getpid()
    register("slow", slow, deadline=60, halo=0, out_dtype="f4")
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("u", data=np.ones((4, 4, 4), "f4"))
        c.derive("v", "apply(slow, u, f4)")
        c.commit()
        reader = threading.Thread(target=lambda: c["v"][...])
        reader.start()
        assert begun.wait(30)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with dry.open(tmp_path / "run.dry") as own:
                    code = 0 if own["v"][...].sum() == 64 else 2
            finally:
                os._exit(code)
        until = time.monotonic() + 30
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
            time.sleep(0.02)
        if ended == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        wait.set()
        reader.join()
        assert ended == (child, 0)


def test_a_function_that_fails_or_hangs_is_named_with_its_tile(run: dry.Container) -> None:
    def fails(given: Any, made: Any) -> int | None:
        if made.step == 2:
            return 5
        stencil(given, made)
        return None

    def hangs(given: Any, made: Any) -> None:
        time.sleep(1.5)

    def spills(given: Any, made: Any) -> None:
        ctypes.c_char.from_address(made.data + 8 * int(np.prod(tuple(made.shape[:3])))).value = b"!"

    register("fails", fails)
    register("spills", spills)
    register("hangs", hangs, deadline=0.2)
    for name in ("fails", "spills", "hangs"):
        run.derive(name, f"apply({name}, u, f8, 1)")
    np.testing.assert_array_equal(run["fails"][1], neighbours(np.pad(values(1), 1, mode="edge")))
    with pytest.raises(InvalidArgumentError, match=r'function "fails" for the tile \[.*\]: it returned 5'):
        run["fails"][2]
    with pytest.raises(InvalidArgumentError, match="outside its tile"):
        run["spills"][0]
    begun = time.monotonic()
    with pytest.raises(DeadlineError, match=r'function "hangs" did not return within 0.2 s for the tile \['):
        run["hangs"][0]
    with pytest.raises(DeadlineError, match="not called again"):
        run["hangs"][0]
    assert time.monotonic() - begun < 1.2


def test_wrong_calls_are_refused_when_they_are_defined(run: dry.Container) -> None:
    for text, found in [
        ("apply(stencil, u)", "type of its result"),
        ("apply(stencil, u, f2)", "type of the result"),
        ("apply(stencil, u, f8, 1, 1)", "has 2 numbers"),
        ("apply(stencil, u, f8, 30)", "the halo needs 31 cells"),
        ("apply(stencil, nosuch, f8, 1)", "`nosuch`: there is no such variable"),
    ]:
        with pytest.raises(InvalidArgumentError, match=found):
            run.derive("wrong", text)
    run.derive("other", "apply(stencil, u, i4, 1)")
    with pytest.raises(
        InvalidArgumentError, match=r"float32 to int32 .* registered one is for float32 to float64"
    ):
        run["other"][0]
    with pytest.raises(InvalidArgumentError, match="derived variables only"):
        run.query("apply(stencil, u, f8, 1) > 3").count()


def test_what_cannot_be_computed_is_refused_before_anything_is_read(run: dry.Container) -> None:
    """Symptom: the input of the first tile was allocated before the function was looked up, which ended servers."""
    register("wide", stencil, halo=1024)
    run.create_variable("sparse", "f4", shape=(2500, 2500, 2500), dims=("c", "b", "a"))
    run["sparse"][:2, :2, :2] = 1
    run.derive("missing", "apply(nosuch, sparse, f8, 1024)")
    run.derive("huge", "apply(wide, sparse, f8, 1024)")
    with pytest.raises(NotFoundError, match='no function "nosuch"'):
        run["missing"][0, 0, 0]
    with pytest.raises(InvalidArgumentError, match=r"with its halo, a tile of .* bytes has"):
        run["huge"][1250, 1250, 1250]


SOURCE = """
#include "drystone_function.h"

int twice(const struct drystone_tile *in, size_t n, struct drystone_tile *out, void *state) {
    (void)n; (void)state;
    for (uint64_t i = 0; i < out->shape[0]; i++)
        *(double *)((char *)out->data + (int64_t)i * out->strides[0]) =
            2 * *(const double *)((const char *)in->data + (int64_t)i * in->strides[0]);
    return 0;
}
"""


def test_a_server_stores_by_its_function_and_the_client_computes_where_it_has_none(tmp_path: Path) -> None:
    include = Path(__file__).parents[3] / "crates/capi/include"
    (tmp_path / "f.c").write_text(SOURCE)
    library = tmp_path / "f.so"
    flags = ["-std=gnu11", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run(["cc", *flags, tmp_path / "f.c", "-o", library], check=True)
    dry.function(ctypes.CDLL(str(library)).twice, "f8", "f8", ndim=1).register("here")
    named = f'[functions.there]\nlibrary = "{library}"\nsymbol = "twice"\nin = "f8"\nout = "f8"\nndim = 1\n'
    (tmp_path / "home").mkdir()
    with served(tmp_path / "home", named) as server, dry.create(f"{server.unix}/scratch/run.dry") as c:
        c.create_variable("T", "f8", shape=(100,), steps=True, dims=("x",))
        c.derive("there", "apply(there, T, f8)", kind="stored")
        c.derive("here", "apply(here, T, f8)", kind="stored")
        region = c["T"].map(step=0, mode="w")
        region.array[...] = np.arange(100.0)
        region.release(level="stable").wait()
        c.refresh()
        # The server's commit stored the values of its function; only the client can compute the others.
        np.testing.assert_array_equal(c["there"][0], 2 * np.arange(100.0))
        np.testing.assert_array_equal(c["here"][0], 2 * np.arange(100.0))
        assert c.store_derived(["there"]).cells == 0
        assert c.store_derived(["here"]).cells == 100
        with c.writer() as w, w.step(1):
            w.put("T", np.ones(100))
        with pytest.warns(UserWarning, match='"there" were not stored'):
            c.commit()
        np.testing.assert_array_equal(c["here"][1], np.full(100, 2.0))
        with pytest.raises(NotFoundError, match='no function "there"'):
            c["there"][1]
