"""A reader in a separate process: a crash or a hang on a damaged file affects only that process.

The process is forked from this one before the package of the format is loaded, so a valid file has no extra cost.
Numbers are passed through shared memory, everything else through a pipe.

Invariants
- a result is valid until the second read after it: results use two buffers in turn;
- the process ends when the block ends, or this process;
- a silent process is ended, too: at once if it reads and gets no bytes, as a reader does that waits for more of a file;
  else after some minutes.
"""

from __future__ import annotations

import ctypes
import faulthandler
import math
import mmap
import os
import pickle
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from drystone import errors
from drystone.errors import CorruptError
from drystone.hdf5.itself import forget_connector
from drystone.interchange.formats import Box, Contents

_PLACE = 16 << 20
"""Bytes of each of the two buffers; larger results go through the pipe."""
_STARVED_S = 4
"""Seconds of reads that return no bytes."""
_SILENT_S = 300
"""Seconds without an answer or a byte read."""
_DIE_WITH_PARENT = 1


@contextmanager
def opened(contents_of: Opened, path: Path, package: str) -> Iterator[Contents]:
    """The contents of a file, read in another process; a CorruptError if that process fails."""
    ours, theirs = Pipe()
    places = [mmap.mmap(-1, _PLACE) for _ in range(2)]
    said = os.memfd_create("drystone-reader")
    with warnings.catch_warnings():
        # Python warns if there are threads, which may hold locks; the forked process does not take any of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        ours.close()
        _be_apart(contents_of, path, theirs, places, said)
    theirs.close()
    process = _Process(pid, ours, places, said, path, package)
    try:
        yield process.contents()
    finally:
        process.end()


class _Process:
    """The other process, from this side."""

    def __init__(
        self, pid: int, pipe: Connection, places: list[mmap.mmap], said: int, path: Path, package: str
    ) -> None:
        self._pid = pid
        self._pipe = pipe
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        self._places = places
        self._said = said
        self._path = path
        self._package = package
        self._asked: tuple[int, Box] | None = None
        self._ended = False

    def contents(self) -> Contents:
        """The content of the file; its arrays are read by requests to the other process."""
        contents: Contents = self._answer()
        arrays = [
            replace(array, read=partial(self._read, n), ask=partial(self._ask, n))
            for n, array in enumerate(contents.arrays)
        ]
        return replace(contents, arrays=arrays)

    def _ask(self, number: int, box: Box) -> None:
        """Start reading the box that is expected next; if another is taken, its values are dropped."""
        if self._asked == (number, box):
            return
        if self._asked is not None:
            self._asked = None
            with suppress(Exception):
                self._answer()
        self._asked = number, box
        with suppress(OSError):  # it has ended; reading the answer reports that
            self._pipe.send(self._asked)

    def _read(self, number: int, box: Box) -> npt.NDArray[Any]:
        self._ask(number, box)
        self._asked = None
        answer = self._answer()
        if isinstance(answer, np.ndarray):
            return answer
        place, dtype, shape = answer
        return np.ndarray(shape, dtype, self._places[place])

    def _answer(self) -> Any:
        """The next answer; its errors are raised here."""
        began, reads = time.monotonic(), None
        while True:
            try:
                if self._poll.poll(1000):
                    error, answer = self._pipe.recv()
                    if error:
                        raise answer
                    if error is not None:
                        return answer
                    began, reads = time.monotonic(), None
                    continue
            except (EOFError, ConnectionError, pickle.UnpicklingError):
                raise CorruptError(f"{self._path} cannot be read: {self._end()}") from None
            now, silent = self._reads(), time.monotonic() - began
            if reads is None or now[0] != reads[0]:
                began, reads = time.monotonic(), now
            elif silent > _STARVED_S and now[1] - reads[1] >= _STARVED_S:
                why = f"{self._package} waits for more than there is of it"
                raise CorruptError(f"{self._path} is cut off, or its index is damaged: {why}")
            elif silent > _SILENT_S:
                raise CorruptError(f"{self._path} cannot be read: {self._package} does not come back from it")

    def _reads(self) -> tuple[int, int]:
        """Bytes that it has read, and in how many calls; None if the system does not count them."""
        try:
            lines = Path(f"/proc/{self._pid}/io").read_text().split("\n")
        except OSError:
            return 0, 0
        counts = dict(line.split(": ") for line in lines if line)
        return int(counts["rchar"]), int(counts["syscr"])

    def _end(self) -> str:
        """How the process ended by itself, with its last output."""
        _, status = os.waitpid(self._pid, 0)
        self._ended = True
        code = os.waitstatus_to_exitcode(status)
        how = f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended (exit code {code})"
        said = os.pread(self._said, 4096, max(0, os.fstat(self._said).st_size - 4096))
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return f"{self._package} {how}" + (f": {lines[-1].strip()[:200]}" if lines else "")

    def end(self) -> None:
        """End it in any state."""
        if not self._ended:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._ended = True
        self._pipe.close()
        os.close(self._said)


class Asker:
    """The requesting process, from the reader's side."""

    def __init__(self, pipe: Connection, places: list[mmap.mmap]) -> None:
        self._pipe = pipe
        self._places = places
        self._place = 0
        self._room: npt.NDArray[Any] | None = None

    def alive(self) -> None:
        """Report that the reader is busy: it is silent while it does not read the file."""
        self._pipe.send((None, None))

    def room(self, shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """The destination of the requested values, so that they need not be copied."""
        if dtype.hasobject or math.prod(shape) * dtype.itemsize > _PLACE:
            return np.empty(shape, dtype)
        self._place = 1 - self._place
        self._room = np.ndarray(shape, dtype, self._places[self._place])
        return self._room

    def _give(self, values: npt.NDArray[Any]) -> None:
        room, self._room = self._room, None
        if values is room:
            self._pipe.send((False, (self._place, values.dtype, values.shape)))
        else:
            self._pipe.send((False, np.array(values)))

    def _serve(self, contents_of: Opened, path: Path) -> None:
        """Send the list of contents, then answer requests until the pipe closes."""
        try:
            with contents_of(path, self) as contents:
                shown = [replace(array, read=_unread) for array in contents.arrays]
                self._pipe.send((False, replace(contents, arrays=shown)))
                while True:
                    number, box = self._pipe.recv()
                    try:
                        self._give(contents.arrays[number].read(box))
                    except Exception as error:
                        self._pipe.send((True, _sendable(error)))
        except EOFError:
            pass
        except Exception as error:
            self._pipe.send((True, _sendable(error)))


Opened = Callable[[Path, Asker], AbstractContextManager[Contents]]


def _be_apart(
    contents_of: Opened, path: Path, pipe: Connection, places: list[mmap.mmap], said: int
) -> NoReturn:
    """The other process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the requesting process handles it, and ends this one
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()
        forget_connector()
        os.dup2(said, 1)
        os.dup2(said, 2)
        Asker(pipe, places)._serve(contents_of, path)
    finally:
        os._exit(0)


def _unread(_: Box) -> NoReturn:
    raise NotImplementedError


def _sendable(error: Exception) -> Exception:
    """An error in a form that both processes know."""
    if type(error).__module__ in ("builtins", errors.__name__):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")
