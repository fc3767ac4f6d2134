"""The command in this process, for tests of what it says."""

import contextlib
import io

from drystone import commands


def drystone(*arguments, code=0):
    """Runs a command; what it printed, or of a failure what it said."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        got = commands.main([str(a) for a in arguments])
    assert got == code, err.getvalue()
    return out.getvalue() if code in (0, 1) else err.getvalue()
