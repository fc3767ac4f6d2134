"""What do stores do with damage? A bit flipped in values or in metadata, a file cut short, a writer killed at work.

Each trial damages a copy of a closed store of 6 steps and reads everything in a process of its own. *detected*: an
error; *silent*: other values than were written, without a word; *unharmed*: all values right; *died*: the reading
process was killed by a signal or did not end. The killed writer had ended N steps (killed with SIGKILL while it wrote
on): how many of those N can be read afterwards, as the next process finds the store.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import shutil
import signal
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from engines import Array, Engine, Layout, Spec, load
from grid import Box
from measure import files_of
from report import Listing
from rounds import Bench

STEPS = 6
EDGE = 24
PATIENCE = 4.0
"""Seconds; a read takes milliseconds."""
PART = 512


def layout_of() -> Layout:
    """Two variables, several steps, one writer."""
    specs = tuple(Spec(name, (EDGE, EDGE, EDGE), "f8", (EDGE,) * 3) for name in ("a", "b"))
    return Layout(specs, ((Box((0, 0, 0), (EDGE,) * 3),),), STEPS, True)  # type: ignore[arg-type]


def values_of(step: int, name: str) -> Array:
    """Bytes that occur nowhere else, so that they can be found in files."""
    return np.random.default_rng(step * 2 + (name == "b")).random((EDGE,) * 3)


def write(engine: Engine, path: Path, steps: int, done: Connection | None = None) -> None:
    """All steps; tells `done` of each that ended. Told, it does not close: it goes on until it is killed."""
    layout = layout_of()
    engine.create(path, layout)
    writer = engine.writer(path, layout, 0)
    for step in range(steps):
        for name in ("a", "b"):
            writer.put(step, name, (0, 0, 0), values_of(step, name))
        if done is not None and step == steps - 1:
            done.send(step)  # it dies before this step ends
            time.sleep(60)
        writer.end(step)
    writer.close()


def _killed(name: str, path: Path, done: Connection) -> None:
    engine = load(name)
    assert engine is not None
    write(engine, path, STEPS, done)


def _serve(name: str, end: Connection) -> None:
    """Reads stores as asked for, until it is told to stop or dies of one."""
    engine = load(name)
    assert engine is not None
    while (path := end.recv()) is not None:
        outcomes = []
        for step in range(STEPS):
            for variable in ("a", "b"):
                try:
                    reader = engine.reader(path, layout_of())
                    out = np.full((1, EDGE, EDGE, EDGE), np.nan)
                    found = reader.read(variable, step, (0, 0, 0), out)
                    right = np.array_equal(np.asarray(found).reshape((EDGE,) * 3), values_of(step, variable))
                    outcomes.append("unharmed" if right else "silent")
                    reader.close()
                except Exception:
                    outcomes.append("detected")
        end.send(outcomes)


class Readers:
    """A process that reads; another takes its place when it dies."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process = None
        self._start()

    def _start(self) -> None:
        context = mp.get_context("spawn")
        self.end, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(self.name, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def read(self, path: Path) -> list[str]:
        """How each step and variable fared."""
        assert self.process is not None
        self.end.send(path)
        try:
            if self.end.poll(PATIENCE):
                outcomes: list[str] = self.end.recv()
                return outcomes
        except EOFError:
            pass
        self.process.kill()
        self.process.join()
        self._start()
        return ["died"] * (2 * STEPS)

    def close(self) -> None:
        """Let it go."""
        assert self.process is not None
        self.end.send(None)
        self.process.join(5)
        self.process.kill()


def worst(outcomes: list[str]) -> str:
    """What a user would remember."""
    return next(o for o in ("died", "silent", "detected", "unharmed") if o in outcomes)


def payload_places(files: list[Path]) -> tuple[list[tuple[Path, int]], list[tuple[Path, int]]]:
    """Places of bytes that are values, and of bytes that are not: (file, offset) each, some of all."""
    needles = {values_of(s, n).tobytes() for s in range(STEPS) for n in ("a", "b")}
    inside, outside = [], []
    rng = np.random.default_rng(11)
    for file in files:
        text = file.read_bytes()
        covered = np.zeros(len(text), bool)
        for needle in needles:
            # An engine may cut a block: its parts are looked for, each where the last one leads to.
            at = -1
            for begin in range(0, len(needle), PART):
                piece = needle[begin : begin + PART]
                if at < 0 or text[at + PART : at + 2 * PART] != piece:
                    at = text.find(piece)
                else:
                    at += PART
                if at >= 0:
                    covered[at : at + len(piece)] = True
        for mask, places, most in ((covered, inside, 40), (~covered, outside, 400)):
            found = np.flatnonzero(mask)
            if len(found):
                places += [(file, int(at)) for at in rng.choice(found, min(most, len(found)), replace=False)]
    return inside, outside


def run(bench: Bench) -> list[Listing]:
    """One table."""
    few, many = (2, 3) if bench.settings.quick else (8, 40)
    listing = Listing(
        f"Damage: {few} flipped bits in values, {many} in metadata, {few} cuts; a writer killed in step {STEPS} of "
        f"{STEPS}",
        ["", "bit in values", "bit in metadata", "file cut short", "steps kept of those ended before a kill"],
    )
    with bench.folder("damage") as folder:
        for key, engine in bench.engines.items():
            bench.settings.say(f"damage: {key}")
            listing.rows.append(_engine(folder, key, engine, few, many))
    listing.remarks.append(
        "Counts of trials by their worst outcome. *unharmed* in metadata: the byte was not needed to read (times, "
        "names of versions, free space). Places are drawn by a fixed seed from all bytes that are not values. For "
        "the cut the largest file loses a part of its end."
    )
    return [listing]


def _engine(folder: Path, key: str, engine: Engine, few: int, many: int) -> list[str]:
    whole, copy = folder / f"{key}.whole", folder / f"{key}.copy"
    write(engine, whole, STEPS)
    reader = Readers(key)
    if worst(reader.read(whole)) != "unharmed":
        reader.close()
        return [key, *["fails unharmed"] * 4]
    inside, outside = payload_places(files_of(whole))
    rng = np.random.default_rng(5)

    def flipped(places: list[tuple[Path, int]], count: int) -> str:
        if not places:
            return "none there"
        told: Counter[str] = Counter()
        for i in rng.choice(len(places), min(count, len(places)), replace=False):
            file, at = places[i]
            _fresh(whole, copy)
            with (copy / file.relative_to(whole)).open("r+b") as target:
                target.seek(at)
                byte = target.read(1)[0]
                target.seek(at)
                target.write(bytes([byte ^ 1 << int(rng.integers(8))]))
            told[worst(reader.read(copy))] += 1
        return _told(told)

    cells = [key, flipped(inside, few), flipped(outside, many)]
    told: Counter[str] = Counter()
    for i in range(few):
        _fresh(whole, copy)
        largest = max(files_of(copy), key=lambda f: f.stat().st_size)
        os.truncate(largest, int(largest.stat().st_size * (0.3 + 0.69 * i / max(1, few - 1))))
        told[worst(reader.read(copy))] += 1
    cells.append(_told(told))
    cells.append(_kill(folder / f"{key}.killed", key, reader))
    reader.close()
    for path in (whole, copy):
        shutil.rmtree(path)
    return cells


def _fresh(whole: Path, copy: Path) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole, copy)


def _told(told: Counter[str]) -> str:
    order = ("detected", "silent", "unharmed", "died")
    return ", ".join(f"{told[o]} {'**silent**' if o == 'silent' else o}" for o in order if told[o])


def _kill(path: Path, key: str, reader: Readers) -> str:
    """Steps that can be read after the writer was killed in its last one."""
    context = mp.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_killed, args=(key, path, theirs), daemon=True)
    process.start()
    theirs.close()
    ended = STEPS - 1
    if mine.poll(60):
        mine.recv()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    outcomes = reader.read(path)
    kept = sum(outcomes[2 * s] == outcomes[2 * s + 1] == "unharmed" for s in range(ended))
    last = outcomes[2 * ended :]
    said = f"{kept} of {ended}"
    if "unharmed" in last or "silent" in last:
        said += ", and " + ("a part of " if last != ["unharmed"] * 2 else "") + "the one that never ended"
    return said + (" (nothing can be read)" if not kept else "")
