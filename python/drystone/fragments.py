"""Declared fragments: arrays in a declared memory layout, read from and written to a container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from drystone import values
from drystone.errors import InvalidArgumentError

if TYPE_CHECKING:
    from drystone._core import FragmentHandle
    from drystone.container import Container
    from drystone.writer import Writer

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Missing:
    """Cells of a variable, or of one member of it, that are unwritten."""

    variable: str
    #: The member, if it is not the whole element.
    field: str | None
    #: The cells along each dimension, without the step axis.
    cells: tuple[range, ...]

    def __str__(self) -> str:
        name = f"{self.variable}.{self.field}" if self.field else self.variable
        axes = ", ".join(f"{r.start}:{r.stop}" + (f":{r.step}" if r.step != 1 else "") for r in self.cells)
        return f"{name}[{axes}]"


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a fragment is written, in values: one per primitive member of an element."""

    wanted: int
    #: Written values.
    covered: int
    #: Values outside the dataset or without a counterpart; reading leaves them unchanged.
    unmapped: int
    #: Unwritten values inside the dataset, which read as the fill value.
    missing: int
    #: Boxes of missing values; the first 4096.
    places: tuple[Missing, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.missing == 0

    def __str__(self) -> str:
        head = f"{self.covered} of {self.wanted} values, {self.unmapped} outside, {self.missing} missing"
        return "\n  ".join([head, *map(str, self.places)])


class Fragment:
    """One instance of a declared fragment. `Container.fragment` makes one.

    Its memory is one buffer of `nbytes` bytes; its arrays are views of it, with the offsets and strides that the text
    gives them.
    """

    def __init__(self, container: Container, handle: FragmentHandle) -> None:
        self._container = container
        self._handle = handle
        self._layout = handle.layout()

    @property
    def name(self) -> str:
        """The name of its declaration."""
        return self._handle.name

    @property
    def params(self) -> dict[str, int]:
        """Its own parameters."""
        return self._handle.params

    @property
    def nbytes(self) -> int:
        """Bytes of its memory."""
        return self._handle.size

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of its arrays, in the order of memory."""
        return tuple(dict.fromkeys(entry[0] for entry in self._layout))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its only array; with several arrays, see `arrays`."""
        return self._only()[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its only array; with several arrays, see `arrays`."""
        return self._only()[1]

    @property
    def has_steps(self) -> bool:
        """Whether it shows a variable with steps; then `read` needs a step."""
        return self._handle.has_steps

    def _only(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        if len(self.variables) != 1:
            raise InvalidArgumentError(
                f'the fragment "{self.name}" has several arrays: {", ".join(self.variables)}'
            )
        (_, _, _, shape, _, dtype), *rest = self._layout
        return (len(rest) + 1, *shape) if rest else tuple(shape), dtype

    def arrays(self, buffer: Array) -> Array | dict[str, Array]:
        """The arrays in a buffer of `nbytes` bytes: one, or several by name.

        A `for` makes one array, with its counter as the first axis. An array along a curve has one axis, in memory
        order.
        """
        if buffer.dtype != np.uint8 or buffer.shape != (self.nbytes,) or not buffer.flags.c_contiguous:
            raise InvalidArgumentError(
                f'the fragment "{self.name}" lies in a dense array of {self.nbytes} uint8'
            )
        found: dict[str, list[tuple[int, Array]]] = {}
        for name, _, offset, shape, strides, dtype in self._layout:
            if strides is None:
                raise InvalidArgumentError(
                    f'the array "{name}" has elements that follow a curve: NumPy cannot show them; read into `out`'
                )
            array: Array = np.ndarray(shape, dtype, buffer, offset if 0 not in shape else 0, strides)
            found.setdefault(name, []).append((offset, array))
        several = {name: _stacked(parts) for name, parts in found.items()}
        return next(iter(several.values())) if len(several) == 1 else several

    def read(
        self,
        step: SupportsIndex | None = None,
        out: Array | None = None,
        max_error: float | None = None,
        *,
        relative: bool = False,
        precision: SupportsIndex | None = None,
    ) -> Array | dict[str, Array]:
        """Fill its memory and return its array, or its arrays by name; all are views of one buffer, their `.base`.

        Unwritten cells are the fill value. Memory for cells outside the dataset is left unchanged (zero, if
        the memory is new): `coverage` counts both.

        Args:
            step: The output time; left out for variables without steps.
            out: A dense array of `nbytes` bytes of any dtype to fill.
            max_error: The largest error of a finite value, as in `Variable.within`.
            relative: `max_error` is a fraction of the magnitude of each value.
            precision: Instead of an error, the number of components to read.

        """
        buffer = np.zeros(self.nbytes, "u1") if out is None else _memory(out, self.nbytes)
        self._container._settle()
        self._handle.read(step, buffer, max_error, relative, precision)
        return self.arrays(buffer)

    def write(self, data: Any, writer: Writer | None = None) -> None:
        """Put an array (or arrays by name, or a buffer of `nbytes` bytes) into the container.

        With a writer it becomes part of the open step. Without one, it is written and committed at once. Cells
        outside the dataset are not written.
        """
        buffer = self._filled(data)
        if writer is not None:
            writer._handle.put_fragment(self._handle, buffer)
            return
        if self.has_steps:
            raise InvalidArgumentError(
                f'the fragment "{self.name}" shows variables with steps: write it inside a step '
                "(with w.step(): w.put_fragment(fragment, array))"
            )
        with self._container.writer() as own:
            own._handle.put_fragment(self._handle, buffer)

    def _filled(self, data: Any) -> Array:
        if isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.shape == (self.nbytes,):
            return np.ascontiguousarray(data)
        buffer = np.zeros(self.nbytes, "u1")
        arrays = self.arrays(buffer)
        if not isinstance(arrays, dict):
            arrays = {self.variables[0]: arrays}
            data = {self.variables[0]: data} if not isinstance(data, Mapping) else data
        if not isinstance(data, Mapping) or set(data) != set(arrays):
            given = ", ".join(map(str, data)) if isinstance(data, Mapping) else type(data).__name__
            raise InvalidArgumentError(
                f'the fragment "{self.name}" is written from arrays {", ".join(arrays)}, not {given}'
            )
        for name, array in arrays.items():
            if values.is_masked(data[name]):
                raise InvalidArgumentError(f'the array for "{name}" is masked: write array.filled(value)')
            what = f'"{name}" of the fragment "{self.name}"'
            elements = values.as_stored(data[name], array.dtype, what)
            if elements.shape != array.shape:
                raise InvalidArgumentError(
                    f'"{name}" of the fragment "{self.name}" has shape {array.shape}, the array {elements.shape}'
                )
            array[...] = elements
        return buffer

    def coverage(self, step: SupportsIndex | None = None) -> Coverage:
        """The numbers of its values, of those outside the dataset, and of those unwritten at the step."""
        self._container._settle()
        wanted, covered, unmapped, missing, places = self._handle.coverage(step)
        boxes = [Missing(v, f, tuple(_range(*axis) for axis in axes)) for v, f, axes in places]
        return Coverage(wanted, covered, unmapped, missing, tuple(boxes))

    def explain(self, step: SupportsIndex | None = None) -> str:
        """Its memory, and the plans of the reads that fill it."""
        self._container._settle()
        return self._handle.explain(step)

    def __str__(self) -> str:
        return str(self._handle)

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return f"<drystone fragment {self.name}({params}), {self.nbytes} bytes>"


def _range(start: int, step: int, count: int) -> range:
    stop = start + step * (count - 1) + (1 if step > 0 else -1)
    return range(start, stop, step)


def _stacked(parts: list[tuple[int, Array]]) -> Array:
    """The arrays of one `for` as one array, if they are evenly spaced and have equal shapes."""
    (first, array), *rest = parts
    if not rest:
        return array
    distance = rest[0][0] - first
    expected = [(first + n * distance, array.shape) for n in range(len(parts))]
    if [(offset, one.shape) for offset, one in parts] != expected:
        raise InvalidArgumentError(
            "what `for` makes has different shapes here: read into `out`, and take it apart"
        )
    return np.lib.stride_tricks.as_strided(array, (len(parts), *array.shape), (distance, *array.strides))


def _memory(out: Array, nbytes: int) -> Array:
    if not isinstance(out, np.ndarray) or not out.flags.c_contiguous or out.nbytes != nbytes:
        raise InvalidArgumentError(f"out is a dense NumPy array of {nbytes} bytes")
    if not out.flags.writeable:
        raise InvalidArgumentError("out is read-only")
    return out.reshape(-1).view("u1")
