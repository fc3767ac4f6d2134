"""What the transform benchmarks write: a smooth field with noise in its last digits, as simulations leave them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def field(edge: int, seed: int = 1) -> Array:
    """A cube of doubles around 20: waves along every axis, and noise of a millionth."""
    z, y, x = np.meshgrid(*[np.linspace(0, 4, edge)] * 3, indexing="ij", sparse=True)
    waves = np.sin(z * 3 + y) * np.cos(x * 2) + 0.3 * np.sin(9 * x + 5 * z)
    noise = np.random.default_rng(seed).standard_normal((edge, edge, edge))
    return np.asarray(20 + 5 * waves + 1e-6 * noise)
