"""Runs the command in this process, for tests of its output."""

import contextlib
import io
import os
import tempfile

from drystone import commands


@contextlib.contextmanager
def descriptor(number, into):
    """Captures everything written to a file descriptor, by Python and native code."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(number)
        os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            os.dup2(kept, number)
            os.close(kept)
            file.seek(0)
            into.write(file.read().decode())


def drystone(*arguments, code=0):
    """Run a command; returns its output, or the message of a failure."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(descriptor(1, out))
        stack.enter_context(descriptor(2, err))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        got = commands.main([str(a) for a in arguments])
    assert got == code, err.getvalue()
    return out.getvalue() if code in (0, 1) else err.getvalue()
