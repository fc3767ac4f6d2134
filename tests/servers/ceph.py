"""A small Ceph cluster on this machine, for tests and examples: one monitor and some storage daemons, without a
manager.

    python tests/servers/ceph.py start FOLDER [--osds 3] [--classes FOLDER] [--listed] [--bluestore]
    python tests/servers/ceph.py stop FOLDER

It needs Debian's packages ceph-mon, ceph-osd, ceph-common and python3-rados, no root and no systemd, and listens on
loopback alone. Started, it prints the path of the configuration that `CEPH_CONF` or the option `conf` names. It has a
pool `test` without copies.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

PROGRAMS = ("ceph-mon", "ceph-osd", "monmaptool")
SYSTEM_PYTHON = "/usr/bin/python3"
COUNTERS = ("op_r", "op_w", "op_r_out_bytes", "op_w_in_bytes")

CONFIGURATION = """[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{port},v1:127.0.0.1:{other}]
auth cluster required = none
auth service required = none
auth client required = none
ms bind ipv6 = false
run dir = {folder}/run
admin socket = {folder}/run/$name.asok
pid file = {folder}/run/$name.pid
log file = {folder}/log/$name.log
log to stderr = false
err to stderr = true
crash dir = {folder}/crash
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 32
osd pool default pgp num = 32
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon allow pool delete = true
mon max pg per osd = 1000
{classes}
osd memory target = 939524096
bluestore cache autotune = false
bluestore cache size = 134217728
memstore device bytes = 4294967296
[mon]
mon data = {folder}/mon.a
mon data avail crit = 1
mon data avail warn = 2
paxos propose interval = 0.01
mon osd down out interval = 0
mon osd min down reporters = 1
[osd]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
osd data = {folder}/osd.$id
osd objectstore = {objects}
osd heartbeat interval = 1
osd heartbeat grace = 3
bluestore block create = true
bluestore block size = 8589934592
bluestore block db create = false
bluestore block wal create = false
bluestore fsck on mount = false
osd op num shards = 2
osd op num threads per shard = 1
"""

# Runs under the Python that python3-rados is built for: commands to the monitor, one by one from standard input.
COMMANDS = """
import json, sys, rados
cluster = rados.Rados(conffile=sys.argv[1], name="client.admin", conf={"client mount timeout": "30", "rados_mon_op_timeout": "30"})
cluster.connect()
for line in sys.stdin:
    code, out, message = cluster.mon_command(line, b"")
    print(json.dumps([code, out.decode(), message]), flush=True)
cluster.shutdown()
"""

PROBE = """
import sys, rados
cluster = rados.Rados(conffile=sys.argv[1], name="client.admin", conf={"rados_osd_op_timeout": "30"})
cluster.connect()
with cluster.open_ioctx(sys.argv[2]) as io:
    io.set_namespace("probe")
    for n in range(64):
        io.write_full(f"probe{n}", b"x")
        io.remove_object(f"probe{n}")
cluster.shutdown()
"""


def missing() -> str:
    """What is not installed, as a sentence; empty if a cluster can be started."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if (
        not lacking
        and subprocess.run([SYSTEM_PYTHON, "-c", "import rados"], capture_output=True).returncode != 0
    ):
        lacking = ["python3-rados"]
    return f"{', '.join(lacking)} not installed" if lacking else ""


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


