"""Faults between a container and its store: one timely error that tells who refused what, without secrets.

The server is the scripted one of crates/s3-rig; faults that it cannot produce come from minimal socket servers.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import drystone as dry
import numpy as np
import pytest
from far_rig import KEYS, Rig

SECRETS = tuple(KEYS.values())
URL = "s3://bucket/runs/run42.dry"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture(autouse=True)
def unhurt(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    yield
    rig.order(rules=[], clear="bucket", rtt_ms=0, requests_per_second=None, bytes_per_second=None)


def values(step: int) -> np.ndarray:
    return (np.arange(1200.0) + 1000 * step).reshape(40, 30)


def fill(options: dict[str, str], steps: int = 2) -> None:
    with dry.create(URL, storage_options=options) as c:
        c.create_variable("T", "f8", shape=(40, 30), steps=True)
        with c.writer() as w:
            for _ in range(steps):
                with w.step() as t:
                    w.put("T", values(t))
        c.commit()


def told(caught: pytest.ExceptionInfo[BaseException], *parts: str) -> str:
    message = str(caught.value)
    assert not [part for part in parts if part not in message], message
    for form in (message, repr(caught.value), repr(caught.value.__cause__), repr(caught.value.__context__)):
        assert not [secret for secret in SECRETS if secret in form], form
    return message


# The server's answer, and the advice to the user.
REFUSED = [
    (403, "AccessDenied", None, dry.PermissionError, "may not be listed"),
    (403, "InvalidAccessKeyId", None, dry.PermissionError, "check the access key"),
    (403, "SignatureDoesNotMatch", None, dry.PermissionError, "secret key"),
    (401, "AccessDenied", None, dry.PermissionError, "credentials"),
    (403, "RequestTimeTooSkewed", None, dry.PermissionError, "clock"),
    (400, "ExpiredToken", None, dry.PermissionError, "session has ended"),
    (403, "ExpiredToken", None, dry.PermissionError, "session has ended"),
    (400, "AuthorizationHeaderMalformed", "eu-7", dry.IoError, "eu-7"),
    (301, "PermanentRedirect", "eu-7", dry.IoError, "eu-7"),
    (301, "PermanentRedirect", None, dry.IoError, "check the region"),
    (405, "MethodNotAllowed", None, dry.IoError, "owner of the server"),
]


@pytest.mark.parametrize(
    ("status", "code", "region", "kind", "advice"),
    REFUSED,
    ids=[f"{row[0]}-{row[1]}-{row[2]}" for row in REFUSED],
)
def test_a_refusal_is_one_error_that_says_who_refused_what_and_what_to_do(
    rig: Rig, status: int, code: str, region: str | None, kind: type[Exception], advice: str
) -> None:
    fill(rig.options)
    with dry.open(URL, "r+", storage_options=rig.options) as c:
        rig.order(rules=[{"do": "refuse", "status": status, "code": code, "region": region}], reset=True)
        acts: list[Callable[[], Any]] = [
            lambda: dry.open(URL, storage_options=rig.options),
            lambda: c["T"][0],
            lambda: c.create_variable("U", "f4", shape=(3,)),
        ]
        for act in acts:
            with pytest.raises(kind) as caught:
                act()
            told(
                caught,
                "S3 answered",
                str(status),
                code,
                "request RIG",
                "1 attempt",
                "s3://bucket/runs/run42.dry",
                advice,
            )
        assert rig.order()["peak"] < 8, "a refusal is not asked for again and again"
        rig.order(rules=[])
        np.testing.assert_array_equal(c["T"][1], values(1))
    with dry.open(URL, storage_options=rig.options) as c:
        assert list(c.variables) == ["T"]


def test_rights_that_are_missing_are_the_built_in_permission_error_and_an_exit_code(rig: Rig) -> None:
    fill(rig.options)
    rig.order(rules=[{"do": "refuse", "status": 403, "code": "AccessDenied"}])
    with pytest.raises(PermissionError):
        dry.open(URL, storage_options=rig.options)
    with pytest.raises(OSError, match="AccessDenied"):
        dry.create("s3://bucket/other.dry", storage_options=rig.options)
    for command in (["info"], ["verify"], ["copy"]):
        said = subprocess.run(
            [
                sys.executable,
                "-m",
                "drystone",
                *command,
                URL,
                *(["/nowhere/x.dry"] if command == ["copy"] else []),
            ],
            env={**os.environ, **rig.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 7, (command, said.stderr)
        assert said.stderr.count("\n") == 1, said.stderr


@contextlib.contextmanager
def somebody_else() -> Iterator[None]:
    """As a user other than root, who may do everything."""
    if os.getuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(sys.platform != "linux", reason="the rights of files differ elsewhere")
def test_missing_rights_on_files_give_the_same_error(tmp_path: Path) -> None:
    path = tmp_path / "run.dry"
    with dry.create(path) as c:
        c.create_variable("x", "i4", shape=(3,))
    for folder in (tmp_path, *tmp_path.parents):
        # Only their owner may read pytest's folders.
        if (
            folder.stat().st_uid == os.getuid()
            and folder != folder.parent
            and folder.is_relative_to(tempfile.gettempdir())
        ):
            folder.chmod(folder.stat().st_mode | 0o055)
    (path / "drystone.json").chmod(0)
    try:
        with somebody_else():
            with pytest.raises(PermissionError, match=r"drystone\.json") as caught:
                dry.open(path)
            assert isinstance(caught.value, dry.PermissionError)
            with pytest.raises(dry.PermissionError, match="may enter and change"):
                dry.create(path.parent / "below" / "other.dry")
    finally:
        (path / "drystone.json").chmod(0o600)
    with dry.open(path) as c:
        assert "x" in c


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_never_gets_better_is_a_deadline_error_in_time(rig: Rig, status: int) -> None:
    fill(rig.options)
    options = {**rig.options, "timeout": "1500ms"}
    with dry.open(URL, "r+", storage_options=options) as c:
        rig.order(rules=[{"do": "status", "status": status}], reset=True)
        begun = time.monotonic()
        with pytest.raises(dry.DeadlineError) as caught:
            c["T"][0]
        assert time.monotonic() - begun < 10
        told(caught, f"S3 answered {status}", "request RIG", "attempts in")
        assert isinstance(caught.value, TimeoutError)
        assert isinstance(caught.value, dry.IoError)
        with pytest.raises(dry.DeadlineError):
            c.create_variable("U", "f4", shape=(3,))
        rig.order(rules=[])
        np.testing.assert_array_equal(c["T"][0], values(0))
    with dry.open(URL, storage_options=rig.options) as c:
        assert not c.verify().damage
        np.testing.assert_array_equal(c["T"][1], values(1))


def test_a_reply_that_trickles_ends_at_the_deadline_and_fills_nothing(rig: Rig) -> None:
    """Symptom elsewhere: one byte per second keeps every idle timeout from expiring, and a program hangs for days."""
    fill(rig.options)
    options = {**rig.options, "timeout": "2s"}
    with dry.open(URL, storage_options=options) as c:
        rig.order(rules=[{"do": "trickle", "ms": 100, "kind": "GET"}])
        begun = time.monotonic()
        with pytest.raises(dry.DeadlineError) as caught:
            c["T"][0]
        assert time.monotonic() - begun < 15
        told(caught, "log/", "bucket", "timeout")
        rig.order(rules=[])
        np.testing.assert_array_equal(c["T"][0], values(0))


def test_a_reply_that_is_cut_every_time_is_an_error_and_never_short_data(rig: Rig) -> None:
    fill(rig.options)
    options = {**rig.options, "timeout": "1s"}
    with dry.open(URL, storage_options=options) as c:
        out = np.full((40, 30), -1.0)
        rig.order(rules=[{"do": "cut", "after": 0, "kind": "GET"}])
        with pytest.raises(dry.DeadlineError, match="broke off"):
            c["T"].read(step=0, out=out)
        rig.order(rules=[])
        np.testing.assert_array_equal(c["T"].read(step=0, out=out), values(0))


def test_a_slow_server_is_slow_and_right(rig: Rig) -> None:
    fill(rig.options)
    rig.order(bytes_per_second=40_000, rtt_ms=20)
    with dry.open(URL, storage_options={**rig.options, "timeout": "2s"}) as c:
        np.testing.assert_array_equal(c["T"][1], values(1))


@contextlib.contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port at which `answer` handles each connection."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def spoken(reply: bytes) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.settimeout(5)
        connection.recv(65536)
        connection.sendall(reply)

    return answer


BROKEN = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "a wrong length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    "two lengths": b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\nETag: "a"\r\n\r\nhello',
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"y" * 2_000_000,
    "no length and no tag": b"HTTP/1.1 200 OK\r\n\r\n",
    "a page of another": b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\nETag: "a"\r\nLast-Modified: '
    b"Wed, 01 Jul 2026 01:02:03 GMT\r\n\r\n<html></html>",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_server_that_speaks_something_else_is_an_error_in_time(what: str) -> None:
    with server(spoken(BROKEN[what])) as port:
        options = {"aws_endpoint": f"http://127.0.0.1:{port}", "timeout": "1500ms", **KEYS}
        begun = time.monotonic()
        with pytest.raises(dry.DrystoneError) as caught:
            dry.open(URL, storage_options=options)
        assert time.monotonic() - begun < 15
        told(caught, "bucket")


def test_a_redirection_elsewhere_takes_no_credentials_along() -> None:
    """A server that redirects clients to another host must not get their signatures."""
    heard: list[bytes] = []

    def thief(connection: socket.socket) -> None:
        connection.settimeout(2)
        heard.append(connection.recv(65536))
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    with server(thief) as elsewhere:
        to = f"http://localhost:{elsewhere}/bucket/x"
        moved = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()
        with server(spoken(moved)) as port:
            options = {
                "aws_endpoint": f"http://127.0.0.1:{port}",
                "timeout": "1500ms",
                "aws_session_token": "rig-token-hunter2",
                **KEYS,
            }
            with pytest.raises(dry.DrystoneError) as caught:
                dry.open(URL, storage_options=options)
            told(caught, "bucket")
    for request in heard:
        assert b"hunter2" not in request
        assert b"authorization" not in request.lower()


def certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate with its key, in one file."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "drystone tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def encrypted(pem: Path) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    def answer(connection: socket.socket) -> None:
        connection.settimeout(5)
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(65536)
            tls.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    return answer


@pytest.mark.parametrize("name", ["localhost", "other.example"])
def test_a_certificate_that_is_not_trusted_is_said_at_once(tmp_path: Path, name: str) -> None:
    pem = certificate(tmp_path, name)
    with server(encrypted(pem)) as port:
        options = {"aws_endpoint": f"https://localhost:{port}", **KEYS}
        begun = time.monotonic()
        with pytest.raises(dry.IoError) as caught:
            dry.open(URL, storage_options=options)
        assert time.monotonic() - begun < 5, "another attempt does not help"
        told(caught, "certificate", "bucket", "1 attempt", "SSL_CERT_FILE")
        # The same server, if the system trusts its certificate and it has the right name.
        code = "import sys, drystone as dry; dry.open(sys.argv[1])"
        said = subprocess.run(
            [sys.executable, "-c", code, URL],
            env={
                **os.environ,
                "AWS_ENDPOINT_URL": options["aws_endpoint"],
                "AWS_ACCESS_KEY_ID": KEYS["aws_access_key_id"],
                "AWS_SECRET_ACCESS_KEY": KEYS["aws_secret_access_key"],
                "SSL_CERT_FILE": str(pem),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        expected = "NotFoundError" if name == "localhost" else "certificate"
        assert expected in said.stderr, said.stderr


def test_a_server_without_encryption_behind_https_is_said_at_once() -> None:
    with server(spoken(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")) as port:
        begun = time.monotonic()
        with pytest.raises(dry.IoError) as caught:
            dry.open(URL, storage_options={"aws_endpoint": f"https://127.0.0.1:{port}", **KEYS})
        assert time.monotonic() - begun < 5
        told(caught, "TLS", "bucket")


def test_no_network_is_an_error_that_names_the_host_within_the_deadline() -> None:
    options = {"aws_endpoint": "https://no-such-host.invalid", "timeout": "3s", **KEYS}
    begun = time.monotonic()
    with pytest.raises(dry.DeadlineError) as caught:
        dry.open(URL, storage_options=options)
    assert time.monotonic() - begun < 10
    told(caught, "no-such-host.invalid", "bucket", "timeout")


def test_a_commit_that_is_refused_loses_nothing_and_can_be_repeated(rig: Rig) -> None:
    fill(rig.options, steps=1)
    with dry.open(URL, "r+", storage_options=rig.options) as c:
        with c.writer() as w, w.step() as t:
            w.put("T", values(t))
        rig.order(rules=[{"do": "refuse", "status": 403, "code": "AccessDenied", "kind": "PUT"}])
        with pytest.raises(dry.PermissionError, match=r"manifest|index"):
            c.create_variable("U", "f4", shape=(2,))
        rig.order(rules=[])
        c.commit()
    with dry.open(URL, storage_options=rig.options) as c:
        np.testing.assert_array_equal(c["T"][1], values(1))


def test_secrets_are_in_no_log(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    options = {**rig.options, "aws_session_token": "rig-token-hunter2", "timeout": "1s"}
    with caplog.at_level(logging.DEBUG):
        fill(options)
        c = dry.open(URL, storage_options=options)
        rig.order(rules=[{"do": "refuse", "status": 403, "code": "AccessDenied"}])
        with pytest.raises(dry.PermissionError):
            c["T"][0]
    pickled = pickle.dumps(c)
    shown = [caplog.text, repr(c), repr(c._options), json.dumps(c._options)]
    for secret in (*SECRETS, "rig-token-hunter2"):
        assert secret.encode() not in pickled
        assert not [text for text in shown if secret in text]
    c.close()


def late(kind: str, key: str, milliseconds: int) -> list[dict[str, Any]]:
    """The connection of one request breaks; the server executes it later, after its repetition."""
    return [{"kind": kind, "key": key, "do": "late", "ms": milliseconds, "times": 1}]


def test_a_removal_that_is_executed_late_meets_no_object_of_the_next_container(rig: Rig) -> None:
    """It removed a manifest of the new container; the next committer took its number, and a step was lost."""
    fill(rig.options, steps=5)
    rig.order(rules=late("DELETE", "manifest/000000000003", 400))
    options = {**rig.options, "timeout": "1s"}
    with dry.create(URL, storage_options=options, overwrite=True) as c:
        c.create_variable("T", "f8", shape=(40, 30), steps=True)
        for step in range(3):
            with c.writer(rank=0, nranks=1) as w, w.step(step):
                w.put("T", values(step + 7))
    time.sleep(0.6)
    with dry.open(URL, "r+", storage_options=options) as c:
        assert c.steps == [0, 1, 2]
        with c.writer(rank=0, nranks=1) as w, w.step(3):
            w.put("T", values(10))
    with dry.open(URL, storage_options=options) as c:
        assert c.verify()
        for step in range(4):
            assert np.array_equal(c["T"][step], values(step + 7))


def test_a_lock_that_is_put_late_holds_up_nobody_in_its_process(rig: Rig) -> None:
    """It lay there after its release, and publications and collections failed until the process ended."""
    fill(rig.options)
    with dry.open(URL, "r+", storage_options=rig.options) as c:
        rig.order(rules=late("PUT", "publish/", 300))
        c.publish()
        time.sleep(0.5)
        begun = time.monotonic()
        c.publish()
        c.gc(keep=1)
        assert time.monotonic() - begun < 4


def test_an_older_shard_that_comes_back_is_named_and_published_again(rig: Rig) -> None:
    """`verify` took it for one that a publisher had not recorded yet."""
    fill(rig.options)
    with dry.open(URL, "r+", storage_options=rig.options) as c:
        rig.order(rules=late("PUT", "zarr/T/c/", 800))
        c.publish()
        with c.writer(rank=0, nranks=1) as w, w.step(0):
            w.put("T", values(9))
        c.publish()
        assert c.verify()
        time.sleep(1)
        report = c.verify()
        assert not report
        assert "is not the shard that was published" in str(report)
        assert np.array_equal(c["T"][0], values(9))
        c.publish()
        assert c.verify()
