"""Reads of float64 as float32: a server sends half of the bytes, and the error is stated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drystone.errors import InvalidArgumentError
from drystone.reports import ErrorBound

if TYPE_CHECKING:
    from drystone._core import ReadingHandle

Act = Callable[["ReadingHandle"], tuple[Any, ErrorBound]]


def is_narrow(dtype: npt.DTypeLike | None, reading: ReadingHandle, name: str) -> bool:
    """Whether a read rounds to `dtype`.

    A type that is neither float32 nor the stored one raises InvalidArgumentError.
    """
    if dtype is None:
        return False
    wanted = np.dtype(dtype)
    if wanted == reading.element and not wanted.hasobject:
        return False
    if wanted != np.float32 or reading.element != np.float64:
        raise InvalidArgumentError(
            f"{name} holds {reading.element}: dtype= is that, or float32 for float64, not {wanted}"
        )
    return True


def read(
    reading: ReadingHandle, name: str, act: Act, most: tuple[float | None, bool], out: Any = None
) -> tuple[Any, ErrorBound]:
    """The values that `act` reads, as float32, and their bound.

    `most` is the requested `max_error`, and whether it is relative. Rounding by more, and a finite value beyond float32,
    raise InvalidArgumentError.
    """
    if out is not None and (not isinstance(out, np.ndarray) or out.dtype != np.float32):
        raise InvalidArgumentError(f"out for {name} is an array of NumPy of float32, which is what is read")
    wide, bound = act(reading.narrowed())
    with np.errstate(over="ignore"):
        values = np.asarray(wide).astype(np.float32)
    infinite = np.isinf(values)
    if infinite.any():
        # A server's rounding turns values that are too large into infinity.
        exact = np.asarray(act(reading)[0])
        beyond = infinite & np.isfinite(exact)
        if beyond.any():
            raise InvalidArgumentError(
                f"{name} holds {exact[beyond].ravel()[0]!r}, which is beyond float32: read it as float64"
            )
    largest = np.abs(values[np.isfinite(values)]).max(initial=np.float32(0))
    found = ErrorBound(*reading.narrowed_bound(bound.absolute, bound.relative, float(largest)))
    limit, relative = most
    lost = found.relative if relative else found.absolute
    if limit is not None and lost > limit:
        raise InvalidArgumentError(
            f"{name} as float32 may be off by {lost:.3g}, which is more than max_error={limit:.3g}: read it as float64"
        )
    if out is None:
        return values[()] if values.ndim == 0 and not isinstance(wide, np.ndarray) else values, found
    if out.shape != values.shape:
        raise InvalidArgumentError(f"out has shape {out.shape}, what is read {values.shape}")
    np.copyto(out, values)
    return out, found
