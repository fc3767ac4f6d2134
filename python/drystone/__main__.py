"""The `drystone` command: `python -m drystone` does the same."""

import os
import signal
import sys

from drystone import _core, commands
from drystone.commands import small_process


def program() -> int:
    """The command as a program: runs `main`, except that a mount replaces the process by one without the package."""
    if sys.argv[1:2] == ["mount"] and sys.executable and _core.__file__:
        words = [sys.executable, "-I", "-S", small_process.__file__, _core.__file__, *sys.argv[1:]]
        os.execv(sys.executable, words)  # noqa: S606  the words are a list: no shell would add anything
    return main()


def main() -> int:
    """Run the command with the arguments of the process; returns its exit code."""
    # The command runs outside the interpreter, which would only notice Ctrl-C afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return commands.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(program())
