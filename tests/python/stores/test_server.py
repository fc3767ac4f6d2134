"""Containers on a server: the same interface and guarantees; no access without a right; nothing is lost with the
server."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from server_rig import ALL, Proxy, Server, certificate, drystone, fill, served, values

LONG = os.environ.get("DRYSTONE_LONG") == "1"
KILLS = int(os.environ.get("DRYSTONE_KILLS", "1000" if LONG else "0"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    fill(folder / "run42.dry")
    with served(folder) as server:
        yield server


@pytest.fixture(autouse=True)
def no_token_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    monkeypatch.delenv("BEARER_TOKEN_FILE", raising=False)


def test_a_container_is_created_written_committed_and_read_through_a_server(server: Server) -> None:
    url = f"{server.unix}/scratch/whole.dry"
    fill(url)
    with dry.open(url) as c:
        assert c.path == url
        assert np.array_equal(c["T"][...], np.stack([values(t) for t in range(3)]))
        assert np.array_equal(c["T"][1, ::7, 3:9], values(1)[::7, 3:9])
        assert not c.verify().damage
    with dry.open(server.folder / "scratch/whole.dry") as c:
        assert np.array_equal(c["T"][2], values(2)), "the folder is an ordinary container"
    with dry.open(url, "r+") as c:
        with c.writer() as w, w.step() as t:
            w.put("T", values(t))
        c.commit()
        c.attrs["note"] = "through a server"
    with dry.open(url) as c:
        assert c["T"].shape == (4, 40, 30)
        assert c.attrs["note"] == "through a server"
    with pytest.raises(dry.ConflictError):
        dry.create(url)
    with pytest.raises(dry.NotFoundError):
        dry.open(f"{server.unix}/scratch/absent.dry")
    with pytest.raises(dry.NotFoundError):
        dry.open(f"{server.unix}/unknown")


def test_records_with_texts_and_lists_are_read_over_a_server(server: Server) -> None:
    url = f"{server.unix}/scratch/events.dry"
    event = np.dtype([("id", "i4"), ("name", str), ("hits", dry.ragged("f4"))])
    given = [(n, f"event {n} " * n, np.arange(n % 4, dtype="f4")) for n in range(50)]
    with dry.create(url) as c:
        c.create_variable("events", event, (50,), steps=True)
        with c.writer() as w, w.step():
            w.put("events", given)
            w.put("events", ["", "renamed"], offset=7, field="name")
        c.commit()
    with dry.open(url) as c:
        found = c["events"][0]
        names = [one[1] for one in given[:7]] + ["", "renamed"] + [one[1] for one in given[9:]]
        assert found["name"].tolist() == names
        assert found["id"].tolist() == list(range(50))
        assert [one.tolist() for one in found["hits"]] == [one[2].tolist() for one in given]
        assert c["events"]["name"][0, 3:12:4].tolist() == names[3:12:4]
        assert c["events"][0, [40, 7]]["name"].tolist() == [names[40], ""]
        assert not c.verify().damage


def test_a_large_block_goes_up_in_pieces_and_is_synced_where_that_was_asked(server: Server) -> None:
    proxy = Proxy(server.port)
    large = np.random.default_rng(1).random((3, 1 << 19))  # 12 MiB: three pieces of 5.5 MiB at most
    for durability in ("async", "durable"):
        url = f"dry://127.0.0.1:{proxy.port}/scratch/large-{durability}.dry"
        with dry.create(url, token=server.token(*ALL), durability=durability) as c:
            c.create_variable("T", "f8", shape=large.shape, steps=True)
            for _ in range(2):  # the first block makes the folder of the log
                proxy.lines.clear()
                with c.writer() as w, w.step():
                    w.put("T", large)
                lines = list(proxy.lines)
                c.commit()
                found = [line.split()[0] for line in lines if "/o/log/" in line]
                if durability == "durable":  # the segment is synced before what names it is put
                    last = max(n for n, line in enumerate(lines) if line.startswith("PATCH"))
                    named = min(n for n, line in enumerate(lines) if line.startswith("PUT") and n > last)
                    assert [line for line in lines[last:named] if line.endswith("/do")]
                assert found == ["PATCH"] * 4 + ["PUT"], "the pieces, the end, and the record of the part"
            c.refresh()
            assert np.array_equal(c["T"][1], large)
        assert not list((server.folder / "scratch").rglob("~*"))
    proxy.close()


def test_writers_on_a_server_never_wait_for_each_other_and_a_dead_one_is_recovered(server: Server) -> None:
    url = f"{server.unix}/scratch/ranks.dry"
    with dry.create(url) as c:
        c.create_variable("T", "f8", shape=(40, 30), steps=True)
    program = textwrap.dedent("""
        import os, sys
        import drystone as dry, numpy as np
        url, rank = sys.argv[1], int(sys.argv[2])
        c = dry.open(url, "r+")
        w = c.writer(rank=rank, nranks=2)
        for t in range(3):
            with w.step(t):
                w.put("T", np.full((20, 30), 10.0 * t + rank), offset=(20 * rank, 0))
        os._exit(1)  # without close
    """)
    ranks = [subprocess.Popen([sys.executable, "-c", program, url, str(rank)]) for rank in range(2)]
    assert [rank.wait(60) for rank in ranks] == [1, 1], "each ends without a close"
    with dry.open(url, "r+") as c:
        c.recover(adopt=True)
        assert list(c.steps) == [0, 1, 2]
        assert (c["T"][2, :20] == 20).all()
        assert (c["T"][2, 20:] == 21).all()


def test_a_durable_container_is_synced_by_the_server(server: Server) -> None:
    url = f"{server.unix}/scratch/durable.dry"
    fill(url, durability="durable")
    with dry.open(url) as c:
        assert np.array_equal(c["T"][0], values(0))


# method, path, and which scope is enough
ROUTES = [
    ("GET", "/v1/c/run42/o/drystone.json", "storage.read:/run42"),
    ("HEAD", "/v1/c/run42/o/drystone.json", "storage.read:/run42"),
    ("GET", "/v1/c/run42/o/?prefix=manifest", "storage.read:/run42"),
    ("PUT", "/v1/c/scratch/rights.dry/o/zarr/x", "storage.modify:/scratch"),
    ("DELETE", "/v1/c/scratch/rights.dry/o/zarr/x", "storage.modify:/scratch"),
]


def test_nothing_is_answered_without_the_right_for_it(server: Server) -> None:
    fill(f"{server.unix}/scratch/rights.dry", steps=1)
    everything = [
        *ROUTES,
        ("POST", "/v1/c/run42/read", ""),
        ("POST", "/v1/c/run42/do", ""),
        ("GET", "/v1/c/none/o/x", ""),
        ("GET", "/other", ""),
    ]
    stolen = "dry_" + "0" * 64
    for method, path, _ in everything:
        body = b"x" if method in ("PUT", "POST") else None
        assert server.ask(path, method=method, body=body)[0] == 401, (method, path)
        assert server.ask(path, stolen, method=method, body=body)[0] == 401, (method, path)
    wrong = server.token("storage.read:/other", "storage.create:/run42")
    for method, path, scope in ROUTES:
        body = b"x" if method == "PUT" else None
        assert server.ask(path, wrong, method=method, body=body)[0] == 403, (method, path)
        right = server.token(scope)
        assert server.ask(path, right, method=method, body=body)[0] in (200, 201, 204), (method, path)
    assert server.ask("/healthz")[0] == 200
    assert server.ask("/metrics")[0] == 401
    page = server.ask("/metrics", wrong)
    assert page[0] == 200
    assert b'drystone_requests_total{route="get",status="401"}' in page[2]
    assert any(line["event"] == "request" and line["status"] == 403 for line in server.log())


def test_modify_implies_neither_read_nor_create(server: Server) -> None:
    fill(f"{server.unix}/scratch/m.dry", steps=1)
    modify = server.token("storage.modify:/scratch")
    assert server.ask("/v1/c/scratch/m.dry/o/drystone.json", modify)[0] == 403
    put = {"method": "PUT", "body": b"{}", "If_None_Match": "*"}
    assert server.ask("/v1/c/scratch/new.dry/o/drystone.json", modify, **put)[0] == 403
    create = server.token("storage.create:/scratch")
    assert server.ask("/v1/c/scratch/new.dry/o/zarr/a", create, **put)[0] == 201
    assert server.ask("/v1/c/scratch/new.dry/o/zarr/a", create, **put)[0] == 412
    assert server.ask("/v1/c/scratch/new.dry/o/zarr/a", create, method="PUT", body=b"x")[0] == 403
    assert server.ask("/v1/c/scratch/new.dry/o/zarr/a", create, method="DELETE")[0] == 403


def test_missing_rights_are_an_error_that_names_them(server: Server) -> None:
    with pytest.raises(dry.PermissionError, match="token") as error:
        dry.open(f"{server.url}/run42")
    assert isinstance(error.value, PermissionError)
    other = server.token("storage.read:/scratch")
    with pytest.raises(dry.PermissionError, match=r"storage\.read"):
        dry.open(f"{server.url}/run42", token=other)
    reader = server.token("storage.read:/run42")
    with dry.open(f"{server.url}/run42", token=reader) as c:
        assert np.array_equal(c["T"][1], values(1))
    with pytest.raises(OSError, match="storage"), dry.open(f"{server.url}/run42", "r+", token=reader) as c:
        c.create_variable("U", "f4", shape=(3,))


def test_a_token_ends_when_it_was_said_and_when_it_is_revoked(server: Server) -> None:
    brief = server.token("storage.read:/run42", expires="1s")
    path = "/v1/c/run42/o/drystone.json"
    assert server.ask(path, brief)[0] == 200
    time.sleep(2.1)
    assert server.ask(path, brief)[0] == 401
    known = server.token("storage.read:/run42")
    assert server.ask(path, known)[0] == 200
    listed = drystone("token", "list", server.tokens)
    assert known not in listed.stdout
    before, after = (server.folder / "tokens.toml").read_text(), listed.stdout
    assert "has expired" in after
    ids = [line.split('"')[1] for line in before.splitlines() if line.startswith("id")]
    assert drystone("token", "revoke", server.tokens, ids[-1]).returncode == 0
    deadline = time.monotonic() + 20
    while server.ask(path, known)[0] == 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert drystone("token", "revoke", server.tokens, ids[-1]).returncode == 3


def test_tokens_come_from_the_environment_and_are_in_no_pickle_or_message(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = server.token("storage.read:/run42")
    url = f"{server.url}/run42"
    monkeypatch.setenv("BEARER_TOKEN", token)
    with dry.open(url) as c:
        assert np.array_equal(c["T"][0], values(0))
    monkeypatch.delenv("BEARER_TOKEN")
    (tmp_path / "token").write_text(token + "\n")
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(tmp_path / "token"))
    with dry.open(url) as c:
        assert np.array_equal(c["T"][0], values(0))
    monkeypatch.delenv("BEARER_TOKEN_FILE")
    with dry.open(url, token=token) as c:
        assert token.encode() not in pickle.dumps(c["T"])
        assert token not in repr(c) + str(c.path)
    with pytest.raises(dry.DrystoneError) as error:
        dry.open(f"{server.url}/none", token=token)
    assert token not in str(error.value)
    assert token not in (server.folder / "log").read_text()


PATHS = [
    "/v1/c/scratch/../../etc/passwd", "/v1/c/../o/x", "/v1/c/scratch/x.dry/o/../../../../etc/passwd", "/v1/c/scratch/x.dry/o//etc/passwd",
    "/v1/c/scratch%2f..%2f..%2fetc/o/passwd", "/v1/c/scratch/%2e%2e/o/x", "/v1/c/scratch/x.dry/o/%2e%2e/%2e%2e/x", "/v1/c//o/x",
    "/v1/c/scratch/x.dry/o/a%00b", "/v1/c/scratch/.hidden/o/x", "/v1/c/scratch/x.dry/o/./x", "/v1/c/scratch/x.dry/o/a/", "//etc/passwd",
    "/v1/c/scratch/x.dry/o/a\\..\\b", "/v1/c/scratch/x.dry/o/?prefix=../", "/v1/c/scratch/x.dry/o/?prefix=/etc", "/v1/c/scratch/out/o/secret",
    "/v1/c/scratch/whole.dry/log/o/x", "/v1/c/scratch/" + "x" * 300 + "/o/x", "/v1/c/scratch/x.dry/o/" + "a/" * 600 + "b",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_no_path_leads_out_of_a_container(server: Server, path: str) -> None:
    secret = server.folder / "outside"
    secret.mkdir(exist_ok=True)
    (secret / "secret").write_text("hunter2")
    link = server.folder / "scratch" / "out"
    if not link.is_symlink():
        link.symlink_to(secret)
    token = server.token(*ALL)
    for method, body in [("GET", None), ("PUT", b"x"), ("DELETE", None)]:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            # Sent unchanged: a client library would normalise it.
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
            head += f"Content-Length: {len(body)}\r\n" if body else ""
            raw.sendall(head.encode() + b"\r\n" + (body or b""))
            reply = b"".join(iter(lambda raw=raw: raw.recv(65536), b""))
        assert reply.split(b" ")[1][:1] == b"4", reply[:200]
        assert b"hunter2" not in reply
    assert (secret / "secret").read_text() == "hunter2"
    assert not (Path("/etc") / "x").exists()


def test_plain_http_serves_ranges_and_versions_of_objects(server: Server) -> None:
    token = server.token("storage.read:/run42")
    path = "/v1/c/run42/o/drystone.json"
    whole = (server.folder / "run42.dry/drystone.json").read_bytes()
    status, headers, body = server.ask(path, token)
    assert (status, body, headers["accept-ranges"]) == (200, whole, "bytes")
    status, headers, body = server.ask(path, token, Range="bytes=2-9")
    assert (status, body) == (206, whole[2:10])
    assert headers["content-range"] == f"bytes 2-9/{len(whole)}"
    assert server.ask(path, token, Range="bytes=-5")[2] == whole[-5:]
    status, headers, _ = server.ask(path, token, Range="bytes=99999-")
    assert (status, headers["content-range"]) == (416, f"bytes */{len(whole)}")
    tag = server.ask(path, token)[1]["etag"]
    assert server.ask(path, token, If_None_Match=tag)[0] == 304
    assert server.ask(path, token, If_Match='"other"')[0] == 412
    listing = server.ask("/v1/c/run42/o/?prefix=drystone", token)[2]
    assert listing == f"{len(whole)} drystone.json\n".encode()
    assert server.ask("/v1/c/run42/o/none", token)[0] == 404


def test_hostile_bodies_are_refused_and_counted(server: Server) -> None:
    token = server.token(*ALL)
    for body in [
        b"",
        b"x",
        b"DRYW",
        b"DRYW\x01\0\0\0",
        b"DRYW\x09\0\0\0" + bytes(40),
        b"DRYW\x01\0\0\0" + b"\xff" * 64,
        os.urandom(5000),
    ]:
        assert server.ask("/v1/c/run42/read", token, method="POST", body=body)[0] == 400
        assert server.ask("/v1/c/run42/do", token, method="POST", body=body)[0] == 400
    for raw_bytes in [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 2_000_000,
        b"PUT /v1/c/run42/o/x HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ]:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            try:
                raw.sendall(raw_bytes)
                raw.shutdown(socket.SHUT_WR)
                raw.recv(1000)
            except OSError:
                pass
    assert server.ask("/healthz")[0] == 200
    assert b'route="batch",status="400"' in server.ask("/metrics", token)[2]


def test_forked_and_spawned_processes_read_through_their_own_connections(server: Server) -> None:
    token = server.token("storage.read:/run42")
    program = textwrap.dedent("""
        import multiprocessing, os, pickle, sys
        import drystone as dry

        def total(t):
            return float(T[t].sum())

        def again(pickled):
            return float(pickle.loads(pickled)[1].sum())

        if __name__ == "__main__":
            c = dry.open(sys.argv[1])
            T = c["T"]
            parent = [total(t) for t in range(3)]
            with multiprocessing.get_context("fork").Pool(4) as pool:
                assert pool.map(total, [0, 1, 2] * 4) == parent * 4
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                assert pool.map(again, [pickle.dumps(T)] * 2) == [parent[1]] * 2
            print(parent)
    """)
    path = server.folder / "forked.py"
    path.write_text(program)
    environment = {**os.environ, "BEARER_TOKEN": token}
    done = subprocess.run(
        [sys.executable, str(path), f"{server.url}/run42"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([float(values(t).sum()) for t in range(3)])


def test_the_command_and_xarray_take_addresses_of_servers(server: Server) -> None:
    token = server.token("storage.read:/run42")
    done = drystone("ls", f"{server.url}/run42", "-o", f"token={token}")
    assert done.returncode == 0, done.stderr
    assert "T" in done.stdout
    done = drystone("ls", f"{server.url}/run42", env={**os.environ, "BEARER_TOKEN": token})
    assert done.returncode == 0, done.stderr
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(
        f"{server.url}/run42", engine="drystone", storage_options={"token": token}
    ) as found:
        assert np.array_equal(found["T"][2].values, values(2))


def test_an_unencrypted_address_is_for_this_machine_alone() -> None:
    with pytest.raises(dry.InvalidArgumentError, match="drys://"):
        dry.open("dry://192.0.2.1:7070/run42")


def test_a_server_that_is_not_there_is_an_error_that_names_it() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
        dry.open(f"dry://127.0.0.1:{port}/run42", storage_options={"timeout": "3s"})
    assert time.monotonic() - begun < 45


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_connections_are_encrypted_and_the_servers_certificate_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(str(tmp_path / "run42.dry"))
    certificate(tmp_path, "other")
    server = Server(tmp_path, tls=certificate(tmp_path))
    try:
        token = server.token("storage.read:/run42")
        url = f"drys://localhost:{server.port}/run42"
        options = {"ca_certificate": str(tmp_path / "server.pem"), "timeout": "6s"}
        with dry.open(url, token=token, storage_options=options) as c:
            assert np.array_equal(c["T"][1], values(1))
        with pytest.raises(OSError, match="certificate"):
            dry.open(
                url,
                token=token,
                storage_options={"timeout": "3s", "ca_certificate": str(tmp_path / "other.pem")},
            )
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
        with dry.open(
            f"drys://127.0.0.1:{server.port}/run42", token=token, storage_options={"timeout": "7s"}
        ) as c:
            assert np.array_equal(c["T"][1], values(1))
    finally:
        assert server.stop() == 0


def test_what_was_acknowledged_survives_a_server_that_is_killed_and_writers_go_on(tmp_path: Path) -> None:
    """Symptom that this would find: a put whose reply was lost gives a spurious conflict, or a committed step is gone.

    `DRYSTONE_LONG=1` makes 1,000 kills, also in the next test; `DRYSTONE_KILLS` sets another number."""
    server = Server(tmp_path)
    url = f"{server.url}/scratch/killed.dry"
    token = server.token(*ALL)
    kills = KILLS or 4
    with dry.create(url, token=token) as c:
        c.create_variable("T", "f8", shape=(40, 30), steps=True)
    stop = threading.Event()

    def kill_again_and_again() -> None:
        for n in range(kills):
            time.sleep(0.15 + 0.07 * (n % 5))
            server.kill()
            server.start()
        stop.set()

    def write() -> int:
        t = -1
        with dry.open(url, "r+", token=token) as c, c.writer() as w:
            while not stop.is_set():
                with w.step() as t:
                    w.put("T", values(t))
                c.commit()
        return t + 1

    killer = threading.Thread(target=kill_again_and_again)
    killer.start()
    committed = write()
    killer.join()
    with dry.open(url, token=token) as c:
        assert c["T"].shape[0] >= committed > 3
        for t in range(committed):
            assert np.array_equal(c["T"][t], values(t))
        assert not c.verify().damage
    # When it closes, a handle stores its observed reads, and would wait for the server.
    del c
    assert server.stop() == 0


WRITER = """
    import sys
    import drystone as dry, numpy as np
    shape = (40, 30)
    with dry.open(sys.argv[1], "r+") as c:
        c.recover()
        first = c["T"].shape[0]
        with c.writer() as w:
            for t in range(first, first + 10_000):
                with w.step(t):
                    w.put("T", np.arange(1200.0).reshape(shape) + 1000 * t)
                c.commit()
                print(t, flush=True)
