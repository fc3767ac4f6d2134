"""Programs that are killed at random: what was flushed must be there. `killed.py [KILLS]` says how native HDF5 fares.

The victim over h5py appends rows to a growing dataset, flushes, and only then says how many there are; an attribute
counts them too. The victim of several ranks (ranks.c, where there is a parallel HDF5) does so with rows of every rank;
one rank is killed, and MPI ends the others.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import parallel

VICTIM = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    d = f.create_dataset("rows", (0, 64), "<i8", maxshape=(None, 64), chunks=(16, 64))
    for n in range(1, 100000):
        d.resize((n, 64))
        d[n - 1] = np.arange(64) + n
        d.attrs["rows"] = n
        f.create_group(f"group {n}")
        f.flush()
        print(n, flush=True)
"""
WITNESS = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r") as f:
    d, said = f["rows"], int(sys.argv[2])
    assert len(d) >= said and d.attrs["rows"] >= said, (len(d), said)
    rows = d[:said]
    assert np.array_equal(rows, np.arange(64)[None] + np.arange(1, said + 1)[:, None])
    assert all(f"group {n}" in f for n in range(1, said + 1))
"""
WITNESS_OF_RANKS = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r") as f:
    d, said = f["steps"], int(sys.argv[2])
    assert len(d) >= said, (len(d), said)
    assert np.array_equal(d[:said], np.arange(said)[:, None] * 1000 + np.arange(10) * 10 + 3)
"""


def kill(environment, path, seed):
    """Start, kill, look: what the victim had flushed, and what went wrong with it afterwards (None if nothing)."""
    after = random.Random(seed).uniform(0.0, 0.6)
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    said = int(victim.stdout.readline())
    time.sleep(after)
    victim.kill()
    for line in victim.stdout:
        if line.endswith("\n"):
            said = int(line)
    victim.stdout.close()
    victim.wait()
    return said, what_is_wrong(WITNESS, environment, path, said)


def what_is_wrong(witness, environment, path, said):
    """What a witness finds; None if all that was said is there."""
    done = subprocess.run(
        [sys.executable, "-c", witness, str(path), str(said)],
        env=environment, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    last = (done.stderr.strip().splitlines() or ["it died"])[-1]
    return None if done.returncode == 0 else last


def kill_ranks(environment, program, path, seed, ranks=3):
    """The same with a rank of several: the connector that HDF5 used, the rows that all had flushed, and what went wrong
    with them."""
    chosen = random.Random(seed)
    victim, least, after = chosen.randrange(ranks), chosen.randrange(9, 90), chosen.uniform(0.0, 0.05)
    processes, flushed, connector = {}, 0, ""
    with subprocess.Popen(
        parallel.command(program, ranks, "forever", path, "independent"),
        env=parallel.on_few_cores(environment), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as started:  # fmt: skip
        try:
            for line in started.stdout:  # to the end: what was flushed until the others were ended
                word, *words = line.split() or [""]
                if word == "connector":
                    connector = words[0]
                if word == "process":
                    processes[int(words[0])] = int(words[1])
                if word == "flushed" and line.endswith("\n"):
                    flushed = int(words[0])
                    if flushed >= least and victim in processes:
                        time.sleep(after)
                        os.kill(processes.pop(victim), signal.SIGKILL)
            if started.wait(timeout=240) == 0:
                return connector, flushed, "the program ended well, without its rank"
        finally:
            for process in processes.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            started.kill()
    return connector, flushed, what_is_wrong(WITNESS_OF_RANKS, environment, path, flushed)


def main():
    """A line for the connector and one for native HDF5."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    from drystone import hdf5

    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    plain = {k: v for k, v in os.environ.items() if not k.startswith("HDF5_")}
    ways = {"drystone": plain | hdf5.environment(base=plain), "native": plain}
    for name, environment in ways.items():
        told(name, kills, lambda path, seed, env=environment: kill(env, path, seed))
    if why := parallel.missing():
        print(f"several ranks: {why}")
        return
    with tempfile.TemporaryDirectory() as folder:
        program = parallel.compiled(Path(folder))
        for name, environment in ways.items():

            def one(path, seed, name=name, environment=environment):
                used, said, what = kill_ranks(environment, program, path, seed)
                if used != name:
                    raise SystemExit(f"HDF5 used {used}, not {name}")
                return said, what

            told(f"{name}, 3 ranks", kills, one)


def told(name, kills, one):
    """Kills, and a line about what was left."""
    wrong, rows = [], 0
    for seed in range(kills):
        with tempfile.TemporaryDirectory() as folder:
            said, what = one(Path(folder) / "victim.h5", seed)
        rows += said
        wrong += [what] if what else []
    print(
        f"{name}: {kills} kills, {rows} rows promised, {len(wrong)} files not whole or not readable",
        *sorted(set(wrong)),
        sep="\n  ",
        flush=True,
    )


if __name__ == "__main__":
    main()
