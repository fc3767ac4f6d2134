"""The speed of a server on the same machine, beside a raw copy through a socket, and on slow links.

    make setup && .venv/bin/python bench/server/run.py [--quick] [--document]

The questions, with their bars:

- Bulk: a variable is read and written whole through TCP, without encryption and with TLS 1.3. At least 0.8 of a raw
  copy of the same bytes, with TLS 0.6 of one that is encrypted. Beside it the same container on this machine without a
  server: what the medium takes.
- Small: 64 KiB from a block that is stored as it is, over a Unix socket: at most 200 us at the median.
- Regions: the release of a mapped region of 256 MiB over a Unix socket returns within 100 us at the median, of 4 KiB
  within 60 us. Steps that are computed while earlier ones are written take at most a quarter of the time of steps that
  are written durably one by one.
- Overload: 64 clients ask for as much as they can, of a server that works on 4 requests at once. Throughput at least
  0.9 of that of 4 clients, no call fails, the busiest client gets at most twice what the idlest gets, and the server
  takes at most 64 MiB more memory.
- In transit: a minimum and maximum, a histogram and means of blocks, computed when 256 MiB are released, take at most
  0.15 more until these are committed.
- Operation: /metrics within 5 ms.
- Bytes: a plane across the stored order, one field of three, and every eighth plane, with tables of blocks at hand.
  Requests and replies together at most 1.02 bytes for each that is wanted and 1 KiB; where ranges move at least 3 times
  what is wanted, at most 0.6 of their time.
- Names: 1,000 attributes and 200 variables in at most 3 round trips.

Bytes and round trips are counted by a relay between client and server, which also limits the rate. They do not depend
on the machine; times do. Clients and server share the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import drystone as dry  # noqa: E402
from server_rig import ALL, Proxy, Server, certificate  # noqa: E402

DOCUMENT = ROOT / "docs" / "benchmarks" / "server.md"
CUBE = (256, 256, 256)
RECORD = np.dtype([("u", "f4"), ("v", "f4"), ("w", "f4")])
SELECTIONS = {
    "a plane across the stored order": ("c['T'][0, :, :, 130]", "c['T'][0, :, :, 131]"),
    "one field of three": ("c['R'][0, ..., :1]['v']", "c['R']['v'][0]"),
    "every eighth plane": ("c['T'][0, 1::8]", "c['T'][0, ::8]"),
}
LINKS = {"1 Gbit/s": 125e6, "100 Mbit/s": 12.5e6}


def raw_copy(size: int, certified: Path | None = None) -> float:
    """Bytes per second from one process to another through a TCP socket; with a certificate through TLS 1.3."""
    program = (
        "import socket, ssl, sys\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "if len(sys.argv) > 3:\n"
        "    s = ssl.create_default_context(cafile=sys.argv[3]).wrap_socket(s, server_hostname='localhost')\n"
        "data = bytes(1 << 20)\n"
        "for _ in range(int(sys.argv[2]) >> 20): s.sendall(data)\n"
        # A socket that is closed with tickets of TLS unread would take back what it sent.
        "try: s.recv(1)\n"
        "except OSError: pass\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        more = [] if certified is None else [str(certified / "server.pem")]
        sender = subprocess.Popen([sys.executable, "-c", program, str(port), str(size), *more])
        peer, _ = listener.accept()
        if certified is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_cert_chain(certified / "server.pem", certified / "server.key")
            peer = context.wrap_socket(peer, server_side=True)
        buffer, got, began = bytearray(1 << 20), 0, time.perf_counter()
        with peer:
            while got < size and (n := peer.recv_into(buffer)):
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


def speed(rounds: int, size: int, work: Callable[[], object]) -> float:
    """Bytes per second at the median."""
    speeds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        speeds.append(size / (time.perf_counter() - began))
    return median(speeds)


def read_and_write(source: str, target: str, rounds: int, **options: Any) -> tuple[float, float]:
    """Bytes per second of a variable that is read whole, and of the same that is written and committed."""
    with dry.open(source, **options) as c:
        T = c["T"]
        values = T[0]
        reads = speed(rounds, values.nbytes, lambda: T[0])

    def write() -> None:
        with c.writer() as w, w.step():
            w.put("T", values)
        c.commit()

    with dry.create(target, **options) as c:
        c.create_variable("T", "f4", shape=values.shape, steps=True)
        writes = speed(rounds, values.nbytes, write)
    return reads, writes


def bulk(folder: Path, server: Server, token: str, rows: list[list[str]], rounds: int) -> None:
    """A variable, whole: through TCP and through TLS, each beside a raw copy, and without a server."""
    apart = folder / "tls"  # its socket would be the other server's
    apart.mkdir()
    (apart / "run42.dry").symlink_to(folder / "run42.dry")
    shutil.copy(folder / "tokens.toml", apart)
    tls = Server(apart, tls=certificate(apart))
    encrypted = {"token": token, "storage_options": {"ca_certificate": str(apart / "server.pem")}}
    ways: list[tuple[str, str, Path | None, str, dict[str, Any]]] = [
        ("TCP", server.url, None, "0.8", {"token": token}),
        ("TLS 1.3", f"drys://localhost:{tls.port}", apart, "0.6", encrypted),
    ]
    for name, url, certified, bar, options in ways:
        raw_copy(1 << 30, certified)  # the first ones find neither memory nor processors awake
        raw = median(raw_copy(1 << 30, certified) for _ in range(rounds))
        rows.append([f"raw copy through {name}", f"{raw / 1e6:.0f} MB/s", "1"])
        target = f"{url}/scratch/bulk{bar}.dry"
        found = read_and_write(f"{url}/run42", target, rounds, **options)
        for what, rate in zip(("read of a variable", "write and commit"), found, strict=True):
            rows.append([f"{what}, {name}", f"{rate / 1e6:.0f} MB/s", f"{rate / raw:.2f} (bar {bar})"])
    tls.stop()
    found = read_and_write(str(folder / "run42.dry"), str(folder / "scratch" / "near.dry"), rounds)
    for what, rate in zip(("read of a variable", "write and commit"), found, strict=True):
        rows.append([f"{what}, no server", f"{rate / 1e6:.0f} MB/s", "no bar: the medium"])


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


def bare_answer(size: int) -> float:
    """Seconds from a 100-byte message to another process's answer through a bare socket, after memory was filled."""
    echo = (
        "import socket, sys\n"
        "s = socket.socket(fileno=int(sys.argv[1]))\n"
        "while m := s.recv(4096): s.sendall(m)\n"
    )
    ours, theirs = socket.socketpair()
    other = subprocess.Popen([sys.executable, "-c", echo, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()
    memory, times = np.zeros(size, "u1"), []
    for n in range(20):
        memory.fill(n)
        began = time.perf_counter()
        ours.sendall(b"x" * 100)
        ours.recv(4096)
        times.append(time.perf_counter() - began)
    ours.close()
    other.wait()
    return median(times[2:])


def regions(server: Server, rows: list[list[str]], quick: bool) -> None:
    """Releases of mapped regions in shared memory, and steps that overlap with their writing."""
    for size, bar in ((64 << 20 if quick else 256 << 20, "100 us"), (4096, "60 us")):
        with dry.create(f"{server.unix}/scratch/release{size}.dry") as c:
            c.create_variable("T", "f8", shape=(size // 8,), steps=True)
            times, shared = [], False
            for step in range(5 if size > 4096 else 200):
                region = c["T"].map(step=step, mode="w")
                region.array[...] = step
                shared = region.shared
                began = time.perf_counter()
                transfer = region.release()
                times.append(time.perf_counter() - began)
                transfer.wait()
                region.close()
        assert shared or size == 4096
        what = f"release of {size >> 20} MiB in shared memory" if size > 4096 else "release of 4 KiB"
        rows.append([f"{what}, median", f"{median(times) * 1e6:.0f} us", f"bar {bar}"])
        rows.append(
            [
                "a message and its answer by a bare socket, after the same filling",
                f"{bare_answer(size) * 1e6:.0f} us",
                "no bar",
            ]
        )
    edge, steps = (1 << 20, 4) if quick else (4 << 20, 8)
    compute = np.linspace(0, 1, edge)
    seconds = {}
    for how in ("durable", "regions"):
        url = f"{server.unix}/scratch/overlap-{how}.dry"
        with dry.create(url, durability="durable" if how == "durable" else "async") as c:
            c.create_variable("T", "f8", shape=(edge,), steps=True)
            waited = 0.0
            for step in range(steps):
                if how == "durable":
                    values = np.sin(compute * step)
                    begun = time.perf_counter()
                    with c.writer() as w, w.step(step):
                        w.put("T", values)
                    c.commit()
                else:
                    region = c["T"].map(step=step, mode="w")
                    np.sin(compute * step, out=region.array)
                    begun = time.perf_counter()
                    region.release()
                    region.close()
                waited += time.perf_counter() - begun
            seconds[how] = waited
            if how == "regions":
                c.commit()
    ratio = seconds["durable"] / max(seconds["regions"], 1e-9)
    rows.append(
        [
            f"{steps} steps of {edge >> 17} MiB: the program waits, durable writes over releases",
            f"{seconds['durable'] * 1e3:.0f} / {seconds['regions'] * 1e3:.1f} ms",
            f"{ratio:.0f} x (bar 4, aim 20)",
        ]
    )


def transit(server: Server, rows: list[list[str]], quick: bool) -> None:
    """What results cost that are computed from released values before their commit."""
    edge = 128 if quick else 512
    shape = (edge, edge, 128)
    size = edge * edge * 128 * 8
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    for n in range(3):
        for how, found in seconds.items():
            with dry.create(f"{server.unix}/scratch/transit-{how}{n}.dry") as c:
                c.create_variable("T", "f8", shape=shape, steps=True)
                if how == "with":
                    for operation, options in (
                        ("min", {}),
                        ("max", {}),
                        ("histogram", {"into": "hist", "bins": 64, "low": 0, "high": 1}),
                        ("downsample", {"into": "small", "factor": 8}),
                    ):
                        c.on("T", operation, **options)
                region = c["T"].map(step=0, mode="w")
                region.array[...] = np.linspace(0, 1, 128)
                began = time.perf_counter()
                region.release()
                region.close()
                c.commit()
                found.append(time.perf_counter() - began)
    more = median(seconds["with"]) / median(seconds["without"]) - 1
    rows.append(
        [
            f"release and commit of {size >> 20} MiB, with results in transit over without",
            f"{median(seconds['with']) * 1e3:.0f} / {median(seconds['without']) * 1e3:.0f} ms",
            f"{more:+.2f} (bar 0.15)",
        ]
    )


def operation(server: Server, token: str, rows: list[list[str]]) -> None:
    """The page of counters."""
    connection = HTTPConnection("127.0.0.1", server.port)
    times = []
    for _ in range(100):
        began = time.perf_counter()
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        assert connection.getresponse().read()
        times.append(time.perf_counter() - began)
    connection.close()
    rows.append(["/metrics, median", f"{median(times) * 1e3:.2f} ms", "bar 5 ms"])


def memory(server: Server, which: str) -> int:
    """Bytes of memory of a server: `VmRSS` now, `VmHWM` at most."""
    assert server.process is not None
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith(f"{which}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(which)


def busy(url: str, token: str, seconds: float) -> None:
    """One client of many: reads as often as it can, and says how often."""
    with dry.open(url, token=token) as c:
        T = c["T"]
        T[0, 0]
        print("ready", flush=True)
        sys.stdin.readline()
        done, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            T[0, done % T.shape[1]]
            done += 1
        print(done, flush=True)


def crowd(server: Server, token: str, clients: int, seconds: float) -> list[int]:
    """Reads of each of so many clients at once; a call that fails ends its client, and this."""
    command = [sys.executable, "-W", "ignore", __file__, "--busy", f"{server.url}/run42", token, str(seconds)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    crowd = [subprocess.Popen(command, **pipes) for _ in range(clients)]
    for one in crowd:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in crowd:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    done = []
    for one in crowd:
        out, _ = one.communicate()
        assert one.returncode == 0, "a call failed"
        done.append(int(out))
    return done


def overload(folder: Path, rows: list[list[str]], quick: bool) -> None:
    """Many clients of a server that works on few requests at once."""
    server = Server(folder, more="[limits]\nrequests = 4\nqueue = 16\n")
    token = server.token(*ALL)
    seconds, many = (2.0, 16) if quick else (10.0, 64)
    before = memory(server, "VmRSS")
    few = sum(crowd(server, token, 4, seconds))
    found = crowd(server, token, many, seconds)
    rows.append(
        [
            f"reads per second of {many} clients, beside those of 4",
            f"{sum(found) / seconds:.0f} / {few / seconds:.0f}",
            f"{sum(found) / max(few, 1):.2f} (bar 0.9)",
        ]
    )
    rows.append(
        [
            "the busiest client over the idlest; no call failed",
            f"{max(found) / max(min(found), 1):.1f}",
            "bar 2",
        ]
    )
    rows.append(
        [
            "memory of the server, at most",
            f"{(memory(server, 'VmHWM') - before) / (1 << 20):.0f} MiB more",
            "bar 64 MiB",
        ]
    )
    server.stop()


def names(server: Server, token: str) -> tuple[int, int]:
    """Round trips to create many names, and to read them; no thread waits for the put of the hint."""
    proxy = Proxy(server.port, delay=0.03)
    url = f"dry://127.0.0.1:{proxy.port}/scratch/names.dry"
    dry.create(url, token=token).close()
    with dry.open(url, "r+", token=token) as c:
        before = proxy.rounds - proxy.hints
        with c.batch():
            for n in range(200):
                c.create_variable(f"v{n}", "f4", shape=(4,), attrs={f"a{m}": m for m in range(5)})
        made = proxy.rounds - proxy.hints - before
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
        bulk(folder, server, token, speeds, rounds)
        small(server, speeds)
        regions(server, speeds, options.quick)
        transit(server, speeds, options.quick)
        operation(server, token, speeds)
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
        overload(folder, speeds, options.quick)
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
            f"{platform.machine()}, {os.cpu_count()} processors, shared by client, relay and server; build: "
            f"{options.build}; variable of {edge}^3 `f4`.",
            table(["what", "figure", "of the raw copy"], speeds),
            table(head, moved),
            f"200 variables with 1,000 attributes: {made} round trips to make them, {read} to open the container and "
            "read all (bar 3).",
        ]
    )
    print(page)
    if options.document:
        text = DOCUMENT.read_text()
        before, rest = text.split("<!-- figures -->", 1)
        behind = rest.split("<!-- end -->", 1)[1]
        DOCUMENT.write_text(f"{before}<!-- figures -->\n{page}\n<!-- end -->{behind}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--busy"]:
        busy(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    elif sys.argv[1:2] == ["--child"]:
        _, _, address, first_read, counted_read, to = sys.argv
        child(address, first_read, counted_read, Path(to))
    else:
        main()
