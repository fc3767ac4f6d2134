"""What a part of a transformed array costs, by pattern, chunking and transform.

The bar: a transform that reads parts fetches fewer bytes than the whole subchunks that opaque ones need, and less
precision fewer still; with cold caches fewer bytes are less time. One domain is written once per transform and
chunking; a subvolume of a quarter of each edge and planes across x and y are read; bytes and requests are what the plan
says and the engine does.

    .venv/bin/python bench/transforms/patterns.py --edge 128 --rounds 7
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

import drystone as dry
import numpy as np
from field import Array, field

PARTIAL = 0.04
"""Relative error that the first component of APLOD keeps."""
CASES: dict[str, tuple[str | None, float | None]] = {
    "none": (None, None),
    "identity": ("identity", None),
    "zlib": ("zlib:6", None),
    "isobar": ("isobar", None),
    "aplod full": ("aplod", None),
    "aplod partial": ("aplod", PARTIAL),
}


def patterns(edge: int) -> dict[str, tuple[slice, slice, slice]]:
    """What is read."""
    some, whole, place = (
        slice(edge // 3, edge // 3 + edge // 4),
        slice(None),
        slice(edge // 2 + 1, edge // 2 + 2),
    )
    return {
        "subvolume": (some, some, some),
        "plane x": (whole, whole, place),
        "plane y": (whole, place, whole),
    }


def forget(folder: Path) -> None:
    """Take the files out of the system's cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def timed(
    path: Path, key: tuple[slice, slice, slice], error: float | None, expected: Array, cold: bool
) -> float:
    """Seconds from opening to values, which are then checked."""
    if cold:
        forget(path)
    begin = time.perf_counter()
    with dry.open(path) as container:
        variable = container["t"].within(error, relative=True) if error else container["t"]
        found = variable[key]
    seconds = time.perf_counter() - begin
    off = np.abs(found - expected)
    if (off > (error or 0.0) * np.abs(expected)).any():
        raise SystemExit(f"{path}: values further off than {error}")
    return seconds


def main() -> None:
    """One line per chunking, pattern and transform."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edge", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cuts", type=int, nargs="+", default=[2, 4, 8, 16])
    arguments = parser.parse_args()
    edge, values = arguments.edge, field(arguments.edge)
    folder = Path(tempfile.mkdtemp(prefix="drystone-bench-"))
    print(f"{edge}^3 doubles, {values.nbytes:,} bytes; median of {arguments.rounds} rounds, milliseconds\n")
    print("| chunks | pattern | transform | stored | requests | bytes read | of wanted | warm | cold |")
    print("|---|---|---|---|---|---|---|---|---|")
    against: dict[tuple[int, str], float] = {}
    try:
        for cut in arguments.cuts:
            paths: dict[str | None, Path] = {}
            for number, transform in enumerate(dict.fromkeys(transform for transform, _ in CASES.values())):
                path = paths[transform] = folder / f"{cut}-{number}"
                with dry.create(path) as container:
                    container.create_variable(
                        "t", "f8", values.shape, transform=transform, chunks=(edge // cut,) * 3
                    )
                    with container.writer() as writer:
                        writer.put("t", values)
            for pattern, key in patterns(edge).items():
                expected = values[key]
                warm: dict[str, list[float]] = {name: [] for name in CASES}
                cold: dict[str, list[float]] = {name: [] for name in CASES}
                for turn in range(arguments.rounds + 1):
                    for name, (transform, error) in sorted(CASES.items(), reverse=turn % 2 == 0):
                        cold[name].append(timed(paths[transform], key, error, expected, cold=True))
                        warm[name].append(timed(paths[transform], key, error, expected, cold=False))
                pairs = zip(cold["aplod partial"][1:], cold["none"][1:], strict=True)
                against[cut, pattern] = median(partial / none for partial, none in pairs)
                for name, (transform, error) in CASES.items():
                    with dry.open(paths[transform]) as container:
                        variable = container["t"].within(error, relative=True) if error else container["t"]
                        plan = variable.explain[key]
                        stored = sum(block.nbytes for block in variable.blocks())
                    print(
                        f"| {cut}^3 | {pattern} | {name} | {stored / values.nbytes:.2f} | {plan.requests:,} "
                        f"| {plan.read_bytes:,} | {plan.read_bytes / plan.wanted_bytes:.1f} "
                        f"| {median(warm[name][1:]) * 1e3:.2f} | {median(cold[name][1:]) * 1e3:.2f} |",
                        flush=True,
                    )
            for path in paths.values():
                shutil.rmtree(path)
    finally:
        shutil.rmtree(folder)
    print(
        "\nCold, `aplod partial` over `none`, median of the ratios of rounds; below 1 reading less precision is "
        "faster:\n"
    )
    print(f"| chunks | {' | '.join(patterns(edge))} |")
    print(f"|---|{'---|' * len(patterns(edge))}")
    for cut in arguments.cuts:
        print(f"| {cut}^3 | {' | '.join(f'{against[cut, pattern]:.2f}' for pattern in patterns(edge))} |")


if __name__ == "__main__":
    main()
