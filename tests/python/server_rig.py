"""A real server in a separate process, with a container `run42` and a root `scratch`; and containers for it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import drystone as dry
import numpy as np

ALL = ("storage.read:/", "storage.create:/", "storage.modify:/")


def drystone(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line."""
    command = [sys.executable, "-m", "drystone", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def values(step: int, shape: tuple[int, ...] = (40, 30)) -> np.ndarray:
    """The values of a step that `fill` writes: different in each cell and step."""
    return (np.arange(np.prod(shape), dtype="f8") + 1000 * step).reshape(shape)


def fill(url: str | Path, steps: int = 3, **options: Any) -> None:
    """Make a container with the variable `T`, with axes `y` and `x` and this many steps, and commit it."""
    with dry.create(url, **options) as c:
        c.create_variable("T", "f8", shape=(40, 30), dims=("y", "x"), steps=True, attrs={"units": "K"})
        with c.writer() as w:
            for _ in range(steps):
                with w.step() as t:
                    w.put("T", values(t))
        c.commit()


def certificate(folder: Path, name: str = "server") -> str:
    """Make NAME.pem and NAME.key for this machine; returns the configuration that uses them."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", f"{name}.key", "-out", f"{name}.pem"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return f'[tls]\ncertificate = "{name}.pem"\nkey = "{name}.key"'


@contextlib.contextmanager
def served(folder: Path, more: str = "", tls: str = "") -> Iterator[Server]:
    """A server for the duration of a test or module; it must end successfully."""
    server = Server(folder, more, tls)
    yield server
    assert server.stop() == 0


class Server:
    """`drystone serve` in a folder; can be killed and restarted at the same addresses."""

    def __init__(self, folder: Path, more: str = "", tls: str = "") -> None:
        self.folder = folder
        (folder / "scratch").mkdir(exist_ok=True)
        self.port = 0
        self.more = more
        self.tls = tls
        self.tokens = folder / "tokens.toml"
        self.tokens.touch()
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        configuration = self.folder / "server.toml"
        configuration.write_text(
            f'listen = ["127.0.0.1:{self.port}", "unix:server.sock"]\ntokens = "tokens.toml"\n{self.more}\n{self.tls}\n'
            '[containers]\nrun42 = "run42.dry"\n[roots]\nscratch = "scratch"\n'
        )
        command = [sys.executable, "-m", "drystone", "serve", str(configuration)]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("listening on 127.0.0.1:"), (self.folder / "log").read_text()
        self.port = int(first.rsplit(":", 1)[1])
        assert self.process.stdout.readline().startswith("listening on unix:")

    def token(self, *scopes: str, expires: str | None = None) -> str:
        more = [part for scope in scopes for part in ("--scope", scope)]
        more += [] if expires is None else ["--expires", expires]
        done = drystone("token", "create", self.tokens, *more)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def url(self) -> str:
        return f"dry://127.0.0.1:{self.port}"

    @property
    def unix(self) -> str:
        return f"drys+unix://{self.folder / 'server.sock'}:"

    def ask(
        self,
        path: str,
        token: str | None = None,
        method: str = "GET",
        body: bytes | None = None,
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request; returns status, headers and body of the reply."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=body, method=method)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return reply.status, _lower(reply.headers), reply.read()
        except urllib.error.HTTPError as error:
            return error.code, _lower(error.headers), error.read()

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> int:
        """Stop it as an operator does; returns the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(timeout=40)
        self.process.stdout.close()
        return code


class Proxy:
    """A relay that counts the bytes in each direction, and limits replies to `rate` bytes per second.

    With `delay`, replies begin that many seconds later. `rounds` counts round trips: requests sent before any of them
    could be answered count as one. `lines` are the methods and paths of all requests. `hints` are the round trips that
    start with the hint of the newest manifest. With `older`, it acts as a server without methods.
    """

    def __init__(self, port: int, rate: float | None = None, older: bool = False, delay: float = 0.0) -> None:
        self.target, self.rate, self.older, self.delay = port, rate, older, delay
        self.rounds, self._round, self.hints = 0, 0.0, 0
        self.lines: list[str] = []
        self.sent = self.received = self.requests = self.refused = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pair, args=(client,), daemon=True).start()

    def _pair(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            asked = threading.Event()
            back = threading.Thread(target=self._relay, args=(server, client, False, asked), daemon=True)
            back.start()
            self._relay(client, server, True, asked)
            back.join()

    def _relay(
        self, source: socket.socket, sink: socket.socket, is_request: bool, asked: threading.Event
    ) -> None:
        try:
            while piece := source.recv(1 << 16):
                if is_request:
                    asked.set()
                with self._lock:
                    if is_request:
                        self.sent += len(piece)
                        self.requests += piece.count(b" HTTP/1.1\r\n")
                        heads = re.findall(rb"([A-Z]+ /\S+) HTTP/1.1\r\n", piece)
                        self.lines += [head.decode() for head in heads]
                        if b" HTTP/1.1\r\n" in piece and time.monotonic() - self._round >= self.delay:
                            self.rounds, self._round = self.rounds + 1, time.monotonic()
                            self.hints += b"PUT " in piece and b"/o/manifest/hint HTTP" in piece
                        if self.older and b"dry.version" in piece:
                            self.refused += 1
                            text = b"the request is an ask that this version does not know\n"
                            head = "HTTP/1.1 400 Bad Request\r\nDrystone-Status: invalid\r\nContent-Length: {}\r\n\r\n"
                            source.sendall(head.format(len(text)).encode() + text)
                            continue
                    else:
                        self.received += len(piece)
                        if self.rate is not None:
                            time.sleep(len(piece) / self.rate)
                if not is_request and asked.is_set():  # the first piece of a reply
                    asked.clear()
                    time.sleep(self.delay)
                sink.sendall(piece)
        except OSError:
            pass  # the other end has gone
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @property
    def bytes(self) -> int:
        with self._lock:
            return self.sent + self.received

    def close(self) -> None:
        self._listener.close()


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
