"""Cells as tables in query engines: counts, read bytes, and the content of Arrow's capsules."""

import gc
import subprocess
import sys

import drystone as dry
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", minversion="26", reason="needs pyarrow 26")
pc = pytest.importorskip("pyarrow.compute")

ROWS = 64


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """NaN, signed zeros, unwritten cells, extreme integers, two steps, a coordinate."""
    path = tmp_path_factory.mktemp("doors") / "run.dry"
    random = np.random.default_rng(115)
    with dry.create(path, durability="memory") as c:
        grid = {"shape": (8, ROWS), "dims": ("y", "x")}
        for name, dtype in (
            ("p", "f4"),
            ("q", "f8"),
            ("i", "i4"),
            ("n", "i8"),
            ("u", "u8"),
            ("b", "u1"),
            ("m", "bool"),
        ):
            c.create_variable(name, dtype, **grid, steps=True)
        c.create_variable("r", np.dtype([("e", "f8"), ("v", "f4", (3,))]), **grid, steps=True)
        c.create_variable("name", "U6", **grid)
        c.create_variable("y", "f8", (8,), dims=("y",))[...] = np.linspace(-70, 70, 8)
        with c.writer(rank=0, nranks=1) as w:
            for _ in range(2):
                with w.step():
                    for name in "pq":
                        block = random.choice([np.nan, -0.0, 0.0, 0.1, 1, 2.5, 3, -7, np.inf], (6, ROWS))
                        w.put(name, block.astype(c[name].dtype), offset=(1, 0))
                    w.put("i", random.choice([-(2**31), -1, 0, 3, 2**31 - 1], (8, ROWS)).astype("i4"))
                    w.put("n", random.choice([-(2**63), -1, 0, 2**53, 2**53 + 1, 2**63 - 1], (8, ROWS)))
                    w.put("u", random.choice(np.array([0, 3, 2**63, 2**64 - 1], "u8"), (8, ROWS)))
                    w.put("b", random.integers(0, 256, (8, ROWS), "u1"))
                    w.put("m", random.random((5, ROWS)) < 0.5, offset=(3, 0))
                    block = np.zeros((8, ROWS), c["r"].dtype)
                    block["e"], block["v"] = random.normal(size=(8, ROWS)), [1, 2, 3]
                    w.put("r", block)
        c["name"][...] = "größe"
    return path


CONDITIONS = [
    "p > 1", "p >= 1", "p < 1", "p <= 1", "p = 1", "p <> 1", "p = 0", "p > 0", "p < 0", "q > 2.5", "q >= 0.1", "q < 0.1",
    "q = 0.1", "q <> 0.1", "NOT (p > 1)", "NOT (p < 1)", "p > 1 AND q > 1", "p > 1 OR q > 1", "p > 1 AND NOT (q > 1)",
    "NOT (p > 1 OR q < 0)", "p BETWEEN 0 AND 2.5", "p IN (1, 3)", "q IN (1, 2.5)", "p IS NULL", "p IS NOT NULL", "p IS NULL OR p > 2",
    "i > 0", "i = -2147483648", "i <= 2147483647", "i IN (-1, 3)", "n = 9007199254740993", "n > 9007199254740992",
    "n <= -9223372036854775807", "n <> 0", "b > 127", "b BETWEEN 3 AND 9", "m", "NOT m", "m AND p > 0", "y > 0 AND x < 10",
    "step = 1 AND p > 0", "step = 0 OR x = 3", "u > 9223372036854775807",
    "p = q", "p <> q", "p >= q", "p < q", "NOT (p = q)", "p > i", "(p > 0) = m", "(p > 0) <> m", "NOT ((p > q) = m)", "(q > 1) < m",
    "(p > q) = (q > 1)",
]  # fmt: skip


@pytest.fixture(scope="module")
def copied(path):
    """A copy of the table that no engine interface takes part in."""
    return pa.table(dry.open(path).table(columns=["step", "y", "x", *"pqinubm"]))


def in_duckdb(table, dataset, condition):
    duckdb = pytest.importorskip("duckdb")
    con = duckdb.connect()
    con.execute("SET threads=2")
    con.register("door", dataset)
    con.register("copied", table)
    con.execute("CREATE TABLE own AS SELECT * FROM copied")
    count = "SELECT count(*) FROM {} WHERE " + condition
    return con.execute(count.format("door")).fetchone(), con.execute(count.format("own")).fetchone()