"""


def test_what_was_acknowledged_survives_clients_that_are_killed(tmp_path: Path) -> None:
    """A writer process is killed anywhere between two acknowledgements; the next one recovers and continues."""
    server = Server(tmp_path)
    url = f"{server.url}/scratch/dying.dry"
    token = server.token(*ALL)
    with dry.create(url, token=token) as c:
        c.create_variable("T", "f8", shape=(40, 30), steps=True)
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(WRITER), url]
    environment = {**os.environ, "BEARER_TOKEN": token}
    acknowledged = -1
    for n in range(KILLS or 3):
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert writer.stdout is not None
        first = writer.stdout.readline()
        assert first, f"life {n} has written nothing"
        time.sleep(0.013 * (n % 7))
        writer.kill()
        lines = [first, *writer.stdout.readlines()]
        writer.wait()
        writer.stdout.close()
        # The last line may be incomplete.
        acknowledged = max(acknowledged, *(int(line) for line in lines if line.endswith("\n")))
    with dry.open(url, token=token) as c:
        assert c["T"].shape[0] > acknowledged >= 3
        for t in range(acknowledged + 1):
            assert np.array_equal(c["T"][t], values(t)), t
        assert not c.verify().damage
    del c
    assert server.stop() == 0


def test_many_names_take_few_round_trips(tmp_path: Path) -> None:
    """1,000 attributes and 200 variables on a link with a delay: one request for each would be 1,200 round trips."""
    server = Server(tmp_path)
    token = server.token(*ALL)
    proxy = Proxy(server.port, delay=0.03)
    url = f"dry://127.0.0.1:{proxy.port}/scratch/names.dry"
    dry.create(url, token=token).close()
    c = dry.open(url, "r+", token=token)
    before = proxy.rounds
    with c.batch():
        for n in range(200):
            c.create_variable(f"v{n}", "f4", shape=(4, 4), attrs={f"a{m}": m for m in range(5)})
    # The newest snapshot, the identity, the manifest: 3; and the hint, which is not awaited.
    assert proxy.rounds - before <= 4
    c.close()
    before = proxy.rounds
    with dry.open(url, token=token) as c:
        assert sum(len(dict(c[name].attrs)) for name in c.variables) == 1000
        assert proxy.rounds - before <= 3
    del c
    proxy.close()
    assert server.stop() == 0


@pytest.mark.parametrize("packed", ["on close", "all", "all, short"])
def test_opening_a_packed_container_takes_three_round_trips(tmp_path: Path, packed: str) -> None:
    """Symptom: a container with packed logs took five, since the directory of packs and their tables were asked for one
    after the other, behind the manifest. 1,000 attributes, 200 variables, 50 short writers, and a manifest for each."""
    path = str(tmp_path / "run42.dry")
    with dry.create(path) as c, c.batch() if packed == "all, short" else contextlib.nullcontext():
        for n in range(200):
            c.create_variable(f"v{n}", "f8", shape=(4,), steps=True, attrs={f"a{m}": m for m in range(5)})
    # Not flushed: an open asks for the lengths of log parts.
    with dry.open(path, "r+") as c:
        for step in range(50):
            with c.writer() as w, w.step(step):
                w.put("v7", np.arange(4.0) + step)
            c.commit()
        if packed != "on close":
            c.flush()
            c.gc()
    files = [file.name for file in Path(path).rglob("*") if file.is_file()]
    assert "packs" in files, "logs are packed"
    assert "floor" in files, "manifests are packed"
    longest = max(file.stat().st_size for file in Path(path, "manifest").glob("*.pack"))
    assert (longest > 256 << 10) == (packed != "all, short"), longest
    server = Server(tmp_path)
    token = server.token(*ALL)
    proxy = Proxy(server.port, delay=0.05)
    with dry.open(f"dry://127.0.0.1:{proxy.port}/run42", token=token) as c:
        assert sum(len(dict(c[name].attrs)) for name in c.variables) == 1000
        rounds = proxy.rounds
    with dry.open(f"dry://127.0.0.1:{server.port}/run42", token=token) as c:
        for step in (0, 49):
            assert np.array_equal(c["v7"][step], np.arange(4.0) + step)
    del c
    proxy.close()
    assert server.stop() == 0
    assert rounds <= 3


def test_a_small_read_is_one_request_and_counting_is_none(server: Server) -> None:
    """Symptom: a read of 64 KiB took 24 requests, and each `metrics()` a round trip. A relay counts requests."""
    proxy = Proxy(server.port)
    with dry.open(f"dry://127.0.0.1:{proxy.port}/run42", token=server.token("storage.read:/run42")) as c:
        assert np.array_equal(c["T"][0], values(0))
        assert c.metrics()["steps"] == {"stable": 3}
        before = proxy.requests
        assert np.array_equal(c["T"][1, 3:9], values(1)[3:9])
        assert proxy.requests == before + 1
        assert c.metrics()["steps"] == {"stable": 3}
        assert proxy.requests == before + 1
    proxy.close()


def test_the_examples_are_a_configuration_and_a_unit_that_can_be_used(tmp_path: Path) -> None:
    examples = Path(__file__).parents[3] / "examples" / "server"
    text = (examples / "server.toml").read_text()
    (tmp_path / "tokens.toml").touch()
    for line in ("/run/drystone/", "0.0.0.0:7070", "/data/scratch"):
        assert line in text
    text = text.replace("/run/drystone/drystone.sock", str(tmp_path / "d.sock")).replace(
        "0.0.0.0:7070", "127.0.0.1:0"
    )
    (tmp_path / "server.toml").write_text(text.replace("/data/scratch", str(tmp_path)))
    done = drystone("serve", tmp_path / "server.toml")
    assert done.returncode == 6 or done.returncode == 2
    assert "certificate" in done.stderr or "server.pem" in done.stderr
    assert "drystone serve" in (examples / "drystone.service").read_text()


def test_too_much_to_do_delays_clients_and_fails_none(tmp_path: Path) -> None:
    fill(str(tmp_path / "run42.dry"))
    server = Server(tmp_path, more="[limits]\nrequests = 1\nqueue = 2\n")
    try:
        token = server.token("storage.read:/run42")
        program = (
            "import sys, drystone as dry\n"
            "c = dry.open(sys.argv[1])\n"
            "for n in range(5): assert c['T'][n % 3, n].sum() == c['T'][n % 3][n].sum(); c.refresh()\n"
        )
        clients = [
            subprocess.Popen(
                [sys.executable, "-c", program, f"{server.url}/run42"],
                env={**os.environ, "BEARER_TOKEN": token},
            )
            for _ in range(8)
        ]
        # An unread reply holds the only permit; a request that finds the queue full for a second is told to try again.
        (tmp_path / "run42.dry/zarr").mkdir(exist_ok=True)
        (tmp_path / "run42.dry/zarr/large").write_bytes(bytes(64 << 20))
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as idle:
            head = f"Host: x\r\nAuthorization: Bearer {token}\r\n\r\n"
            idle.sendall(f"GET /v1/c/run42/o/zarr/large HTTP/1.1\r\n{head}".encode())
            assert idle.recv(1000)
            deadline = time.monotonic() + 30
            while b'status="429"' not in server.ask("/metrics", token)[2]:
                assert time.monotonic() < deadline, "some were told to come again"
                time.sleep(0.05)
        assert [client.wait(100) for client in clients] == [0] * 8
    finally:
        assert server.stop() == 0


def test_a_stopped_server_finishes_its_requests(tmp_path: Path) -> None:
    fill(str(tmp_path / "run42.dry"))
    (tmp_path / "run42.dry/zarr").mkdir(exist_ok=True)
    (tmp_path / "run42.dry/zarr/large").write_bytes(bytes(64 << 20))
    server = Server(tmp_path)
    token = server.token("storage.read:/run42")
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(
            f"GET /v1/c/run42/o/zarr/large HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        got = len(raw.recv(1000))
        assert server.process is not None
        server.process.terminate()
        time.sleep(0.3)
        assert server.process.poll() is None, "a reply is under way"
        while piece := raw.recv(1 << 20):
            got += len(piece)
    assert got > 64 << 20
    assert server.stop() == 0
    assert not (tmp_path / "server.sock").exists()
    events = [line["event"] for line in server.log()]
    assert events[0] == "serving"
    assert events[-2:] == ["stopping", "stopped"]


def test_a_configuration_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    for text, said in [
        ('listen = ["0.0.0.0:7070"]', "tls"),
        ("listen = []", "listen"),
        ('lisen = ["127.0.0.1:0"]', "lisen"),
    ]:
        (tmp_path / "server.toml").write_text(text)
        done = drystone("serve", tmp_path / "server.toml")
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
