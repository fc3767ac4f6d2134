"""Convenience of everything public: it has a docstring and a repr, and survives pickling and threads."""

import dataclasses
import inspect
import pickle
import threading

import drystone as dry
import numpy as np
import pytest
from drystone import rules

PUBLIC = [getattr(dry, name) for name in dry.__all__ if name not in ("rules", "__version__")]
CLASSES = [thing for thing in PUBLIC if inspect.isclass(thing)]
# Defined by the protocol itself.
PROTOCOL = {"__init__"}


def said(thing):
    """The object's own docstring; a generated signature does not count."""
    text = thing.__doc__ or ""
    return text if not text.startswith(f"{getattr(thing, '__name__', '')}(") else ""


@pytest.mark.parametrize("thing", [*PUBLIC, rules], ids=lambda thing: thing.__name__)
def test_everything_public_says_what_it_is(thing):
    assert said(thing).strip()


def public_members():
    for owner in CLASSES:
        for name, member in vars(owner).items():
            if name.startswith("_") or (
                dataclasses.is_dataclass(owner) and name in owner.__dataclass_fields__
            ):
                continue
            plain = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(plain) or isinstance(member, property):
                yield pytest.param(owner, name, plain, id=f"{owner.__name__}.{name}")


@pytest.mark.parametrize(("owner", "name", "member"), list(public_members()))
def test_every_method_says_what_its_signature_cannot(owner, name, member):
    inherited = [getattr(base, name).__doc__ for base in owner.__mro__[1:] if hasattr(base, name)]
    assert said(member).strip() or any(inherited)


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run.dry"
    with dry.create(path) as c:
        c.declare("dataset { var f[6] float64 }\nfragment half(r) { var f[i:3] = f[i + 3*r] }")
        c.create_variable("g/T", "f4", (8, 6), steps=True, transform="zstd:1", attrs={"units": "K"})
        c.create_variable("P", np.dtype([("x", "f8"), ("id", "i4")]), (5,))
        with c.writer(rank=0, nranks=1) as w:
            for step in range(3):
                with w.step():
                    w.put("g/T", np.full((8, 6), step, "f4"))
            w.put("P", np.zeros(5, c["P"].dtype))
        c.refresh()
    with dry.open(path, mode="r+") as c:
        yield c


def test_nothing_shows_itself_by_its_address(run):
    with run.writer() as w:
        shown = [
            run, run["g"], run["g/T"], run["P"]["x"], run["g/T"].lazy[0], w, run.fragment("half", r=1), run.attrs, run["g/T"].attrs,
            run.variables, run.snapshot, run.snapshots, run["g/T"].blocks(0)[0], run["g/T"].explain[0], run.describe(), run.usage(),
            run["g/T"].statistics(0), run.verify(), run.gc(dry_run=True), run.fragment("half", r=1).coverage(),
        ]  # fmt: skip
    for thing in shown:
        assert " object at 0x" not in repr(thing), type(thing)
    assert "8, 6" in repr(run["g/T"])
    assert "float32" in repr(run["g/T"])


def test_notebooks_see_layout_sizes_compression_and_what_waits(run):
    with run.writer() as w:
        with w.step(3):
            w.put("g/T", np.zeros((8, 6), "f4"))
        of_container, of_variable = run._repr_html_(), run["g/T"]._repr_html_()
    for word in ("on disk", "blocks", "wait"):
        assert word in of_container, word
    for word in ("float32", "8", "6", "zstd:1", "layout", "stored", "units"):
        assert word in of_variable, word


@pytest.mark.parametrize("name", [thing.__name__ for thing in CLASSES if issubclass(thing, Exception)])
def test_errors_cross_processes_with_their_message(name):
    error = getattr(dry, name)("what was found, and what to do")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert "what was found" in str(again)


def test_what_is_open_and_what_was_reported_is_pickled(run):
    for thing in (
        run, run["g"], run["g/T"], run["P"]["x"], run.snapshot, run["g/T"].blocks(0)[0], run.describe(), run.usage(), run.verify(),
        run["g/T"].statistics(0), run.fragment("half", r=1).coverage(),
    ):  # fmt: skip
        again = pickle.loads(pickle.dumps(thing))
        assert type(again) is type(thing)
    assert (pickle.loads(pickle.dumps(run["g/T"]))[2] == 2).all()
    view = run["P"]["x"].lazy[1:3]
    with run.writer() as w:
        w.put("P", np.ones(5, run["P"].dtype))
    run.refresh()
    assert (run["P"]["x"][1:3] == 1).all()
    assert (pickle.loads(pickle.dumps(view)).read() == 0).all()  # at its own snapshot, like the view
    with run.writer() as w, pytest.raises(dry.UnsupportedError, match="cannot be pickled"):
        pickle.dumps(w)  # a log belongs to one process


def test_one_container_serves_threads_that_read_write_and_commit(run):
    failed = []

    def work(number):
        try:
            with run.writer() as w:
                for step in range(10, 14):
                    with w.step(step):
                        w.put("g/T", np.full((1, 6), number, "f4"), offset=(number, 0))
                    run.commit()
                    assert (run["g/T"][2] == 2).all()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    run.commit()
    run.refresh()
    for step in range(10, 14):
        np.testing.assert_array_equal(run["g/T"][step][:, 0], np.arange(8))


def test_long_work_reports_progress_and_can_be_stopped(run):
    for work in (run.verify, run.publish, lambda **how: run.gc(dry_run=True, **how)):
        told = []

        def progress(done, total, told=told):
            told.append((done, total))

        work(progress=progress)
        assert all(0 <= done <= total for done, total in told)
    for work in (run.verify, run.publish):
        with pytest.raises(dry.CancelledError):
            work(progress=lambda done, total: False)
