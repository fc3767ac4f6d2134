"""The example's modules import each other by name, as scripts do: let the tests see them the same way."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "gray_scott"))
