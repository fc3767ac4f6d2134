"""The cost of a derived variable beside reading its inputs, its memory, and whether the bits depend on the partition.

The bars: at most 1.1 times reading the inputs cold; at least twice NumPy and as fast as numexpr where everything is in
the cache of the system; halo bytes at most 1.1 of the surface; memory of tiles and 32 MiB; a query on a magnitude at
one hit in 1e5 five times faster than computing everywhere; no cell that depends on the blocks.

NumPy and numexpr read the inputs with Drystone and compute; the derived variable is read into the same memory. Every
result is compared. Cold: the files of the container are dropped from the system's cache before each round. The least
time of the rounds counts.

`python bench/derived/run.py [--edge N] [--rounds N]`, some minutes; it prints the tables of docs/benchmarks/derived.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import drystone as dry
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
TEXTS = {
    "magnitude": "sqrt(u*u + v*v + w*w)",
    "three terms": "2*u + 3*v - 0.5*w",
    "laplacian": "diff2(u, x, 1) + diff2(u, y, 1) + diff2(u, z, 1)",
    "curl": "curl(u, v, w)",
}
CUBE = 16


def turbulence(edge: int, seed: int) -> Array:
    """A field with a spectrum of -5/3, edge^3 cells."""
    random = np.random.default_rng(seed)
    k = np.fft.fftfreq(edge)[:, None, None] ** 2 + np.fft.fftfreq(edge)[None, :, None] ** 2
    k = k + np.fft.rfftfreq(edge)[None, None, :] ** 2
    k[0, 0, 0] = 1
    noise = random.normal(size=k.shape) + 1j * random.normal(size=k.shape)
    field = np.fft.irfftn(noise * k ** (-11 / 12), s=(edge,) * 3, axes=(0, 1, 2))
    return (field / field.std()).astype("f4")


def drop(folder: Path) -> None:
    """Drops the files of a container from the system's cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def least(act: Callable[[], object], rounds: int, before: Callable[[], object] = lambda: None) -> float:
    """The least seconds of some rounds."""
    times = []
    for _ in range(rounds):
        before()
        begun = perf_counter()
        act()
        times.append(perf_counter() - begun)
    return min(times)


def processor_time(act: Callable[[], object], folder: Path) -> float:
    """Seconds of all processors for a cold read."""
    drop(folder)
    before = resource.getrusage(resource.RUSAGE_SELF)
    act()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def by_numpy(name: str, u: Array, v: Array, w: Array) -> Array:
    """What NumPy makes of the inputs."""
    match name:
        case "magnitude":
            return np.sqrt(u * u + v * v + w * w)
        case "three terms":
            return np.float32(2) * u + np.float32(3) * v - np.float32(0.5) * w
        case "laplacian":
            out = np.zeros_like(u)
            for axis in range(3):
                inner = np.moveaxis(u, axis, 0)
                to = np.moveaxis(out, axis, 0)
                second = inner[2:] - 2 * inner[1:-1] + inner[:-2]
                to[1:-1] += second
                to[0] += second[0]
                to[-1] += second[-1]
            return out
    turn = [(2, 1, 1, 0), (0, 0, 2, 2), (1, 2, 0, 1)]
    parts = (u, v, w)
    return np.stack(
        [np.gradient(parts[a], axis=x) - np.gradient(parts[b], axis=y) for a, x, b, y in turn], axis=-1
    )


