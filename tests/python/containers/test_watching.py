"""Observing a running container: the logger `drystone`, warnings, and `drystone top`."""

import json
import logging
import threading
import warnings

import drystone as dry
import numpy as np
import pytest
from command_line import drystone
from drystone.commands.watching import Frame, data, text


def test_the_logger_has_what_containers_did(tmp_path, caplog):
    path = tmp_path / "a.dry"
    with caplog.at_level(logging.DEBUG, "drystone"):
        with dry.create(path) as c:
            c.create_variable("v", "f4", (3,), steps=True)
            c["v"][0] = np.ones(3)
            c.commit()
            c.flush()
            c.gc()
            c.verify()
        dry.open(path).close()
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    for level, part in [
        ("INFO", f"created {path}"),
        ("INFO", "committed snapshot"),
        ("DEBUG", "flushed"),
        ("INFO", "collected garbage"),
        ("INFO", "verified"),
        ("INFO", f"opened {path} to read"),
    ]:
        assert any(level == found and part in message for found, message in said), (level, part, said)
    assert {record.name for record in caplog.records} == {"drystone"}


def test_a_warning_is_logged_and_can_be_filtered(container, caplog):
    container.create_variable("v", "f4", (3,), steps=True)

    def misses_a_rank():
        with container.writer(rank=0, nranks=2) as w, w.step(0):
            w.put("v", np.ones(3))
        container.commit()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dry.DrystoneWarning)
        with caplog.at_level(logging.WARNING, "drystone"):
            misses_a_rank()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not visible" in caplog.text
    with warnings.catch_warnings():
        warnings.simplefilter("error", dry.DrystoneWarning)
        with pytest.raises(dry.DrystoneWarning, match="not visible"):
            container.commit()


def test_a_frame_tells_rates_and_what_a_step_waits_for():
    before = Frame(10.0, 3, 2, 1, 1000, {7: ("open", 100), 8: ("open", 500)})
    now = Frame(
        12.0, 5, 6, 5, 5096, {7: ("open", 2148), 8: ("closed", 500)}, "nothing waits", ("step 6: rank 1",)
    )
    told = data(now, before)
    assert (told["steps_per_second"], told["bytes_per_second"]) == (2.0, 2048.0)
    assert told["bytes_per_second_by_writer"] == {f"{7:016x}": 1024.0}
    said = text("run.dry", now, before)
    for part in (
        "6, the last one 5; 2.00/s",
        "2.0 KiB/s",
        "2 (1 closed, 1 open)",
        "step 6: rank 1",
        "1.0 KiB/s",
    ):
        assert part in said, said
    assert data(before, None)["steps_per_second"] == 0.0


def test_top_counts_the_steps_of_a_run_beside_it(tmp_path):
    path = tmp_path / "run.dry"
    with dry.create(path) as c:
        c.create_variable("v", "f4", (1000,), steps=True)
    begun, end = threading.Event(), threading.Event()

    def simulate():
        with dry.open(path, "r+") as c, c.writer(rank=0, nranks=1) as w:
            while not end.is_set():
                with w.step():
                    w.put("v", np.ones(1000))
                begun.set()

    run = threading.Thread(target=simulate)
    run.start()
    try:
        assert begun.wait(60)
        told = json.loads(drystone("top", path, "--interval", "0.3", "--json"))
    finally:
        end.set()
        run.join()
    assert told["steps"] > 0
    assert told["steps_per_second"] > 0
    assert told["bytes_per_second_by_writer"]
    said = drystone("top", path, "--interval", "0.05")
    assert "0.00/s" in said
    assert "nothing waits" in said
