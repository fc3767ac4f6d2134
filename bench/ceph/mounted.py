"""CephFS of a test cluster, mounted by FUSE without caches, so that reads go to the storage daemons."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import ceph

PROGRAMS = ("ceph-mds", "ceph-fuse", "fusermount3")


def missing() -> str:
    """What is not installed, as a sentence; empty if CephFS can be mounted."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(lacking)} not installed (apt-get install ceph-mds ceph-fuse fuse3)" if lacking else ""


class Mounted:
    """A file system in two pools of a cluster, mounted at a folder."""

    def __init__(self, cluster: ceph.Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        for pool in ("files", "names"):
            cluster.pool(pool, application="cephfs")
        cluster.command(prefix="fs new", fs_name="files", metadata="names", data="files")
        data = cluster.folder / "mds.a"
        data.mkdir()
        self._metadata = cluster.daemon("mds.a", "ceph-mds", "-i", "a", "-f", f"--mds_data={data}")
        self._wait(self._is_active, "the metadata server is not active")
        folder.mkdir()
        # Neither the kernel nor the client keeps what was read or written: a collective read of the same file would not
        # leave the memory.
        plain = ["--client_oc=false", "--fuse_disable_pagecache=true", "--client_mountpoint=/"]
        self._client = cluster.daemon("client.a", "ceph-fuse", "-f", "--id", "admin", *plain, str(folder))
        self._wait(folder.is_mount, "CephFS is not mounted")

    def _is_active(self) -> bool:
        said: dict[str, Any] = json.loads(self.cluster.command(prefix="mds stat", format="json"))
        systems = said.get("fsmap", said).get("filesystems", [])
        ranks = [info for system in systems for info in system["mdsmap"]["info"].values()]
        return any(info["state"] == "up:active" for info in ranks)

    def _wait(self, done: Any, otherwise: str) -> None:
        deadline = time.monotonic() + 60
        while not done():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{otherwise}; see {self.cluster.folder}/log")
            time.sleep(0.1)

    def __enter__(self) -> Path:
        return self.folder

    def __exit__(self, *_: object) -> None:
        subprocess.run(["fusermount3", "-u", "-z", str(self.folder)], check=False)
        # Their data is discarded, so they need not stop in order.
        for process in (self._client, self._metadata):
            process.kill()
            process.wait(30)