def in_datafusion(table, dataset, condition):
    datafusion = pytest.importorskip("datafusion")
    session = datafusion.SessionContext()
    session.register_dataset("door", dataset)
    session.register_record_batches("own", [table.to_batches()])
    count = "SELECT count(*) AS n FROM {} WHERE " + condition
    return tuple(session.sql(count.format(t)).to_pydict()["n"] for t in ("door", "own"))


def in_polars(table, container, condition):
    pl = pytest.importorskip("polars")
    found = pl.sql_expr(condition)
    own = pl.from_arrow(table).lazy()
    door = container.scan_polars(columns=table.column_names)
    return tuple(frame.filter(found).select(pl.len()).collect().item() for frame in (door, own))


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("engine", ["duckdb", "datafusion", "polars"])
def test_an_engine_counts_the_rows_that_it_counts_in_a_table_of_its_own(path, copied, engine, condition):
    with dry.open(path) as c:
        if engine == "polars":
            door, own = in_polars(copied, c, condition)
        else:
            dataset = c.dataset(columns=copied.column_names)
            door, own = {"duckdb": in_duckdb, "datafusion": in_datafusion}[engine](copied, dataset, condition)
    assert door == own


def f(name):
    return pc.field(name)


@pytest.mark.parametrize("number", range(40))
def test_pyarrow_counts_the_rows_that_it_counts_in_a_table_of_its_own(path, copied, number):
    of = [
        lambda name, value: f(name) > value, lambda name, value: f(name) >= value, lambda name, value: f(name) < value,
        lambda name, value: f(name) <= value, lambda name, value: f(name) == value, lambda name, value: f(name) != value,
        lambda name, value: ~(f(name) > value), lambda name, value: f(name).isin([value]),
    ]  # fmt: skip
    name, value = [("p", 1.0), ("q", 0.1), ("i", 3), ("n", 2**53 + 1), ("b", 127)][number // 8]
    condition = of[number % 8](name, value)
    with dry.open(path) as c:
        dataset = c.dataset()
        assert dataset.count_rows(filter=condition) == copied.filter(condition).num_rows
        door = dataset.to_table(columns=["x", name], filter=condition)
        own = copied.filter(condition).select(["x", name])
        for column in ("x", name):
            # NaN is not equal to itself.
            assert repr(door[column].to_pylist()) == repr(own[column].to_pylist())


@pytest.mark.parametrize(
    "values", [[0.1, 1.5], [0.0, 3.0], [-0.0], [1e300], [float("nan"), 2.5], [float("nan")]]
)
def test_a_set_of_pyarrow_has_what_it_has_in_a_table_of_its_own(path, copied, values):
    with dry.open(path) as c:
        dataset = c.dataset()
        for condition in (f("p").isin(values), f("q").isin(values), ~f("p").isin(values), f("p") <= f("q")):
            assert dataset.count_rows(filter=condition) == copied.filter(condition).num_rows, condition


@pytest.mark.parametrize("nan", ["arrow", "greatest"])
def test_nan_compares_in_the_requested_order(path, copied, nan):
    with dry.open(path) as c:
        rows = c.dataset(nan=nan).to_table(filter=f("p") > 1).num_rows
    more = copied.filter(pc.is_nan(f("p"))).num_rows if nan == "greatest" else 0
    assert more > 0 or nan == "arrow"
    assert rows == copied.filter(f("p") > 1).num_rows + more


def test_a_table_has_the_values_of_the_container(path):
    with dry.open(path) as c:
        table = pa.table(c.table())
        assert table.column_names == [
            "step",
            "y",
            "x",
            "b",
            "i",
            "m",
            "n",
            "name",
            "p",
            "q",
            "r.e",
            "r.v",
            "u",
        ]
        assert table.schema.equals(pa.schema(c.table()))
        assert table["y"].to_numpy().reshape(2, 8, ROWS)[1, 2, 3] == c["y"][2]
        for name in "inub":
            assert (table[name].to_numpy().reshape(2, 8, ROWS) == c[name][...]).all()
        p = table["p"]
        assert p.null_count == 2 * 2 * ROWS
        there = np.asarray(p.is_valid()).reshape(2, 8, ROWS)
        assert not there[:, 0].any()
        assert not there[:, 7].any()
        values = p.fill_null(0).to_numpy().reshape(2, 8, ROWS)
        assert np.array_equal(values[:, 1:7], c["p"][:, 1:7], equal_nan=True)
        assert table["m"].null_count == 2 * 3 * ROWS
        assert (
            np.asarray(table["m"].fill_null(False)).reshape(2, 8, ROWS)[0, 3:].tolist()
            == c["m"][0, 3:].tolist()
        )
        assert table["r.v"][5].as_py() == [1, 2, 3]
        assert table["name"][7].as_py() == "größe"


def test_rows_and_columns_are_chosen(path):
    with dry.open(path) as c:
        table = pa.table(c.table(where="p > 1 & y > 0", columns=["q", "y", "step"], steps=1))
        hits = c.query("p > 1 & y > 0", steps=1)
        assert table.column_names == ["q", "y", "step"]
        assert table.num_rows == hits.count() == c.table(where="p > 1 & y > 0", steps=1).count()
        assert np.array_equal(table["q"].fill_null(0).to_numpy(), hits.values("q"), equal_nan=True)
        assert pa.table(c.table(where=c["p"] > 1)).num_rows == c.query("p > 1").count()
        assert pa.table(c.table(columns=["r"])).column_names == ["r.e", "r.v"]
        assert pa.table(c.table(where="p > 1e9")).num_rows == int(np.isinf(c["p"][...]).sum())
        assert pa.table(c.table(where="p < -1e9")).num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"columns": ["pp"]}, "pp"),
        ({"columns": "p"}, "list of names"),
        ({"where": "p >"}, "expected"),
        ({"where": "pp > 3"}, "pp"),
        ({"where": "name == 3"}, "texts"),
        ({"of": "planes"}, "blocks"),
        ({"of": "blocks", "where": "p > 3"}, "no condition"),
        ({"steps": 7}, "step"),
    ],
)
def test_a_table_that_cannot_be_says_why(path, arguments, says):
    with dry.open(path) as c, pytest.raises(dry.DrystoneError, match=says):
        pa.table(c.table(**arguments))


