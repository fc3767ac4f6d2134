"""The command in this process, for tests of what it says."""

import contextlib
import io
import os
import tempfile

from drystone import commands


@contextlib.contextmanager
def descriptor(number, into):
    """What is written to a file descriptor, by whichever language, goes into a text."""
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
    """Runs a command; what it printed, or of a failure what it said."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(descriptor(1, out))
        stack.enter_context(descriptor(2, err))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        got = commands.main([str(a) for a in arguments])
    assert got == code, err.getvalue()
    return out.getvalue() if code in (0, 1) else err.getvalue()