def speeds(c: dry.Container, folder: Path, fields: list[Array], rounds: int) -> None:
    """Derived variables beside NumPy and numexpr, warm and cold."""
    import numexpr

    numexpr.set_num_threads(os.cpu_count() or 1)
    held = [np.empty_like(f) for f in fields]

    def read(count: int) -> None:
        for name, out in list(zip("uvw", held, strict=True))[:count]:
            c[name].read(out=out)

    print(
        "| definition | reading the inputs, ms | derived | NumPy | numexpr | cold: inputs | derived "
        "| processor time, ms: inputs | derived | bytes, of the inputs | requests |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, text in TEXTS.items():
        variable = c[name.replace(" ", "_")]
        out = np.zeros(variable.shape, "f4")
        count = 1 if name == "laplacian" else 3

        def with_numpy(name: str = name, count: int = count) -> Array:
            read(count)
            return by_numpy(name, *held)

        def with_numexpr(text: str = text) -> Array:
            read(3)
            u, v, w = held
            return np.asarray(numexpr.evaluate(text, local_dict={"u": u, "v": v, "w": w}))

        variable.read(out=out)
        wanted = by_numpy(name, *fields)
        assert np.allclose(out, wanted, rtol=1e-4, atol=1e-4), name
        warm = least(lambda n=count: read(n), rounds)
        own = least(lambda v=variable, o=out: v.read(out=o), rounds)
        numpy = least(with_numpy, rounds)
        other = least(with_numexpr, rounds) if name in ("magnitude", "three terms") else None
        cold = least(lambda n=count: read(n), rounds, lambda: drop(folder))
        own_cold = least(lambda v=variable, o=out: v.read(out=o), rounds, lambda: drop(folder))
        cells = [f"{warm * 1e3:.0f}", f"{own / warm:.2f} x", f"{numpy / warm:.2f} x"]
        cells += [
            "" if other is None else f"{other / warm:.2f} x",
            f"{cold * 1e3:.0f}",
            f"{own_cold / cold:.2f} x",
        ]
        for act in (lambda n=count: read(n), lambda v=variable, o=out: v.read(out=o)):
            cells.append(f"{min(processor_time(act, folder) for _ in range(rounds)) * 1e3:.0f}")
        before = c.metrics()
        variable.read(out=out)
        after = c.metrics()
        bytes_read, requests = (after[name] - before[name] for name in ("read_bytes", "read_requests"))
        cells += [f"{bytes_read / (count * fields[0].nbytes):.2f}", f"{requests}"]
        print(f"| `{text}` | {' | '.join(cells)} |")


def memory(c: dry.Container) -> None:
    """How much more memory a read of the largest result takes than its array."""
    out = np.zeros(c["curl"].shape, "f4")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    c["curl"].read(out=out)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    print(
        f"\nMemory beside the array of `curl` ({out.nbytes >> 20} MiB), above what earlier reads took: {more} MiB"
    )


def query(c: dry.Container, cubes: dry.Container, rounds: int, put: float) -> None:
    """A query on a magnitude at one hit in 1e5, beside computing it everywhere: nothing, statistics or values stored.

    With nothing stored the statistics of the inputs decide, which are those of their subchunks: `cubes` has the same
    inputs in small ones. Computing everywhere takes the time of the container in which it takes less.
    """
    values = c["magnitude"][...]
    limit = float(np.sort(values.ravel())[-max(values.size // 100_000, 1)])
    expected = int((values > np.float32(limit)).sum())
    print(f"\n`magnitude > {limit:.3f}`, {expected} hits\n\n| stored | bytes read, of the inputs | beside computing everywhere | "
          "stored bytes, of the inputs | time to store, of put |\n|---|---|---|---|---|")  # fmt: skip
    slow = min(
        least(lambda c=one: c["magnitude"][...].__gt__(np.float32(limit)).sum(), rounds) for one in (c, cubes)
    )
    for kind in ("virtual", f"virtual, subchunks of {CUBE}^3", "bounds", "stored"):
        name = "magnitude" if kind.startswith("virtual") else f"magnitude_{kind}"
        run = cubes if "subchunks" in kind else c
        stored = 0.0
        size = log_bytes(Path(run.path))
        if kind in ("bounds", "stored"):
            c.derive(name, TEXTS["magnitude"], kind=kind)
            begun = perf_counter()
            c.store_derived(name)
            stored = perf_counter() - begun
        more = log_bytes(Path(run.path)) - size
        q = run.query(f"{name} > {limit!r}")
        assert q.count() == expected
        fast = least(lambda c=run, n=name: c.query(f"{n} > {limit!r}").count(), rounds)
        part = q.report.bytes / (3 * values.nbytes)
        print(
            f"| {kind} | {part:.4f} | {slow / fast:.1f} x faster | {more / (3 * values.nbytes):.4f} | "
            f"{stored / put:.2f} |"
        )


def log_bytes(folder: Path) -> int:
    """Bytes of the logs of a container."""
    return sum(path.stat().st_size for path in (folder / "log").rglob("*") if path.is_file())


PEAK = """
import sys, threading, time
import numpy as np, drystone as dry
def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))
def beside(out, act):
    before, most, done = anonymous(), 0, threading.Event()
    def watch():
        nonlocal most
        while not done.wait(0.002):
            most = max(most, anonymous())
    watcher = threading.Thread(target=watch)
    watcher.start()
    act()
    done.set()
    watcher.join()
    print(most - before)
"""
OURS = """
with dry.open(sys.argv[1]) as c:
    out = np.ones(c["lap"].shape, "f4")
    beside(out, lambda: c["lap"].read(out=out))
"""
DASK = """
import dask.array
with dry.open(sys.argv[1]) as c:
    u = dask.array.from_array(c["u"], chunks=(32, 32, -1))
    def lap(a):
        out = np.zeros_like(a)
        for axis in range(3):
            inner, to = np.moveaxis(a, axis, 0), np.moveaxis(out, axis, 0)
            to[1:-1] += inner[2:] - 2 * inner[1:-1] + inner[:-2]
        return out
    out = np.ones(u.shape, u.dtype)
    beside(out, lambda: dask.array.store(u.map_overlap(lap, depth=1, boundary="nearest"), out))
"""


def memory_on_disk(folder: Path, edge: int) -> None:
    """The memory of a laplacian of a field of `edge`^3 values of f4, beside its result: ours and Dask's."""
    path = folder / "large.dry"
    with dry.create(path) as c:
        c.create_variable("u", "f4", (edge,) * 3, dims=("z", "y", "x"), chunks=(32, 32, edge))
        c.derive("lap", "diff2(u, x, 1) + diff2(u, y, 1) + diff2(u, z, 1)")
        random = np.random.default_rng(1)
        with c.writer() as w:
            for z in range(0, edge, 32):
                w.put("u", random.standard_normal((32, edge, edge), "f4"), offset=(z, 0, 0))
        c.commit()
    size = edge**3 * 4 >> 20
    print(f"\n| laplacian of {size} MiB | memory beside the result (RssAnon) |\n|---|---|")
    for name, code in (("Drystone", OURS), ("Dask, `map_overlap`", DASK)):
        done = subprocess.run(
            [sys.executable, "-c", PEAK + code, path], capture_output=True, text=True, check=False
        )
        said = (
            f"{int(done.stdout) >> 20} MiB" if done.returncode == 0 else f"not measured: {done.stderr[-200:]}"
        )
        print(f"| {name} | {said} |", flush=True)


def beside_adios() -> None:
    """Whether the adios2 that is installed stores a derived curl."""
    try:
        import adios2

        io = adios2.Adios().declare_io("derived")
        io.set_engine("BP5")
        for name in "uvw":
            io.define_variable(name, np.zeros((4, 4, 4), "f4"), [4, 4, 4], [0, 0, 0], [4, 4, 4])
        io.impl.DefineDerivedVariable(
            "c", "x=u y=v z=w curl(x,y,z)", adios2.bindings.DerivedVarType.StoreData
        )
    except Exception as error:
        print(
            f"\nADIOS2's stored curl: not compared, as adios2 says {type(error).__name__}: {str(error).strip()[:160]}"
        )
        return
    print("\nADIOS2's stored curl: this build has derived variables; compare its values by hand")


def halo(c: dry.Container, edge: int) -> None:
    """What the halo adds to the inputs of a box, beside its surface."""
    side = edge // 4
    plan = c["laplacian"].explain[side : 2 * side, side : 2 * side, side : 2 * side]
    surface = (side + 2) ** 3 * 4
    print(
        f"\nInputs of `laplacian` in a box of {side}^3: {plan.wanted_bytes} bytes, {plan.wanted_bytes / surface:.3f} "
        "of cells and surface"
    )


def cuts(folder: Path, fields: list[Array], edge: int) -> None:
    """Bits of the curl for 1 to 64 blocks."""
    seen = None
    other = 0
    for blocks in (1, 2, 4):
        path = folder / f"cut{blocks}.dry"
        with dry.create(path) as c:
            make(c, edge)
            side = edge // blocks
            with c.writer() as w:
                for name, values in zip("uvw", fields, strict=True):
                    for place in np.ndindex(blocks, blocks, blocks):
                        part = tuple(
                            slice(i * side, (i + 1) * side if i < blocks - 1 else edge) for i in place
                        )
                        w.put(name, np.ascontiguousarray(values[part]), offset=[i * side for i in place])
            c.commit()
            found = c["curl"][...]
        seen = found if seen is None else seen
        other += int((found.view("u4") != seen.view("u4")).sum())
        shutil.rmtree(path)
    print(f"\nCells of `curl` that differ between 1, 8 and 64 blocks: {other}")


def make(c: dry.Container, edge: int, chunks: tuple[int, ...] | None = None) -> None:
    """Three fields, and what is derived from them."""
    for name in "uvw":
        c.create_variable(name, "f4", (edge,) * 3, dims=("z", "y", "x"), chunks=chunks or (32, 32, edge))
    for name, text in TEXTS.items():
        c.derive(name.replace(" ", "_"), text)


def main() -> None:
    """Make the run, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edge", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--large", type=int, default=1024, help="edge of the field for the memory of a laplacian"
    )
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="drystone-derived-"))
    try:
        fields = [turbulence(given.edge, seed) for seed in range(3)]
        path = folder / "run.dry"
        with dry.create(path) as c, dry.create(folder / "cubes.dry") as cubes:
            make(c, given.edge)
            make(cubes, given.edge, (CUBE,) * 3)
            begun = perf_counter()
            with c.writer() as w:
                for name, values in zip("uvw", fields, strict=True):
                    w.put(name, values, offset=(0, 0, 0))
            c.commit()
            put = perf_counter() - begun
            for name, values in zip("uvw", fields, strict=True):
                cubes[name][...] = values
            speeds(c, path, fields, given.rounds)
            memory(c)
            query(c, cubes, given.rounds, put)
            halo(c, given.edge)
        memory_on_disk(folder, given.large)
        beside_adios()
        cuts(folder, fields, given.edge)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
