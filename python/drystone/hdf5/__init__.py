"""HDF5 programs without changes: the path of the HDF5 plug-in, and the environment that makes HDF5 use it.

The plug-in (a VOL connector, docs/guide/hdf5.md) is in this package, in a folder of its own, because HDF5 loads every
library in a plug-in folder. `eval "$(drystone hdf5-env)"` sets the same variables in a shell.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CONNECTOR = "drystone"
"""HDF5's name for the connector."""

CONNECTOR_VARIABLE = "HDF5_VOL_CONNECTOR"
PATH_VARIABLE = "HDF5_PLUGIN_PATH"

__all__ = ["CONNECTOR", "environment", "plugin"]


def plugin() -> Path:
    """The plug-in's file; it does not exist if the package was built without it."""
    return Path(__file__).parent / "plugin" / "libdrystone_hdf5_vol.so"


def environment(options: str = "", base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The two environment variables that make HDF5 programs use Drystone.

    `options` is the connector's configuration string, such as `"publish=1;buffer=64"` (docs/guide/hdf5.md). Plug-in
    folders already named in the environment `base` (None: the process's) are kept after ours.
    """
    given = os.environ if base is None else base
    ours = str(plugin().parent)
    others = [folder for folder in given.get(PATH_VARIABLE, "").split(":") if folder and folder != ours]
    return {
        CONNECTOR_VARIABLE: f"{CONNECTOR} {options}".strip(),
        PATH_VARIABLE: ":".join([ours, *others]),
    }
