"""Containers in object stores, over the scripted S3 server: the same interface and guarantees, whatever fails."""

from __future__ import annotations

import gc
import http.server
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import drystone as dry
import numpy as np
import pytest
from far_rig import KEYS, Rig

SECRETS = tuple(KEYS.values())


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture(autouse=True)
def unhurt(rig: Rig) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    yield
    rig.order(rules=[], clear="bucket", rtt_ms=0, requests_per_second=None, bytes_per_second=None)


def values(step: int, shape: tuple[int, ...] = (40, 30)) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype="f8") + 1000 * step).reshape(shape)


def fill(url: str, options: dict[str, str] | None, steps: int = 3) -> None:
    with dry.create(url, storage_options=options) as c:
        c.create_variable("T", "f8", shape=(40, 30), steps=True)
        with c.writer() as w:
            for _ in range(steps):
                with w.step() as t:
                    w.put("T", values(t))
        c.commit()


def test_a_container_is_written_and_read_as_a_local_one_is(rig: Rig) -> None:
    url = "s3://bucket/runs/run42.dry"
    fill(url, rig.options)
    with dry.open(url, storage_options=rig.options) as c:
        assert c.path == url
        assert list(c.steps) == [0, 1, 2]
        for step in range(3):
            np.testing.assert_array_equal(c["T"][step], values(step))
        np.testing.assert_array_equal(c["T"][1, 3:17, ::4], values(1)[3:17, ::4])
        assert not c.verify().damage
    with dry.open(url, "r+", storage_options=rig.options) as c:
        with c.writer() as w, w.step() as t:
            w.put("T", values(t))
        c.commit()
        report = c.gc(keep=1)
        assert report is not None
        np.testing.assert_array_equal(c["T"][3], values(3))


def test_the_environment_is_enough(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in rig.environment.items():
        monkeypatch.setenv(name, value)
    fill("s3://bucket/env.dry", None, steps=1)
    with dry.open("s3://bucket/env.dry") as c:
        np.testing.assert_array_equal(c["T"][0], values(0))


@pytest.mark.parametrize("way", ["keys", "credential_process"])
def test_a_profile_has_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    names = {"AccessKeyId": KEYS["aws_access_key_id"], "SecretAccessKey": KEYS["aws_secret_access_key"]}
    strict = Rig("--access-key", KEYS["aws_access_key_id"], "--region", "lab-1")
    try:
        said = tmp_path / "said.json"
        said.write_text(json.dumps({"Version": 1, "Expiration": "2030-01-01T00:00:00Z", **names}))
        keys = "".join(f"{name} = {value}\n" for name, value in KEYS.items())
        secret = keys if way == "keys" else f"credential_process = cat {said}\n"
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws/config").write_text(
            f"[profile lab]\nregion = lab-1\nendpoint_url = {strict.endpoint}\n{secret}"
        )
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_PROFILE", "lab")
        fill("s3://bucket/profile.dry", None, steps=1)
        monkeypatch.delenv("AWS_PROFILE")
        with dry.open("s3://bucket/profile.dry", storage_options={"aws_profile": "lab"}) as c:
            np.testing.assert_array_equal(c["T"][0], values(0))
    finally:
        strict.close()
    monkeypatch.setenv("AWS_PROFILE", "absent")
    with pytest.raises(dry.InvalidArgumentError, match="absent"):
        dry.open("s3://bucket/profile.dry")


def test_creating_twice_is_a_conflict_and_overwriting_is_not(rig: Rig) -> None:
    url = "s3://bucket/twice.dry"
    fill(url, rig.options, steps=1)
    with pytest.raises(dry.ConflictError, match="already holds a container"):
        dry.create(url, storage_options=rig.options)
    with dry.create(url, overwrite=True, storage_options=rig.options) as c:
        assert not c.variables
    with pytest.raises(dry.NotFoundError):
        dry.open("s3://bucket/absent.dry", storage_options=rig.options)


def test_mode_a_creates(rig: Rig) -> None:
    with dry.open("s3://bucket/appended.dry", "a", storage_options=rig.options) as c:
        c.create_variable("x", "i4", shape=(3,))
    with dry.open("s3://bucket/appended.dry", "a", storage_options=rig.options) as c:
        assert "x" in c


