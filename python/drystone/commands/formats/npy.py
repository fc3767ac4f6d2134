"""One array in a `.npy` file, mapped and not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drystone.commands.formats import Array, Box, Contents, native
from drystone.errors import InvalidArgumentError


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The array, named like the file."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error}") from None

    def read(box: Box) -> Any:
        return np.asarray(array[box]).astype(native(array.dtype), copy=False)

    yield Contents(
        {}, [Array(path.stem, native(array.dtype), array.shape, read, grows=(False,) * array.ndim)]
    )
