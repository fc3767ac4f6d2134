"""Steps: the next one, gaps, writing again, replacing, and runs of several ranks."""

import warnings

import drystone as dry
import numpy as np
import pytest
from same_bits import commits_by_itself, same


@pytest.fixture
def T(container):
    return container.create_variable("T", "i4", shape=(3,), steps=True, fill_value=-1)


def put_steps(w, values):
    for t, value in values.items():
        with w.step(t):
            w.put("T", np.full(3, value, "i4"))


def test_gaps_read_as_fill_and_are_not_listed(container, T):
    with commits_by_itself(container) as w:
        put_steps(w, {2: 20, 5: 50})
        with w.step() as t:
            assert t == 6
            assert w.current_step == 6
    assert container.steps == [2, 5, 6]
    assert T.steps == [2, 5]
    same(T[:, 1], np.array([-1, -1, 20, -1, -1, 50, -1], "i4"))
    same(T.read(step=3), np.full(3, -1, "i4"))
    same(T.read(step=-2), np.full(3, 50, "i4"))


def test_the_steps_of_a_variable_are_those_in_which_it_has_data(container, T):
    container.create_variable("U", "i4", shape=(1,), steps=True)
    with commits_by_itself(container) as w:
        for t in range(300):
            with w.step():
                w.put("T", np.zeros(3, "i4")) if t % 3 == 0 else w.put("U", [t])
        put_steps(w, {1000: 1})
    assert T.steps == [*range(0, 300, 3), 1000]
    assert container["U"].steps == [t for t in range(300) if t % 3]
    assert container.create_variable("N", "i4", shape=(1,)).steps == []


def test_writing_a_step_again_overwrites_cells(container, T):
    with commits_by_itself(container) as w:
        put_steps(w, {0: 1})
        with w.step(0):
            w.put("T", np.array([7], "i4"), offset=1)
    same(T[0], np.array([1, 7, 1], "i4"))


def test_replacing_a_step_hides_all_it_held(container, T):
    U = container.create_variable("U", "i4", shape=(1,), steps=True)
    with commits_by_itself(container) as w:
        with w.step(0):
            w.put("T", np.ones(3, "i4"))
            w.put("U", [5])
        before = container.snapshot
        with w.step(0, replace=True):
            w.put("T", np.array([7], "i4"), offset=1)
    same(T[0], np.array([-1, 7, -1], "i4"))
    same(U[0], np.array([0], "i4"))
    assert T.steps == [0]
    assert U.steps == []
    same(container.at(before)["T"][0], np.ones(3, "i4"))


def test_an_exception_drops_the_step(container, T):
    with commits_by_itself(container) as w:
        with pytest.raises(ZeroDivisionError), w.step():  # noqa: PT012
            w.put("T", np.ones(3, "i4"))
            raise ZeroDivisionError
        assert container.steps == []
        with w.step() as t:
            assert t == 0
            w.put("T", np.zeros(3, "i4"))
    same(T[...], np.zeros((1, 3), "i4"))


def test_steps_do_not_nest_and_puts_need_them(container, T):
    with commits_by_itself(container) as w:
        with pytest.raises(dry.InvalidArgumentError, match="inside a step"):
            w.put("T", np.zeros(3, "i4"))
        with w.step(), pytest.raises(dry.InvalidArgumentError, match="step 0 is open"), w.step():
            pass
        for bad in (-1, 2**63, 1.5, "1"):
            with pytest.raises(dry.InvalidArgumentError), w.step(bad):
                pass


def test_steps_that_lack_the_same_ranks_are_warned_of_together(container, T):
    # A rank that runs ahead of the others leaves many such steps: each had a warning of its own.
    writers = [container.writer(rank=r, nranks=3) for r in range(3)]
    for r, steps in enumerate([(0, 1, 2, 3, 5, 6), (), (2, 3)]):
        for step in steps:
            with writers[r].step(step):
                writers[r].put("T", np.array([r], "i4"), offset=r)
    with pytest.warns(dry.DrystoneWarning) as warned:
        done = container.commit()
    assert [i.step for i in done.incomplete] == [0, 1, 2, 3, 5, 6]
    assert [str(w.message) for w in warned] == [
        "steps 0 to 1 of run 0 are not visible: ranks 1, 2 have not closed them (2 of 3 missing)",
        "steps 2 to 3 of run 0 are not visible: rank 1 has not closed them (1 of 3 missing)",
        "steps 5 to 6 of run 0 are not visible: ranks 1, 2 have not closed them (2 of 3 missing)",
    ]
    for w in writers:
        w.close()


