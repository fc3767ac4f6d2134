"""Catalogues: containers are found by tags, names and ranges as they were when added; outdated answers are marked."""

import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import drystone as dry
import numpy as np
import pytest
from server_rig import ALL, served


def make(folder, called, values=(), **tags):
    with dry.create(folder / called, durability="memory") as c:
        c.create_variable("p", "f4", (4,), attrs={"units": "Pa"})
        if len(values):
            c["p"][...] = np.asarray(values, "f4")
        if tags:
            c.tag(**tags)
    return folder / called


def make_runs(folder):
    folder.mkdir()
    make(folder, "a1.dry", [1, 2, 3, 4], campaign="alpha", dt=0.5, done=True, members=["x", "y"])
    make(folder, "a2.dry", [-1, 0, 0, 9], campaign="alphabet", dt=1, done=False, members=["y"])
    make(folder, "b1.dry", [5, 5, 5, 5], campaign="beta", big=2**63 + 1)
    make(folder, "none.dry")
    return folder


@pytest.fixture
def runs(tmp_path):
    return make_runs(tmp_path / "runs")


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A catalogue that tests do not change."""
    folder = tmp_path_factory.mktemp("asked")
    catalogue = dry.catalog(folder / "catalogue")
    assert catalogue.add(make_runs(folder / "runs")).added == 4
    return catalogue


@pytest.fixture
def known(runs, tmp_path):
    catalogue = dry.catalog(tmp_path / "catalogue")
    assert catalogue.add(runs).added == 4
    return catalogue


def names(matches):
    return [Path(m.path).name for m in matches]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("campaign == 'alpha'", ["a1.dry"]),
        ("campaign == 'alpha*'", ["a1.dry", "a2.dry"]),
        ("campaign == '*bet'", ["a2.dry"]),
        ("campaign == '*et*'", ["a2.dry", "b1.dry"]),
        ("campaign == 'a*a*t'", ["a2.dry"]),
        ("campaign != 'alpha'", ["a2.dry", "b1.dry"]),
        ("~(campaign == 'alpha')", ["a2.dry", "b1.dry"]),
        ("campaign > 'alpha' & campaign < 'b'", ["a2.dry"]),
        ("dt == 1.0", ["a2.dry"]),
        ("dt < 1", ["a1.dry"]),
        ("0.5 <= dt <= 1", ["a1.dry", "a2.dry"]),
        ("dt == 'x'", []),
        ("dt != 'x'", []),
        ("done", ["a1.dry"]),
        ("~done", ["a2.dry"]),
        ("done == false", ["a2.dry"]),
        ("members == 'y'", ["a1.dry", "a2.dry"]),
        ("members != 'x'", ["a2.dry"]),
        ("big == 9223372036854775809", ["b1.dry"]),
        ("big == 9223372036854775808", []),
        ("max(p) > 4", ["a2.dry", "b1.dry"]),
        ("min(p) < 0 & max(p) > 3", ["a2.dry"]),
        ("max(p) == 4", ["a1.dry"]),
        ("name == 'a*'", ["a1.dry", "a2.dry"]),
        ("path == '*/b1.dry'", ["b1.dry"]),
        ("variable == 'p'", ["a1.dry", "a2.dry", "b1.dry", "none.dry"]),
        ("p.units == 'Pa'", ["a1.dry", "a2.dry", "b1.dry", "none.dry"]),
        ("campaign == 'beta' | done", ["a1.dry", "b1.dry"]),
        ("campaign == 'beta' ^ done", ["a1.dry"]),
        ("true", ["a1.dry", "a2.dry", "b1.dry", "none.dry"]),
    ],
)
def test_a_question_finds_what_it_means(asked, question, expected):
    matches = asked.find(question)
    assert names(matches) == expected
    assert not any(m.stale for m in matches)


def test_an_attribute_goes_before_what_every_container_has(tmp_path):
    make(tmp_path, "x.dry", name="called otherwise")
    make(tmp_path, "y.dry")
    known = dry.catalog(tmp_path / "catalogue")
    known.add(tmp_path)
    assert names(known.find("name == 'called*'")) == ["x.dry"]
    assert names(known.find("name == '*.dry'")) == ["y.dry"]


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("", "empty"),
        ("campaign = 'a'", "=="),
        ("campaign == 'a", "no end"),
        ("campagin == 'a'", "did you mean `campaign`"),
        ("max(q) > 3", "max(p)"),
        ("dt + 1 > 3", "arithmetic"),
        ("dt == big", "constant"),
        ("max(p, 3) > 2", "no arithmetic"),
        ("max(3) > 2", "variable"),
        ("sqrt(dt) > 2", "arithmetic"),
        ("done > true", "order"),
        ("campaign", "is no truth value: compare it"),
        ("done | max(p)", "`max(p)` is no truth value"),
        ("~name", "is no truth value"),
        ("3", "not a condition"),
        ("'a'", "not a condition"),
        ("p[x+1] == 2", "neighbours"),
        ("(" * 5000 + "done" + ")" * 5000, "too many brackets"),
    ],
)
def test_a_question_that_is_wrong_says_how(asked, question, says):
    with pytest.raises((dry.InvalidArgumentError, dry.NotFoundError), match=r"(?s).*") as caught:
        asked.find(question)
    assert says in str(caught.value)


def test_an_empty_catalogue_has_no_answer(tmp_path):
    known = dry.catalog(tmp_path / "catalogue")
    assert len(known) == 0
    assert list(known.find("whatever == 3")) == []


def test_what_changed_is_stale_and_fresh_looks_again(known, runs):
    with dry.open(runs / "a1.dry", mode="r+") as c:
        c.tag(campaign="gamma")
    (stale,) = known.find("campaign == 'alpha'")
    assert stale.stale
    assert stale.snapshot < dry.open(runs / "a1.dry").snapshot.version
    assert names(known.find("campaign == 'gamma'", fresh=True)) == ["a1.dry"]
    assert not known.find("campaign == 'gamma'")[0].stale
    assert names(known.find("campaign == 'alpha'")) == []


def test_a_container_that_was_replaced_is_stale(known, runs):
    dry.create(runs / "a1.dry", overwrite=True).close()
    assert [m.stale for m in known.find("campaign == 'alpha'")] == [True]
    with pytest.raises(dry.NotFoundError):
        dry.catalog(known.path).find("nothing == 1", fresh=True)
    assert names(known.find("campaign == 'alpha'")) == []


def test_a_container_that_was_replaced_by_an_empty_one_is_known_again(known, runs):
    """Its snapshot is number 0, and it stayed stale after every update."""
    dry.create(runs / "b1.dry", overwrite=True).close()
    assert [Path(p).name for p in known.check(update=True).stale] == ["b1.dry"]
    assert known.check().stale == []
    assert known.add(runs).unchanged == 4


def test_missing_containers_are_counted_and_not_shown(known, runs):
    (runs / "b1.dry").rename(runs.parent / "elsewhere.dry")
    with pytest.warns(dry.DrystoneWarning, match="no longer exist"):
        found = known.find("campaign == 'beta'")
    assert list(found) == []
    assert found.gone == 1
    assert known.check().gone == [str(runs / "b1.dry")]
    assert known.check(update=True).gone
    assert known.check()
    assert len(known) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user, as root can be one")
def test_containers_without_permission_are_not_shown(known, runs):
    for folder in [*runs.parents][:4]:
        if folder.owner() == "root" and folder not in (Path("/"), Path("/tmp")):
            folder.chmod(0o755)
    (runs / "a2.dry").chmod(0o700)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = dry.catalog(known.path).find("campaign == 'alpha*'")
            answer = f"{names(found)} {found.closed}"
        except dry.DrystoneError as error:
            answer = str(error)
        os.write(writing, answer.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 4096).decode() == "['a1.dry'] 1"


def test_adding_again_looks_only_at_what_changed(known, runs):
    with dry.open(runs / "a1.dry", mode="r+") as c:
        c.tag(campaign="delta")
    done = known.add(runs)
    assert (done.added, done.unchanged) == (1, 3)
    assert names(known.find("campaign == 'delta'")) == ["a1.dry"]
    assert len(known) == 4


def test_many_small_additions_become_few_pages(tmp_path):
    known = dry.catalog(tmp_path / "catalogue")
    for n in range(40):
        known.add(make(tmp_path / "runs", f"r{n}.dry", n=n, parity="odd" if n % 2 else "even"))
    assert len(list((tmp_path / "catalogue" / "pages").iterdir())) < 20
    again = dry.catalog(tmp_path / "catalogue")
    assert len(again.find("parity == 'odd'")) == 20
    assert names(again.find("10 <= n < 12")) == ["r10.dry", "r11.dry"]
    assert known.check()


def test_processes_that_add_at_once_all_land(tmp_path):
    for n in range(24):
        make(tmp_path / "runs", f"r{n}.dry", n=n)
    dry.catalog(tmp_path / "catalogue")
    code = "import drystone as dry, sys; c = dry.catalog(sys.argv[1])\nfor p in sys.argv[2:]: c.add(p)"

    def add(part):
        paths = [str(tmp_path / "runs" / f"r{n}.dry") for n in range(part, 24, 4)]
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "catalogue"), *paths], check=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    known = dry.catalog(tmp_path / "catalogue")
    assert len(known) == 24
    assert len(known.find("n >= 0")) == 24
    assert known.check()


def test_readers_find_all_while_pages_are_merged(tmp_path):
    paths = [make(tmp_path / "runs", f"r{n}.dry", n=n) for n in range(30)]
    known = dry.catalog(tmp_path / "catalogue")
    known.add(paths[:5])
    other = dry.catalog(tmp_path / "catalogue")
    for path in paths[5:]:
        known.add(path)
        assert len(other.find("n < 5")) == 5


def test_a_rebuild_beside_additions_and_removals_leaves_one_entry_of_each(tmp_path):
    """Symptom: a container that was added during a rebuild was found twice from then on, and a removed one came back;
    calls failed because another process had merged a page."""
    runs = [make(tmp_path / "runs", f"r{n}.dry", n=n) for n in range(6)]
    place = tmp_path / "catalogue"
    dry.catalog(place).add(runs)
    with warnings.catch_warnings(), ThreadPoolExecutor(3) as pool:
        warnings.simplefilter("error")
        for turn in range(25):
            with dry.open(runs[0], "r+") as c:
                c.tag(k=turn)
            if turn % 2:
                dry.catalog(place).add(runs[1])
            changed = dry.catalog(place).forget if turn % 2 else dry.catalog(place).add
            others = [pool.submit(dry.catalog(place).rebuild), pool.submit(dry.catalog(place).rebuild)]
            others += [pool.submit(changed, runs[1]), pool.submit(dry.catalog(place).add, runs[0])]
            for other in others:
                other.result()
            found = names(dry.catalog(place).find("n >= 0"))
            gone = {"r1.dry"} if turn % 2 else set()
            assert sorted(found) == sorted({path.name for path in runs} - gone), turn
    assert not dry.catalog(place).check().damage


def test_damage_is_an_error_and_a_rebuild_mends_it(known, runs):
    (page,) = (Path(known.path) / "pages").iterdir()
    data = bytearray(page.read_bytes())
    for at in range(8, len(data), 37):
        data[at] ^= 0x10
    page.write_bytes(data)
    fresh = dry.catalog(known.path)
    with pytest.raises(dry.CorruptError, match="rebuild"):
        fresh.find("campaign == 'alpha'")
    assert fresh.check().damage
    with pytest.warns(dry.DrystoneWarning):
        fresh.rebuild()
    fresh.add(runs)
    assert names(fresh.find("campaign == 'alpha'")) == ["a1.dry"]
    assert fresh.check()


def test_a_folder_of_something_else_is_refused(tmp_path, runs):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "data.txt").write_text("mine")
    with pytest.raises(dry.ConflictError):
        dry.catalog(tmp_path / "full")
    with pytest.raises(dry.ConflictError):
        dry.catalog(runs / "a1.dry")
    with pytest.raises(dry.NotFoundError):
        dry.catalog(tmp_path / "nothing", make=False)
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(dry.NotFoundError):
        dry.catalog(tmp_path / "catalogue").add(tmp_path / "nowhere")


def test_what_cannot_be_read_is_named_and_the_rest_is_added(tmp_path, runs):
    (runs / "broken.dry").mkdir()
    (runs / "broken.dry" / "drystone.json").write_text("{}")
    known = dry.catalog(tmp_path / "catalogue")
    with pytest.warns(dry.DrystoneWarning, match=r"broken\.dry"):
        done = known.add(runs)
    assert done.added == 4
    assert list(done.failed) == [str(runs / "broken.dry")]


def test_tags_are_attributes(tmp_path):
    with dry.create(tmp_path / "x.dry") as c:
        c.create_variable("g/t", "f8", (2,))
        c.tag({"my key": [1, 2]}, campaign="a", dt=np.float32(0.5))
        c["g/t"].tag(units="K")
        c["g"].tag(owner="me")
        c.tag(campaign=None)
        c.tag(campaign=None)
        assert dict(c.attrs) == {"my key": [1, 2], "dt": 0.5}
        assert c["g/t"].attrs["units"] == "K"
        with pytest.raises(dry.InvalidArgumentError):
            c.tag()
    known = dry.catalog(tmp_path / "catalogue")
    known.add(tmp_path / "x.dry")
    for question in ("`my key` == 2", "dt == 0.5", "g/t.units == 'K'", "g.owner == 'm*'"):
        assert names(known.find(question)) == ["x.dry"], question
    assert "min(g/t)" not in known.names
    assert {"dt", "g/t.units", "path"} <= set(known.names)


def test_ranges_are_of_all_steps_and_members(tmp_path):
    with dry.create(tmp_path / "x.dry") as c:
        c.create_variable("r", np.dtype([("e", "f8"), ("n", "u8")]), (3,), steps=True)
        with c.writer(rank=0, nranks=1) as w:
            for step in range(3):
                with w.step():
                    block = np.zeros(3, c["r"].dtype)
                    block["e"], block["n"] = step - 1.5, 2**63 + step
                    w.put("r", block)
    known = dry.catalog(tmp_path / "catalogue")
    known.add(tmp_path / "x.dry")
    assert len(known.find(f"min(r.e) == -1.5 & max(r.e) == 0.5 & max(r.n) == {2**63 + 2} & steps == 3")) == 1


def test_matches_show_in_notebooks(known):
    matches = known.find("campaign == 'alpha*'")
    assert "a1.dry" in matches._repr_html_()
    assert "2 containers" in repr(matches)
    with matches[0].open() as c:
        assert c.attrs["campaign"] == "alpha"


def test_the_command_adds_finds_and_checks(runs, tmp_path):
    def run(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "drystone", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    run("tag", runs / "none.dry", "campaign=zeta", "n=3", "flag=true")
    assert json.loads(run("tag", runs / "none.dry", "--json"))["tags"] == {
        "campaign": "zeta",
        "n": 3,
        "flag": True,
    }
    known = tmp_path / "catalogue"
    assert "4 containers added" in run("catalog", "add", known, runs)
    assert "none.dry" in run("catalog", "find", known, "campaign == 'z*' & flag")
    assert json.loads(run("catalog", "find", known, "n == 3", "--json"))["found"][0]["stale"] is False
    run("tag", runs / "none.dry", "n=")
    assert "changed" in run("catalog", "check", known)
    run("catalog", "check", known, "--update")
    assert "no container matches" in run("catalog", "find", known, "campaign == 'zz'")
    run("catalog", "find", tmp_path / "typo", "n == 3", code=3)


def test_random_questions_mean_what_three_values_mean(tmp_path):
    """A model: the values of every container by key, three-valued comparisons, combined in Python."""
    random = np.random.default_rng(114)
    values = [3, 3.0, 2.5, -1, 2**63, float("nan"), "a", "ab", "b", "", True, False]
    keys, known = ("k", "l", "m"), {}
    for n in range(30):
        tags = {}
        for key in keys:
            if random.random() < 0.7:
                some = [values[i] for i in random.integers(0, len(values), random.integers(1, 3))]
                tags[key] = some if len(some) > 1 else some[0]
        make(tmp_path / "runs", f"r{n:02}.dry", **tags)
        known[f"r{n:02}.dry"] = {k: v if isinstance(v, list) else [v] for k, v in tags.items()}

    def kind(v):
        return "bool" if isinstance(v, bool) else "text" if isinstance(v, str) else "number"

    compare = {
        "==": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    }  # fmt: skip

    def leaf():
        key, value = keys[random.integers(3)], values[random.integers(len(values))]
        op = ["==", "!=", "<", "<=", ">", ">="][random.integers(6)]
        if kind(value) == "bool":
            op = op if op in ("==", "!=") else "=="
        shown = f"'{value}'" if isinstance(value, str) else str(value).lower()

        def truth(tags):
            alike = [v for v in tags.get(key, []) if kind(v) == kind(value)]
            if not alike:
                return None
            hit = any(compare["==" if op == "!=" else op](v, value) for v in alike)
            return hit != (op == "!=")

        return f"{key} {op} {shown}", truth

    def tree(depth):
        if depth == 0 or random.random() < 0.2:
            return leaf()
        how = random.integers(3)
        a, of_a = tree(depth - 1)
        if how == 0:
            return f"~({a})", lambda tags: None if of_a(tags) is None else not of_a(tags)
        b, of_b = tree(depth - 1)

        def joined(tags):
            found = {of_a(tags), of_b(tags)}
            decides = how == 2
            return decides if decides in found else None if None in found else not decides

        return f"({a}) {'&' if how == 1 else '|'} ({b})", joined

    catalogue = dry.catalog(tmp_path / "catalogue")
    catalogue.add([tmp_path / "runs" / f"r{n:02}.dry" for n in range(10)])
    catalogue.add(tmp_path / "runs")
    for _ in range(3000 if os.environ.get("DRYSTONE_LONG") else 300):
        text, truth = tree(3)
        assert names(catalogue.find(text)) == [name for name, tags in known.items() if truth(tags)], text


def test_tags_may_be_lists_and_arrays(tmp_path):
    """Symptom: NumPy compared an array with None element by element, which raised ValueError."""
    with dry.create(tmp_path / "c") as c:
        c.tag(numbers=np.array([1, 2]), words=np.array(["a", "b"]), kept=1)
        c.tag(numbers=np.array([3, 4]), kept=None)
        assert list(c.attrs["numbers"]) == [3, 4]
        assert list(c.attrs["words"]) == ["a", "b"]
        assert "kept" not in c.attrs


def test_options_of_a_local_catalogue_are_for_its_containers_at_urls(tmp_path):
    """Symptom: a local catalogue refused `storage_options`, so a token of a server could not be given."""
    with dry.create(tmp_path / "here.dry") as c:
        c.tag(campaign="a")
    (tmp_path / "server").mkdir()
    with served(tmp_path / "server") as server:
        url, token = f"{server.url}/scratch/there.dry", server.token(*ALL)
        with dry.create(url, token=token) as c:
            c.tag(campaign="b")
        catalogue = dry.catalog(tmp_path / "catalogue", storage_options={"token": token})
        assert len(catalogue.add(tmp_path / "here.dry", url).failed) == 0
        assert [match.path for match in catalogue.find("campaign == 'a'")] == [str(tmp_path / "here.dry")]
        assert [match.path for match in catalogue.find("campaign == 'b'")] == [url]
        assert catalogue.check()
