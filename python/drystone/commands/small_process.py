"""`drystone mount` in a process without the package: a mount lasts for days, and the package would stay in memory.

As a program: `small_process.py EXTENSION WORD...` runs the command with the words. It imports few modules, all from
the standard library.
"""

import signal
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec


def main() -> int:
    """Run a command of the extension module; returns its exit code."""
    # The command runs outside the interpreter, which would only notice Ctrl-C afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    loader = ExtensionFileLoader("drystone._core", sys.argv[1])
    extension = module_from_spec(ModuleSpec(loader.name, loader, origin=loader.path))
    loader.exec_module(extension)
    code, _ = extension.cli_main(["drystone", *sys.argv[2:]])
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
