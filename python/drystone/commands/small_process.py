"""`drystone mount` in a process without the package: it lasts for days, and what only Python needs would stay in memory.

As a program: `small_process.py EXTENSION WORD...` runs the command with the words. It imports nothing that a bare
interpreter lacks.
"""

import sys


def main() -> int:
    """Run a command of the extension module; gives its exit code."""
    import _signal  # noqa: PLC0415, PLC2701

    # The command runs outside the interpreter, which would only notice Ctrl-C afterwards.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from importlib.machinery import ExtensionFileLoader, ModuleSpec  # noqa: PLC0415
    from importlib.util import module_from_spec  # noqa: PLC0415

    loader = ExtensionFileLoader("drystone._core", sys.argv[1])
    extension = module_from_spec(ModuleSpec(loader.name, loader, origin=loader.path))
    loader.exec_module(extension)
    code, _ = extension.cli_main(["drystone", *sys.argv[2:]])
    return code


if __name__ == "__main__":
    sys.exit(main())
