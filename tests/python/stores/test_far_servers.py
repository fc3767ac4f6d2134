"""Containers on other servers: moto, versitygw, Ceph's radosgw, Azurite, fake-gcs-server; and readers of a replica
there.

A script in tests/servers starts each of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "servers"
KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}


MISSING = 3
"""Exit code of a script whose program is not there."""


def served(script: str) -> Iterator[str]:
    """The address of the server that a script starts; skips the test if its program is missing."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "AZURE_", "GOOGLE_"))
    }
    with subprocess.Popen(
        [sys.executable, str(SCRIPTS / script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        assert server.stdin is not None
        endpoint = server.stdout.readline().strip()
        if not endpoint and server.wait(timeout=20) == MISSING:
            pytest.skip(server.stderr.read().strip())
        assert endpoint.startswith("http"), f"{script} did not start: {server.stderr.read()}"
        yield endpoint
        server.stdin.close()
        server.wait(timeout=20)


@pytest.fixture(scope="module")
def moto() -> Iterator[dict[str, str]]:
    """Options of the store."""
    pytest.importorskip("moto")
    pytest.importorskip("flask_cors")
    for endpoint in served("serve_moto.py"):
        yield {"aws_endpoint": endpoint, **KEYS}


AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The public key of every Azurite emulator, not a secret."""


@pytest.fixture(scope="module")
def azurite() -> Iterator[dict[str, str]]:
    """Options of the store."""
    for endpoint in served("serve_azurite.py"):
        yield {
            "azure_storage_endpoint": endpoint,
            "azure_storage_account_name": "devstoreaccount1",
            "azure_storage_account_key": AZURITE_KEY,
        }


SIGNED = {"aws_access_key_id": "drystone", "aws_secret_access_key": "drystone-secret"}


@pytest.fixture(scope="module")
def versity() -> Iterator[dict[str, str]]:
    """Options of the store."""
    for endpoint in served("serve_versity.py"):
        yield {"aws_endpoint": endpoint, **SIGNED}


@pytest.fixture(scope="module")
def radosgw() -> Iterator[dict[str, str]]:
    """Options of the store."""
    for endpoint in served("serve_radosgw.py"):
        yield {"aws_endpoint": endpoint, **SIGNED}


@pytest.fixture(scope="module")
def gcs() -> Iterator[dict[str, str]]:
    """Options of the store."""
    for endpoint in served("serve_gcs.py"):
        yield {"google_base_url": endpoint, "google_skip_signature": "true"}


def fill(url: str, options: dict[str, str]) -> np.ndarray:
    values = np.arange(2 * 40 * 30, dtype="f8").reshape(2, 40, 30)
    with dry.create(url, storage_options=options) as c:
        c.create_variable("T", "f8", shape=(40, 30), dims=("y", "x"), steps=True)
        with c.writer() as w:
            for plane in values:
                with w.step():
                    w.put("T", plane)
        c.commit()
    return values


def test_moto_keeps_a_container(moto: dict[str, str]) -> None:
    url = "s3://bucket/runs/run42.dry"
    values = fill(url, moto)
    with dry.open(url, "r+", storage_options=moto) as c:
        np.testing.assert_array_equal(c["T"][:, 3:9, ::2], values[:, 3:9, ::2])
        assert not c.verify().damage
        c.gc(keep=1)
    with pytest.raises(dry.ConflictError):
        dry.create(url, storage_options=moto)
    with pytest.raises(dry.IoError, match="NoSuchBucket"):
        dry.open("s3://nowhere/x.dry", storage_options=moto)


def promises(url: str, options: dict[str, str]) -> dict[str, bool]:
    """The output of `drystone doctor` for a store."""
    given = [text for name, value in options.items() for text in ("-o", f"{name}={value}")]
    command = [sys.executable, "-m", "drystone", "doctor", url, "--json", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    return {promise["what"]: promise["kept"] for promise in json.loads(done.stdout)["promises"]}


def keeps_a_container(url: str, options: dict[str, str], *, large: bool) -> None:
    values = fill(url, options)
    with dry.open(url, "r+", storage_options=options) as c:
        np.testing.assert_array_equal(c["T"][:, 3:9, ::2], values[:, 3:9, ::2])
        if large:
            block = np.arange(3 << 20, dtype="f8")  # 24 MiB, uploaded in pieces
            c.create_variable("B", "f8", shape=block.shape)
            with c.writer() as w:
                w.put("B", block)
            np.testing.assert_array_equal(c["B"][:], block)
        c.gc(keep=1)
        assert not c.verify(values=True).damage


def test_azurite_keeps_a_container_and_every_promise(azurite: dict[str, str]) -> None:
    """Symptom: uploads in pieces failed: they were started with metadata, which Azure accepts only at their end."""
    url = "az://bucket/runs/run42.dry"
    keeps_a_container(url, azurite, large=True)
    with pytest.raises(dry.ConflictError):
        dry.create(url, storage_options=azurite)
    with pytest.raises(dry.NotFoundError):
        dry.open("az://bucket/runs/other.dry", storage_options=azurite)
    with pytest.raises(dry.IoError, match="ContainerNotFound"):
        dry.open("az://nowhere/x.dry", storage_options=azurite)
    wrong = {**azurite, "azure_storage_account_key": "AAAA" * 22}
    with pytest.raises(dry.PermissionError):
        dry.open(url, storage_options=wrong)
    assert all(promises("az://bucket/doctor", azurite).values())


def test_versitygw_keeps_a_container(versity: dict[str, str]) -> None:
    """It checks signatures. It looks for an object before it puts one, so a race of creators may have two winners: not
    tested."""
    kept = keeps_what_a_server_of_s3_keeps(versity)
    del kept["create if absent"]
    assert all(kept.values()), kept


def keeps_what_a_server_of_s3_keeps(options: dict[str, str]) -> dict[str, bool]:
    """A container with large blocks, and the errors of a server that checks signatures; then the output of `drystone
    doctor`."""
    url = "s3://bucket/runs/run42.dry"
    keeps_a_container(url, options, large=True)
    with pytest.raises(dry.ConflictError):
        dry.create(url, storage_options=options)
    with pytest.raises(dry.IoError, match="NoSuchBucket"):
        dry.open("s3://nowhere/x.dry", storage_options=options)
    with pytest.raises(dry.PermissionError, match="check the access key and the secret key"):
        dry.open(url, storage_options={**options, "aws_secret_access_key": "another"})
    return promises("s3://bucket/doctor", options)


@pytest.mark.slow
def test_radosgw_keeps_a_container(radosgw: dict[str, str]) -> None:
    """It ignores the condition of a request that completes an upload in pieces; log parts have names unique to their
    writer."""
    kept = keeps_what_a_server_of_s3_keeps(radosgw)
    del kept["large objects"]
    assert all(kept.values()), kept


def test_fake_gcs_server_gives_what_was_put_there_by_others(gcs: dict[str, str], tmp_path: Path) -> None:
    """It accepts objects only through Google's JSON interface; containers use the XML one, which it reads and lists."""
    values = np.arange(2 * 40 * 30, dtype="f8").reshape(2, 40, 30)
    with dry.create(tmp_path / "run42.dry") as c:
        c["T"] = values
        c.publish()
    for file in (tmp_path / "run42.dry").rglob("*"):
        if file.is_file():
            name = urllib.parse.quote(f"runs/{file.relative_to(tmp_path)}", safe="")
            place = f"{gcs['google_base_url']}/upload/storage/v1/b/bucket/o?uploadType=media&name={name}"
            urllib.request.urlopen(urllib.request.Request(place, file.read_bytes()), timeout=20).close()
    with dry.open("gs://bucket/runs/run42.dry", storage_options=gcs) as c:
        np.testing.assert_array_equal(c["T"][:, 3:9, ::2], values[:, 3:9, ::2])
        assert not c.verify(values=True).damage
        assert c.snapshots
    with pytest.raises(dry.NotFoundError):
        dry.open("gs://bucket/runs/other.dry", storage_options=gcs)
    with pytest.raises(dry.DrystoneError, match=r"gs://bucket/runs/new\.dry"):
        dry.create("gs://bucket/runs/new.dry", storage_options=gcs)


def test_a_published_replica_on_a_server_is_read_by_zarr_xarray_and_tensorstore(
    moto: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr = pytest.importorskip("zarr")
    obstore = pytest.importorskip("obstore")
    xr = pytest.importorskip("xarray")
    from zarr.storage import ObjectStore

    url = "s3://bucket/published.dry"
    values = fill(url, moto)
    with dry.open(url, "r+", storage_options=moto) as c:
        c.publish()
        assert not c.verify(values=True).damage
    place = obstore.store.S3Store(
        "bucket",
        prefix="published.dry/zarr",
        endpoint=moto["aws_endpoint"],
        access_key_id="x",
        secret_access_key="y",
        client_options={"allow_http": True},
    )
    store = ObjectStore(place, read_only=True)
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["T"][:], values)
    with xr.open_zarr(store, consolidated=False) as ds:
        np.testing.assert_array_equal(ds["T"].values, values)
    ts = pytest.importorskip("tensorstore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    kvstore = {
        "driver": "s3",
        "bucket": "bucket",
        "path": "published.dry/zarr/T/",
        "endpoint": moto["aws_endpoint"],
        "aws_region": "us-east-1",
        "aws_credentials": {"type": "environment"},
    }
    spec = {"driver": "zarr3", "kvstore": kvstore}
    np.testing.assert_array_equal(ts.open(spec, read=True).result().read().result(), values)


@pytest.mark.slow
def test_the_chapter_on_s3_runs(
    moto: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run the guide's Python and shell blocks in order, against a server at another port."""
    pytest.importorskip("matplotlib")
    text = (SCRIPTS.parents[1] / "docs/tutorial/s3.md").read_text()
    assert "http://127.0.0.1:5000" in text
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto["aws_endpoint"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    names = {"__name__": "chapter"}
    code = ""
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, "docs/tutorial/s3.md", "exec"), names)
            code += block
        elif "serve_moto.py" not in block:
            typed = block.replace("http://127.0.0.1:5000", moto["aws_endpoint"])
            done = subprocess.run(["bash", "-euc", typed], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert not done.stderr
    said = capsys.readouterr().out
    for line in re.findall(r"print\(.*\)\s+# (.*)", code):
        assert line in said
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")
