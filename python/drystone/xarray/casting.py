"""Detects values that the dtype of their encoding cannot represent.

xarray encodes variables by the CF conventions. NumPy's cast to the dtype of the encoding silently truncates texts,
drops imaginary parts and lets integers overflow. Here that is an error. Requested rounding is allowed: of floats to
shorter ones, to packed values, and to integers that `encoding=` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from drystone.errors import ConflictError, DrystoneError, InvalidArgumentError
from drystone.values import as_elements, changed


def checked(name: str, variable: xr.Variable, *, joins: bool) -> xr.Variable:
    """Check that the dtype of the variable's encoding represents its values; Dask arrays when computed.

    Args:
        name: For errors.
        variable: The variable, with its encoding.
        joins: The dtype is that of values stored already, and not one that the caller requested.

    Raises:
        ConflictError: It joins stored values whose dtype cannot represent its own.
        InvalidArgumentError: The requested dtype cannot represent the values, or the value for missing ones.

    """
    _require_fill(name, variable)
    cast = _Cast.of(name, variable, joins)
    if cast is None:
        return variable
    if variable.chunks is None:
        cast.check(variable.values)
        return variable
    data = variable.data.map_blocks(cast.passed, dtype=variable.dtype, meta=variable.data._meta)
    return variable.copy(deep=False, data=data)


def _require_fill(name: str, variable: xr.Variable) -> None:
    """Refuse a `_FillValue` that the dtype cannot represent.

    After rounding or overflow it would equal valid values.
    """
    encoding = {**variable.attrs, **variable.encoding}
    given = encoding.get("_FillValue")
    dtype = np.dtype(object if encoding.get("dtype") is str else encoding.get("dtype", variable.dtype))
    if given is None or dtype.kind not in "iufc" or "_Unsigned" in encoding:
        return
    what = f'_FillValue of "{name}"'
    if np.size(given) != 1:
        raise InvalidArgumentError(f"{what} is one value, not {given!r:.80}")
    as_elements(np.asarray(given).ravel().tolist()[0], dtype, what)


@dataclass(frozen=True)
class _Cast:
    """A cast from floats, integers, booleans, complex numbers or texts to a dtype."""

    name: str
    target: np.dtype[Any]
    scale: float
    offset: float
    packed: bool
    fill: Any
    joins: bool

    @classmethod
    def of(cls, name: str, variable: xr.Variable, joins: bool) -> _Cast | None:
        """None if nothing is cast, or times become numbers."""
        encoding = {**variable.attrs, **variable.encoding}
        dtype = variable.encoding.get("dtype")
        if dtype is None or dtype is str or variable.dtype.kind in "mMV":
            return None
        target = np.dtype(dtype)
        if target == "S1" and not joins and variable.dtype.kind in "OSU":
            # Texts as single characters, along an additional dimension.
            return None
        unsigned = str(encoding.get("_Unsigned", "")).lower()
        if unsigned in ("true", "false") and target.kind in "iu":
            target = np.dtype(f"{'u' if unsigned == 'true' else 'i'}{target.itemsize}")
        packed = "scale_factor" in encoding or "add_offset" in encoding
        if target.kind == "O" or (target == variable.dtype and not packed):
            return None
        scale, offset = (
            float(np.asarray(encoding.get(key, default)).ravel()[0])
            for key, default in (("scale_factor", 1), ("add_offset", 0))
        )
        fill = encoding.get("_FillValue", encoding.get("missing_value"))
        return cls(name, target, scale, offset, packed, fill, joins)

    def passed(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        self.check(values)
        return values

    def check(self, values: npt.NDArray[Any]) -> None:
        """Refuse values that would change."""
        values = np.asarray(values)
        if values.size == 0:
            return
        wrong = self._wrong(values)
        if wrong.any():
            raise self._error(values[wrong].ravel()[0])

    def _wrong(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        source, target = values.dtype.kind, self.target.kind
        if source in "OU" and target in "SU":
            return np.array([self._is_cut(v) for v in values.flat], bool).reshape(values.shape)
        if source == "O":
            texts = target not in "SU" and np.array([isinstance(v, str | bytes) for v in values.flat], bool)
            return np.broadcast_to(texts, values.size).reshape(values.shape)
        if (source in "SU") != (target in "SU"):
            return np.ones(values.shape, bool)
        if target in "iu" and (source == "f" or self.packed):
            return self._beyond(values)
        if self.joins and not self.packed and source in "iu" and target in "fc":
            return self._is_rounded(values)
        return changed(values, self.target)

    def _is_rounded(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Integers that the floats of the target do not hold exactly."""
        floats = values.astype(self.target).real
        limits = np.iinfo(values.dtype)
        fits = (floats >= float(limits.min)) & (floats < float(limits.max) + 1)
        wrong: npt.NDArray[np.bool_] = ~fits | (np.where(fits, floats, 0).astype(values.dtype) != values)
        return wrong

    def _is_cut(self, value: Any) -> bool:
        """Whether a text, or bytes, is longer than the target, or has characters that bytes cannot represent."""
        if self.target.kind == "U":
            return len(str(value)) > self.target.itemsize // 4
        if isinstance(value, str) and not value.isascii():
            return True
        return len(value if isinstance(value, bytes) else str(value)) > self.target.itemsize

    def _beyond(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Values that are not integers of the target type; missing ones count if it has no number for them."""
        limits = np.iinfo(self.target)
        packed = values.astype("f8")
        if self.packed:
            packed = (packed - self.offset) / self.scale
        missing = np.isnan(packed)
        whole = np.around(packed)
        wrong: npt.NDArray[np.bool_] = (whole < float(limits.min)) | (whole >= float(limits.max) + 1)
        if self.packed and self.fill is not None:
            wrong |= whole == np.asarray(self.fill).astype("f8")
        if self.joins and not self.packed:
            wrong |= ~missing & (whole != packed)
        if self.fill is None:
            wrong |= missing
        return wrong

    def _error(self, value: Any) -> DrystoneError:
        shown = repr(value.item() if isinstance(value, np.generic) else value)
        form = str(self.target)
        if self.packed:
            form += f", packed with scale_factor={self.scale:g} and add_offset={self.offset:g}"
        if shown == "nan":
            form += " without a _FillValue"
        if self.joins:
            return ConflictError(f'"{self.name}" is stored as {form}, which does not hold {shown}')
        return InvalidArgumentError(f'"{self.name}" cannot be stored as {form}, which does not hold {shown}')
