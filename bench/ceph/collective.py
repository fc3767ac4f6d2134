"""ASGARD's benchmarks over Ceph: MPI-IO on CephFS beside Drystone in a pool of the same cluster, at 1 Gbit/s.

    make rados-class && make setup && .venv/bin/pip install -r bench/asgard/requirements.txt
    sudo .venv/bin/python bench/ceph/collective.py [--quick] [--document]

The bars: one value of each struct of three (HPIO, file N) and tiles of a matrix (MPI-Tile-IO) at least 5 times as fast
in writing and 10 times in reading as collective MPI-IO. The programs are those of bench/asgard; every value is
compared.

Both lie in one cluster of three storage daemons (objects in memory, one copy). CephFS is mounted by ceph-fuse, with the
caches of the client and of the kernel off, so that every read asks the storage daemons, as a program on another node
would; ROMIO aggregates as it does by itself. The programs, the mount and the cluster run in a network namespace whose
loopback is a token bucket; ranks talk through shared memory. Bytes on the wire are those that the loopback received. It
needs root, Ceph's daemons, the class, ceph-mds, ceph-fuse and the packages of bench/asgard.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for folder in ("tests/servers", "bench", "bench/asgard", "bench/ceph"):
    sys.path.insert(0, str(ROOT / folder))
import ceph  # noqa: E402
import link  # noqa: E402
import mounted  # noqa: E402
from report import duration, size  # noqa: E402

CLASS = Path(os.environ.get("DRYSTONE_RADOS_CLASS", ROOT / "build" / "rados-class"))
BASE = "MPI-IO collective"
KIB, MIB = 1 << 10, 1 << 20


def under_mpi(*arguments: Any) -> list[dict[str, Any]]:
    """What a program of bench/asgard tells."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("asgard_run", ROOT / "bench" / "asgard" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.under_mpi(*arguments))


def plan(quick: bool) -> list[tuple[str, int, int, int]]:
    """Program, ranks, bytes of the wanted values or side of a tile, rounds."""
    if quick:
        return [("hpio", 2, 64 * KIB, 1), ("tiles", 2, 64, 1)]
    sizes = [("hpio", ranks, many, 3) for many in (MIB, 16 * MIB) for ranks in (1, 4)]
    return sizes + [("tiles", ranks, side, 3) for side in (512, 1024) for ranks in (4, 16)]


def table(told: list[dict[str, Any]]) -> str:
    """A line for each case: times, bytes on the wire, and how many times as fast as collective MPI-IO."""
    engines = list(dict.fromkeys(one["engine"] for one in told))
    engines.sort(key=lambda name: (name.startswith("dry"), name != BASE))
    lines = []
    for bench, act in [(b, a) for b in ("hpio", "tiles") for a in ("read", "write")]:
        cases: dict[str, dict[str, Any]] = {}
        for one in told:
            if (one["bench"], one["act"]) == (bench, act):
                what = f"{one['ranks']} rank{'s' * (one['ranks'] > 1)}, "
                if bench == "hpio":
                    what += (
                        f"memory {one['memory'].upper()}, file {one['file'].upper()}, {size(one['bytes'])}"
                    )
                else:
                    what += f"{one['edge']} squared"
                cases.setdefault(what, {})[one["engine"]] = one["costs"]
        here = [engine for engine in engines if any(engine in found for found in cases.values())]
        if not here:
            continue
        lines += [
            f"| {'HPIO' if bench == 'hpio' else 'MPI-Tile-IO'}, {act}s | " + " | ".join(here) + " |",
            "|---|" + "---|" * len(here),
        ]
        for what, found in cases.items():
            cells = []
            for engine in here:
                if engine not in found:
                    cells.append("")
                    continue
                pairs = list(zip(found[BASE], found[engine], strict=True))
                ratio = median(base["seconds"] / mine["seconds"] for base, mine in pairs)
                seconds = median(cost["seconds"] for cost in found[engine])
                wire = median(cost["wire"] for cost in found[engine])
                cells.append(f"{duration(seconds)} ({ratio:.2f}), {size(wire)}")
            lines.append(f"| {what} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measures, in a namespace of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shows that everything works, measures nothing")
    parser.add_argument("--rate", default="1gbit", help="of the link, as tc has it; empty: as fast as it is")
    parser.add_argument(
        "--document", action="store_true", help="put the figures into docs/benchmarks/ceph.md"
    )
    parser.add_argument("--only", choices=["hpio", "tiles"], help="one of the two programs")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    said = parser.parse_args()
    if lacking := ceph.missing() or mounted.missing():
        sys.exit(lacking)
    if not (CLASS / "libcls_dry.so").exists():
        sys.exit("the object class is not built: make rados-class")
    link.enter(__file__, said.inside)
    told, began = [], time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="drystone-ceph-") as name:
        folder = Path(name)
        with (
            ceph.Cluster(folder / "cluster", classes=CLASS) as cluster,
            mounted.Mounted(cluster, folder / "mounted") as files,
        ):
            os.environ |= {"CEPH_CONF": str(cluster.conf), "ASGARD_URL": "rados://test/asgard"}
            link.limit(said.rate)
            for program, ranks, amount, rounds in plan(said.quick):
                if said.only not in (None, program):
                    continue
                told += under_mpi(program, ranks, [str(files), str(rounds), "1", str(amount)])
                spent = time.perf_counter() - began
                print(f"{spent:7.1f} s  {program}, {ranks} ranks, {amount:,}", file=sys.stderr)
            link.limit("")
    head = f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; link: {said.rate or 'free loopback'}. Medians; "
    head += "in brackets how many times as fast as collective MPI-IO, the median of rounds compared within themselves; behind it bytes on the wire.\n"
    shown = f"{head}\n{table(told)}"
    print(shown)
    if said.document:
        link.document("collective", shown)


if __name__ == "__main__":
    main()
