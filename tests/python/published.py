"""Publishing in tests, and what readers without Drystone find."""

import os
from pathlib import Path

import numpy as np
import tensorstore as ts
import zarr


def publish(c, **options):
    return c.publish(progress=None, **options)


def by_zarr(c, path):
    return zarr.open_group(Path(c.path) / "zarr", mode="r")[path][...]


def by_tensorstore(c, path):
    folder = os.fspath(Path(c.path) / "zarr" / path)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": folder}}
    return np.asarray(ts.open(spec, open=True, read=True).result().read().result())


def files(c):
    """Everything below `zarr/`, with inodes: a file that was rewritten has another one."""
    root = Path(c.path) / "zarr"
    return {str(f.relative_to(root)): f.stat().st_ino for f in root.rglob("*") if f.is_file()}


def shards(c):
    return {name: inode for name, inode in files(c).items() if not name.endswith("zarr.json")}
