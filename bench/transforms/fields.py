"""Simulated fields of the kinds that codecs meet: smooth, turbulent, shocked, noisy, masked, rounded."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "gray_scott"))

Array = npt.NDArray[np.floating]


def spectrum(n: int, slope: float, rng: np.random.Generator) -> Array:
    """A periodic random field whose energy falls as |k|^slope, of unit variance."""
    k = np.fft.fftfreq(n, 1 / n)
    size = np.sqrt(sum(a**2 for a in np.meshgrid(k, k, np.fft.rfftfreq(n, 1 / n), indexing="ij")))
    size[0, 0, 0] = 1
    noise = np.fft.rfftn(rng.normal(size=(n, n, n)))
    field = np.fft.irfftn(noise * size ** ((slope - 2) / 2), s=(n, n, n), axes=(0, 1, 2))
    return (field - field.mean()) / field.std()


def gray_scott(n: int, steps: int) -> tuple[Array, Array]:
    """U and V of the example's model after `steps` time steps."""
    from decomposition import Box
    from reaction import Field, Model, initial_state

    model = Model()
    box = Box((0, 0, 0), (n, n, n))
    field = Field(*initial_state(box, (n, n, n), model, "float64"), model)
    for _ in range(steps):
        for whole in (field.u, field.v):
            whole[...] = np.pad(whole[1:-1, 1:-1, 1:-1], 1, mode="wrap")
        field.advance()
    u, v = field.interior
    return u.copy(), v.copy()


def fields(n: int, steps: int) -> dict[str, Array]:
    """All fields, each of n^3 cells, by name."""
    rng = np.random.default_rng(20)
    z, y, x = np.meshgrid(*[np.linspace(-1, 1, n)] * 3, indexing="ij")
    u, v = gray_scott(n, steps)
    turbulent = spectrum(n, -5 / 3 - 2, rng)
    smooth = spectrum(n, -6, rng)
    r = np.sqrt((x - 0.3) ** 2 + y**2 + z**2) + 0.05
    wave = np.sin(40 * r) / r + 0.2 * np.sin(9 * x + 14 * y)
    density = np.exp(spectrum(n, -4, rng)) * (1 + 3 * (np.tanh((x + 0.2 * smooth) * 60) + 1))
    depth = np.minimum(0, spectrum(n, -5, rng) + 0.3)
    climate = np.round(18 - 14 * np.abs(y) ** 1.5 + 2 * smooth, 2)
    climate[depth == 0] = 1e20
    return {
        "gray_scott_U_f8": u,
        "gray_scott_V_f4": v.astype("f4"),
        "turbulence_f4": turbulent.astype("f4"),
        "turbulence_f8": turbulent,
        "wave_f8": wave,
        "wave_f4": wave.astype("f4"),
        "mhd_density_f4": density.astype("f4"),
        "structure_with_noise_f8": smooth * 10 + rng.normal(size=smooth.shape) * 1e-3,
        "ocean_climatology_f4": climate.astype("f4"),
        "decimals_f8": np.round(smooth * 100, 3),
    }
