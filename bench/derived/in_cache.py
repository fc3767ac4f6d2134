"""NumPy and numexpr beside the evaluator, on arrays that the L2 cache holds.

`cargo run --release -p drystone-expression --example speed` measures the evaluator on the same values, in one thread.
The speed counts the bytes of three inputs and one result.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numexpr
import numpy as np

CELLS = 1 << 16
ROUNDS = 400


def least(act: Callable[[], object]) -> float:
    """The shortest time in seconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = perf_counter()
        act()
        best = min(best, perf_counter() - begun)
    return best


def main() -> None:
    """Measure, print."""
    numexpr.set_num_threads(1)
    print("| expression | type | NumPy, GiB/s | numexpr, GiB/s |\n|---|---|---|---|")
    for dtype in ("f4", "f8"):
        u, v, w = (((np.arange(CELLS) * 7 + k * 13) % 1000 * 0.01 - 5).astype(dtype) for k in range(3))
        h, out = u.dtype.type(0.5), np.empty_like(u)
        names = {"u": u, "v": v, "w": w, "h": h}
        cases = {
            "2*u + 3*v - h*w": lambda u=u, v=v, w=w, h=h: 2 * u + 3 * v - h * w,
            "sqrt(u*u + v*v + w*w)": lambda u=u, v=v, w=w: np.sqrt(u * u + v * v + w * w),
        }
        for text, by_numpy in cases.items():
            times = (
                least(by_numpy),
                least(lambda t=text, n=names, o=out: numexpr.evaluate(t, local_dict=n, out=o)),
            )
            speeds = (f"{4 * u.nbytes / seconds / 2**30:.1f}" for seconds in times)
            print(f"| `{text}` | {dtype} | {' | '.join(speeds)} |")


if __name__ == "__main__":
    main()
