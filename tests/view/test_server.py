"""What `drystone view` answers: the values of NumPy to the one who may ask, and one line to everybody else."""

import http.client
import json
import re
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import drystone as dry
import numpy as np
import pytest
from drystone import view
from drystone.view import Server
from drystone.view.questions import Questions

PAGE = Path(view.__file__).parent / "page"


class Asking:
    """A client that has the key."""

    def __init__(self, server):
        self.port = server.port
        self.headers = {"Cookie": f"drystone-{server.port}={server.key}"}

    def raw(self, path, method="GET", headers=None, host=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            for name, value in (self.headers if headers is None else headers).items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def __call__(self, question, status=200, /, **query):
        found, _, body = self.raw(f"/api/{question}?{urlencode(query)}")
        said = json.loads(body)
        assert found == status, said
        return said

    def picture(self, **query):
        status, _, body = self.raw(f"/api/picture?{urlencode(query)}")
        assert status == 200, body
        (length,) = struct.unpack_from("<I", body)
        header = json.loads(body[4 : 4 + length])
        values = np.frombuffer(body, f"<{header['dtype']}", offset=4 + length)
        return header, values.reshape(header["shape"])

    def refused(self, question, status, /, **query):
        """The one line that says why."""
        said = self(question, status, **query)["error"]
        assert said
        assert "\n" not in said
        return said


@pytest.fixture(scope="module")
def ask(served):
    return Asking(served[1])


def test_planes_are_those_of_numpy(served, ask):
    c, _ = served
    T = c["fields/temperature"]
    header, values = ask.picture(name="fields/temperature", place="2,3,:,:")
    np.testing.assert_array_equal(values, T[2, 3])
    assert header["axes"] == [2, 3]
    assert header["min"] == T[2, 3].min()
    assert header["mean"] == pytest.approx(T[2, 3].mean(dtype="f8"))
    assert sum(header["counts"]) == T[2, 3].size
    header, values = ask.picture(name="fields/temperature", place=":,1,5:30,7", down=2)
    np.testing.assert_array_equal(values, T[:, 1, 5:30, 7].T)
    assert (header["axes"], header["starts"]) == ([2, 0], [5, 0])
    _, values = ask.picture(name="fields/temperature", place=":,1,5,7")
    np.testing.assert_array_equal(values, T[:, 1, 5, 7])


def test_large_arrays_are_read_with_strides(served, ask):
    c, _ = served
    header, values = ask.picture(name="wide", place=":,:", most=100)
    assert header["strides"] == [30, 21]
    np.testing.assert_array_equal(values, c["wide"][::30, ::21])
    header, values = ask.picture(name="wide", place="100:160,:", most=100)
    np.testing.assert_array_equal(values, c["wide"][100:160, ::21])


def test_what_would_read_too_much_says_how_much_and_is_read_when_that_is_allowed(ask):
    said = ask("picture", 413, name="wide", place=":,:", limit=1000)
    assert said["costs"] > 1000
    assert "bytes" in said["error"]
    header, _ = ask.picture(name="wide", place=":,:", limit=said["costs"])
    assert header["read"] == said["costs"]


def test_values_that_stand_for_nothing_are_left_out_and_packed_ones_unpacked(served, ask):
    c, _ = served
    stored = c["packed"][...]
    header, values = ask.picture(name="packed", place=":,:")
    np.testing.assert_array_equal(values, np.where(stored == -99, np.nan, stored * 0.5 + 10))
    assert header["left_out"] == (stored == -99).sum() == header["nans"]
    _, values = ask.picture(name="packed", place=":,:", plain=1)
    np.testing.assert_array_equal(values, stored)


@pytest.mark.parametrize(
    ("kind", "stands", "left_out"),
    [
        ("i4", {"_FillValue": 1.5}, 0),
        ("i4", {"_FillValue": 1.0, "missing_value": [2, 3]}, 3),
        ("?", {"_FillValue": 5}, 0),
        ("f4", {"missing_value": 1e300}, 0),
        ("f4", {"_FillValue": np.float64(0.1)}, 1),
        ("i4", {"missing_value": [[1], [2, 3]]}, 0),
    ],
)
def test_only_what_stands_for_nothing_is_left_out(tmp_path, kind, stands, left_out):
    """1.5 was taken for 1, 5 for True, and 1e300 for an infinity, which it is as another type."""
    values = np.array([1, 2, 3, 4] if kind == "i4" else [1, 0.1, np.inf, 0], kind)
    with dry.create(tmp_path / "x.dry") as c:
        c.create_variable("v", kind, (4,), attrs=stands)[...] = values
        found = Questions(c).ask("picture", {"name": "v", "place": ":"})
    assert found.header["left_out"] == left_out
    assert np.isnan(found.values).sum() == left_out


@pytest.mark.parametrize(
    ("part", "of"), [("re", np.real), ("im", np.imag), ("abs", np.abs), ("phase", np.angle)]
)
def test_complex_numbers_show_their_parts(served, ask, part, of):
    _, values = ask.picture(name="fields/wave", place=":,:", part=part)
    np.testing.assert_allclose(values, of(served[0]["fields/wave"][...]), rtol=1e-12)


def test_members_of_records_and_their_own_axes(served, ask):
    c, _ = served
    found = ask("variable", name="fields/velocity")
    assert [member["name"] for member in found["members"]] == ["x", "name", "w"]
    _, values = ask.picture(name="fields/velocity", member="x", place=":,:")
    np.testing.assert_array_equal(values, c["fields/velocity"]["x"][...])
    assert ask("variable", name="fields/velocity", member="w")["shape"] == [40, 60, 2]
    _, values = ask.picture(name="fields/velocity", member="w", place="3,:,:")
    np.testing.assert_array_equal(values, c["fields/velocity"]["w"][3])
    assert ask("texts", name="fields/velocity", place="0,0")["cells"] == [
        ["(x: 280.0, name: ab, w: [1.5 2.5])"]
    ]


def test_cells_as_texts_hold_every_digit(served, ask):
    assert ask("texts", name="whole", place="")["cells"] == [[str(2**60 + 1)]]
    assert ask("texts", name="texts", place=":")["cells"] == [["plain"], ["<b>bold</b>"], ["ünï\ncode"]]
    found = ask("texts", name="fields/wave", place="0,0")["cells"]
    assert found == [[str(served[0]["fields/wave"][0, 0])]]


def test_local_variables_show_block_by_block(served, ask):
    found = ask("variable", name="each", block=1)
    shapes = [block["shape"] for block in found["blocks"]]
    assert sorted(shapes) == [[4], [7]]
    assert found["shape"] == shapes[1]
    _, values = ask.picture(name="each", block=shapes.index([7]), place=":")
    np.testing.assert_array_equal(values, np.arange(7))
    assert "no block 2" in ask.refused("variable", 404, name="each", block=2)


def test_coordinates_and_times_come_with_a_variable(served, ask):
    found = ask("variable", name="fields/temperature")
    assert found["axes"] == ["step", "z", "lat", "lon"]
    assert found["coordinates"][0] is None
    assert found["coordinates"][2]["values"] == served[0]["lat"][...].tolist()
    assert found["coordinates"][2]["units"] == "degrees_north"


def test_what_is_stored_about_values_is_told_without_reading_them(served, ask):
    c, _ = served
    T = c["fields/temperature"]
    found = ask("statistics", name="fields/temperature", step=1)
    assert (found["min"], found["max"]) == (T[1].min(), T[1].max())
    assert found["blocks"] == 2
    assert found["cells"] == T[1].size
    assert found["counts"] is None  # subchunks of 1800 cells have no histogram
    found = ask("sample", name="fields/temperature", place="1,:,:,:")
    assert (found["count"], found["stride"]) == (T[1].size, 1)
    assert found["mean"] == pytest.approx(T[1].mean(dtype="f8"))
    found = ask("sample", name="wide", cells=10_000)
    assert found["count"] <= 10_000
    assert found["of"] == 3000 * 2100


def test_the_layout_tells_blocks_writers_and_bytes(served, ask):
    found = ask("layout", name="fields/temperature", step=0)
    assert [(b["offset"], b["shape"], b["writer"]) for b in found["blocks"]] == [
        ([0, 0, 0], [6, 20, 60], "0"),
        ([0, 20, 0], [6, 20, 60], "1"),
    ]
    for block in found["blocks"]:
        key, start, stop = block["place"]
        assert (Path(served[0].path) / key).stat().st_size >= stop
        assert stop - start >= block["stored"] > 0
        assert block["chunks"] == [3, 20, 30]
    assert "1 block" in ask("plan", name="fields/temperature", place="0,:,0:20,:")["plan"]


def test_the_container_tells_what_it_takes_and_what_waits(served, ask):
    found = ask("container")
    assert found["backlog"] == "nothing waits"
    assert found["steps"] == {"count": 3, "first": 0, "last": 2}
    assert found["bytes"] == sum(f.stat().st_size for f in Path(served[0].path).rglob("*") if f.is_file())
    assert {one["name"] for one in found["usage"]} == set(served[0].variables)
    assert {one["name"] for one in ask("tree")["variables"]} == set(served[0].variables)


def test_earlier_snapshots_can_be_asked_for(served, ask):
    c, _ = served
    first = next(s for s in c.snapshots if c.at(s).steps == [0])
    assert ask("variable", name="fields/temperature", snapshot=int(first))["shape"][0] == 1
    _, values = ask.picture(name="fields/temperature", place="0,0,:,:", snapshot=int(first))
    np.testing.assert_array_equal(values, c["fields/temperature"][0, 0])
    assert "snapshot" in ask.refused("tree", 404, snapshot=999)


@pytest.mark.parametrize(
    ("name", "status", "query", "says"),
    [
        ("picture", 404, {"name": "no such", "place": ":"}, "no such"),
        ("picture", 404, {"name": "../../etc/passwd", "place": ":"}, "passwd"),
        ("picture", 400, {"name": "series"}, "axes"),
        ("picture", 400, {"name": "series", "place": ":,:"}, "2 axes, the array 1"),
        ("picture", 400, {"name": "series", "place": "0:501"}, "500 cells"),
        ("picture", 400, {"name": "series", "place": "-1:4"}, "outside"),
        ("picture", 400, {"name": "series", "place": "9:9"}, "outside"),
        ("picture", 400, {"name": "series", "place": "x:y"}, "not a position"),
        ("picture", 400, {"name": "series", "place": "5"}, "one or two axes"),
        ("picture", 400, {"name": "series", "place": ":", "most": 10**9}, "most"),
        ("picture", 400, {"name": "series", "place": ":", "most": "nan"}, "whole number"),
        ("picture", 400, {"name": "series", "place": ":", "most": "²"}, "whole number"),
        ("picture", 400, {"name": "series", "place": ":", "limit": "9" * 30}, "whole number"),
        ("picture", 400, {"name": "fields/temperature", "place": ":,:,:,:"}, "two axes"),
        ("picture", 400, {"name": "fields/wave", "place": ":,:", "part": "soul"}, "phase"),
        ("picture", 400, {"name": "texts", "place": ":"}, "not drawn"),
        ("picture", 400, {"name": "fields/velocity", "place": ":,:"}, "not drawn"),
        ("picture", 404, {"name": "fields/velocity", "member": "y", "place": ":,:"}, "member"),
        ("picture", 400, {"name": "empty", "place": ":,:"}, "0 cells"),
        ("layout", 400, {"name": "fields/temperature", "step": 7}, "7 is out of bounds"),
        ("statistics", 400, {"name": "fields/velocity"}, "member"),
        ("soul", 404, {}, "no such question"),
        ("variable", 400, {"name": "x" * 5000}, "too long"),
    ],
)
def test_a_bad_question_gets_one_line_that_helps(ask, name, status, query, says):
    assert says in ask.refused(name, status, **query)


def test_only_who_has_the_key_is_answered(served, ask):
    _, server = served
    for headers in (
        {},
        {"Cookie": "drystone-1=x"},
        {"Cookie": f"drystone-{server.port}=wrong"},
        {"Cookie": "\x01"},
    ):
        for path in ("/", "/main.js", "/api/tree", "/?key=wrong"):
            assert ask.raw(path, headers=headers)[0] == 403
    status, headers, body = ask.raw(f"/?key={server.key}", headers={})
    assert status == 200
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert server.key.encode() not in body


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil:80",
        "",
        "10.0.0.7:8737",
        "[::2]:80",
    ],
)
def test_names_that_were_made_to_point_here_are_refused(ask, host):
    status, _, body = ask.raw("/api/tree", host=host or " ")
    assert status == 403
    assert b"this machine" in body


