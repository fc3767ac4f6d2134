"""The servers that bench/server/peers.py compares, each started on loopback with the same variable.

Every class starts its server, writes the variable of `values.npy`, and gives readers. A class has:

- `columns`: one for each chunk shape;
- `port` and `pids`: the TCP port, and the server's processes;
- `open(column, port)`: a function that reads a selection through a port, which may be a relay's;
- `close()`: ends the server.

Run as a program, this file is a node of HSDS. Its `published` is the application of xpublish.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Read = Callable[[Any], Array]
"""Reads a selection: a tuple of slices and integers, or an array of (points, 3) cells."""
FOLDER = "DRYSTONE_BENCH_PEERS"
"""The environment variable that names the folder to uvicorn's workers."""


def free_port() -> int:
    """A TCP port of loopback that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


@dataclass
class Processes:
    """The processes of one server, which end together."""

    log: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str, **environment: str) -> None:
        """Starts one; it writes to the log."""
        with self.log.open("ab") as log:
            self.running.append(
                subprocess.Popen(
                    command,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **environment},
                    cwd=self.log.parent,
                    start_new_session=True,
                )
            )

    def pids(self) -> list[int]:
        """The processes and their children."""
        return [pid for one in self.running for pid in family(one.pid)]

    def wait(self, url: str, what: bytes, seconds: float = 90) -> None:
        """Waits for a page that contains `what`."""
        until = time.monotonic() + seconds
        while True:
            try:
                with urllib.request.urlopen(url, timeout=10) as reply:
                    if what in reply.read():
                        return
            except OSError:
                pass
            ended = [one.returncode for one in self.running if one.poll() is not None]
            if ended or time.monotonic() > until:
                tail = self.log.read_text(errors="replace").strip().splitlines()[-1:]
                why = "the server ended" if ended else f"no answer in {seconds:.0f} s"
                raise RuntimeError(f"{why}: {' '.join(tail)}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Ends all of them."""
        for one in self.running:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGTERM)
        for one in self.running:
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()


class Drystone:
    """`drystone serve` in TCP, with a container of one block as it is by default, and one in chunks."""

    def __init__(self, folder: Path, edge: int) -> None:
        import drystone as dry
        from server_rig import ALL, Server

        values, side = np.load(folder / "values.npy"), edge // 8
        self._names = {"Drystone": "run42", f"Drystone, {side}^3": "scratch/chunked.dry"}
        self.columns = tuple(self._names)
        (folder / "scratch").mkdir()
        for path, chunks in (("run42.dry", None), ("scratch/chunked.dry", (side, side, side))):
            with dry.create(str(folder / path)) as c, c.writer() as w:
                c.create_variable("T", "f4", shape=values.shape, chunks=chunks)
                w.put("T", values)
        self._dry = dry
        self._server = Server(folder)
        self._token = self._server.token(*ALL)
        self.port = self._server.port
        assert self._server.process is not None
        self.pids = family(self._server.process.pid)

    def open(self, column: str, port: int) -> Read:
        """A reader through a port."""
        container = self._dry.open(f"dry://127.0.0.1:{port}/{self._names[column]}", token=self._token)
        variable = container["T"]

        def read(selection: Any) -> Array:
            found = variable[selection] if isinstance(selection, tuple) else variable.read_points(selection)
            return np.asarray(found)

        return read

    def close(self) -> None:
        """Ends the server."""
        self._server.stop()