def test_variables_of_different_cells_need_names(tmp_path):
    with dry.create(tmp_path / "x.dry", durability="memory") as c:
        c["a"], c["b"] = np.arange(6.0).reshape(2, 3), np.arange(4)
        with pytest.raises(dry.InvalidArgumentError, match="different cells"):
            c.table()
        assert pa.table(c.table(columns=["b"]))["b"].to_pylist() == [0, 1, 2, 3]
        table = pa.table(c.table(where="a > 2"))
        assert table.column_names == ["dim_0", "dim_1", "a"]
        assert table["dim_0"].to_pylist() == [1, 1, 1]


def test_a_stream_that_is_not_used_or_half_used_is_released(path):
    with dry.open(path) as c:
        table = c.table()
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()
        reader = pa.RecordBatchReader.from_stream(c.table(columns=["p"]))
        batch = reader.read_next_batch()
        del reader
    gc.collect()
    assert batch.num_rows == 2 * 8 * ROWS
    assert batch.column(0).null_count == 4 * ROWS


def test_every_consumer_gets_a_stream_of_its_own(path):
    with dry.open(path) as c:
        table = c.table(columns=["p", "x"])
        first, second = pa.table(table), pa.table(table)
    assert first.num_rows == second.num_rows > 0


def test_an_error_while_rows_come_is_the_consumers_error(path, tmp_path):
    import shutil

    copy = shutil.copytree(path, tmp_path / "bad.dry")
    with dry.open(copy) as c:
        key, start, _ = c["q"].blocks(1)[0].place
        data = bytearray((copy / key).read_bytes())
        data[start + 9] ^= 1
        (copy / key).write_bytes(data)
        with pytest.raises(Exception, match=r"damaged|checksum|CRC"):
            pa.table(c.table(columns=["q"]))
        assert pa.table(c.table(columns=["i"])).num_rows


