"""Reads through a server: it evaluates selections, codecs, members and precision, and sends little more than the
wanted bytes."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from server_rig import Proxy, Server, served

SHAPE = (128, 128, 128)
RECORD = np.dtype([("u", "f4"), ("v", "f4"), ("w", "f4")])


READER = """
    import json, sys
    import drystone as dry, numpy as np
    c = dry.open(sys.argv[1])
    for line in sys.stdin:
        try:
            expression, path = json.loads(line)
            value = eval(expression)
            if isinstance(value, np.ndarray):
                np.save(path, value)
                value = None
            print(json.dumps(["done", value]), flush=True)
        except Exception as error:
            print(json.dumps(["failed", repr(error)]), flush=True)
"""


class Reader:
    """A process that evaluates expressions on a container at an address."""

    def __init__(self, url: str, token: str, folder: Path, programs: str) -> None:
        self.path = folder / f"reader-{time.monotonic_ns()}.npy"
        environment = {**os.environ, "BEARER_TOKEN": token, "DRYSTONE_PROGRAMS": programs}
        command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(READER), url]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def __call__(self, expression: str) -> object:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([expression, str(self.path)]) + "\n")
        self.process.stdin.flush()
        state, value = json.loads(self.process.stdout.readline())
        assert state == "done", value
        return np.load(self.path) if value is None else value

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()


def wave(step: int) -> np.ndarray:
    x, y, z = (np.linspace(0, 6, n, dtype="f4") for n in SHAPE)
    return (np.sin(x)[:, None, None] * np.cos(y)[None, :, None] + z[None, None, :] + step).astype("f4")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("programs")
    noise = np.random.default_rng(7)
    with dry.create(str(folder / "run42.dry")) as c:
        c.create_variable("T", "f4", shape=SHAPE, steps=True)
        c.create_variable("Z", "f4", shape=SHAPE, steps=True, transform="shuffle,zstd")
        c.create_variable("P", "f4", shape=SHAPE, steps=True, transform="aplod")
        c.create_variable("R", RECORD, shape=SHAPE)
        c.create_variable("D", "f8", shape=SHAPE, steps=True)
        c.create_variable("DZ", "f8", shape=SHAPE, transform="shuffle,zstd")
        record = np.zeros(SHAPE, RECORD)
        for name in RECORD.names:
            record[name] = noise.random(SHAPE, "f4")
        with c.writer() as w:
            for step in range(2):
                with w.step():
                    w.put("T", wave(step) + noise.random(SHAPE, "f4"))
                    w.put("Z", wave(step))
                    w.put("P", wave(step))
                    w.put("D", wave(step).astype("f8") + noise.random(SHAPE))
            w.put("R", record)
            w.put("DZ", np.round(wave(0).astype("f8") * np.pi, 3))
        c.commit()
    with served(folder) as server:
        yield server


@pytest.fixture
def token(server: Server) -> str:
    return server.token("storage.read:/run42")


# The first read, which loads tables of blocks; the read that is counted; the same from a folder.
SELECTIONS = {
    "a plane across the stored order": ("c['T'][0, :, :, 3]", "c['T'][0, :, :, 77]"),
    "a plane of coded blocks": ("c['Z'][0, :, :, 3]", "c['Z'][0, :, :, 77]"),
    "one field of three": ("c['R']['u'][:1]", "c['R']['v'][...]"),
    "every eighth plane": ("c['T'][0, ::8]", "c['T'][0, 3::8]"),
}


@pytest.mark.parametrize(("first", "counted"), SELECTIONS.values(), ids=SELECTIONS)
def test_little_else_than_the_wanted_bytes_travels(
    server: Server, token: str, first: str, counted: str, tmp_path: Path
) -> None:
    proxy = Proxy(server.port)
    reader = Reader(f"dry://127.0.0.1:{proxy.port}/run42", token, tmp_path, "always")
    reader(first)
    before = proxy.bytes
    values = reader(counted)
    moved = proxy.bytes - before
    assert isinstance(values, np.ndarray)
    with dry.open(server.folder / "run42.dry") as c:
        expected = eval(counted, {"c": c})
    assert np.array_equal(values, expected)
    print(f"{counted}: {values.nbytes} bytes wanted, {moved} moved: {moved / values.nbytes:.4f}")
    assert moved <= 1.02 * values.nbytes + 1024
    reader.close()
    proxy.close()


def test_programs_read_packed_log_parts_in_their_packs(tmp_path: Path) -> None:
    """Symptom: parts in packs were read by ranges, so a plane of short runs moved whole blocks."""
    shape = (64, 64, 32)
    path = tmp_path / "run42.dry"
    field = {step: np.random.default_rng(step).random(shape, "f4") for step in range(20)}

    def append(steps: range) -> None:
        with dry.open(path, "r+") as c:
            for step in steps:
                with c.writer() as w, w.step(step):
                    w.put("T", field[step])
                    w.put("Z", np.round(field[step], 2))
                c.commit()
            c.flush()
            c.gc()

    with dry.create(path) as c:
        c.create_variable("T", "f4", shape=shape, steps=True)
        c.create_variable("Z", "f4", shape=shape, steps=True, transform="shuffle,zstd")
    append(range(8))
    assert list((path / "log").glob("*.pack")), "log parts are packed"
    with served(tmp_path) as server:
        proxy = Proxy(server.port)
        url, token = f"dry://127.0.0.1:{proxy.port}/run42", server.token("storage.read:/run42")
        reader = Reader(url, token, tmp_path, "always")

        def moved(expression: str, expected: object) -> int:
            before = proxy.bytes
            assert np.array_equal(reader(expression), expected), expression
            return proxy.bytes - before

        limit = 1.02 * 64 * 64 * 4 + 1024
        for name, values in (("T", field), ("Z", {step: np.round(a, 2) for step, a in field.items()})):
            moved(f"c['{name}'][1, :, :, 3]", values[1][:, :, 3])
            assert moved(f"c['{name}'][1, :, :, 17]", values[1][:, :, 17]) <= limit
            moved(
                f"c.query('{name} > 0.9995').count()", sum(int((values[s] > 0.9995).sum()) for s in range(8))
            )
        # Packs are merged while the reader has them open. The second read knows the new place.
        packs = {pack.name for pack in (path / "log").glob("*.pack")}
        append(range(8, 20))
        assert not packs & {pack.name for pack in (path / "log").glob("*.pack")}, "packs were merged"
        moved("c['T'][5, :, :, 3]", field[5][:, :, 3])
        assert moved("c['T'][5, :, :, 17]", field[5][:, :, 17]) <= limit
        reader.close()
        proxy.close()


def test_precision_is_resolved_at_the_server(server: Server, token: str, tmp_path: Path) -> None:
    """The server sends decoded values: as many bytes as without `max_error`. Tables and trailers are cached."""
    proxy = Proxy(server.port)
    reader = Reader(f"dry://127.0.0.1:{proxy.port}/run42", token, tmp_path, "always")
    reader("c['P'].read(step=0, offset=(0, 0, 70), count=(128, 128, 1), max_error=0.05)")
    before = proxy.bytes
    box = "step=0, offset=(0, 0, 77), count=(128, 128, 1), max_error=0.05"
    values = reader(f"c['P'].read({box})")
    moved = proxy.bytes - before
    assert isinstance(values, np.ndarray)
    with dry.open(server.folder / "run42.dry") as c:
        assert np.array_equal(values, eval(f"c['P'].read({box})", {"c": c}))
    assert 0 < np.abs(values - wave(0)[:, :, 77:78]).max() <= 0.05
    print(f"max_error: {values.nbytes} bytes wanted, {moved} moved: {moved / values.nbytes:.4f}")
    assert moved <= 1.02 * values.nbytes + 1024
    reader.close()
    proxy.close()


@pytest.mark.parametrize(
    ("first", "counted", "share"),
    [
        ("c['D'].read(step=0, count=(1, 1, 1))", "c['D'].read(step=0, dtype='f4')", 0.51),
        (
            "c['D'].read(step=0, count=(1, 1, 1))",
            "c['D'].read(step=1, offset=(0, 3, 0), count=(128, 1, 128), dtype='f4')",
            0.52,
        ),
        (
            "c['DZ'].read(count=(1, 1, 1))",
            "c['DZ'].read(offset=(5, 0, 64), count=(90, 128, 1), dtype='f4')",
            0.55,
        ),
        (
            "c['D'].read_points([[0, 0, 0, 0]])",
            "c['D'].read_points(np.indices((1, 128, 64, 2)).reshape(4, -1).T * [1, 1, 2, 3], dtype='f4')",
            0.8,  # the rest is the program, which names each point
        ),
    ],
    ids=["whole blocks", "a plane", "coded blocks", "points"],
)
def test_float64_travels_as_float32_in_half_of_the_bytes(
    server: Server, token: str, first: str, counted: str, share: float, tmp_path: Path
) -> None:
    proxy = Proxy(server.port)
    reader = Reader(f"dry://127.0.0.1:{proxy.port}/run42", token, tmp_path, "always")
    reader(first)
    wide = counted.replace(", dtype='f4'", "")
    before = proxy.bytes
    values = reader(counted)
    moved = proxy.bytes - before
    exact = reader(wide)
    whole = proxy.bytes - before - moved
    assert isinstance(values, np.ndarray)
    assert isinstance(exact, np.ndarray)
    with dry.open(server.folder / "run42.dry") as c:
        names = {"c": c, "np": np}
        assert np.array_equal(exact, eval(wide, names))
        local, bound = eval(counted.replace("dtype=", "return_bound=True, dtype="), names)
    assert values.dtype == np.float32
    assert np.array_equal(values, local), "the values are the same on either side"
    assert np.array_equal(values, exact.astype("f4"))
    error = np.abs(values.astype("f8") - exact)
    assert 0 < error.max() <= bound.absolute
    assert (error <= bound.relative * np.abs(exact)).all()
    assert bound.relative == 2**-24
    print(f"{counted}: {values.nbytes} bytes wanted, {moved} moved; {whole} as float64: {moved / whole:.4f}")
    assert moved <= share * whole
    reader.close()
    proxy.close()


def test_programs_are_sent_where_the_link_is_slow_and_explain_says_so(
    server: Server, token: str, tmp_path: Path
) -> None:
    proxy = Proxy(server.port, rate=12.5e6)
    reader = Reader(f"dry://127.0.0.1:{proxy.port}/run42", token, tmp_path, "auto")
    plan = reader("str(c['T'].explain[0, :, :, 5])")
    assert isinstance(plan, str)
    assert "read there" in plan, plan
    before = proxy.bytes
    values = reader("c['T'][0, :, :, 5]")
    moved = proxy.bytes - before
    assert isinstance(values, np.ndarray)
    assert moved <= 2 * values.nbytes, "an eighth of the stored bytes at most"
    plan = reader("str(c['T'].explain[0])")
    assert isinstance(plan, str)
    assert "read there" not in plan, "all of the bytes are wanted"
    reader.close()
    proxy.close()


def test_an_older_server_costs_a_request_and_nothing_else(server: Server, token: str, tmp_path: Path) -> None:
    proxy = Proxy(server.port, older=True)
    reader = Reader(f"dry://127.0.0.1:{proxy.port}/run42", token, tmp_path, "always")
    with dry.open(server.folder / "run42.dry") as c:
        for plane in range(0, 128, 16):
            assert np.array_equal(reader(f"c['T'][0, :, :, {plane}]"), c["T"][0, :, :, plane])
    assert proxy.refused == 1
    assert "read programs are not run" in str(reader("str(c['T'].explain[0, :, :, 5])"))
    reader.close()
    proxy.close()


QUERIES = (
    "T > 8.5",
    "T > 8.5 & Z < 4",
    "T > 8.7 | ~(Z < 5)",
    "R.u > 0.9999",
    "P > 6.9 ^ Z > 6",
    "Z > T",
)


def test_conditions_are_tried_at_the_server_with_the_same_answers(
    server: Server, token: str, tmp_path: Path
) -> None:
    reader = Reader(f"{server.url}/run42", token, tmp_path, "always")
    with dry.open(server.folder / "run42.dry") as c:
        for text in QUERIES:
            steps = {"steps": 1} if "R" not in text else {}
            asked = f"c.query({text!r}, selection=(slice(3, 90), slice(None, None, 2)), **{steps})"
            q = c.query(text, selection=(slice(3, 90), slice(None, None, 2)), **steps)
            assert reader(f"{asked}.count()") == q.count(), text
            assert np.array_equal(reader(f"{asked}.coords()"), q.coords()), text
            assert np.array_equal(reader(f"{asked}.mask()"), q.mask()), text
            name = q.names[0]
            assert np.array_equal(reader(f"{asked}.values({name!r})"), q.values(name)), text
    reader.close()


def test_hits_travel_and_not_the_values_they_were_found_in(
    server: Server, token: str, tmp_path: Path
) -> None:
    proxy = Proxy(server.port)
    reader = Reader(f"dry://127.0.0.1:{proxy.port}/run42", token, tmp_path, "always")
    cells = 128**3
    reader("c.query('T > 7.6', steps=0).count()")  # tables of blocks are read once

    def moved(asked: str) -> tuple[int, int]:
        before = proxy.bytes
        found = reader(asked)
        return proxy.bytes - before, len(found) if isinstance(found, np.ndarray) else int(str(found))

    count, hits = moved("c.query('T > 7.6', steps=0).count()")
    coords, _ = moved("c.query('T > 7.6', steps=0).coords()")
    values, _ = moved("c.query('T > 7.6', steps=0).values('T')")
    half, most = moved("c.query('T > 4', steps=0).coords()")
    assert 0 < hits < most // 8
    print(f"{hits} hits: {count} bytes for the number, {coords} for the cells, {values} with values")
    print(f"{most} hits: {half} bytes for the cells")
    assert count <= 16 << 10
    assert coords <= min(4 * hits, cells // 8) + (16 << 10)
    assert values <= min(8 * hits, cells // 8 + 4 * hits) + (16 << 10)
    assert half <= cells // 8 + (16 << 10)
    reader.close()
    never = Reader(f"dry://127.0.0.1:{proxy.port}/run42", token, tmp_path, "never")
    before = proxy.bytes
    assert never("c.query('T > 7.6', steps=0).count()") == hits
    read = proxy.bytes - before
    assert read > 100 * count, "the subchunks that statistics leave open"
    never.close()
    proxy.close()


def test_explain_says_where_a_condition_is_tried(server: Server, token: str, tmp_path: Path) -> None:
    proxy = Proxy(server.port, rate=12.5e6)
    reader = Reader(f"dry://127.0.0.1:{proxy.port}/run42", token, tmp_path, "auto")
    text = str(reader("str(c.query('T > 7.6 & T > Z + 0.5', steps=0).explain)"))
    assert "tried there in" in text, text
    assert "tried here: it joins values of several variables" in text, text
    reader("c.query('T > 7.6', steps=0).count()")
    assert "of them a program" in str(
        reader("(lambda q: (q.count(), str(q.report))[1])(c.query('T > 7.6', steps=0))")
    )
    reader.close()
    proxy.close()
    proxy = Proxy(server.port, older=True)
    reader = Reader(f"dry://127.0.0.1:{proxy.port}/run42", token, tmp_path, "always")
    with dry.open(server.folder / "run42.dry") as c:
        assert reader("c.query('T > 7.6').count()") == c.query("T > 7.6").count()
    assert "tried here: read programs are not run" in str(reader("str(c.query('T > 7.6').explain)"))
    reader.close()
    proxy.close()


def test_small_reads_travel_together(server: Server, token: str, tmp_path: Path) -> None:
    """One cell of each of 400 parts of a log: one request each would be 400."""
    token = server.token("storage.read:/", "storage.create:/", "storage.modify:/")
    path = server.folder / "scratch" / "many.dry"
    with dry.create(str(path)) as c:
        c.create_variable("s", "f8", shape=(4,), steps=True)
        for step in range(400):
            with c.writer() as w, w.step(step):
                w.put("s", np.arange(4.0) + step)
        c.commit()
    proxy = Proxy(server.port)
    reader = Reader(f"dry://127.0.0.1:{proxy.port}/scratch/many.dry", token, tmp_path, "never")
    reader("len(c.steps)")
    before = proxy.requests
    assert np.array_equal(reader("c['s'][:, 2]"), np.arange(400.0) + 2)
    print(f"400 parts in {proxy.requests - before} requests")
    assert proxy.requests - before <= 200
    reader.close()
    proxy.close()


def body(*frames: tuple[int, list[str], list[int], bytes]) -> bytes:
    """A body as docs/format/wire.md specifies."""

    def crc(data: bytes) -> int:
        table = []
        for n in range(256):
            value = n
            for _ in range(8):
                value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
            table.append(value)
        value = 0xFFFFFFFF
        for byte in data:
            value = value >> 8 ^ table[(value ^ byte) & 0xFF]
        return value ^ 0xFFFFFFFF

    def frame(code: int, texts: list[str], numbers: list[int], payload: bytes) -> bytes:
        header = struct.pack("<HHII", code, 0, len(texts), len(numbers))
        for text in texts:
            header += struct.pack("<I", len(text.encode())) + text.encode()
        header += b"".join(struct.pack("<Q", n) for n in numbers)
        first, length = struct.pack("<I", len(header)), struct.pack("<Q", len(payload))
        check = struct.pack("<I", crc(first + length + header))
        return first + check + length + header + payload + struct.pack("<I", crc(payload))

    whole = b"DRYW\x01\0\0\0" + b"".join(frame(*one) for one in frames)
    return whole + frame(0, [""], [len(frames), 0], b"")


def counter(server: Server, token: str, name: str) -> int:
    page = server.ask("/metrics", token)[2].decode()
    return int(next(line for line in page.splitlines() if line.startswith(f"drystone_{name} ")).split()[1])


def test_hostile_programs_are_refused_and_counted(server: Server, token: str) -> None:
    vectors = Path(__file__).parents[2] / "vectors" / "programs"
    sound = (vectors / "v1_field.bin").read_bytes()
    key = "drystone.json"
    newer = (vectors / "v2_hits.bin").read_bytes()
    programs = [b"", b"DRYP", os.urandom(4000), sound[:-1], sound + b"x", bytes(300_000)]
    for one in (sound, newer):
        programs += [one[:at] + bytes([one[at] ^ 0x80]) + one[at + 1 :] for at in range(len(one))]
    before = counter(server, token, "refused_programs_total")
    for program in programs:
        asked = body((24, [key, "dry.read.1"], [1 << 20], program))
        status, _, reply = server.ask("/v1/c/run42/read", token, method="POST", body=asked)
        assert status == 200
        assert b"DRYR" in reply
        assert reply.count(b"DRYR") == 1
    assert counter(server, token, "refused_programs_total") - before >= len(programs) - 2
    unknown = body((24, [key, "dry.write.1"], [1 << 20], b""))
    status, _, reply = server.ask("/v1/c/run42/read", token, method="POST", body=unknown)
    assert status == 200
    assert b"there is no method" in reply
    many = body(*[(24, [key, "dry.version"], [1 << 20], b"")] * 2000)
    status, _, reply = server.ask("/v1/c/run42/read", token, method="POST", body=many)
    assert (status, reply.count(b"dry.version dry.read.1 dry.read.2")) == (200, 2000)
    outside = body((24, ["../../etc/passwd", "dry.read.1"], [1 << 20], sound))
    reply = server.ask("/v1/c/run42/read", token, method="POST", body=outside)[2]
    assert b"root:" not in reply
    assert server.ask("/healthz")[0] == 200


def test_a_program_needs_the_right_to_read(server: Server) -> None:
    asked = body((24, ["drystone.json", "dry.version"], [100], b""))
    assert server.ask("/v1/c/run42/read", None, method="POST", body=asked)[0] == 401
    for scope in ("storage.modify:/run42", "storage.create:/run42", "storage.read:/scratch"):
        assert server.ask("/v1/c/run42/read", server.token(scope), method="POST", body=asked)[0] == 403
    reader = server.token("storage.read:/run42")
    assert b"dry.read.1" in server.ask("/v1/c/run42/read", reader, method="POST", body=asked)[2]
