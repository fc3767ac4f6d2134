"""Counts and sizes in texts for people."""


def counted(number: int, what: str) -> str:
    """`1 block`, `2 blocks`; `1 entry`, `2 entries`."""
    if number == 1:
        return f"1 {what}"
    if what.endswith("y") and what[-2:-1] not in "aeou":
        return f"{number} {what[:-1]}ies"
    return f"{number} {what}s"


def smaller(ratio: float) -> str:
    """The ratio of sizes in memory and stored, as text."""
    return f"{ratio:.3g} times smaller" if round(ratio, 2) != 1 else "as large as in memory"


def size(nbytes: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} TiB"
