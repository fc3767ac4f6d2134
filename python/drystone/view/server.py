"""HTTP on loopback: access control, the files of the page, and answers.

Other programs of this machine can reach loopback, and so can pages of other sites in the same browser. Hence a request
is answered only if it names this machine (a DNS name that points here is refused), does not come from another site,
and contains the key, which only the printed address holds. The browser keeps the key in a cookie that it sends to no
other site.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from drystone.container import Container
from drystone.view.answers import as_json, page_files, replied
from drystone.view.questions import Questions

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_LONGEST_QUERY = 8192
_AT_A_TIME = 4


class Server:
    """Serves one container on 127.0.0.1 until it is closed; `with` closes it.

    Args:
        container: An open container, which the server refreshes as steps arrive. It stays open.
        port: 0 takes a free one.

    """

    def __init__(self, container: Container, port: int = 0) -> None:
        _ = container.snapshot  # InvalidArgumentError if it is closed
        self.key = secrets.token_urlsafe(18)
        self._questions = Questions(container)
        self._slots = threading.BoundedSemaphore(_AT_A_TIME)
        self._files = page_files()
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.view = self
        self.closed = False

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The URL to open in a browser. It contains the key: anyone who has it can read the container."""
        return f"http://127.0.0.1:{self.port}/?key={self.key}"

    def serve(self) -> None:
        """Answer requests until `close` is called from another thread."""
        self._http.serve_forever(poll_interval=0.2)

    def start(self) -> Self:
        """Serve in a separate thread."""
        threading.Thread(target=self.serve, name="drystone-view", daemon=True).start()
        return self

    def close(self) -> None:
        """Stop. Open connections get no more answers."""
        self.closed = True
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def file(self, path: str) -> tuple[bytes, str] | None:
        """A file of the page, and its type. Only names that existed at the start are known."""
        # Browsers request the icon by this name, whatever the page says.
        names = {"/favicon.ico": "icon.svg", "/": "index.html"}
        return self._files.get(names.get(path, path.removeprefix("/")))

    def answer(self, name: str, query: Mapping[str, str]) -> tuple[HTTPStatus, bytes, str]:
        """The status of an answer, its body, and the body's type."""
        with self._slots:
            return replied(lambda: self._questions.ask(name, query))


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # with the default of 5, a sixth concurrent connection waits a second
    view: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that disconnects is not an error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    server_version = "drystone"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Answers a request, or refuses it with one line."""
        if self.server.view.closed:
            self.close_connection = True
            return
        url = urlsplit(self.path)
        refused = self._refused()
        if refused:
            self._say(HTTPStatus.FORBIDDEN, refused)
            return
        if len(url.query) > _LONGEST_QUERY:
            self._say(HTTPStatus.REQUEST_URI_TOO_LONG, "the question is too long")
            return
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        view = self.server.view
        if url.path == "/" and secrets.compare_digest(query.get("key", "").encode(), view.key.encode()):
            self._welcome()
        elif not self._has_key():
            what = "open the address that `drystone view` printed: it holds a key that this request lacks"
            self._say(HTTPStatus.FORBIDDEN, what)
        elif url.path.startswith("/api/"):
            self._answer(url.path.removeprefix("/api/"), query)
        elif file := view.file(url.path):
            self._send(HTTPStatus.OK, *file)
        else:
            self._say(HTTPStatus.NOT_FOUND, "there is no such page")

    def _refused(self) -> str | None:
        hosts = self.headers.get_all("Host") or []
        name = (
            hosts[0].rsplit(":", 1)[0] if len(hosts) == 1 and not hosts[0].endswith("]") else "".join(hosts)
        )
        if name not in ("127.0.0.1", "localhost", "[::1]"):
            return "this page is for this machine: open it as http://127.0.0.1 or http://localhost"
        origin = self.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != hosts[0]:
            return "pages of other sites may not ask"
        # Any site may link to the address; the key in it gives access.
        followed = self.headers.get("Sec-Fetch-Mode") == "navigate" and urlsplit(self.path).path == "/"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not followed:
            return "pages of other sites may not ask"
        return None

    def _cookie(self) -> str:
        return f"drystone-{self.server.view.port}"

    def _has_key(self) -> bool:
        try:
            kept = SimpleCookie(self.headers.get("Cookie", "")).get(self._cookie())
        except CookieError:
            return False
        given = kept.value if kept is not None else ""
        return secrets.compare_digest(given.encode(), self.server.view.key.encode())

    def _welcome(self) -> None:
        """Moves the key from the address to a cookie, so that it stays in no history."""
        cookie = f"{self._cookie()}={self.server.view.key}; HttpOnly; SameSite=Strict; Path=/"
        body = b'<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>drystone</title>'
        self._send(HTTPStatus.OK, body, "text/html", {"Set-Cookie": cookie})

    def _answer(self, name: str, query: Mapping[str, str]) -> None:
        self._send(*self.server.view.answer(name, query))

    def _say(self, status: HTTPStatus, what: str) -> None:
        if urlsplit(self.path).path.startswith("/api/"):
            self._send(status, as_json({"error": what}), "application/json")
        else:
            self._send(status, f"drystone: {what}\n".encode(), "text/plain")

    def _send(
        self, status: HTTPStatus, body: bytes, kind: str, headers: Mapping[str, str] | None = None
    ) -> None:
        text = kind.startswith("text") or kind.endswith("json")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if text else kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in {**_HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815  (the name that http.server looks for)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Requests that http.server itself refuses: other methods, malformed requests."""
        self.close_connection = True
        what = "only GET is answered" if code == HTTPStatus.NOT_IMPLEMENTED else message or "a bad request"
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        body = as_json({"error": what})
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Allow", "GET, HEAD")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: their URLs tell what the user looks at."""
