"""A container in the browser: `drystone view` serves a page on this machine only, and answers its requests.

```text
server    HTTP: access control (loopback names, a key, GET), files of the page, answers as JSON or numbers
questions from a checked query to an answer
pictures  a plane, a line or a table of a variable: what is read of it, with which stride, and the cost limit
page/     HTML, CSS and ES modules as they are sent; there is no build step, and nothing is loaded from elsewhere
```

Invariants
- the page reads; nothing is ever written;
- memory is bounded: large arrays are read with strides, and few answers are computed at a time;
- a request that cannot be answered gets one line that tells the user what to do.

"""

from drystone.view.server import Server

__all__ = ["Server"]