@pytest.mark.parametrize("name", ["localhost:{}", "127.0.0.1:{}", "[::1]:{}", "localhost", "localhost:9999"])
def test_the_names_of_this_machine_are_taken_by_whatever_tunnel(served, ask, name):
    assert ask.raw("/api/tree", host=name.format(served[1].port))[0] == 200


@pytest.mark.parametrize(
    "more",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_may_not_ask(ask, more):
    status, headers, body = ask.raw("/api/tree", headers={**ask.headers, **more})
    assert status == 403
    assert b"other sites" in body
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"])
def test_only_get_is_answered(ask, method):
    status, headers, body = ask.raw("/api/tree", method=method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"
    assert b"only GET" in body
    assert ask.raw("/api/tree", method="HEAD")[2] == b""


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/%2e%2e/server.py",
        "/..%2fserver.py",
        "//etc/passwd",
        "/page/main.js",
        "/main.js/",
        "/main.js%00",
        "/__init__.py",
    ],
)
def test_no_path_leads_out_of_the_page(ask, path):
    status, _, body = ask.raw(path)
    assert status == 404
    assert b"root:" not in body


def test_answers_forbid_what_the_page_does_not_need(ask):
    for path in ("/", "/main.js", "/api/tree"):
        _, headers, _ = ask.raw(path)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask.raw("/style.css")[1]["Content-Type"] == "text/css; charset=utf-8"