class Hsds:
    """HSDS with POSIX storage, read and written by h5pyd."""

    data_nodes = 2

    def __init__(self, folder: Path, edge: int) -> None:
        side = edge // 4
        # The server accepts chunks of 1 to 4 MiB without changing them.
        self._chunks = {
            f"HSDS, {side}^3": (side, side, side),
            f"HSDS, {2 * side} x {2 * side} x {side}": (2 * side, 2 * side, side),
        }
        self.columns = tuple(self._chunks)
        self.port = free_port()
        root = folder / "hsds"
        (root / "peers").mkdir(parents=True)
        endpoint = f"http://127.0.0.1:{self.port}"
        data = [f"http://127.0.0.1:{free_port()}" for _ in range(self.data_nodes)]
        common = [
            "--standalone", f"--dn_urls={','.join(data)}", f"--hsds_endpoint={endpoint}", f"--root_dir={root}",
            "--bucket_name=peers", "--log_level=ERROR", "--chunk_mem_cache_size=512m", "--password_file=",
            "--hs_username=peers", "--hs_password=peers", "--admin_user=peers",
        ]  # fmt: skip
        self._processes = Processes(folder / "hsds.log")
        node = (sys.executable, __file__)
        try:
            for n, _ in enumerate(data):
                self._processes.start(*node, "--node_type=dn", f"--node_number={n}", *common)
            self._processes.start(*node, "--node_type=sn", f"--sn_url={endpoint}", *common)
            self._processes.wait(f"{endpoint}/about", b'"READY"')
            self._write(np.load(folder / "values.npy"))
        except BaseException:
            self.close()
            raise
        self.pids = self._processes.pids()

    def _account(self, port: int) -> dict[str, str]:
        return {"endpoint": f"http://127.0.0.1:{port}", "username": "peers", "password": "peers"}

    def _domain(self, column: str) -> str:
        return f"/home/peers/{'x'.join(map(str, self._chunks[column]))}.h5"

    def _write(self, values: Array) -> None:
        import h5pyd

        for folder in ("/home/", "/home/peers/"):
            h5pyd.Folder(folder, mode="w", **self._account(self.port)).close()
        for column, chunks in self._chunks.items():
            with h5pyd.File(self._domain(column), "w", **self._account(self.port)) as file:
                file.create_dataset("T", data=values, chunks=chunks)

    def open(self, column: str, port: int) -> Read:
        """A reader through a port."""
        import h5pyd

        dataset = h5pyd.File(self._domain(column), "r", **self._account(port))["T"]
        assert tuple(dataset.chunks) == self._chunks[column], f"chunks became {dataset.chunks}"

        def read(selection: Any) -> Array:
            if isinstance(selection, tuple):
                return np.asarray(dataset[selection])
            return np.asarray(dataset.points[[tuple(map(int, cell)) for cell in selection]])

        return read

    def close(self) -> None:
        """Ends the server."""
        self._processes.stop()


class Xpublish:
    """xpublish with its Zarr plugin under uvicorn, read by Zarr-Python."""

    workers = 2

    def __init__(self, folder: Path, edge: int) -> None:
        self._sides = {f"xpublish, {side}^3": side for side in (edge // 4, edge // 2)}
        self.columns = tuple(self._sides)
        self.port = free_port()
        self._processes = Processes(folder / "xpublish.log")
        try:
            self._processes.start(
                sys.executable, "-m", "uvicorn", "--factory", "peer_servers:published",
                "--app-dir", str(Path(__file__).parent),
                "--host", "127.0.0.1", "--port", str(self.port), "--workers", str(self.workers), "--loop", "uvloop",
                "--http", "httptools", "--log-level", "error", "--no-access-log",
                **{FOLDER: str(folder)},
            )  # fmt: skip
            for side in self._sides.values():
                url = f"http://127.0.0.1:{self.port}/datasets/{side}/zarr/zarr.json"
                self._processes.wait(url, b"consolidated_metadata")
        except BaseException:
            self.close()
            raise
        self.pids = self._processes.pids()

    def open(self, column: str, port: int) -> Read:
        """A reader through a port."""
        import zarr
        from obstore.store import HTTPStore
        from zarr.storage import ObjectStore

        url = f"http://127.0.0.1:{port}/datasets/{self._sides[column]}/zarr"
        store = ObjectStore(HTTPStore.from_url(url, client_options={"allow_http": True}), read_only=True)
        array: Any = zarr.open_consolidated(store, mode="r")["T"]
        assert array.chunks == (self._sides[column],) * 3, f"chunks became {array.chunks}"

        def read(selection: Any) -> Array:
            if isinstance(selection, tuple):
                return np.asarray(array[selection])
            return np.asarray(array.vindex[tuple(selection.T)])

        return read

    def close(self) -> None:
        """Ends the server."""
        self._processes.stop()


def published() -> Any:
    """The application of one worker of uvicorn: the variable in both chunk shapes, held in memory."""
    import xarray
    import xpublish

    values = np.load(Path(os.environ[FOLDER]) / "values.npy")
    datasets = {}
    for side in (len(values) // 4, len(values) // 2):
        dataset = xarray.Dataset({"T": (("z", "y", "x"), values)})
        dataset["T"].encoding = {"chunks": (side, side, side), "compressors": None}
        datasets[str(side)] = dataset
    return xpublish.Rest(datasets, cache_kws={"available_bytes": 1 << 30}).app


def node() -> None:
    """One process of HSDS, as its own launcher starts it, but bound to loopback: it would listen on all interfaces."""
    from aiohttp import web

    web.run_app = functools.partial(web.run_app, host="127.0.0.1")
    from hsds.node_runner import main as run_node

    run_node()


if __name__ == "__main__":
    node()
