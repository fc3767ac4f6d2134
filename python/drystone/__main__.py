"""The `drystone` command: `python -m drystone` does the same."""

import signal
import sys

from drystone import commands


def main() -> int:
    """Run the command with the arguments of the process; gives its exit code."""
    # The command runs outside the interpreter, which would only notice Ctrl-C afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return commands.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
