"""Containers on servers of others, each started by a script in tests/servers: moto, and what reads a published replica there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import drystone as dry
import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[2] / "servers"
KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}


@pytest.fixture(scope="module")
def moto() -> Iterator[dict[str, str]]:
    """Options of the store."""
    pytest.importorskip("moto")
    pytest.importorskip("flask_cors")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, str(SCRIPTS / "serve_moto.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        endpoint = server.stdout.readline().strip()
        assert endpoint.startswith("http"), "the server did not start"
        yield {"aws_endpoint": endpoint, **KEYS}
        server.stdin.close()
        server.wait(timeout=20)


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
