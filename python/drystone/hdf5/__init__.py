"""HDF5 programs unchanged: where the plug-in for HDF5 is, and the environment that makes HDF5 use it.

The plug-in (a VOL connector, docs/guide/hdf5.md) is in this package, alone in a folder, because HDF5 loads every library that it finds in a
folder of plug-ins. `eval "$(drystone hdf5-env)"` sets the same variables in a shell.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CONNECTOR = "drystone"
"""The name by which HDF5 knows the connector."""

CONNECTOR_VARIABLE = "HDF5_VOL_CONNECTOR"
PATH_VARIABLE = "HDF5_PLUGIN_PATH"

__all__ = ["CONNECTOR", "environment", "plugin"]


def plugin() -> Path:
    """The plug-in's file; it need not exist where the package was built without it."""
    return Path(__file__).parent / "plugin" / "libdrystone_hdf5_vol.so"


def environment(options: str = "", base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The two variables that make HDF5 programs started with them use Drystone.

    `options` is the connector's configuration string, as in `"publish=1;buffer=64"` (docs/guide/hdf5.md). Folders that the environment `base`
    (the process's, where None) already names for plug-ins stay, behind ours.
    """
    given = os.environ if base is None else base
    ours = str(plugin().parent)
    others = [folder for folder in given.get(PATH_VARIABLE, "").split(":") if folder and folder != ours]
    return {
        CONNECTOR_VARIABLE: f"{CONNECTOR} {options}".strip(),
        PATH_VARIABLE: ":".join([ours, *others]),
    }
