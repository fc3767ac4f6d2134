"""Drystone's transforms as a Zarr v3 codec: arrays that hold subchunks as Drystone stores them open in zarr-python.

The package registers it with zarr-python (entry point `zarr.codecs`), under the name `drystone`:

    zarr.create_array(..., serializer=DrystoneCodec("lorenzo,shuffle,zstd:1"), compressors=None)

Codecs that only Drystone has are also available separately, under their own names:

    zarr.create_array(..., serializer=Isobar(level=3), compressors=None)        # {"name": "drystone.isobar", ...}
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

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
    """A chain of codecs, from the array of a chunk to its stored form (docs/format/encodings.md).

    Chunks have at most 16 MiB.
    """

    transform: str

    is_fixed_size = False

    def __init__(self, transform: str) -> None:
        object.__setattr__(self, "transform", _core.chain_text(transform))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make it from the object in `zarr.json`."""
        _, configuration = parse_named_configuration(data, "drystone")
        return cls(**cast(dict[str, Any], configuration))

    def to_dict(self) -> dict[str, Any]:
        """The object for `zarr.json`."""
        return {"name": "drystone", "configuration": {"transform": self.transform}}

    def compute_encoded_size(self, input_byte_length: int, _chunk_spec: ArraySpec) -> int:
        """Unknown before encoding."""
        raise NotImplementedError

    def _native(self, spec: ArraySpec) -> np.dtype[Any]:
        dtype = np.dtype(spec.dtype.to_native_dtype()).newbyteorder("<")
        if dtype.kind not in "biufcSU":
            raise InvalidArgumentError(f"the codec drystone takes numbers and fixed-size text, not {dtype}")
        return dtype

    def _decoded(self, stored: Buffer, spec: ArraySpec) -> NDBuffer:
        dtype = self._native(spec)
        data = _core.decode_subchunk(self.transform, dtype, spec.shape, stored.to_bytes())
        array: Any = np.frombuffer(data, dtype).reshape(spec.shape).copy()
        return spec.prototype.nd_buffer.from_ndarray_like(array)

    def _encoded(self, array: NDBuffer, spec: ArraySpec) -> Buffer:
        dtype = self._native(spec)
        dense = np.ascontiguousarray(array.as_numpy_array(), dtype)
        stored = _core.encode_subchunk(self.transform, dtype, dense.shape, dense.reshape(-1).view("u1"))
        return spec.prototype.buffer.from_bytes(stored)

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        return await asyncio.to_thread(self._decoded, chunk_bytes, chunk_spec)

    async def _encode_single(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        return await asyncio.to_thread(self._encoded, chunk_array, chunk_spec)


class OneCodec(DrystoneCodec):
    """A single codec, with its parameters by name (docs/format/encodings.md); subclasses define which."""

    codec: ClassVar[str]
    first: ClassVar[str | None] = None
    """The parameter that is a list of numbers, which a transform text gives by position."""
    parameters: dict[str, Any]

    def __init__(self, **parameters: Any) -> None:
        super().__init__(self._text(parameters))
        object.__setattr__(self, "parameters", parameters)

    @classmethod
    def _text(cls, parameters: dict[str, Any]) -> str:
        pieces = [str(int(n)) for n in parameters.get(cls.first, ())] if cls.first else []
        for name, value in parameters.items():
            if name != cls.first:
                pieces.append(f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}")
        return ":".join([cls.codec, ",".join(pieces)] if pieces else [cls.codec])

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make it from the object in `zarr.json`."""
        _, configuration = parse_named_configuration(
            data, f"drystone.{cls.codec}", require_configuration=False
        )
        return cls(**cast(dict[str, Any], configuration or {}))

    def to_dict(self) -> dict[str, Any]:
        """The object for `zarr.json`."""
        return {"name": f"drystone.{self.codec}", "configuration": self.parameters}


class Isobar(OneCodec):
    """Compresses the compressible byte columns only: `level`, `solver`, `order`, `prefer`."""

    codec = "isobar"


class Aplod(OneCodec):
    """Bytes by significance, each component separately: `components`, such as `[2, 1, 1, 4]`; `level`."""

    codec = "aplod"
    first = "components"


class Alacrity(OneCodec):
    """Numbers sorted into bins by value: `bits`, `data`."""

    codec = "alacrity"


class Multilevel(OneCodec):
    """Corrections to interpolation, in bit planes: `level`."""

    codec = "multilevel"


class Mloc(OneCodec):
    """Numbers sorted by value, position and precision: `order`, such as `"V:16,S:32,P:2.1.1.4"`; `level`."""

    codec = "mloc"


class Szip(OneCodec):
    """The bytes of HDF5's szip filter: `block`, `coding`."""

    codec = "szip"


class Zfp(OneCodec):
    """Streams of the zfp library: one of `tolerance`, `precision` and `rate`, or none to keep every bit."""

    codec = "zfp"
