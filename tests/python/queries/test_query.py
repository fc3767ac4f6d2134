"""Guarantees of queries: shapes and dtypes of answers, decisions from statistics without reading, helpful errors."""

import csv
import io
import json
import subprocess
import sys

import drystone as dry
import numpy as np
import pytest
from drystone import expr
from drystone.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError

CELLS = 64


@pytest.fixture
def ramp(tmp_path):
    """Values that ascend along x, in chunks of 16 cells; u is another ramp, in whole blocks."""
    with dry.create(tmp_path / "ramp.dry") as c:
        c.create_variable("p", "f4", (8, CELLS), dims=("y", "x"), steps=True, chunks=(8, 16))
        c.create_variable("u", "f4", (8, CELLS), dims=("y", "x"), steps=True, transform="zstd:1")
        c.create_variable("name", dtype=str, shape=(8,), dims=("y",))
        values = np.broadcast_to(np.arange(CELLS, dtype="f4"), (8, CELLS))
        with c.writer(rank=0, nranks=1) as w:
            for step in range(3):
                with w.step():
                    w.put("p", values + 100 * step, offset=(0, 0))
                    w.put("u", -values, offset=(0, 0))
        yield c


def test_answers_have_the_shapes_and_dtypes_of_the_contract(ramp):
    q = ramp.query("p > 60 & u < -60.5", steps=0)
    assert q.count() == 24
    assert isinstance(q.count(), int)
    coords = q.coords()
    assert coords.dtype == np.int64
    assert coords.shape == (24, 3)
    assert coords[0].tolist() == [0, 0, 61]
    assert q.values("u").dtype == np.float32
    u, p, x = q.values("u", "p", "x")
    assert (u == -p).all()
    assert x.dtype == np.int64
    assert q.mask().shape == (8, CELLS)
    assert ramp.query("p > 60").mask().shape == (3, 8, CELLS)
    assert ramp.query("p > 60", (0, slice(None)), [1, 0]).mask().shape == (2, CELLS)
    assert q.dims == ("step", "y", "x")
    assert q.boxes() == [((0, 0, 61), (1, 8, 3))]
    assert ramp.query("p < 0").coords().shape == (0, 3)
    assert ramp.query("p < 0").values("u").shape == (0,)
    assert ramp.query("p < 0").boxes() == []


def test_whole_subchunks_cost_no_byte(ramp):
    q = ramp.query("p >= 32", steps=0)
    assert q.bounds() == (256, 256)
    assert q.count() == 256
    assert q.coords().shape == (256, 3)
    assert q.mask().sum() == 256
    assert (q.report.bytes, q.report.requests) == (0, 0)
    assert q.explain.bytes == 0


def test_bounds_hold_and_read_nothing(ramp):
    q = ramp.query("p > 20.5")
    low, high = q.bounds()
    assert low <= q.count() <= high
    assert q.bounds().low == 256 + 2 * 512
    assert q.report.bytes == 8 * 16 * 4, "one subchunk is open"


def test_a_later_condition_reads_only_where_an_earlier_one_left_cells(ramp):
    q = ramp.query("p < 4 & u > -2", steps=[0, 1])
    assert q.count() == 16
    plan = {term.text: term for term in q.explain.terms}
    # p has four chunks per step; those of the second step have larger values.
    assert (plan["p < 4"].none, plan["p < 4"].some) == (7, 1)
    report = {term.text: term for term in q.report.terms}
    assert report["p < 4"].tried == 128
    assert report["u > -2"].tried <= 128
    assert "p < 4" in str(q.explain)


def test_text_and_operators_are_the_same_query(ramp):
    built = ramp.query((ramp["p"] > 60) & (expr.abs(ramp["u"]) > 61))
    assert built.text == ramp.query("p > 60 & abs(u) > 61").text
    assert built.count() == 3 * 16


def test_a_query_stays_with_its_snapshot(ramp):
    q = ramp.query("p > 1000")
    before = q.count()
    ramp["p"][0] = np.full((8, CELLS), 2000, "f4")
    assert ramp.query("p > 1000").count() == 512
    assert q.count() == before == 0


def test_batches_cover_all_hits_in_order(ramp):
    q = ramp.query("p > 10.5")
    batches = list(q.batches(rows=100))
    assert {len(batch) for batch in batches[:-1]} == {100}
    assert np.array_equal(np.concatenate([b.coords for b in batches]), q.coords())
    assert np.array_equal(np.concatenate([b.values["p"] for b in batches]), q.values("p"))
    assert list(ramp.query("p < -1").batches()) == []


