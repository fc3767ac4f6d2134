"""The bytes that a classic netCDF file (CDF-1, CDF-2, CDF-5) must have, by its header.

netCDF reads the missing end of a cut file as zeros, without an error. So the length is checked before.

Invariants
- each count and length of the header is compared with the bytes that are left before it is used;
- a header that this module does not understand is not an error here: netCDF decides about it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from drystone.errors import CorruptError

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_ITEM_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
"""Bytes of a value by the number of its type."""
_LARGEST_HEADER = 64 << 20
"""Longer headers are left to netCDF."""
_ROUNDED = 3
"""Bytes of padding at the end of a file, which some programs omit."""


def require_whole(path: Path) -> None:
    """Raise CorruptError if a classic netCDF file is shorter than its header says; accept other files."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        magic = file.read(4)
        if magic[:3] != b"CDF" or magic[3:] not in (b"\x01", b"\x02", b"\x05"):
            return
        try:
            needed = _Header(file, magic[3], size).needed()
        except _UnknownHeaderError:
            return
        except _CutHeaderError:
            raise CorruptError(
                f"{path} is cut short: it has {size} bytes, and its header does not end in them"
            ) from None
    if needed - size > _ROUNDED:
        raise CorruptError(f"{path} is cut short: it has {size} bytes, and its header needs {needed}")


class _UnknownHeaderError(Exception):
    """The header is not as the specification says, or is very long."""


class _CutHeaderError(Exception):
    """The header does not end in the file."""


@dataclass
class _Variable:
    begin: int
    nbytes: int
    """Bytes of the variable; of one record, if it has records."""
    has_records: bool


class _Header:
    """Reads a header from the file, item by item."""

    def __init__(self, file: BinaryIO, version: int, size: int) -> None:
        self._file = file
        self._size = size
        self._at = 4
        self._count_size = 8 if version == 5 else 4
        self._offset_size = 4 if version == 1 else 8

    def needed(self) -> int:
        """The bytes of the whole file."""
        record_count = self._number(self._count_size)
        lengths = list(self._dimensions())
        self._skip_attributes()
        variables = list(self._variables(lengths))
        needed = [self._at]
        needed += [v.begin + v.nbytes for v in variables if not v.has_records]
        with_records = [v for v in variables if v.has_records]
        is_streaming = record_count == (1 << 8 * self._count_size) - 1
        if record_count and not is_streaming:
            # The records of a single variable follow each other without padding.
            record_size = sum(v.nbytes if len(with_records) == 1 else _padded(v.nbytes) for v in with_records)
            needed += [v.begin + (record_count - 1) * record_size + v.nbytes for v in with_records]
        return max(needed)

    def _dimensions(self) -> Iterator[int]:
        """The length of each dimension; 0 for that of records."""
        for _ in range(self._list_count(_DIMENSIONS)):
            self._skip_name()
            yield self._number(self._count_size)

    def _skip_attributes(self) -> None:
        for _ in range(self._list_count(_ATTRIBUTES)):
            self._skip_name()
            item = self._item_size()
            self._skip(_padded(item * self._number(self._count_size)))

    def _variables(self, lengths: list[int]) -> Iterator[_Variable]:
        for _ in range(self._list_count(_VARIABLES)):
            self._skip_name()
            ndim = self._number(self._count_size)
            if ndim * self._count_size > self._size - self._at:
                raise _CutHeaderError
            dimensions = [self._number(self._count_size) for _ in range(ndim)]
            if any(number >= len(lengths) for number in dimensions):
                raise _UnknownHeaderError
            shape = [lengths[number] for number in dimensions]
            if 0 in shape[1:]:
                raise _UnknownHeaderError
            self._skip_attributes()
            item = self._item_size()
            # Its size, which cannot express more than 4 GiB in CDF-1 and CDF-2, and so is computed here.
            self._skip(self._count_size)
            begin = self._number(self._offset_size)
            has_records = shape[:1] == [0]
            yield _Variable(begin, item * math.prod(shape[1:] if has_records else shape), has_records)

    def _list_count(self, tag: int) -> int:
        found, count = self._number(4), self._number(self._count_size)
        if found != tag and (found, count) != (0, 0):
            raise _UnknownHeaderError
        return count

    def _item_size(self) -> int:
        size = _ITEM_SIZES.get(self._number(4))
        if size is None:
            raise _UnknownHeaderError
        return size

    def _skip_name(self) -> None:
        self._skip(_padded(self._number(self._count_size)))

    def _number(self, nbytes: int) -> int:
        self._advance(nbytes)
        return int.from_bytes(self._file.read(nbytes), "big")

    def _skip(self, nbytes: int) -> None:
        self._advance(nbytes)
        self._file.seek(nbytes, os.SEEK_CUR)

    def _advance(self, nbytes: int) -> None:
        """Move over bytes of the header, which must be in the file."""
        self._at += nbytes
        if self._at > self._size:
            raise _CutHeaderError
        if self._at > _LARGEST_HEADER:
            raise _UnknownHeaderError


def _padded(nbytes: int) -> int:
    return -(-nbytes // 4) * 4
