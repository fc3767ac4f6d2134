"""`drystone doctor` and `calibrate` of a store: its guarantees and costs; nothing is left in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import drystone as dry
import pytest
from far_rig import Rig

PROMISES = [
    "create if absent",
    "read after write",
    "list after write",
    "ranges",
    "absent objects",
    "large objects",
]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drystone", *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def objects(rig: Rig) -> str:
    import urllib.request

    with urllib.request.urlopen(f"{rig.endpoint}/bucket?list-type=2", timeout=20) as answer:
        return str(answer.read().decode())


def test_a_store_that_keeps_its_promises_is_found_to_and_nothing_is_left(rig: Rig) -> None:
    said = run("doctor", "s3://bucket/tried", "--json", **rig.environment)
    assert said.returncode == 0, said.stdout + said.stderr
    found: dict[str, Any] = json.loads(said.stdout)
    assert [row["what"] for row in found["promises"]] == PROMISES
    assert all(row["kept"] for row in found["promises"])
    assert found["latency"] > 0
    assert found["read"] > 0
    assert found["left"] == []
    assert "<Key>" not in objects(rig)
    assert rig.order()["open_uploads"] == 0


def test_a_folder_is_tried_alike_and_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    said = run("doctor", tmp_path)
    assert said.returncode == 0, said.stderr
    assert [line[:4].strip() for line in said.stdout.splitlines()[:6]] == ["yes"] * 6
    assert "bandwidth" in said.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_promise_that_is_broken_is_named_with_what_to_do(rig: Rig) -> None:
    # Missing objects give "forbidden", as in S3 for callers that may not list the bucket.
    rules = [{"do": "refuse", "status": 403, "code": "AccessDenied", "kind": "HEAD", "key": "/absent"}]
    rig.order(rules=rules)
    try:
        said = run("doctor", "s3://bucket/tried", **rig.environment)
    finally:
        rig.order(rules=[])
    assert said.returncode == 1
    assert "NO   absent objects" in said.stdout
    assert "-> give the right to list" in said.stdout
    assert "<Key>" not in objects(rig)


def test_a_store_that_refuses_everything_is_an_error_and_no_table(rig: Rig) -> None:
    said = run("doctor", "s3://nowhere/x", **rig.environment)
    assert said.returncode == 6
    assert "nowhere" in said.stderr
    assert said.stderr.count("\n") == 1
    assert run("doctor", "s3://bucket/x", "-o", "nonsense").returncode == 2
    assert run("doctor", "-o", "aws_region=x").returncode == 2


def test_a_web_server_is_read_only(rig: Rig) -> None:
    said = run("doctor", f"{rig.endpoint}/bucket/x")
    assert said.returncode == 0, said.stderr
    assert "read only" in said.stdout


def test_calibration_of_a_url_is_kept_and_shown(rig: Rig, tmp_path: Path) -> None:
    cache = {"DRYSTONE_CACHE": str(tmp_path), **rig.environment}
    rig.order(rtt_ms=2)
    try:
        said = run("calibrate", "s3://bucket/run.dry", "--seconds", "1", "--most", "16", "--json", **cache)
        assert said.returncode == 0, said.stderr
        found = json.loads(said.stdout)
        assert [row["depth"] for row in found["reads"]][-1] == 128
        assert "<Key>" not in objects(rig)
    finally:
        rig.order(rtt_ms=0)
    shown = run("calibrate", "s3://bucket/run.dry", "--show", "--json", **cache)
    assert json.loads(shown.stdout)["reads"] == found["reads"]
    with dry.create("s3://bucket/run.dry", storage_options=rig.options) as c:
        c["T"] = [float(n) for n in range(1000)]
    said = run("explain", "s3://bucket/run.dry", "T", "--json", **cache)
    assert said.returncode == 0, said.stderr
    rig.order(clear="bucket")
