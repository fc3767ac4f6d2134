"""Asks what small cold reads of local files cost, in system calls and time, beside ADIOS2 and blosc2.

    make setup && .venv/bin/python bench/local_window.py [--quick] [--rounds 7]

One member of an array of structs of 256 MiB, the series of a point through 2,000 steps of 1 MiB, opening a container of
20,000 blocks, and a plane across the slowest axis of 512^3 floats. Each read is a process of its own, behind a page
cache without the files; the clock begins when the packages are loaded, and ends with the values. Bar: 1.2 times the
better peer. A peer that is not installed is left out; `bench/peers` makes an environment with both
(`build/peers/environment`). System calls are counted by strace where it is there, in a run of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
RECORD = [("x", "f8"), ("y", "f8"), ("z", "f8"), ("id", "i8")]
ENGINES = ("drystone", "adios2", "blosc2")

COMMON = """
import sys, os, time, numpy as np
case, path, small = sys.argv[1], sys.argv[2], sys.argv[3] == "small"
count, steps, blocks, edge = (4096, 20, 50, 32) if small else (8 << 20, 2000, 20_000, 512)
record = np.dtype([("x", "f8"), ("y", "f8"), ("z", "f8"), ("id", "i8")])
side = 8 if small else 64
def steps_of():
    for step in range(steps):
        yield np.random.default_rng(step).random((side,) * 3, dtype="f4")
