"""Sends hostile read programs to the storage daemons of a cluster on this machine, and asks whether they live.

    make rados-class && .venv/bin/python bench/ceph/hostile.py [--programs 1000000] [--processes 4]

The programs are those of `tests/vectors/programs`, each with one to six mutations: bits flipped, bytes set to extreme
values, removed, inserted, and numbers of four bytes replaced. Their object holds the vectors' object, and random bytes
up to 2 MiB, so that positions inside it exist. Every reply must be a reply of the format, or an error of the method.
After them each daemon must be alive, and answer each sound program as it did before. Bar: 10^6 programs, no daemon
dies. It needs Debian's packages of `tests/servers/ceph.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "servers"))
import ceph  # noqa: E402

VECTORS = ROOT / "tests" / "vectors" / "programs"
OBJECTS = 8
"""Objects that hold the same bytes, so that every daemon has some."""

# Runs under the Python that python3-rados is built for.
SENDER = """
import json, os, random, struct, sys, time, rados
conf, vectors, seed, programs, objects = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
sound = [open(os.path.join(vectors, name), "rb").read() for name in sorted(os.listdir(vectors))
         if name.endswith(".bin") and not name.endswith(("_reply.bin", "_object.bin"))]
rng = random.Random(seed)
cluster = rados.Rados(conffile=conf, name="client.admin", conf={"rados_osd_op_timeout": "60"})
cluster.connect()
io = cluster.open_ioctx("test")
io.set_namespace("hostile")
EXTREME = [0, 1, 127, 128, 255]
NUMBERS = [0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 20]
def mutated(data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at, how = rng.randrange(len(data)), rng.randrange(6)
        if how == 0: data[at] ^= 1 << rng.randrange(8)
        elif how == 1: data[at] = rng.randrange(256)
        elif how == 2: data[at] = rng.choice(EXTREME)
        elif how == 3 and len(data) > 1: del data[at]
        elif how == 4: data.insert(at, rng.randrange(256))
        elif at + 4 <= len(data): data[at:at + 4] = struct.pack("<I", rng.choice(NUMBERS))
    return bytes(data)
def ask(name, program):
    try:
        code, reply = io.execute(name, "dry", "read.2", program)
    except rados.Error as error:
        return None, type(error).__name__
    assert reply[:6] == b"DRYR\\x01\\x00", reply[:16]
    return reply, "reply"
names = ["object%d" % n for n in range(objects)]
before = [[ask(name, program)[0] for program in sound] for name in names]
assert all(reply is not None for replies in before for reply in replies), "a sound program is answered"
found, slowest = {}, 0.0
for n in range(programs):
    program = mutated(rng.choice(sound))
    began = time.perf_counter()
    _, what = ask(names[n % objects], program)
    slowest = max(slowest, time.perf_counter() - began)
    found[what] = found.get(what, 0) + 1
after = [[ask(name, program)[0] for program in sound] for name in names]
assert before == after, "sound programs are answered as before"
print(json.dumps({"found": found, "slowest": slowest}))
cluster.shutdown()
"""

PUT = """
import sys, rados
cluster = rados.Rados(conffile=sys.argv[1], name="client.admin")
cluster.connect()
io = cluster.open_ioctx("test")
io.set_namespace("hostile")
data = sys.stdin.buffer.read()
for n in range(int(sys.argv[2])):
    io.write_full("object%d" % n, data)
cluster.shutdown()
"""


def send(cluster: ceph.Cluster, programs: int, processes: int, seed: int = 1) -> dict[str, int]:
    """Sends programs by several processes, and counts the kinds of answers; raises RuntimeError where one is wrong."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    conf = str(cluster.conf)
    data = (VECTORS / "v1_object.bin").read_bytes()
    data += os.urandom((2 << 20) - len(data))
    put = [ceph.SYSTEM_PYTHON, "-c", PUT, conf, str(OBJECTS)]
    subprocess.run(put, input=data, env=environment, check=True, timeout=120)
    senders = []
    for number in range(processes):
        share = programs // processes + (number < programs % processes)
        words = [conf, str(VECTORS), str(seed + number), str(share), str(OBJECTS)]
        command = [ceph.SYSTEM_PYTHON, "-c", SENDER, *words]
        senders.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    found: dict[str, int] = {}
    for sender in senders:
        out, wrong = sender.communicate()
        if sender.returncode != 0:
            raise RuntimeError(wrong)
        answer = json.loads(out)
        for kind, count in answer["found"].items():
            found[kind] = found.get(kind, 0) + count
        found["slowest in ms"] = max(found.get("slowest in ms", 0), int(answer["slowest"] * 1e3))
    if cluster.dead_osds():
        raise RuntimeError(f"storage daemons ended: {cluster.dead_osds()}")
    return found


def main() -> None:
    """Print how the programs were answered."""
    parser = argparse.ArgumentParser(description="Send hostile read programs to Ceph's storage daemons.")
    parser.add_argument("--programs", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--class", dest="classes", type=Path, default=ROOT / "build" / "rados-class")
    said = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="drystone-hostile-") as folder,
        ceph.Cluster(Path(folder), classes=said.classes) as cluster,
    ):
        began = time.monotonic()
        found = send(cluster, said.programs, said.processes)
        print(f"{said.programs} programs in {time.monotonic() - began:.0f} s, no daemon ended: {found}")


if __name__ == "__main__":
    main()