def test_blocks_are_rows_too(path):
    with dry.open(path) as c:
        table = pa.table(c.table(of="blocks", columns=["p", "n"]))
        assert table.num_rows == 4
        rows = table.to_pylist()
        assert rows[0]["variable"] == "p"
        assert (rows[0]["y_start"], rows[0]["y_stop"], rows[0]["cells"]) == (1, 7, 6 * ROWS)
        assert rows[0]["nans"] == int(np.isnan(c["p"][0, 1:7]).sum())
        assert rows[2]["max"] >= 2**63 - 1
        assert rows[2]["min"] <= -(2**63)


def scanned(c, ask):
    """Bytes read by an engine interface, as its last scan reports."""
    dataset = c.dataset()
    ask(dataset)
    return dataset.report.bytes


@pytest.fixture(scope="module")
def banded(tmp_path_factory):
    """Bands of values along y, chunked so that a condition excludes most of them."""
    path = tmp_path_factory.mktemp("bands") / "run.dry"
    with dry.create(path, durability="memory") as c:
        for name in ("p", "q"):
            c.create_variable(name, "f8", (256, 4096), dims=("y", "x"), chunks=(1, 4096))
            c[name][...] = np.arange(256.0)[:, None] + np.linspace(0, 0.9, 4096)
    return path


def test_a_door_reads_what_the_query_reads(banded):
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    datafusion = pytest.importorskip("datafusion")
    with dry.open(banded) as c:
        query = c.query("p < 3.5")
        query.values("q")
        native = query.report.bytes
        assert 0 < native <= 2 * 5 * 4096 * 8
        whole = 2 * 256 * 4096 * 8

        def in_duck(dataset):
            duckdb.sql("select sum(q) from dataset where p < 3.5").fetchall()

        def in_fusion(dataset):
            session = datafusion.SessionContext()
            session.register_dataset("t", dataset)
            session.sql("select sum(q) from t where p < 3.5").collect()

        for ask in (in_duck, in_fusion, lambda d: d.to_table(columns=["q"], filter=f("p") < 3.5)):
            assert scanned(c, ask) <= 1.2 * native
        table = c.table(where="p < 3.5", columns=["q"])
        for consume in (pa.table, pl.DataFrame, lambda t: duckdb.sql("select sum(q) from t").fetchall()):
            consume(table)
            assert table.report.bytes <= 1.2 * native
        # Not every engine pushes down `>`: `where` works in all.
        dataset = c.dataset(where="p > 254.5")
        assert duckdb.sql("select count(*) from dataset where q > 0").fetchall()[0][0] > 0
        assert dataset.report.bytes <= 1.2 * 2 * 2 * 4096 * 8 < whole / 10


def test_polars_reads_what_the_query_reads(banded, monkeypatch):
    pl = pytest.importorskip("polars")
    from drystone.tables import table as tables

    reports = []
    arrays = tables.Table.arrays

    def noted(self, rows=tables.ROWS):
        yield from arrays(self, rows)
        reports.append(self.report.bytes)

    monkeypatch.setattr(tables.Table, "arrays", noted)
    with dry.open(banded) as c:
        query = c.query("p < 3.5")
        query.values("p", "q")  # Polars also requests the columns of its filter
        lazy = c.scan_polars()
        reports.clear()
        assert lazy.filter(pl.col("p") < 3.5).select(pl.col("q").sum()).collect().item() > 0
        assert reports[-1] <= 1.2 * query.report.bytes
        assert lazy.select("q").head(10).collect().height == 10


def test_a_limit_reads_little(banded):
    with dry.open(banded) as c:
        table = c.table(columns=["q"])
        rows = next(table.arrays(10))[0]
        assert rows == 10
        assert table.report.bytes <= 2**16 * 8 * 1.01  # only the cells of a query's first batch


def test_pandas_and_dask_take_the_doors(path):
    pd = pytest.importorskip("pandas")
    with dry.open(path) as c:
        table = c.table(where="i > 0", columns=["step", "i"])
        frame = pd.DataFrame.from_arrow(table)
        assert frame["i"].sum() == c["i"][...][c["i"][...] > 0].sum()
        dd = pytest.importorskip("dask.dataframe")
        fragments = list(c.dataset(columns=["step", "n"]).get_fragments(f("step") == 1))
        assert [fragment.step for fragment in fragments] == [1]
        whole = dd.from_map(
            lambda fragment: fragment.to_table().to_pandas(),
            list(c.dataset(columns=["step", "i"]).get_fragments()),
        )
        counts = whole.groupby("step").i.count().compute(scheduler="sync")
        assert counts.tolist() == [8 * ROWS, 8 * ROWS]


