"""Counters count operations, and events report each once, whatever a listener does."""

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


def test_counters_count_operations(container):
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
    remove()  # a second call does nothing
    assert "on_event failed on flush" in caplog.text
    assert [event.kind for event in heard] == ["flush"]
    with pytest.raises(dry.InvalidArgumentError, match="function"):
        dry.on_event(3)


def test_reads_and_puts_are_reported_if_detail_is_requested(tmp_path, heard):
    detailed = []
    remove = dry.on_event(detailed.append, detail=True)
    with dry.create(tmp_path / "a.dry") as c:
        c.create_variable("g/T", "f4", (100,), steps=True)
        c.create_variable("s", str, (2,))
        with c.writer() as w:
            with w.step():
                w.put("g/T", np.zeros(100, "f4"))
            w.put("s", ["ab", "c"])
        c.commit()
        c["g/T"][0, 10:20]
        with pytest.raises(IndexError):
            c["g/T"][0, 200]
        remove()
        c["g/T"][0]
    mine = [event for event in detailed if event.kind in ("read", "put")]
    assert [(event.kind, event.values["variable"]) for event in mine] == [
        ("put", "g/T"),
        ("put", "s"),
        ("read", "g/T"),
    ]
    assert [event.values["wanted_bytes"] for event in mine] == [400, 3, 40]
    assert mine[2].values["bytes"] >= 40
    assert mine[2].values["requests"] >= 1
    assert (mine[2].values["blocks"], mine[2].values["rounds"]) == (1, 0)
    assert all(event.container == str(tmp_path / "a.dry") and 0 <= event.seconds < 60 for event in mine)
    assert {event.kind for event in heard} == {"create", "step", "commit"}  # no detail was requested


def test_drained_parts_are_reported_and_counted(tmp_path):
    heard = []
    remove = dry.on_event(heard.append, detail=True)
    with dry.create(tmp_path / "home.dry", tiers=[tmp_path / "near"]) as c:
        c.create_variable("T", "f4", (1000,), steps=True)
        with c.writer(rank=0, nranks=1) as w, w.step():
            w.put("T", np.ones(1000, "f4"))
        c.drain()
        metrics = c.metrics()
    remove()
    drains = [event for event in heard if event.kind == "drain"]
    assert drains
    assert len(drains) == metrics["drained_parts"]
    assert sum(event.values["bytes"] for event in drains) == metrics["drained_bytes"] >= 4000
    assert all(event.values["part"].startswith("log/") for event in drains)
    assert {event.container for event in drains} == {str(tmp_path / "home.dry")}


def test_publications_and_the_time_of_commits_are_counted(container):
    container["T"] = np.ones((64, 64), "f4")
    container.commit()
    container.publish()
    metrics = container.metrics()
    assert metrics["published_shards"] >= 1
    assert metrics["published_bytes"] > 0
    assert metrics["commit_microseconds"] > 0
    before = metrics["published_bytes"]
    container.publish()
    assert container.metrics()["published_bytes"] == before


def test_reads_by_other_packages_are_reported_too(tmp_path):
    xr = pytest.importorskip("xarray")
    with dry.create(tmp_path / "a.dry") as c:
        c["x"] = np.arange(10.0)
    read = []
    remove = dry.on_event(lambda event: read.append(event.values.get("variable")), detail=True)
    with xr.open_dataset(tmp_path / "a.dry", engine="drystone") as found:
        assert float(found["x"].sum()) == 45
    remove()
    assert "x" in read


def test_a_listener_of_detail_that_fails_changes_nothing(container, caplog):
    def fails(event):
        raise RuntimeError("no")

    remove = dry.on_event(fails, detail=True)
    container["x"] = np.arange(4)
    assert container["x"][3] == 3
    remove()
    assert "on_event failed on read" in caplog.text


def test_opentelemetry_has_spans_and_counters(tmp_path):
    pytest.importorskip("opentelemetry.sdk", reason="no OpenTelemetry: pip install opentelemetry-sdk")
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    end = dry.metrics.opentelemetry(tracers, MeterProvider([reader]))
    path = str(tmp_path / "a.dry")

    def counters():
        found = {}
        data = reader.get_metrics_data()
        for metric in (
            data.resource_metrics[0].scope_metrics[0].metrics if data and data.resource_metrics else ()
        ):
            for point in metric.data.data_points:
                if point.attributes["drystone.container"] == path:
                    found[metric.name, point.attributes.get("drystone.level")] = point.value
        return found

    with dry.create(path) as c:
        c.create_variable("T", "f4", (10,), steps=True)
        with tracers.get_tracer("mine").start_as_current_span("job") as job:
            with c.writer(rank=0, nranks=1) as w, w.step():
                w.put("T", np.zeros(10, "f4"))
            c["T"][0]
        seen = counters()
        assert seen["drystone.put_bytes", None] == 40
        assert seen["drystone.reads", None] == 1
        assert seen["drystone.steps", "home"] == 1
        assert seen["drystone.stalls", None] == 0
        by_name = {span.name: span for span in spans.get_finished_spans()}
        assert {"drystone.create", "drystone.put", "drystone.step", "drystone.read", "job"} <= set(by_name)
        read = by_name["drystone.read"]
        assert read.attributes["drystone.variable"] == "T"
        assert read.attributes["drystone.container"] == path
        assert read.parent.span_id == job.get_span_context().span_id
        assert read.start_time <= read.end_time
        end()
        spans.clear()
        c["T"][0]
        assert not spans.get_finished_spans()
        assert not counters()


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(dry.UnsupportedError, match="pip install opentelemetry-api"):
        dry.metrics.opentelemetry()
