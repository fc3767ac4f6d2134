"""How each engine uses the server: at most 128 requests under way, and chunks of 1 MiB if it has chunks.

- *drystone*: its defaults; written as one writer writes it, and the same container published.
- *zarr*: zarr-python over obstore, `async.concurrency` 128.
- *tensorstore*: its `zarr3` driver on the same stores, `s3_request_concurrency` 128.
- *icechunk*: zarr-python over a session of a repository, 128 requests under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlparse

import numpy as np
from server import KEYS

Array = Any
"""What is opened: `array[key]`, and `points`."""
CONCURRENCY = 128


class Engine(Protocol):
    """What a question asks of an engine."""

    name: str

    def write(self, name: str, arrays: dict[str, np.ndarray], chunk: tuple[int, ...]) -> None:
        """Store arrays of one shape under a name."""

    def open(self, name: str, array: str) -> Array:
        """A new handle on one of them, without caches of earlier ones."""

    def points(self, array: Array, coords: np.ndarray) -> np.ndarray:
        """Single cells; `coords` is (n, ndim)."""


class Drystone:
    """Ours."""

    def __init__(self, endpoint: str, *, published: bool = False) -> None:
        import drystone

        self.dry, self.published = drystone, published
        self.options = {"aws_endpoint": endpoint, **KEYS}
        self.name = "drystone, published" if published else "drystone"

    def url(self, name: str) -> str:
        """Where it lies."""
        return f"s3://bucket/{'published' if self.published else 'drystone'}/{name}.dry"

    def write(self, name: str, arrays: dict[str, np.ndarray], chunk: tuple[int, ...]) -> None:
        """See Engine."""
        with self.dry.create(self.url(name), storage_options=self.options) as c:
            shape = next(iter(arrays.values())).shape
            # Blocks of the first axis in turn: what a simulation that puts several variables leaves.
            for key, values in arrays.items():
                c.create_variable(key, values.dtype, shape=shape)
            with c.writer() as w:
                for first in range(0, shape[0], chunk[0]):
                    for key, values in arrays.items():
                        offset = (first, *(0 for _ in shape[1:]))
                        w.put(key, values[first : first + chunk[0]], offset=offset)
            c.commit()
            if self.published:
                c.publish()

    def write_rows(self, name: str, values: np.ndarray) -> None:
        """Every row a block of its own."""
        with self.dry.create(self.url(name), storage_options=self.options) as c:
            c.create_variable("a", values.dtype, shape=values.shape)
            with c.writer() as w:
                for row in range(len(values)):
                    w.put("a", values[row : row + 1], offset=(row, 0))
            c.commit()

    def open(self, name: str, array: str) -> Array:
        """See Engine."""
        return self.dry.open(self.url(name), storage_options=self.options)[array]

    def points(self, array: Array, coords: np.ndarray) -> np.ndarray:
        """See Engine."""
        return np.asarray(array.read_points(coords))


class Zarr:
    """zarr-python over obstore."""

    name = "zarr"

    def __init__(self, endpoint: str) -> None:
        import zarr
        from obstore.store import S3Store
        from zarr.storage import ObjectStore

        zarr.config.set({"async.concurrency": CONCURRENCY})
        self.zarr, self.object_store, self.s3 = zarr, ObjectStore, S3Store
        self.endpoint = endpoint

    def store(self, name: str) -> Any:
        """Where the arrays of a name lie."""
        return self.object_store(
            self.s3(
                "bucket",
                prefix=f"zarr/{name}",
                endpoint=self.endpoint,
                access_key_id=KEYS["aws_access_key_id"],
                secret_access_key=KEYS["aws_secret_access_key"],
                region="us-east-1",
                virtual_hosted_style_request=False,
                client_options={"allow_http": True},
            )
        )

    def write(self, name: str, arrays: dict[str, np.ndarray], chunk: tuple[int, ...]) -> None:
        """See Engine."""
        store = self.store(name)
        _write(self.zarr, store, arrays, chunk)
        self.zarr.consolidate_metadata(store)

    def open(self, name: str, array: str) -> Array:
        """See Engine."""
        return self.zarr.open_group(self.store(name), mode="r", use_consolidated=True)[array]

    def points(self, array: Array, coords: np.ndarray) -> np.ndarray:
        """See Engine."""
        return np.asarray(array.vindex[tuple(coords.T)])


def _write(zarr: Any, store: Any, arrays: dict[str, np.ndarray], chunk: tuple[int, ...]) -> None:
    root = zarr.create_group(store, overwrite=True)
    for key, values in arrays.items():
        made = root.create_array(key, shape=values.shape, dtype=values.dtype, chunks=chunk, compressors=None)
        made[...] = values


class TensorStore:
    """Reads what Zarr wrote."""

    name = "tensorstore"

    def __init__(self, endpoint: str) -> None:
        import tensorstore

        self.ts, self.endpoint = tensorstore, endpoint

    def write(self, name: str, arrays: dict[str, np.ndarray], chunk: tuple[int, ...]) -> None:
        """Nothing: the arrays of zarr are its own."""

    def open(self, name: str, array: str) -> Array:
        """See Engine."""
        context = self.ts.Context(
            {
                "s3_request_concurrency": {"limit": CONCURRENCY},
                "cache_pool": {"total_bytes_limit": 0},
                "aws_credentials": {"type": "anonymous"},
            }
        )
        spec = {
            "driver": "zarr3",
            "kvstore": {
                "driver": "s3",
                "bucket": "bucket",
                "path": f"zarr/{name}/{array}/",
                "endpoint": self.endpoint,
                "aws_region": "us-east-1",
            },
        }
        return _Read(self.ts.open(spec, context=context, open=True, read=True).result())

    def points(self, array: Array, coords: np.ndarray) -> np.ndarray:
        """See Engine."""
        return np.asarray(array.array.vindex[tuple(coords.T)].read().result())


class _Read:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, key: Any) -> np.ndarray:
        return np.asarray(self.array[key].read().result())


class Icechunk:
    """zarr-python over a read-only session of a repository."""

    name = "icechunk"

    def __init__(self, endpoint: str) -> None:
        import icechunk
        import zarr

        zarr.config.set({"async.concurrency": CONCURRENCY})
        self.icechunk, self.zarr, self.endpoint = icechunk, zarr, endpoint

    def storage(self, name: str) -> Any:
        """Where a repository lies."""
        return self.icechunk.s3_storage(
            bucket="bucket",
            prefix=f"icechunk/{name}",
            region="us-east-1",
            endpoint_url=self.endpoint,
            allow_http=True,
            force_path_style=True,
            access_key_id=KEYS["aws_access_key_id"],
            secret_access_key=KEYS["aws_secret_access_key"],
        )

    def config(self) -> Any:
        """Its best settings."""
        config = self.icechunk.RepositoryConfig.default()
        config.get_partial_values_concurrency = CONCURRENCY
        return config

    def write(self, name: str, arrays: dict[str, np.ndarray], chunk: tuple[int, ...]) -> None:
        """See Engine."""
        session = self.icechunk.Repository.create(self.storage(name), config=self.config()).writable_session(
            "main"
        )
        _write(self.zarr, session.store, arrays, chunk)
        session.commit("written")

    def open(self, name: str, array: str) -> Array:
        """See Engine."""
        session = self.icechunk.Repository.open(self.storage(name), config=self.config()).readonly_session(
            "main"
        )
        return self.zarr.open_group(session.store, mode="r")[array]

    def points(self, array: Array, coords: np.ndarray) -> np.ndarray:
        """See Engine."""
        return np.asarray(array.vindex[tuple(coords.T)])


def available(endpoint: str) -> tuple[list[Engine], dict[str, str]]:
    """Ours first; the reasons why others are not there."""
    assert urlparse(endpoint).port
    makers: list[Callable[[str], Engine]] = [
        Drystone,
        lambda endpoint: Drystone(endpoint, published=True),
        Zarr,
        TensorStore,
        Icechunk,
    ]
    engines: list[Engine] = []
    missing: dict[str, str] = {}
    for maker, name in zip(makers, ("drystone", "", "zarr", "tensorstore", "icechunk"), strict=True):
        try:
            engines.append(maker(endpoint))
        except ImportError as error:
            missing[name] = str(error)
    return engines, missing