def test_a_light_consumer_needs_no_pyarrow(path):
    arro3 = pytest.importorskip("arro3.core")
    with dry.open(path) as c:
        assert arro3.Table(c.table(where="i > 0")).num_rows == c.query("i > 0").count()


def test_a_program_that_leaves_streams_behind_ends(path):
    code = (
        "import drystone as dry, pyarrow as pa, sys\n"
        "c = dry.open(sys.argv[1])\n"
        "left = [c.dataset().scanner(columns=['p']).to_reader() for _ in range(3)]\n"
        "[reader.read_next_batch() for reader in left]\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)


def test_tables_show_in_notebooks(path):
    with dry.open(path) as c:
        shown = c.table(where="p > 1", columns=["p", "m"])._repr_html_()
        assert "p (float32)" in shown
        assert "null" in c.table(columns=["p"])._repr_html_()
        assert "variable" in c.table(of="blocks", columns=["p"])._repr_html_()


def test_polars_finds_floats_of_32_bits_as_in_a_frame(tmp_path):
    """Polars prints such constants with few digits, which are another number as a 64-bit float."""
    pl = pytest.importorskip("polars")
    values = np.array([0.1, 0.2, 0.3, 0.5, np.nan], "f4")
    with dry.create(tmp_path / "c.dry") as c:
        c["f"], c["g"] = values, values.astype("f8")
        frame = pl.DataFrame({"f": values, "g": values.astype("f8")})
        short = pl.col("f")
        conditions = [
            short == values[0],
            short == 0.1,
            short <= 0.3,
            short != values[0],
            short >= 0.2,
            short > 0.2,
        ]
        conditions += [
            short.is_between(0.1, 0.2),
            pl.col("g") == 0.1,
            pl.col("g") == values[0],
            pl.col("g") > 0.2,
        ]
        for condition in conditions:
            found = c.scan_polars().filter(condition).select("f").collect()["f"].to_list()
            np.testing.assert_array_equal(found, frame.filter(condition)["f"].to_list(), str(condition))


def test_texts_along_fewer_dimensions_repeat(tmp_path):
    with dry.create(tmp_path / "c.dry") as c:
        c.create_variable("f", "f4", (3, 2), dims=("y", "x"), data=np.arange(6, dtype="f4").reshape(3, 2))
        c.create_variable("s", str, (3,), dims=("y",), data=np.array(["a", "b", "c"], object))
        assert pa.table(c.table())["s"].to_pylist() == ["a", "a", "b", "b", "c", "c"]
        assert pa.table(c.table(columns=["f", "s"], where="f > 2")).to_pydict() == {
            "f": [3, 4, 5],
            "s": ["b", "c", "c"],
        }


def test_long_lists_of_values_are_pushed_down(tmp_path):
    with dry.create(tmp_path / "c.dry", durability="memory") as c:
        c.create_variable("i", data=np.arange(1000, dtype="i4"), dims=("x",))
        for number in (255, 256, 300, 700):
            wanted = pc.field("i").isin(list(range(0, 1000, 2))[:number])
            assert c.dataset().to_table(filter=wanted, columns=["i"]).num_rows == min(number, 500)


def test_nan_beside_unsigned_integers_is_the_engine_s(tmp_path):
    datafusion = pytest.importorskip("datafusion")
    with dry.create(tmp_path / "c.dry", durability="memory") as c:
        c.create_variable("p", data=np.array([np.nan, 2, 0], "f4"), dims=("x",))
        for name, dtype in (("b", "u1"), ("h", "u2"), ("w", "u4"), ("k", "u8")):
            c.create_variable(name, data=np.ones(3, dtype), dims=("x",))
        session = datafusion.SessionContext()
        session.register_dataset("door", c.dataset())
        session.register_record_batches("own", [pa.table(c.table()).to_batches()])
        for name in "bhwk":
            for condition in (
                f"p > 1 and {name} < 127",
                f"p > 1 and {name} <> 0",
                f"not (p <= 1) and {name} in (1, 2)",
            ):
                counts = [
                    session.sql(f"select count(*) n from {table} where {condition}").to_pydict()["n"]
                    for table in ("door", "own")
                ]
                assert counts == [[2], [2]], condition


def test_methods_of_pyarrow_s_datasets_work_on_cells(tmp_path):
    with dry.create(tmp_path / "c.dry", durability="memory") as c:
        c.create_variable("e", data=np.array([3.0, 1, 2]), dims=("x",))
        cells = c.dataset()
        assert cells.sort_by("e").to_table()["e"].to_pylist() == [1, 2, 3]
        assert cells.filter(pc.field("e") > 1).to_table()["e"].to_pylist() == [3, 2]
        joined = cells.join(c.dataset(), "x", right_suffix="_2").to_table()
        assert sorted(joined["e_2"].to_pylist()) == [1, 2, 3]


def test_counts_of_a_pushed_filter_read_no_more_than_the_query(tmp_path):
    with dry.create(tmp_path / "c.dry", durability="memory") as c:
        values = np.repeat(np.linspace(0, 1, 16), 65536).astype("f4")
        c.create_variable("g", data=values, dims=("x",), chunks=(65536,), transform="identity")
        for cells, filter_ in ((c.dataset(), pc.field("g") > 0.55), (c.dataset(where="g > 0.55"), None)):
            before = c.metrics()["read_bytes"]
            assert cells.count_rows(filter=filter_) == int((values > 0.55).sum())
            assert c.metrics()["read_bytes"] - before <= 65536 * 4
            assert cells.report is not None


def test_blocks_of_times_have_their_numbers(tmp_path):
    with dry.create(tmp_path / "c.dry", durability="memory") as c:
        c.create_variable(
            "t", data=np.array(["1970-01-01T00:00:02", "1970-01-01T00:00:05"], "M8[s]"), dims=("x",)
        )
        c.create_variable("d", data=np.array([1, 7], "m8[ms]"), dims=("x",))
        found = {
            row["variable"]: (row["min"], row["max"]) for row in pa.table(c.table(of="blocks")).to_pylist()
        }
        assert found == {"t": (2, 5), "d": (1, 7)}
        assert "blocks of 2 variables" in c.table(of="blocks")._repr_html_()


def test_constants_and_values_of_2_to_the_63_and_more_are_the_engine_s(tmp_path):
    datafusion = pytest.importorskip("datafusion")
    with dry.create(tmp_path / "c.dry", durability="memory") as c:
        c.create_variable("u", data=np.array([0, 3, 2**63 + 1, 2**64 - 1], "u8"), dims=("x",))
        c.create_variable("p", data=np.array([np.nan, 2, 0, 1], "f4"), dims=("x",))
        session = datafusion.SessionContext()
        session.register_dataset("door", c.dataset())
        session.register_record_batches("own", [pa.table(c.table()).to_batches()])
        for condition, count in (
            ("u <= 18446744073709551615", 4),
            ("u = 18446744073709551615", 1),
            ("u between 3 and 15682613484115485876", 2),
            ("u >= 1 or p is not null", 4),
            ("u in (3, 18446744073709551615) or p > 1", 3),
            ("u > 9223372036854775807 and p < 5", 2),
        ):
            for table in ("door", "own"):
                found = session.sql(f"select count(*) n from {table} where {condition}").to_pydict()["n"]
                assert found == [count], (table, condition)


def test_long_sets_and_chains_limit_the_read_by_their_range(tmp_path):
    """Symptom: "the expression has more than 4096 operators" for lists of more than 1,024 values. Cause: all of them
    became one query."""
    with dry.create(tmp_path / "run.dry", durability="memory") as c:
        c.create_variable("i", "i4", (20, 1000), chunks=(1, 1000))[...] = np.arange(20000).reshape(20, 1000)
        c.create_variable("p", "f4", (20, 1000), chunks=(1, 1000))[...] = (
            np.arange(20000).reshape(20, 1000) / 2
        )
        c["p"][3, 4] = np.nan
    c = dry.open(tmp_path / "run.dry")
    data = c.dataset(columns=["i", "p"])
    wanted = list(range(2000, 7000, 2))
    assert data.to_table(filter=pc.field("i").isin(wanted))["i"].to_pylist() == wanted
    assert data.report.bytes < 7 * 8000, "six of twenty chunks of each column"
    assert data.count_rows(pc.field("p").isin([np.nan, *(x / 2 for x in wanted)])) == len(wanted), (
        "a NaN for one"
    )
    assert data.count_rows(~pc.field("i").isin(wanted)) == 20000 - len(wanted)
    # The form in which pyarrow shows a filter to others doubles with each level.
    chain = pc.field("i") == wanted[0]
    for count, value in enumerate(wanted[1:200], 2):
        chain = chain | (pc.field("i") == value)
        if count in (5, 12, 30, 200):
            assert data.count_rows(chain & (pc.field("p") >= 0)) == count
    duckdb = pytest.importorskip("duckdb")
    cells = c.dataset(columns=["i", "p"])  # noqa: F841 (DuckDB finds it by its name)
    many = ", ".join(map(str, wanted))
    assert duckdb.sql(f"select count(*) from cells where i in ({many})").fetchall() == [(len(wanted),)]
    assert duckdb.sql(f"select count(*) from cells where i not in ({many})").fetchall() == [(17500,)]


def test_steps_without_a_block_of_the_columns_have_no_rows(tmp_path):
    with dry.create(tmp_path / "run.dry", durability="memory") as c:
        for name in "uT":
            c.create_variable(name, "f8", (4,), steps=True)
        with c.writer() as w:
            for n in range(6):
                with w.step():
                    w.put("u", np.full(4, n))
                    if n % 3 == 0:
                        w.put("T", np.full(4, 10 * n))
        c.commit()
        assert c.table(columns=["step", "T"]).count() == 8
        assert c.table(columns=["T"]).steps == [0, 3]
        assert pa.table(c.table(columns=["step", "T"]))["step"].to_pylist() == [0] * 4 + [3] * 4
        assert c.table(columns=["T"], steps=[1, 3]).count() == 4
        assert c.table(columns=["T"], steps=1).count() == 0
        assert c.table(columns=["u", "T"]).count() == 24
        assert c.dataset(columns=["u", "T"]).to_table(columns=["T"]).num_rows == 24, (
            "rows do not depend on the engine"
        )
        assert c.table(where="u > 1.5", columns=["T"]).count() == 4
        assert c.table().count() == 24


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_nan_beside_times_is_the_engine_s(tmp_path, unit):
    """Symptom: DataFusion, for which NaN is the greatest number, lost it beside a condition on a time."""
    times = np.arange("2020-01-01", "2020-01-11", dtype="M8[D]").astype(f"M8[{unit}]")
    with dry.create(tmp_path / "run.dry", durability="memory") as c:
        c.create_variable("t", data=times, dims=("i",))
        c.create_variable("p", data=np.where(np.arange(10) % 3 == 0, np.nan, np.arange(10.0)), dims=("i",))
    data = dry.open(tmp_path / "run.dry").dataset(columns=["t", "p"])
    local = data.to_table()
    limit = pa.scalar(
        times[4].item() if unit != "ns" else times[4].astype("M8[us]").item(), pa.timestamp("us")
    )
    for condition in (
        (pc.field("t") > limit) & (pc.field("p") > 5),
        (pc.field("t") <= limit) | (pc.field("p") >= 8),
        (pc.scalar(limit) < pc.field("t")) & ~(pc.field("p") > 7),
        pc.field("t") == limit,
    ):
        assert data.to_table(filter=condition)["t"].equals(local.filter(condition)["t"]), str(condition)
    datafusion = pytest.importorskip("datafusion")
    session = datafusion.SessionContext()
    session.register_dataset("cells", data)
    session.register_record_batches("own", [local.to_batches()])
    day = "TIMESTAMP '2020-01-05'"
    for where, rows in ((f"t > {day} AND p > 5", 4), (f"t <= {day} OR p >= 8", 8)):
        for name in ("cells", "own"):
            found = session.sql(f"select count(*) as n from {name} where {where}").to_pydict()
            assert found["n"] == [rows], (name, where)
