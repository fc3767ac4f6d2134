"""bfloat16: NumPy knows it from the package `ml_dtypes`, HDF5 can describe it as a type, h5py does not know it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_FIELDS = (15, 7, 8, 0, 7)
"""Position of the sign, and position and size of the exponent and of the mantissa."""
_BIAS = 127


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether a type is this one, or an array of it."""
    return dtype.base.name == "bfloat16"


def in_hdf5() -> Any:
    """The HDF5 type: from 2.0 on H5T_FLOAT_BFLOAT16LE, which older versions also read. h5py shows it as float32."""
    import h5py

    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(*_FIELDS)
    kind.set_size(2)
    kind.set_ebias(_BIAS)
    return kind


def stored(dataset: Any) -> np.dtype[Any] | None:
    """bfloat16, if a dataset of floats has that type.

    None otherwise, and without `ml_dtypes`: it is then read as float32, which is exact.
    """
    kind = dataset.id.get_type()
    if kind.get_size() != 2 or kind.get_fields() != _FIELDS or kind.get_ebias() != _BIAS:
        return None
    try:
        import ml_dtypes
    except ImportError:
        return None
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def read(dataset: Any, box: tuple[slice, ...]) -> npt.NDArray[Any]:
    """Read a box of a dataset of them bit by bit: HDF5's conversion to float32 changes some NaNs."""
    import ml_dtypes

    out = np.empty([part.stop - part.start for part in box], ml_dtypes.bfloat16)
    if out.size:
        dataset.id.read(*_spaces(dataset, box), out, in_hdf5())
    return out


def write(dataset: Any, box: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
    """Write values into a box of a dataset of them."""
    if values.size:
        dataset.id.write(*_spaces(dataset, box), np.ascontiguousarray(values), in_hdf5())


def _spaces(dataset: Any, box: tuple[slice, ...]) -> tuple[Any, Any]:
    """The dataspaces of the box in memory and in the file."""
    import h5py

    there = dataset.id.get_space()
    if not box:
        return h5py.h5s.create(h5py.h5s.SCALAR), there
    shape = tuple(part.stop - part.start for part in box)
    there.select_hyperslab(tuple(part.start for part in box), shape)
    return h5py.h5s.create_simple(shape), there
