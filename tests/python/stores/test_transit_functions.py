"""Registered functions in transit: named by the server's configuration, or registered by the process that releases."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from drystone.errors import DeadlineError, InvalidArgumentError, NotFoundError
from server_rig import Server, drystone, served

ROOT = Path(__file__).parents[3]
SHAPE = (8, 12)
HUGE = 1e6

SOURCE = """
#include "drystone_function.h"
#include <stdio.h>
#include <unistd.h>

static double in(const struct drystone_tile *t, int64_t y, int64_t x) {
    return *(const double *)((const char *)t->data + y * t->strides[0] + x * t->strides[1]);
}

int sum9(const struct drystone_tile *t, size_t n, struct drystone_tile *out, void *state) {
    (void)n; (void)state;
    for (int64_t y = 0; y < (int64_t)out->shape[0]; y++)
        for (int64_t x = 0; x < (int64_t)out->shape[1]; x++) {
            double sum = 0;
            for (int64_t dy = 0; dy < 3; dy++)
                for (int64_t dx = 0; dx < 3; dx++)
                    sum += in(t, y + dy, x + dx);
            *(double *)((char *)out->data + y * out->strides[0] + x * out->strides[1]) = sum;
        }
    return 0;
}

/* Rounds; fails at negative values, sleeps at huge ones, and writes outside its tile at -1000. */
int whole(const struct drystone_tile *t, size_t n, struct drystone_tile *out, void *state) {
    (void)n; (void)state;
    for (int64_t y = 0; y < (int64_t)out->shape[0]; y++)
        for (int64_t x = 0; x < (int64_t)out->shape[1]; x++) {
            double value = in(t, y, x);
            if (value == -1000)
                ((int32_t *)out->data)[out->shape[0] * out->shape[1]] = 1;
            else if (value < 0) {
                snprintf(out->message, out->message_size, "cell %d is negative", (int)(out->origin[1] + x));
                return 7;
            }
            if (value > 1e6)
                sleep(3);
            *(int32_t *)((char *)out->data + y * out->strides[0] + x * out->strides[1]) = (int32_t)value;
        }
    return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions")
    (folder / "f.c").write_text(SOURCE)
    include = ROOT / "crates/capi/include"
    flags = ["-std=gnu11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", f"-I{include}"]
    subprocess.run(["cc", *flags, folder / "f.c", "-o", folder / "f.so"], check=True)
    return folder / "f.so"


def configuration(library: Path) -> str:
    return f"""
[functions.sum9]
library = "{library}"
symbol = "sum9"
in = "f8"
out = "float64"
ndim = 2
halo = 1
thread_safe = true
[functions.whole]
library = "{library}"
symbol = "whole"
in = "f8"
out = "i4"
halo = [0, 0]
deadline = "1s"
memory = "1MiB"
"""


@pytest.fixture(scope="module")
def server(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("server"), configuration(library)) as server:
        yield server


@pytest.fixture(params=["local", "server"])
def place(request: pytest.FixtureRequest, server: Server, library: Path, tmp_path: Path) -> str:
    """A new container: in a folder, with functions that this process registers, or on a server."""
    if request.param == "local":
        loaded = ctypes.CDLL(str(library))
        dry.function(loaded.sum9, "f8", "f8", 1, ndim=2, thread_safe=True).register("sum9")
        dry.function(loaded.whole, "f8", "i4", ndim=2).register("whole", deadline=1, memory=1 << 20)
        url = str(tmp_path / "run.dry")
    else:
        url = f"{server.unix}/scratch/{request.node.name.split('[')[0]}.dry"
    with dry.create(url) as c:
        c.create_variable("T", "f8", shape=SHAPE, steps=True, dims=("y", "x"))
    return url


def values(step: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Whole numbers, whose sums are exact."""
    return np.random.default_rng(step).integers(0, 1000, shape).astype("f8")


def sum9(array: np.ndarray) -> np.ndarray:
    padded = np.pad(array, 1, mode="edge")
    ny, nx = array.shape
    return sum(padded[y : y + ny, x : x + nx] for y in range(3) for x in range(3))


def release(
    c: dry.Container, step: int, box: tuple[slice, slice], array: np.ndarray, name: str = "T"
) -> dry.regions.Transfer:
    offset, count = tuple(s.start for s in box), array[box].shape
    r = c[name].map(step=step, offset=offset, count=count, mode="w")
    r.array[...] = array[box]
    return r.release()


def test_a_result_with_a_halo_does_not_depend_on_boxes_and_their_order(place: str) -> None:
    parts = [
        (slice(0, 4), slice(0, 12)),
        (slice(4, 8), slice(0, 5)),
        (slice(4, 8), slice(5, 9)),
        (slice(4, 8), slice(9, 12)),
    ]
    with dry.open(place, "r+") as c:
        made = c.on("T", "function", name="sum9")
        assert (made.name, made.shape, made.dtype, tuple(made.dims)[-2:]) == (
            "T_sum9", (0, *SHAPE), np.dtype("f8"), ("y", "x"),
        )  # fmt: skip
        c.on("T", "function", name="sum9")
        for step in range(4):
            for box in parts[step:] + parts[:step]:
                release(c, step, box, values(step))
                if step == 2:
                    c.commit()
        c.commit()
    with dry.open(place) as c:
        for step in range(4):
            assert np.array_equal(c["T"][step], values(step))
            assert np.array_equal(c["T_sum9"][step], sum9(values(step))), step
        assert not c.verify().damage


def test_a_snapshot_has_the_cells_whose_neighbours_it_has(place: str) -> None:
    T = values(0)
    with dry.open(place, "r+") as c:
        c.on("T", "function", into="made/sum", name="sum9")
        c.on("T", "max")
        release(c, 0, (slice(0, 4), slice(0, 12)), T).wait()
        c.commit()
        # The last row needs the one behind it.
        assert np.array_equal(c["made/sum"][0, :3], sum9(T)[:3])
        assert [b.shape for b in c["made/sum"].blocks(step=0)] == [(3, 12)]
        before = c.snapshot.version
        release(c, 0, (slice(4, 8), slice(0, 12)), T).wait()
        c.commit()
        assert np.array_equal(c["made/sum"][0], sum9(T))
        # A box that is released again changes the results of its neighbours.
        T[4:] += 1
        release(c, 0, (slice(4, 8), slice(0, 12)), T).wait()
        c.commit()
        assert np.array_equal(c["made/sum"][0], sum9(T))
        assert c["T_max"][0] == T.max()
        assert np.array_equal(c.at(before)["made/sum"][0, :3], sum9(values(0))[:3])


def test_many_tiles_of_shared_memory_are_computed_by_several_threads(place: str) -> None:
    shape = (700, 2000)
    with dry.open(place, "r+") as c:
        c.create_variable("big", "f8", shape=shape, steps=True)
        c.on("big", "function", name="sum9")
        array = values(1, shape)
        for box in ((slice(350, 700), slice(0, 2000)), (slice(0, 350), slice(0, 2000))):
            release(c, 0, box, array, "big")
        c.commit()
        assert np.array_equal(c["big"][0], array)
        assert np.array_equal(c["big_sum9"][0], sum9(array))


def test_errors_of_a_function_refuse_the_release_and_nothing_else(place: str) -> None:
    whole = (slice(0, 8), slice(0, 12))
    with dry.open(place, "r+") as c:
        assert c.on("T", "function", name="whole").dtype == np.dtype("i4")
        for value, said in ((-1, r"returned 7: cell 5 is negative"), (-1000, r"outside its tile")):
            bad = values(0)
            bad[3, 5] = value
            with pytest.raises(
                InvalidArgumentError, match=rf'function "whole" for the tile \[0:8, 0:12\]: .*{said}'
            ):
                release(c, 0, whole, bad).wait()
        release(c, 1, whole, values(1)).wait()
        c.commit()
        assert c.steps == [1]
        assert np.array_equal(c["T_whole"][1], values(1).astype("i4"))
        c.create_variable("wide", "f8", shape=(400, 400), steps=True)
        c.on("wide", "function", name="whole")
        with pytest.raises(InvalidArgumentError, match="beyond its memory of 1048576 bytes"):
            release(c, 2, (slice(0, 400), slice(0, 400)), np.zeros((400, 400)), "wide").wait()
        assert not c.verify().damage


def test_a_function_that_hangs_meets_its_deadline(place: str) -> None:
    whole = (slice(0, 8), slice(0, 12))
    with dry.open(place, "r+") as c:
        c.on("T", "function", name="whole")
        slow = values(0)
        slow[0, 0] = 2 * HUGE
        begun = time.monotonic()
        with pytest.raises(DeadlineError, match=r"did not return within 1 s for the tile \[0:8, 0:12\]"):
            release(c, 0, whole, slow).wait()
        with pytest.raises(DeadlineError, match="left behind"):
            release(c, 1, whole, values(1)).wait()
        assert time.monotonic() - begun < 2.9
        time.sleep(max(0, 3.5 - (time.monotonic() - begun)))
        release(c, 2, whole, values(2)).wait()
        c.commit()
        assert c.steps == [2]
        assert np.array_equal(c["T_whole"][2], values(2).astype("i4"))


def test_names_are_those_of_the_owner_and_no_request_names_a_library(place: str, library: Path) -> None:
    with dry.open(place, "r+") as c:
        with pytest.raises(NotFoundError, match=r'no function "median".*sum9, whole'):
            c.on("T", "function", name="median")
        for wrong in (str(library), "sum9.so:../x", ""):
            with pytest.raises(InvalidArgumentError, match="letters"):
                c.on("T", "function", into="out", name=wrong)
        for more in ({"library": str(library)}, {"symbol": "sum9"}):
            with pytest.raises(InvalidArgumentError, match="function takes name"):
                c.on("T", "function", into="out", name="sum9", **more)
        c.create_variable("flat", "f8", shape=(9,), steps=True)
        c.create_variable("single", "f4", shape=SHAPE, steps=True)
        c.create_variable("thin", "f8", shape=(0, 4), steps=True)
        for name, said in (("flat", "2 dimensions"), ("single", "reads float64"), ("thin", "wider")):
            with pytest.raises(InvalidArgumentError, match=said):
                c.on(name, "function", name="sum9")
        with pytest.raises(dry.UnsupportedError, match="applied to releases"):
            c.transfer("T", "copy", "function", name="sum9").wait()
        assert "out" not in c
        assert "copy" not in c


def test_a_server_without_the_function_refuses_releases_until_the_result_is_gone(
    tmp_path: Path, library: Path
) -> None:
    server = Server(tmp_path, configuration(library))
    url = f"{server.unix}/scratch/x.dry"
    whole = (slice(0, 8), slice(0, 12))
    with dry.create(url) as c:
        c.create_variable("T", "f8", shape=SHAPE, steps=True)
        c.on("T", "function", name="sum9")
        release(c, 0, whole, values(0)).wait()
        c.commit()
    assert server.stop() == 0
    server.more = ""
    server.start()
    with dry.open(url, "r+") as c:
        with pytest.raises(
            NotFoundError, match=r'"T_sum9" takes results of "T".*no function "sum9".*delete "T_sum9"'
        ):
            release(c, 1, whole, values(1)).wait()
        c.delete("T_sum9")
        release(c, 1, whole, values(1)).wait()
        c.commit()
        assert np.array_equal(c["T"][1], values(1))
    del c
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("f.so", "g.so"), "functions.sum9"),
        (('symbol = "sum9"', 'symbol = "sum10"'), "sum10"),
        (('in = "f8"', 'in = "c8"'), "functions.sum9.in"),
        (("halo = 1", "halos = 1"), "functions.sum9.halos"),
    ],
)
def test_a_wrong_configuration_is_named_before_anything_listens(
    tmp_path: Path, library: Path, change: tuple[str, str], said: str
) -> None:
    text = configuration(library).replace(*change, 1)
    (tmp_path / "server.toml").write_text(f'listen = ["unix:x.sock"]\n{text}')
    done = drystone("serve", tmp_path / "server.toml")
    assert done.returncode != 0
    assert said in done.stderr
