"""Counters count what was done, and events tell it once, whatever a listener does."""

import re

import drystone as dry
import numpy as np
import pytest


@pytest.fixture
def heard():
    events = []
    remove = dry.on_event(events.append)
    yield events
    remove()


def test_counters_are_of_what_was_done(container):
    before = container.metrics()
    T = container.create_variable("T", "f4", (100,), steps=True)
    with container.writer(rank=0, nranks=1) as w:
        for _ in range(3):
            with w.step():
                w.put("T", np.ones(60, "f4"), offset=0)
                w.put("T", np.ones(40, "f4"), offset=60)
    assert (T[1] == 1).all()
    assert T[2, 7] == 1
    after = container.metrics()
    did = {name: after[name] - before[name] for name in after if name != "steps"}
    assert did["puts"] == 6
    assert did["put_bytes"] == 3 * 400
    assert did["reads"] == 2
    assert did["read_wanted_bytes"] == 404
    assert did["read_bytes"] >= 404
    assert did["read_requests"] >= 2
    assert did["read_blocks"] == 3
    assert did["commits"] == 4  # the variable, and three steps
    assert after["steps"] == {"home": 3}
    assert container.at(container.snapshot).metrics()["puts"] == after["puts"]


def test_what_is_read_again_finds_its_tables_in_memory(container):
    container["x"] = np.arange(10_000)
    container.commit()
    container["x"][...]
    first = container.metrics()
    container["x"][...]
    again = container.metrics()
    assert again["cache_hits"] > first["cache_hits"]
    assert again["cache_misses"] == first["cache_misses"]


def test_texts_are_counted_by_their_bytes(container):
    container.create_variable("s", str, (2,))
    with container.writer() as w:
        w.put("s", ["ab", "größe"])
    assert container.metrics()["put_bytes"] == 2 + 7


def test_prometheus_reads_each_open_container_once(tmp_path):
    with dry.create(tmp_path / 'a"b.dry') as a, dry.open(tmp_path / 'a"b.dry') as b:
        a["x"] = np.zeros(4, "f4")
        a.commit()
        b.refresh()
        b["x"][...]
        text = dry.metrics.prometheus()
        label = str(tmp_path / 'a"b.dry').replace('"', '\\"')
        mine = [line for line in text.splitlines() if label in line]
        assert f'drystone_put_bytes_total{{container="{label}"}} 16' in mine
        assert f'drystone_reads_total{{container="{label}"}} 1' in mine  # of both handles
        assert len({line.partition(" ")[0] for line in mine}) == len(mine)
        kinds = set(re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", text, re.MULTILINE))
        assert {line.partition("{")[0] for line in text.splitlines() if line[0] != "#"} <= kinds
    assert label not in dry.metrics.prometheus()


def test_events_tell_what_was_done(tmp_path, heard):
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("T", "f4", (4,), steps=True)
        with c.writer() as w, w.step(5):
            w.put("T", np.zeros(4))
        snapshot = c.commit()
        c.commit()  # nothing new
        c.flush()
        c.verify()
    with dry.open(tmp_path / "a.dry"):
        pass
    assert [event.kind for event in heard] == ["create", "step", "commit", "flush", "verify", "open"]
    by_kind = {event.kind: event for event in heard}
    assert by_kind["step"].values["step"] == 5
    assert by_kind["commit"].values["snapshot"] == snapshot
    assert by_kind["verify"].values["damaged"] == 0
    assert all(event.container == str(tmp_path / "a.dry") for event in heard)
    assert all(0 <= event.seconds < 60 and event.time > 1.7e9 for event in heard)


def test_a_step_that_fails_is_no_event(container, heard):
    container.create_variable("T", "f4", (4,), steps=True)
    with container.writer() as w, pytest.raises(ZeroDivisionError), w.step():
        raise ZeroDivisionError
    assert [event.kind for event in heard if event.kind == "step"] == []


def test_a_listener_that_fails_is_logged_and_changes_nothing(container, caplog, heard):
    def fails(event):
        raise RuntimeError("no")

    remove = dry.on_event(fails)
    container.flush()
    remove()
    remove()  # again does nothing
    assert "on_event failed on flush" in caplog.text
    assert [event.kind for event in heard] == ["flush"]
    with pytest.raises(dry.InvalidArgumentError, match="function"):
        dry.on_event(3)