def test_a_question_of_a_mile_is_refused(ask):
    assert ask.raw(f"/api/tree?x={'y' * 9000}")[0] == 414
    assert ask.raw(f"/api/tree?x={'y' * 70000}")[0] == 414


def test_the_page_takes_nothing_from_elsewhere():
    for file in PAGE.iterdir():
        text = re.sub(r"http://www\.w3\.org/\S*", "", file.read_text())
        assert not re.search(r"https?://", text), file.name
        assert "innerHTML" not in text
        assert not re.search(r"\beval\(|new Function", text)


def test_many_ask_at_once_and_nothing_is_written(served, ask):
    c, _ = served
    files = {f: f.stat().st_mtime_ns for f in Path(c.path).rglob("*") if f.is_file()}
    places = [(s, z) for s in range(3) for z in range(6)] * 4
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(
            lambda p: ask.picture(name="fields/temperature", place=f"{p[0]},{p[1]},:,:")[1], places
        )
        for (step, z), values in zip(places, found, strict=True):
            np.testing.assert_array_equal(values, c["fields/temperature"][step, z])
    assert {f: f.stat().st_mtime_ns for f in Path(c.path).rglob("*") if f.is_file()} == files


def test_a_server_that_is_closed_gives_its_port_back(served):
    c, _ = served
    first = Server(c)
    with first.start():
        port = first.port
    with Server(c, port).start() as again:
        assert again.port == port
    assert not [t for t in threading.enumerate() if t.name == "drystone-view" and not t.daemon]


