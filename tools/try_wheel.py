"""Tests an installed wheel: `python try_wheel.py`, in an environment with the wheel and without the checkout.

Writes and reads a container, with steps and a transform; runs the command; checks that the plug-in for HDF5 and the
manual page exist; and, if h5py is installed, writes a file through the plug-in. Prints each test and exits with 1 at
the first failure.
"""

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import drystone as dry
import numpy as np

THROUGH_HDF5 = """
import h5py, numpy as np
with h5py.File("through.h5", "w", libver="latest") as f:
    f["x"] = np.arange(10)
with h5py.File("through.h5") as f:
    assert f["x"][3] == 3
"""


def tried(what: str) -> None:
    """Print a test that passed."""
    print(f"  {what}")


def main() -> None:
    """Run all tests."""
    package = Path(dry.__file__).parent
    checkout = Path(__file__).resolve().parents[1] / "python"
    assert checkout not in package.parents, f"{package} is the checkout, not a wheel"
    assert dry.__version__ == version("drystone")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        values = np.arange(60, dtype="f4").reshape(3, 4, 5)
        with dry.create("a.dry") as c:
            c.create_variable("T", "f4", (4, 5), steps=True, transform="shuffle,zstd:1")
            with c.writer(rank=0, nranks=1) as w:
                for step in values:
                    with w.step():
                        w.put("T", step)
        with dry.open("a.dry") as c:
            assert (c["T"][...] == values).all()
        tried("a container in steps, written and read")
        command = Path(sys.executable).parent / "drystone"
        assert subprocess.run([command, "verify", "a.dry"], check=False).returncode == 0
        tried("the command")
        plugin = package / "hdf5/plugin/libdrystone_hdf5_vol.so"
        assert plugin.exists(), f"no plug-in for HDF5 at {plugin}"
        manual = Path(sys.prefix) / "share/man/man1/drystone.1"
        assert manual.exists(), f"no manual page at {manual}"
        tried("the plug-in for HDF5 and the manual page are there")
        try:
            import h5py  # noqa: F401
        except ImportError:
            print("  not tried: HDF5 programs (h5py is not installed)")
            return
        settings = {"HDF5_PLUGIN_PATH": str(plugin.parent), "HDF5_VOL_CONNECTOR": "drystone"}
        subprocess.run([sys.executable, "-c", THROUGH_HDF5], check=True, env={**os.environ, **settings})
        with dry.open("through.h5.drystone") as c:
            assert c["x"][3] == 3
        tried("an HDF5 program through the plug-in")


if __name__ == "__main__":
    main()
