"""Drystone: an array store for simulations and for the people who analyse their results.

`create` and `open` return a `Container`. `Container.writer` writes blocks into it. `container["name"]` is a
`Variable`, which is read with NumPy's rules. Everything that fails raises a `DrystoneError`.
"""

from drystone import expr, metrics, rules
from drystone._core import Plan, __version__
from drystone.catalogue import Catalog, Match, Matches, catalog
from drystone.comparing import Difference, diff
from drystone.container import Container
from drystone.contiguous import flattened, unflattened
from drystone.described import Derived, Description, Files, PublishedStatistics, Statistics, Usage, WriterLog
from drystone.disk_use import DiskUse, VariableUse, du
from drystone.drawing import Plotted, plot
from drystone.enumerations import enum, enum_names
from drystone.errors import (
    CancelledError,
    ConflictError,
    CorruptError,
    DeadlineError,
    DrystoneError,
    DrystoneWarning,
    InvalidArgumentError,
    IoError,
    LeaseExpired,
    NotFoundError,
    NotYetHome,
    OutOfRangeError,
    PermissionError,
    UnsupportedError,
)
from drystone.events import Event, on_event
from drystone.fragments import Coverage, Fragment, Missing
from drystone.functions import Function, FunctionError, function
from drystone.group import Attributes, Group
from drystone.interchange.exporting import Exported, ExportedVariable, export
from drystone.interchange.importing import Imported, ImportedVariable, import_file
from drystone.lists import ragged, ragged_element, reference, reference_kind
from drystone.opening import create, open
from drystone.regions import Region, Transfer
from drystone.reports import (
    Block,
    Calibration,
    Damage,
    ErrorBound,
    Found,
    GcReport,
    IncompleteStep,
    IndexReport,
    PublishedArray,
    PublishReport,
    RecoverReport,
    Snapshot,
    StagedPart,
    StoredDerived,
    Tier,
    TransformChoice,
    VerifyReport,
)
from drystone.variable import Variable
from drystone.views import View
from drystone.writer import Writer

__all__ = [
    "Attributes",
    "Block",
    "Calibration",
    "CancelledError",
    "Catalog",
    "ConflictError",
    "Container",
    "CorruptError",
    "Coverage",
    "Damage",
    "DeadlineError",
    "Derived",
    "Description",
    "Difference",
    "DiskUse",
    "DrystoneError",
    "DrystoneWarning",
    "ErrorBound",
    "Event",
    "Exported",
    "ExportedVariable",
    "Files",
    "Found",
    "Fragment",
    "Function",
    "FunctionError",
    "GcReport",
    "Group",
    "Imported",
    "ImportedVariable",
    "IncompleteStep",
    "IndexReport",
    "InvalidArgumentError",
    "IoError",
    "LeaseExpired",
    "Match",
    "Matches",
    "Missing",
    "NotFoundError",
    "NotYetHome",
    "OutOfRangeError",
    "PermissionError",
    "Plan",
    "Plotted",
    "PublishReport",
    "PublishedArray",
    "PublishedStatistics",
    "RecoverReport",
    "Region",
    "Snapshot",
    "StagedPart",
    "Statistics",
    "StoredDerived",
    "Tier",
    "Transfer",
    "TransformChoice",
    "UnsupportedError",
    "Usage",
    "Variable",
    "VariableUse",
    "VerifyReport",
    "View",
    "Writer",
    "WriterLog",
    "__version__",
    "catalog",
    "create",
    "diff",
    "du",
    "enum",
    "enum_names",
    "export",
    "expr",
    "flattened",
    "function",
    "import_file",
    "metrics",
    "on_event",
    "open",
    "plot",
    "ragged",
    "ragged_element",
    "reference",
    "reference_kind",
    "rules",
    "unflattened",
]
