"""Drystone's transforms as a Zarr v3 codec: arrays that hold subchunks as Drystone stores them open in zarr-python.

The package registers it with zarr-python (entry point `zarr.codecs`), under the name `drystone`:

    zarr.create_array(..., serializer=DrystoneCodec("lorenzo,shuffle,zstd:1"), compressors=None)
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from zarr.abc.codec import ArrayBytesCodec
from zarr.core.common import parse_named_configuration

from drystone import _core
from drystone.errors import InvalidArgumentError

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer


@dataclass(frozen=True)
class DrystoneCodec(ArrayBytesCodec):
    """A chain of codecs, from the array of a chunk to its stored form (docs/transforms.md). Chunks have at most 16 MiB."""

    transform: str

    is_fixed_size = False

    def __init__(self, transform: str) -> None:
        object.__setattr__(self, "transform", _core.chain_text(transform))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make it from the object in `zarr.json`."""
        _, configuration = parse_named_configuration(data, "drystone")
        return cls(**cast("dict[str, str]", configuration))

    def to_dict(self) -> dict[str, Any]:
        """The object for `zarr.json`."""
        return {"name": "drystone", "configuration": {"transform": self.transform}}

    def compute_encoded_size(self, input_byte_length: int, _chunk_spec: ArraySpec) -> int:
        """Not known before it is encoded."""
        raise NotImplementedError

    def _native(self, spec: ArraySpec) -> np.dtype[Any]:
        dtype = np.dtype(spec.dtype.to_native_dtype()).newbyteorder("<")
        if dtype.kind not in "biufcSU":
            raise InvalidArgumentError(f"the codec drystone takes numbers and fixed-size text, not {dtype}")
        return dtype

    def _decoded(self, stored: Buffer, spec: ArraySpec) -> NDBuffer:
        dtype = self._native(spec)
        data = _core.decode_subchunk(self.transform, dtype, spec.shape, stored.to_bytes())
        array = np.frombuffer(data, dtype).reshape(spec.shape).copy()
        return spec.prototype.nd_buffer.from_ndarray_like(cast("Any", array))

    def _encoded(self, array: NDBuffer, spec: ArraySpec) -> Buffer:
        dtype = self._native(spec)
        dense = np.ascontiguousarray(array.as_numpy_array(), dtype)
        stored = _core.encode_subchunk(self.transform, dtype, dense.shape, dense.reshape(-1).view("u1"))
        return spec.prototype.buffer.from_bytes(stored)

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        return await asyncio.to_thread(self._decoded, chunk_bytes, chunk_spec)

    async def _encode_single(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await asyncio.to_thread(self._encoded, chunk_array, chunk_spec)