def test_unwritten_values_are_marked(tmp_path):
    with dry.create(tmp_path / "half.dry") as c:
        c.create_variable("a", "i4", (10,), fill_value=7)
        c.create_variable("b", "i4", (10,), fill_value=-1)
        with c.writer() as w:
            w.put("a", np.arange(10, dtype="i4"))
            w.put("b", np.arange(4, dtype="i4"))
        assert c.query("b == -1").count() == 0, "a fill value is no value"
        assert c.query("~(b > 1)").coords().ravel().tolist() == [0, 1]
        assert c.query("b > 1 | a > 8").coords().ravel().tolist() == [2, 3, 9]
        (batch,) = c.query("a > 2").batches(variables=["a", "b"])
        assert batch.written["a"] is None
        assert batch.written["b"].tolist() == [True] + [False] * 6
        assert batch.values["b"].tolist() == [3] + [-1] * 6


def test_records_are_asked_by_member_and_given_whole(tmp_path):
    dtype = np.dtype([("x", "f8"), ("id", "i8"), ("v", "f4", (3,))])
    with dry.create(tmp_path / "particles.dry") as c:
        particles = np.zeros(1000, dtype)
        particles["x"] = np.linspace(0, 1, 1000)
        particles["id"] = 2**53 + np.arange(1000)
        particles["v"] = np.arange(3000).reshape(1000, 3)
        c["P"] = particles
        q = c.query(f"P.id == {2**53 + 1}")
        assert q.coords().tolist() == [[1]], "64-bit integers compare exactly"
        assert q.values("P")[0] == particles[1]
        assert q.values("P.v").tolist() == [[3, 4, 5]]
        assert c.query("P.x > 0.5 & P.id < 9007199254741500").count() == 8
        with pytest.raises(InvalidArgumentError, match="record"):
            c.query("P > 3")
        with pytest.raises(InvalidArgumentError, match="arrays"):
            c.query("P.v > 3")
        with pytest.raises(InvalidArgumentError, match=r"P\.id"):
            c.query("P.ib > 3")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nme > 1", "did you mean `name`"),
        ("p + 1", "compare it"),
        ("1 > 0", "names no variable"),
        ("p >", "expected"),
        ("name == 1", "texts"),
        ("p[x+1] > 0", "neighbour"),
        ("p > 1 & v > 2", "cannot be joined"),
        ("p and", "expected"),
    ],
)
def test_mistakes_are_one_clear_error(ramp, text, says):
    ramp.create_variable("v", "f4", (8, 3), dims=("y", "x"))
    with pytest.raises(InvalidArgumentError, match=says):
        ramp.query(text)


def test_selections_and_steps_that_are_not_there(ramp):
    with pytest.raises(OutOfRangeError):
        ramp.query("p > 1", (99, slice(None)))
    with pytest.raises(OutOfRangeError, match="step 3"):
        ramp.query("p > 1", steps=3)
    with pytest.raises(InvalidArgumentError, match="twice"):
        ramp.query("p > 1", steps=[1, 1])
    with pytest.raises(InvalidArgumentError, match="rows"):
        ramp.query("p > 1").batches(rows=0)
    with pytest.raises(UnsupportedError, match="strings"):
        ramp.query("p > 1").values("name")
    with pytest.raises(InvalidArgumentError, match="text or an expression"):
        ramp.query(3)


def test_a_damaged_subchunk_fails_its_own_queries_only(ramp, tmp_path):
    ramp.close()
    (segment,) = (tmp_path / "ramp.dry" / "log").glob("*.seg")
    data = bytearray(segment.read_bytes())
    at = data.find(np.arange(16, dtype="<f4").tobytes())
    data[at + 5] ^= 1
    segment.write_bytes(data)
    with dry.open(tmp_path / "ramp.dry") as c:
        assert c.query("p > 40", steps=0).count() == 23 * 8
        with pytest.raises(dry.CorruptError):
            c.query("p > 3", steps=0).count()


def test_coordinates_without_a_variable_and_with_one(tmp_path):
    with dry.create(tmp_path / "map.dry") as c:
        c.create_variable("t", "f4", (4, 6), dims=("lat", "lon"))
        c.create_variable("lat", "f8", (4,), dims=("lat",))
        c["t"][...] = np.arange(24, dtype="f4").reshape(4, 6)
        c["lat"][...] = np.array([-30, -10, 10, 30.0])
        assert c.query("t > 3 & lat < 0 & lon == 5").coords().tolist() == [[0, 5], [1, 5]]
        assert c.query("lat > 0").coords().tolist() == [[2], [3]]
        assert c.query("lat > 0", over=["t"]).count() == 12
        none = c.query("lat > 0", (slice(2, 2), slice(None)), over=["t"])
        assert (none.count(), none.boxes(), none.coords().shape) == (0, [], (0, 2))
        assert c.query("t > 20").values("lat", "lon")[0].tolist() == [30, 30, 30]


