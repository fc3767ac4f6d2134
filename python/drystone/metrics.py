"""Metrics: counters of the containers that this process has open, as numbers and as text for Prometheus.

`Container.metrics` has the counters of one container since it was opened; `prometheus` has those of all open ones.
Counters only grow, and cost one addition each (docs/guide/metrics.md).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from drystone.errors import DrystoneError, UnsupportedError
from drystone.events import Event, on_event

if TYPE_CHECKING:
    from drystone.container import Container

__all__ = ["opentelemetry", "prometheus"]

_open: weakref.WeakValueDictionary[int, Container] = weakref.WeakValueDictionary()

_HELP = {
    "reads": "Reads of variables.",
    "read_wanted_bytes": "Bytes of values that reads asked for and blocks held.",
    "read_bytes": "Bytes that reads fetched from the store.",
    "read_requests": "Requests to the store by reads.",
    "read_rounds": "Round trips to a far store that reads took.",
    "read_blocks": "Blocks that reads met.",
    "puts": "Blocks that writers were given.",
    "put_bytes": "Bytes of values in them.",
    "stalls": "Times that a writer waited until a far store had taken what went before.",
    "stall_microseconds": "How long it waited.",
    "commits": "Commits that made something visible.",
    "commit_microseconds": "How long these took.",
    "drained_parts": "Parts of logs that went home from tiers.",
    "drained_bytes": "Bytes in them.",
    "published_shards": "Shards that publications wrote.",
    "published_bytes": "Bytes in them.",
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
    """Include a container in `prometheus` while it is open; returns it."""
    _open[id(container)] = container
    return container


def path_of(location: str) -> str:
    """The path or URL of an open container, from the location that the engine reports."""
    for container in list(_open.values()):
        if container._handle.location() == location:
            return container.path
    return location


def prometheus() -> str:
    """The counters of all containers that are open of this process, in the text format of Prometheus.

    Several handles on one container are added up. `drystone_steps` is the number of committed steps by level.
    """
    totals, steps = _collected()
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


def opentelemetry(
    tracer_provider: Any = None, meter_provider: Any = None, *, detail: bool = True
) -> Callable[[], None]:
    """Export the operations of this process's containers to OpenTelemetry: spans, and counters for its metric reader.

    Spans are named `drystone.read`, `drystone.commit` and so on, and are children of the span that is current where
    it was done. Counters are those of `Container.metrics`, as `drystone.read_bytes` and so on with the attribute
    `drystone.container`; `drystone.steps` has the committed steps by level. Returns a function that ends both:
    spans at once, and counters by reporting no more values.

    Args:
        tracer_provider: The provider of tracers for spans; by default that of the process.
        meter_provider: The provider of meters for counters; by default that of the process.
        detail: Also report a span for each read and each put.

    Raises:
        UnsupportedError: If the package `opentelemetry-api` is not installed.

    """
    try:
        from opentelemetry import metrics, trace
    except ImportError:
        raise UnsupportedError(
            "OpenTelemetry is not installed: pip install opentelemetry-api, and an SDK with an exporter"
        ) from None
    tracer = trace.get_tracer("drystone", tracer_provider=tracer_provider)
    meter = metrics.get_meter("drystone", meter_provider=meter_provider)
    ended = False

    def observed(name: str) -> Callable[[Any], Iterable[Any]]:
        def values(_: Any) -> Iterable[Any]:
            totals = {} if ended else _collected()[0].get(name, {})
            return [metrics.Observation(n, {"drystone.container": path}) for path, n in totals.items()]

        return values

    def levels(_: Any) -> Iterable[Any]:
        steps = {} if ended else _collected()[1]
        return [
            metrics.Observation(n, {"drystone.container": path, "drystone.level": level})
            for path, by_level in steps.items()
            for level, n in by_level.items()
        ]

    for name, help in _HELP.items():
        unit = "By" if name.endswith("bytes") else "us" if name.endswith("microseconds") else "1"
        meter.create_observable_counter(f"drystone.{name}", [observed(name)], unit, help)
    meter.create_observable_gauge("drystone.steps", [levels], "1", "Committed steps by level.")

    def span(event: Event) -> None:
        end = int(event.time * 1e9)
        made = tracer.start_span(f"drystone.{event.kind}", start_time=end - int(event.seconds * 1e9))
        if made.is_recording():
            made.set_attribute("drystone.container", event.container)
            for name, value in event.values.items():
                made.set_attribute(f"drystone.{name}", value)
        made.end(end_time=end)

    remove = on_event(span, detail=detail)

    def end() -> None:
        nonlocal ended
        ended = True
        remove()

    return end


def _collected() -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """The counters by name and path, and the steps by path and level, of all open containers."""
    totals: dict[str, dict[str, int]] = {}
    steps: dict[str, dict[str, int]] = {}
    for container in list(_open.values()):
        if container.closed:
            continue
        try:
            found = container.metrics()
        except DrystoneError:  # it was closed or removed since
            continue
        steps[container.path] = found["steps"]
        for name in _HELP:
            by_path = totals.setdefault(name, {})
            by_path[container.path] = by_path.get(container.path, 0) + found[name]
    return totals, steps


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def counted(counters: dict[str, int], levels: dict[int, str]) -> dict[str, Any]:
    """The result of `Container.metrics`."""
    by_level: dict[str, int] = {}
    for level in levels.values():
        by_level[level] = by_level.get(level, 0) + 1
    return {**counters, "steps": by_level}