class Cluster:
    """A running cluster."""

    def __init__(
        self,
        folder: Path,
        osds: int = 3,
        classes: Path | None = None,
        listed: bool = True,
        bluestore: bool = False,
    ) -> None:
        self.folder = folder.resolve()
        self.conf = self.folder / "ceph.conf"
        self.osds: dict[int, subprocess.Popen[bytes]] = {}
        for name in ("mon.a", "log", "run", "crash"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        port, other = _free_ports()
        fsid = str(uuid.uuid4())
        lines = []
        if classes is not None:
            lines.append(f"osd class dir = {classes.resolve()}")
        if listed:
            lines += ["osd class load list = *", "osd class default list = *"]
        self.conf.write_text(
            CONFIGURATION.format(
                folder=self.folder,
                fsid=fsid,
                port=port,
                other=other,
                classes="\n".join(lines),
                objects="bluestore" if bluestore else "memstore",
            )
        )
        self.environment = {**os.environ, "CEPH_CONF": str(self.conf)}
        monmap = self.folder / "monmap"
        address = f"[v2:127.0.0.1:{port},v1:127.0.0.1:{other}]"
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", address, str(monmap))
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", str(monmap))
        self.monitor = self.daemon("mon.a", "ceph-mon", "-i", "a", "-f")
        self._uuids = [str(uuid.uuid4()) for _ in range(osds)]
        making = []
        for number, name in enumerate(self._uuids):
            (self.folder / f"osd.{number}").mkdir(exist_ok=True)
            command = [
                "ceph-osd",
                "-i",
                str(number),
                "--mkfs",
                "--osd-uuid",
                name,
                "--no-mon-config",
                "--monmap",
                str(monmap),
            ]
            with (self.folder / "log" / f"osd.{number}.mkfs").open("wb") as log:
                making.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))
        for number, name in enumerate(self._uuids):
            self.command(prefix="osd new", uuid=name, id=number)
            self.command(
                prefix="osd crush add", id=number, weight=1.0, args=["host=localhost", "root=default"]
            )
        for process in making:
            if process.wait(60) != 0:
                raise RuntimeError(f"ceph-osd --mkfs failed; see {self.folder}/log")
        for number in range(osds):
            self.start_osd(number)
        self._wait(osds)
        self.pool("test")

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: {done.stderr}")

    def daemon(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Starts a program of the cluster; it ends with it."""
        with (self.folder / "log" / f"{name}.out").open("ab") as log:
            process = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self.folder / "run" / f"{name}.process").write_text(str(process.pid))
        return process

    def commands(self, *commands: dict[str, object]) -> list[str]:
        """Asks the monitor, with one start of Python for all of them."""
        done = subprocess.run(
            [SYSTEM_PYTHON, "-c", COMMANDS, str(self.conf)],
            input="".join(json.dumps(command) + "\n" for command in commands),
            capture_output=True,
            text=True,
            timeout=120,
            env={name: value for name, value in self.environment.items() if name != "PYTHONPATH"},
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode != 0 or any(code < 0 for code, _, _ in answers):
            raise RuntimeError(f"{commands}: {answers} {done.stderr}")
        return [out for _, out, _ in answers]

    def command(self, **command: object) -> str:
        return self.commands(command)[0]

    def start_osd(self, number: int) -> None:
        self.osds[number] = self.daemon(
            f"osd.{number}", "ceph-osd", "-i", str(number), "-f", "--no-mon-config"
        )

    def kill_osd(self, number: int) -> None:
        process = self.osds.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def dead_osds(self) -> list[int]:
        """Daemons that ended without being told to."""
        return [number for number, process in self.osds.items() if process.poll() is not None]

    def _wait(self, osds: int) -> None:
        deadline = time.monotonic() + 60
        while json.loads(self.command(prefix="osd stat", format="json"))["num_up_osds"] < osds:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the storage daemons are not up; see {self.folder}/log")
            time.sleep(0.05)

    def pool(self, name: str, size: int = 1, erasure: bool = False, application: str = "drystone") -> None:
        """Makes a pool and waits until it can be written to."""
        made: dict[str, object] = {"prefix": "osd pool create", "pool": name, "pg_num": 32}
        if erasure:
            profile = {"prefix": "osd erasure-code-profile set", "name": f"{name}-profile"}
            profile["profile"] = ["k=2", "m=1", "crush-failure-domain=osd"]
            self.commands(profile)
            made |= {"pool_type": "erasure", "erasure_code_profile": f"{name}-profile"}
            self.commands(made)
        else:
            setting = {"prefix": "osd pool set", "pool": name}
            self.commands(made, {**setting, "var": "size", "val": str(size), "yes_i_really_mean_it": True})
            self.commands({**setting, "var": "min_size", "val": "1"})
        self.commands({"prefix": "osd pool application enable", "pool": name, "app": application})
        subprocess.run(
            [SYSTEM_PYTHON, "-c", PROBE, str(self.conf), name],
            check=True,
            timeout=90,
            env={key: value for key, value in self.environment.items() if key != "PYTHONPATH"},
        )

    def counters(self) -> dict[str, int]:
        """Operations and bytes of all storage daemons together."""
        each = self.counters_of_each().values()
        return {name: sum(one[name] for one in each) for name in COUNTERS}

    def counters_of_each(self) -> dict[int, dict[str, int]]:
        """Operations and bytes of each storage daemon, as it counted them itself."""
        total = {}
        for number in self.osds:
            socket_path = self.folder / "run" / f"osd.{number}.asok"
            done = subprocess.run(
                ["ceph", "--admin-daemon", str(socket_path), "perf", "dump", "osd"],
                env={key: value for key, value in self.environment.items() if key != "PYTHONPATH"},
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            found = json.loads(done.stdout)["osd"]
            total[number] = {name: int(found[name]) for name in COUNTERS}
        return total

    def stop(self) -> None:
        stop(self.folder)
        for process in (*self.osds.values(), self.monitor):
            process.wait(30)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def stop(folder: Path) -> None:
    """Ends the daemons whose numbers the folder has."""
    numbers = []
    for file in sorted((folder / "run").glob("*.process"), reverse=True):
        number = int(file.read_text())
        # The number may be another process's meanwhile, and the process may end while it is looked at.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if str(folder).encode() in Path(f"/proc/{number}/environ").read_bytes():
                os.kill(number, signal.SIGTERM)
                numbers.append(number)
        file.unlink()
    deadline = time.monotonic() + 8
    for number in numbers:
        while _lives(number) and time.monotonic() < deadline:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            if _lives(number):
                os.kill(number, signal.SIGKILL)


def _lives(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, IndexError, ProcessLookupError):
        return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["start", "stop"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--osds", type=int, default=3)
    parser.add_argument("--classes", type=Path, help="folder of the object class; make rados-class builds it")
    parser.add_argument("--listed", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--bluestore", action="store_true", help="objects in files instead of memory")
    said = parser.parse_args()
    if said.what == "stop":
        stop(said.folder.resolve())
        return
    if lacking := missing():
        sys.exit(
            f"{lacking}: apt-get install --no-install-recommends ceph-mon ceph-osd ceph-common python3-rados"
        )
    cluster = Cluster(said.folder, said.osds, said.classes, said.listed, said.bluestore)
    print(cluster.conf)


if __name__ == "__main__":
    main()
