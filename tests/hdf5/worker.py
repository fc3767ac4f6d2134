"""A process that performs programs and describes files, asked through pipes: `worker.py`, its environment chooses the
connector.

Requests and answers are pickled. Each answer says which connector HDF5 used for the file.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Worker:
    """Such a process, from outside."""

    def __init__(self, environment=None, python=sys.executable):
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ if environment is None else environment,
        )

    def ask(self, what, *more):
        """Perform, describe or check; raises what it raised there."""
        pickle.dump((what, more), self.process.stdin)
        self.process.stdin.flush()
        try:
            worked, answer = pickle.load(self.process.stdout)
        except EOFError:
            raise AssertionError(
                f"the process that was asked to {what} died: {self.process.wait()}"
            ) from None
        if not worked:
            raise AssertionError(f"{what}: {answer}")
        return answer

    def close(self):
        """End it."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


def connector_of(path):
    """The connector that HDF5 uses for a file."""
    import h5py

    library = ctypes.CDLL(h5py.defs.__file__)
    name = ctypes.create_string_buffer(64)
    with h5py.File(path, "r") as file:
        library.H5VLget_connector_name(ctypes.c_int64(file.id.id), name, ctypes.c_size_t(64))
    return name.value.decode()


def main():
    """Answer until the other side closes."""
    import traceback

    from describe import described
    from perform import perform

    acts = {"perform": perform, "describe": described, "connector": connector_of}
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            what, more = pickle.load(asked)
        except EOFError:
            return
        try:
            answer = (True, acts[what](*more))
        except Exception:
            answer = (False, traceback.format_exc())
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
