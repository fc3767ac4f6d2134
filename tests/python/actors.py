"""Processes for the tests: starts them together, and defines the blocks that writers write.

Every block holds one value, which encodes its step, its writer and its number in the step. So a reader can tell where
any visible value comes from, and which others must be visible with it.
"""

import multiprocessing
import os
import traceback
from random import Random

import drystone as dry
import numpy as np

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["numpy", "drystone", "pytest"])

PUTS = 5
SHAPE = (37, 53)
WAIT = 240


def create(path, durability="async"):
    """Create a container for the blocks below."""
    with dry.create(path, durability=durability) as c:
        c.create_variable("T", "i8", shape=SHAPE, steps=True, fill_value=-1)


def blocks(step, who, salt=0):
    """The puts of one writer in one step: offset and array, in order; anywhere, overlapping, unaligned."""
    random = Random(f"{salt} {step} {who}")
    for put in range(PUTS):
        offset = tuple(random.randrange(n - 1) for n in SHAPE)
        shape = tuple(random.randint(1, n - o) for n, o in zip(SHAPE, offset, strict=True))
        yield offset, np.full(shape, value(step, who, put, salt), "i8")


def value(step, who, put, salt=0):
    return ((salt * 1_000_000 + step) * 1000 + who) * 100 + put


def named(number):
    """The salt, step, writer and number of the put that a value encodes."""
    rest, put = divmod(int(number), 100)
    rest, who = divmod(rest, 1000)
    return *divmod(rest, 1_000_000), who, put


def put_all(w, step, who, salt=0):
    for offset, array in blocks(step, who, salt):
        w.put("T", array, offset=offset)


def lay(array, offset, block):
    array[tuple(slice(o, o + n) for o, n in zip(offset, block.shape, strict=True))] = block


def expected(step, nranks, salt=0):
    """The expected array of a step that every rank has written once: the higher rank wins, and its later put."""
    out = np.full(SHAPE, -1, "i8")
    for rank in range(nranks):
        for offset, array in blocks(step, rank, salt):
            lay(out, offset, array)
    return out


def replay(c, step):
    """Apply the blocks of a step, oldest first; also the puts of each writer."""
    out = np.full(SHAPE, -1, "i8")
    puts = {}
    for block in c["T"].blocks(step):
        assert block.min == block.max
        salt, of, who, put = named(block.min)
        assert of == step
        (offset, array) = list(blocks(step, who, salt))[put]
        assert (block.offset, block.shape) == (offset, array.shape)
        lay(out, offset, array)
        puts.setdefault((salt, who), []).append(put)
    return out, puts


class Actor:
    """A process that runs `role(pipe, *arguments)`; its failure is reported here."""

    def __init__(self, role, *arguments):
        self.role = role
        self.pipe, there = PROCESSES.Pipe(duplex=False)
        self.process = PROCESSES.Process(target=_act, args=(role, there, arguments), daemon=True)
        self.process.start()
        there.close()

    def reports(self):
        """Its messages, until it ended or was killed."""
        found = []
        try:
            while self.pipe.poll(WAIT):
                found.append(self.pipe.recv())
        except (EOFError, OSError):
            pass
        self.process.join(WAIT)
        assert self.process.exitcode is not None, f"{self.role.__name__} did not end in {WAIT} s"
        for report in found:
            if isinstance(report, Failure):
                raise AssertionError(f"{self.role.__name__}: {report.text}")
        return found

    def finish(self):
        """Its messages; it must have ended by itself."""
        found = self.reports()
        assert self.process.exitcode == 0, f"{self.role.__name__} ended with {self.process.exitcode}"
        return found

    def kill(self):
        """Kill it like a crash, and return its messages."""
        self.process.kill()
        return self.reports()


class Failure:
    def __init__(self, text):
        self.text = text


def _act(role, pipe, arguments):
    try:
        role(pipe, *arguments)
    except BaseException:
        pipe.send(Failure(f"process {os.getpid()}\n{traceback.format_exc()}"))
    finally:
        pipe.close()
