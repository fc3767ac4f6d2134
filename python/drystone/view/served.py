"""The page of the containers on a server, which checks first that the client may read the container.

Answers are those of `drystone view`; all clients of a container share one open handle. The client must not learn the
container's path on the server: messages contain the name in the URL instead.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from http import HTTPStatus
from urllib.parse import parse_qsl

import drystone
from drystone import errors
from drystone.view.answers import page_files, replied
from drystone.view.questions import Questions

_OPEN = 16


class Pages:
    """The page of each container; opened at the first request, and kept while it was among the last used."""

    def __init__(self) -> None:
        self._files = page_files()
        self._open: OrderedDict[tuple[str, str], Questions] = OrderedDict()
        self._lock = threading.Lock()

    def file(self, name: str) -> tuple[bytes, str] | None:
        """A file of the page, and its type."""
        found = self._files.get(name)
        return None if found is None else (found[0], _typed(found[1]))

    def answer(self, place: str, name: str, question: str, query: str, most: int) -> tuple[int, str, bytes]:
        """Status, type and body of an answer that reads at most `most` bytes."""
        given = dict(parse_qsl(query, keep_blank_values=True))

        def ask() -> object:
            asked = self._questions(place, name, most)
            try:
                return asked.ask(question, given)
            except (errors.ConflictError, errors.NotFoundError):
                if asked.is_there():
                    raise
            with self._lock:  # the path holds another container now
                self._open.pop((place, name), None)
            return self._questions(place, name, most).ask(question, given)

        status, body, kind = replied(ask)
        if status != HTTPStatus.OK:
            body = body.replace(place.encode(), name.encode())
        return int(status), _typed(kind), body

    def _questions(self, place: str, name: str, most: int) -> Questions:
        key = (place, name)
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
        found = Questions(drystone.open(place), name, most)
        with self._lock:
            # Dropped containers close when no request uses them any more.
            found = self._open.setdefault(key, found)
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)
        return found


def _typed(kind: str) -> str:
    return f"{kind}; charset=utf-8" if kind.startswith("text") or kind.endswith("json") else kind
