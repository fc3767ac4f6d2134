"""The `drystone` command: `python -m drystone` does the same."""

import signal
import sys

from drystone._core import cli_main

# Commands that need Python packages; the others are compiled.
IN_PYTHON = {
    "import",
    "export",
    "copy",
    "plot",
    "diff",
    "du",
    "top",
    "view",
    "hdf5-env",
    "doctor",
    "catalog",
    "tag",
    "completion",
    "man",
}


def main() -> int:
    """Run the command with the arguments of the process; gives its exit code."""
    arguments = sys.argv[1:]
    # The command runs outside the interpreter, which would only notice Ctrl-C afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    if command in IN_PYTHON or (command == "publish" and "--hdf5" in arguments):
        from drystone import commands

        return commands.main(arguments)
    code = cli_main(["drystone", *arguments])
    if arguments in (["--help"], ["-h"], ["help"]):
        from drystone import commands

        print("\nWith Python packages:")
        for name, (_, what) in commands.COMMANDS.items():
            print(f"  {name:8} {what[0].upper()}{what[1:]}")
    return code


if __name__ == "__main__":
    sys.exit(main())
