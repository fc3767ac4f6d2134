"""Drystone as a backend of xarray: `xr.open_dataset(path, engine="drystone")` and `ds.drystone.to_container(path)`.

Importing this package, or opening a dataset with the engine, registers the accessor `drystone` of datasets and trees.
"""

from drystone.xarray.accessor import DatasetAccessor, TreeAccessor
from drystone.xarray.entrypoint import DrystoneBackendEntrypoint
from drystone.xarray.store import DrystoneStore

__all__ = ["DatasetAccessor", "DrystoneBackendEntrypoint", "DrystoneStore", "TreeAccessor"]