def test_lost_replies_lose_nothing_and_change_no_value(rig: Rig) -> None:
    faults = [
        {"do": "cut", "share": 0.06},
        {"do": "cut", "after": 7, "share": 0.05},
        {"do": "status_after_landing", "status": 500, "share": 0.06},
        {"do": "status", "status": 503, "share": 0.05},
        {"do": "status", "status": 409, "share": 0.05, "kind": "PUT"},
    ]
    rig.order(rules=faults, seed=3)
    url = "s3://bucket/storm.dry"
    fill(url, rig.options, steps=6)
    with dry.open(url, storage_options=rig.options) as c:
        for step in range(6):
            np.testing.assert_array_equal(c["T"][step], values(step))
        assert not c.verify().damage


COMMITTER = """
    import sys, numpy as np, drystone as dry
    url, rank, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for n in range(steps):
        with dry.open(url, "r+") as c:
            with c.writer() as w, w.step(rank * 1000 + n):
                w.put("T", np.full((40, 30), rank * 1000 + n, "f8"))
            c.commit()
"""


def processes(rig: Rig, code: str, *arguments: tuple[str, ...]) -> list[subprocess.Popen[bytes]]:
    environment = {**os.environ, **rig.environment}
    program = textwrap.dedent(code)
    return [subprocess.Popen([sys.executable, "-c", program, *given], env=environment) for given in arguments]


@pytest.mark.slow
def test_commits_of_several_processes_at_once_all_arrive(rig: Rig) -> None:
    """Goal A-5: in a storm of lost, late and wrong replies, no commit is lost, and none conflicts with itself.
    `DRYSTONE_LONG=1` makes 200 commits in 8 processes."""
    url = "s3://bucket/race.dry"
    ranks, steps = (8, 25) if os.environ.get("DRYSTONE_LONG") else (3, 4)
    fill(url, rig.options, steps=0)
    faults = [
        {"do": "cut", "share": 0.06},
        {"do": "late", "ms": 30, "share": 0.02},
        {"do": "status_after_landing", "status": 500, "share": 0.06},
        {"do": "status_after_landing", "status": 503, "share": 0.03},
        {"do": "status_after_landing", "status": 409, "share": 0.03},
        {"do": "status", "status": 409, "share": 0.04},
        {"do": "status", "status": 500, "share": 0.03},
        {"do": "status", "status": 503, "share": 0.03},
    ]
    rig.order(rules=[{**fault, "key": "manifest/"} for fault in faults], seed=5)
    running = processes(rig, COMMITTER, *((url, str(rank), str(steps)) for rank in range(1, ranks + 1)))
    assert [process.wait(timeout=300) for process in running] == [0] * ranks
    rig.order(rules=[])
    with dry.open(url, storage_options=rig.options) as c:
        assert sorted(c.steps) == [rank * 1000 + n for rank in range(1, ranks + 1) for n in range(steps)]
        for step in c.steps:
            assert (c["T"].read(step=step) == step).all()


@pytest.mark.slow
def test_what_was_committed_survives_writers_that_are_killed(rig: Rig) -> None:
    url = "s3://bucket/killed.dry"
    fill(url, rig.options, steps=1)
    rig.order(rtt_ms=4)
    code = """
        import sys, numpy as np, drystone as dry
        with dry.open(sys.argv[1], "r+") as c, c.writer() as w:
            for n in range(10_000):
                with w.step():
                    w.put("T", np.full((40, 30), n, "f8"))
                c.commit()
                print(int(c.snapshot), flush=True)
    """
    rounds = int(os.environ.get("DRYSTONE_FAR_KILLS", "3"))
    told = 0
    for n in range(rounds):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), url],
            env={**os.environ, **rig.environment},
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        told = int(process.stdout.readline())
        time.sleep(0.05 * (n + 1))
        process.send_signal(signal.SIGKILL)
        told = max([told, *map(int, process.stdout.read().split())])
        process.wait()
        process.stdout.close()
        with dry.open(url, "r+", storage_options=rig.options) as c:
            assert int(c.snapshot) >= told
            assert not c.verify().damage
            c.recover(adopt=True)
    rig.order(rtt_ms=0)
    with dry.open(url, storage_options=rig.options) as c:
        assert not c.verify().damage
        np.testing.assert_array_equal(c["T"][0], values(0))