@pytest.mark.parametrize("options", [{}, {"transform": "zstd:1"}, {"index": "bins"}])
def test_ten_hits_read_two_subchunks_of_each_variable_at_most(tmp_path, options):
    each, n = 1 << 16, 1 << 20
    values = np.random.default_rng(4).random((2, n)).astype("f4")
    with dry.create(tmp_path / "a.dry") as c:
        for name, own in zip("vw", values, strict=True):
            c.create_variable(name, "f4", (n,), chunks=(each,), dims=("i",), **options)
            c[name][:] = own
        for text, hits in [
            ("v > 0.5", values[0] > 0.5),
            ("v > 0.999", values[0] > np.float32(0.999)),
            ("v > 0.5 & w > 0.5", (values > 0.5).all(0)),
        ]:
            q = c.query(text)
            batch = next(q.batches(rows=10))
            assert np.array_equal(batch.coords[:, 0], np.flatnonzero(hits)[:10])
            assert batch.written["v"] is None
            assert q.report.bytes <= 2 * 4 * each * len(batch.values) + 4096


def test_a_notebook_shows_what_statistics_say_and_the_first_hits(ramp):
    shown = ramp.query("p > 60 & u < -60.5", steps=0)._repr_html_()
    assert "p &gt; 60" in shown
    assert "<th style='text-align:left'>x</th>" in shown
    assert shown.count("<tr>") == 1 + 2 + 1 + 10
    assert "-61.0" in shown
    assert ">0 of " in ramp.query("p > 1e9")._repr_html_()


def test_times_are_computed_with_only_where_that_is_said(tmp_path):
    """Symptom: seconds were compared with milliseconds as plain integers, and NaT was the smallest of them."""
    a = np.array(["2020-01-01", "NaT", "1990-01-01"], "M8[s]")
    b = np.array(["2019-01-01", "2019-01-01", "1991-01-01"], "M8[ms]")
    with dry.create(tmp_path / "c.dry") as c:
        for name, values in (("a", a), ("b", b), ("d", np.array([1, 2, 3], "m8[s]"))):
            c.create_variable(name, values.dtype, (3,), dims=("x",), data=values)
        for text in ("a > b", "a - b > 0", "isnan(a)", "a < 3", "d > 1", "a > '2000-01-01' & b > a"):
            with pytest.raises(dry.InvalidArgumentError, match=r"write `i8\((a|b|d)\)`"):
                c.query(text)
        with pytest.raises(dry.InvalidArgumentError, match=r"write `i8\(a\)`"):
            c.derive("gap", "a - b")
        assert c.query("a > '2000-01-01' & d >= '1 s'").count() == 1
        assert c.query("i8(a) * 1000 > i8(b) & a > '0001-01-01'").count() == 1
        c.derive("gap", "i8(a) * 1000 - i8(b)")
        assert c["gap"][0] == 365 * 86400 * 1000


def test_steps_may_be_an_array(ramp):
    assert ramp.query("p > 60", steps=np.array([0, 2])).count() == ramp.query("p > 60", steps=[0, 2]).count()
    assert ramp.query("p > 60", steps=np.int64(1)).count() == ramp.query("p > 60", steps=1).count()


def test_hits_of_one_value_have_no_coordinates(tmp_path):
    """Symptom: a panic in `coords`."""
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("k", "f8", ())[...] = 3
        assert c.query("k > 1").coords().shape == (1, 0)
        assert c.query("k > 5").coords().shape == (0, 0)
        assert c.query("k > 1").values("k").tolist() == [3]


