"""Formats sizes, times and rates for people."""

from __future__ import annotations


def size(count: float) -> str:
    """`count` bytes, in the unit that leaves one to three digits before the point."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return (
                f"{count:.0f} {unit}"
                if unit == "B"
                else f"{count:.3g} {unit}"
                if count < 100
                else f"{count:.0f} {unit}"
            )
        count /= 1000
    raise AssertionError("the loop returns at its last unit")


def duration(seconds: float) -> str:
    """A time in microseconds, milliseconds, seconds or minutes."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def rate(count: float, seconds: float) -> str:
    """`count` bytes in `seconds`, per second."""
    return f"{size(count / seconds)}/s" if seconds > 0 else "-"
