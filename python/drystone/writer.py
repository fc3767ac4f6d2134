"""Writers write blocks, step by step, without waiting for each other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex

import numpy as np

from drystone import records, values
from drystone.errors import InvalidArgumentError, UnsupportedError
from drystone.events import emit
from drystone.group import check_name
from drystone.lists import as_bytes, ragged_element
from drystone.reports import TransformChoice
from drystone.variable import Variable

if TYPE_CHECKING:
    from drystone._core import WriterHandle
    from drystone.container import Container
    from drystone.fragments import Fragment


class Writer:
    """Writes blocks into a container. `Container.writer` makes one.

    A writer has a log of its own, so any number of them, in any number of processes, work at the same time. It may be
    used from several threads. `with` closes it.
    """

    def __init__(self, container: Container, handle: WriterHandle) -> None:
        self._container = container
        self._handle = handle
        # Whether it writes assigned values.
        self._is_assigned = False

    def step(
        self, number: SupportsIndex | None = None, *, replace: bool = False, level: str | None = None
    ) -> Step:
        """An output time: `with w.step():` is the next one, `with w.step(t):` is step `t`, which may leave a gap.

        Inside, `put` writes blocks. At the end, the step is closed, and becomes visible with the next commit (with
        `nranks=1` at once). An exception inside discards the step. Writing a step again overwrites the written cells;
        `replace` hides all earlier content of the step. `level` is the level of safety that the step has at the end:
        `"received"`, `"node"`, `"partner"`, `"home"` or `"stable"`; by default the one that the container's durability
        promises.
        """
        return Step(self, number, replace, level)

    def put(
        self,
        name: str | Variable,
        array: Any,
        offset: Sequence[SupportsIndex] | SupportsIndex | None = None,
        field: str | None = None,
    ) -> None:
        """Write a block of a variable, or of one member of a record (`field`), with its first cell at `offset`.

        `name` is the variable's path, or the variable itself (`c["T"]`, or a member as `c["P"]["x"]`), which must
        belong to the writer's container. `array` may have any memory layout, or be a scalar, a list or a text. Values
        of another dtype are converted by the casting rule (docs/guide/reading.md): within its kind, and only if no
        value changes by more than the last digits of a float. `offset` has an entry per dimension, without the step
        axis, and is zero by default. The array may be changed again when this returns.
        """
        if isinstance(name, Variable):
            name, field = self._place(name, field)
        if isinstance(name, str) and (len(name) > 255 or not name.isascii()):
            check_name(name)
        if values.is_masked(array):
            raise InvalidArgumentError(f'the array for "{name}" is masked: put array.filled(value)')
        own = isinstance(array, np.ndarray) and array.dtype.kind not in "OTU"
        if own and self._handle.put(name, array, offset, field):
            return
        dtype, strings, inner = self._handle.target(name, field)
        what = f'"{name}"' if field is None else f'"{name}" member "{field}"'
        stored = values.as_stored(array, dtype, what)
        if records.holds_objects(dtype):
            if stored.shape[stored.ndim - len(inner) :] != tuple(inner):
                raise InvalidArgumentError(
                    f"{what} has shape {tuple(inner)} in each element; the array has shape {stored.shape}"
                )
            fixed, values_of = records.split(stored, dtype, inner)
            self._handle.put_records(name, fixed, values_of, offset, field)
        elif strings:
            element = ragged_element(dtype)
            blobs = stored.ravel().tolist() if element is None else as_bytes(stored, element)
            self._handle.put_strings(name, stored.shape, blobs, offset, field)
        elif not self._handle.put(name, stored, offset, field):
            raise InvalidArgumentError(f"{what} holds {dtype}, the array {stored.dtype}: convert it first")

    def _place(self, variable: Variable, field: str | None) -> tuple[str, str | None]:
        """Path and member of a variable that is given in place of its name."""
        if variable.container.uuid != self._container.uuid:
            raise InvalidArgumentError(
                f'"{variable.name}" is a variable of {variable.container.path}, the writer writes to {self._container.path}'
            )
        if variable.member is not None and field is not None:
            raise InvalidArgumentError(
                f'"{variable.name}" is given as its member "{variable.member}": leave field out'
            )
        return variable.name, variable.member if field is None else field

    def put_fragment(self, fragment: Fragment, data: Any) -> None:
        """Write a declared fragment: its array, its arrays by name, or its memory as bytes."""
        fragment.write(data, self)

    def choices(self) -> dict[str, TransformChoice]:
        """The codecs that `transform="auto"` chose for the variables put so far.

        They are listed by name (`P.x` for a member of a record). Each prints as a table of the chains that were tried:
        ratio and speed on the samples, and a star at the chosen one.
        """
        return {name: TransformChoice(chain, report) for name, chain, report in self._handle.choices()}

    def flush(self) -> None:
        """Pass blocks to the operating system. Only the end of a step and a commit make them visible."""
        self._handle.flush()

    def close(self) -> None:
        """Close the log; values put without a step are committed. Closing again does nothing."""
        was_open = not self._handle.closed
        if was_open:
            self._container._commit_earlier(assigned=not self._is_assigned)
        self._handle.close()
        if was_open and self._container._consistency in ("session", "strong") and not self._container.closed:
            self._container.commit()
        self._container._warn()

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._handle.closed

    @property
    def run(self) -> int | None:
        """The run it belongs to; None for writers without ranks."""
        return self._handle.run

    @property
    def current_step(self) -> int | None:
        """The step that is open."""
        return self._handle.current_step

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError(
            "a writer cannot be pickled: it belongs to the process that made it; in the other one, open the container "
            'with mode="r+" and call writer()'
        )

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<drystone writer {self._handle.id} of {self._container.path}, {state}>"


class Step:
    """An output time of a writer, for `with`; returns the number of the step."""

    def __init__(
        self, writer: Writer, number: SupportsIndex | None, replace: bool, level: str | None = None
    ) -> None:
        if level is not None:
            writer._handle.check_level(level)
        self._writer = writer
        self._level = level
        self._number = number
        self._replace = replace
        self._begun = -1
        self._time = 0.0

    def __enter__(self) -> int:
        self._time = time.perf_counter()
        self._begun = self._writer._handle.begin_step(self._number, self._replace)
        return self._begun

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            container = self._writer._container
            container._commit_earlier(assigned=not self._writer._is_assigned)
            self._writer._handle.end_step(self._level)
            emit("step", container.path, self._time, step=self._begun, writer=self._writer._handle.id)
            if self._writer.run is not None:
                container._reached = max(container._reached, self._begun)
            # Assigned values are committed when all of their steps are closed.
            if container._consistency == "strong" and not self._writer._is_assigned:
                container.commit()
            container._warn()
        else:
            self._writer._handle.abort_step()
