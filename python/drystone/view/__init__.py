"""A container in the browser: `drystone view` serves a page on this machine alone, and answers its questions.

```text
server    HTTP: who may ask (loopback names, a key, GET), files of the page, answers as JSON or numbers
questions from a query, checked, to an answer
pictures  a plane, a line or a table of a variable: what is read of it, how densely, and what it may cost
page/     HTML, CSS and ES modules as they are sent; nothing is built, nothing comes from elsewhere
```

Invariants
- the page reads; nothing is ever written;
- memory is bounded: large arrays are read with strides, and few answers are made at a time;
- what cannot be answered is one line that a person can act on.
"""

from drystone.view.server import Server

__all__ = ["Server"]
