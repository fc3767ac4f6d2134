"""Compiled functions over tiles: crates/capi/include/drystone_function.h, version 1, for addresses and capsules."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from drystone._core import register_function
from drystone.errors import InvalidArgumentError, UnsupportedError

_NAME = b"drystone_function"
_VERSION = 1
_MAX_NDIM = 8
_PURE, _THREAD_SAFE = 1, 2
_MESSAGE = 512
_FENCE = 64
"""Guard bytes before and behind an output tile, which detect writes outside it."""
_FENCED = 0xA5


class _Tile(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("ndim", ctypes.c_uint32),
        ("message_size", ctypes.c_uint32),
        ("step", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("origin", ctypes.POINTER(ctypes.c_int64)),
        ("shape", ctypes.POINTER(ctypes.c_uint64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("message", ctypes.c_void_p),
    )


_CALL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_Tile), ctypes.c_size_t, ctypes.POINTER(_Tile), ctypes.c_void_p
)


class _Struct(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("in_type", ctypes.c_uint32),
        ("out_type", ctypes.c_uint32),
        ("ndim", ctypes.c_uint32),
        ("halo", ctypes.c_uint32 * _MAX_NDIM),
        ("call", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
    )


_registered: list[Function] = []
"""Registered functions, which stay callable until the process ends."""


class FunctionError(InvalidArgumentError):
    """A compiled function returned an error; the message has its text and the box of the tile."""


class Function:
    """A compiled function over tiles: its address, the types it reads and writes, and its guarantees."""

    def __init__(self, struct: _Struct, kept: Any) -> None:
        self._struct, self._kept = struct, kept
        self.ndim = int(struct.ndim)
        self.halo = tuple(int(n) for n in struct.halo[: self.ndim])
        self.in_dtype, self.out_dtype = _dtype(struct.in_type), _dtype(struct.out_type)
        self.pure = bool(struct.flags & _PURE)
        self.thread_safe = bool(struct.flags & _THREAD_SAFE)
        self._call = _CALL(struct.call)

    @property
    def capsule(self) -> Any:
        """The function as a PyCapsule with the name `drystone_function`; it lives as long as this object."""
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._struct), _NAME, None)

    def register(self, name: str, *, deadline: float = 10.0, memory: int = 256 << 20) -> None:
        """Register the function in this process, for definitions of derived variables and results in transit.

        `c.derive("v", "apply(smooth, T, f4, 1)")` then calls the function `smooth` where this process computes, and
        `c.on("T", "function", name="smooth")` applies it to each release. A server computes with the functions of its
        configuration. A second registration of a name replaces the first.

        Args:
            name: Letters, digits, `_`, `-` and `.`, at most 64.
            deadline: The seconds for the results of one release, and for each tile of a derived variable.
            memory: The most bytes of a release and its results.

        """
        register_function(
            name,
            int(self._struct.call),
            int(self._struct.state or 0),
            str(self.in_dtype),
            str(self.out_dtype),
            list(self.halo),
            self.thread_safe,
            deadline,
            memory,
        )
        _registered.append(self)

    def bytes_for(self, cells: int) -> int:
        """Bytes of memory that a call needs for an output tile with that many cells."""
        return cells * self.out_dtype.itemsize + 2 * _FENCE

    def __call__(
        self,
        tile: npt.NDArray[Any],
        step: int | None,
        origin: Sequence[int],
        box: str,
        into: npt.NDArray[np.uint8] | None = None,
    ) -> npt.NDArray[Any]:
        """The output tile of an input tile with its halo, in new or given memory."""
        if tile.dtype != self.in_dtype or tile.ndim != self.ndim:
            raise InvalidArgumentError(
                f"the function reads {self.in_dtype} in {self.ndim} dimensions; the tile [{box}] has {tile.dtype} in {tile.ndim}"
            )
        shape = tuple(n - 2 * h for n, h in zip(tile.shape, self.halo, strict=True))
        cells = math.prod(shape)
        size = cells * self.out_dtype.itemsize
        fenced = np.empty(self.bytes_for(cells), "u1") if into is None else into[: self.bytes_for(cells)]
        fenced[:_FENCE] = fenced[_FENCE + size :] = _FENCED
        out = fenced[_FENCE : _FENCE + size].view(self.out_dtype).reshape(shape)
        message = ctypes.create_string_buffer(_MESSAGE)
        given, kept_in = _tile(tile, step, origin, None)
        inner = [first + halo for first, halo in zip(origin, self.halo, strict=True)]
        made, kept_out = _tile(out, step, inner, message)
        failed = self._call(ctypes.byref(given), 1, ctypes.byref(made), self._struct.state)
        del kept_in, kept_out
        if (fenced[:_FENCE] != _FENCED).any() or (fenced[_FENCE + size :] != _FENCED).any():
            raise FunctionError(f"the function wrote outside its tile [{box}]")
        if failed:
            text = message.value.decode(errors="replace") or "no text"
            raise FunctionError(f"the function returned {failed} for the tile [{box}]: {text}")
        return out


def _code(dtype: npt.DTypeLike) -> int:
    found = np.dtype(dtype)
    if found.kind not in "biuf" or not found.isnative:
        raise UnsupportedError(f"compiled functions take truth values, integers and floats, not {found}")
    return ord(found.kind) << 8 | found.itemsize


def _dtype(code: int) -> np.dtype[Any]:
    kind, size = chr(code >> 8 & 0xFF), code & 0xFF
    try:
        found = np.dtype(f"{kind}{size}") if kind in "biuf" and code >> 16 == 0 else None
    except TypeError:
        found = None
    if found is None:
        raise InvalidArgumentError(f"a function of an unknown element type {code:#x}")
    return found


def _tile(
    array: npt.NDArray[Any], step: int | None, origin: Sequence[int], message: Any
) -> tuple[_Tile, Any]:
    n = array.ndim
    origins, shape = (ctypes.c_int64 * n)(*origin), (ctypes.c_uint64 * n)(*array.shape)
    strides = (ctypes.c_int64 * n)(*array.strides)
    tile = _Tile(
        ctypes.sizeof(_Tile),
        _code(array.dtype),
        n,
        0 if message is None else _MESSAGE,
        -1 if step is None else step,
        array.ctypes.data,
        origins,
        shape,
        strides,
        None if message is None else ctypes.addressof(message),
    )
    return tile, (array, origins, shape, strides, message)


def function(
    address: Any,
    in_dtype: npt.DTypeLike,
    out_dtype: npt.DTypeLike,
    halo: SupportsIndex | Sequence[SupportsIndex] = 0,
    *,
    ndim: int,
    pure: bool = True,
    thread_safe: bool = False,
    state: int | None = None,
) -> Function:
    """A compiled function for `Variable.apply`, in C's convention of `drystone_function.h`.

    Args:
        address: The address as a number, or an object with one: `address` as numba's `cfunc` has it, or a
            function of ctypes. The object that owns it is kept alive.
        in_dtype: The dtype of the elements that it reads.
        out_dtype: The dtype of the elements that it writes.
        halo: The number of cells that it needs on each side: one number, or one per dimension.
        ndim: The number of dimensions of its tiles, without the step axis; at most 8.
        pure: Whether the result depends only on the elements of the tile.
        thread_safe: Whether several threads may call it at once; then `apply` does.
        state: An address that is passed to each call.

    """
    from drystone.tiles import extents

    if not 0 < ndim <= _MAX_NDIM:
        raise InvalidArgumentError(f"ndim={ndim}: 1 to {_MAX_NDIM} are possible")
    place = getattr(address, "address", address)
    if not isinstance(place, SupportsIndex):
        place = ctypes.cast(place, ctypes.c_void_p).value
    place = 0 if place is None else place.__index__()
    if not place:
        raise InvalidArgumentError("a function needs an address; 0 was given")
    flags = (_PURE if pure else 0) | (_THREAD_SAFE if thread_safe else 0)
    around = extents(halo, ndim, "halo", 0)
    struct = _Struct(ctypes.sizeof(_Struct), _VERSION, flags, _code(in_dtype), _code(out_dtype), ndim)
    struct.halo[:ndim] = around
    struct.call, struct.state = place, state
    return Function(struct, address)


def from_capsule(capsule: Any) -> Function:
    """The function that a capsule holds."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    try:
        place = get(capsule, _NAME)
    except ValueError:
        raise InvalidArgumentError(
            f'a capsule with the name "{_NAME.decode()}" is needed: see drystone_function.h'
        ) from None
    size = ctypes.c_uint32.from_address(place).value
    if size < ctypes.sizeof(_Struct):
        raise InvalidArgumentError(
            f"a function of {size} bytes; this version knows {ctypes.sizeof(_Struct)} and more"
        )
    struct = _Struct.from_address(place)
    if struct.version != _VERSION:
        raise UnsupportedError(
            f"a function of version {struct.version}; this version calls version {_VERSION}"
        )
    if not 0 < struct.ndim <= _MAX_NDIM or not struct.call:
        raise InvalidArgumentError(f"a function of {struct.ndim} dimensions, or without an address")
    return Function(struct, capsule)


def is_capsule(value: Any) -> bool:
    """Whether it is a PyCapsule."""
    return type(value).__name__ == "PyCapsule"
