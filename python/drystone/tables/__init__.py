"""Cells as rows, for programs that use Arrow: tables, pyarrow datasets, a source for Polars.

A row is a cell of a grid: the step, a column per dimension, one per variable. Unwritten cells are null, NaN stays NaN.
See the page on SQL in the guide.
"""

from drystone.tables.blocks import Blocks
from drystone.tables.table import Table

__all__ = ["Blocks", "Table"]
