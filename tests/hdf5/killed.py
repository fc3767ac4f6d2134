"""Programs over h5py that are killed at random: what was flushed must be there. `killed.py [KILLS]` says how native HDF5 fares.

The victim appends rows to a growing dataset, flushes, and only then says how many there are; an attribute counts them too.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

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
    done = subprocess.run(
        [sys.executable, "-c", WITNESS, str(path), str(said)],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    last = (done.stderr.strip().splitlines() or ["it died"])[-1]
    return said, None if done.returncode == 0 else last


def main():
    """A line for the connector and one for native HDF5."""
    import tempfile

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    from drystone import hdf5

    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    plain = {k: v for k, v in os.environ.items() if not k.startswith("HDF5_")}
    for name, environment in (("drystone", plain | hdf5.environment(base=plain)), ("native", plain)):
        wrong, rows = [], 0
        for seed in range(kills):
            folder = Path(tempfile.mkdtemp())
            said, what = kill(environment, folder / "victim.h5", seed)
            rows += said
            wrong += [what] if what else []
            shutil.rmtree(folder)
        print(
            f"{name}: {kills} kills, {rows} flushes promised, {len(wrong)} files not whole or not readable",
            *set(wrong),
            sep="\n  ",
        )


if __name__ == "__main__":
    main()
