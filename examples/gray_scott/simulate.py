"""Run the Gray-Scott model on any number of MPI ranks and write U and V to a Drystone container.

    mpiexec -n 8 python simulate.py run.dry --grid 128 --outputs 12 --interval 50
    mpiexec -n 6 python simulate.py run.dry --outputs 12 --restart

In each output step, each rank puts its own box of both fields. A gather tells rank 0 that every rank has closed the
step; then rank 0 commits. A restart recovers the steps that a dead run completed. Each new rank, however many there
are, reads its box of the last step from the container.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import drystone as dry
import ground_truth
import numpy as np
import raw_limit
from decomposition import Neighbours, Triple
from events import EventLog
from mpi4py import MPI
from reaction import Field, Model, initial_state


@dataclass(frozen=True)
class Setup:
    """The information that every rank needs before the first step."""

    grid: Triple
    dtype: str
    model: Model
    interval: int
    first: int  # the output step to start from: 0, or the last complete one


def main() -> int:
    """Parse the arguments on rank 0 and run; if one rank fails, end all with a message."""
    world = MPI.COMM_WORLD
    arguments = parse(world)
    if isinstance(arguments, int):
        return arguments
    try:
        run(arguments, world)
    except (dry.DrystoneError, ValueError, OSError) as error:
        print(f"simulate: rank {world.rank}: {error}", file=sys.stderr, flush=True)
        world.Abort(1)
    return 0


def run(arguments: argparse.Namespace, world: MPI.Intracomm) -> None:
    """Run from the initial state, or the last complete step, to the last output step."""
    log = EventLog(arguments.events, world.rank)
    log.tell("start", pid=os.getpid())
    container, setup = restart(arguments, world, log) if arguments.restart else begin(arguments, world)
    with container:
        place = Neighbours(world, setup.grid)
        if arguments.restart:
            start = time.perf_counter()
            field = load(container, setup, place)
            world.Barrier()
            seconds = time.perf_counter() - start
            if world.rank == 0:
                log.tell("resumed", step=setup.first, bytes=grid_bytes(setup), seconds=seconds)
        else:
            field = Field(*initial_state(place.box, setup.grid, setup.model, setup.dtype), setup.model)
        output = Output(arguments, setup, world, place, container, log)
        with container.writer(rank=world.rank, nranks=world.size) as writer:
            if setup.first == 0 and not arguments.restart:
                output.write(writer, 0, field, compute_s=0.0)
            for step in range(setup.first + 1, arguments.outputs + 1):
                start = time.perf_counter()
                for _ in range(setup.interval):
                    place.exchange(field.u, field.v)
                    field.advance()
                output.write(writer, step, field, compute_s=time.perf_counter() - start)
    log.tell("end")


def begin(arguments: argparse.Namespace, world: MPI.Intracomm) -> tuple[dry.Container, Setup]:
    """Rank 0 creates the container and its variables, then the others open it."""
    z, y, x = arguments.grid
    setup = Setup((z, y, x), arguments.dtype, model_of(arguments), arguments.interval, first=0)
    if world.rank != 0:
        world.Barrier()
        return dry.open(arguments.container, mode="r+"), setup
    container = dry.create(arguments.container, durability=arguments.durability)
    with container.batch():
        for name in ("U", "V"):
            container.create_variable(
                name,
                dtype=setup.dtype,
                shape=setup.grid,
                dims=("z", "y", "x"),
                steps=True,
                transform=arguments.transform,
                attrs={
                    "long_name": f"concentration of {name}",
                    "interval": setup.interval,
                    **setup.model.attributes(),
                },
            )
    if arguments.truth is not None:
        for name in ("U", "V"):
            ground_truth.create(arguments.truth, name, arguments.outputs + 1, setup.grid, setup.dtype)
    world.Barrier()
    return container, setup


def restart(
    arguments: argparse.Namespace, world: MPI.Intracomm, log: EventLog
) -> tuple[dry.Container, Setup]:
    """Rank 0 recovers the dead run and broadcasts the step to continue from; then all open the container."""
    if world.rank != 0:
        setup = world.bcast(None)
        return dry.open(arguments.container, mode="r+"), setup
    container = dry.open(arguments.container, mode="r+")
    log.tell("recovered", report=str(container.recover(adopt=True)))
    if not len(container.steps):
        raise ValueError(f"{arguments.container} holds no complete step to restart from: start a new run")
    variable = container["U"]
    attributes = dict(variable.attrs)
    _, z, y, x = variable.shape
    setup = Setup(
        grid=(z, y, x),
        dtype=str(np.dtype(variable.dtype)),
        model=Model.from_attributes(attributes),
        interval=int(attributes["interval"]),
        first=int(container.steps[-1]),
    )
    world.bcast(setup)
    return container, setup


def load(container: dry.Container, setup: Setup, place: Neighbours) -> Field:
    """Read this rank's box of the restart step, whichever ranks wrote it."""
    state = []
    for name in ("U", "V"):
        values = np.empty(place.box.shape, setup.dtype)
        container[name].read(step=setup.first, offset=place.box.offset, count=place.box.shape, out=values)
        state.append(values)
    return Field(state[0], state[1], setup.model)


