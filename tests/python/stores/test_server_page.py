"""The page of `drystone view` on a server: the same answers, within the rights of the user, and none for others."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import drystone as dry
import headless
import numpy as np
import pytest
from drystone.view.questions import Questions
from server_rig import Server, fill, served, values


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("page")
    fill(folder / "run42.dry")
    (folder / "scratch").mkdir()
    fill(folder / "scratch" / "other.dry", 1)
    with served(folder) as server:
        yield server


def question(name: str, container: str = "run42", /, **query: object) -> str:
    return f"/v1/c/{container}/page/api/{name}?{urlencode(query)}"


def test_answers_are_those_of_view(server: Server) -> None:
    token = server.token("storage.read:/run42")
    with dry.open(server.folder / "run42.dry") as c:
        questions = Questions(c)
        for name, query in [
            ("tree", {}),
            ("variable", {"name": "T"}),
            ("texts", {"name": "T", "place": "1,:,3"}),
            ("statistics", {"name": "T", "step": "2"}),
            ("layout", {"name": "T"}),
            ("cut", {"name": "T"}),
            ("plan", {"name": "T", "place": "0,0:4,:"}),
        ]:
            status, _, body = server.ask(question(name, **query), token)
            assert status == 200, body
            assert json.loads(body) == json.loads(json.dumps(questions.ask(name, query))), name
    status, headers, body = server.ask(question("picture", name="T", place="2,:,:"), token)
    (length,) = struct.unpack_from("<I", body)
    header = json.loads(body[4 : 4 + length])
    np.testing.assert_array_equal(
        np.frombuffer(body, "<f8", offset=4 + length).reshape(header["shape"]), values(2)
    )
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert headers["cache-control"] == "no-store"


def test_a_token_shows_the_containers_that_it_may_read_and_no_others(server: Server) -> None:
    mine = server.token("storage.read:/run42")
    writes = server.token("storage.modify:/", "storage.create:/")
    for path in ("", "main.js", "api/tree", "api/picture?name=T&place=0,:,:"):
        assert server.ask(f"/v1/c/run42/page/{path}", mine)[0] == 200, path
        assert server.ask(f"/v1/c/scratch/other.dry/page/{path}", mine)[0] == 403, path
        assert server.ask(f"/v1/c/run42/page/{path}", writes)[0] == 403, path  # may write, not read
        status, _, body = server.ask(f"/v1/c/run42/page/{path}")
        assert status == 401, path
        assert b"run42.dry" not in body
        # Users who may not read a container are not told whether it exists.
        assert server.ask(f"/v1/c/nothing/page/{path}")[0] == 401, path
        assert server.ask(f"/v1/c/nothing/page/{path}", mine)[0] == 403, path
    assert server.ask("/v1/c/run42/page/api/tree", mine, "PUT", b"")[0] == 405


def test_a_container_that_is_not_there_is_one_line(server: Server) -> None:
    token = server.token("storage.read:/")
    status, _, body = server.ask(question("tree", "scratch/none.dry"), token)
    assert status == 404
    assert b"no container" in body
    status, _, body = server.ask(question("variable", name="none"), token)
    assert status == 404
    assert json.loads(body)["error"]
    assert server.ask("/v1/c/run42/page/../../o/drystone.json", token)[0] in (400, 404)
    assert server.ask("/v1/c/run42/page/none.js", token)[0] == 404


def test_no_answer_contains_the_path_of_the_container(server: Server) -> None:
    token = server.token("storage.read:/run42")
    status, _, body = server.ask(question("container"), token)
    assert status == 200
    assert json.loads(body)["path"] == "run42"
    for path in (
        question("container"),
        question("variable", name="none"),
        question("layout", name="T"),
        question("plan", name="T", place="0,:,:"),
        question("tree", snapshot=99),
        question("hits", name="T", place="0,:,:", where="nothing > 1"),
    ):
        _, _, body = server.ask(path, token)
        assert str(server.folder).encode() not in body, path


def test_a_page_reads_no_more_than_its_part_of_the_servers_memory(tmp_path: Path) -> None:
    with dry.create(tmp_path / "run42.dry") as c:
        c.create_variable("T", "f8", shape=(1, 1024, 1024))[...] = 1
    server = Server(tmp_path, more='[limits]\nmemory = "16MiB"')
    try:
        token = server.token("storage.read:/")
        status, _, body = server.ask(question("picture", name="T", place="0,:,:"), token)
        assert status == 413, body
        assert json.loads(body)["costs"] >= 8 << 20
        status, _, body = server.ask(question("picture", name="T", place="0,:,:", limit=1 << 40), token)
        assert status == 400
        assert "at most 4.0 MiB" in json.loads(body)["error"]
        assert server.ask(question("picture", name="T", place="0,0:4,:"), token)[0] == 200
    finally:
        assert server.stop() == 0


def test_a_browser_signs_in_by_a_form_and_keeps_the_token_in_a_cookie(server: Server) -> None:
    token = server.token("storage.read:/run42")
    status, headers, body = server.ask("/v1/c/run42/page/")
    assert status == 401
    assert b'name="token"' in body
    assert "form-action 'self'" in headers["content-security-policy"]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)

    def asked(method: str, path: str, body: str | None = None, **more: str) -> http.client.HTTPResponse:
        connection.request(method, path, body, more)
        reply = connection.getresponse()
        reply.text = reply.read()  # type: ignore[attr-defined]
        return reply

    # A wrong token shows the form again; one for another container gives another message.
    assert asked("POST", "/v1/c/run42/page/", "token=abc").status == 401
    assert asked("POST", "/v1/c/run42/page/", "token=a%0d%0aSet-Cookie:x").status == 401
    assert asked("POST", "/v1/c/scratch/other.dry/page/", f"token={token}").status == 403
    assert asked("POST", "/v1/c/run42/page/", "token=" + "x" * 20_000).status == 400
    reply = asked("POST", "/v1/c/run42/page/", f"token={token}")
    assert (reply.status, reply.headers["Location"]) == (303, "./")
    cookie = reply.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/v1/c/run42/page/"} <= set(cookie.split("; "))
    kept = cookie.split(";")[0]
    assert asked("GET", "/v1/c/run42/page/", Cookie=kept).status == 200
    assert asked("GET", question("tree"), Cookie=kept).status == 200
    assert asked("GET", "/v1/c/run42/page").status == 308
    # The cookie is valid for pages of this container only; pages of other sites cannot use it.
    assert asked("GET", "/v1/c/run42/o/drystone.json", Cookie=kept).status == 401
    assert asked("GET", question("tree", "scratch/other.dry"), Cookie=kept).status == 403
    assert asked("GET", question("tree"), Cookie=kept, **{"Sec-Fetch-Site": "cross-site"}).status == 403
    assert asked("GET", question("tree"), Cookie=kept, Origin="http://evil.example").status == 403
    connection.close()


def test_a_token_that_is_revoked_shows_nothing_any_more(server: Server) -> None:
    from server_rig import drystone

    token = server.token("storage.read:/run42")
    assert server.ask(question("tree"), token)[0] == 200
    ids = [line.split('"')[1] for line in server.tokens.read_text().splitlines() if line.startswith("id")]
    assert drystone("token", "revoke", server.tokens, ids[-1]).returncode == 0
    until = time.monotonic() + 20
    while server.ask(question("tree"), token)[0] != 401:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_the_users_own_socket_needs_no_token_but_the_name_of_this_machine(server: Server) -> None:
    def asked(host: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(server.folder / "server.sock"))
            path = question("tree")
            peer.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            found = b""
            while piece := peer.recv(1 << 16):
                found += piece
        return found.split(b"\r\n", 1)[0]

    assert b"200" in asked("localhost:8737")
    assert b"403" in asked("rebound.example")


def test_new_steps_and_a_replaced_container_are_seen(tmp_path: Path) -> None:
    import shutil

    fill(tmp_path / "run42.dry", 1)
    server = Server(tmp_path)
    try:
        token = server.token("storage.read:/")

        def last() -> int:
            _, _, body = server.ask(question("state"), token)
            return json.loads(body)["steps"]["last"]

        assert last() == 0
        with dry.open(tmp_path / "run42.dry", "r+") as c, c.writer(rank=0, nranks=1) as w, w.step() as t:
            w.put("T", values(t))
        assert last() == 1
        shutil.rmtree(tmp_path / "run42.dry")
        fill(tmp_path / "run42.dry", 5)
        assert last() == 4
    finally:
        assert server.stop() == 0


@pytest.mark.slow
def test_a_person_signs_in_with_a_browser_and_sees_the_values(server: Server) -> None:
    if headless.program() is None:
        pytest.skip(
            "no Chromium in PATH: apt-get install chromium-headless-shell, or name one in DRYSTONE_BROWSER"
        )
    token = server.token("storage.read:/run42")
    address = f"http://127.0.0.1:{server.port}/v1/c/run42/page/"
    with headless.Browser() as window:
        window.open(address)
        window.wait("!!document.querySelector('input[name=token]')")
        window.problems.clear()  # the browser logs the status 401 as an error
        window.run(f"document.querySelector('input[name=token]').value = '{token}'")
        window.run("document.querySelector('button').click()")
        window.wait("document.body?.dataset.ready === 'yes'")
        assert token not in window.run("location.href + document.cookie")
        assert window.text("#where") == "run42"
        window.run("location.hash = 'T'")
        window.wait("document.querySelector('#image')?.dataset.shows === '2,0,0'")
        window.run("document.querySelector('#image').focus()")
        window.press("ArrowRight")
        _, row, column = json.loads(window.wait("document.querySelector('#cell')?.textContent"))
        assert float(window.text("#under")) == values(2)[row, column]
        assert not window.problems
        own = (address, "blob:", "data:", "about:")
        assert [url for url in window.requests if not url.startswith(own)] == []