def test_the_command_marks_the_place_of_a_mistake(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("k", "f8", (3,))[...] = 3
    done = subprocess.run(
        [sys.executable, "-m", "drystone", "query", tmp_path / "run.dry", "k > > 1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    message, line, mark = done.stderr.splitlines()
    assert message.startswith("drystone: ")
    assert line == "  k > > 1"
    assert mark == "      ^"


def test_each_subchunk_says_what_a_condition_costs_and_why(tmp_path):
    with dry.create(tmp_path / "run.dry") as c:
        for name in ("p", "u"):
            c.create_variable(name, "f4", (4, 100), chunks=(1, 100), steps=True, dims=("y", "x"))
        with c.writer(rank=0, nranks=1) as w:
            for step in range(2):
                with w.step():
                    p = np.arange(400, dtype="f4").reshape(4, 100) + 1000 * step
                    p[3, 7] = np.nan
                    w.put("p", p)
                    w.put("u", np.full((3, 100), 0.5, "f4"))
        q = c.query("p > 150 & u < 1")
        rows = q.explain_rows()
        assert [(row.step, row.offset, row.shape) for row in rows[::2]] == [
            (step, (y, 0), (1, 100)) for step in range(2) for y in range(4)
        ]
        assert [row.decided for row in rows if row.term == "p > 150"] == [
            "none",
            "some",
            "all",
            "some",
            "all",
            "all",
            "all",
            "some",
        ]
        assert {row.decided for row in rows if row.term == "u < 1" and row.offset[0] < 3} == {"all"}
        unwritten = [row for row in rows if row.term == "u < 1" and row.offset[0] == 3]
        assert [(row.decided, row.why) for row in unwritten] == [("none", "u: no number and unwritten")] * 2
        first, second = (
            row for row in rows if row.step == 0 and row.offset[0] in (0, 1) and row.term == "p > 150"
        )
        assert (first.why, first.bytes) == ("p: 0.0 to 99.0", 0)
        assert second.bytes == 400
        last = next(row for row in rows if row.offset[0] == 3)
        assert "NaN" in last.why
        assert "not read, since no cell satisfies u < 1" in last.why
        assert sum(row.bytes for row in rows) <= q.explain.bytes
        assert q.explain_rows(limit=3) == rows[:3]
        assert q.explain_rows(limit=0) == []
        part = c.query("p > 150", (slice(1, 2), slice(50, 60)), steps=1).explain_rows()
        assert [(row.step, row.offset, row.shape, row.decided) for row in part] == [
            (1, (1, 50), (1, 10), "all")
        ]
        with pytest.raises(InvalidArgumentError):
            q.explain_rows(limit=-1)
    command = [
        sys.executable,
        "-m",
        "drystone",
        "query",
        tmp_path / "run.dry",
        "p > 150",
        "--explain",
        "--rows",
    ]
    said = subprocess.run([*command, "--limit", "2"], capture_output=True, text=True, check=True).stdout
    assert "  step 0 [1+1, 0+100] p > 150: some, 400 B; p: 100.0 to 199.0" in said.splitlines()
    assert len([line for line in said.splitlines() if line.startswith("  step")]) == 2
    found = json.loads(
        subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    )
    assert len(found["rows"]) == 8
    assert found["rows"][1]["decided"] == "some"


def test_what_statistics_decide_in_an_alternative_is_not_read(tmp_path):
    """Symptom: `u > 10 | v > 10` read `u` where no `u` is above 10."""
    random = np.random.default_rng(5)
    with dry.create(tmp_path / "run.dry") as c:
        values = {}
        for name, low in (("u", 0), ("v", 0), ("w", 20)):
            values[name] = random.random((8, 4096)).astype("f4") * 5 + low
            c.create_variable(name, "f4", (8, 4096), chunks=(1, 4096))
        values["v"][:, ::7] = 11
        for name, given in values.items():
            c[name][...] = given
        u, v = values["u"], values["v"]
        one = 8 * 4096 * 4
        for text, wanted, least in (
            ("u > 10 | v > 10", v > 10, 1),
            ("v > 10 | ~(w > 10)", v > 10, 1),
            ("(u < 10 & v > 10) | (w < 10 & v < 3)", v > 10, 1),
            ("(v > 10) == (u > 10)", v < 10, 1),
            ("u + v > 12 | w < 0", u + v > 12, 3),  # not one condition per variable
        ):
            q = c.query(text)
            assert np.array_equal(q.mask(), wanted), text
            assert q.report.bytes <= least * one * 1.02, text
            assert np.array_equal(q.values("u"), u[wanted]), text
            assert np.array_equal(q.values("v"), v[wanted]), text


def test_texts_in_csv_are_those_that_were_stored(tmp_path):
    """Symptom: the field of `a` was `\"\"\"a\"\"\"`, a literal in quotes."""
    texts = ["a", 'q"q', "", "x,y", "größe"]
    with dry.create(tmp_path / "run.dry") as c:
        c.create_variable("n", data=np.arange(5), dims=("i",))
        c.create_variable("u", "U6", (5,), dims=("i",))[...] = texts
        c.create_variable("s", "S6", (5,), dims=("i",))[...] = [
            text.encode("ascii", "replace") for text in texts
        ]
    command = [
        sys.executable,
        "-m",
        "drystone",
        "query",
        tmp_path / "run.dry",
        "n >= 0",
        "--csv",
        "--columns",
        "u,s",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = list(csv.reader(io.StringIO(said)))
    assert rows[0] == ["i", "u", "s"]
    assert [row[1] for row in rows[1:]] == texts
    assert [row[2] for row in rows[1:]] == ["a", 'q"q', "", "x,y", "gr??e"]
