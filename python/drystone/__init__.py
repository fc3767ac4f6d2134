"""Drystone: an array store for simulations and for the people who analyse them.

    import drystone as dry

    with dry.create("run42.dry") as c:
        c.create_variable("temperature", dtype="f4", shape=(nz, ny, nx), steps=True)
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("temperature", block, offset=(z0, y0, x0))

    T = dry.open("run42.dry")["temperature"]
    T[-1, :, 256, ::4]
"""

from drystone._core import Plan, __version__
from drystone.container import Container, create, open  # noqa: A004
from drystone.errors import (
    CancelledError,
    ConflictError,
    CorruptError,
    DrystoneError,
    DrystoneWarning,
    InvalidArgumentError,
    IoError,
    NotFoundError,
    OutOfRangeError,
    UnsupportedError,
)
from drystone.group import Attributes, Group
from drystone.reports import Block, Damage, IncompleteStep, RecoverReport, Snapshot, VerifyReport
from drystone.variable import Variable
from drystone.writer import Writer

__all__ = [
    "Attributes",
    "Block",
    "CancelledError",
    "ConflictError",
    "Container",
    "CorruptError",
    "Damage",
    "DrystoneError",
    "DrystoneWarning",
    "Group",
    "IncompleteStep",
    "InvalidArgumentError",
    "IoError",
    "NotFoundError",
    "OutOfRangeError",
    "Plan",
    "RecoverReport",
    "Snapshot",
    "UnsupportedError",
    "Variable",
    "VerifyReport",
    "Writer",
    "__version__",
    "create",
    "open",
]
