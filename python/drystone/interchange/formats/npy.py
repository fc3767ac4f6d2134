"""One array in a `.npy` file, mapped instead of loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drystone.errors import InvalidArgumentError
from drystone.interchange.formats import Array, Box, Contents, native, times


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The array, named after the file."""
    with path.open("rb") as file:
        if file.read(6) != np.lib.format.MAGIC_PREFIX:
            raise InvalidArgumentError(f"{path} cannot be read: it does not begin like a .npy file")
    try:
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error}") from None

    contents = Contents()
    grows = (False,) * array.ndim
    if times.has_no_unit(array.dtype):
        contents.lost.append(
            f"{path.stem}: its type {native(array.dtype)} (the numbers are kept, without a unit)"
        )
        contents.arrays.append(
            Array(
                path.stem,
                np.dtype("i8"),
                array.shape,
                lambda box: times.numbers(np.asarray(array[box])),
                grows=grows,
            )
        )
    else:
        lies = array.dtype.isnative and array.flags.c_contiguous

        def read(box: Box) -> Any:
            if lies:  # mapped anew each time, so pages that were read are released
                mapped = np.memmap(path, array.dtype, "r", array.offset, array.shape)
                return np.asarray(mapped[box])
            return np.asarray(array[box]).astype(native(array.dtype), copy=False)

        contents.arrays.append(
            Array(path.stem, native(array.dtype), array.shape, read, grows=grows, lies=lies)
        )
    yield contents