def test_numbers_too_close_for_a_histogram_are_drawn(tmp_path):
    """Beside 2^63 one bin is narrower than floats can tell, and the answer was empty."""
    with dry.create(tmp_path / "c.dry", durability="memory") as c:
        c.create_variable("n", "u8", (4, 5))[...] = 2**63 + np.arange(20, dtype="u8").reshape(4, 5)
        with Server(c).start() as server:
            header, values = Asking(server).picture(name="n", place=":,:", down=0)
    assert (header["counts"], header["edges"][0]) == ([20], 2.0**63)
    assert values.shape == (4, 5)


def test_a_mistake_in_an_answer_is_told(served, ask, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(served[1]._questions, "ask", fails)
    assert (
        ask.refused("tree", 500)
        == "internal error in drystone, please report it: ZeroDivisionError: of all things"
    )


def test_many_connections_at_once_do_not_wait_for_each_other(served, ask):
    """The system kept five, and whoever came sixth was heard a second later: 200 took half a minute."""
    began = time.monotonic()
    held = [socket.create_connection(("127.0.0.1", ask.port), 30) for _ in range(200)]
    try:
        for one in held:
            one.sendall(b"GET / HT")
        assert ask("tree")
    finally:
        for one in held:
            one.close()
    assert time.monotonic() - began < 15


def test_a_closed_container_is_not_served(tmp_path):
    c = dry.create(tmp_path / "run.dry")
    c.close()
    with pytest.raises(dry.InvalidArgumentError, match=r"run\.dry is closed"):
        Server(c)


def test_steps_that_are_missing_are_no_values(tmp_path):
    """A step of which nothing was committed was a picture of zeros, as if that had been computed."""
    with dry.create(tmp_path / "c.dry", durability="memory") as c:
        c.create_variable("T", "f4", (4, 5), steps=True)
        with c.writer() as w:
            for step in (0, 3):
                with w.step(step):
                    w.put("T", np.full((4, 5), step + 1, "f4"))
        c.commit()
        with Server(c).start() as server:
            ask = Asking(server)
            found = ask("variable", name="T")
            assert (found["missing"], found["missing_count"]) == ([[1, 3]], 2)
            assert 'step 1 of "T" is missing' in ask.refused("picture", 404, name="T", place="1,:,:")
            assert 'step 2 of "T" is missing' in ask.refused("texts", 404, name="T", place="2,0,0")
            header, values = ask.picture(name="T", place=":,1,:")
            assert header["absent"] == 2
            np.testing.assert_array_equal(np.isnan(values).all(axis=1), [False, True, True, False])
            header, values = ask.picture(name="T", place="1:4,1,2")
            np.testing.assert_array_equal(values, [np.nan, np.nan, 4])
            assert ask("texts", name="T", place=":,0,0")["cells"] == [
                ["1.0"],
                ["missing"],
                ["missing"],
                ["4.0"],
            ]