def test_a_step_of_several_ranks_waits_for_all_and_the_commit_names_the_missing(container, T):
    writers = [container.writer(rank=r, nranks=3) for r in range(3)]
    assert {w.run for w in writers} == {0}
    for r in (0, 2):
        with writers[r].step():
            writers[r].put("T", np.array([r], "i4"), offset=r)
    with pytest.warns(dry.DrystoneWarning, match="rank 1 has not") as warned:
        done = container.commit()
    assert warned[0].filename == __file__
    assert not done.changed
    (incomplete,) = done.incomplete
    assert (incomplete.run, incomplete.step, incomplete.nranks, incomplete.missing) == (0, 0, 3, (1,))
    assert container.steps == []
    with writers[1].step():
        writers[1].put("T", np.array([1], "i4"), offset=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = container.commit()
    assert done.changed
    assert done.incomplete == ()
    same(T[...], np.array([[0, 1, 2]], "i4"))
    for w in writers:
        w.close()


def test_a_step_that_some_ranks_have_replaced_is_visible_as_before(container, T):
    writers = [container.writer(rank=r, nranks=2) for r in range(2)]

    def close(rank, value, replace):
        with writers[rank].step(0, replace=replace):
            writers[rank].put("T", np.array([value], "i4"), offset=rank)

    close(0, 1, False)
    close(1, 2, False)
    close(0, 11, True)
    said = r"step 0 of run 0 is visible as before: rank 1 has not closed it again \(1 of 2 missing\)"
    with pytest.warns(dry.DrystoneWarning, match=said):
        (incomplete,) = container.commit().incomplete
    assert incomplete.again
    same(T[0, :2], np.array([1, 2], "i4"))
    close(1, 12, True)
    assert container.commit().incomplete == ()
    same(T[0, :2], np.array([11, 12], "i4"))
    for w in writers:
        w.close()


def test_where_ranks_overlap_the_higher_rank_wins(container, T):
    writers = [container.writer(rank=r, nranks=3) for r in range(3)]
    for r in (2, 0, 1):
        with writers[r].step():
            writers[r].put("T", np.full(3 - (r == 2), r, "i4"))
        writers[r].close()
    container.commit()
    same(T[0], np.array([2, 2, 1], "i4"))


def test_two_writers_of_one_rank_are_a_conflict(container, T):
    a = container.writer(rank=0, nranks=2)
    put_steps(a, {0: 1})
    with pytest.raises(dry.ConflictError, match="recover"):
        container.writer(rank=0, nranks=2)
    with pytest.raises(dry.ConflictError, match="recover"):
        container.writer(rank=0, nranks=3)


def test_recovery_adopts_complete_steps_and_begins_a_run(path):
    with dry.create(path) as c:
        c.create_variable("T", "i4", shape=(3,), steps=True)
        writers = [c.writer(rank=r, nranks=2) for r in range(2)]
        put_steps(writers[0], {0: 1, 1: 2, 2: 3})
        put_steps(writers[1], {0: 4, 1: 5})
        with dry.open(path, "r+") as other:
            report = other.recover(adopt=True)
            assert report.adopted == (0, 1)
            assert [(i.step, i.missing) for i in report.incomplete] == [(2, (1,))]
            assert report.run == 1
            assert report.discarded == ()
            assert report.snapshot == other.snapshot
            assert "0, 1" in str(report)
            assert other["T"][:, 0].tolist() == [4, 5]
            with other.writer(rank=0, nranks=1) as w, w.step() as t:
                assert t == 2
                assert w.run == 1
        c.refresh()
        assert c.steps == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "adopted", "discarded"),
    [({}, (0, 1), ()), ({"adopt": True}, (0, 1), ()), ({"discard": True}, (), (0, 1)), ({"adopt": False}, (), (0, 1)), ({"adopt": [1]}, (1,), (0,)),
     ({"adopt": np.array([0])}, (0,), (1,)), ({"adopt": False, "discard": True}, (), (0, 1)),
        ({"adopt": True, "discard": False}, (0, 1), ()), ({"discard": [1]}, (0,), (1,)), ({"discard": False}, (0, 1), ())],
)  # fmt: skip
def test_recovery_adopts_the_given_steps(container, T, arguments, adopted, discarded):
    for r in range(2):
        put_steps(container.writer(rank=r, nranks=2), {0: 1, 1: 2})
    report = container.recover(**arguments)
    assert (report.adopted, report.discarded) == (adopted, discarded)
    assert container.steps == list(adopted)


def test_contradictory_orders_to_recover_are_refused(container):
    with pytest.raises(dry.InvalidArgumentError, match="contradict"):
        container.recover(adopt=True, discard=True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"rank": 0},
        {"nranks": 1},
        {"rank": 2, "nranks": 2},
        {"rank": -1, "nranks": 2},
        {"run": 3},
        {"rank": 0, "nranks": 0},
    ],
)
def test_impossible_ranks_are_refused(container, arguments):
    with pytest.raises(dry.InvalidArgumentError):
        container.writer(**arguments)


def test_a_run_may_be_given(container, T):
    for r in range(2):
        with container.writer(rank=r, nranks=2, run=77) as w:
            assert w.run == 77
            put_steps(w, {0: 1})
    assert container.commit().changed


def test_steps_that_a_resize_cut_away_are_steps_no_more(tmp_path):
    """Symptom: `gc(keep=1)` changed `steps`, and so the step to which `append` writes."""
    with dry.create(tmp_path / "run.dry") as c:
        a = c.create_variable("a", "f8", (None,), steps=True)
        c.create_variable("b", "f8", (), steps=True)[0:6] = 1
        a[0, 0:2] = 1
        a[5, 4:6] = 2
        assert a.steps == [0, 5]
        a.resize([3])
        assert a.steps == [0]
        c.gc(keep=1)
        assert a.steps == [0]
        a[3, 2] = 4
        assert a.steps == [0, 3]
        a.append(np.full(3, 7.0))
        assert a.steps == [0, 3, 4]
        assert c.steps == [0, 1, 2, 3, 4, 5]
