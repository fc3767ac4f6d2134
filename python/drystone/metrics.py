"""Metrics: counters of the containers that this process has open, as numbers and as text for Prometheus.

`Container.metrics` has the counters of one container since it was opened; `prometheus` has those of all that are open. Counters only
grow, and cost an addition where something is counted (docs/guide/metrics.md).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from drystone.errors import DrystoneError

if TYPE_CHECKING:
    from drystone.container import Container

__all__ = ["prometheus"]

_open: weakref.WeakValueDictionary[int, Container] = weakref.WeakValueDictionary()

_HELP = {
    "reads": "Reads of variables.",
    "read_wanted_bytes": "Bytes of values that reads asked for and blocks held.",
    "read_bytes": "Bytes that reads fetched from the store.",
    "read_requests": "Requests to the store by reads.",
    "read_blocks": "Blocks that reads met.",
    "puts": "Blocks that writers were given.",
    "put_bytes": "Bytes of values in them.",
    "commits": "Commits that made something visible.",
    "cache_hits": "Index pages, tables and trailers that were in memory.",
    "cache_misses": "Those that were loaded.",
    "folder_hits": "Ranges of a far store that the cache folder, or a prefetch, had whole.",
    "folder_misses": "Ranges for which home was asked.",
    "folder_bytes": "Bytes that came from the cache folder.",
    "home_bytes": "Bytes that reads waited for from a far store.",
    "prefetched_bytes": "Bytes that were fetched before a read wanted them.",
    "prefetch_used_bytes": "Those of them that reads wanted.",
    "folder_repairs": "Damaged units of the cache folder that were fetched again.",
    "folder_failures": "Units that could not be kept or loaded.",
}


def remember(container: Container) -> Container:
    """Have a container among those that `prometheus` shows, while it is open; gives it back."""
    _open[id(container)] = container
    return container


def prometheus() -> str:
    """The counters of all containers that are open of this process, in the text format of Prometheus.

    Several handles on one container are added up. `drystone_steps` is the number of committed steps by level.
    """
    totals: dict[str, dict[str, int]] = {}
    steps: dict[str, dict[str, int]] = {}
    for container in list(_open.values()):
        if container.closed:
            continue
        try:
            found = container.metrics()
        except DrystoneError:  # it was closed or removed meanwhile
            continue
        steps[container.path] = found["steps"]
        for name in _HELP:
            by_path = totals.setdefault(name, {})
            by_path[container.path] = by_path.get(container.path, 0) + found[name]
    lines: list[str] = []
    for name, by_path in totals.items():
        lines += [f"# HELP drystone_{name}_total {_HELP[name]}", f"# TYPE drystone_{name}_total counter"]
        lines += [
            f'drystone_{name}_total{{container="{_escaped(path)}"}} {value}'
            for path, value in sorted(by_path.items())
        ]
    if steps:
        lines += ["# HELP drystone_steps Committed steps by level.", "# TYPE drystone_steps gauge"]
        lines += [
            f'drystone_steps{{container="{_escaped(path)}",level="{level}"}} {count}'
            for path, levels in sorted(steps.items())
            for level, count in levels.items()
        ]
    return "".join(f"{line}\n" for line in lines)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def counted(counters: dict[str, int], levels: dict[int, str]) -> dict[str, Any]:
    """The result of `Container.metrics`."""
    by_level: dict[str, int] = {}
    for level in levels.values():
        by_level[level] = by_level.get(level, 0) + 1
    return {**counters, "steps": by_level}