class Output:
    """Writes output steps, and measures plain files for comparison if requested."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        setup: Setup,
        world: MPI.Intracomm,
        place: Neighbours,
        container: dry.Container,
        log: EventLog,
    ) -> None:
        self.setup, self.world, self.box, self.container, self.log = setup, world, place.box, container, log
        self.truth: Path | None = arguments.truth
        self.plain: Path | None = arguments.raw_limit
        self.sync: bool = arguments.durability == "durable"

    def write(self, writer: dry.Writer, step: int, field: Field, compute_s: float) -> None:
        """Write one step from all ranks and commit it."""
        u, v = field.interior
        self.world.Barrier()
        start = time.perf_counter()
        self.log.tell("writing", step=step)
        with writer.step(step):
            writer.put("U", u, offset=self.box.offset)
            writer.put("V", v, offset=self.box.offset)
        self.log.tell("written", step=step)
        self.world.gather(step)
        written = time.perf_counter()
        if self.world.rank == 0:
            self.container.commit()
        committed = time.perf_counter()
        raw_s = self.write_plain(u, v)
        if self.truth is not None:
            ground_truth.store(self.truth, "U", step, self.box, u)
            ground_truth.store(self.truth, "V", step, self.box, v)
        if self.world.rank == 0:
            self.log.tell(
                "output",
                step=step,
                bytes=grid_bytes(self.setup),
                compute_s=compute_s,
                write_s=written - start,
                commit_s=committed - written,
                raw_s=raw_s,
            )

    def write_plain(self, u: np.ndarray, v: np.ndarray) -> float | None:
        """All ranks write the same bytes at once, each to its own plain file; returns the seconds of the slowest."""
        if self.plain is None:
            return None
        parts = [np.ascontiguousarray(u), np.ascontiguousarray(v)]
        path = self.plain / f"{self.world.rank}.bin"
        self.world.Barrier()
        start = time.perf_counter()
        raw_limit.write_plain(path, parts, sync=self.sync)
        self.world.Barrier()
        seconds = time.perf_counter() - start
        path.unlink()
        return seconds


def grid_bytes(setup: Setup) -> int:
    """Bytes of U and V over the whole grid."""
    return 2 * int(np.prod(setup.grid)) * np.dtype(setup.dtype).itemsize


def parse(world: MPI.Intracomm) -> argparse.Namespace | int:
    """The arguments, checked on rank 0 and broadcast; or, on every rank, the exit status."""
    parsed: argparse.Namespace | int = 2
    if world.rank == 0:
        try:
            parsed = parser().parse_args()
            check(parsed, world.size)
        except SystemExit as leave:
            parsed = int(leave.code or 0)
        except (ValueError, OSError) as error:
            print(f"simulate: {error}", file=sys.stderr)
            parsed = 2
    agreed: argparse.Namespace | int = world.bcast(parsed)
    return agreed


def model_of(arguments: argparse.Namespace) -> Model:
    """The model with the parameters of the command line."""
    return Model(arguments.Du, arguments.Dv, arguments.F, arguments.k, arguments.dt, arguments.seed)


def check(arguments: argparse.Namespace, ranks: int) -> None:
    """Refuse invalid arguments before anything is created; complete the grid."""
    if len(arguments.grid) == 1:
        arguments.grid *= 3
    if len(arguments.grid) != 3 or min(arguments.grid) < 1:
        raise ValueError(
            "--grid takes one or three positive numbers of cells: --grid 128, or --grid 64 128 256"
        )
    if arguments.outputs < 1 or arguments.interval < 1:
        raise ValueError("--outputs and --interval must be at least 1")
    model_of(arguments)
    dims = MPI.Compute_dims(ranks, 3)
    if not arguments.restart and any(p > n for p, n in zip(dims, arguments.grid, strict=True)):
        raise ValueError(
            f"{ranks} ranks divide the grid into {dims}, more parts than its cells {arguments.grid}: use fewer ranks"
        )
    if arguments.restart and (arguments.truth is not None or arguments.raw_limit is not None):
        raise ValueError("--truth and --raw-limit belong to a new run, not to a restart")
    if arguments.raw_limit is not None:
        arguments.raw_limit.mkdir(parents=True, exist_ok=True)


def parser() -> argparse.ArgumentParser:
    """Parse the command line."""
    defaults = Model()
    options = argparse.ArgumentParser(prog="simulate", description=(__doc__ or "").split("\n")[0])
    options.add_argument(
        "container", type=Path, help="the container to create, or with --restart to go on with"
    )
    options.add_argument(
        "--restart",
        action="store_true",
        help="go on from the last complete step; the container knows the rest",
    )
    options.add_argument(
        "--outputs", type=int, default=12, help="output steps after the initial one (default %(default)s)"
    )
    options.add_argument(
        "--interval",
        type=int,
        default=50,
        help="time steps from one output to the next (default %(default)s)",
    )
    options.add_argument(
        "--grid", type=int, nargs="+", default=[128], metavar="N", help="cells per axis: one number or three"
    )
    options.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    options.add_argument("--durability", choices=["durable", "async", "memory"], default="async")
    options.add_argument(
        "--transform",
        default=None,
        help='how to encode U and V, such as "shuffle,zstd:1" (default: as they are)',
    )
    options.add_argument(
        "--truth", type=Path, metavar="FOLDER", help="also write U.npy and V.npy there, to compare with"
    )
    options.add_argument(
        "--raw-limit", type=Path, metavar="FOLDER", help="also time plain files of the same bytes there"
    )
    options.add_argument(
        "--events", type=Path, metavar="FILE", help="append progress to this file as JSON lines"
    )
    for name in ("Du", "Dv", "F", "k", "dt"):
        options.add_argument(
            f"--{name}",
            type=float,
            default=getattr(defaults, name),
            help="model parameter (default %(default)s)",
        )
    options.add_argument(
        "--seed", type=int, default=defaults.seed, help="of the initial state (default %(default)s)"
    )
    return options


if __name__ == "__main__":
    sys.exit(main())
