"""The same fields in `.npy` files, written without the container, for comparison.

Each variable is one file of shape (steps, nz, ny, nx). Every rank maps it and stores its own box.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from decomposition import Box, Triple


def path_of(folder: Path, variable: str) -> Path:
    """The path of the file of `variable`."""
    return folder / f"{variable}.npy"


def create(folder: Path, variable: str, steps: int, grid: Triple, dtype: npt.DTypeLike) -> None:
    """Create an empty file (in one process)."""
    folder.mkdir(parents=True, exist_ok=True)
    np.lib.format.open_memmap(
        path_of(folder, variable), mode="w+", dtype=np.dtype(dtype), shape=(steps, *grid)
    )


def store(folder: Path, variable: str, step: int, box: Box, values: npt.NDArray[np.floating]) -> None:
    """Write one box of one step (each process its own)."""
    whole = np.lib.format.open_memmap(path_of(folder, variable), mode="r+")
    whole[step][box.slices] = values
    whole.flush()


def load(folder: Path, variable: str) -> npt.NDArray[np.floating]:
    """All steps of a variable, mapped read-only."""
    return np.load(path_of(folder, variable), mmap_mode="r")  # type: ignore[no-any-return]
