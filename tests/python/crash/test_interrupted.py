"""Ctrl-C ends an import or export, wherever Python is at that moment, and removes its partial output."""

import signal
import sys
import threading
import weakref

import drystone as dry
import numpy as np
import pytest
from command_line import drystone
from drystone import copying
from drystone.interchange import importing
from drystone.interchange.exports import cells, placed


@pytest.fixture(autouse=True)
def in_the_foreground():
    """A shell that starts tests in the background makes them ignore SIGINT, and the command inherits that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Held:
    pass


def interrupts(monkeypatch, module, name, *, dropped):
    """Sends SIGINT at the second call of a function: directly, or in a callback in which Python drops exceptions."""
    calls, own = [], getattr(module, name)

    def once(*arguments, **named):
        calls.append(name)
        if len(calls) == 2:
            if dropped:
                held = Held()
                kept = weakref.ref(held, lambda _: signal.raise_signal(signal.SIGINT))
                del held
                assert kept() is None
            else:
                signal.raise_signal(signal.SIGINT)
        return own(*arguments, **named)

    monkeypatch.setattr(module, name, once)
    return calls


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr("drystone.interchange.importing._MOST_LYING", 1000)
    monkeypatch.setattr("drystone.interchange.exports.cells.MOST", 1000)
    monkeypatch.setattr("drystone.interchange.exports.cells._has_lists", lambda _: True)  # in one thread
    np.save(tmp_path / "a.npy", np.arange(5000.0))
    return tmp_path / "a.npy"


@pytest.mark.parametrize("dropped", [False, True])
def test_an_import(tmp_path, source, monkeypatch, dropped):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    calls = interrupts(monkeypatch, importing, "_put", dropped=dropped)
    assert "interrupted" in drystone("import", source, tmp_path / "a.dry", code=130)
    assert len(calls) == 2
    assert not (tmp_path / "a.dry").exists()
    assert told == []  # Python reports that it dropped the exception
    assert sys.unraisablehook == told.append


@pytest.mark.parametrize("dropped", [False, True])
def test_a_copy(tmp_path, source, monkeypatch, dropped):
    drystone("import", source, tmp_path / "a.dry")
    monkeypatch.setattr(copying, "_MOST", 1000)
    calls = interrupts(monkeypatch, copying._Cells, "_put_one", dropped=dropped)
    assert "interrupted" in drystone("copy", tmp_path / "a.dry", tmp_path / "b.dry", code=130)
    assert len(calls) == 2
    assert not (tmp_path / "b.dry").exists()
    assert drystone("diff", tmp_path / "a.dry", tmp_path / "a.dry") == "no difference\n"


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("suffix", ["npy", "h5"])
def test_an_export(tmp_path, source, monkeypatch, dropped, suffix):
    drystone("import", source, tmp_path / "a.dry")
    target = tmp_path / f"out.{suffix}"
    if suffix == "npy":
        calls = interrupts(monkeypatch, placed.Rows, "_write", dropped=dropped)
    else:
        pytest.importorskip("h5py")
        calls = interrupts(monkeypatch, cells, "copy", dropped=dropped)
        with dry.open(tmp_path / "a.dry", "r+") as c:
            c.create_variable("b", "f8", (5000,))
    assert "interrupted" in drystone("export", tmp_path / "a.dry", target, code=130)
    assert len(calls) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.dry", "a.npy"]


def test_the_handler_is_the_one_of_before_afterwards(tmp_path, source):
    before = signal.getsignal(signal.SIGINT)
    drystone("import", source, tmp_path / "a.dry")
    assert signal.getsignal(signal.SIGINT) is before


def test_in_other_threads_it_works_as_well(tmp_path, source):
    thread = threading.Thread(target=drystone, args=("import", source, tmp_path / "a.dry"))
    thread.start()
    thread.join()
    assert (tmp_path / "a.dry").exists()
