"""Starts an MPI program, follows it, and kills it if requested.

A launcher's exit says little about its ranks, which may outlive it. So each rank reports its process id in its first
event, and a kill goes to every rank itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from events import Event, Follower


class JobFailed(Exception):
    """The program ended with a status other than 0."""


class Job:
    """One program under mpiexec that takes `--events`, and its events."""

    def __init__(self, folder: Path, name: str, mpiexec: str, ranks: int, program: list[str]) -> None:
        self.name, self.ranks = name, ranks
        self.log = folder / f"{name}.log"
        self.pids: list[int] = []
        events = folder / f"{name}.events"
        self._follower = Follower(events)
        command = [mpiexec, "-n", str(ranks), sys.executable, *program, "--events", str(events)]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command, env=mpi_environment(), stdout=output, stderr=subprocess.STDOUT
            )

    def events(self) -> Iterator[Event]:
        """Yield events as they happen, until the job ends."""
        while True:
            ended = self.process.poll() is not None
            for event in self._follower.new():
                if event["event"] == "start":
                    self.pids.append(event["pid"])
                yield event
            if ended:
                return
            time.sleep(0.002)

    def expect_success(self) -> None:
        """Wait for the end; show the log after a failure."""
        if self.process.wait() != 0:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])
            raise JobFailed(
                f"{self.name}: exit status {self.process.returncode}; the end of {self.log}:\n{tail}"
            )

    def kill(self) -> None:
        """SIGKILL every rank, then the launcher if it does not end."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self._follower.close()


def mpi_environment() -> dict[str, str]:
    """The environment in which PyPI's Open MPI runs more ranks than cores, as any user, with a fair MPI-IO."""
    defaults = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_io": "romio341",
    }
    return defaults | os.environ
