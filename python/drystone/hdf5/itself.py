"""Keeps the HDF5 connector out of imports and exports, which read and write genuine HDF5 files.

In a shell with the variables of `drystone hdf5-env`, h5py and netCDF4 would write a stub and a hidden folder instead of
the file, while the exporter writes values directly into the file.
"""

from __future__ import annotations

import os
import sys

from drystone.errors import UnsupportedError
from drystone.hdf5 import CONNECTOR_VARIABLE

_LIBRARIES = ("h5py", "netCDF4")
_NATIVE = "native"
"""HDF5's name for itself."""


def use_hdf5_itself() -> None:
    """Take the connector out of the environment, before h5py or netCDF4 is imported.

    HDF5 reads the variable once, when it is loaded. So UnsupportedError is raised if it is set and one of these is
    already loaded.
    """
    connector = os.environ.get(CONNECTOR_VARIABLE, "").strip()
    if connector in ("", _NATIVE):
        return
    loaded = [name for name in _LIBRARIES if name in sys.modules]
    if loaded:
        raise UnsupportedError(
            f"{CONNECTOR_VARIABLE} is set to {connector!r}, and {loaded[0]} is loaded already, so HDF5 may use that "
            "connector: import or export in a process without the variable"
        )
    forget_connector()


def forget_connector() -> None:
    """Take the connector out of the environment of this process and of those that it starts."""
    os.environ.pop(CONNECTOR_VARIABLE, None)
