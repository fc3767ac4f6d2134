"""Arrays that clients of Zarr declare: their documents, and their chunks, by zarr-python's own codecs."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from drystone import _core
from drystone.errors import DrystoneError, UnsupportedError

_APART = ("shape", "attributes", "consolidated_metadata")
# zarr's codecs for what Drystone expresses by the type of the variable.
_SERIALIZERS = ("bytes", "vlen-utf8", "vlen-bytes", "crc32c")


def layout_of(document: dict[str, Any]) -> dict[str, Any]:
    """The part of a document that does not change when the array is resized or its attributes change."""
    return {name: value for name, value in document.items() if name not in _APART}


class Chunks:
    """The chunks of an array: their keys, and their bytes."""

    def __init__(self, document: dict[str, Any]) -> None:
        grid = document["chunk_grid"]
        if grid["name"] != "regular":
            raise UnsupportedError(f"the chunk grid {grid['name']!r} is not stored: only regular ones are")
        self.shape = tuple(max(1, int(n)) for n in grid["configuration"]["chunk_shape"])
        self._document = document
        encoding = document.get("chunk_key_encoding", {"name": "default"})
        self._prefixed = encoding["name"] == "default"
        self._separator = encoding.get("configuration", {}).get("separator", "/" if self._prefixed else ".")

    def key(self, index: tuple[int, ...]) -> str:
        """Key of a chunk, below the array's key."""
        parts = [*(["c"] if self._prefixed else []), *map(str, index)]
        return self._separator.join(parts) or "0"

    def index(self, key: str) -> tuple[int, ...] | None:
        """The chunk of a key below the array's key."""
        parts = key.split(self._separator)
        if self._prefixed and parts.pop(0) != "c":
            return None
        if not self._prefixed and not self.shape and parts == ["0"]:
            parts = []
        if len(parts) != len(self.shape) or not all(p.isdecimal() and str(int(p)) == p for p in parts):
            return None
        return tuple(map(int, parts))

    @cached_property
    def _one(self) -> bytes:
        """The document of an array that is one chunk."""
        layout = {**layout_of(self._document), "shape": list(self.shape), "attributes": {}}
        layout["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/"}}
        return json.dumps(layout).encode()

    def _array(self, data: bytes | None = None) -> tuple[dict[str, Any], zarr.Array[Any]]:
        buffer = default_buffer_prototype().buffer
        held: dict[str, Any] = {"zarr.json": buffer.from_bytes(self._one)}
        if data is not None:
            held[self._chunk] = buffer.from_bytes(data)
        with zarr.config.set({"array.write_empty_chunks": True}):
            return held, zarr.open_array(MemoryStore(held), mode="r+", zarr_format=3)

    def canonical(self) -> bytes:
        """The document as zarr-python writes it, without shape, attributes and keys.

        It is equal for arrays that are stored in the same way.
        """
        written = self._array()[1].metadata.to_buffer_dict(default_buffer_prototype())
        return written["zarr.json"].to_bytes()

    @property
    def _chunk(self) -> str:
        return "/".join(["c", *("0" for _ in self.shape)])

    def decode(self, data: bytes) -> npt.NDArray[Any]:
        """The values of a whole chunk."""
        return np.asarray(self._array(data)[1][...])

    def empty(self) -> npt.NDArray[Any]:
        """A chunk of fill values."""
        return np.asarray(self._array()[1][...])

    def encode(self, values: npt.NDArray[Any]) -> bytes:
        """A chunk as the document specifies; missing cells at the array's edges have the fill value."""
        held, array = self._array()
        if array.dtype.kind == "T" or values.dtype.kind == "O":
            values = values.astype(array.dtype)
        elif values.dtype != array.dtype and array.dtype.kind in "mM":
            values = values.view(array.dtype)
        array[tuple(slice(n) for n in values.shape)] = values
        stored: bytes = held[self._chunk].to_bytes()
        return stored


def create_arguments(document: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `create_variable` for a declared array, without its attributes."""
    chunks = Chunks(document)
    array = chunks._array()[1]
    dtype: Any = array.dtype
    fill: Any = array.fill_value
    if dtype.kind in "TO":
        if document["data_type"] != "string":
            raise UnsupportedError(f"the Zarr data type {document['data_type']} has no form in Drystone")
        dtype, fill = str, None
    elif dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic":
        dtype, fill = np.dtype("i8"), np.asarray(fill).view("i8")[()]
    elif dtype.kind == "V" and dtype.names is None:
        raise UnsupportedError(f"the Zarr data type {document['data_type']} has no form in Drystone")
    elif not dtype.isnative:
        dtype = dtype.newbyteorder("=")
    shape = document["shape"]
    names = document.get("dimension_names")
    named = names is not None and all(names) and len(set(names)) == len(names)
    inner, codecs = list(chunks.shape), document["codecs"]
    for codec in codecs:
        if codec["name"] == "sharding_indexed":
            inner, codecs = codec["configuration"]["chunk_shape"], codec["configuration"]["codecs"]
    return {
        "dtype": dtype,
        "shape": tuple(shape),
        "dims": names if named else None,
        "chunks": tuple(max(1, n) for n in inner) if shape and dtype is not str else None,
        "transform": None if dtype is str else _transform(codecs),
        "fill_value": fill,
    }


def _transform(codecs: list[dict[str, Any]]) -> str | None:
    """The equivalent chain in Drystone; none if it lacks one of the codecs."""
    wanted = [codec for codec in codecs if codec["name"] not in _SERIALIZERS]
    if not wanted:
        return None
    texts = []
    for codec in wanted:
        name, configuration = codec["name"], codec.get("configuration", {})
        if name == "zstd":
            texts.append(f"zstd:{configuration.get('level', 0) or 3}")
        elif name == "gzip":
            texts.append(f"zlib:{configuration.get('level', 5)}")
        else:
            return None
    try:
        return _core.chain_text(",".join(texts))
    except DrystoneError:
        return None