def test_pickles_open_again_and_hold_no_secret(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "s3://bucket/pickled.dry"
    fill(url, rig.options)
    with dry.open(url, storage_options=rig.options) as c:
        for thing in (c, c["T"]):
            pickled = pickle.dumps(thing)
            assert not [secret for secret in SECRETS if secret.encode() in pickled]
            assert rig.endpoint.encode() in pickled
        variable = pickle.dumps(c["T"])
    # This process has the options; another takes them from the environment.
    np.testing.assert_array_equal(pickle.loads(variable)[1], values(1))
    code = "import sys, pickle; print(float(pickle.loads(bytes.fromhex(sys.argv[1]))[2, 0, 0]))"
    environment = {**os.environ, **{k: v for k, v in rig.environment.items() if "ENDPOINT" not in k}}
    said = subprocess.run(
        [sys.executable, "-c", code, variable.hex()],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.stdout.strip() == "2000.0", said.stderr


def test_children_read_after_a_fork(rig: Rig) -> None:
    """Symptom elsewhere: workers hang, because they use their parent's threads and connections (goal A-7)."""
    url = "s3://bucket/forked.dry"
    fill(url, rig.options)
    with dry.open(url, storage_options=rig.options) as c:
        np.testing.assert_array_equal(c["T"][0], values(0))
        children = []
        for n in range(8):
            child = os.fork()
            if child == 0:
                ok = False
                try:
                    ok = bool((c["T"][n % 3] == values(n % 3)).all())
                finally:
                    os._exit(0 if ok else 1)
            children.append(child)
        deadline = time.monotonic() + 60
        while children and time.monotonic() < deadline:
            done, status = os.waitpid(children[0], os.WNOHANG)
            if done:
                assert status == 0
                children.pop(0)
            else:
                time.sleep(0.01)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert not children, "no child hangs"
        # The parent's connections still work.
        np.testing.assert_array_equal(c["T"][2], values(2))


def test_children_read_through_a_cache_after_a_fork(rig: Rig, tmp_path: Path) -> None:
    """Symptom: the thread that prefetched at the fork held locks, which stayed locked in the child."""
    url, steps = "s3://bucket/cached.dry", 40
    with dry.create(url, storage_options=rig.options) as c:
        c.create_variable("T", "f4", (100, 100), steps=True, chunks=(50, 50))
        with c.writer(rank=0, nranks=1) as w:
            for step in range(steps):
                with w.step(step):
                    w.put("T", np.full((100, 100), step, "f4"))
    rig.order(rtt_ms=20)
    with dry.open(url, storage_options=rig.options, cache=tmp_path / "cache") as c:
        for step in range(12):
            assert c["T"][step][0, 0] == step
            child = os.fork()
            if child == 0:
                ok = False
                try:
                    ok = bool((c["T"][step + 1] == step + 1).all())
                finally:
                    os._exit(0 if ok else 1)
            deadline = time.monotonic() + 20
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
                time.sleep(0.005)
            if ended == (0, 0):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            assert ended == (child, 0), step


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_dask_workers_read(rig: Rig, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    multiprocessing = pytest.importorskip("multiprocessing")
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    url = "s3://bucket/dask.dry"
    fill(url, rig.options)
    for name, value in rig.environment.items():
        monkeypatch.setenv(name, value)
    from concurrent.futures import ProcessPoolExecutor

    with (
        dry.open(url) as c,
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool,
        dask.config.set(pool=pool, scheduler="processes"),
    ):
        lazy = array.from_array(c["T"], chunks=(1, 20, 30))
        np.testing.assert_array_equal(lazy.compute(), np.stack([values(step) for step in range(3)]))


def _agrees(array: Any, step: int) -> bool:
    return bool((array[step] == values(step)).all())


def test_forked_children_and_spawned_workers_read_again_and_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal A-7: opened and read in the parent, then read in 8 forked children and in spawned workers with a pickle. No
    run hangs; `DRYSTONE_LONG=1` makes 1,000 of each."""
    from concurrent.futures import ProcessPoolExecutor

    runs, pools = (1000, 10) if os.environ.get("DRYSTONE_LONG") else (4, 1)
    url = "s3://bucket/again.dry"
    fill(url, rig.options)
    for name, value in rig.environment.items():
        monkeypatch.setenv(name, value)
    for run in range(runs):
        with dry.open(url, storage_options=rig.options) as c:
            T = c["T"]
            assert _agrees(T, run % 3)
            children = []
            for n in range(8):
                child = os.fork()
                if child == 0:
                    signal.alarm(60)  # a child that hangs is killed, and fails the run
                    os._exit(0 if _agrees(T, n % 3) else 1)
                children.append(child)
            assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8, run
            assert _agrees(T, (run + 1) % 3)
    spawn = multiprocessing.get_context("spawn")
    with dry.open(url) as c:
        for _ in range(pools):
            with ProcessPoolExecutor(2, mp_context=spawn) as pool:
                parts = [pool.submit(_agrees, c["T"], run % 3) for run in range(runs // pools)]
                assert all(part.result(timeout=120) for part in parts)


def test_xarray_opens_it(rig: Rig) -> None:
    xarray = pytest.importorskip("xarray")
    url = "s3://bucket/xarray.dry"
    fill(url, rig.options)
    with xarray.open_dataset(url, engine="drystone", storage_options=rig.options) as dataset:
        np.testing.assert_array_equal(dataset["T"].values[2], values(2))


def over_http(root: str) -> Any:
    """A zarr-python store that fetches files from a web server by name, as its own does with aiohttp."""
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest

    class OverHttp(Store):
        supports_writes = supports_deletes = supports_listing = supports_partial_writes = False

        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            request = urllib.request.Request(f"{root}/{key}")
            match byte_range:
                case RangeByteRequest(start, end):
                    request.add_header("Range", f"bytes={start}-{end - 1}")
                case OffsetByteRequest(offset):
                    request.add_header("Range", f"bytes={offset}-")
                case SuffixByteRequest(suffix):
                    request.add_header("Range", f"bytes=-{suffix}")
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return prototype.buffer.from_bytes(answer.read())
            except urllib.error.HTTPError:
                return None

        async def get_partial_values(self, prototype: Any, key_ranges: Any) -> list[Any]:
            return [await self.get(key, prototype, wanted) for key, wanted in key_ranges]

        async def exists(self, key: str) -> bool:
            return await self.get(key, zarr.core.buffer.default_buffer_prototype()) is not None

        def __eq__(self, other: object) -> bool:
            return self is other

        async def set(self, key: str, value: Any) -> None:
            raise NotImplementedError

        async def delete(self, key: str) -> None:
            raise NotImplementedError

        def list(self) -> Any:
            raise NotImplementedError

        def list_prefix(self, prefix: str) -> Any:
            raise NotImplementedError

        def list_dir(self, prefix: str) -> Any:
            raise NotImplementedError

    import zarr

    return OverHttp(read_only=True)


def test_what_is_published_is_read_by_zarr_over_http(rig: Rig) -> None:
    zarr = pytest.importorskip("zarr")
    url = "s3://bucket/published.dry"
    fill(url, rig.options)
    with dry.open(url, "r+", storage_options=rig.options) as c:
        c.publish()
        assert not c.verify(values=True).damage
    root = zarr.open_group(over_http(f"{rig.endpoint}/bucket/published.dry/zarr"), mode="r")
    np.testing.assert_array_equal(root["T"][1], values(1))


def test_what_is_published_is_read_by_zarr_over_obstore(rig: Rig) -> None:
    zarr = pytest.importorskip("zarr")
    obstore = pytest.importorskip("obstore")
    from zarr.storage import ObjectStore

    url = "s3://bucket/published2.dry"
    fill(url, rig.options)
    with dry.open(url, "r+", storage_options=rig.options) as c:
        c.publish()
    store = obstore.store.S3Store(
        "bucket",
        prefix="published2.dry/zarr",
        endpoint=rig.endpoint,
        access_key_id="x",
        secret_access_key="y",
        client_options={"allow_http": True},
    )
    root = zarr.open_group(ObjectStore(store, read_only=True), mode="r")
    np.testing.assert_array_equal(root["T"][2], values(2))


def test_a_container_behind_a_web_server_is_read_without_listing(rig: Rig) -> None:
    url = "s3://bucket/any/path/web.dry"
    fill(url, rig.options)
    web = f"{rig.endpoint}/bucket/any/path/web.dry"
    rig.order(reset=True)
    with dry.open(web) as c:
        np.testing.assert_array_equal(c["T"][1, :, 4:9], values(1)[:, 4:9])
        assert c.mode == "r"
        assert not c.verify().damage
        assert c.describe().writers
    assert rig.order()["requests"].get("LIST", 0) == 0
    said = subprocess.run(
        [sys.executable, "-m", "drystone", "info", web], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    with pytest.raises(dry.UnsupportedError, match="read only"):
        dry.open(web, "r+")
    with pytest.raises(dry.DrystoneError, match="read only"):
        dry.create(f"{rig.endpoint}/bucket/new.dry")
    with pytest.raises(dry.NotFoundError):
        dry.open(f"{rig.endpoint}/bucket/absent.dry")


@pytest.mark.parametrize("damaged", [1, 2, 100])
def test_a_damaged_reply_of_a_web_server_hides_no_snapshot(tmp_path: Path, damaged: int) -> None:
    """Symptom: after one damaged reply with the newest manifest a reader showed an older snapshot with a warning, or
    nothing. Such a reply is requested again; if all are damaged, a flushed snapshot is not passed over."""
    path = tmp_path / "web.dry"
    fill(str(path), None)
    newest = max((path / "manifest").glob("*.dsm")).name
    replies: list[str] = []

    class Damaging(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(tmp_path))

        def copyfile(self, source: Any, outputfile: Any) -> None:
            data = bytearray(source.read())
            if self.path.endswith(newest):
                replies.append(self.path)
                if len(replies) <= damaged:
                    data[len(data) // 2] ^= 4
            outputfile.write(bytes(data))

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Damaging) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/web.dry"
        if damaged == 100:
            with pytest.raises(dry.CorruptError, match=newest):
                dry.open(url)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with dry.open(url) as c:
                    assert c.steps == [0, 1, 2]
                    np.testing.assert_array_equal(c["T"][2], values(2))
            assert len(replies) > damaged
        server.shutdown()


def test_errors_say_what_to_do_and_tell_no_secret(rig: Rig) -> None:
    strict = Rig("--access-key", KEYS["aws_access_key_id"], "--region", "eu-1")
    right = {**strict.options, "aws_region": "eu-1"}
    wrong = [
        ("s3://nowhere/run.dry", right, ["nowhere", "NoSuchBucket"]),
        (
            "s3://bucket/run.dry",
            {**right, "aws_access_key_id": "other"},
            ["InvalidAccessKeyId", "access key", "request"],
        ),
        ("s3://bucket/run.dry", {**right, "aws_region": "us-1"}, ["region", "us-1", "bucket"]),
        ("s3://bucket/run.dry", {"aws_endpoint": strict.endpoint, "skip_signature": "true"}, ["403"]),
    ]
    try:
        for url, options, expected in wrong:
            for act in (dry.open, dry.create):
                with pytest.raises(dry.DrystoneError) as caught:
                    act(url, storage_options=options)
                message = str(caught.value)
                assert not [part for part in expected if part not in message], message
                assert not [secret for secret in SECRETS if secret in message], message
        fill("s3://bucket/right.dry", right, steps=1)
    finally:
        strict.close()


@pytest.mark.slow
@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "http://no-such-host.invalid:9"])
def test_a_dead_endpoint_is_an_error_within_45_seconds(endpoint: str) -> None:
    begun = time.monotonic()
    with pytest.raises(dry.IoError) as caught:
        dry.open(
            "s3://bucket/run.dry", storage_options={"aws_endpoint": endpoint, "allow_http": "true", **KEYS}
        )
    assert time.monotonic() - begun < 45
    assert "bucket" in str(caught.value)
    assert endpoint in str(caught.value)


def test_an_endpoint_that_never_answers_is_an_error_in_time() -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        options = {"aws_endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}", "timeout": "2s", **KEYS}
        begun = time.monotonic()
        with pytest.raises(dry.IoError, match="no answer within"):
            dry.open("s3://bucket/run.dry", storage_options=options)
        assert time.monotonic() - begun < 15


def test_wrong_options_and_unknown_schemes_are_named(tmp_path: Path) -> None:
    with pytest.raises(dry.InvalidArgumentError, match="aws_acces_key"):
        dry.open("s3://b/x", storage_options={"aws_acces_key": "x"})
    with pytest.raises(dry.UnsupportedError, match="s3, gs, az, http, https"):
        dry.open("ftp://b/x")
    with pytest.raises(dry.InvalidArgumentError, match="local path"):
        dry.open(tmp_path, storage_options={"aws_region": "x"})
    with pytest.raises(dry.InvalidArgumentError, match="not encrypted"):
        dry.open("s3://b/x", storage_options={"aws_endpoint": "http://far.example.org"})
    with pytest.raises(dry.InvalidArgumentError) as caught:
        dry.open("https://someone:hunter2@host/x")
    assert "hunter2" not in str(caught.value)


def test_no_secret_is_shown_anywhere(rig: Rig) -> None:
    url = "s3://bucket/shown.dry"
    fill(url, rig.options)
    with dry.open(url, "r+", storage_options=rig.options) as c:
        shown = [repr(c), str(c), c._repr_html_(), repr(c["T"]), repr(c._options), repr(c.describe())]
        shown += [json.dumps(rig.order()), repr(vars(c)), str(c["T"].explain[0])]
    assert not [secret for secret in SECRETS for text in shown if secret in text]


def test_the_command_takes_urls(rig: Rig) -> None:
    url = "s3://bucket/command.dry"
    fill(url, rig.options)
    environment = {**os.environ, **rig.environment}
    run = [sys.executable, "-m", "drystone"]
    said = subprocess.run([*run, "ls", url], env=environment, capture_output=True, text=True, check=True)
    assert "T" in said.stdout
    given = [part for name, value in rig.options.items() for part in ("-o", f"{name}={value}")]
    said = subprocess.run([*run, "info", url, *given], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert url in said.stdout
    for command in (
        ["verify", url],
        ["dump", url, "T", "[0, 0, :3]"],
        ["recover", "--adopt", "--yes", url],
        ["gc", url],
        ["du", url],
        ["diff", url, url],
    ):
        said = subprocess.run([*run, *command], env=environment, capture_output=True, text=True, check=False)
        assert said.returncode == 0, (command, said.stderr)
    said = subprocess.run(
        [*run, "ls", "s3://nowhere/x"], env=environment, capture_output=True, text=True, check=False
    )
    assert said.returncode != 0
    assert "nowhere" in said.stderr
    assert not [s for s in SECRETS if s in said.stderr]


def test_large_blocks_go_up_in_parts_and_come_back(rig: Rig) -> None:
    url = "s3://bucket/large.dry"
    cells = np.random.default_rng(1).standard_normal((5, 1 << 20))
    with dry.create(url, storage_options=rig.options) as c:
        c.create_variable("x", "f8", shape=cells.shape, steps=True)
        with c.writer() as w, w.step():
            w.put("x", cells)
        c.commit()
        np.testing.assert_array_equal(c["x"][0], cells)
    assert rig.order()["open_uploads"] == 0


def test_a_closed_container_asks_its_server_nothing_when_it_is_collected(rig: Rig) -> None:
    """Symptom: a program whose server had ended waited 30 s for each container that it closed. Cause: closing a handle
    asked whether the container was still the same before it checked whether there was anything to write. Requests
    are counted."""
    url = "s3://bucket/collected.dry"
    fill(url, rig.options, steps=2)
    c = dry.open(url, storage_options=rig.options)
    np.testing.assert_array_equal(c["T"][0], values(0))
    c.close()
    rig.order(reset=True)
    del c
    gc.collect()
    assert sum(rig.order()["requests"].values()) == 0
