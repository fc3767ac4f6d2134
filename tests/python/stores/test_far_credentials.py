"""Sources of credentials: the environment, a profile, a function of the program; or anonymous access."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import drystone as dry
import numpy as np
import pytest
from far_rig import KEYS, Rig

URL = "s3://bucket/who/run42.dry"
RIGHT = {
    "aws_access_key_id": KEYS["aws_access_key_id"],
    "aws_secret_access_key": KEYS["aws_secret_access_key"],
}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    rig = Rig("--access-key", KEYS["aws_access_key_id"])
    yield rig
    rig.close()


@pytest.fixture(autouse=True)
def nobody(rig: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    rig.order(rules=[], clear="bucket")


class Source:
    """A function that returns the right keys and counts its calls."""

    def __init__(self, life: float | None = None, **more: Any) -> None:
        self.life, self.more = life, more
        self.calls = 0
        self.threads: set[int] = set()

    def __call__(self) -> dict[str, object]:
        self.calls += 1
        self.threads.add(threading.get_ident())
        given: dict[str, object] = {**RIGHT, "aws_session_token": None, **self.more}
        if self.life is not None:
            given["expires"] = datetime.now(UTC) + timedelta(seconds=self.life)
        return given


def fill(rig: Rig, **options: Any) -> None:
    with dry.create(URL, storage_options={"aws_endpoint": rig.endpoint}, **options) as c:
        c.create_variable("T", "f8", shape=(40, 30), steps=True)
        with c.writer() as w, w.step():
            w.put("T", np.arange(1200.0).reshape(40, 30))
        c.commit()


def test_a_function_gives_credentials_and_is_asked_once(rig: Rig) -> None:
    source = Source()
    fill(rig, credentials=source)
    with dry.open(URL, storage_options={"aws_endpoint": rig.endpoint}, credentials=source) as c:
        assert c["T"][0, 1, 1] == 31
        assert not c.verify().damage
    assert source.calls == 1
    assert threading.get_ident() not in source.threads


def test_a_function_is_asked_again_when_what_it_gave_expires(rig: Rig) -> None:
    source = Source(life=0.6)
    fill(rig, credentials=source)
    with dry.open(URL, storage_options={"aws_endpoint": rig.endpoint}, credentials=source) as c:
        asked = source.calls
        time.sleep(0.7)
        assert c["T"][0, 1, 1] == 31
        assert source.calls > asked
        # Expired credentials are requested each time, and still work if the server accepts them.
        source.life = -1
        time.sleep(0.7)
        assert c["T"][0, 2, 2] == 62


@pytest.mark.parametrize(
    "given",
    [
        {
            "AccessKeyId": RIGHT["aws_access_key_id"],
            "SecretAccessKey": RIGHT["aws_secret_access_key"],
            "Expiration": "2999-01-01T00:00:00Z",
        },
        {
            "access_key": RIGHT["aws_access_key_id"],
            "secret_key": RIGHT["aws_secret_access_key"],
            "token": "t",
            "expires_at": 4e9,
        },
    ],
)
def test_names_are_taken_as_other_programs_write_them(rig: Rig, given: dict[str, object]) -> None:
    fill(rig, credentials=lambda: given)


def fails() -> dict[str, object]:
    raise KeyError("hunter2")


WRONG: list[tuple[Any, str]] = [
    (fails, "it raised KeyError"),
    (lambda: {"aws_access_key_id": "x"}, "aws_secret_access_key"),
    (lambda: {**RIGHT, "expires": object()}, "TypeError"),
    (lambda: {**RIGHT, "aws_session_token": 7}, "TypeError"),
    (lambda: 5, "TypeError"),
    (lambda: {**RIGHT, "aws_access_key_id": "another-hunter2"}, "InvalidAccessKeyId"),
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("which", range(len(WRONG)))
def test_a_function_that_gives_none_is_an_error_of_rights_at_once(rig: Rig, which: int) -> None:
    source, says = WRONG[which]
    begun = time.monotonic()
    with pytest.raises(dry.PermissionError) as caught:
        dry.open(URL, storage_options={"aws_endpoint": rig.endpoint}, credentials=source)
    assert time.monotonic() - begun < 5
    assert says in str(caught.value)
    assert "bucket" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_function_is_for_object_stores(tmp_path: Path) -> None:
    with pytest.raises(dry.InvalidArgumentError, match="local path"):
        dry.open(tmp_path, credentials=Source())
    with pytest.raises(dry.InvalidArgumentError, match="function"):
        dry.open(URL, credentials=RIGHT)  # type: ignore[arg-type]
    with pytest.raises(dry.InvalidArgumentError, match="web server"):
        dry.open("http://127.0.0.1:1/x.dry", credentials=Source())


def test_a_function_is_in_no_pickle_and_spawned_processes_read_the_environment(rig: Rig) -> None:
    source = Source(secret_of_mine="hunter2")
    fill(rig, credentials=source)
    with dry.open(
        URL, storage_options={"aws_endpoint": rig.endpoint, "timeout": "3s"}, credentials=source
    ) as c:
        pickled = pickle.dumps(c["T"])
        assert b"hunter2" not in pickled
        assert b"Source" not in pickled
        assert KEYS["aws_access_key_id"].encode() not in pickled
        # This process has the function.
        assert pickle.loads(pickled)[0, 1, 1] == 31
    code = "import sys, pickle; print(float(pickle.loads(bytes.fromhex(sys.argv[1]))[0, 2, 2]))"
    spawned = [sys.executable, "-c", code, pickled.hex()]
    environment = {**os.environ, **rig.environment}
    said = subprocess.run(spawned, env=environment, capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "62.0", said.stderr
    del environment["AWS_SECRET_ACCESS_KEY"], environment["AWS_ACCESS_KEY_ID"]
    environment["AWS_EC2_METADATA_DISABLED"] = "true"
    environment["AWS_METADATA_ENDPOINT"] = "http://127.0.0.1:1"
    said = subprocess.run(spawned, env=environment, capture_output=True, text=True, check=False)
    assert "Error" in said.stderr


def test_a_function_works_in_children_after_a_fork(rig: Rig) -> None:
    source = Source()
    fill(rig, credentials=source)
    with dry.open(URL, storage_options={"aws_endpoint": rig.endpoint}, credentials=source) as c:
        child = os.fork()
        if child == 0:
            ok = False
            try:
                ok = bool(c["T"][0, 1, 1] == 31)
            finally:
                os._exit(0 if ok else 1)
        deadline = time.monotonic() + 30
        status = None
        while status is None and time.monotonic() < deadline:
            done, code = os.waitpid(child, os.WNOHANG)
            status = code if done else None
            time.sleep(0.01)
        if status is None:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert status == 0
        assert c["T"][0, 2, 2] == 62


def test_anonymous_readers_sign_nothing_and_payers_say_so(rig: Rig) -> None:
    """The rig accepts one key only; a minimal server shows what is sent."""
    import socket

    heard = b""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            nonlocal heard
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    heard += connection.recv(65536).lower()
                    connection.sendall(
                        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    )

        threading.Thread(target=serve, daemon=True).start()
        endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
        for options, there, absent in [
            (
                {"aws_skip_signature": "true"},
                [b"get /bucket/who"],
                [b"authorization", b"x-amz-request-payer"],
            ),
            (
                {"aws_request_payer": "true", **KEYS},
                [b"authorization", b"x-amz-request-payer: requester"],
                [],
            ),
        ]:
            heard = b""
            with pytest.raises(dry.NotFoundError):
                dry.open(URL, storage_options={"aws_endpoint": endpoint, **options})
            assert not [part for part in there if part not in heard], heard
            assert not [part for part in absent if part in heard], heard
        listening.shutdown(socket.SHUT_RDWR)


def test_xarray_takes_the_function(rig: Rig) -> None:
    xr = pytest.importorskip("xarray")
    source = Source()
    fill(rig, credentials=source)
    options = {"aws_endpoint": rig.endpoint}
    with xr.open_dataset(URL, engine="drystone", storage_options=options, credentials=source) as ds:
        assert float(ds["T"][0, 1, 1]) == 31


def test_a_copy_asks_the_function_and_one_that_fails_removes_itself_with_it(rig: Rig, tmp_path: Path) -> None:
    source = Source()
    options = {"aws_endpoint": rig.endpoint}
    target = "s3://bucket/who/copy.dry"
    with dry.create(tmp_path / "run.dry") as c:
        c["x"] = np.arange(1000.0)
        with c.copy(target, storage_options=options, credentials=source) as copied:
            assert np.array_equal(copied["x"][:], np.arange(1000.0))
        assert source.calls >= 1
        with pytest.raises(dry.CancelledError):
            c.copy(
                f"{target}2", storage_options=options, credentials=source, progress=lambda _done, _all: False
            )
        with pytest.raises(dry.InvalidArgumentError, match="credentials are for URLs"):
            c.copy(tmp_path / "copy.dry", credentials=source)
    assert not (tmp_path / "copy.dry").exists()
    with pytest.raises(dry.NotFoundError):
        dry.open(f"{target}2", storage_options=options, credentials=source)
