"""What a server on the same machine moves, and how fast: beside a raw copy through a socket, and on links that are the limit.

    make setup && .venv/bin/python bench/server/run.py [--quick] [--document]

The questions, with their bars:

- Bulk: a variable is read and written whole through TCP without encryption. At least 0.8 of a raw copy of the same bytes.
- Small: 64 KiB from a block that is stored as it is, over a Unix socket: at most 200 us at the median.
- Bytes: a plane across the stored order, one field of three, and every eighth plane, with tables of blocks at hand. Requests and replies
  together at most 1.02 bytes for each that is wanted and 1 KiB; where ranges move at least 3 times what is wanted, at most 0.6 of their time.
- Names: 1,000 attributes and 200 variables in at most 3 round trips.

Bytes and round trips are counted by a relay between client and server, which also limits the rate. They do not depend on the machine;
times do. Clients and server share the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import drystone as dry  # noqa: E402
from server_rig import ALL, Proxy, Server  # noqa: E402

DOCUMENT = ROOT / "docs" / "benchmarks" / "server.md"
CUBE = (256, 256, 256)
RECORD = np.dtype([("u", "f4"), ("v", "f4"), ("w", "f4")])
SELECTIONS = {
    "a plane across the stored order": ("c['T'][0, :, :, 130]", "c['T'][0, :, :, 131]"),
    "one field of three": ("c['R'][0, ..., :1]['v']", "c['R']['v'][0]"),
    "every eighth plane": ("c['T'][0, 1::8]", "c['T'][0, ::8]"),
}
LINKS = {"1 Gbit/s": 125e6, "100 Mbit/s": 12.5e6}


def raw_copy(size: int) -> float:
    """Bytes per second that one process sends and another receives through a TCP socket."""
    program = (
        "import socket, sys\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "data = bytes(1 << 20)\n"
        "for _ in range(int(sys.argv[2]) >> 20): s.sendall(data)\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        sender = subprocess.Popen([sys.executable, "-c", program, str(port), str(size)])
        peer, _ = listener.accept()
        buffer, got, began = bytearray(1 << 20), 0, time.perf_counter()
        with peer:
            while n := peer.recv_into(buffer):
                got += n
        seconds = time.perf_counter() - began
        sender.wait()
    assert got == size
    return got / seconds


def child(url: str, first: str, counted: str, out: Path) -> None:
    """One reader: reads once, so that tables and the link are known, waits for a line, and reads what is counted."""
    with dry.open(url) as c:
        eval(first, {"c": c})
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        values = eval(counted, {"c": c})
        print(json.dumps([time.perf_counter() - began, int(values.nbytes)]), flush=True)
        np.save(out, values)


def counted(
    port: int, token: str, programs: str, selection: tuple[str, str], rate: float, out: Path
) -> tuple[float, int, int]:
    """Seconds, bytes wanted and bytes moved of a selection through a relay."""
    proxy = Proxy(port, rate=rate)
    url = f"dry://127.0.0.1:{proxy.port}/run42"
    command = [sys.executable, "-W", "ignore", __file__, "--child", url, *selection, str(out)]
    environment = {**os.environ, "BEARER_TOKEN": token, "DRYSTONE_PROGRAMS": programs}
    reader = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    before = proxy.bytes
    reader.stdin.write("\n")
    reader.stdin.flush()
    seconds, wanted = json.loads(reader.stdout.readline())
    moved = proxy.bytes - before
    assert reader.wait() == 0
    proxy.close()
    return seconds, wanted, moved


def prepare(folder: Path, edge: int) -> None:
    """Writes the container."""
    noise = np.random.default_rng(3)
    shape = (edge, edge, edge)
    with dry.create(str(folder / "run42.dry")) as c:
        c.create_variable("T", "f4", shape=shape, steps=True)
        c.create_variable("R", RECORD, shape=shape, steps=True)
        record = np.zeros(shape, RECORD)
        for name in RECORD.names or ():
            record[name] = noise.random(shape, "f4")
        with c.writer() as w, w.step():
            w.put("T", noise.random(shape, "f4"))
            w.put("R", record)
        c.commit()


def bulk(server: Server, token: str, rows: list[list[str]], rounds: int) -> None:
    """A variable, whole, beside a raw copy."""
    raw = median(raw_copy(256 << 20) for _ in range(rounds))
    rows.append(["raw copy through TCP", f"{raw / 1e6:.0f} MB/s", "1"])
    with dry.open(f"{server.url}/run42", token=token) as c:
        T = c["T"]
        T[0]
        speeds = []
        for _ in range(rounds):
            began = time.perf_counter()
            values = T[0]
            speeds.append(values.nbytes / (time.perf_counter() - began))
    rows.append(
        ["read of a variable", f"{median(speeds) / 1e6:.0f} MB/s", f"{median(speeds) / raw:.2f} (bar 0.8)"]
    )
    with dry.create(f"{server.url}/scratch/bulk.dry", token=token) as c:
        c.create_variable("T", "f4", shape=values.shape, steps=True)
        speeds = []
        for _ in range(rounds):
            began = time.perf_counter()
            with c.writer() as w, w.step():
                w.put("T", values)
            c.commit()
            speeds.append(values.nbytes / (time.perf_counter() - began))
    rows.append(
        ["write and commit", f"{median(speeds) / 1e6:.0f} MB/s", f"{median(speeds) / raw:.2f} (bar 0.8)"]
    )


def small(server: Server, rows: list[list[str]]) -> None:
    """A small read over a Unix socket."""
    with dry.open(f"{server.unix}/run42") as c:
        T = c["T"]
        edge = T.shape[1]
        times = []
        for n in range(200):
            at = (n * 37) % (edge - 16)
            began = time.perf_counter()
            T[0, at : at + 1, :, :64]
            times.append(time.perf_counter() - began)
    rows.append(["64 KiB over a Unix socket, median", f"{median(times) * 1e6:.0f} us", "bar 200 us"])


def names(server: Server, token: str) -> tuple[int, int]:
    """Round trips to make many names, and to read them."""
    proxy = Proxy(server.port, delay=0.03)
    url = f"dry://127.0.0.1:{proxy.port}/scratch/names.dry"
    dry.create(url, token=token).close()
    with dry.open(url, "r+", token=token) as c:
        before = proxy.rounds
        with c.batch():
            for n in range(200):
                c.create_variable(f"v{n}", "f4", shape=(4,), attrs={f"a{m}": m for m in range(5)})
        made = proxy.rounds - before
    before = proxy.rounds
    with dry.open(url, token=token) as c:
        assert sum(len(dict(c[name].attrs)) for name in c.variables) == 1000
        read = proxy.rounds - before
    proxy.close()
    return made, read


def table(head: list[str], rows: list[list[str]]) -> str:
    """Rows as a table of Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def main() -> None:
    """Asks all questions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a smaller variable, fewer rounds")
    parser.add_argument("--document", action="store_true", help=f"writes the figures to {DOCUMENT.name}")
    parser.add_argument(
        "--build", default="not said", help="how the library was built: stands beside the figures"
    )
    options = parser.parse_args()
    rounds, edge = (3, 128) if options.quick else (7, CUBE[0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, edge)
        server = Server(folder)
        token = server.token(*ALL)
        speeds: list[list[str]] = []
        bulk(server, token, speeds, rounds)
        small(server, speeds)
        moved: list[list[str]] = []
        for link, rate in LINKS.items():
            for what, selection in SELECTIONS.items():
                selection = tuple(
                    text.replace("131", str(edge // 2 + 3)).replace("130", str(edge // 2 + 2))
                    for text in selection
                )
                found: dict[str, Any] = {}
                for programs in ("never", "auto"):
                    found[programs] = counted(
                        server.port, token, programs, selection, rate, folder / f"{programs}.npy"
                    )
                assert np.array_equal(np.load(folder / "never.npy"), np.load(folder / "auto.npy"))
                (slow, wanted, many), (fast, _, few) = found["never"], found["auto"]
                moved.append(
                    [
                        link,
                        what,
                        str(wanted),
                        f"{many / wanted:.2f}",
                        f"{few / wanted:.4f}",
                        f"{slow * 1e3:.0f}",
                        f"{fast * 1e3:.0f}",
                        f"{fast / slow:.2f}",
                    ]
                )
        made, read = names(server, token)
        server.stop()
    head = [
        "link",
        "what",
        "bytes wanted",
        "moved by ranges",
        "moved as the engine decides",
        "ms by ranges",
        "ms",
        "ratio",
    ]
    page = "\n\n".join(
        [
            f"{platform.machine()}, {os.cpu_count()} processors, shared by client, relay and server; build: {options.build}; variable of {edge}^3 `f4`.",
            table(["what", "figure", "of the raw copy"], speeds),
            table(head, moved),
            f"200 variables with 1,000 attributes: {made} round trips to make them, {read} to open the container and read all (bar 3).",
        ]
    )
    print(page)
    if options.document:
        text = DOCUMENT.read_text()
        before, rest = text.split("<!-- figures -->", 1)
        behind = rest.split("<!-- end -->", 1)[1]
        DOCUMENT.write_text(f"{before}<!-- figures -->\n{page}\n<!-- end -->{behind}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _, _, address, first_read, counted_read, to = sys.argv
        child(address, first_read, counted_read, Path(to))
    else:
        main()
