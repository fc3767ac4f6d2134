"""The picture of a run: V spreading through a plane, three cuts through its end, and one point through time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    import drystone as dry

COLOURS = "inferno"


def draw(path: Path, container: dry.Container, point: tuple[int, int, int], restarted_at: int | None) -> None:
    """Read the data from `container`, and write a PNG."""
    u, v = container["U"], container["V"]
    z, y, x = point
    steps = list(container.steps)
    interval = int(dict(v.attrs)["interval"])
    shown = [steps[round(i * (len(steps) - 1) / 3)] for i in range(4)]
    moments = [np.asarray(v[step, z]) for step in shown]
    cuts = {
        f"x = {x}": ("y", "z", np.asarray(v[-1, :, :, x])),
        f"y = {y}": ("x", "z", np.asarray(v[-1, :, y])),
    }
    brightest = max(float(plane.max()) for plane in moments)

    page, axes = plt.subplots(2, 4, figsize=(15, 7.6), layout="constrained")
    page.suptitle(
        f"Gray-Scott, {' x '.join(str(n) for n in v.shape[1:])} cells, {steps[-1] * interval} time steps: "
        "concentration of V, read from the restarted run",
        fontsize=14,
    )
    image: Any = None
    for step, plane, place in zip(shown, moments, axes[0], strict=True):
        image = show(
            place, plane, "x", "y", f"z = {z}, output step {step} (t = {step * interval})", brightest
        )
    for (title, (across, down, plane)), place in zip(cuts.items(), axes[1], strict=False):
        show(place, plane, across, down, f"{title}, output step {steps[-1]}", brightest)
    page.colorbar(
        image, ax=axes[:, :2].ravel().tolist() + axes[0, 2:].tolist(), label="V", shrink=0.9, pad=0.01
    )

    grid = axes[1, 2].get_gridspec()
    for place in axes[1, 2:]:
        place.remove()
    series = page.add_subplot(grid[1, 2:])
    time = np.array(steps) * interval
    series.plot(time, np.asarray(u[:, z, y, x])[steps], "o-", color="#2a6f97", label="U")
    series.plot(time, np.asarray(v[:, z, y, x])[steps], "o-", color="#d1495b", label="V")
    if restarted_at is not None:
        series.axvline(restarted_at * interval, color="0.4", linestyle="--")
        series.text(
            restarted_at * interval,
            1.0,
            " killed; restarted from here",
            color="0.3",
            va="top",
            transform=series.get_xaxis_transform(),
        )
    series.set(
        xlabel="time", ylabel="concentration", title=f"one point through time: z = {z}, y = {y}, x = {x}"
    )
    series.margins(y=0.15)
    series.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    series.spines[["top", "right"]].set_visible(False)
    page.savefig(path, dpi=110)
    plt.close(page)


def show(place: Any, plane: np.ndarray, across: str, down: str, title: str, brightest: float) -> Any:
    """Draw one plane of V."""
    image = place.imshow(plane, cmap=COLOURS, vmin=0, vmax=brightest, origin="lower", interpolation="nearest")
    place.set(title=title, xlabel=across, ylabel=down)
    return image