def slabs():
    for first in range(0, edge, max(edge // 8, 1)):
        yield first, np.random.default_rng(first).random((max(edge // 8, 1), edge, edge), dtype="f4")
def structs():
    a = np.zeros(count, record)
    a["x"], a["id"] = np.arange(count), 1
    return a
"""
WRITE = {
    "drystone": """
import drystone as dry
with dry.create(path) as c:
    if case == "member": c["a"] = structs()
    if case == "series":
        c.create_variable("a", "f4", shape=(side,) * 3, steps=True)
        with c.writer(rank=0, nranks=1) as w:
            for values in steps_of():
                with w.step(): w.put("a", values)
    if case == "open":
        c.create_variable("a", "f4", shape=(blocks, 64))
        with c.writer() as w:
            for n in range(blocks): w.put("a", np.zeros((1, 64), "f4"), offset=(n, 0))
    if case == "plane":
        c.create_variable("a", "f4", shape=(edge,) * 3)
        with c.writer() as w:
            for first, values in slabs(): w.put("a", values, offset=(first, 0, 0))
""",
    "adios2": """
import adios2
from adios2.bindings import Mode
adios = adios2.Adios()
io = adios.declare_io("o"); io.set_engine("BP5")
out = io.open(path, Mode.Write)
def define(name, example, shape, box): return io.define_variable(name, example, list(shape), [0] * len(shape), list(box), False)
def put(variable, first, values):
    variable.set_selection([list(first), list(values.shape)]); out.put(variable, np.ascontiguousarray(values), Mode.Sync)
if case == "member":
    out.begin_step()
    for name in record.names: put(define(name, np.empty(0, record[name]), (count,), (count,)), (0,), structs()[name])
    out.end_step()
if case == "series":
    v = define("a", np.empty(0, "f4"), (side,) * 3, (side,) * 3)
    for values in steps_of(): out.begin_step(); put(v, (0, 0, 0), values); out.end_step()
if case == "open":
    v = define("a", np.empty(0, "f4"), (blocks, 64), (1, 64)); out.begin_step()
    for n in range(blocks): put(v, (n, 0), np.zeros((1, 64), "f4"))
    out.end_step()
if case == "plane":
    v = define("a", np.empty(0, "f4"), (edge,) * 3, (max(edge // 8, 1), edge, edge)); out.begin_step()
    for first, values in slabs(): put(v, (first, 0, 0), values)
    out.end_step()
out.close()
""",
    "blosc2": """
import blosc2
os.makedirs(path)
keep = dict(urlpath=path + "/a.b2nd", mode="w", contiguous=True, cparams={"clevel": 0})
if case == "member": blosc2.asarray(np.ascontiguousarray(structs()["x"]), **keep)
if case == "series":
    a = blosc2.empty((steps, *(side,) * 3), "f4", chunks=(1, *(side,) * 3), **keep)
    for n, values in enumerate(steps_of()): a[n : n + 1] = values[None]
if case == "open":
    a = blosc2.empty((blocks, 64), "f4", chunks=(1, 64), **keep)
    for n in range(blocks): a[n : n + 1] = 0
if case == "plane":
    a = blosc2.empty((edge,) * 3, "f4", chunks=(max(edge // 8, 1), edge, edge), **keep)
    for first, values in slabs(): a[first : first + len(values)] = values
""",
}
KEYS = {"series": "np.s_[:, 1, 2, 3]", "plane": "np.s_[:, :, 7]"}
READ = {
    "drystone": """
import drystone as dry
def act():
    c = dry.open(path)
    if case == "open": return c["a"].shape
    if case == "member": return c["a"]["x"][:]
    return c["a"][key]
""",
    "adios2": """
import adios2
from adios2.bindings import Mode
adios = adios2.Adios()
def act():
    io = adios.declare_io("i"); io.set_engine("BP5")
    file = io.open(path, Mode.ReadRandomAccess)
    v = io.inquire_variable("x" if case == "member" else "a")
    if case == "open": return tuple(v.shape())
    if case == "member": out = np.empty(count, "f8"); v.set_selection([[0], [count]])
    if case == "series":
        out = np.empty((steps, 1, 1, 1), "f4"); v.set_step_selection([0, steps]); v.set_selection([[1, 2, 3], [1, 1, 1]])
    if case == "plane": out = np.empty((edge, edge, 1), "f4"); v.set_selection([[0, 0, 7], [edge, edge, 1]])
    file.get(v, out, Mode.Sync)
    return out.reshape(out.shape[:2]) if case == "plane" else out.reshape(-1)
""",
    "blosc2": """
import blosc2
def act():
    a = blosc2.open(path + "/a.b2nd", mode="r")
    if case == "open": return a.shape
    return a[:] if case == "member" else a[key]
""",
}
MEASURE = """
key = KEY
for folder, _, names in os.walk(path):
    for name in names:
        f = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(f); os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED); os.close(f)
os.access("/begin", 0)
began = time.perf_counter()
found = act()
seconds = time.perf_counter() - began
os.access("/end", 0)
if case == "open": assert tuple(found) == (blocks, 64)
if case == "member": assert found[5] == 5 and len(found) == count
if case == "series": assert np.array_equal(found, [values[1, 2, 3] for values in steps_of()])
if case == "plane": assert np.array_equal(found, np.concatenate([values[:, :, 7] for _, values in slabs()]))
print(seconds)
"""
CASES = {
    "member": "one member of an array of structs",
    "series": "the series of a point",
    "open": "opening",
    "plane": "a plane across the slowest axis",
}


def run(code: str, case: str, path: Path, size: str, before: tuple[str, ...] = ()) -> str:
    """A process of its own; what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [*before, sys.executable, "-c", COMMON + code, case, str(path), size]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise RuntimeError(done.stderr[-900:])
    return done.stdout


def calls(code: str, case: str, path: Path, size: str, folder: Path) -> Counter[str]:
    """System calls between the marks; empty without strace."""
    if shutil.which("strace") is None:
        return Counter()
    log = folder / "strace"
    run(code, case, path, size, ("strace", "-f", "-qq", "-o", str(log)))
    found: Counter[str] = Counter()
    counting = False
    for line in log.read_text(errors="replace").splitlines():
        call = re.match(r"\d+ +(\w+)\((.*)", line)
        if call is None:
            continue
        if call[1] == "access" and call[2].startswith(('"/begin"', '"/end"')):
            counting = call[2].startswith('"/begin"')
        elif counting:
            found[call[1]] += 1
    return found


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="tiny: shows that it works, measures nothing")
    parser.add_argument("--rounds", type=int, default=7)
    said = parser.parse_args()
    size, rounds = ("small", 1) if said.quick else ("large", said.rounds)
    here = [name for name in ENGINES if name == "drystone" or _there(name)]
    print("| cold | " + " | ".join(here) + " | ours / better peer |\n" + "|---" * (len(here) + 2) + "|")
    for case, title in CASES.items():
        with tempfile.TemporaryDirectory(prefix="drystone-window-", dir=ROOT / "build") as name:
            folder = Path(name)
            read = {engine: READ[engine] + MEASURE.replace("KEY", KEYS.get(case, "None")) for engine in here}
            for engine in here:
                run(WRITE[engine], case, folder / engine, size)
            times: dict[str, list[float]] = {engine: [] for engine in here}
            for turn in range(rounds):
                for engine in here[turn % len(here) :] + here[: turn % len(here)]:
                    times[engine].append(float(run(read[engine], case, folder / engine, size)))
            cells = []
            for engine in here:
                counted = calls(read[engine], case, folder / engine, size, folder)
                most = ", ".join(f"{n} {call}" for call, n in counted.most_common(3))
                cells.append(f"{median(times[engine]) * 1e3:.1f} ms; {counted.total()} calls: {most}")
            peers = [median(times[engine]) for engine in here if engine != "drystone"]
            ratio = f"{median(times['drystone']) / min(peers):.2f}" if peers else "-"
        print(f"| {title} | " + " | ".join(cells) + f" | {ratio} |", flush=True)


def _there(name: str) -> bool:
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
